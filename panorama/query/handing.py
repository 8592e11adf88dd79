"""Matches enter; the tables that the SQL of their statement joins stand in DuckDB afterwards.

Beside the matches lie their tracks, the best view of each, and the boxes and frames that following them
takes, where the matcher knows them: DuckDB would read the Parquet files of all tracks to find a few hundred,
and the statistics of every row group to plan it.
"""

from __future__ import annotations

import contextlib

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
) -> None:
    """Give DuckDB the matches as table `name`, and `tracks_of(name)`; with `views` also `views_of(name)`."""
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


def hand_over_followed(
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    track_ids: NDArray[np.int64],
    matcher: Matcher,
    narrowed: str,
) -> None:
    """Give DuckDB `boxes_of(name)` and `frames_of(name)`, those of some tracks at least.

    Args:
        track_ids: (T,) the tracks; of no other one are the rows needed.
        narrowed: SQL of those of them that the statement follows, asked where they are many: a LIMIT or a
            time leaves few.
    """
    track_ids = np.unique(track_ids)
    few = 0 < len(track_ids) <= MANY_TRACKS
    rows = matcher.followed(track_ids, MANY_FOLLOWED) if few else None
    if rows is None and len(track_ids):
        # The statement itself will say what is wrong with its condition.
        with contextlib.suppress(duckdb.Error):
            found = cursor.execute(f"{narrowed} ORDER BY 1").fetchnumpy()["track_id"]
            track_ids = np.asarray(found, np.int64)
            few = 0 < len(track_ids) <= MANY_TRACKS
            rows = matcher.followed(track_ids, MANY_FOLLOWED) if few else None
    if rows is not None:
        cursor.register(boxes_of(name), rows[0])
        cursor.register(frames_of(name), rows[1])
        return
    # DuckDB may begin a join by reading all frames, also where it turns out that there is no track.
    where = "" if len(track_ids) else " WHERE false"
    _give_stored(cursor, boxes_of(name), "boxes", where)
    _give_stored(cursor, frames_of(name), "frames", where)


def _give_stored(cursor: duckdb.DuckDBPyConnection, name: str, table: str, where: str = "") -> None:
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {SCHEMA}.{table}{where}")


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
