"""Videos indexed by keyframes alone come in; the remark about them beside an answer goes out.

Only tracks and what is derived from them depend on how many frames were looked at. Facts about videos and
frames themselves are the same, so they need no remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from panorama.commands import command
from panorama.errors import QueryError
from panorama.lines import counted
from panorama.query.handed.relations import MATCHED_COLUMNS, SCHEMA
from panorama.query.shorthands.plan import Query
from panorama.query.shorthands.rules import needed_videos
from panorama.query.sql.plain import plain_videos, relations_read
from panorama.query.sql.rewrite import Rewriter

OF_TRACKS = frozenset(("tracks", "detections", "crops")) | MATCHED_COLUMNS.keys()
"""The relations that depend on what indexing found in the frames."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The videos whose indexed contents a statement asks for.

    Attributes:
        conditions: over the relation `videos`; a video counts if one of them holds. None: all videos count.
    """

    conditions: tuple[str | None, ...] = ()

    @classmethod
    def of_shorthands(cls, queries: Sequence[Query]) -> Asked:
        """The videos that shorthands ask for; `SELECT frames` that looks for nothing does not count."""
        looking = [query for query in queries if query.target != "frames" or query.every_seen()]
        return cls(tuple(needed_videos(query) for query in looking))

    @classmethod
    def of_plain(cls, sql: str, reader: Rewriter, named: set[str]) -> Asked:
        """The videos that plain SQL asks for, through the relations named in it."""
        tables = relations_read(sql, reader.plain, named)
        if not tables:
            return cls()
        try:
            needs = plain_videos(sql, reader.plain, tables, reader.select)
        except QueryError:  # a parameter that cannot be written as text
            needs = []
        return cls(tuple(f"video IN (SELECT video FROM {need.videos})" for need in needs) or (None,))

    def __add__(self, other: Asked) -> Asked:
        return Asked(self.conditions + other.conditions)

    def segments(self, of_videos: NDArray[np.int32], cursor: duckdb.DuckDBPyConnection) -> NDArray[np.int32]:
        """The segment of every video that the statement asks for.

        Args:
            of_videos: (V,) segments of all videos.
        """
        if None in self.conditions:
            return of_videos
        if not self.conditions:
            return of_videos[:0]
        where = " OR ".join(f"({condition})" for condition in self.conditions)
        try:
            found = cursor.execute(f"SELECT segment FROM {SCHEMA}.videos WHERE {where}").fetchnumpy()
        except duckdb.Error:
            return of_videos  # the condition fails on videos that another condition of the statement excludes
        return np.asarray(found["segment"], np.int32)


def coarse_remark(segments: NDArray[np.int32], quick: NDArray[np.int32]) -> tuple[str, ...]:
    """One line if videos that the statement asks for were indexed by keyframes alone, otherwise none.

    Args:
        segments: (V,) of the videos that the statement asks for.
        quick: (Q,) segments that were indexed by keyframes alone.
    """
    count = int(np.isin(segments, quick).sum())
    if not count:
        return ()
    was = "was" if count == 1 else "were"
    return (
        f"{count} of {counted(len(segments), 'video')} searched {was} indexed by keyframes alone (--quick),"
        f" so the answer is coarse there; look closer with: {command('index', 'PATH')}",
    )
