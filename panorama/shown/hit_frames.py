"""Hits come in; the frame of each goes out, read file by file and forwards, or why there is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command
from panorama.errors import UnknownVideo, VideoError, VideoOpenError, unknown
from panorama.folders import video_is_gone
from panorama.shown.hits import Hit
from panorama.shown.track_boxes import TrackBoxes
from panorama.video import VideoFrame, VideoReader, open_video

NEAR = 120
"""Decode on to frames at most this far ahead; for others seek, which starts at a keyframe as far before."""

GONE = "The file of this video is gone. If it was moved, index it where it is now."
UNREAD = "The file of this video cannot be read at this point."
UNKNOWN = "The library has no video of this name."
LOST = "The file of this video is damaged at this point: the indexed frame no longer decodes."

Stamps = Mapping[tuple[str, int], int]
"""(video, frame) -> pts, as returned by `TrackBoxes.stamps`."""


@dataclass(frozen=True, slots=True)
class NoFrame:
    """Why there is no picture: `told` goes beside the video's name, without paths; `error` stands alone."""

    told: str
    error: str


def file_of_hit(video: str, paths: Mapping[str, str]) -> str:
    """The file of a video.

    Args:
        paths: video name -> file.

    Raises:
        UnknownVideo: there is no video with this name.
        VideoOpenError: its file is missing.
    """
    if video not in paths:
        raise UnknownVideo(unknown("video", video, paths, command("videos")))
    if video_is_gone(Path(paths[video])):
        raise VideoOpenError(f"{video} is gone; if it was moved, index it where it is now")
    return paths[video]


def stamps_of(hits: Sequence[Hit], tracks: TrackBoxes) -> Stamps:
    """The timestamps of the frames that hits name."""
    return tracks.stamps((hit.video, hit.frame) for hit in hits if hit.frame is not None)


def frames_of(
    hits: Sequence[Hit], paths: Mapping[str, str], stamps: Stamps
) -> Iterator[tuple[int, NDArray[np.uint8] | NoFrame]]:
    """The index of each hit, with its frame (H, W, 3) as displayed or the reason why there is none.

    The order is not that of the hits: every file is opened once and read forwards. Consecutive hits in the
    same frame get the same array.

    Args:
        paths: video name -> file.
        stamps: timestamps of the hits' frames, which identify them even in damaged files; without one, the
            frame's number does.
    """
    of_video: defaultdict[str, list[int]] = defaultdict(list)
    for number, hit in enumerate(hits):
        of_video[hit.video].append(number)
    for video, numbers in of_video.items():
        try:
            path = file_of_hit(video, paths)
        except (UnknownVideo, VideoOpenError) as exc:
            why = NoFrame(UNKNOWN if isinstance(exc, UnknownVideo) else GONE, str(exc))
            yield from ((number, why) for number in numbers)
        else:
            numbers.sort(key=lambda n: (hits[n].frame or 0, hits[n].time_seconds))
            yield from _read(path, [(n, hits[n], _pts(hits[n], stamps)) for n in numbers])


def _pts(hit: Hit, stamps: Stamps) -> int | None:
    """The pts of a hit's frame; None if it is unknown or the hit names no frame."""
    return None if hit.frame is None else stamps.get((hit.video, hit.frame))


def _read(
    path: str, hits: Sequence[tuple[int, Hit, int | None]]
) -> Iterator[tuple[int, NDArray[np.uint8] | NoFrame]]:
    """The frames of the hits of one video, which are ordered by frame and given with their pts."""
    done = 0
    try:
        with open_video(path) as reader:
            forwards = _Forwards(reader)
            for number, hit, pts in hits:
                found: NDArray[np.uint8] | NoFrame
                try:
                    picture = forwards.picture(hit, pts)
                except VideoError as exc:
                    found = NoFrame(UNREAD, f"{hit.video}: {exc}")
                else:
                    lost = f"{hit.video}: frame {hit.frame} no longer decodes as it did when it was indexed"
                    found = NoFrame(LOST, lost) if picture is None else picture
                done += 1
                yield number, found
    except VideoError as exc:
        yield from ((n, NoFrame(UNREAD, f"{hit.video}: {exc}")) for n, hit, _ in hits[done:])


class _Forwards:
    """Frames of a video in order; decodes on to near frames and seeks to far ones."""

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._pts_of = reader.times().pts
        self._running: Iterator[VideoFrame] = iter(())
        self._last: VideoFrame | None = None
        self._shown: tuple[int, NDArray[np.uint8]] | None = None

    def picture(self, hit: Hit, pts: int | None) -> NDArray[np.uint8] | None:
        """The frame of a hit, which must not be before the previous hit's: (H, W, 3); the same array for the
        same frame.

        Args:
            pts: of the frame when it was indexed; None if unknown.

        Returns:
            None if the file still lists this frame, but it does not decode.

        Raises:
            VideoError: the file cannot be decoded there.
        """
        frame = self._frame(hit, pts)
        if frame is not None and (self._shown is None or self._shown[0] != frame.pts):
            self._shown = (frame.pts, frame.rgb())
        return None if frame is None or self._shown is None else self._shown[1]

    def _frame(self, hit: Hit, pts: int | None) -> VideoFrame | None:
        # Use the frame of the box: for a moment, it is the best view, not the start.
        number = len(self._pts_of) if hit.frame is None else hit.frame
        if pts is not None and pts in self._pts_of:
            return self._at(pts)
        # Without the library, or if the file has changed since: use the frame's number, or its time.
        found = self._at(int(self._pts_of[number])) if number < len(self._pts_of) else None
        if found is None:
            self._last = None  # frame_at moves the reader
            found = self._reader.frame_at(hit.time_seconds)
        return found

    def _at(self, pts: int) -> VideoFrame | None:
        """The frame with this pts; None if decoding does not give it."""
        gap = None if self._last is None else self._position(pts) - self._position(self._last.pts)
        if gap is None or not 0 <= gap <= NEAR:
            self._running, self._last = self._reader.frames_from(pts), None
        if not self._read_on(pts):
            self._running, self._last = self._reader.frames(), None
            self._read_on(pts)
        return self._last if self._last is not None and self._last.pts == pts else None

    def _position(self, pts: int) -> int:
        return int(np.searchsorted(self._pts_of, pts))

    def _read_on(self, pts: int) -> bool:
        """Decode up to the first frame that is not before this pts; returns whether it has this pts."""
        while self._last is None or self._last.pts < pts:
            self._last = next(self._running, None)
            if self._last is None:
                return False
        return self._last.pts == pts
