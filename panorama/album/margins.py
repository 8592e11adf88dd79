"""A picture enters; what lies inside of a margin of one colour leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST = 0.1
"""Share of a picture from which a margin is cut off: with it a thing ranks as high, and is not accepted."""

_LIKE_THE_MARGIN = 16
"""Values (of 255) by which a pixel may differ from the margin's: what JPEG makes of one colour."""

_SPECKS = 0.01
"""Share of a row or column that may differ all the same: dust, and what JPEG makes of it."""


def inside_margin(rgb: NDArray[np.uint8]) -> tuple[int, int, int, int] | None:
    """What lies inside of a margin of one colour, x1, y1, x2, y2; None where the margin has less than LEAST.

    It lies on opposite sides, as bars do, and may lie on all: what is of one colour on one side alone may be
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
    """The colours that sides of the picture have from corner to corner, those that are alike once."""
    colours: list[NDArray[np.int16]] = []
    for side in (rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]):
        colour = np.median(side, axis=0).astype(np.int16)
        if _differs(side, colour).mean() <= _SPECKS and not any(_alike(colour, known) for known in colours):
            colours.append(colour)
    return colours


def _inside(rgb: NDArray[np.uint8], colour: NDArray[np.int16]) -> tuple[int, int, int, int]:
    """The rows and columns of a picture that are not of one colour, as a box; all where there are none."""
    # Row by row: the whole picture in 16 bits would take twice its memory.
    differs = np.stack([_differs(row, colour) for row in rgb])
    rows = np.flatnonzero(differs.mean(axis=1) > _SPECKS)
    columns = np.flatnonzero(differs.mean(axis=0) > _SPECKS)
    if not len(rows) or not len(columns):
        return 0, 0, rgb.shape[1], rgb.shape[0]
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _differs(line: NDArray[np.uint8], colour: NDArray[np.int16]) -> NDArray[np.bool_]:
    """(N,) which pixels of a row or column (N, 3) are of another colour."""
    return np.asarray((np.abs(line.astype(np.int16) - colour) > _LIKE_THE_MARGIN).any(axis=1))


def _alike(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    return bool(np.abs(one - other).max() <= _LIKE_THE_MARGIN // 2)


def _area(box_xyxy: tuple[int, int, int, int]) -> int:
    return (box_xyxy[2] - box_xyxy[0]) * (box_xyxy[3] - box_xyxy[1])
