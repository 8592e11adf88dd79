"""Vectors with labels enter; mean average precision and recall at one of retrieval among them leave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def retrieval_scores(vectors: NDArray[np.floating], labels: Sequence[object]) -> tuple[float, float]:
    """Each vector queries all the others: (mean average precision, share whose nearest has its label).

    Args:
        vectors: (N, dim), compared by inner product.
        labels: N labels; one that occurs once only is a distractor and asks nothing itself.

    Raises:
        ValueError: lengths differ, or no label occurs twice.
    """
    _, label_ids = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
    if len(vectors) != len(label_ids):
        raise ValueError(f"{len(vectors)} vectors, but {len(label_ids)} labels")
    mates = np.bincount(label_ids)[label_ids] - 1
    asking = np.flatnonzero(mates > 0)
    if not len(asking):
        raise ValueError("retrieval needs a label that occurs at least twice")
    precisions = np.empty(len(asking))
    first = np.empty(len(asking), bool)
    points = np.asarray(vectors, np.float32)
    ranks = np.arange(1, len(points))
    for row, query in enumerate(asking):
        scores = points @ points[query]
        scores[query] = np.inf
        order = np.argsort(-scores, kind="stable")[1:]
        hits = label_ids[order] == label_ids[query]
        precisions[row] = float((np.cumsum(hits)[hits] / ranks[hits]).mean())
        first[row] = hits[0]
    return float(precisions.mean()), float(first.mean())


def at_most_per_label(labels: Sequence[object], limit: int, seed: int = 0) -> NDArray[np.intp]:
    """Sorted positions of at most `limit` members of each label, chosen by the seed."""
    names = np.asarray(labels, dtype=str)
    rng = np.random.default_rng(seed)
    chosen = []
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        chosen.append(rng.permutation(members)[:limit])
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.intp)
