"""Query vectors come in; rows of stored vectors that may be near go out, or None: compare every row.

A large table may have an inverted file. It returns more candidates than requested, and misses only what its
recall costs. The caller compares the candidates with the stored vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.store.vectors.vector_table import VectorTable

if TYPE_CHECKING:
    from panorama.store.vectors.inverted import InvertedFile

FLAT_ROWS = 200_000
"""Up to this number of rows, comparing every row is at least as fast as any index."""

EXACT_ROWS = 100_000
"""To find the best among up to this number of rows, compare them all; an index is faster above."""


class VectorIndex:
    """Finds rows of one table without comparing every row.

    Args:
        table: the table to search.
        flat_rows: a table up to this size gets no inverted file.
        exact_rows: with at most this many rows to choose from, `nearest` returns None.
        build: build or renew the inverted file of a large table; False only uses an existing one.
        wait: called between pieces of that work, so that it can pause for queries.
        is_stored: whether the library still holds all crops of the table; the inverted file is not stored
            otherwise.
    """

    def __init__(
        self,
        table: VectorTable,
        *,
        flat_rows: int = FLAT_ROWS,
        exact_rows: int = EXACT_ROWS,
        build: bool = False,
        wait: Callable[[], None] = lambda: None,
        is_stored: Callable[[], bool] = lambda: True,
    ) -> None:
        self.table = table
        self._exact_rows = exact_rows
        self._ivf: InvertedFile | None = None
        if len(table) > flat_rows:
            # Load FAISS only if it is needed.
            from panorama.store.vectors.inverted import InvertedFile

            self._ivf = InvertedFile.load(table)
            if build and (self._ivf is None or self._ivf.worn):
                self._ivf = InvertedFile.build(table, self._ivf, wait, is_stored)

    @property
    def kind(self) -> str:
        """'exact' if every row is to be compared, otherwise the FAISS class of the inverted file."""
        return "exact" if self._ivf is None else self._ivf.kind

    def codes(self, least: float) -> int | None:
        """About how many rows the index compares with a query to find those at least `least` similar.

        None as in `near`.
        """
        return None if self._ivf is None else self._ivf.codes(least)

    def near(
        self,
        queries: NDArray[np.float32],
        least: NDArray[np.floating],
        rows: NDArray[np.intp] | None = None,
    ) -> list[NDArray[np.intp]] | None:
        """For each query (Q, dim), rows at least `least` (Q,) similar to it, and others.

        None without an index, or if it would have to search most of its lists.

        Args:
            rows: the rows that may be found, ascending; None for all.
        """
        if self._ivf is None:
            return None
        return self._ivf.within(self._checked(queries), np.asarray(least, np.float32), rows)

    def nearest(
        self, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.intp] | None:
        """The `count` rows most similar to a query (dim,), and others; None as in `near`."""
        if self._ivf is None or (rows is not None and len(rows) <= self._exact_rows):
            return None
        found = self._ivf.nearest(self._checked(query[None]), count, rows)
        return None if found is None else found[0]

    def _checked(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        found = np.ascontiguousarray(queries, np.float32)
        if found.ndim != 2 or (len(self.table) and found.shape[1] != self.table.dim):
            raise ValueError(f"queries are (Q, {self.table.dim}), got {found.shape}")
        return found
