"""Videos of which keyframes alone were looked at enter; what is told beside an answer about them leaves.

Only what is found in frames depends on how often they were looked at: what there is to say of the videos and
of their frames themselves is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from panorama.commands import command
from panorama.errors import QueryError
from panorama.lines import counted
from panorama.query.handed.relations import MATCHED_COLUMNS, SCHEMA
from panorama.query.shorthands.plan import Query
from panorama.query.shorthands.rules import needed_videos
from panorama.query.sql.plain import plain_videos
from panorama.query.sql.rewrite import Rewriter

OF_TRACKS = frozenset(("tracks", "detections", "crops")) | MATCHED_COLUMNS.keys()
"""The relations that depend on what was found."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The videos that a statement asks for what was found in them.

    Attributes:
        conditions: over the relation of videos, one of which holds of each; None stands for all videos.
    """

    conditions: tuple[str | None, ...] = ()

    @classmethod
    def of_shorthands(cls, queries: Sequence[Query]) -> Asked:
        """What shorthands ask; one of frames in which nothing is looked for asks for nothing found."""
        looking = [query for query in queries if query.target != "frames" or query.every_seen()]
        return cls(tuple(needed_videos(query) for query in looking))

    @classmethod
    def of_plain(cls, sql: str, reader: Rewriter, named: set[str]) -> Asked:
        """What plain SQL asks that says the names of some relations."""
        if reader.plain is None:
            return cls((None,))
        tables = {table.name.lower() for table in reader.plain.tree.find_all(exp.Table)} & named
        if not tables:
            return cls()
        try:
            needs = plain_videos(sql, reader.plain, tables, reader.select)
        except QueryError:  # a parameter that cannot be spelled out
            needs = []
        return cls(tuple(f"video IN (SELECT video FROM {need.videos})" for need in needs) or (None,))

    def __add__(self, other: Asked) -> Asked:
        return Asked(self.conditions + other.conditions)

    def segments(self, of_videos: NDArray[np.int32], cursor: duckdb.DuckDBPyConnection) -> NDArray[np.int32]:
        """The segment of every video that is asked.

        Args:
            of_videos: (V,) those of all videos.
        """
        if None in self.conditions:
            return of_videos
        if not self.conditions:
            return of_videos[:0]
        where = " OR ".join(f"({condition})" for condition in self.conditions)
        try:
            found = cursor.execute(f"SELECT segment FROM {SCHEMA}.videos WHERE {where}").fetchnumpy()
        except duckdb.Error:
            return of_videos  # a condition that fails of videos which another one of the statement left out
        return np.asarray(found["segment"], np.int32)


def coarse_remark(segments: NDArray[np.int32], quick: NDArray[np.int32]) -> tuple[str, ...]:
    """One line where videos that were asked were looked at quickly.

    Args:
        segments: (V,) of the videos asked.
        quick: (Q,) of which keyframes alone were looked at.
    """
    count = int(np.isin(segments, quick).sum())
    if not count:
        return ()
    was = "was" if count == 1 else "were"
    return (
        f"{count} of {counted(len(segments), 'video')} searched {was} indexed by keyframes alone (--quick),"
        f" so the answer is coarse there; look closer with: {command('index', 'PATH')}",
    )
