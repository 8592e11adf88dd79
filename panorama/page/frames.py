"""Tiles come in; the frame of each goes out as a JPEG, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.page.tiles import Tile
from panorama.shown.hit_frames import NoFrame, Stamps, frames_of

MAX_SIDE = 640
"""Longest side of a frame in pixels; a tile is half as wide, and screens show two pixels per point."""
JPEG_QUALITY = 78


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as a JPEG, with the size in pixels of the frame as displayed, to which boxes refer."""

    jpeg: bytes
    width: int
    height: int


def frames_on_page(tiles: Sequence[Tile], paths: Mapping[str, str], stamps: Stamps) -> list[Frame | NoFrame]:
    """The frame of each tile, in the order of the tiles.

    Args:
        paths: video name -> file.
        stamps: timestamps of the tiles' frames; see `frames_of`.
    """
    found: dict[int, Frame | NoFrame] = {}
    last: tuple[NDArray[np.uint8], Frame] | None = None
    for number, shown in frames_of([tile.hit for tile in tiles], paths, stamps):
        if isinstance(shown, NoFrame):
            found[number] = shown
            continue
        if last is None or last[0] is not shown:  # several tracks may be in one frame
            last = (shown, _frame(shown))
        found[number] = last[1]
    return [found[number] for number in range(len(tiles))]


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
