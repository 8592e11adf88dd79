"""Views of a category's exemplars enter; what crops are compared with in their place leaves.

An entity that stands for a category (a species, a model of car) is asked for by some of its members. A crop
is then worth a mean of two values: its normalised similarity to the nearest view of an exemplar, as for an
individual, and its place between strangers and all views together, on the plane of least squares that tells
them apart (ridge regression; Hoerl and Kennard 1970). The one knows members that look like an exemplar, the
other what members share, and counts for less the less that is. Both are affine in the vector of the crop, so
their mean is what one similarity to another vector, no longer of unit length, is against another level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.decide import COHORT_NEIGHBOURS

CATEGORY_REACH = 1.274
"""How much farther an exemplar of a category reaches than one of an individual, in 1 - n.

Members of a kind are less alike than pictures of one thing: what is worth 0.27 counts as 0.427, the floor of
the shipped model. From there on archives without the category are as silent as those without an individual
are from 0.427 on (`tests/bench/categories.py`).
"""

SHRINKAGE = 10.0
"""Added to the covariance, in shares of the mean squared distance of strangers; 3 to 100 differ little."""

RIVAL_SHARE = 0.3
"""What look-alikes weigh on the plane beside examples and strangers: more takes members away, too."""

LEAST_LEAD = 1e-3
"""How far apart the means of views and strangers are at least along the normal of the plane."""

MOST_SHARE = 0.5
"""What the plane counts for in the value of a crop; the rest is the nearest view's."""

STEEPEST = 2.0
"""Its share, by what lies between strangers and views on it, is at most this.

Where views have little in common, strangers come near to their mean, or past it. What is left between them
would be stretched until it drowns the nearest view: the plane counts for less there, and then for nothing.
"""

LEAST_LEFT = 0.1
"""What stands for a view is divided by 1 - n of nothing (a vector of zeros), which is at least so much."""


def as_category(
    views: NDArray[np.float32],
    positive: NDArray[np.float32],
    level: NDArray[np.float32],
    rivals: NDArray[np.float32],
    cohort: NDArray[np.float32],
    pictures: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What stands for an entity's views (P, dim) and their levels (P,) where it is a category.

    Args:
        views: (V, dim) of all exemplars.
        positive: (P, dim) these, and their mean as one more; level: (P,) how alike strangers get to each.
        rivals: (Q, dim) views of its look-alikes.
        cohort: (N, dim) of strangers; without one there is no plane.
        pictures: which picture each of the views (V,) and of the rivals (Q,) is of; None: each of its own.
    """
    # Of so few strangers all are the nearest: nothing lies beyond them.
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
    """Weights (dim,), offset and share: w x + b is 1 at the mean of the views, 0 at the nearest strangers.

    Least squares between views at 1 and the cohort at 0, both kinds of equal weight, with look-alikes at 0,
    too; every picture counts alike, however many views it has: of what a video showed there is one, of a file
    there are several. The share is what the plane counts for. None where views are no farther on than the
    nearest strangers are.
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
    """What each view (V,) counts for where its picture counts as much as any other; 1 together."""
    _, own, views = np.unique(pictures, return_inverse=True, return_counts=True)
    return np.asarray(1 / views[own] / len(views))
