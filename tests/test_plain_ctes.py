"""Which CTE or relation a name means, and which columns it has, is the same for push-down and for DuckDB."""

from __future__ import annotations

import re
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.matching.matches import MatchRequest
from panorama.query.sql.plain_tree import read_statement, sources_of
from panorama.query.text.tokens import tokenize


def requests(engine: Engine) -> list[MatchRequest]:
    """What was matched so far."""
    return engine._matcher.requests  # type: ignore[attr-defined]


def columns(sql: str) -> frozenset[str] | None:
    """The columns of the first source of a statement's outermost SELECT; None if unknown."""
    statement = read_statement(sql, tokenize(sql))
    assert statement is not None and isinstance(statement.tree, exp.Select)
    sources = sources_of(statement.tree, statement)
    assert sources is not None
    return sources[0].columns


@pytest.mark.parametrize(
    "sql",
    [
        "WITH tracks AS (SELECT * FROM tracks) SELECT count(*) FROM tracks JOIN sightings USING (track_id)",
        "WITH tracks AS (SELECT t.* FROM tracks t) SELECT count(*) FROM tracks JOIN moments USING (track_id)",
        "WITH tracks AS (SELECT * FROM tracks) SELECT max(similarity('a.jpg')) FROM tracks",
        "WITH videos AS (SELECT * FROM videos) SELECT count(*) FROM videos JOIN sightings USING (video)",
        "WITH RECURSIVE tracks AS (SELECT * FROM tracks) SELECT max(similarity('a.jpg')) FROM tracks",
        "WITH t AS (WITH tracks AS (SELECT * FROM tracks) FROM tracks), tracks AS (FROM t)"
        " SELECT count(*) FROM tracks, sightings",
    ],
)
def test_a_cte_may_have_the_name_of_what_it_reads(engine: Engine, sql: str) -> None:
    """Its columns were looked for in itself, without an end: RecursionError."""
    ((value,),) = engine.query(sql).fetchall()
    assert value > 0


def test_a_condition_is_pushed_below_a_cte_that_has_the_name_of_its_relation(
    engine: Engine,
) -> None:
    engine.query(
        "WITH tracks AS (SELECT *, similarity('a.jpg') AS alike FROM tracks WHERE video = 'yard.mp4')"
        " SELECT max(alike) FROM tracks"
    )
    request = [one for one in requests(engine) if one.keep == "all"][-1]
    assert request.segments is not None and request.segments.tolist() == [3]


def test_of_equal_names_each_mention_is_followed_to_the_cte_that_it_means(
    engine: Engine,
) -> None:
    inner = "SELECT * FROM (WITH s AS (FROM s WHERE score > 0.1) FROM s) WHERE entity = 'dog'"
    rows = engine.query(f"WITH s AS (FROM sightings) {inner}").fetchall()
    assert requests(engine)[-1].entities == ("dog",)
    assert [row.entity for row in rows] == ["dog"]


def test_hundreds_of_ctes_each_over_the_one_before_it_are_followed(engine: Engine) -> None:
    """Several calls for each of them were more than Python allows: RecursionError."""
    chain = ", ".join(f"s{n} AS (SELECT * FROM s{n - 1})" for n in range(1, 490))
    sql = f"WITH s0 AS (FROM sightings), {chain} SELECT count(*) FROM s489 WHERE entity = 'dog'"
    assert engine.query(sql).fetchall() == [(1,)]
    assert requests(engine)[-1].entities == ("dog",)


def test_columns_are_read_once_however_often_a_cte_is_named() -> None:
    """They were read anew at every mention, here 2 ** 40 times."""
    chain = ", ".join(f"s{n} AS (SELECT * FROM s{n - 1} a, s{n - 1} b)" for n in range(1, 41))
    assert "track_id" in (columns(f"WITH s0 AS (FROM crops), {chain} SELECT * FROM s40") or ())


names = st.sampled_from(["videos", "entities", "a", "b"])


@st.composite
def queries(draw: st.DrawFn, depth: int = 0) -> str:
    """A SELECT with a column of its own, over a name, a subquery, or both; perhaps with CTEs."""
    read = draw(names) if depth > 2 or draw(st.booleans()) else f"({draw(queries(depth + 1))}) q"
    sql = f"SELECT *, 1 AS c FROM {read}"
    if depth > 2 or not draw(st.booleans()):
        return sql
    called = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    word = "WITH RECURSIVE" if draw(st.integers(0, 4)) == 0 else "WITH"
    ctes = ", ".join(f"{name} AS ({draw(queries(depth + 1))})" for name in called)
    return f"{word} {ctes} {sql}"


@settings(deadline=None, max_examples=150)
@given(query=queries())
def test_random_ctes_that_shadow_each_other_have_the_columns_that_duckdb_gives(
    engine: Engine, query: str
) -> None:
    number = count()
    query = re.sub(r"\bc\b", lambda _: f"c{next(number)}", query)
    sql = f"SELECT * FROM ({query})"
    try:
        given = engine.query(sql).columns
    except QueryError:
        return  # a name that means nothing there
    found = columns(sql)
    assert found == set(given) or (found is None and "RECURSIVE" in sql)
