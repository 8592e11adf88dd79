"""What is asked of the matcher, errors, limits, statements about entities, EXPLAIN."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from query_samples import (
    ENTITIES,
    TRACKS,
    empty_library,
    make_engine,
    make_library,
)

from panorama.errors import QueryError, QueryTimeout, UnknownEntity
from panorama.query.engine import Engine
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
        ("SELECT frames WHERE (entity = 'dog'", "the \\( that begins here is not closed", "(entity"),
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
