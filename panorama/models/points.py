"""Outputs of the proposer's heads for grid points come in; boxes in pixels of the network's input go out."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

STRIDES = (8, 16, 32)
ZERO, SPREAD = 114.0, 64.0
"""The pixel value that is 0 to the network, and the difference from it that is 1."""

LEAST_LOG, MOST_LOG = -6.0, 4.0
"""Log distances are clipped to this range."""


@lru_cache(maxsize=32)
def points(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Centres (N, 2) as x, y in pixels, and strides (N,), of all points of an input, finest level first."""
    centres, strides = [], []
    for stride in STRIDES:
        y, x = np.mgrid[: height // stride, : width // stride]
        centres.append((np.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride)
        strides.append(np.full(x.size, stride))
    return np.concatenate(centres).astype(np.float32), np.concatenate(strides).astype(np.float32)


def boxes_at(
    raw: NDArray[np.float32], where: NDArray[np.intp], height: int, width: int
) -> NDArray[np.float32]:
    """Boxes (K, 4) as x1, y1, x2, y2 in pixels of some points.

    Args:
        raw: (K, 4) log distances from these points to left, top, right and bottom, in strides.
        where: (K,) indices of the points.
        height, width: of the input, in pixels.
    """
    centres, strides = points(height, width)
    distances = np.exp(raw.clip(LEAST_LOG, MOST_LOG)) * strides[where, None]
    around = centres[where]
    return np.concatenate([around - distances[:, :2], around + distances[:, 2:]], axis=1)
