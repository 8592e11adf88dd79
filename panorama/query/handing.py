"""Matches enter; the tables that the SQL of their statement joins stand in DuckDB afterwards.

Beside the matches lie their tracks, the best view of each, and the boxes and frames that following them
takes, where the matcher knows them: DuckDB would read the Parquet files of all tracks to find a few hundred,
and the statistics of every row group to plan it.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.query.clock import clock_seconds
from panorama.query.matches import Matcher, Matches
from panorama.query.relations import SCHEMA

MANY_TRACKS = 50_000
"""Of more tracks the stored tables are read: that is quicker then, and takes no memory."""

MANY_FOLLOWED = 200_000
"""Of more boxes or frames the stored tables are read: a LIMIT may need few of them."""

SIGHTINGS = f"""
CREATE TEMP VIEW sightings AS
SELECT m.entity, v.video, m.track_id, m.score, t.start_time, t.end_time,
       {clock_seconds("v.start_clock", "t.start_time")} AS start_clock,
       {clock_seconds("v.start_clock", "t.end_time")} AS end_clock
FROM _p0_matches m JOIN _p0_matches_tracks t ON t.track_id = m.track_id
JOIN _panorama.videos v ON v.segment = t.segment WHERE m.band = 'accepted'
"""
MOMENTS = f"""
CREATE TEMP VIEW moments AS
SELECT m.*, {clock_seconds("v.start_clock", "m.start_time")} AS start_clock,
       {clock_seconds("v.start_clock", "m.end_time")} AS end_clock
FROM ({{moments}}) m JOIN _panorama.videos v ON v.video = m.video
"""


def tracks_of(matches: str) -> str:
    """The name of the table that holds the tracks of a table of matches."""
    return f"{matches}_tracks"


def views_of(matches: str) -> str:
    """The name of the table that holds the best crops of a table of matches."""
    return f"{matches}_views"


def boxes_of(matches: str) -> str:
    """The name of the table that holds the boxes of the tracks of a table of matches, at least."""
    return f"{matches}_boxes"


def frames_of(matches: str) -> str:
    """The name of the table that holds the frames of the tracks of a table of matches, at least."""
    return f"{matches}_frames"


def hand_over(
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    matches: Matches,
    matcher: Matcher,
    *,
    views: bool = False,
    followed: bool = False,
) -> None:
    """Give DuckDB the matches as table `name`, and `tracks_of(name)`.

    Args:
        views: also `views_of(name)`.
        followed: also `boxes_of(name)` and `frames_of(name)`.
    """
    cursor.register(name, matches.to_arrow())
    tracks = np.unique(matches.track_id)
    give_tracks(cursor, tracks_of(name), tracks, matcher)
    if views:
        few = len(tracks) <= MANY_TRACKS
        crops = matcher.crops(tracks, np.unique(matches.crop_id)) if few else None
        if crops is not None:
            cursor.register(views_of(name), crops)
        else:
            _give_stored(cursor, views_of(name), "crops")
    if followed:
        rows = matcher.followed(tracks, MANY_FOLLOWED) if len(tracks) <= MANY_TRACKS else None
        for place, (table, given) in enumerate((("boxes", boxes_of(name)), ("frames", frames_of(name)))):
            if rows is not None:
                cursor.register(given, rows[place])
            else:
                _give_stored(cursor, given, table)


def _give_stored(cursor: duckdb.DuckDBPyConnection, name: str, table: str) -> None:
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {SCHEMA}.{table}")


def give_tracks(
    cursor: duckdb.DuckDBPyConnection, name: str, track_ids: NDArray[np.int64], matcher: Matcher
) -> None:
    """Give DuckDB the rows of `tracks` of some ids (T,), ascending, as table `name`."""
    rows = matcher.tracks(track_ids) if len(track_ids) <= MANY_TRACKS else None
    if rows is not None:
        cursor.register(name, rows)
        return
    cursor.register(f"{name}_ids", pa.table({"track_id": track_ids}))
    cursor.execute(
        f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {SCHEMA}.tracks"
        f" WHERE track_id IN (SELECT track_id FROM {name}_ids)"
    )
