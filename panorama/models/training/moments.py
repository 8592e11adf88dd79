"""Spans of time in clips come in; which of them overlap goes out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def at_once(clips: NDArray[Any], starts: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(N, N): whether two spans in seconds, half-open, overlap in one clip; each does itself unless empty."""
    overlap = (starts[:, None] < ends[None]) & (starts[None] < ends[:, None])
    return np.asarray(overlap & (clips[:, None] == clips[None]), bool)
