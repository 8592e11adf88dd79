"""Matches come in; the tables that the SQL of their statement joins go out, in DuckDB.

One table has each match beside its track. Others have the tracks' best views, and a box per frame of the
tracks that the statement follows. They come from the matcher's memory if possible: otherwise DuckDB would
read the Parquet files of all tracks to find a few hundred, and the statistics of every row group to plan it.
"""

from __future__ import annotations

import contextlib

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.query.handed.following import Videos, followed, no_places
from panorama.query.handed.lending import lend
from panorama.query.handed.relations import SCHEMA
from panorama.query.matching.matches import Matcher, Matches
from panorama.query.shorthands.clock_sql import joined_pictures, span_of
from panorama.store.ascending import rows_in

MANY_TRACKS = 50_000
"""For more tracks than this, read the stored tables: faster then, and takes no memory."""

MANY_FOLLOWED = 200_000
"""For more boxes or frames than this, read the stored tables: a LIMIT may need few of them."""


def _clocks(rows: str) -> str:
    """SQL of the clocks of intervals, a table beside the videos `v`, over `_pictures`."""
    ends = f"{rows}.start_time", f"{rows}.end_time"
    start, end = span_of("_clock", "v.start_clock", *ends)
    start_utc, end_utc = span_of("_utc", "v.start_utc", *ends)
    return f"{start} AS start_clock, {end} AS end_clock, {start_utc} AS start_utc, {end_utc} AS end_utc"


def _pictures(rows: str) -> str:
    return joined_pictures("v.clock_key", f"{rows}.start_time", f"{rows}.end_time")


SIGHTINGS = f"""
CREATE TEMP VIEW sightings AS
SELECT t.entity, v.video, t.track_id, t.score, t.start_time, t.end_time, {_clocks("t")}
FROM _p0_matches_found t JOIN _panorama.videos v ON v.segment = t.segment {_pictures("t")}
WHERE t.band = 'accepted'
"""
MOMENTS = f"""
CREATE TEMP VIEW moments AS
SELECT m.*, {_clocks("m")} FROM ({{moments}}) m JOIN _panorama.videos v ON v.video = m.video
{_pictures("m")}
"""


def found_of(matches: str) -> str:
    """Name of the table with the rows of a table of matches, each beside its track."""
    return f"{matches}_found"


def views_of(matches: str) -> str:
    """Name of the table with the best crops of a table of matches."""
    return f"{matches}_views"


def places_of(matches: str) -> str:
    """Name of the table with a box for every frame of the tracks of a table of matches."""
    return f"{matches}_places"


def tracks_of(matches: Matches, matcher: Matcher) -> pa.Table | None:
    """The tracks of the matches, ordered by id; None if there are many or only the files have them."""
    ids = np.unique(matches.track_id)
    return matcher.tracks(ids) if len(ids) <= MANY_TRACKS else None


def hand_over(
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    matches: Matches,
    tracks: pa.Table | None,
    matcher: Matcher,
    *,
    alone: bool = False,
    views: bool = False,
) -> None:
    """Give DuckDB the table `found_of(name)`.

    Args:
        tracks: the tracks of the matches, possibly others too; see `tracks_of`.
        alone: also create table `name` with the matches alone.
        views: also create `views_of(name)`.
    """
    if alone or tracks is None:
        lend(cursor, name, matches.to_arrow())
    if tracks is not None:
        lend(cursor, found_of(name), _with_tracks(matches, tracks))
        if not views:
            return  # most statements read nothing else by id
    ids = np.unique(matches.track_id)
    if tracks is None:
        give_tracks(cursor, f"{name}_tracks", ids, matcher)
        cursor.execute(_FOUND.format(found=found_of(name), matches=name))
    if views:
        few = len(ids) <= MANY_TRACKS
        crops = matcher.crops(ids, np.unique(matches.crop_id)) if few else None
        if crops is not None:
            lend(cursor, views_of(name), crops)
        else:
            cursor.execute(f"CREATE OR REPLACE TEMP VIEW {views_of(name)} AS FROM {SCHEMA}.crops")


_FOUND = """
CREATE OR REPLACE TEMP VIEW {found} AS SELECT t.*, m.entity, m.score, m.band, m.crop_id AS best_crop
FROM {matches} m JOIN {matches}_tracks t ON t.track_id = m.track_id
"""


def _with_tracks(matches: Matches, tracks: pa.Table) -> pa.Table:
    """The matches of some tracks (rows ordered by id), each beside its track."""
    ids = tracks.column("track_id").to_numpy()
    row = rows_in(ids, matches.track_id)
    known = row >= 0
    if not known.all():
        matches, row = matches[known], row[known]
    if len(row) != len(ids) or not np.array_equal(row, np.arange(len(row))):
        tracks = tracks.take(pa.array(row))
    found = matches.to_arrow()
    for column, told in (
        ("entity", "entity"),
        ("score", "score"),
        ("band", "band"),
        ("crop_id", "best_crop"),
    ):
        tracks = tracks.append_column(told, found.column(column))
    return tracks


def hand_over_followed(
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    track_ids: NDArray[np.int64],
    matcher: Matcher,
    videos: Videos,
    narrowed: str,
) -> bool:
    """Give DuckDB `places_of(name)`, for at least the tracks needed; False if there are too many.

    Args:
        track_ids: (T,) ascending; rows of other tracks are not needed.
        narrowed: SQL of those of the tracks that the statement follows. It is run only if there are too many
            tracks: a LIMIT or a time condition leaves few.
    """
    places = _places(track_ids, matcher, videos)
    if places is None:
        # The statement itself will report the error in its condition.
        with contextlib.suppress(duckdb.Error):
            found = cursor.execute(f"{narrowed} ORDER BY 1").fetchnumpy()["track_id"]
            places = _places(np.asarray(found, np.int64), matcher, videos)
    if places is not None:
        lend(cursor, places_of(name), places)
    return places is not None


def _places(track_ids: NDArray[np.int64], matcher: Matcher, videos: Videos) -> pa.Table | None:
    """A box for every frame of some tracks (T,), ascending; None if there are too many."""
    if not len(track_ids):
        return no_places()
    if len(track_ids) > MANY_TRACKS:
        return None
    rows = matcher.followed(track_ids, MANY_FOLLOWED)
    return None if rows is None else followed(*rows, videos)


def give_tracks(
    cursor: duckdb.DuckDBPyConnection, name: str, track_ids: NDArray[np.int64], matcher: Matcher
) -> None:
    """Give DuckDB the rows of `tracks` for some ids (T,), ascending, as table `name`."""
    rows = matcher.tracks(track_ids) if len(track_ids) <= MANY_TRACKS else None
    if rows is not None:
        lend(cursor, name, rows)
        return
    lend(cursor, f"{name}_ids", pa.table({"track_id": track_ids}))
    cursor.execute(
        f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {SCHEMA}.tracks"
        f" WHERE track_id IN (SELECT track_id FROM {name}_ids)"
    )
