"""Parameters, what is asked of the matcher, errors, statements about entities, EXPLAIN."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from query_samples import (
    ENTITIES,
    TRACKS,
    empty_library,
    make_engine,
    make_library,
)

from panorama.errors import QueryError, QueryTimeout, UnknownEntity, UsageError
from panorama.query.engine import Engine
from panorama.query.text.parameters import Parameters
from panorama.query.text.statements import (
    AddExemplars,
    CreateEntity,
    DescribeEntity,
    DropEntity,
    ForgetEntity,
    RemoveExemplars,
    RenameEntity,
    SetCategory,
    ShowEntities,
)

FRAME_TYPES = ["VARCHAR", "BIGINT", "DOUBLE", "VARCHAR", "DOUBLE", "BIGINT", *["DOUBLE"] * 4]


def test_parameters_are_bound_inside_and_outside_of_a_shorthand(engine: Engine) -> None:
    sql = "SELECT ?, count(*) FROM (SELECT frames WHERE entity = ? AND time < ?) WHERE frame > ?"
    assert engine.query(sql, ["x", "red-van", 1.5, 10]).fetchall() == [("x", 8)]
    named = "SELECT $a, count(*) FROM (SELECT frames WHERE entity = $name AND time < $t) WHERE frame > $b"
    values = {"a": "x", "name": "red-van", "t": 1.5, "b": 10}
    assert engine.query(named, values).fetchall() == [("x", 8)]
    assert len(engine.query("SELECT frames WHERE entity = $1 AND video = $2", ["dog", "yard.mp4"])) == 20
    assert len(engine.query("SELECT frames WHERE entity = ?", ["it's"])) == 20


def test_a_parameter_is_a_value_and_never_sql(engine: Engine) -> None:
    with pytest.raises(UnknownEntity):
        engine.query("SELECT frames WHERE entity = ?", ["x' OR entity LIKE '%"])
    assert len(engine.query("SELECT frames WHERE entity = 'dog' AND video = ?", ["' OR '1' = '1"])) == 0


def test_a_missing_parameter_is_named(engine: Engine) -> None:
    with pytest.raises(QueryError, match="parameter number 2 has no value; 1 given"):
        engine.query("SELECT frames WHERE entity = ? AND time < ?", ["dog"])


@pytest.mark.parametrize(
    ("sql", "parameters", "message"),
    [
        (
            "SELECT frames WHERE entity = $who",
            {"who": "dog", "where": 1},
            r"no parameter \$where; it has \$who$",
        ),
        (
            "SELECT frames WHERE entity = ?",
            ["dog", 1, 2],
            "no parameter number 2, number 3; it has number 1$",
        ),
        ("SELECT frames WHERE entity = 'dog'", {"a": 1}, r"no parameter \$a; it has none$"),
        ("SELECT 1", {"a": 1}, r"no parameter \$a;"),
        ("SELECT ?", [1, 2], "no parameter number 2;"),
        ("SELECT frames WHERE entity = ?", "dog", "list or a tuple .* got str 'dog'"),
        ("SELECT ?", 5, "got int 5"),
        (5, None, "a query is SQL as text, got int 5"),
    ],
)
def test_what_no_parameter_takes_is_refused(
    engine: Engine, sql: str, parameters: Parameters, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        engine.query(sql, parameters)
    with pytest.raises(UsageError, match="is SQL as text"):
        engine.prepare([(5, None)])  # type: ignore[list-item]


def test_parameters_may_count(engine: Engine) -> None:
    """As DuckDB has it: `$1` and `?1`, the values in a list or a dict; names in any case."""
    assert engine.query("SELECT ?2, $1", [1, 2]).fetchall() == [(2, 1)]
    assert engine.query("SELECT $A", {"a": 7}).fetchall() == [(7,)]
    found = engine.query("SELECT frames WHERE entity = ?2 AND video = ?1", ["yard.mp4", "dog"])
    assert len(found) == 20
    sql = "SELECT $1, count(*) FROM (SELECT frames WHERE entity = $2 AND video = $3)"
    assert engine.query(sql, {"1": 5, "2": "dog", "3": "yard.mp4"}).fetchall() == [(5, 20)]
    assert engine.query("SELECT ?2, ?, ?1, ?", [1, 2, 3, 4]).fetchall() == [(2, 3, 1, 4)]
    assert engine.query("SELECT ?, $1, ?", [1, 2]).fetchall() == [(1, 1, 2)]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ?1, count(*) {0} entity = ?2 AND video = ?3)", [5, "dog", "yard.mp4"]),
        ("SELECT ?3, count(*) {0} entity = ?1 AND video = ?2)", ["dog", "yard.mp4", 5]),
        ("SELECT $3, count(*) {0} entity = $1) WHERE video = $2", ["dog", "yard.mp4", 5]),
        ("SELECT ?::INT, count(*) {0} entity = ? AND video = ?) WHERE 5 = $1", [5, "dog", "yard.mp4"]),
        ("SELECT ?, count(*) {0} entity = ?) WHERE video = ?", [5, "dog", "yard.mp4"]),
        ("SELECT ?, count(*) {0} entity = ?) WHERE video = ?", {1: 5, 2: "dog", 3: "yard.mp4"}),
        ("SELECT $n, count(*) {0} entity = $who) WHERE video = $v", {"n": 5, "who": "dog", "v": "yard.mp4"}),
    ],
)
def test_parameters_count_through_beside_a_shorthand(
    engine: Engine, sql: str, parameters: Parameters
) -> None:
    """Numbers beside a shorthand were refused."""
    asked = sql.format("FROM (SELECT frames WHERE")
    assert engine.query(asked, parameters).fetchall() == [(5, 20)]


def test_a_parameter_may_be_cast(engine: Engine) -> None:
    """`?::` is one operator to other databases, and was no parameter."""
    assert engine.query("SELECT ?::INT, ?", ["1", 2]).fetchall() == [(1, 2)]
    first = engine.query("SELECT frames WHERE entity = 'dog' LIMIT 1").fetchall()[0]
    sql = "SELECT video, frame FROM (SELECT frames WHERE entity = ? AND video = ? AND frame = ?::INT)"
    assert engine.query(sql, ["dog", first[0], str(first[1])]).fetchall() == [tuple(first[:2])]


def test_a_mark_and_a_number_that_would_meet_are_refused(engine: Engine) -> None:
    """Once the shorthand has taken the first value, DuckDB would count the mark as the first."""
    sql = "SELECT ?, $1 FROM (SELECT frames WHERE entity = 'dog' AND video = $1)"
    assert engine.query(sql, ["yard.mp4"]).fetchall()[0] == ("yard.mp4", "yard.mp4")
    sql = "SELECT count(*) FROM (SELECT frames WHERE entity = ?) WHERE video = ? OR video = $1"
    with pytest.raises(QueryError, match=r"all parameters as \? or all with numbers"):
        engine.query(sql, ["dog", "yard.mp4"])


def test_conditions_on_the_video_restrict_matching(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    engine.query("SELECT frames WHERE entity = 'dog' AND video = 'yard.mp4'")
    assert matcher.requests[-1].segments.tolist() == [3]
    assert matcher.requests[-1].entities == ("dog",)
    assert matcher.requests[-1].keep == "accepted"
    engine.query("SELECT frames WHERE entity = 'dog' AND time < 0.5 AND score > 0")
    assert set(matcher.requests[-1].tracks.tolist()) == {t.track_id for t in TRACKS if t.start <= 15} - {
        TRACKS[-1].track_id
    }
    # Bands are set on the whole library anyway: tracks are not looked through beforehand.
    engine.query("SELECT frames WHERE entity = 'dog' AND time < 0.5")
    assert matcher.requests[-1].tracks is None
    engine.query("SELECT frames WHERE entity = 'dog' AND score >= 0.25")
    assert (matcher.requests[-1].keep, matcher.requests[-1].min_score) == ("all", 0.25)
    engine.query("SELECT frames WHERE entity = 'dog' AND band = 'uncertain'")
    assert matcher.requests[-1].keep == "undecided"
    asked = len(matcher.requests)
    assert len(engine.query("SELECT frames WHERE entity = 'dog' AND video = 'nowhere.mp4'")) == 0
    engine.query("SELECT frames WHERE video = 'yard.mp4'")
    engine.query("SELECT count(*) FROM tracks, videos")
    assert len(matcher.requests) == asked  # nothing there to match


@pytest.mark.parametrize("seconds", [0.0, 1.0, 3.9, 4.1, 5.0, 9.0])
def test_undecided_tracks_are_counted_within_the_bounds_of_time_only(engine: Engine, seconds: float) -> None:
    # Also those that begin in the second after were counted, and the statement advised did not show them.
    asked = f"SELECT frames WHERE entity = 'dog' AND time <= {seconds}"
    undecided = [track for track in TRACKS if 0.5 <= track.scores.get("dog", 0) < 0.8]
    told = engine.query(asked).uncertain
    assert told == sum(track.start / 10 <= seconds for track in undecided)
    assert told == len({row.track_id for row in engine.query(f"{asked} AND band = 'uncertain'")})


def test_a_filter_on_entity_restricts_matching_only_where_it_cannot_change_the_answer(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))

    def asked(sql: str) -> tuple[str, ...] | None:
        engine.query(sql)
        return matcher.requests[-1].entities

    assert asked("SELECT count(*) FROM sightings WHERE entity = 'dog'") == ("dog",)
    assert asked("SELECT count(*) FROM sightings s WHERE entity IN ('dog', 'red-van') AND score > 0") == (
        "dog",
        "red-van",
    )
    for sql in (
        "SELECT count(*) FROM sightings",
        "SELECT count(*) FROM sightings WHERE entity = 'dog' OR score > 0.9",
        "SELECT count(*) FROM sightings a ASOF JOIN sightings b ON a.score >= b.score WHERE a.entity = 'dog'",
        "SELECT (SELECT count(*) FROM sightings) FROM sightings WHERE entity = 'dog'",
        "FROM sightings WHERE entity = (SELECT min(entity) FROM entities)",
    ):
        assert asked(sql) is None, sql


@pytest.mark.parametrize(
    ("sql", "message", "pointed"),
    [
        ("SELECT frames WHERE entity", "convert", "entity"),
        ("SELECT frames WHERE colour = 'red'", "no column 'colour'; it has video, frame", "colour"),
        ("SELECT frames WHERE entity = 'dog' GROUP BY video", "found 'GROUP BY'", "GROUP"),
        ("SELECT frames WHERE entity = 'dog' AND inside(door)", "expected inside", "inside"),
        ("SELECT frames WHERE entity = 'dog' AND time > 'noon'", "not a wall-clock time", "time"),
        ("SELECT frames WHERE frames.time > 1", "write columns of the shorthand without a table", ""),
        ("SELECT frames WHERE entity = 'dog' FOLLOWED BY entity = 'it''s'", "SELECT moments", "FOLLOWED"),
        ("SELECT moments WHERE time % 2 = 1 AND entity = 'dog'", "compare time only with numbers", "time"),
        (
            "SELECT moments WHERE entity = 'dog' AND (score > 0.5 OR end_time > 3)",
            "in separate conditions",
            "",
        ),
        ("SELECT frames WHERE (entity = 'dog'", "expecting \\)", ""),
        ("SELECT frames WHERE entity = 'dog' AND", "expected", ""),
        ("SELECT frames WHERE entity = 'dog", "does not end", "'dog"),
        ("SELECT frames WHERE", "expected a condition", ""),
        (
            "SELECT frames WHERE entity = 'dog' AND score > 90%",
            "after %, which divides; 90 % is written 0.9",
            "%",
        ),
        (
            "SELECT frames WHERE score > 5% AND entity = 'dog'",
            "after %, which divides; 5 % is written 0.05",
            "AND",
        ),
        ("SELECT frames LIMIT 3 LIMIT 4", "two LIMIT", ""),
        ("SELECT frames WHERE entity = 'dog' ORDER BY nothing", "nothing", "nothing"),
        ("SELECT frames WHERE time < 3 ORDER BY time,  nothing DESC LIMIT 3", "nothing", "nothing"),
        # With a similarity beside it, the caret stood under the first column of the statement.
        ("SELECT tracks ORDER BY similarity('d.jpg') DESC, nothing", "to order by", "nothing"),
        ("SELECT crops ORDER BY lower(nothing), similarity('a.jpg') DESC", "to order by", "nothing"),
        ("SELECT video FROM tracks UNION SELECT video FROM crops ORDER BY nothing", "UNION", "nothing"),
        ("SELECT frames WHERE entity = 5", "write entity as a name in single quotes: entity = '5'", "entity"),
        ("SELECT frames WHERE entity IN ('dog', 7)", "entity = '7'", "entity"),
        ("SELECT tracks WHERE entity = 'dog' AND band = 'acepted'", "Did you mean 'accepted'", "band"),
        ("SELECT tracks WHERE band IN ('uncertain', 'x')", "It is rejected, uncertain or accepted", "band"),
        ("SELECT tracks WHERE entity = elf", "single quotes, 'elf'; a bare word", "elf"),
        ('SELECT tracks WHERE entity = "Big Elf"', "single quotes, 'Big Elf'; a bare", '"Big Elf"'),
        ("SELECT tracks WHERE entity IN ('dog', elf)", "single quotes, 'elf'", "elf"),
        ("SELECT count(*) FROM sightings WHERE entity = elf", "single quotes, 'elf'", "elf"),
        ("SELECT tracks WHERE entity = big-elf-2", "single quotes, 'big-elf-2'; a bare", "big"),
        ("SELECT tracks WHERE entity IN ('dog', big-elf)", "single quotes, 'big-elf'", ""),
        ("SELECT count(*) FROM sightings WHERE entity = big-elf", "single quotes, 'big-elf'", "big"),
        ("SELECT tracks WHERE entity = ‘big-elf’", "'big-elf'; .*; ‘ and ’ are not single quotes$", ""),
        ("SELECT tracks WHERE entity = ‘elf’", "quotes, 'elf'; .*; ‘ and ’ are not single quotes$", ""),
        ("SELECT tracks WHERE entity = „elf“", "quotes, 'elf'; .*; „ and “ are not single quotes$", ""),
        (
            "SELECT moments WHERE entity = 'dog' AFTER entity = 'elf'",
            "for a AFTER b write b BEFORE a",
            "AFTER",
        ),
        (
            "SELECT moments WHERE entity = 'dog' AND time >= now()",
            "start_clock and end_clock",
            "time",
        ),
        (
            "SELECT tracks ORDER BY similarity('/etc/a.jpg')",
            "lies outside .*picture_root=FOLDER",
            "similarity",
        ),
        (
            "SELECT tracks WHERE enttiy = 'dog'",
            "no column 'enttiy'; it has .*\\. Did you mean 'entity'\\?$",
            "enttiy",
        ),
        ("SELECT tracks WHERE video = gate/a-b.mp4", "single quotes, 'gate/a-b.mp4'; a bare", ""),
        ("SELECT * FROM tracks WHERE video = a-b.mp4", "single quotes, 'a-b.mp4'; a bare", "a"),
        ("SELECT * FROM tracks WHERE video = b.mp4", "single quotes, 'b.mp4'; a bare", "b"),
        ("SELECT tracks WHERE score > t.mp4", "without a table: mp4, not t.mp4$", ""),
        ("SELECT tracks WHERE score > 1-elf", "no column 'elf'; it has (?!.*quotes)", "elf"),
        ("big-elf", r"A query begins with SELECT: SELECT moments WHERE entity = '", "big"),
        ("SELECT tracks WHERE entity = 'it's'", "inside a text is written twice, 'it''s'", ""),
        ("SELECT tracks WHERE entity = 'it's' OR entity = 'x's'", "twice, 'it''s'", "s'"),
        ("SELECT tracks WHERE entity = 'dog' WITH PRECISION >= 95", "below 1.*'95'; 95 % is", "95"),
        ("SELECT tracks WHERE entity = 'dog' WITH RECALL >= 0.3 LIMIT 1", "below 1.*'0.3'$", "0.3"),
        ("SELECT tracks WHERE entity = 'dog' WITH RECALL", "found the end", ""),
        ("SELECT nothing FROM videos", "nothing", "nothing"),
        ("SELECT * FROM boxes", "boxes does not exist; the relations are videos, frames, tracks,", "boxes"),
        # It advised a table of DuckDB's own, duckdb_constraints.
        ("SELECT moments FROM dog", "name dog does not exist; the relations are videos, frames, .*", "dog"),
        ("SELECT * FROM trakcs", 'does not exist! Did you mean "tracks"', "trakcs"),
        ("SELECT * FROM frames WHERE entity = 'dog'", "use the shorthand, SELECT frames WHERE", "entity"),
        ("SELECT * FROM videos WHERE camera = = 1", "= =|syntax|operator", ""),
        ("SELECT * FRM videos", "syntax error", "videos"),
        ("SELECT tracks ORDER BY similarity(video)", "similarity takes one picture", "video"),
        ("SELECT verify('a.jpg')", "verify takes two pictures", "verify"),
        ("SELECT similarity(12345) FROM tracks", "no crop 12345", "similarity"),
        ("SELECT count(*) FROM (SELECT frames WHERE entity = 'dog'), nowhere", "nowhere", "nowhere"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(engine: Engine, sql: str, message: str, pointed: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.query(sql)
    assert re.search(message, caught.value.args[0])
    if pointed:
        assert caught.value.position is not None
        assert sql[caught.value.position :].startswith(pointed)


def test_an_unknown_entity_brings_near_names(engine: Engine) -> None:
    with pytest.raises(UnknownEntity, match=r"no entity 'bluevan'\. Did you mean 'blue-van'"):
        engine.query("SELECT frames WHERE entity IN ('dog', 'bluevan')")
    with pytest.raises(UnknownEntity, match="Did you mean 'red-van'"):
        engine.query("SELECT frames WHERE entity = 'RED-VAN'")


def test_an_empty_library_answers_with_no_rows_of_the_right_types() -> None:
    engine, _ = make_engine(empty_library())
    assert engine.query("SELECT frames WHERE NOT entity LIKE '%'").types == FRAME_TYPES
    for relation in ("videos", "frames", "tracks", "detections", "crops", "entities", "sightings", "moments"):
        assert len(engine.query(f"SELECT * FROM {relation}")) == 0
    with pytest.raises(UnknownEntity):
        engine.query("SELECT moments WHERE entity = 'dog'")


def test_a_query_past_its_limit_of_time_is_stopped(tmp_path: Path) -> None:
    engine, _ = make_engine(make_library(tmp_path), seconds=0.3)
    with pytest.raises(QueryTimeout, match=r"limit of 0\.3 s"):
        engine.query("SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3")
    assert engine.query("SELECT 1").fetchall() == [(1,)]


def test_a_query_past_its_limit_of_memory_is_stopped(tmp_path: Path) -> None:
    engine, _ = make_engine(make_library(tmp_path), memory="50MB")
    with pytest.raises(QueryTimeout, match=r"memory than its limit: failed to allocate [^*]* used\)$"):
        engine.query("SELECT list(i) FROM range(50000000) r(i)")
    assert engine.query("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE ENTITY 'X' FROM 'x/*.jpg'", CreateEntity("X", ("x/*.jpg",))),
        (
            "create entity 'it''s' from 'a', 'b' not from 'c';",
            CreateEntity("it's", ("a", "b"), ("c",)),
        ),
        ("ALTER ENTITY 'X' ADD 'p.jpg'", AddExemplars("X", ("p.jpg",))),
        ("ALTER ENTITY 'X' ADD NOT 'p.jpg', 'q.jpg'", AddExemplars("X", ("p.jpg", "q.jpg"), True)),
        ("ALTER ENTITY 'X' REMOVE 'p.jpg'", RemoveExemplars("X", ("p.jpg",))),
        ("ALTER ENTITY 'X' RENAME TO 'Y'", RenameEntity("X", "Y")),
        ("create entity 'X' as category from 'a'", CreateEntity("X", ("a",), category=True)),
        ("ALTER ENTITY 'X' SET CATEGORY", SetCategory("X", True)),
        ("ALTER ENTITY 'X' set instance", SetCategory("X", False)),
        ("DROP ENTITY 'X'", DropEntity("X")),
        ("DROP ENTITY IF EXISTS 'X'", DropEntity("X", True)),
        ("FORGET ENTITY 'X'", ForgetEntity("X")),
        ("FORGET ENTITY 'X' WITH SIGHTINGS", ForgetEntity("X", True)),
        ("SHOW ENTITIES", ShowEntities()),
        ("DESCRIBE ENTITY 'X'", DescribeEntity("X")),
        ("SELECT frames WHERE entity = 'X'", None),
        ("SELECT 'CREATE ENTITY'", None),
        ("SHOW TABLES", None),
    ],
)
def test_statements_about_entities_become_values(engine: Engine, sql: str, expected: object) -> None:
    assert engine.parse(sql) == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE ENTITY X FROM 'a'", "expected the entity's name in single quotes, found 'X'"),
        ("CREATE ENTITY 'X'", "expected FROM, found the end"),
        ("CREATE ENTITY 'X' FROM 'a' 'b'", "expected the end of the statement, found 'b'"),
        ("CREATE ENTITY '  ' FROM 'a'", "not empty"),
        ("ALTER ENTITY 'X' CHANGE", "RENAME TO, SET CATEGORY or SET INSTANCE, found 'CHANGE'"),
        ("FORGET ENTITY 'X' WITH", "expected SIGHTINGS after WITH, found the end"),
        ("FORGET ENTITY 'X' WITH SIGHTING", "expected SIGHTINGS after WITH, found 'SIGHTING'"),
        ("CREATE ENTITY 'X' AS SPECIES FROM 'a'", "expected CATEGORY after AS, found 'SPECIES'"),
        ("CREATE ENTITY 'X' AS 'CATEGORY' FROM 'a'", "expected CATEGORY after AS, found 'CATEGORY'"),
        ("ALTER ENTITY 'X' SET", "expected CATEGORY or INSTANCE after SET, found the end"),
        ("ALTER ENTITY 'X' RENAME 'Y'", "expected TO after RENAME, found 'Y'"),
        ("DROP ENTITY IF 'X'", "expected EXISTS after IF, found 'X'"),
        ("CREATE ENTITY 'X' FROM 'a' NOT 'b'", "expected FROM after NOT, found 'b'"),
        ("DROP ENTITY 'X'; SELECT 1", "expected the end of the statement, found 'SELECT'"),
    ],
)
def test_a_wrong_statement_about_entities_says_what_was_expected(
    engine: Engine, sql: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        engine.parse(sql)


def test_show_entities_lists_the_album(engine: Engine) -> None:
    assert [row["entity"] for row in engine.query("SHOW ENTITIES")] == sorted(ENTITIES)


def test_explain_shows_the_plan_and_asks_the_matcher_nothing(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    sql = "SELECT frames WHERE entity = 'red-van' AND video = 'yard.mp4' AND time < 3 LIMIT 5"
    plan = "\n".join(row[0] for row in engine.query(f"EXPLAIN {sql}"))
    assert matcher.requests == []
    assert "seen: red-van" in plan
    assert "pushed below matching: video = 'yard.mp4', time to 3 s" in plan
    counted = "\n".join(row[0] for row in engine.query(f"EXPLAIN ANALYZE {sql.replace('yard', 'gate-1')}"))
    assert "3 accepted, 0 uncertain" in counted  # bands come first; DuckDB applies the bound
    assert "exit 2 had decided 3" in counted


def test_a_negative_number_is_one_also_as_a_parameter(engine: Engine) -> None:
    for target in ("moments", "frames", "tracks"):
        sql = f"SELECT {target} WHERE entity = 'dog' AND time > {{}}"
        assert engine.query(sql.format("?"), [-0.5]).fetchall() == engine.query(sql.format(-0.5)).fetchall()
        assert engine.query(sql.format("$from"), {"from": 9.5}).fetchall() == []


@pytest.mark.parametrize("endless", [float("inf"), np.float32("inf"), Decimal("Infinity")])
@pytest.mark.parametrize("target", ["frames", "moments", "tracks"])
def test_infinity_as_a_parameter_is_no_bound(engine: Engine, target: str, endless: Any) -> None:
    """It was told to be no wall-clock time."""
    sql = f"SELECT {target} WHERE entity = 'dog'"
    every, late = (engine.query(f"{sql}{more}").fetchall() for more in ("", " AND time >= 1"))
    for condition in ("time < ?", "? >= time", "time <> ?", "NOT time >= ?", "time BETWEEN 0 AND ?"):
        assert engine.query(f"{sql} AND {condition}", [endless]).fetchall() == every != []
    for condition in ("time > ?", "time = ?", "NOT time < ?"):
        assert engine.query(f"{sql} AND {condition}", [endless]).fetchall() == []
    assert engine.query(f"{sql} AND time > ?", [-endless]).fetchall() == every
    assert engine.query(f"{sql} AND time BETWEEN 1 AND ?", [endless]).fetchall() == late != []


@pytest.mark.parametrize("written", ["'inf'::DOUBLE", "CAST('inf' AS FLOAT)", "('3600'::INTEGER)"])
def test_a_number_that_is_cast_from_text_is_no_wall_clock_time(engine: Engine, written: str) -> None:
    asked = "SELECT frames WHERE entity = 'dog'"
    every = engine.query(asked).fetchall()
    assert engine.query(f"{asked} AND time < {written}").fetchall() == every != []
    assert engine.query(f"{asked} AND time BETWEEN 0 AND {written}").fetchall() == every
    assert engine.query(f"{asked} AND time > {written}").fetchall() == []
    for target in ("moments", "tracks"):
        with pytest.raises(QueryError, match=r"compare time only with numbers: .* time < 5"):
            engine.query(f"SELECT {target} WHERE entity = 'dog' AND time < {written}")


@pytest.mark.parametrize("condition", ["entity IN ?", "time IN ?", "entity = 'dog' AND frame IN ?"])
def test_what_is_no_number_in_a_list_is_refused_in_a_shorthand(engine: Engine, condition: str) -> None:
    """It was told to be an entity that is not registered, as is what a column with gaps has."""
    sql = f"SELECT frames WHERE {condition}"
    with pytest.raises(QueryError, match=r"parameter number 1 holds nan, .* give a number") as caught:
        engine.query(sql, [["dog", float("nan")] if "entity IN" in condition else [1, float("nan")]])
    assert caught.value.position == sql.index("?")


@pytest.mark.parametrize("value", [Decimal("sNaN"), [Decimal("sNaN")], np.array([Decimal("sNaN")])])
def test_a_signaling_nan_is_a_nan(engine: Engine, value: object) -> None:
    """Python's ValueError was raised, and DuckDB has no conversion for it."""
    ((found,),) = engine.query("SELECT ? AS x", [value]).fetchall()
    assert math.isnan(found[0] if isinstance(found, list) else found)
    with pytest.raises(QueryError, match=r"parameter number 1 (is|holds) nan, .* give a number"):
        engine.query("SELECT frames WHERE entity = 'dog' AND time IN ?", [value])


