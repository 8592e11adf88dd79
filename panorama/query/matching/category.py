"""Views of a category's exemplars come in; the vectors and levels that replace them in comparisons go out.

A user describes a category (a species, a model of car) by some of its members. The value of a crop is then
the weighted mean of two values: its normalised similarity to the nearest view of an exemplar, as for an
individual, and its position between strangers and all views together along the least-squares direction that
separates them (ridge regression; Hoerl and Kennard 1970). The first value knows members that look like an
exemplar. The second knows what members share, and counts less if they share little. Both are affine in the
crop's vector, so their mean equals a similarity to one other vector, no longer of unit length, against
another level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.decide import COHORT_NEIGHBOURS

CATEGORY_REACH = 1.274
"""How much farther an exemplar of a category reaches than one of an individual, as a factor on 1 - n.

Members of a kind resemble each other less than pictures of one thing do: a value of 0.27 counts as 0.427, the
threshold of the shipped model. With this factor, archives without the category stay as silent as archives
without an individual do at 0.427 (`tests/bench/categories.py`).
"""

SHRINKAGE = 10.0
"""Added to the covariance, in units of the strangers' mean squared distance; 3 to 100 differ little."""

RIVAL_SHARE = 0.3
"""Weight of look-alikes in the plane, where examples and strangers weigh 1; more would lose members, too."""

LEAST_LEAD = 1e-3
"""Least distance of the means of views and strangers along the normal of the plane."""

MOST_SHARE = 0.5
"""Largest share of the plane in the value of a crop; the rest is the nearest view's."""

STEEPEST = 2.0
"""The plane's share is at most this factor times the distance between strangers and views on it.

If the views have little in common, strangers come close to their mean or beyond it. The small distance left
would be stretched until it drowned the nearest view. So the plane counts for less then, and finally not at
all.
"""

LEAST_LEFT = 0.1
"""Vectors that replace views are divided by 1 - n of the zero vector, which must be at least this."""


def as_category(
    views: NDArray[np.float32],
    positive: NDArray[np.float32],
    level: NDArray[np.float32],
    rivals: NDArray[np.float32],
    cohort: NDArray[np.float32],
    pictures: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The vectors (P, dim) and levels (P,) that replace an entity's views if it is a category.

    Args:
        views: (V, dim) of all exemplars.
        positive: (P, dim) the views and, as one more, their mean.
        level: (P,) how similar strangers get to each of these.
        rivals: (Q, dim) views of its look-alikes.
        cohort: (N, dim) of strangers; without strangers there is no plane.
        pictures: the picture of each view (V,) and of each rival (Q,); None: each has its own.
    """
    # If there are this few strangers, all of them count as the nearest: nothing lies beyond them.
    told = len(views) > 0 and len(cohort) > COHORT_NEIGHBOURS
    plane = stranger_plane(views, rivals, cohort, pictures) if told else None
    if plane is not None:
        weights, offset, share = plane
        gain = 1 / (1 - level.astype(np.float64))
        rows = (1 - share) * positive * gain[:, None] + share * weights  # n = rows @ x - back
        back = (1 - share) * (gain - 1) - share * offset
        if (1 + back).min() >= LEAST_LEFT:
            level = np.asarray(back / (1 + back), np.float32)
            positive = np.asarray(rows / (1 + back[:, None]), np.float32)
    return positive, np.asarray(1 - CATEGORY_REACH * (1 - level), np.float32)


def stranger_plane(
    views: NDArray[np.float32],
    rivals: NDArray[np.float32],
    cohort: NDArray[np.float32],
    pictures: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> tuple[NDArray[np.float64], float, float] | None:
    """Weights (dim,), offset and share: w x + b is 1 at the mean of the views and 0 at the nearest strangers.

    Least squares between views at 1 and the cohort at 0, with equal total weight, and look-alikes also at 0.
    Every picture counts the same, however many views it has: an image from a video has one view, a file
    several. The share is the plane's weight. None if the views lie no farther than the nearest strangers.
    """
    known, strangers = views.astype(np.float64), cohort.astype(np.float64)
    of_views, of_rivals = pictures or (np.arange(len(views)), np.arange(len(rivals)))
    kinds = [(known, _alike(of_views)), (strangers, np.full(len(strangers), 1 / len(strangers)))]
    here, there = (part @ some for some, part in kinds)
    if len(rivals):
        kinds.append((rivals.astype(np.float64), RIVAL_SHARE * _alike(of_rivals)))
    middle = sum(part @ some for some, part in kinds) / sum(part.sum() for _, part in kinds)
    spread = sum(((some - middle).T * part) @ (some - middle) for some, part in kinds)
    far = float(((strangers - (here + there) / 2) ** 2).sum(axis=1).mean()) / len(here)
    weights = np.linalg.solve(spread + SHRINKAGE * far * np.eye(len(here)), here - middle)
    lead = float(weights @ (here - there))
    if lead <= LEAST_LEAD * float(np.linalg.norm(weights)):
        return None
    weights /= lead
    offset = 1 - float(here @ weights)
    among = np.sort(strangers @ weights + offset)[-COHORT_NEIGHBOURS:]
    apart = 1 - float(among.mean())
    if apart <= 0:
        return None
    return weights / apart, (offset - 1 + apart) / apart, min(MOST_SHARE, STEEPEST * apart)


def _alike(pictures: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weight of each view (V,) that makes all pictures count the same; they sum to 1."""
    _, own, views = np.unique(pictures, return_inverse=True, return_counts=True)
    return np.asarray(1 / views[own] / len(views))
