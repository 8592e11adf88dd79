"""Ascending numbers enter, and others; where these stand among them, and what stands there, leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def rows_in(ascending: NDArray, wanted: NDArray) -> NDArray[np.intp]:
    """(N,) the row of each of some numbers (N,) in an array that ascends, -1 where it is not there."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.intp)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[place] == wanted, place, -1)


def looked_up(ascending: NDArray, values: NDArray, wanted: NDArray, missing: Any) -> NDArray:
    """(N,) the values (M,) of numbers in an array (M,) that ascends; where one is not there, `missing`.

    Args:
        missing: one for all, or (N,).
    """
    if not len(ascending):
        return np.broadcast_to(np.asarray(missing, values.dtype), (len(wanted),)).copy()
    rows = rows_in(ascending, wanted)
    return np.where(rows >= 0, values[rows], missing)