@pytest.mark.parametrize("condition", ["time < {}", "score >= {}", "x1 < {}", "near('dog', 'red-van', {})"])
def test_what_is_no_number_is_refused_in_a_shorthand(engine: Engine, condition: str) -> None:
    """DuckDB takes NaN for larger than all numbers, and so `score < ?` for true."""
    sql = f"SELECT frames WHERE entity = 'dog' AND {condition.format('?')}"
    with pytest.raises(QueryError, match=r"parameter number 1 is nan, .* give a number") as caught:
        engine.query(sql, [float("nan")])
    assert caught.value.position == sql.index("?")


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("WITHIN ? SECONDS", "a time after WITHIN"),
        ("FOLLOWED BY entity = 'red-van' WITHIN INTERVAL ? SECONDS", "finite and not negative, got inf"),
    ],
)
def test_a_time_that_is_waited_for_is_not_infinite(engine: Engine, clause: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        engine.query(f"SELECT moments WHERE entity = 'dog' {clause}", [float("inf")])


@pytest.mark.parametrize(
    ("sql", "message", "at"),
    [
        ("SELECT similarity('a.jpg') FROM videos", "use it on crops, tracks, detections", "similarity"),
        # They named a column that nobody had typed, and one that nobody may know of.
        ("SELECT similarity('a.jpg')", "use it on crops, tracks, detections", "similarity"),
        ("SELECT 1 FROM range(3) WHERE similarity('a.jpg') > 0", "use it on crops, tracks", "similarity"),
        ("EXPLAIN VALUES (similarity('a.jpg'))", "use it on crops, tracks, detections", "similarity"),
        (
            "SELECT (SELECT max(similarity('a.jpg', t)) FROM videos v WHERE v.video = t.video) FROM tracks t",
            r"Compute it where 't' is read, FROM \(SELECT \*, similarity\('a.jpg'\) AS alike FROM tracks\) t",
            "similarity",
        ),
        (
            "SELECT similarity('a.jpg', d) FROM crops c",
            "no relation 'd' in the FROM of this SELECT",
            "similarity",
        ),
        (
            "SELECT similarity('a.jpg', v) FROM crops JOIN videos v USING (video)",
            "use it on crops",
            "similarity",
        ),
        (
            "SELECT similarity('a.jpg') FROM crops c, crops d",
            r"similarity\(..., c\), similarity\(..., d\)",
            "sim",
        ),
        ("SELECT similarity('a.jpg', 3) FROM crops", "similarity takes one picture", "3"),
        ("SELECT frames WHERE similarity('a.jpg', d) > 0.5", "takes a picture only", "similarity"),
    ],
)
def test_similarity_says_of_what_it_can_be_asked(engine: Engine, sql: str, message: str, at: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        engine.query(sql)
    assert caught.value.position == sql.index(at)
