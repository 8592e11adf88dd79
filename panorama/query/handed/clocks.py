"""Times of pictures come in; the macros by which SQL reads the clock of rows go out, in DuckDB.

A film's clock runs on from its start. Pictures of a folder may have times of their own: they are found by
their video and their number, which is their time in frames. Column names begin with an underscore, so that
the parameters of macros still refer to the surrounding rows. Other libraries get macros without
look-ups, which cost nothing.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from panorama.frames import PICTURES_PER_SECOND
from panorama.query.handed.lending import lent
from panorama.query.shorthands.clock import clock_seconds

_TABLE = """
CREATE OR REPLACE TABLE _panorama.picture_clocks AS SELECT video AS _video, number AS _number,
    coalesce(clock, TIMESTAMP 'infinity') AS _clock, coalesce(utc, TIMESTAMP 'infinity') AS _utc,
    alarm AS _alarm
FROM _panorama_clocks
"""
"""What is unknown is 'infinity', to tell it from what is not listed: NULL."""

_FRAME = f"INTERVAL {1_000_000 // PICTURES_PER_SECOND} MICROSECONDS"
_FIRST = f"CAST(round(start_seconds * {PICTURES_PER_SECOND}) AS BIGINT)"
_LAST = f"CAST(round(end_seconds * {PICTURES_PER_SECOND}) AS BIGINT) - 1"


def _held(column: str, number: str) -> str:
    """SQL of a value of one picture; NULL for films."""
    listed = "_panorama.picture_clocks p WHERE p._video = of_video"
    return f"(SELECT p.{column} FROM {listed} AND p._number = {number})"


def _known(column: str, number: str) -> str:
    """SQL of a time of one picture; NULL if it is unknown, and for films."""
    return f"nullif({_held(column, number)}, TIMESTAMP 'infinity')"


_AT = clock_seconds("base", "start_seconds")
_UNTIL = clock_seconds("base", "end_seconds")

_OF_FILMS = (
    f"CREATE MACRO _panorama.clock_at(of_video, base, start_seconds) AS {_AT}",
    f"CREATE MACRO _panorama.clock_from(of_video, base, start_seconds, end_seconds) AS {_AT}",
    f"CREATE MACRO _panorama.clock_to(of_video, base, start_seconds, end_seconds) AS {_UNTIL}",
    f"CREATE MACRO _panorama.utc_from(of_video, base, start_seconds, end_seconds) AS {_AT}",
    f"CREATE MACRO _panorama.utc_to(of_video, base, start_seconds, end_seconds) AS {_UNTIL}",
    "CREATE MACRO _panorama.seconds_from(of_video, start_seconds, end_seconds) AS start_seconds",
    "CREATE MACRO _panorama.seconds_to(of_video, start_seconds, end_seconds) AS end_seconds",
    "CREATE MACRO _panorama.is_other_alarm(of_video, end_seconds, start_seconds) AS false",
)


def _span(least: str, column: str) -> str:
    """SQL of the first or last known time of the pictures at both ends of an interval."""
    return f"{least}({_known(column, _FIRST)}, {_known(column, _LAST)})"


def _or(listed: str, of_film: str, then: str) -> str:
    return f"CASE WHEN {_held(listed, _FIRST)} IS NULL THEN {of_film} ELSE {then} END"


_OF_PICTURES = (
    f"CREATE MACRO _panorama.clock_at(of_video, base, start_seconds) AS"
    f" nullif(coalesce({_held('_clock', _FIRST)}, {_AT}), TIMESTAMP 'infinity')",
    f"CREATE MACRO _panorama.clock_from(of_video, base, start_seconds, end_seconds) AS"
    f" {_or('_clock', _AT, _span('least', '_clock'))}",
    f"CREATE MACRO _panorama.clock_to(of_video, base, start_seconds, end_seconds) AS"
    f" {_or('_clock', _UNTIL, _span('greatest', '_clock') + ' + ' + _FRAME)}",
    f"CREATE MACRO _panorama.utc_from(of_video, base, start_seconds, end_seconds) AS"
    f" {_or('_utc', _AT, _span('least', '_utc'))}",
    f"CREATE MACRO _panorama.utc_to(of_video, base, start_seconds, end_seconds) AS"
    f" {_or('_utc', _UNTIL, _span('greatest', '_utc') + ' + ' + _FRAME)}",
    f"CREATE MACRO _panorama.seconds_from(of_video, start_seconds, end_seconds) AS"
    f" {_or('_utc', 'start_seconds', 'epoch(' + _span('least', '_utc') + ')')}",
    f"CREATE MACRO _panorama.seconds_to(of_video, start_seconds, end_seconds) AS"
    f" {_or('_utc', 'end_seconds', 'epoch(' + _span('greatest', '_utc') + ')')}",
    f"CREATE MACRO _panorama.is_other_alarm(of_video, end_seconds, start_seconds) AS"
    f" coalesce({_held('_alarm', _LAST)} <> {_held('_alarm', _FIRST)}, false)",
)
"""
clock_at: the clock at an instant of a video, `start_seconds` after its start, whose clock is `base`.
clock_from, clock_to, utc_from, utc_to: the clock, or UTC, at the ends of an interval.
seconds_from, seconds_to: numbers that tell how far apart intervals of one video are.
is_other_alarm: whether what begins at `start_seconds` belongs to another alarm than what ended before.
"""


def add_clocks(connection: duckdb.DuckDBPyConnection, clocks: pa.Table) -> None:
    """Create the macros over the clocks of pictures; `list_clocks` replaces the times later."""
    for statement in _OF_PICTURES if len(clocks) else _OF_FILMS:
        connection.execute(statement)


def list_clocks(connection: duckdb.DuckDBPyConnection, clocks: pa.Table) -> None:
    """Fill the table of the clocks of pictures, in place of an earlier one."""
    with lent(connection, "_panorama_clocks", clocks):
        connection.execute(_TABLE)
