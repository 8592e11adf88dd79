"""Hits enter; the frame of each leaves, file by file and read forwards, or in its place why there is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command
from panorama.errors import UnknownVideo, VideoError, VideoOpenError, unknown
from panorama.shown.hits import Hit
from panorama.shown.track_boxes import TrackBoxes
from panorama.video import VideoFrame, VideoReader, is_gone, open_video

NEAR = 120
"""Frames that are decoded on to instead of sought: a seek begins at a keyframe, about as far before."""

GONE = "The file of this video is gone. If it was moved, index it where it is now."
UNREAD = "The file of this video cannot be read at this point."
UNKNOWN = "The library has no video of this name."
LOST = "The file of this video is damaged at this point: the indexed frame no longer decodes."

Stamps = Mapping[tuple[str, int], int]
"""(video, frame) -> pts, as `TrackBoxes.stamps` finds them."""


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
        raise UnknownVideo(unknown("video", video, paths, command("videos")))
    if is_gone(Path(paths[video])):
        raise VideoOpenError(f"{video} is gone; if it was moved, index it where it is now")
    return paths[video]


def stamps_of(hits: Sequence[Hit], tracks: TrackBoxes) -> Stamps:
    """Those of the frames that hits name."""
    return tracks.stamps((hit.video, hit.frame) for hit in hits if hit.frame is not None)


def frames_of(
    hits: Sequence[Hit], paths: Mapping[str, str], stamps: Stamps
) -> Iterator[tuple[int, NDArray[np.uint8] | NoFrame]]:
    """The number of each hit, with its frame (H, W, 3) as displayed or why there is none.

    Not in the order of the hits: every file is opened once and read forwards. Hits that follow each other in
    one frame get the same array.

    Args:
        paths: video name -> file.
        stamps: of the frames of the hits, which tell them in damaged files, too; without one its number does.
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
            yield from _read(path, [(n, hits[n], stamps.get((video, hits[n].frame or 0))) for n in numbers])


def _read(
    path: str, hits: Sequence[tuple[int, Hit, int | None]]
) -> Iterator[tuple[int, NDArray[np.uint8] | NoFrame]]:
    """The frames of hits of one video, which come in the order of their frames, each with its pts."""
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
    """Frames of a video in their order: near ones are decoded on to, for far ones the reader seeks."""

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._pts_of = reader.times().pts
        self._running: Iterator[VideoFrame] = iter(())
        self._last: VideoFrame | None = None
        self._shown: tuple[int, NDArray[np.uint8]] | None = None

    def picture(self, hit: Hit, pts: int | None) -> NDArray[np.uint8] | None:
        """The frame of a hit, not before that of the last: (H, W, 3); again the same where it is the same.

        Args:
            pts: of the frame when it was indexed, None where that is not known.

        Returns:
            None where the file still has this frame, and it does not come out.

        Raises:
            VideoError: it cannot be decoded.
        """
        frame = self._frame(hit, pts)
        if frame is not None and (self._shown is None or self._shown[0] != frame.pts):
            self._shown = (frame.pts, frame.rgb())
        return None if frame is None or self._shown is None else self._shown[1]

    def _frame(self, hit: Hit, pts: int | None) -> VideoFrame | None:
        # That of its box: a moment's is its best view, not its start.
        number = len(self._pts_of) if hit.frame is None else hit.frame
        if pts is not None and pts in self._pts_of:
            return self._at(pts)
        # Asked without the library, or of a file that has changed since: its number tells, or its time.
        found = self._at(int(self._pts_of[number])) if number < len(self._pts_of) else None
        if found is None:
            self._last = None  # the reader goes elsewhere
            found = self._reader.frame_at(hit.time_seconds)
        return found

    def _at(self, pts: int) -> VideoFrame | None:
        """The frame with this pts, None where none comes out that has it."""
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
        """Decode on to the first frame that is not before this pts; whether it is the one."""
        while self._last is None or self._last.pts < pts:
            self._last = next(self._running, None)
            if self._last is None:
                return False
        return self._last.pts == pts
