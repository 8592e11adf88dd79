"""A picture comes in; the part inside a single-coloured margin goes out, as a box."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST = 0.1
"""A margin with at least this share of the picture is cut off: it keeps things from being accepted."""

_LIKE_THE_MARGIN = 16
"""How far (of 255) a pixel may differ from the margin's colour: JPEG adds such differences."""

_SPECKS = 0.01
"""Share of a row or column that may still differ: dust, and what JPEG makes of it."""


def inside_margin(rgb: NDArray[np.uint8]) -> tuple[int, int, int, int] | None:
    """The box x1, y1, x2, y2 inside a margin of one colour; None if the margin covers less than LEAST.

    The margin must be on two opposite sides, like bars, or on all four: a single side of one colour may be
    part of the thing.

    Args:
        rgb: (H, W, 3).
    """
    height, width = rgb.shape[:2]
    boxes = [_inside(rgb, colour) for colour in _colours(rgb)]
    around = [box for box in boxes if (box[0] > 0 and box[2] < width) or (box[1] > 0 and box[3] < height)]
    best = min(around, key=_area, default=None)
    return best if best is not None and _area(best) <= (1 - LEAST) * width * height else None


def _colours(rgb: NDArray[np.uint8]) -> list[NDArray[np.int16]]:
    """The colours that fill a whole side of the picture, similar ones only once."""
    colours: list[NDArray[np.int16]] = []
    for side in (rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]):
        colour = np.median(side, axis=0).astype(np.int16)
        if _differs(side, colour).mean() <= _SPECKS and not any(_alike(colour, known) for known in colours):
            colours.append(colour)
    return colours


def _inside(rgb: NDArray[np.uint8], colour: NDArray[np.int16]) -> tuple[int, int, int, int]:
    """The box of the rows and columns that are not of one colour; the whole picture if there are none."""
    # Go row by row: the whole picture in 16 bits would take twice its memory.
    differs = np.stack([_differs(row, colour) for row in rgb])
    rows = np.flatnonzero(differs.mean(axis=1) > _SPECKS)
    columns = np.flatnonzero(differs.mean(axis=0) > _SPECKS)
    if not len(rows) or not len(columns):
        return 0, 0, rgb.shape[1], rgb.shape[0]
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _differs(line: NDArray[np.uint8], colour: NDArray[np.int16]) -> NDArray[np.bool_]:
    """(N,) which pixels of a row or column (N, 3) have another colour."""
    return np.asarray((np.abs(line.astype(np.int16) - colour) > _LIKE_THE_MARGIN).any(axis=1))


def _alike(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    return bool(np.abs(one - other).max() <= _LIKE_THE_MARGIN // 2)


def _area(box_xyxy: tuple[int, int, int, int]) -> int:
    return (box_xyxy[2] - box_xyxy[0]) * (box_xyxy[3] - box_xyxy[1])
