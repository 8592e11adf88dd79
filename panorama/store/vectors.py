"""Nearest crops: query vectors enter, rows of the stored vectors with their similarity leave.

Small tables and small filtered sets are compared exactly; large tables
may have an inverted-file index, whose candidates are always compared again with the stored vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.store.vector_table import VectorTable, read_crop_ids

if TYPE_CHECKING:
    from panorama.store.inverted import InvertedFile

__all__ = ["Neighbours", "Restriction", "VectorIndex", "VectorTable", "read_crop_ids"]

BLOCK_ROWS = 131_072
"""Rows compared at once, so that the similarities stay in tens of megabytes."""

FLAT_ROWS = 200_000
"""Up to here comparing every row is quicker than, or as quick as, any index."""

EXACT_ROWS = 100_000
"""Filtered sets up to this size are compared exactly; above, an index with a selector is quicker."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs of query and row, best first within a query, ties by crop id; as a struct of arrays.

    Attributes:
        query_index: (R,) int64 into the queries.
        rows: (R,) int64 into the table.
        similarity: (R,) float32 inner product of the stored vectors.
    """

    query_index: NDArray[np.int64]
    rows: NDArray[np.int64]
    similarity: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Restriction:
    """Which crops may be found: some crops, all of some segments, or both conditions; None admits all."""

    crop_ids: NDArray[np.int64] | None = None
    segments: NDArray[np.integer] | None = None


class VectorIndex:
    """Search over one table.

    Args:
        table: what is searched.
        flat_rows: a table up to this size is always compared exactly.
        exact_rows: a restriction to at most so many rows is compared exactly.
        build: make or renew the inverted file where the table is large; without, one that is there is used.
        wait: called between pieces of that work: where it pauses for others.
    """

    def __init__(
        self,
        table: VectorTable,
        *,
        flat_rows: int = FLAT_ROWS,
        exact_rows: int = EXACT_ROWS,
        build: bool = False,
        wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.table = table
        self._exact_rows = exact_rows
        self._ivf: InvertedFile | None = None
        if len(table) > flat_rows:
            # FAISS is loaded where there is something for it to do.
            from panorama.store.inverted import InvertedFile

            self._ivf = InvertedFile.load(table)
            if build and (self._ivf is None or self._ivf.worn):
                self._ivf = InvertedFile.build(table, self._ivf, wait)

    @property
    def kind(self) -> str:
        """'exact', or the kind of inverted file."""
        return "exact" if self._ivf is None else self._ivf.kind

    def search(self, queries: NDArray[np.float32], k: int, restrict: Restriction | None = None) -> Neighbours:
        """The k most similar crops of each query (Q, dim), fewer where there are fewer."""
        queries = self._checked(queries)
        if k <= 0:
            raise ValueError(f"k is at least 1, got {k}")
        rows = self._rows(restrict)
        if self._ivf is None or (rows is not None and len(rows) <= self._exact_rows):
            return self._exact_best(queries, k, rows)
        candidates = self._ivf.nearest(queries, k, rows)
        if candidates is None:
            return self._exact_best(queries, k, rows)
        return self._rescored(queries, candidates, k=k)

    def range_search(
        self,
        queries: NDArray[np.float32],
        min_similarity: float | NDArray[np.floating],
        restrict: Restriction | None = None,
    ) -> Neighbours:
        """All crops at least `min_similarity` (one number, or one for each query) similar to a query."""
        queries = self._checked(queries)
        least = np.broadcast_to(np.asarray(min_similarity, np.float32), (len(queries),))
        rows = self._rows(restrict)
        if self._ivf is None or (rows is not None and len(rows) <= self._exact_rows):
            return self._exact_range(queries, least, rows)
        candidates = self._ivf.within(queries, least, rows)
        if candidates is None:
            return self._exact_range(queries, least, rows)
        return self._rescored(queries, candidates, least=least)

    def codes(self, least: float) -> int | None:
        """About how many rows the index compares with a query to find those at least `least` similar."""
        return None if self._ivf is None else self._ivf.codes(least)

    def near(
        self,
        queries: NDArray[np.float32],
        least: NDArray[np.floating],
        rows: NDArray[np.intp] | None = None,
    ) -> list[NDArray[np.intp]] | None:
        """For each query (Q, dim), rows at least `least` (Q,) similar to it, or more; None without an index.

        Args:
            rows: those that may be found, ascending; None for all.
        """
        if self._ivf is None:
            return None
        return self._ivf.within(self._checked(queries), np.asarray(least, np.float32), rows)

    def nearest(
        self, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.intp] | None:
        """Rows that hold the `count` most similar to a query (dim,), or more; None without an index."""
        if self._ivf is None or (rows is not None and len(rows) <= self._exact_rows):
            return None
        found = self._ivf.nearest(self._checked(query[None]), count, rows)
        return None if found is None else found[0]

    def _checked(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        found = np.ascontiguousarray(queries, np.float32)
        if found.ndim != 2 or (len(self.table) and found.shape[1] != self.table.dim):
            raise ValueError(f"queries are (Q, {self.table.dim}), got {found.shape}")
        return found

    def _rows(self, restrict: Restriction | None) -> NDArray[np.intp] | None:
        if restrict is None:
            return None
        rows: NDArray[np.intp] | None = None
        if restrict.segments is not None:
            rows = self.table.rows_in(restrict.segments)
        if restrict.crop_ids is not None:
            mine = np.unique(self.table.rows_of(restrict.crop_ids))
            mine = mine[mine >= 0]
            rows = mine if rows is None else np.intersect1d(rows, mine, assume_unique=True)
        return rows

    def _blocks(
        self, rows: NDArray[np.intp] | None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Row numbers and vectors, in pieces."""
        total = len(self.table) if rows is None else len(rows)
        for start in range(0, total, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, total)
            if rows is None:
                yield np.arange(start, stop), self.table.vectors[start:stop]
            else:
                yield rows[start:stop], self.table.vectors[rows[start:stop]]

    def _exact_best(self, queries: NDArray[np.float32], k: int, rows: NDArray[np.intp] | None) -> Neighbours:
        kept: list[NDArray[np.intp]] = [np.zeros(0, np.intp) for _ in queries]
        values: list[NDArray[np.float32]] = [np.zeros(0, np.float32) for _ in queries]
        for numbers, block in self._blocks(rows):
            similarity = queries @ block.T  # (Q, B)
            for q, row in enumerate(similarity):
                # All that equal the k-th stay, so that ties are decided by crop id and not by chance.
                pick = np.arange(len(row))
                if len(row) > k:
                    pick = np.flatnonzero(row >= np.partition(row, len(row) - k)[len(row) - k])
                numbers_q = np.concatenate([kept[q], numbers[pick]])
                values_q = np.concatenate([values[q], row[pick]])
                best = self._ranked(numbers_q, values_q)[:k]
                kept[q], values[q] = numbers_q[best], values_q[best]
        return _joined(kept, values)

    def _exact_range(
        self, queries: NDArray[np.float32], least: NDArray[np.float32], rows: NDArray[np.intp] | None
    ) -> Neighbours:
        found: list[list[tuple[NDArray[np.intp], NDArray[np.float32]]]] = [[] for _ in queries]
        for numbers, block in self._blocks(rows):
            similarity = queries @ block.T  # (Q, B)
            for q, row in enumerate(similarity):
                pick = np.flatnonzero(row >= least[q])
                found[q].append((numbers[pick], row[pick]))
        return self._collected(found)

    def _rescored(
        self,
        queries: NDArray[np.float32],
        candidates: Sequence[NDArray[np.intp]],
        k: int | None = None,
        least: NDArray[np.float32] | None = None,
    ) -> Neighbours:
        """Candidates of each query compared with the stored vectors."""
        found: list[list[tuple[NDArray[np.intp], NDArray[np.float32]]]] = []
        for q, rows in enumerate(candidates):
            pairs = []
            for numbers, block in self._blocks(np.sort(rows)):
                similarity = block @ queries[q]  # (B,)
                keep = slice(None) if least is None else similarity >= least[q]
                pairs.append((numbers[keep], similarity[keep]))
            found.append(pairs)
        return self._collected(found, k)

    def _collected(
        self, found: Sequence[Sequence[tuple[NDArray[np.intp], NDArray[np.float32]]]], k: int | None = None
    ) -> Neighbours:
        kept, values = [], []
        for pairs in found:
            numbers = np.concatenate([pair[0] for pair in pairs] or [np.zeros(0, np.intp)])
            similarity = np.concatenate([pair[1] for pair in pairs] or [np.zeros(0, np.float32)])
            order = self._ranked(numbers, similarity)[:k]
            kept.append(numbers[order])
            values.append(similarity[order])
        return _joined(kept, values)

    def _ranked(self, rows: NDArray[np.intp], similarity: NDArray[np.float32]) -> NDArray[np.intp]:
        return np.lexsort((self.table.crop_ids[rows], -similarity))


def _joined(rows: Sequence[NDArray[np.intp]], values: Sequence[NDArray[np.float32]]) -> Neighbours:
    counts = [len(r) for r in rows]
    return Neighbours(
        np.repeat(np.arange(len(rows)), counts),
        np.concatenate([*rows, np.zeros(0, np.intp)]).astype(np.int64),
        np.concatenate([*values, np.zeros(0, np.float32)]),
    )
