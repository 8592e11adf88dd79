"""An ascending array and numbers to look up come in; their rows in it, or the values there, go out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def rows_in(ascending: NDArray, wanted: NDArray) -> NDArray[np.intp]:
    """(N,) the row of each wanted number (N,) in an ascending array; -1 if it is not there."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.intp)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[place] == wanted, place, -1)


def looked_up(ascending: NDArray, values: NDArray, wanted: NDArray, missing: Any) -> NDArray:
    """(N,) the value of each wanted number (N,), given ascending numbers (M,) and their values (M,).

    Args:
        missing: the result for a number that is not there; one for all, or (N,).
    """
    if not len(ascending):
        return np.broadcast_to(np.asarray(missing, values.dtype), (len(wanted),)).copy()
    rows = rows_in(ascending, wanted)
    return np.where(rows >= 0, values[rows], missing)
