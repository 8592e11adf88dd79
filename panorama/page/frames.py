"""Tiles enter; the frame of each leaves as a JPEG, or in its place why there is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import VideoError
from panorama.page.tiles import Tile
from panorama.sheet import Hit, shown_frame
from panorama.video import VideoFrame, VideoReader, open_video

MAX_SIDE = 640
"""Longest side of a frame on a page, in pixels: a tile is half as wide, and screens show two a point."""
JPEG_QUALITY = 78

NEAR = 120
"""Frames that are decoded on to instead of sought: a seek begins at a keyframe, about as far before."""

GONE = "The file of this video is gone. If it was moved, index it where it is now."
UNREAD = "The file of this video cannot be read there."
UNKNOWN = "The library has no video of this name."


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as a JPEG, with the size in pixels of the frame as displayed, in which boxes count."""

    jpeg: bytes
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class NoFrame:
    """Why there is no picture: `told` on the page, without paths; `error` where the command line says it."""

    told: str
    error: str


def frames_of(tiles: Sequence[Tile], paths: Mapping[str, str]) -> list[Frame | NoFrame]:
    """The frame of each tile, in their order; every file is opened once and read forwards.

    Args:
        paths: video name -> file.
    """
    found: dict[int, Frame | NoFrame] = {}
    of_video: defaultdict[str, list[int]] = defaultdict(list)
    for number, tile in enumerate(tiles):
        of_video[tile.hit.video].append(number)
    for video, numbers in of_video.items():
        if video not in paths:
            found |= dict.fromkeys(numbers, NoFrame(UNKNOWN, f"{video}: {UNKNOWN}"))
        elif not Path(paths[video]).exists():
            found |= dict.fromkeys(numbers, NoFrame(GONE, f"{video}: {GONE}"))
        else:
            numbers.sort(key=lambda n: (tiles[n].hit.frame or 0, tiles[n].hit.time_seconds))
            found |= _read(paths[video], [(n, tiles[n]) for n in numbers])
    return [found[number] for number in range(len(tiles))]


def _read(path: str, tiles: Sequence[tuple[int, Tile]]) -> dict[int, Frame | NoFrame]:
    """The frames of tiles of one video, which come in the order of their frames."""
    found: dict[int, Frame | NoFrame] = {}
    made: dict[int, Frame] = {}  # several tracks may be shown in one frame
    try:
        with open_video(path) as reader:
            forwards = _Forwards(reader)
            for number, tile in tiles:
                try:
                    frame = forwards.to(tile.hit)
                    if frame.index not in made:
                        made = {frame.index: _frame(frame.rgb())}
                    found[number] = made[frame.index]
                except VideoError as exc:
                    found[number] = NoFrame(UNREAD, f"{tile.hit.video}: {exc}")
    except VideoError as exc:
        found |= {n: NoFrame(UNREAD, f"{t.hit.video}: {exc}") for n, t in tiles if n not in found}
    return found


class _Forwards:
    """Frames of a video in their order: near ones are decoded on to, for far ones the reader seeks."""

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._running: Iterator[VideoFrame] = iter(())
        self._last: VideoFrame | None = None

    def to(self, hit: Hit) -> VideoFrame:
        """The frame of a hit, not before that of the last.

        Raises:
            VideoError: it cannot be decoded.
        """
        if hit.frame is None:
            self._last = None  # the reader goes elsewhere
            return shown_frame(self._reader, hit)
        wanted = int(hit.frame)
        if self._last is None or wanted - self._last.index > NEAR:
            self._running, self._last = self._reader.frames(start=wanted), None
        while self._last is None or self._last.index < wanted:
            self._last = next(self._running, None)
            if self._last is None:
                return shown_frame(self._reader, hit)
        return self._last


def _frame(rgb: NDArray[np.uint8]) -> Frame:
    """(H, W, 3) as a JPEG of at most MAX_SIDE pixels."""
    height, width = rgb.shape[:2]
    factor = MAX_SIDE / max(height, width)
    if factor < 1:
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        rgb = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)
    how = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
    _, data = cv2.imencode(".jpg", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), how)
    return Frame(data.tobytes(), width, height)
