"""Spans of time in clips enter; which of them lie at one moment leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def at_once(clips: NDArray[Any], starts: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(N, N): in one clip at one time; seconds, half-open, each beside itself unless it lasts no time."""
    overlap = (starts[:, None] < ends[None]) & (starts[None] < ends[:, None])
    return np.asarray(overlap & (clips[:, None] == clips[None]), bool)
