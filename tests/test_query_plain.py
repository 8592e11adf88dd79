"""Plain SQL reaches DuckDB as typed: the same columns, types and rows as DuckDB alone gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from query_samples import FakeMatcher, Tables, make_engine, make_library

from panorama.query.engine import Engine
from panorama.query.handed.relations import RELATION_COLUMNS, RELATIONS, Limits, connect
from panorama.query.matching.matches import MatchRequest

SELECTS = [
    line
    for line in (Path(__file__).parent / "fixtures" / "plain_selects.sql").read_text("utf-8").splitlines()
    if line and not line.startswith("--")
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return make_library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def engine(tables: Tables) -> Iterator[Engine]:
    made, _ = make_engine(tables)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(tables: Tables, engine: Engine) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB alone over the same relations; sightings and moments are tables made by hand."""
    connection = connect(tables, Limits(threads=1))
    matches = FakeMatcher().match(MatchRequest(keep="accepted"))
    connection.register("matches", matches[matches.band == 2].to_arrow())
    connection.execute(
        "CREATE TEMP VIEW sightings AS"
        " SELECT m.entity, t.video, m.track_id, m.score, t.start_time, t.end_time, t.start_clock,"
        " t.end_clock, v.start_utc + t.start_time * INTERVAL 1 SECOND AS start_utc,"
        " v.start_utc + t.end_time * INTERVAL 1 SECOND AS end_utc"
        " FROM matches m JOIN tracks t USING (track_id) JOIN videos v USING (video)"
    )
    connection.register("moments_rows", engine.query("SELECT moments").arrow())
    connection.execute(
        "CREATE TEMP VIEW moments AS SELECT m.*,"
        " v.start_clock + m.start_time * INTERVAL 1 SECOND AS start_clock,"
        " v.start_clock + m.end_time * INTERVAL 1 SECOND AS end_clock,"
        " v.start_utc + m.start_time * INTERVAL 1 SECOND AS start_utc,"
        " v.start_utc + m.end_time * INTERVAL 1 SECOND AS end_utc"
        " FROM moments_rows m JOIN videos v USING (video)"
    )
    yield connection
    connection.close()


def same(a: object, b: object) -> bool:
    """Equality in which NaN is itself and sums may differ in the last digit."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-12)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("sql", SELECTS)
def test_a_plain_select_gives_what_duckdb_gives(
    engine: Engine, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    expected = plain.execute(sql)
    description = expected.description or []
    rows = expected.fetchall()
    result = engine.query(sql)
    assert result.columns == [column[0] for column in description]
    assert result.types == [str(column[1]) for column in description]
    found = [tuple(row) for row in result.fetchall()]
    if sql.startswith("SHOW TABLES"):  # the tables made by hand
        rows = sorted({row for row in rows if row[0] not in ("matches", "moments_rows")})
    assert same(found, rows), (found[:5], rows[:5])


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ? + 1, ?", [1, "x"]),
        ("SELECT $1, $2, $1", [1, "x"]),
        ("SELECT $a, $b", {"a": 1.5, "b": None}),
        ("SELECT count(*) FROM frames WHERE time < ? AND video = ?", [2.0, "yard.mp4"]),
        ("SELECT count(*) FROM sightings WHERE entity = $name", {"name": "dog"}),
        ("SELECT list_contains(?, 3)", [[1, 2, 3]]),
        ("SELECT $1::DATE + 1", ["2026-03-01"]),
        ("FROM entities ORDER BY entity LIMIT ? OFFSET ?", [2, 1]),
        ("SELECT count(*) FROM tracks WHERE video IN (?, ?)", ["yard.mp4", "gate-1.mp4"]),
        ("WITH x AS (SELECT $n AS n) SELECT n, $n * 2 FROM x", {"n": 3}),
        ("SELECT list_filter([1, 2, 3], lambda x: x > ?)", [1]),
        ("SELECT '?', '$a', $a", {"a": "?"}),
        ("VALUES (?, ?), (3, 4)", [1, 2]),
    ],
)
def test_parameters_of_plain_sql_are_bound_by_duckdb(
    engine: Engine, plain: duckdb.DuckDBPyConnection, sql: str, parameters: object
) -> None:
    assert engine.query(sql, parameters).fetchall() == plain.execute(sql, parameters).fetchall()


def test_a_trailing_semicolon_and_comment_change_nothing(engine: Engine) -> None:
    assert engine.query("SELECT 1; -- done").fetchall() == [(1,)]
    assert engine.query("  /* first */ SELECT 1 ;; ").fetchall() == [(1,)]


def test_the_columns_of_the_relations_are_those_that_push_down_knows(engine: Engine) -> None:
    assert set(RELATION_COLUMNS) == set(RELATIONS)
    for name, columns in RELATION_COLUMNS.items():
        assert set(engine.query(f"SELECT * FROM {name} LIMIT 0").columns) == columns, name
