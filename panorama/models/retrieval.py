"""Vectors with labels come in; mean average precision and recall at one of retrieval among them go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def retrieval_scores(vectors: NDArray[np.floating], labels: Sequence[object]) -> tuple[float, float]:
    """Use each vector as a query for all others: (mean average precision, share whose nearest is right).

    Args:
        vectors: (N, dim), compared by inner product.
        labels: N labels; a vector whose label occurs only once is a distractor, not a query.

    Raises:
        ValueError: lengths differ, or no label occurs twice.
    """
    found = Answers.of(vectors, labels)
    return float(found.precisions.mean()), float(found.first.mean())


@dataclass(frozen=True, slots=True)
class Answers:
    """What each vector finds among the others, if any of them has its label.

    Attributes:
        asking: (Q,) positions of the queries.
        precisions: (Q,) average precision of each.
        first: (Q,) whether the nearest vector has the query's label.
    """

    asking: NDArray[np.intp]
    precisions: NDArray[np.float64]
    first: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        vectors: NDArray[np.floating],
        labels: Sequence[object],
        counts: NDArray[np.bool_] | None = None,
        strangers: NDArray[np.floating] | None = None,
    ) -> Answers:
        """Query with each of the vectors (N, dim), which have N labels.

        Args:
            counts: (N, N); [i, j] is whether j takes part when i is the query; None: all. i never finds i.
            strangers: (S, dim) that are wrong for every query.

        Raises:
            ValueError: lengths differ, or no query has another vector of its label.
        """
        _, label_ids = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        points = np.asarray(vectors, np.float32)
        if len(points) != len(label_ids):
            raise ValueError(f"{len(points)} vectors, but {len(label_ids)} labels")
        others = np.zeros((0, points.shape[1]), np.float32) if strangers is None else strangers
        wrong = np.zeros(len(others), bool)
        ranks = np.arange(1, len(points) + len(others) + 1)
        asking, precisions, first = [], [], []
        for query in range(len(points)):
            part = np.ones(len(points), bool) if counts is None else counts[query].copy()
            part[query] = False
            right = np.concatenate([label_ids[part] == label_ids[query], wrong])
            if not right.any():
                continue
            scores = np.concatenate([points[part] @ points[query], others @ points[query]])
            hits = right[np.argsort(-scores, kind="stable")]
            asking.append(query)
            precisions.append(float((np.cumsum(hits)[hits] / ranks[: len(hits)][hits]).mean()))
            first.append(bool(hits[0]))
        if not asking:
            raise ValueError("retrieval needs a label that occurs at least twice")
        return cls(np.array(asking), np.array(precisions), np.array(first))


def at_most_per_label(labels: Sequence[object], limit: int, seed: int = 0) -> NDArray[np.intp]:
    """Sorted positions of at most `limit` members of each label, drawn at random with this seed."""
    names = np.asarray(labels, dtype=str)
    rng = np.random.default_rng(seed)
    chosen = []
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        chosen.append(rng.permutation(members)[:limit])
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.intp)
