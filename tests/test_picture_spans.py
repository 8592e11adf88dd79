"""Intervals of a folder's pictures begin with the earliest and end with the latest time of all in them."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, scene, write_album
from numpy.typing import NDArray

from panorama.query.handed.clocks import list_clocks, list_spans
from panorama.query.shorthands.clock_sql import joined_pictures, span_of
from panorama.store.catalog.picture_clocks import KEY_BITS, PICTURE_CLOCKS, PICTURE_SPANS, clocks_of
from panorama.video import picture_taken

BERLIN = ("--time-from", "metadata", "--timezone", "Europe/Berlin")
SECOND = 1_000_000


def trap(folder: Path, seconds: Sequence[str | None]) -> None:
    """Pictures of a red thing, taken at these seconds of one minute."""
    for number, taken in enumerate(seconds):
        whole, _, digits = (taken or "").partition(".")
        write_taken(
            folder / f"IMG_{number:04d}.jpg",
            f"2026:03:01 10:00:{whole}" if taken else None,
            picture=scene(0, [Thing("red", 0, 1)]),
            digits=digits,
        )


def spans(run: Callable[..., Ran], sql: str) -> list[tuple[str, str]]:
    """Begin and end of the rows of an answer, from their minutes on."""
    done = run("query", sql, "--format", "json")
    assert done.status == 0, done.err
    return [tuple(str(row[edge])[14:] for edge in ("start_clock", "end_clock")) for row in done.json]


QUESTIONS = (
    "SELECT moments, start_clock, end_clock WHERE entity = 'red'",
    "SELECT start_clock, end_clock FROM moments WHERE entity = 'red'",
    "SELECT start_clock, end_clock FROM sightings WHERE entity = 'red'",
    "SELECT tracks, start_clock, end_clock WHERE entity = 'red'",
    "SELECT start_clock, end_clock FROM tracks",
    "SELECT moments, start_clock, end_clock WHERE entity = 'red' AND time < '10:00:03'",
)


@pytest.mark.parametrize("taken", [("10", "02", "40", "20", "30"), (None, "02", "40", "20", None)])
def test_a_moment_of_pictures_is_as_long_as_their_times(
    run: Callable[..., Ran], tmp_path: Path, taken: tuple[str | None, ...]
) -> None:
    """It began and ended with its first and last picture by name: after a rename, or two cards in one."""
    trap(tmp_path / "v" / "trap", taken)
    run("index", "v", "--model", "color-bands", *BERLIN)
    run("register", "--album", write_album(tmp_path / "album", "red"))
    for sql in QUESTIONS:
        assert spans(run, sql) == [("00:02", "00:40.200000")], sql


def test_pictures_of_one_second_have_their_fractions(run: Callable[..., Ran], tmp_path: Path) -> None:
    """A burst of a camera trap, several a second: all had the same time, and nothing followed anything."""
    trap(tmp_path / "v" / "trap", ("02.0", "02.35", "02.7 ", "03.050"))
    run("index", "v", "--model", "color-bands", *BERLIN)
    asked = run("query", "SELECT clock FROM frames ORDER BY frame", "--format", "json").json
    assert [str(row["clock"])[17:] for row in asked] == ["02", "02.350000", "02.700000", "03.050000"]
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        whole = (np.array([0, 0, 0, 1], "<i8") * SECOND).tobytes()  # as an earlier version read them
        catalog.execute("UPDATE videos SET picture_offsets = ?", (whole,))
    catalog.close()
    run("clock", "trap", "--at", "")
    run("clock", "trap", *BERLIN)
    assert run("query", "SELECT clock FROM frames ORDER BY frame", "--format", "json").json == asked


@pytest.mark.parametrize("digits", ["", "  ", "\0\0", "1a", "-5", "٣"])
def test_digits_that_are_none_count_as_no_fraction(digits: str, tmp_path: Path) -> None:
    path = write_taken(tmp_path / "a.jpg", "2026:03:01 10:00:02", digits=digits)
    assert picture_taken(path) == 1772359202.0


def shown(connection: duckdb.DuckDBPyConnection, first: int, after: int) -> tuple[Any, Any]:
    """Begin and end in UTC of an interval of pictures, in whole seconds."""
    start, end = span_of("_utc", "TIMESTAMP '2000-01-01'", "r.a", "r.b")
    sql = f"""SELECT epoch_us({start}), epoch_us({end}) - 200000
        FROM (SELECT {first / 5} AS a, {after / 5} AS b, {7 << KEY_BITS} AS key) r
        {joined_pictures("r.key", "r.a", "r.b")}"""
    found = connection.execute(sql).fetchone()
    assert found is not None
    return found


def checked_by_hand(utc: NDArray[np.int64], known: NDArray[np.bool_]) -> int:
    """Compare every interval of some pictures with plain Python; returns how many rows it took."""
    clocks, spanned = clocks_of(7 << KEY_BITS, utc, utc, known)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA _panorama")
        list_clocks(connection, clocks)
        list_spans(connection, spanned)
        for first, last in itertools.combinations_with_replacement(range(len(utc)), 2):
            inside = utc[first : last + 1][known[first : last + 1]].tolist()
            wanted = (min(inside), max(inside)) if inside else (None, None)
            assert shown(connection, first, last + 1) == wanted, (first, last, utc.tolist(), known.tolist())
    assert clocks.schema == PICTURE_CLOCKS and spanned.schema == PICTURE_SPANS
    return len(spanned)


def test_every_interval_has_the_earliest_and_the_latest_time_in_it() -> None:
    chance = np.random.default_rng(5)
    for count, gaps in ((1, 0.0), (2, 0.5), (9, 0.3), (17, 0.0), (13, 0.8), (8, 1.0)):
        utc = chance.integers(0, 20, count) * SECOND
        checked_by_hand(utc, chance.random(count) >= gaps)


def test_pictures_in_order_need_no_rows_and_one_step_back_few() -> None:
    ordered, known = np.arange(16) * SECOND, np.ones(16, np.bool_)
    assert checked_by_hand(ordered, known) == 0
    assert checked_by_hand(np.roll(ordered, 5), known) == 1 + 3 + 5 + 1


def test_the_ends_of_an_interval_are_looked_up_once() -> None:
    """Five more expressions found the spans: planning took 5 ms longer, in libraries of films too."""
    joined = joined_pictures("v.clock_key", "t.start_time", "t.end_time")
    assert (joined.count("t.start_time"), joined.count("t.end_time")) == (1, 1)
