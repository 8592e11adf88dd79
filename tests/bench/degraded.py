"""Pictures come in; two views of each go out, degraded as in training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panorama.models.base import Image
from panorama.models.training.views import degrade, geometry


def degraded_pairs(pictures: Sequence[Image], side: int, seed: int = 0) -> list[Image]:
    """Two degraded views of each picture, all first ones before all second ones."""
    views = []
    for turn in range(2):
        for i, picture in enumerate(pictures):
            rng = np.random.default_rng((seed, turn, i))
            views.append(degrade(geometry(picture, rng, side), rng))
    return views
