"""SELECTs inside the condition of a shorthand: whose columns their names are, and which tables they read."""

from __future__ import annotations

from pathlib import Path

import pytest
from query_samples import ENTITIES, make_engine, make_library

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.shorthands.plan import columns_to_add
from panorama.query.text.extensions import TARGETS

OF_ROW = {
    "frames": ("height > 20", "time > 1", "frame = 13", "x1 > 24", "track_id % 2 = 1", "clock IS NULL"),
    "moments": ("height > 20", "start_time > 1", "frame < 9", "x1 > 24", "track_id % 2 = 1"),
    "tracks": ("samples > 3", "start_time > 1", "end_time < 3", "end_frame > 30", "track_id % 2 = 1"),
    "crops": ("height > 20", "time > 1", "frame = 15", "x1 > 24", "quality > 0.85", "crop_id % 2 = 1"),
}
"""Conditions on columns that zones and d do not have, some of which hold for a part of the rows only."""
LOOK = (
    "EXISTS (SELECT 1 FROM zones WHERE {})",
    "NOT EXISTS (FROM zones WHERE {})",
    "EXISTS (SELECT 1 FROM (SELECT zone AS x FROM zones) WHERE x = 'mat' AND {})",
    "video IN (SELECT v FROM d WHERE {})",
    "EXISTS (SELECT 1 FROM zones z JOIN d ON {} AND d.v = video)",
    "(SELECT count(*) > 2 FROM zones WHERE {})",
    "EXISTS (WITH own AS (SELECT 'mat' AS z) SELECT 1 FROM own WHERE z = 'mat' AND {})",
    "EXISTS (SELECT 1 FROM d, (SELECT v AS w FROM d WHERE {}) WHERE w = v)",
)
NAMED = "WITH d AS (SELECT video AS v FROM videos WHERE camera IN ('gate', 'yard'))"
SHADOW = "WITH entities AS (SELECT 'dog' AS entity) "
ENTITY = "entity IN ('dog', 'red-van')"


@pytest.mark.parametrize("look", LOOK)
@pytest.mark.parametrize("target", TARGETS)
def test_a_name_that_no_select_inside_has_is_a_column_of_the_row(
    engine: Engine, target: str, look: str
) -> None:
    """Its columns were not seen, so it was asked of the video, whose height is that of a frame."""
    for column in OF_ROW[target]:
        condition = look.format(column)
        every = ", ".join(columns_to_add(target))
        rows = f"SELECT {target}, {every} WHERE {ENTITY}"
        expected = engine.query(f"{NAMED} SELECT * FROM ({rows}) WHERE {condition}").fetchall()
        found = engine.query(f"{NAMED} {rows} AND {condition}").fetchall()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), condition
        alone = engine.query(f"{NAMED} SELECT {target} WHERE {condition}")
        assert len(alone) >= len(expected)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("EXISTS (SELECT 1 FROM sightings WHERE entity = 'it''s' AND start_time > 3)", False),
        ("EXISTS (SELECT 1 FROM sightings WHERE entity = 'it''s' AND start_time < 3)", True),
        ("EXISTS (SELECT 1 FROM (SELECT 0.1 AS score) WHERE score < 0.5)", True),
        ("EXISTS (SELECT 0.1 AS score FROM zones WHERE score < 0.5)", True),
        ("EXISTS (SELECT 1 FROM (SELECT moments WHERE entity = 'it''s') WHERE score > 0.89)", False),
        ("EXISTS (WITH own(score) AS (SELECT 0.1) SELECT 1 FROM own WHERE score < 0.5)", True),
        ("EXISTS (SELECT 1 FROM few WHERE score < 0.5)", True),
    ],
)
def test_a_name_of_the_innermost_select_is_not_the_row_s(
    engine: Engine, condition: str, expected: bool
) -> None:
    """A condition on the score of another relation must not replace the bands of the entity beside it."""
    few = "WITH few AS (SELECT 0.1 AS score)"
    rows = engine.query(f"{few} SELECT frames WHERE entity = 'dog' AND {condition}").fetchall()
    assert rows == (engine.query("SELECT frames WHERE entity = 'dog'").fetchall() if expected else [])


