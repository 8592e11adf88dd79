"""Pictures with lines of text come in; one picture of all goes out, four in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.lettering import draw_text, ends, text_width
from panorama.picture_files import MOST_SIDE, check_size
from panorama.shown.track_boxes import Box

TILE_WIDTH, TILE_HEIGHT = 320, 200
LINE_HEIGHT = 15
"""Pixels from one line of a caption to the next."""
GAP = 6
"""Pixels between two tiles, and around all of them."""
ACROSS = 4
"""Tiles in a row."""
_PAPER, _INK, _DIM, _BOX = (24, 24, 27), (240, 240, 240), (160, 160, 165), (80, 220, 120)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a caption.

    Attributes:
        name, facts, end_share: see `beside`.
        right: text at the right end, for which the others leave room.
        files: names of files instead of all that; see `panorama.lettering.ends`.
    """

    name: str = ""
    facts: str = ""
    end_share: float = 1.0
    right: str = ""
    files: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.name or self.facts or self.right or self.files)

    def within(self, room: int, size: float) -> str:
        """All but what stands at its right end, shortened to `room` pixels."""
        if self.files:
            return ends(self.files, room, size)
        return beside(self.name, self.facts, room, size, self.end_share)


@dataclass(frozen=True, slots=True)
class Tile:
    """A picture (TILE_HEIGHT, TILE_WIDTH, 3) and its caption: the first line is larger and brighter."""

    picture: NDArray[np.uint8]
    lines: Sequence[Line]


def fitted(rgb: NDArray[np.uint8], box_xyxy: Box | None = None) -> NDArray[np.uint8]:
    """A picture (H, W, 3) as that of a tile, whole, with a box of it drawn."""
    height, width = rgb.shape[:2]
    factor = min(TILE_WIDTH / width, TILE_HEIGHT / height)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    if box_xyxy is not None:
        x1, y1, x2, y2 = (round(c * factor) for c in box_xyxy)
        cv2.rectangle(small, (x1, y1), (x2 - 1, y2 - 1), (0, 0, 0), 3, cv2.LINE_AA)
        cv2.rectangle(small, (x1, y1), (x2 - 1, y2 - 1), _BOX, 1, cv2.LINE_AA)
    tile = np.zeros((TILE_HEIGHT, TILE_WIDTH, 3), np.uint8)
    y, x = (TILE_HEIGHT - size[1]) // 2, (TILE_WIDTH - size[0]) // 2
    tile[y : y + size[1], x : x + size[0]] = small
    return tile


def grid(tiles: Sequence[Tile], told: str) -> NDArray[np.uint8]:
    """All tiles in one picture.

    Args:
        told: to be written if there are none.
    """
    cell_height = _cell_height([tile.lines for tile in tiles])
    sheet = np.full((*_size(len(tiles), cell_height), 3), _PAPER, np.uint8)
    for i, tile in enumerate(tiles):
        y, x = GAP + (i // ACROSS) * (cell_height + GAP), GAP + (i % ACROSS) * (TILE_WIDTH + GAP)
        sheet[y : y + TILE_HEIGHT, x : x + TILE_WIDTH] = tile.picture
        _caption(sheet, tile.lines, x, y + TILE_HEIGHT)
    if not tiles:
        draw_text(sheet, told, (20, 60), 0.8, _INK)
    return sheet


def check_fits(out: Path, captions: Sequence[Sequence[Line]], what: str) -> None:
    """Refuse a sheet that is too large for its format; raises UsageError.

    Args:
        captions: the lines of every tile.
        what: the tiles show, such as 'hits'.
    """
    cell_height = _cell_height(captions)
    height, width = _size(len(captions), cell_height)
    rows = (MOST_SIDE.get(out.suffix.lower(), height) - GAP) // (cell_height + GAP)
    check_size(out, width, height, f", or draw at most {rows * ACROSS} of the {len(captions)} {what}")


def _cell_height(captions: Sequence[Sequence[Line]]) -> int:
    """Height of a tile with its caption: two lines, or more if any of them has something there."""
    lines = max([2, *(at for caption in captions for at, line in enumerate(caption, 1) if line)])
    return TILE_HEIGHT + lines * LINE_HEIGHT + 4


def _size(count: int, cell_height: int) -> tuple[int, int]:
    """Height and width of a sheet of so many tiles."""
    rows, used = max(1, -(-count // ACROSS)), min(ACROSS, max(1, count))
    return rows * (cell_height + GAP) + GAP, used * (TILE_WIDTH + GAP) + GAP


def _caption(sheet: NDArray[np.uint8], lines: Sequence[Line], x: int, y: int) -> None:
    for number, line in enumerate(lines):
        size, ink = (0.38, _DIM) if number else (0.45, _INK)
        room, base = TILE_WIDTH - 8, y + 14 + number * LINE_HEIGHT
        if line.right:
            width = text_width(line.right, 0.38)
            draw_text(sheet, line.right, (x + 4 + room - width, base), 0.38, _DIM)
            room -= width + 8
        draw_text(sheet, line.within(room, size), (x + 4, base), size, ink)


def beside(name: str, facts: str, room: int, size: float, end_share: float = 1 / 3) -> str:
    """A name and facts about it within `room` pixels: the name is shortened, the facts stay.

    If the facts alone are too long, they lose their beginning.

    Args:
        size: of the letters, as in `draw_text`.
        end_share: how much of the remaining name is its end, which distinguishes `van-1` from `van-2`; 1 for
            paths.
    """
    for kept in range(len(name), -1, -1):
        tail = int(kept * end_share)
        cut = name if kept == len(name) else f"{name[: kept - tail]}...{name[len(name) - tail :]}"
        text = "  ".join(part for part in (cut, facts) if part)
        if text_width(text, size) <= room:
            return text
    return ends([facts], room, size)
