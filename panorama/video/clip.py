"""An interval of a video and boxes come in; a small MP4 that any player can show goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from av.container import OutputContainer
from numpy.typing import NDArray

from panorama.errors import LibraryWriteError, UsageError, VideoError
from panorama.video.own_clips import TAG
from panorama.video.reader import TIME_TOLERANCE_SECONDS, VideoFrame, VideoReader
from panorama.video.sound import Sound
from panorama.whole_files import replaced

CLIP_TIME_BASE = Fraction(1, 90_000)
FAR_APART_SECONDS = 300
FAR_APART_TIME_BASE = Fraction(1, 1000)
"""The time base for frames farther apart than this, as in a time lapse: an MP4 stores the time between two
frames in 31 bits, and the delay from decoding to display, which is five frames, in 28.
"""
BOX_COLOR_RGB = (255, 64, 32)
X264_OPTIONS = {"crf": "23", "preset": "veryfast", "colorspace": "smpte170m", "color_range": "tv"}
"""`colorspace` names the matrix that the scaler applies to RGB; without it, players guess by the size."""

Boxes = Mapping[int, Sequence[Sequence[float]]]
"""Frame index to boxes x1, y1, x2, y2 in pixels of the displayed frame."""


def write_clip(
    reader: VideoReader,
    start_seconds: float,
    stop_seconds: float,
    path_out: Path | str,
    *,
    boxes: Boxes | None = None,
    stamps: Mapping[int, int] | None = None,
) -> int:
    """Re-encode the frames of [start, stop), keeping their times, as an H.264 MP4; returns their number.

    The clip includes the sound that can be decoded, if the container's timestamps relate it to the frames.

    The first frame is the one shown at `start_seconds`, so a short interval is never empty. The file appears
    under its name only when it is complete.

    Args:
        reader: the video; it stays open, since other clips of it need the times of its frames, too.
        boxes: boxes to draw, by frame index.
        stamps: frame index -> pts of frames with boxes. In a damaged file an index, which counts decoded
            frames, depends on where decoding begins; the pts identifies the frame all the same.

    Raises:
        UsageError: the interval is empty.
        VideoError: no frame can be decoded there, or the pictures cannot be encoded, such as those that are
            too large for H.264.
        LibraryWriteError: the clip cannot be written.
    """
    if not stop_seconds > start_seconds:
        raise UsageError(f"a clip needs start < stop, got {start_seconds} and {stop_seconds} seconds")
    path_out = Path(path_out)
    by_index = dict(boxes or {})
    by_pts = {pts: by_index.pop(index) for index, pts in (stamps or {}).items() if index in by_index}
    first = reader.frame_at(start_seconds)
    try:
        with replaced(path_out) as partial, av.open(f"file:{partial}", "w", format="mp4") as container:
            container.metadata.update(TAG)
            return _encode(reader, first, stop_seconds, container, by_index, by_pts)
    except OSError as exc:  # of the place, and so of all clips there
        raise LibraryWriteError(f"the clip {path_out} cannot be written: {exc.strerror or exc}") from exc
    except av.FFmpegError as exc:  # of this video alone
        size = f"{reader.info.width}x{reader.info.height}"
        raise VideoError(
            f"its pictures, {size} pixels, cannot be encoded as H.264: {exc.strerror or exc}"
        ) from exc


def _encode(
    reader: VideoReader,
    first: VideoFrame,
    stop_seconds: float,
    container: OutputContainer,
    by_index: Boxes,
    by_pts: Boxes,
) -> int:
    rate = reader.info.average_rate or 25
    far_apart = _widest_step(reader, first, stop_seconds) > FAR_APART_SECONDS
    time_base = FAR_APART_TIME_BASE if far_apart else CLIP_TIME_BASE
    stream = container.add_stream(
        "libx264",
        rate=Fraction(rate).limit_denominator(1001),
        options=X264_OPTIONS | ({"bf": "0"} if far_apart else {}),
    )
    # H.264 in yuv420p needs even sides.
    stream.width, stream.height = (max(2, side // 2 * 2) for side in (reader.info.width, reader.info.height))
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = time_base
    sound = _sound_of(reader, first, stop_seconds, container)
    count = 0
    last_pts = -1
    for frame in reader.frames_from(first.pts):
        if count and frame.time_seconds >= stop_seconds - TIME_TOLERANCE_SECONDS:
            break
        rgb = frame.rgb()
        for box in by_pts.get(frame.pts, by_index.get(frame.index, ())):
            draw_box(rgb, box)
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb[: stream.height, : stream.width]))
        last_pts = max(last_pts + 1, round((frame.time_seconds - first.time_seconds) / time_base))
        picture.pts, picture.time_base = last_pts, time_base
        container.mux(stream.encode(picture))
        sound.mux_until(last_pts * time_base)
        count += 1
    container.mux(stream.encode(None))
    sound.mux_until(stop_seconds - first.time_seconds)
    return count


def _widest_step(reader: VideoReader, first: VideoFrame, stop_seconds: float) -> float:
    """The longest time in seconds between two consecutive frames of a clip."""
    seconds = reader.times().seconds
    inside = seconds[(seconds >= first.time_seconds) & (seconds < stop_seconds)]
    return float(np.diff(inside).max(initial=0.0))


def _sound_of(
    reader: VideoReader, first: VideoFrame, stop_seconds: float, container: OutputContainer
) -> Sound:
    start = float(first.pts * reader.info.time_base)
    stop = start + stop_seconds - first.time_seconds if reader.keeps_stamps else start
    return Sound(Path(reader.info.path), start, stop, container)


def draw_box(rgb: NDArray[np.uint8], box_xyxy: Sequence[float]) -> None:
    """Draw a half-open box x1, y1, x2, y2 into an RGB picture, in place."""
    x1, y1, x2, y2 = (round(float(v)) for v in box_xyxy)
    thickness = max(2, round(max(rgb.shape[:2]) / 400))
    cv2.rectangle(rgb, (x1, y1), (x2 - 1, y2 - 1), BOX_COLOR_RGB, thickness)
