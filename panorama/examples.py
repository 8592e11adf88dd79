"""Pictures of examples enter; one vector each leaves: the mean over ways in which it might be seen.

A single example is one crop of one moment. A box drawn a little tighter, or to one side, or the thing seen
the other way round, has another vector; none of them is the right one. Their mean lies in the middle of what
the crops of a track scatter around. Crops of videos are embedded as they are: several of them make a track.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import cv2
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


def _framed(rgb: Image) -> Image:
    """With an eighth more on each side, continued as a mirror does: as if the box had been drawn wider."""
    dy, dx = (max(1, side // 8) for side in rgb.shape[:2])
    return np.asarray(cv2.copyMakeBorder(rgb, dy, dy, dx, dx, cv2.BORDER_REFLECT_101), np.uint8)


VIEWS: Mapping[str, Callable[[Image], Image]] = {
    "as it is": lambda rgb: rgb,
    "mirrored": lambda rgb: np.ascontiguousarray(rgb[:, ::-1]),
    "middle": _part(0.08, 0.08, 0.92, 0.92),
    "upper left": _part(0, 0, 0.85, 0.85),
    "upper right": _part(0.15, 0, 1, 0.85),
    "lower left": _part(0, 0.15, 0.85, 1),
    "lower right": _part(0.15, 0.15, 1, 1),
    "wider": _framed,
}
"""Ways of seeing an example, by geometry alone: other light is other colour, and colour is evidence."""


def embed_examples(pictures: Sequence[Image], embedder: Embedder) -> NDArray[np.float32]:
    """Vectors of unit length of examples at every exit: (exits, B, dim) float32."""
    views = [view(rgb) for rgb in pictures for view in VIEWS.values()]
    vectors = embedder.embed_all(views)  # (exits, B * V, dim)
    means = vectors.reshape(len(vectors), len(pictures), len(VIEWS), vectors.shape[-1]).mean(axis=2)
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-9), np.float32)
