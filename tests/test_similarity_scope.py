"""Of how many crops the similarity is asked for, and that the answer is that of asking for all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panorama.errors import QueryError
from panorama.query import engine as engine_module
from panorama.query.engine import Engine
from panorama.query.handed import by_entity
from panorama.query.handed.relations import RELATION_COLUMNS
from panorama.query.matching.matches import MatchRequest

LIKE = "similarity('a.jpg')"


def asked(engine: Engine, sql: str, monkeypatch: pytest.MonkeyPatch, parameters: Any = None) -> MatchRequest:
    """The request for similarities; the answer is compared with that of all similarities."""
    matcher = engine._matcher
    answer = engine.query(sql, parameters).fetchall()
    request = [one for one in matcher.requests if one.keep == "all"][-1]  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:
        patched.setattr(engine_module, "similarity_request", lambda *_: MatchRequest(keep="all"))
        assert sorted(map(repr, engine.query(sql, parameters).fetchall())) == sorted(map(repr, answer))
    return request


@pytest.mark.parametrize(
    ("sql", "least", "segments"),
    [
        (f"SELECT frames WHERE {LIKE} > 0.95", 0.95, None),
        (f"SELECT frames WHERE {LIKE} >= 0.99 AND video LIKE 'gate-%'", 0.99, [1, 2]),
        (f"SELECT frames WHERE entity = 'red-van' AND {LIKE} > 0.9", 0.9, None),
        (f"SELECT crops WHERE {LIKE} > 0.9 AND camera = 'yard'", 0.9, [3]),
        (f"SELECT tracks WHERE {LIKE} > 0.9 ORDER BY {LIKE} DESC LIMIT 2", 0.9, None),
        (f"SELECT moments WHERE entity = 'dog' AND {LIKE} > 0.7 AND video = 'yard.mp4'", 0.7, [3]),
        (f"SELECT count(*) FROM (SELECT crops WHERE {LIKE} >= .95)", 0.95, None),
    ],
)
def test_a_least_similarity_and_the_videos_restrict_what_is_compared(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    least: float,
    segments: list[int] | None,
) -> None:
    request = asked(engine, sql, monkeypatch)
    assert request.min_score == least
    assert (None if request.segments is None else request.segments.tolist()) == segments


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT frames WHERE {LIKE} > 0.9 OR frame = 10",
        f"SELECT crops WHERE NOT {LIKE} > 0.9",
        f"SELECT crops WHERE {LIKE} < 0.9",
        f"SELECT crops WHERE {LIKE} + 1 > 0.9",
        f"SELECT tracks WHERE {LIKE} > 0.9 ORDER BY {LIKE}",
        f"SELECT frames WHERE entity = 'dog' AND NOT (entity = 'it''s' AND {LIKE} > 0.9)",
        f"SELECT tracks WHERE track_id IN (SELECT track_id FROM crops WHERE {LIKE} > 0.9)",
        f"SELECT max({LIKE}) FROM tracks SEMI JOIN (SELECT tracks WHERE samples > 1) USING (track_id)",
        f"SELECT *, {LIKE} AS how FROM crops SEMI JOIN (SELECT crops WHERE {LIKE} > 0.9) USING (crop_id)",
    ],
)
def test_elsewhere_every_crop_is_compared(engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    request = asked(engine, sql, monkeypatch)
    assert (request.min_score, request.segments, request.tracks) == (None, None, None)


@pytest.mark.parametrize(
    ("sql", "segments"),
    [
        (f"SELECT crop_id, {LIKE} AS how FROM crops WHERE video = 'yard.mp4' ORDER BY how DESC, 1", [3]),
        (
            f"SELECT track_id FROM tracks t WHERE t.video IN ('gate-1.mp4', 'yard.mp4') AND {LIKE} > 0.9",
            [1, 3],
        ),
        (f"SELECT max({LIKE}) FROM crops WHERE video = 'nowhere.mp4'", []),
        (f"SELECT max({LIKE}) FROM crops WHERE video = 'yard.mp4' OR crop_id > 0", None),
        (f"SELECT (SELECT max({LIKE}) FROM crops) FROM crops WHERE video = 'yard.mp4'", None),
        (f"SELECT max({LIKE}) FROM crops AS c(video, crop_id) WHERE video = 1", None),
        (f"SELECT max({LIKE}) FROM crops JOIN tracks USING (track_id) WHERE crops.video = 'yard.mp4'", [3]),
        (f"SELECT {LIKE} FROM crops WHERE video = 'yard.mp4' UNION ALL SELECT 1", [3]),
    ],
)
def test_plain_sql_over_some_videos_compares_their_crops_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str, segments: list[int] | None
) -> None:
    request = asked(engine, sql, monkeypatch)
    assert (None if request.segments is None else request.segments.tolist()) == segments


def track(segment: int, local: int) -> int:
    return (segment << 32) | local


@pytest.mark.parametrize(
    ("sql", "parameters", "tracks"),
    [
        (f"SELECT crop_id, {LIKE} FROM crops WHERE time < 1.2 AND video = ?", ["yard.mp4"], [track(3, 1)]),
        (
            f"SELECT max({LIKE}) FROM tracks WHERE start_frame = $at",
            {"at": 68},
            [track(1, 4)],
        ),
        (
            f"SELECT DISTINCT track_id, {LIKE} FROM detections"
            " WHERE (x2 - x1) * (y2 - y1) > 500 AND x1 > 100",
            None,
            [track(1, 4), track(1, 5)],
        ),
        (
            f"SELECT c.crop_id, {LIKE} FROM crops c JOIN videos v USING (video)"
            " WHERE v.camera = 'yard' AND c.frame = 5",
            None,
            [track(3, 1)],
        ),
        (
            f"SELECT c.crop_id, {LIKE} FROM crops c, tracks t"
            " WHERE t.track_id = c.track_id AND t.samples > 4",
            None,
            [track(1, 2), track(2, 1)],
        ),
        (
            "SELECT d.track_id, similarity('a.jpg', d)"
            " FROM detections d JOIN detections e USING (video, frame)"
            " WHERE d.x1 < 20 AND e.track_id <> d.track_id",
            None,
            [track(2, 1), track(3, 1)],
        ),
        (
            "SELECT s.track_id, similarity('a.jpg', c)"
            " FROM sightings s JOIN crops c ON c.track_id = s.track_id"
            " WHERE s.entity = 'dog'",
            None,
            [track(3, 1)],
        ),
        (
            f"SELECT crop_id, {LIKE} FROM crops WHERE inside('lawn') AND video LIKE 'gate%'",
            None,
            [track(1, 2)],
        ),
        (
            f"WITH near AS (SELECT crop_id, {LIKE} AS s FROM crops WHERE frame BETWEEN 70 AND 79)"
            " SELECT max(s) FROM near",
            None,
            [track(1, 4)],
        ),
        (f"SELECT video, avg({LIKE}) FROM tracks WHERE samples = 2 GROUP BY video", None, [track(1, 5)]),
        (
            f"SELECT crop_id FROM crops WHERE (frame = 50 OR frame = 55) AND {LIKE} > 0.1",
            None,
            [track(1, 5)],
        ),
    ],
)
def test_what_where_says_of_time_place_size_and_joined_rows_restricts_the_tracks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str, parameters: object, tracks: list[int]
) -> None:
    request = asked(engine, sql, monkeypatch, parameters)
    assert request.tracks is not None, sql
    assert [t for t in request.tracks.tolist() if t >> 32 != 9] == tracks


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT v.video, {LIKE} FROM videos v LEFT JOIN crops c ON c.video = v.video WHERE c.time IS NULL",
        f"SELECT {LIKE} FROM crops WHERE time < random() + 9",
        f"SELECT {LIKE} FROM crops c JOIN crops d USING (crop_id) WHERE time < (SELECT 1)",
        f"WITH crops AS (SELECT 1 AS crop_id, 2 AS time) SELECT {LIKE} FROM crops WHERE time = 2",
        f"SELECT {LIKE} FROM crops POSITIONAL JOIN tracks WHERE crops.time < 1",
        f"SELECT {LIKE} FROM crops RIGHT JOIN tracks USING (track_id) WHERE crops.time < 1",
        f"SELECT {LIKE} FROM crops TABLESAMPLE 100% WHERE time < 1",
        f"SELECT (SELECT {LIKE}) FROM crops WHERE time < 1",
        f"SELECT {LIKE} FROM crops WHERE list_any_value([time]) < 1",
        f"SELECT {LIKE} FROM tracks WHERE time < '10:00'",
    ],
)
def test_what_could_change_the_answer_is_not_pushed_down(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    try:
        request = asked(engine, sql, monkeypatch)
    except QueryError:
        return
    assert (request.tracks, request.segments) == (None, None)


@pytest.mark.parametrize(
    ("sql", "least", "first"),
    [
        (f"SELECT crop_id, {LIKE} AS s FROM crops ORDER BY s DESC LIMIT 3", None, 3),
        (f"SELECT track_id FROM tracks WHERE samples > 2 ORDER BY {LIKE} DESC, 1 LIMIT 2 OFFSET 1", None, 3),
        (f"SELECT crop_id FROM crops WHERE video = 'yard.mp4' ORDER BY {LIKE} DESC, 1 LIMIT 1", None, 1),
        (f"SELECT crop_id FROM crops WHERE time < 3 ORDER BY {LIKE} DESC, 1 LIMIT 1", None, None),
        (f"SELECT crop_id FROM crops ORDER BY {LIKE}, 1 LIMIT 1", None, None),
        (f"SELECT video, max({LIKE}) FROM crops GROUP BY 1 ORDER BY max({LIKE}) DESC, 1 LIMIT 1", None, None),
        (f"SELECT DISTINCT track_id, {LIKE} AS s FROM crops ORDER BY s DESC, 1 LIMIT 2", None, None),
        (f"SELECT crop_id, {LIKE} FROM crops WHERE {LIKE} >= 0.97", 0.97, None),
        (f"SELECT crop_id FROM crops WHERE 0.97 < {LIKE} AND time < 2", 0.97, None),
        (f"SELECT crop_id FROM crops WHERE {LIKE} > 0.97 OR time < 2", None, None),
        (f"SELECT crop_id, {LIKE} AS s FROM crops WHERE s > 0.97", 0.97, None),
        (f"SELECT crop_id, {LIKE} AS time FROM crops WHERE time > 0.97", None, None),
        (
            "SELECT c.crop_id FROM crops c JOIN crops d USING (track_id)"
            " WHERE similarity('a.jpg', c) > 0.97 AND similarity('a.jpg', d) > 0.2",
            0.2,
            None,
        ),
        (f"SELECT {LIKE} FROM crops WHERE {LIKE} > 0.97 UNION ALL SELECT {LIKE} FROM crops", None, None),
    ],
)
def test_plain_sql_that_asks_for_the_most_similar_ones_stops_early(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str, least: float | None, first: int | None
) -> None:
    request = asked(engine, sql, monkeypatch)
    assert (request.min_score, request.first) == (least, first)


@pytest.mark.parametrize("relation", ["sightings", "moments"])
@pytest.mark.parametrize("where", ["", " WHERE video LIKE 'gate-%'"])
def test_the_most_similar_rows_of_matched_relations_are_not_sought_among_tracks_without_a_match(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, relation: str, where: str
) -> None:
    like = f"similarity({track(1, 50)})"  # the first crop of track 5, which matches nothing
    sql = f"SELECT track_id, {like} FROM {relation}{where} ORDER BY {like} DESC, 1 LIMIT 1"
    assert asked(engine, sql, monkeypatch).first == 1
    assert engine.query(sql).fetchall() == [(track(1, 4), 0.91)]


SOURCES = {name: RELATION_COLUMNS[name] for name in ("crops", "tracks", "detections", "videos", "sightings")}
SOURCES["part"] = frozenset(("track_id", "video", "time"))
TESTS = {
    "video": ("{0}.video = 'yard.mp4'", "{0}.video LIKE 'gate%'", "{0}.video = $video"),
    "time": ("{0}.time < 2", "coalesce({0}.time, 0) < 1", "{0}.time IS NULL", "time > 1"),
    "frame": ("{0}.frame % 10 = 0", "({0}.frame = 5 OR {0}.frame > 40)"),
    "x1": ("({0}.x2 - {0}.x1) > 10 AND {0}.x1 > 40", "inside('lawn', {0})", "NOT {0}.x1 BETWEEN 0 AND 30"),
    "samples": ("{0}.samples > 3", "{0}.start_time BETWEEN $low AND 3"),
    "entity": ("{0}.entity = 'dog'", "{0}.score > 0.85"),
    "camera": ("{0}.camera = 'gate'", "{0}.camera <> 'yard'"),
    "track_id": (
        *("NOT {0}.track_id % 2 = 0", "similarity('a.jpg', {0}) > 0.9", "0.95 <= similarity('a.jpg', {0})"),
        f"{LIKE} > 0.9",
    ),
    "clock": ("{0}.clock < '2026-03-02'",),
}
WAYS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN", "FULL JOIN")
PARTS = (
    *("SELECT * FROM crops", "SELECT track_id, video, time FROM detections WHERE time < 3"),
    *("SELECT tracks WHERE samples > 2", "SELECT crops WHERE entity = 'red-van'"),
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """SELECTs over one relation or two joined ones; most of them can be answered."""
    pick = lambda items: draw(st.sampled_from(sorted(items)))  # noqa: E731
    tracked = [name for name, columns in SOURCES.items() if "track_id" in columns]
    names, source = {"a": pick(tracked)}, ""
    if draw(st.booleans()):
        names["b"] = pick(SOURCES)
        keys = sorted(SOURCES[names["a"]] & SOURCES[names["b"]] & {"video", "track_id"})
        ons = [f"ON a.{key} = b.{key}" for key in keys] + [f"USING ({', '.join(keys)})"] * 2
        source = f" {draw(st.sampled_from(WAYS))} {names['b']} b {pick(ons)}"
    seen = {n: r for n, r in names.items() if n == "a" or not source.startswith((" SEMI", " ANTI"))}
    asked = []
    for name in draw(st.lists(st.sampled_from(sorted(seen)), max_size=3)):
        column = pick(SOURCES[seen[name]] & TESTS.keys())
        asked.append(pick(TESTS[column]).format(name))
    of = pick(name for name, relation in seen.items() if relation in tracked)
    picture = pick(["'a.jpg'", str(track(1, 50))])
    call = pick([f"similarity({picture}, {of})", f"similarity({picture})"])
    picked = pick(["{0} AS s, a.track_id", "count(*) AS n, max({0}) AS s", "a.video, min({0}) AS s"])
    sql = f"SELECT {picked.format(call)} FROM {names['a']} a{source} WHERE {' AND '.join(asked) or 'true'}"
    sql += " GROUP BY 1" if picked.startswith("a.") else ""
    sql += pick(["", "", " ORDER BY s DESC, 1, 2 LIMIT 2", " ORDER BY s, 1, 2 LIMIT 3"])
    sql = pick([sql, sql, f"SELECT max(s) FROM ({sql})", f"FROM ({sql}) WHERE s > 0.9"])
    return f"WITH part AS ({pick(PARTS)}) {sql}"


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=statements())
def test_random_selects_give_the_same_rows_as_with_all_crops_compared(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    parameters = {"video": "gate-1.mp4", "low": 0.5}
    parameters = {name: value for name, value in parameters.items() if f"${name}" in sql}
    try:
        answer = values(engine.query(sql, parameters).fetchall())
    except QueryError:
        return  # ambiguous or missing columns
    with monkeypatch.context() as patched:
        patched.setattr(engine_module, "similarity_request", lambda *_: MatchRequest(keep="all"))
        patched.setattr(by_entity, "plain_videos", lambda *_: [])
        assert answer == values(engine.query(sql, parameters).fetchall())


def values(rows: list[tuple]) -> list[str]:
    """The rows without an order."""
    return sorted(map(repr, rows))


SHADOWED = "WITH videos AS (SELECT 'yard.mp4' AS video, 'gate' AS camera) "
IN_GATE = "samples > 0 AND video IN (SELECT video FROM videos WHERE camera = 'gate')"


def test_tracks_that_a_cte_leaves_are_compared_whatever_its_name(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tracks to compare were asked of the relation of that name, so that those of the answer had none."""
    sql = f"SELECT tracks WHERE {IN_GATE} ORDER BY {LIKE} DESC LIMIT 3"
    request = asked(engine, SHADOWED + sql, monkeypatch)
    assert request.tracks is None
    rows = engine.query(SHADOWED + sql).fetchall()
    assert [row[1] for row in rows] == [track(3, 2), track(3, 1)]
    assert asked(engine, sql, monkeypatch).first == 3


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        (
            "SELECT m.track_id FROM moments m, LATERAL (SELECT count(*) AS n FROM crops c"
            " WHERE c.video = m.video) l WHERE similarity('a.jpg', m) > 0.9",
            f"SELECT track_id FROM moments WHERE {LIKE} > 0.9",
        ),
        (
            "WITH w AS (SELECT crops WHERE entity = 'dog' WITHIN 9 SECONDS)"
            " SELECT m.track_id FROM moments AS m WHERE similarity('a.jpg', m) > 0.9",
            f"SELECT track_id FROM moments WHERE {LIKE} > 0.9",
        ),
        (
            "SELECT c.crop_id FROM crops AS c, LATERAL (SELECT count(*) AS n FROM tracks t"
            " WHERE t.video = c.video) l WHERE similarity('a.jpg', c) > 0.9",
            f"SELECT crop_id FROM crops WHERE {LIKE} > 0.9",
        ),
        (
            "SELECT moments.track_id FROM moments, LATERAL (SELECT count(*) AS n FROM crops c"
            " WHERE c.video = moments.video) l WHERE similarity('a.jpg', moments) > 0.9",
            f"SELECT track_id FROM moments WHERE {LIKE} > 0.9",
        ),
    ],
)
def test_the_relation_named_tells_what_is_compared_also_where_its_select_cannot_be_read(
    engine: Engine, sql: str, plain: str
) -> None:
    """The word crops anywhere in the statement made it ask moments for a crop_id."""
    expected = engine.query(plain).fetchall()
    assert expected
    assert sorted(engine.query(sql).fetchall()) == sorted(expected)