def test_a_score_that_only_a_select_inside_names_replaces_the_bands(engine: Engine) -> None:
    """As it does beside it: the condition was asked of accepted tracks only."""
    plain = engine.query("SELECT frames WHERE entity = 'dog' AND score > 0.5").fetchall()
    nested = "SELECT frames WHERE entity = 'dog' AND EXISTS (SELECT 1 FROM zones WHERE score > 0.5)"
    assert plain == engine.query(nested).fetchall()


def test_what_neither_the_row_nor_a_select_inside_has_is_an_error(engine: Engine) -> None:
    """Rows of tracks have no height, and that of the video's frames was taken instead."""
    for name in ("height", "nothing"):
        with pytest.raises(QueryError, match=f'"{name}" not found'):
            engine.query(f"SELECT tracks WHERE EXISTS (SELECT 1 FROM zones WHERE {name} > 100)")


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (
            "SELECT tracks WHERE entity IN (SELECT entity FROM sightings WHERE video = 'yard.mp4')",
            {"dog", "it's"},
        ),
        (
            "SELECT tracks WHERE entity IN (SELECT entity FROM (SELECT tracks, entity WHERE score >= 0.9))",
            {"dog", "red-van", "blue-van"},
        ),
        ("WITH n AS (SELECT 'dog' AS e) SELECT frames WHERE entity IN (FROM n)", {"dog"}),
        ("WITH n AS (SELECT 'dog' AS e) SELECT moments WHERE entity = (SELECT e FROM n)", {"dog"}),
        (
            "WITH n(e) AS (SELECT 'dog') SELECT crops WHERE entity NOT IN (SELECT e FROM n)",
            {*ENTITIES} - {"dog"},
        ),
        (
            "WITH entities AS (SELECT 'dog' AS entity) SELECT tracks WHERE entity IN (FROM entities)",
            {"dog"},
        ),
        (
            "SELECT tracks WHERE entity IN (SELECT entity FROM entities WHERE entity LIKE '%-van')",
            {"red-van", "blue-van"},
        ),
        ("SELECT tracks WHERE entity IN (WITH n AS (SELECT 'dog' AS e) SELECT e FROM n)", {"dog"}),
    ],
)
def test_names_of_entities_come_from_whatever_the_statement_can_read(
    engine: Engine, sql: str, names: set[str]
) -> None:
    """They were asked of the library alone: without CTEs, sightings or what other shorthands find."""
    assert set(engine.query(sql).arrow()["entity"].to_pylist()) == names


def test_names_from_stored_entities_alone_still_restrict_matching(tmp_path: Path) -> None:
    """Also beside CTEs of other names; where a CTE may be meant instead, all are matched."""
    engine, matcher = make_engine(make_library(tmp_path))
    asked = "SELECT tracks WHERE entity IN (SELECT entity FROM entities WHERE entity = 'dog')"
    for before, names in (
        ("", ("dog",)),
        ("WITH d AS (FROM zones) ", ("dog",)),
        (SHADOW, tuple(sorted(ENTITIES))),
    ):
        assert {row[4] for row in engine.query(before + asked)} == {"dog"}
        assert matcher.requests[-1].entities == names


@pytest.mark.parametrize(
    "condition",
    [
        "len([i FOR i IN [1, 2] IF i > 1]) = 1",
        "len([i FOR i, j IN [1, 2] IF j > 1]) = 1",
        "list_sum([i + frame FOR i IN [1, 2] IF i > 1]) = frame + 2",
        "frame IN (SELECT unnest([i FOR i IN range(100) IF i > 1]))",
        "len(list_filter([1, 2], lambda i: i > 1)) = 1",
    ],
)
def test_the_names_of_a_list_comprehension_are_no_columns(engine: Engine, condition: str) -> None:
    """SELECT frames was said to have no column 'i'; of lambdas this was known."""
    expected = engine.query("SELECT frames WHERE entity = 'dog'").fetchall()
    assert engine.query(f"SELECT frames WHERE entity = 'dog' AND {condition}").fetchall() == expected


def test_what_a_list_comprehension_goes_through_is_read_outside_of_it(engine: Engine) -> None:
    """There, its own name means nothing."""
    with pytest.raises(QueryError, match="no column 'i'"):
        engine.query("SELECT frames WHERE len([i FOR i IN [i, 2]]) = 1")
