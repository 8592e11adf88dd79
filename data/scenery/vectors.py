"""Vectors and matrices enter; lengths, products and depths that are the same on every processor leave.

numpy's own go through BLAS, which has other code for each generation of processors, and each rounds
otherwise: enough for other pixels, and a track at the border of a band is then another track.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def length(vector: ArrayLike) -> float:
    """Euclidean length of a (3,) vector."""
    x, y, z = np.asarray(vector, np.float64).tolist()
    return math.sqrt(x * x + y * y + z * z)


def product(*matrices: NDArray[Any]) -> NDArray[Any]:
    """Matrix product, from the left, of (A, B), (B, C), ...; the sums in the order of the columns."""
    return reduce(_product, matrices)


def _product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    terms = [left[:, column, None] * right[column] for column in range(left.shape[1])]
    return np.asarray(reduce(np.add, terms))


def last_row_of_inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The third row of the inverse of a (3, 3) matrix."""
    first, second, third = matrix.T
    normal = np.cross(first, second)
    return np.asarray(normal / sum(normal * third))
