"""Pictures of examples enter; one vector each leaves: the mean over ways in which its box might be drawn.

A single example is one crop of one moment. A box drawn a little tighter, or to one side, or the thing seen
the other way round, has another vector; none of them is the right one. Their mean lies in the middle of what
the crops of a track scatter around. Crops of videos are embedded as they are: several of them make a track.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from panorama.crops import cut
from panorama.models.base import Embedder, Image


def _part(x1: float, y1: float, x2: float, y2: float) -> Callable[[Image], Image]:
    def cut_part(rgb: Image) -> Image:
        height, width = rgb.shape[:2]
        corners = np.array([x1 * width, y1 * height, x2 * width, y2 * height], np.float32)
        return np.ascontiguousarray(cut(rgb, corners))

    return cut_part


VIEWS: Mapping[str, Callable[[Image], Image]] = {
    "as it is": lambda rgb: rgb,
    "mirrored": lambda rgb: np.ascontiguousarray(rgb[:, ::-1]),
    "middle": _part(0.08, 0.08, 0.92, 0.92),
    "upper left": _part(0, 0, 0.85, 0.85),
    "upper right": _part(0.15, 0, 1, 0.85),
    "lower left": _part(0, 0.15, 0.85, 1),
    "lower right": _part(0.15, 0.15, 1, 1),
}
"""Ways of seeing an example; changes of light were tried as well and added nothing."""


def embed_examples(pictures: Sequence[Image], embedder: Embedder) -> NDArray[np.float32]:
    """Vectors of unit length of examples at every exit: (exits, B, dim) float32."""
    views = [view(rgb) for rgb in pictures for view in VIEWS.values()]
    vectors = embedder.embed_all(views)  # (exits, B * V, dim)
    means = vectors.reshape(len(vectors), len(pictures), len(VIEWS), vectors.shape[-1]).mean(axis=2)
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-9), np.float32)
