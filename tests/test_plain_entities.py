"""What plain SQL asks of sightings and moments is found without changing any answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from query_samples import ENTITIES, FakeMatcher, make_engine, make_library

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.handed import by_entity
from panorama.query.sql.plain import plain_entities
from panorama.query.sql.plain_tree import read_statement
from panorama.query.text.tokens import tokenize


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, FakeMatcher]]:
    engine, matcher = make_engine(make_library(tmp_path_factory.mktemp("library")))
    yield engine, matcher
    engine.close()


FOUND = {
    "SELECT count(*) FROM sightings s JOIN videos v USING (video) WHERE s.entity = 'dog'": "dog",
    "SELECT camera FROM videos v LEFT JOIN sightings s ON s.video = v.video AND s.entity = 'dog'": "dog",
    "SELECT camera FROM videos v LEFT JOIN sightings s USING (video) WHERE entity = 'dog'": "dog",
    "SELECT video FROM videos ANTI JOIN sightings s ON s.video = videos.video AND s.entity = 'dog'": "dog",
    "SELECT 1 FROM sightings a, moments b WHERE (a.entity = 'dog' AND b.entity = 'red-van')": "dog red-van",
    "WITH s AS (SELECT * FROM sightings) SELECT s.video FROM s JOIN videos v ON v.video = s.video"
    " WHERE s.entity = 'dog'": "dog",
    "WITH s AS (FROM sightings WHERE score > 0.1), d AS (SELECT video, entity FROM s)"
    " SELECT a.video FROM d a, d b WHERE a.entity = 'dog' AND b.entity IN ('red-van', 'dog')": "dog red-van",
    "SELECT video FROM (SELECT DISTINCT entity, video FROM moments) x WHERE x.entity = 'dog'": "dog",
    "SELECT count(*) AS moments FROM moments WHERE entity = 'dog'": "dog",
    "SELECT sightings.video FROM sightings JOIN videos v USING (video) WHERE sightings.entity = 'dog'": "dog",
    "WITH sightings AS (SELECT * FROM sightings) SELECT video FROM sightings WHERE entity = 'dog'": "dog",
}
NOT_FOUND = (
    "SELECT name FROM (SELECT e.entity AS name FROM entities e WHERE EXISTS"
    " (SELECT 1 FROM sightings s WHERE e.entity = 'dog'))",
    "SELECT count(*) FROM videos v LEFT JOIN sightings s ON v.video = 'yard.mp4' AND v.camera = 'x'",
    "SELECT count(*) FROM sightings s LEFT JOIN videos v ON s.entity = 'dog'",
    "SELECT count(*) FROM videos v FULL JOIN sightings s ON s.video = v.video WHERE v.camera = 'gate'",
    "SELECT b.video FROM moments a ASOF JOIN sightings b ON a.score >= b.score WHERE b.entity = 'dog'",
    "SELECT * FROM (SELECT * FROM sightings LIMIT 2) WHERE entity = 'dog'",
    "SELECT * FROM (SELECT entity, count(*) OVER () FROM sightings) WHERE entity = 'dog'",
    "SELECT * FROM (SELECT DISTINCT ON (video) * FROM sightings ORDER BY score) WHERE entity = 'dog'",
    "SELECT * FROM (SELECT video AS entity, score FROM sightings) WHERE entity = 'dog'",
    "SELECT * FROM sightings AS s(video, entity) WHERE entity = 'dog'",
    "WITH s AS (FROM sightings) SELECT (SELECT count(*) FROM s) FROM s WHERE entity = 'dog'",
    "WITH s(video, entity) AS (FROM sightings) FROM s WHERE entity = 'dog'",
    "WITH s AS (FROM sightings) SELECT (SELECT count(*) FROM (TABLE s)) FROM s WHERE entity = 'dog'",
    "SELECT a.video FROM sightings a JOIN entities b USING (entity) WHERE entity = 'dog'",
    "SELECT 1 FROM sightings WHERE entity = 'dog' UNION ALL SELECT count(*) FROM (TABLE sightings)",
    "SELECT bin FROM histogram(sightings, score)",
)


@pytest.mark.parametrize("sql", FOUND)
def test_a_test_of_an_entity_is_followed_through_joins_and_subqueries(
    made: tuple[Engine, FakeMatcher], sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, matcher = made
    answer = sorted(engine.query(sql).fetchall(), key=repr)
    assert matcher.requests[-1].entities == tuple(FOUND[sql].split())
    assert answer == everything(engine, sql, monkeypatch)


@pytest.mark.parametrize("sql", NOT_FOUND)
def test_where_leaving_out_others_could_change_the_answer_all_are_matched(
    made: tuple[Engine, FakeMatcher], sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, matcher = made
    answer = sorted(engine.query(sql).fetchall(), key=repr)
    assert matcher.requests[-1].entities is None
    assert answer == everything(engine, sql, monkeypatch)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS moments FROM (SELECT moments WHERE entity = 'blue-van')",
        "SELECT moments.video FROM (SELECT moments WHERE entity = 'blue-van') AS moments",
        "WITH moments AS (SELECT moments WHERE entity = 'blue-van') SELECT count(*) FROM moments",
        "SELECT video, count(*) AS sightings FROM tracks GROUP BY video",
    ],
)
def test_an_alias_or_a_cte_with_the_name_of_a_relation_matches_nothing(
    made: tuple[Engine, FakeMatcher], sql: str
) -> None:
    """The whole album was matched for it, and entities that nobody asked for were told as uncertain."""
    engine, matcher = made
    before = len(matcher.requests)
    assert engine.query(sql).uncertain == 0
    assert all(request.entities == ("blue-van",) for request in matcher.requests[before:])
    engine.prepare([(sql, None)])


def everything(engine: Engine, sql: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """The rows when all entities are matched."""
    with monkeypatch.context() as patched:
        patched.setattr(by_entity, "plain_entities", lambda *_: None)
        return sorted(engine.query(sql).fetchall(), key=repr)


tests_of_entity = st.sampled_from(
    ["{}.entity = 'dog'", "{}.entity IN ('dog', 'red-van')", "entity = 'red-van'", "{}.score > 0.85", "true"]
)
relations = st.sampled_from(["sightings", "moments", "videos", "entities", "part"])
joined = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
parts = st.sampled_from(
    [
        "SELECT * FROM sightings",
        "SELECT entity, video, score FROM moments WHERE score > 0.84",
        "SELECT DISTINCT entity, video, 1.0 AS score FROM sightings",
        "SELECT entity, 'yard.mp4' AS video, max(score) AS score FROM sightings GROUP BY entity",
        "SELECT * FROM sightings ORDER BY score LIMIT 3",
    ]
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    left, right, how = draw(relations), draw(relations), draw(joined)
    on = [draw(tests_of_entity).format(name) for name in "ab"]
    on.append(draw(st.sampled_from(["true", "a.entity = b.entity", "a.video = b.video"])))
    where = draw(tests_of_entity).format(draw(st.sampled_from("ab")))
    picks = "a.*" if how in ("SEMI JOIN", "ANTI JOIN") else "a.*, b.*"
    sql = f"SELECT {picks} FROM {left} a {how} {right} b ON {' AND '.join(on)} WHERE {where}"
    sql = f"WITH part AS ({draw(parts)}) {sql}"
    return draw(st.sampled_from([sql, f"SELECT count(*) FROM ({sql})", f"FROM ({sql}) WHERE score > 0.9"]))


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=statements())
def test_random_joins_give_the_same_rows_as_with_all_entities_matched(
    made: tuple[Engine, FakeMatcher], monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    engine, _ = made
    try:
        answer = sorted(engine.query(sql).fetchall(), key=repr)
    except QueryError:
        return  # ambiguous or missing columns: both ways give no rows
    assert answer == everything(engine, sql, monkeypatch)


def test_a_statement_that_cannot_be_read_asks_for_all() -> None:
    assert (
        plain_entities(
            "SELECT (((", read_statement("SELECT (((", tokenize("SELECT (((")), {"sightings"}, ENTITIES
        )
        is None
    )
