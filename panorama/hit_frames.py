"""Hits enter; the frame of each leaves, file by file and read forwards, or in its place why there is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.errors import UnknownVideo, VideoError, VideoOpenError, unknown
from panorama.video import VideoFrame, VideoReader, open_video

if TYPE_CHECKING:
    from panorama.sheet import Hit

NEAR = 120
"""Frames that are decoded on to instead of sought: a seek begins at a keyframe, about as far before."""

GONE = "The file of this video is gone. If it was moved, index it where it is now."
UNREAD = "The file of this video cannot be read there."
UNKNOWN = "The library has no video of this name."


@dataclass(frozen=True, slots=True)
class NoFrame:
    """Why there is no picture: `told` beside the video's name, without paths; `error` by itself."""

    told: str
    error: str


def file_of_hit(video: str, paths: Mapping[str, str]) -> str:
    """The file of a video.

    Args:
        paths: video name -> file.

    Raises:
        UnknownVideo: none has this name.
        VideoOpenError: its file is gone.
    """
    if video not in paths:
        raise UnknownVideo(unknown("video", video, paths, "panorama videos"))
    if not Path(paths[video]).exists():
        raise VideoOpenError(f"{video} is gone; if it was moved, index it where it is now")
    return paths[video]


def frames_of(
    hits: Sequence[Hit], paths: Mapping[str, str]
) -> Iterator[tuple[int, NDArray[np.uint8] | NoFrame]]:
    """The number of each hit, with its frame (H, W, 3) as displayed or why there is none.

    Not in the order of the hits: every file is opened once and read forwards. Hits that follow each other in
    one frame get the same array.

    Args:
        paths: video name -> file.
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
            numbers.sort(key=lambda n: (int(hits[n].frame or 0), hits[n].time_seconds))
            yield from _read(path, [(n, hits[n]) for n in numbers])


def _read(path: str, hits: Sequence[tuple[int, Hit]]) -> Iterator[tuple[int, NDArray[np.uint8] | NoFrame]]:
    """The frames of hits of one video, which come in the order of their frames."""
    done = 0
    try:
        with open_video(path) as reader:
            forwards = _Forwards(reader)
            for number, hit in hits:
                found: NDArray[np.uint8] | NoFrame
                try:
                    found = forwards.picture(hit)
                except VideoError as exc:
                    found = NoFrame(UNREAD, f"{hit.video}: {exc}")
                done += 1
                yield number, found
    except VideoError as exc:
        yield from ((n, NoFrame(UNREAD, f"{hit.video}: {exc}")) for n, hit in hits[done:])


class _Forwards:
    """Frames of a video in their order: near ones are decoded on to, for far ones the reader seeks."""

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._running: Iterator[VideoFrame] = iter(())
        self._last: VideoFrame | None = None
        self._shown: tuple[int, NDArray[np.uint8]] | None = None

    def picture(self, hit: Hit) -> NDArray[np.uint8]:
        """The frame of a hit, not before that of the last: (H, W, 3); again the same where it is the same.

        Raises:
            VideoError: it cannot be decoded.
        """
        frame = self._frame(hit)
        if self._shown is None or self._shown[0] != frame.index:
            self._shown = (frame.index, frame.rgb())
        return self._shown[1]

    def _frame(self, hit: Hit) -> VideoFrame:
        # That of its box: a moment's is its best view, not its start.
        if hit.frame is None:
            self._last = None  # the reader goes elsewhere
            return self._reader.frame_at(hit.time_seconds)
        wanted = int(hit.frame)
        if self._last is None or wanted - self._last.index > NEAR:
            self._running, self._last = self._reader.frames(start=wanted), None
        while self._last is None or self._last.index < wanted:
            self._last = next(self._running, None)
            if self._last is None:
                # The last frame, or damage that decoding on does not get over.
                sought = next(self._reader.frames(start=wanted), None)
                return self._reader.frame_at(hit.time_seconds) if sought is None else sought
        return self._last
