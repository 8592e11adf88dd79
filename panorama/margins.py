"""A picture enters; what lies inside of a margin of one colour leaves, and what to say of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.lines import one_line

WIDE = 0.75
"""Share of a picture beside what it shows from which it is told: from about there on less is found by it.

Up to 0.7, as of product shots on white, it finds as much as cut to the thing (decision 54).
"""

_LIKE_THE_MARGIN = 16
"""Values (of 255) by which a pixel may differ from the margin's: what JPEG makes of one colour."""

_SPECKS = 0.01
"""Share of a row or column that may differ all the same: dust, and what JPEG makes of it."""


def margin_remark(rgb: NDArray[np.uint8], source: str, corner_xy: tuple[int, int] = (0, 0)) -> str | None:
    """What to say of a picture (H, W, 3) most of which is one colour around what it shows.

    Args:
        corner_xy: where it lies in the picture that a box is to cut.
    """
    box = inside_margin(rgb)
    if box is None:
        return None
    share = 1 - (box[2] - box[0]) * (box[3] - box[1]) / (rgb.shape[0] * rgb.shape[1])
    cut = (place + corner_xy[i % 2] for i, place in enumerate(box))
    return (
        f"{one_line(source)}: {share:.0%} of it is one colour around what it shows, and it is compared as it "
        f"is; better cut it: --box {','.join(map(str, cut))} or --find"
    )


def inside_margin(rgb: NDArray[np.uint8]) -> tuple[int, int, int, int] | None:
    """What lies inside of a margin of one colour, x1, y1, x2, y2; None where the margin is not WIDE.

    Args:
        rgb: (H, W, 3).
    """
    height, width = rgb.shape[:2]
    ring = np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]])  # (N, 3)
    colour = np.median(ring, axis=0).astype(np.int16)
    # Row by row: the whole picture in 16 bits would take twice its memory.
    differs = np.stack(
        [(np.abs(row.astype(np.int16) - colour) > _LIKE_THE_MARGIN).any(axis=1) for row in rgb]
    )
    rows = np.flatnonzero(differs.mean(axis=1) > _SPECKS)
    columns = np.flatnonzero(differs.mean(axis=0) > _SPECKS)
    if not len(rows) or not len(columns):
        return None
    x1, y1, x2, y2 = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    if (x2 - x1) * (y2 - y1) > (1 - WIDE) * width * height:
        return None
    return x1, y1, x2, y2
