"""What a statement asks for in vain is told beside the answer; a time with a zone is not misunderstood."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from query_samples import engine_with_pictures, make_engine, make_library

from panorama.errors import BadImage, QueryError, UnknownEntity
from panorama.query.engine import Engine

IN_BERLIN = datetime.datetime(2026, 3, 1, 10, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = engine_with_pictures(tmp_path_factory.mktemp("library"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("sql", "parameters", "told"),
    [
        (
            "SELECT count(*) FROM sightings WHERE entity = 'red-vam'",
            None,
            "no entity 'red-vam'. Did you mean 'r",
        ),
        (
            "SELECT * FROM moments m WHERE m.entity IN ('dog', 'Dog')",
            None,
            "no entity 'Dog'. Did you mean 'dog'",
        ),
        (
            "SELECT avg(score) FROM sightings WHERE entity = $who",
            {"who": "dgo"},
            "no entity 'dgo'. Did you mea",
        ),
        (
            "SELECT moments WHERE entity = 'dog' AND video = 'v/yard.mp4'",
            None,
            "no video 'v/yard.mp4'. Did you",
        ),
        (
            "SELECT moments WHERE entity = 'dog' AND video = ?",
            ["ward.mp4"],
            "no video 'ward.mp4'. Did you mean",
        ),
        # Of a list, the usual way from Python, what is not there was left out without a word.
        (
            "SELECT * FROM sightings WHERE entity IN ?",
            [["dog", "dgo"]],
            "no entity 'dgo'. Did you mean 'dog'",
        ),
        ("SELECT * FROM sightings WHERE entity = ANY(?)", [["dog", "dgo"]], "no entity 'dgo'. Did you mean"),
        ("SELECT * FROM sightings WHERE entity IN ['dog', 'x']", None, "no entity 'x'"),
        ("SELECT frames WHERE video IN ?", [["yard.mp4", "ward.mp4"]], "no video 'ward.mp4'. Did you mean"),
        ("SELECT * FROM frames WHERE video = 'nosuch.mp4'", None, "no video 'nosuch.mp4'"),
        (
            "SELECT frames WHERE entity = 'dog' AND video LIKE '*.mp4'",
            None,
            "videos satisfies video LIKE '*.mp",
        ),
        (
            "SELECT frames WHERE camera = 'gaet'",
            None,
            "videos satisfies camera = 'gaet'; see: panorama videos",
        ),
        ("SELECT tracks WHERE entity = 'dog' AND score >= 90", None, "between 0 and 1; none reaches 90"),
        (
            "SELECT tracks WHERE entity = 'dog' AND 80 <= score",
            None,
            "score lies between 0 and 1; none reaches",
        ),
        (
            "SELECT tracks WHERE entity = 'dog' AND score BETWEEN 60 AND 90",
            None,
            "none reaches 60; 60 % is writ",
        ),
        (
            "SELECT tracks WHERE similarity('a.jpg') > 80",
            None,
            "similarity lies between 0 and 1; none reaches 80",
        ),
        ("SELECT tracks WHERE 80 < similarity('a.jpg') ORDER BY video", None, "80 % is written 0.8"),
        (
            "SELECT moments WHERE entity = 'dog' AND time BETWEEN 90 AND 60",
            None,
            "BETWEEN 90 AND 60 is never true: put the smaller number first",
        ),
        # The longest video lasts 10 s. It was advised to see what comes nearest, at any time.
        (
            "SELECT frames WHERE entity = 'dog' AND time > 600",
            None,
            "600 s on, and the longest of 4",
        ),
        (
            "SELECT moments WHERE entity = 'dog' AND time >= ?",
            [36000],
            "no video is that long: time is",
        ),
        (
            "SELECT tracks WHERE time BETWEEN 11 AND 12 OR time = 13",
            None,
            "asked for from 11 s on, and",
        ),
        (
            "SELECT crops WHERE camera = 'yard' AND NOT time < 5 AND entity = 'dog'",
            None,
            "the longest of 1 video lasts 4 s. A time of day is a text: time > '10:00'",
        ),
        ("SELECT * FROM videos WHERE frames BETWEEN ? AND ?", [9, 3.5], "BETWEEN 9 AND 3.5 is never true"),
        ("SELECT * FROM tracks t WHERE similarity('a.jpg', t) >= ?", [250], "and 1; none reaches 250"),
        (
            "SELECT * FROM (SELECT similarity('a.jpg') AS how FROM crops) WHERE how BETWEEN 50 AND 99",
            None,
            "a similarity lies between 0 and 1; none reaches 50",
        ),
        ("SELECT * FROM (SELECT similarity('a.jpg') how FROM crops) WHERE how > 70", None, "none reaches 70"),
        # More examples were advised for an entity that is not there.
        ("SELECT moments WHERE entity LIKE 'z%'", None, "no entity satisfies entity LIKE 'z%'. See: "),
        ("SELECT tracks WHERE NOT entity ILIKE ?", ["z%"], "no entity satisfies entity ILIKE 'z%'"),
        ("SELECT moments WHERE entity = 'dog' BEFORE entity > 'z'", None, "satisfies entity > 'z'"),
        ("SELECT count(*) FROM (SELECT frames WHERE entity LIKE 'z%')", None, "entity LIKE 'z%'"),
    ],
)
def test_what_cannot_be_found_is_told(engine: Engine, sql: str, parameters: Any, told: str) -> None:
    # Each of these was an empty answer, or a count of nothing, and no word about it.
    result = engine.query(sql, parameters)
    assert len(result.warnings) == 1 and told in result.warnings[0], result.warnings


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM sightings WHERE entity = 'dog'",
        "SELECT moments WHERE entity = 'dog' AND video = 'yard.mp4' AND score BETWEEN 0.5 AND 1",
        "SELECT frames WHERE entity = 'dog' AND score < 2 AND time < 3",
        "SELECT frames WHERE entity = 'dog' AND time > 9",
        "SELECT frames WHERE entity = 'dog' AND (time > 600 OR x1 > 9000)",
        "SELECT frames WHERE NOT entity = 'dog' AND time < 600 AND frame > 600",
        "SELECT count(*) FROM (SELECT frames WHERE entity = 'dog' AND time > 600)",
        "SELECT upper(entity) AS entity FROM sightings WHERE entity = 'DOG'",
        "SELECT count(*) FROM sightings WHERE score > .5 OR score > -5 OR list_contains(['x'], entity)",
        "SELECT tracks WHERE similarity('a.jpg') < 80 AND similarity('a.jpg') >= 1",
        "SELECT tracks WHERE 100 * similarity('a.jpg') > 80 AND 3 > similarity('a.jpg')",
        "SELECT video, similarity('a.jpg') * 100 AS score FROM tracks WHERE 7 = 7 AND video <> 'score > 5'",
        "SELECT * FROM (SELECT 100 * score AS score FROM sightings) WHERE score > 80",
        # A number that goes on was told as if it stood alone, and a count that is called a score.
        "SELECT tracks WHERE entity = 'dog' AND score >= 80 / 100.0 AND 5 // 10 <= score AND score > 2 - 1.9",
        "SELECT tracks WHERE similarity('a.jpg') >= 50::DOUBLE / 100 AND score BETWEEN 5 % 5 AND 1",
        "SELECT entity, count(*) score FROM sightings GROUP BY entity HAVING score > 5",
        "SELECT count(*) FROM sightings WHERE entity IN (SELECT 'x') AND entity IN ['dog']",
        "SELECT count(*) FROM sightings WHERE entity = 'd' || 'og' AND video IN []",
        "SELECT frames WHERE entity IS NULL OR entity LIKE 'd%' AND NOT entity LIKE '%g'",
        "SELECT 'x = ''y''' AS said, frame FROM frames WHERE frame = 1 AND video <> 'nosuch.mp4'",
    ],
)
def test_what_is_there_is_not_remarked_upon(engine: Engine, sql: str) -> None:
    assert engine.query(sql).warnings == ()


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT moments", True),
        ("SELECT frames WHERE entity LIKE '%'", True),
        ("SELECT tracks WHERE score > 0.5", True),
        ("SELECT v.video, m.entity FROM videos v LEFT JOIN moments m USING (video)", True),
        ("SELECT count(*) FROM sightings WHERE entity = 'dog'", True),
        ("SELECT tracks WHERE entity IS NULL", False),
        ("SELECT frames WHERE frame < 9", False),
        ("SELECT count(*) FROM tracks", False),
        ("EXPLAIN SELECT moments", False),
    ],
)
def test_who_has_registered_nothing_is_told_so_once(tmp_path: Path, sql: str, told: bool) -> None:
    # An answer without rows came without a word, or with the advice to register more examples.
    tables = make_library(tmp_path)
    engine, _ = make_engine(replace(tables, entities=tables.entities.slice(0, 0)))
    warnings = engine.query(sql).warnings
    engine.close()
    assert len(warnings) == told
    assert all("nothing is registered yet; register it with a picture" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT video FROM videos WHERE start_clock > '2026-03-01 10:00+01'", None),
        ("SELECT moments WHERE entity = 'dog' AND start_clock > TIMESTAMPTZ '2026-03-01T09:00:00Z'", None),
        ("SELECT video FROM frames WHERE clock BETWEEN ? AND ?", [IN_BERLIN] * 2),
    ],
)
def test_a_clock_is_not_compared_with_a_time_in_a_zone(engine: Engine, sql: str, parameters: Any) -> None:
    # DuckDB dropped the zone: 10:00 in Berlin was later than 9:30 UTC.
    with pytest.raises(QueryError, match="is the local time of each camera") as caught:
        engine.query(sql, parameters)
    assert caught.value.position is not None
    assert len(
        engine.query("SELECT video FROM videos WHERE start_clock > ?", [datetime.datetime(2020, 1, 1)])
    )


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("SELECT frame WHERE entity = 'dog'", "Did you mean 'frames'?"),
        ("select Moment where entity = 'dog' order by score", "Did you mean 'moments'?"),
        ("SELECT count(*) FROM (SELECT track WHERE entity = 'dog')", "Did you mean 'tracks'?"),
        ("SELECT crop ORDER BY similarity('a.jpg') DESC LIMIT 3", "Did you mean 'crops'?"),
        ("SELECT sighting WHERE entity = 'dog'", "Or SELECT * FROM sightings WHERE"),
        ("SELECT video WHERE camera = 'gate'", "Or SELECT * FROM videos WHERE"),
        (
            "SELECT count(*) Moments WHERE entity = 'dog'",
            "to compute from it, SELECT count(*) FROM (SELECT moments WHERE",
        ),
        ("SELECT videos", "Or SELECT * FROM videos WHERE"),
    ],
)
def test_a_target_in_the_singular_is_told_in_the_plural(engine: Engine, sql: str, meant: str) -> None:
    # The message pointed at the entity, and left it to the asker to see the missing s.
    with pytest.raises(QueryError) as caught:
        engine.query(sql)
    assert meant in str(caught.value)


@pytest.mark.parametrize("end", ["AND score >= 0earest", "WITHIN 0e SECONDS", "WITH PRECISION >= 0e"])
def test_what_only_begins_as_a_number_is_an_error_of_the_question(engine: Engine, end: str) -> None:
    with pytest.raises(QueryError):
        engine.query(f"SELECT tracks WHERE entity = 'dog' {end}")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT frames WHERE entity = 'dog' AND score >= ^0e", "'0e' is not a number"),
        ("SELECT frames WHERE entity = 'dog' AND frame = ^1e+", "'1e' is not a number"),
        ("SELECT * FROM tracks WHERE track_id = ^0e", "'0e' is not a number"),
        ("SELECT frames WHERE entity = 'dog' LIMIT ^5e", "'5e' is not a number"),
        ("SELECT frames WHERE entity = 'dog' AND score >= ^1.5.2", 'at or near "1.5.2"'),
        ("SELECT moments WHERE entity = 'dog' AND score > ^.5. ORDER BY score", 'at or near ".5."'),
        ("SELECT count(*) FROM (SELECT frames WHERE entity = 'dog') WHERE score > ^1.5.2", "1.5.2"),
    ],
)
def test_a_number_that_is_none_is_shown_where_it_was_written(engine: Engine, sql: str, message: str) -> None:
    # In a shorthand DuckDB's syntax errors pointed into the text made of it.
    typed = sql.replace("^", "")
    with pytest.raises(QueryError, match=message) as caught:
        engine.query(typed)
    assert (caught.value.sql, caught.value.position) == (typed, sql.index("^"))


def test_a_name_right_behind_a_number_is_still_one(engine: Engine) -> None:
    assert engine.query("SELECT 0earest").columns == ["earest"]


@pytest.mark.parametrize("sql", ["entity IN ?", "entity = ANY(?)", "entity IN ? AND video IN ('yard.mp4')"])
def test_a_list_names_entities_in_a_shorthand(engine: Engine, sql: str) -> None:
    with pytest.raises(UnknownEntity, match=r"no entity 'dgo'\. Did you mean 'dog'"):
        engine.query(f"SELECT moments WHERE {sql}", [["dog", "dgo"]])
    assert len(engine.query(f"SELECT moments WHERE {sql}", [["dog"]])) > 0


@pytest.mark.parametrize("asked", ["SELECT frames WHERE", "SELECT * FROM sightings WHERE"])
@pytest.mark.parametrize("names", ["IN (?)", "NOT IN (?)"])
def test_a_list_in_brackets_is_told(engine: Engine, asked: str, names: str) -> None:
    """There was "no entity "['dog', 'cat']"", or a text that cannot be cast to VARCHAR[]."""
    with pytest.raises(QueryError, match=r"write a list after IN without brackets: entity IN \?"):
        engine.query(f"{asked} entity {names}", [["dog", "cat"]])


@pytest.mark.parametrize("several", [set, tuple, np.array, pa.array, "pandas", "polars"])
def test_several_names_are_given_as_data_frames_give_them(engine: Engine, several: Any) -> None:
    """A column of a data frame ended in a type that DuckDB does not know."""
    make = pytest.importorskip(several).Series if isinstance(several, str) else several
    assert len(engine.query("SELECT frames WHERE entity IN ?", [make(["dog"])])) > 0
    assert len(engine.query("SELECT * FROM sightings WHERE entity IN ?", [make(["dog"])])) > 0


def test_a_picture_that_is_the_name_of_an_entity_is_told_how_it_is_asked(engine: Engine) -> None:
    with pytest.raises(BadImage, match=r"no picture 'dog' in .*; 'dog' is an entity: WHERE entity = 'dog'"):
        engine.query("SELECT tracks ORDER BY similarity('dog') DESC LIMIT 3")
    with pytest.raises(BadImage, match=r"no picture 'no\.jpg' in [^;]*$"):
        engine.query("SELECT verify('no.jpg', 'a.jpg')")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM sightings WHERE entity = 'dog' AND band = 'uncertain'",
        "SELECT m.entity, m.band FROM moments m",
    ],
)
def test_who_asks_relations_for_a_band_is_told_where_there_are_bands(engine: Engine, sql: str) -> None:
    """What is told to be uncertain was looked for there, and "did you mean end_time" was the answer."""
    with pytest.raises(
        QueryError, match="Relations hold only accepted rows; the shorthand has all: SELECT tra"
    ):
        engine.query(sql)
    assert engine.query("SELECT tracks, band WHERE score >= 0").fetchall()


def test_of_many_names_that_are_not_there_the_first_are_told_and_how_many_more(engine: Engine) -> None:
    """A list pasted from elsewhere buried the answer under a line for each of its thousands of names."""
    lacking = [f"red-vam{i}" for i in range(300)]
    listed = ", ".join(f"'{name}'" for name in [*lacking, "dog"])
    result = engine.query(f"SELECT * FROM sightings WHERE entity IN ({listed}) AND video IN ({listed})")
    entities = [told for told in result.warnings if told.startswith("no entity")]
    videos = [told for told in result.warnings if told.startswith("no video")]
    assert len(entities) == len(videos) == 6, result.warnings
    assert "Did you mean 'red-van'" in entities[0]
    assert (
        entities[-1] == "no entity with 295 more names either, such as 'red-vam299'. See: panorama entities"
    )
    assert "with 296 more names" in videos[-1]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "SELECT frames WHERE entity = 'dog' ORDER BY nosuch DESC",
            "SELECT frames has no column 'nosuch' to order",
        ),
        (
            "SELECT moments WHERE start_utc > '2026-03-01'",
            r"\. The relation has it: SELECT start_utc FROM mo",
        ),
        (
            "SELECT moments, end_utc WHERE entity = 'dog'",
            r"\. The relation has it: SELECT end_utc FROM moment",
        ),
        (
            "SELECT moments WHERE entity = 'dog' ORDER BY end_utc",
            r"\. The relation has it: SELECT end_utc FR",
        ),
        ("SELECT moments WHERE entity = 'dog' ORDER BY start_tme", "aspect, .*Did you mean 'start_time'"),
        ("SELECT nosuch FROM sightings", "; sightings has end_clock, end_time, end_utc, entity, score, "),
        (
            "SELECT s.vidoe FROM sightings s JOIN tracks USING (track_id)",
            "; sightings has .*, video; tracks has ",
        ),
        ("SELECT nosuch FROM tracks t, crops AS c, (SELECT frames)", "; tracks has .*; crops has "),
        (
            "SELECT 1, lower(nosuch) FROM (SELECT video, time FROM frames, zones)",
            "; frames has .*; zones has",
        ),
        ("SELECT nosuch FROM crops WHERE video IN ('a', tracks)", "; crops has [^;]*$"),
    ],
)
def test_who_names_no_column_is_told_which_there_are(engine: Engine, sql: str, told: str) -> None:
    """DuckDB names a few that it finds near, of its own liking, and one of them was a column of ours."""
    with pytest.raises(QueryError, match=told) as caught:
        engine.query(sql)
    assert "video_clock" not in str(caught.value)
    assert caught.value.position is not None
