"""The vectors of tracks come in; how much these look like each other goes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Cohort
from panorama.query.matching.decide import cohort_level
from panorama.store.ascending import rows_in

PAIRS = 1 << 14
"""Pairs of vectors compared at a time: those of all pairs in a crowd would take gigabytes."""


@dataclass(frozen=True, slots=True)
class Looks:
    """What tracks look like at the deepest exit.

    Attributes:
        track_ids: (T,) int64, ascending.
        vectors: (T, dim) float32, the mean of the crops of each, of unit length.
        levels: (T,) float32, how similar strangers get to each.
    """

    track_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    levels: NDArray[np.float32]

    @classmethod
    def of(cls, owners: NDArray[np.int64], vectors: NDArray[np.float32], cohort: Cohort) -> Looks:
        """Of the crops (N, dim) of some tracks (N,), in any order, against the cohort of their exit."""
        track_ids, row = np.unique(owners, return_inverse=True)
        order = np.argsort(row, kind="stable")
        starts = np.searchsorted(row[order], np.arange(len(track_ids)))
        sums = np.add.reduceat(vectors[order], starts) if len(starts) else vectors[:0]
        length = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        means = np.asarray(sums / length, np.float32)
        return cls(track_ids, means, cohort_level(means, cohort))

    def likeness(self, ones: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) how much pairs of tracks look alike: 1 the same, 0 as strangers get; -inf if one is unknown.

        It is the value that the one of the two to which strangers get nearer has as an example.
        """
        one, other = rows_in(self.track_ids, ones), rows_in(self.track_ids, others)
        found = np.full(len(ones), -np.inf)
        known = np.flatnonzero((one >= 0) & (other >= 0))
        for pair in np.array_split(known, 1 + len(known) // PAIRS):
            mine, theirs = one[pair], other[pair]
            cosine = np.einsum("nd,nd->n", self.vectors[mine], self.vectors[theirs])
            found[pair] = 1 - (1 - cosine) / (1 - np.maximum(self.levels[mine], self.levels[theirs]))
        return found


LookUp = Callable[[NDArray[np.int64]], Looks]
"""What some tracks (T,) look like; those that have no vector at the deepest exit may be missing."""
