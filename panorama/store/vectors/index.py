"""Query vectors enter; rows of stored vectors that may be near leave, or None: compare every row.

A large table may have an inverted file. Its candidates are more than what is asked for, never fewer but for
what its recall misses: who asks compares them again with the stored vectors.
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
"""Up to here comparing every row is quicker than, or as quick as, any index."""

EXACT_ROWS = 100_000
"""The best among rows up to this number are found by comparing these; above, an index is quicker."""


class VectorIndex:
    """What finds rows of one table without comparing every one.

    Args:
        table: what is searched.
        flat_rows: a table up to this size has no inverted file.
        exact_rows: among at most so many rows, `nearest` leaves it to the caller.
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
            from panorama.store.vectors.inverted import InvertedFile

            self._ivf = InvertedFile.load(table)
            if build and (self._ivf is None or self._ivf.worn):
                self._ivf = InvertedFile.build(table, self._ivf, wait)

    @property
    def kind(self) -> str:
        """'exact' where every row is to be compared, or the kind of inverted file."""
        return "exact" if self._ivf is None else self._ivf.kind

    def codes(self, least: float) -> int | None:
        """About how many rows the index compares with a query to find those at least `least` similar."""
        return None if self._ivf is None else self._ivf.codes(least)

    def near(
        self,
        queries: NDArray[np.float32],
        least: NDArray[np.floating],
        rows: NDArray[np.intp] | None = None,
    ) -> list[NDArray[np.intp]] | None:
        """For each query (Q, dim), rows at least `least` (Q,) similar to it, or more.

        None without an index, and where it would have to look into most of its lists.

        Args:
            rows: those that may be found, ascending; None for all.
        """
        if self._ivf is None:
            return None
        return self._ivf.within(self._checked(queries), np.asarray(least, np.float32), rows)

    def nearest(
        self, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.intp] | None:
        """Rows that hold the `count` most similar to a query (dim,), or more; None as `near`."""
        if self._ivf is None or (rows is not None and len(rows) <= self._exact_rows):
            return None
        found = self._ivf.nearest(self._checked(query[None]), count, rows)
        return None if found is None else found[0]

    def _checked(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        found = np.ascontiguousarray(queries, np.float32)
        if found.ndim != 2 or (len(self.table) and found.shape[1] != self.table.dim):
            raise ValueError(f"queries are (Q, {self.table.dim}), got {found.shape}")
        return found
