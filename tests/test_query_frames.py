"""What SELECT frames means: answers over the sample library that a person can compute."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest
from query_samples import (
    ENTITIES,
    FPS,
    TRACKS,
    VIDEOS,
    Track,
    expected_frames,
    rounded,
)

from panorama.query.engine import Engine
from panorama.query.text.chance import VOLATILE

FRAME_COLUMNS = ["video", "frame", "time", "entity", "score", "track_id", "x1", "y1", "x2", "y2"]
FRAME_TYPES = ["VARCHAR", "BIGINT", "DOUBLE", "VARCHAR", "DOUBLE", "BIGINT", *["DOUBLE"] * 4]


@pytest.mark.parametrize("name", ENTITIES)
def test_frames_of_an_entity_are_every_frame_of_its_accepted_tracks(engine: Engine, name: str) -> None:
    result = engine.query(f"SELECT frames WHERE entity = '{name.replace(chr(39), chr(39) * 2)}'")
    assert result.columns == FRAME_COLUMNS
    assert result.types == FRAME_TYPES
    assert rounded(result) == rounded(expected_frames(name))


def test_boxes_between_samples_are_interpolated_and_held_at_the_ends(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE entity = 'blue-van' AND video = 'gate-2.mp4'").fetchall()
    x1 = {row["frame"]: row["x1"] for row in rows}
    assert [min(x1), max(x1)] == [3, 27]
    assert [x1[3], x1[4], x1[5]] == [15, 15, 15]  # before the first sample
    assert [x1[12], x1[13]] == pytest.approx([22, 23])  # between samples 10 and 15
    assert [x1[25], x1[26], x1[27]] == [35, 35, 35]  # after the last


def test_score_replaces_the_calibrated_band(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE entity = 'red-van' AND score >= 0.3").fetchall()
    assert rounded(rows) == rounded(expected_frames("red-van", accepted=0.3))


def test_score_at_least_zero_returns_every_track_of_the_library(engine: Engine) -> None:
    rows = engine.query("SELECT tracks WHERE entity = 'dog' AND score >= 0").fetchall()
    copies = [t.track_id for t in TRACKS if t.segment == 1]
    assert sorted(r["track_id"] for r in rows) == sorted(
        [t.track_id for t in TRACKS if t.segment != 9] + copies
    )


def test_undecided_tracks_are_counted_and_shown_only_when_asked_for(engine: Engine) -> None:
    result = engine.query("SELECT frames WHERE entity = 'dog'")
    assert result.uncertain == 2
    assert {row["video"] for row in result} == {"yard.mp4"}
    shown = engine.query("SELECT tracks WHERE entity = 'dog' AND band = 'uncertain' AND camera = 'gate'")
    assert [row["score"] for row in shown] == [0.55, 0.6]
    assert shown.uncertain == 0


def test_each_shorthand_of_a_statement_counts_the_undecided_tracks_of_its_own_time(engine: Engine) -> None:
    early = "(SELECT frames WHERE entity = 'dog' AND time < 0.{})"
    assert engine.query(f"SELECT count(*) FROM {early.format(1)} a, {early.format(2)} b").uncertain == 0


@pytest.mark.parametrize(
    "either", ["camera = 'gate' OR entity = 'blue-van'", "entity = 'blue-van' OR camera = 'gate'"]
)
def test_a_row_for_which_both_sides_of_an_or_hold_comes_once(engine: Engine, either: str) -> None:
    both = engine.query("SELECT frames WHERE entity = 'red-van' AND entity = 'blue-van'").fetchall()
    alone = engine.query("SELECT frames WHERE entity = 'red-van' AND camera = 'gate'").fetchall()
    rows = engine.query(f"SELECT frames WHERE ({either}) AND entity = 'red-van'").fetchall()
    assert len(both) > 0 < len(alone)
    assert rounded(rows) == sorted(set(rounded(both)) | set(rounded(alone)))


def test_and_keeps_frames_having_both_and_returns_the_rows_of_each(engine: Engine) -> None:
    rows = engine.query(
        "SELECT frames WHERE entity = 'red-van' AND entity = 'blue-van' AND video = 'gate-1.mp4'"
    ).fetchall()
    # red-van in [8, 28) and [33, 48), blue-van in [18, 43)
    assert sorted({row["frame"] for row in rows}) == [*range(18, 28), *range(33, 43)]
    assert [(row["frame"], row["entity"]) for row in rows[:3]] == [
        (18, "blue-van"),
        (18, "red-van"),
        (19, "blue-van"),
    ]
    assert len(rows) == 40


def test_two_names_of_one_track_are_both_seen_at_once(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE entity = 'dog' AND entity = 'it''s' LIMIT 2").fetchall()
    assert [(row["frame"], row["entity"]) for row in rows] == [(3, "dog"), (3, "it's")]


def test_or_returns_the_rows_of_either(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE entity = 'red-van' OR entity = 'dog'").fetchall()
    expected = sorted(
        expected_frames("red-van") + expected_frames("dog"), key=lambda r: (r[0], r[1], r[3], r[5])
    )
    assert rounded(rows) == rounded(expected)


def test_not_returns_frames_without_it_and_no_boxes(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE NOT entity = 'red-van' AND video = 'gate-2.mp4'").fetchall()
    assert [row["frame"] for row in rows] == [*range(0, 38), *range(53, 60)]
    assert {row[3:] for row in rows} == {(None,) * 7}


def test_not_with_another_entity_returns_that_ones_rows(engine: Engine) -> None:
    rows = engine.query(
        "SELECT frames WHERE entity = 'blue-van' AND NOT entity = 'red-van' AND video = 'gate-1.mp4'"
    ).fetchall()
    assert [row["frame"] for row in rows] == [28, 29, 30, 31, 32]
    assert {row["entity"] for row in rows} == {"blue-van"}


def test_a_score_binds_to_the_entities_of_its_own_brackets(engine: Engine) -> None:
    both = "SELECT frames WHERE entity = 'blue-van' AND (entity = 'red-van' AND score >= 0.86)"
    rows = engine.query(f"{both} AND video = 'gate-1.mp4'").fetchall()
    assert sorted({row["frame"] for row in rows}) == [*range(18, 28)]  # only the first red-van scores 0.9
    assert {row["entity"] for row in rows} == {"blue-van", "red-van"}
    rows = engine.query(
        "SELECT frames WHERE (entity = 'blue-van' OR entity = 'red-van') AND score > 0.94"
    ).fetchall()
    assert {(row["entity"], row["score"]) for row in rows} == {("blue-van", 0.95), ("red-van", 0.97)}


def test_not_of_a_scored_entity_is_absence_at_that_score(engine: Engine) -> None:
    rows = engine.query(
        "SELECT frames WHERE NOT (entity = 'red-van' AND score >= 0.86) AND video = 'gate-1.mp4'"
    ).fetchall()
    assert [row["frame"] for row in rows] == [*range(0, 8), *range(28, 100)]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("entity IN ('dog', 'red-van')", {"dog", "red-van"}),
        ("entity LIKE '%-van'", {"red-van", "blue-van"}),
        ("entity <> 'dog'", {"red-van", "blue-van", "it's"}),
        ("entity NOT IN ('dog', 'it''s')", {"red-van", "blue-van"}),
        ("entity IS NOT NULL", {"red-van", "blue-van", "dog", "it's"}),
        ("entity LIKE 'nothing%'", set()),
        ("upper(entity) = 'DOG'", {"dog"}),
        ("ENTITY = 'dog'", {"dog"}),
        ("(entity = 'dog')", {"dog"}),
        ("NOT NOT entity = 'dog'", {"dog"}),
        ("entity NOT BETWEEN 'blue' AND 'e'", {"red-van", "it's"}),
    ],
)
def test_names_can_be_picked_in_every_way_of_sql(engine: Engine, condition: str, names: set[str]) -> None:
    rows = engine.query(f"SELECT frames WHERE {condition}").fetchall()
    assert {row["entity"] for row in rows} == names
    assert len(rows) == sum(len(expected_frames(name)) for name in names)


def test_entity_is_null_returns_tracks_that_match_nothing(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE entity IS NULL").fetchall()
    assert {row["track_id"] for row in rows} == {Track(3, 2, 0, 0).track_id}
    assert [row["frame"] for row in rows] == [*range(13, 33)]
    assert rows[0]["x1"] is not None


@pytest.mark.parametrize("target", ["frames", "tracks", "crops", "moments"])
@pytest.mark.parametrize(
    ("condition", "undecided"),
    [
        ("entity IS NULL", 1),  # not the one that is accepted for another entity
        ("entity IS NULL AND time < 4.5", 0),
        ("entity IS NULL AND video = 'yard.mp4'", 0),
        ("entity IS NULL OR entity = 'red-van'", 1),
        ("NOT entity IS NULL", 1),
        ("entity IS NOT NULL", 2),
    ],
)
def test_what_may_match_something_is_counted_where_nothing_is_asked_for(
    engine: Engine, target: str, condition: str, undecided: int
) -> None:
    """It was in neither answer, and nothing said so."""
    if target == "frames" and "time" in condition:
        condition = condition.replace("4.5", "3.5")  # frames reach a second beyond the samples
    assert engine.query(f"SELECT {target} WHERE {condition}").uncertain == undecided


@pytest.mark.parametrize("target", ["frames", "tracks", "crops", "moments"])
@pytest.mark.parametrize(
    ("condition", "undecided"),
    [
        ("entity <> ALL(['dog'])", 0),
        ("(entity, video) IN (('dog', 'yard.mp4'))", 0),
        ("(entity, video) IN (('dog', 'gate-1.mp4'))", 2),
        ("entity || camera = 'dogyard'", 0),
        ("entity || camera = 'doggate'", 2),
        ("(entity = 'dog' AND camera = 'yard') OR entity = 'red-van'", 0),
        ("(entity = 'dog' AND camera = 'gate') OR entity = 'red-van'", 2),
    ],
)
def test_what_is_of_an_excluded_entity_or_video_is_not_counted_as_undecided(
    engine: Engine, target: str, condition: str, undecided: int
) -> None:
    found = engine.query(f"SELECT {target} WHERE {condition}")
    assert (found.uncertain, found.uncertain_of) == (undecided, ("dog",) if undecided else ())


@pytest.mark.parametrize(
    ("condition", "keep"),
    [
        ("time BETWEEN 2 AND 3", lambda r: 2 <= r[2] <= 3),
        ("time >= 4.2 AND time < 7", lambda r: 4.2 <= r[2] < 7),
        ("5 > time", lambda r: r[2] < 5),
        ("frame = 20", lambda r: r[1] == 20),
        ("frame % 10 = 0", lambda r: r[1] % 10 == 0),
        ("video LIKE 'gate-%'", lambda r: r[0].startswith("gate-")),
        ("video IN ('gate-2.mp4', 'yard.mp4')", lambda r: r[0] == "gate-2.mp4"),
        ("camera = 'copies'", lambda r: r[0] == "copies/gate-1.mp4"),
        ("(camera = 'copies' OR time < 1)", lambda r: r[0] == "copies/gate-1.mp4" or r[2] < 1),
        ("x1 >= 100", lambda r: r[6] >= 100),
        ("width = 20 AND height = 30 AND area = 600", lambda r: True),
        ("width > 20", lambda r: False),
        ("NOT time < 5", lambda r: r[2] >= 5),
        ("score > 0.87", lambda r: r[4] > 0.87),
        ("track_id % 2 = 1", lambda r: r[5] % 2 == 1),
        ("video IN (SELECT video FROM videos WHERE camera = 'gate')", lambda r: r[0].startswith("gate-")),
        ("NOT (video = 'gate-1.mp4' OR frame > 45)", lambda r: r[0] != "gate-1.mp4" and r[1] <= 45),
    ],
)
def test_predicates_on_video_time_and_box_filter_the_rows(engine: Engine, condition: str, keep) -> None:
    rows = engine.query(f"SELECT frames WHERE entity = 'red-van' AND {condition}").fetchall()
    assert rounded(rows) == rounded(row for row in expected_frames("red-van") if keep(row))


def test_a_condition_without_entity_returns_frames_without_boxes(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE video = 'yard.mp4' AND frame < 2").fetchall()
    assert rows == [("yard.mp4", frame, frame / FPS, *(None,) * 7) for frame in (0, 1)]


def test_a_condition_on_the_box_alone_asks_for_any_track(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE x1 >= 150 OR x1 < 0").fetchall()
    assert rows == []
    rows = engine.query("SELECT frames WHERE x1 = 53 AND video = 'yard.mp4'").fetchall()
    assert [(row["frame"], row["entity"], row["track_id"] & 0xFF) for row in rows] == []
    rows = engine.query("SELECT frames WHERE x1 = 45 AND video = 'yard.mp4'").fetchall()
    assert [(row["frame"], row["entity"], row["track_id"] & 0xFF) for row in rows] == [(25, None, 2)]


def test_a_score_alone_asks_for_any_entity(engine: Engine) -> None:
    rows = engine.query("SELECT frames WHERE score >= 0.9 AND video = 'gate-2.mp4'").fetchall()
    assert {row["entity"] for row in rows} == {"red-van"}


@pytest.mark.parametrize("offset", [0, 3, 40, 54, 60, 200])
@pytest.mark.parametrize("limit", [0, 1, 7, 100])
def test_limit_in_the_default_order_takes_the_first_rows(engine: Engine, limit: int, offset: int) -> None:
    rows = engine.query(f"SELECT frames WHERE entity = 'red-van' LIMIT {limit} OFFSET {offset}").fetchall()
    assert rounded(rows) == rounded(expected_frames("red-van")[offset : offset + limit])


def test_order_by_is_stable_and_can_name_any_column(engine: Engine) -> None:
    rows = engine.query(
        "SELECT frames WHERE entity = 'red-van' ORDER BY score DESC, area LIMIT 20"
    ).fetchall()
    expected = sorted(expected_frames("red-van"), key=lambda r: (-r[4], r[0], r[1]))
    assert rounded(rows) == rounded(expected[:20])


@pytest.mark.parametrize("limit", [0, 1, 15, 16, 55, 56, 500])
def test_limit_by_score_takes_the_rows_of_the_best_tracks(engine: Engine, limit: int) -> None:
    sql = f"SELECT frames WHERE entity LIKE '%van' ORDER BY score desc LIMIT {limit} OFFSET 2"
    expected = expected_frames("red-van") + expected_frames("blue-van")
    expected.sort(key=lambda r: (-r[4], r[0], r[1], r[3], r[5]))
    assert rounded(engine.query(sql)) == rounded(expected[2 : 2 + limit])


def test_or_also_holds_without_a_track_where_one_side_asks_for_none(engine: Engine) -> None:
    keys = {
        condition: {(r["video"], r["frame"]) for r in engine.query(f"SELECT frames WHERE {condition}")}
        for condition in (
            "x1 > 30",
            "time < 2",
            "x1 > 30 OR time < 2",
            "score > 0.8",
            "score > 0.8 OR time < 2",
        )
    }
    assert keys["x1 > 30 OR time < 2"] == keys["x1 > 30"] | keys["time < 2"]
    assert keys["score > 0.8 OR time < 2"] == keys["score > 0.8"] | keys["time < 2"]


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("NOT (x1 > 30 AND time < 2)", "x1 <= 30 OR time >= 2"),
        ("NOT (x1 > 30 OR time < 2)", "x1 <= 30 AND time >= 2"),
        ("NOT (time < 2 AND NOT (x1 > 30 AND frame < 19))", "time >= 2 OR (x1 > 30 AND frame < 19)"),
        ("NOT (score > 0.8 AND time < 2)", "score <= 0.8 OR time >= 2"),
        ("frame < 60 AND (x1 > 30 OR time < 2)", "(frame < 60 AND x1 > 30) OR (frame < 60 AND time < 2)"),
        ("NOT (similarity('a.jpg') > 0.9 AND time < 2)", "similarity('a.jpg') <= 0.9 OR time >= 2"),
    ],
)
def test_not_of_what_asks_partly_for_a_track_follows_de_morgan(
    engine: Engine, condition: str, same: str
) -> None:
    """It was bound to a track whole, so that frames without one were missing."""
    found = engine.query(f"SELECT frames WHERE {condition}").fetchall()
    assert found == engine.query(f"SELECT frames WHERE {same}").fetchall()
    assert {row["track_id"] is None for row in found} == ({True, False} if " OR " in same else {False})


def test_frames_in_order_of_similarity_are_those_of_tracks(engine: Engine) -> None:
    """Without WHERE, every frame came with an empty box and no similarity to order by."""
    order = "ORDER BY similarity('a.jpg') DESC"
    asked = engine.query(f"SELECT frames WHERE similarity('a.jpg') > 0 {order}").fetchall()
    assert engine.query(f"SELECT frames {order}").fetchall() == asked
    assert engine.query(f"SELECT frames {order} LIMIT 2").fetchall() == asked[:2]
    assert asked[0]["track_id"] & 0xFFFFFFFF == 2 and asked[0]["x1"] is not None  # a.jpg is of brightness 20
    early = engine.query(f"SELECT frames WHERE time < 1 {order}").fetchall()
    assert early == [row for row in asked if row["time"] < 1]
    absent = engine.query(f"SELECT frames WHERE NOT entity = 'dog' {order} LIMIT 5").fetchall()
    assert None not in {row["track_id"] for row in absent}


def test_a_shorthand_stands_where_any_select_stands(engine: Engine) -> None:
    dog = len(expected_frames("dog"))
    red = len(expected_frames("red-van"))
    one = "SELECT frames WHERE entity = 'dog'"
    two = "SELECT frames WHERE entity = 'red-van'"
    assert engine.query(f"SELECT count(*) FROM ({one})").fetchall() == [(dog,)]
    assert engine.query(f"SELECT count(*) FROM ({one}) AS d WHERE d.frame < 5").fetchall() == [(2,)]
    assert engine.query(f"WITH d AS ({one}) SELECT max(frame) FROM d").fetchall() == [(22,)]
    assert len(engine.query(f"{one} UNION ALL {two}")) == dog + red
    # Behind a comma it was a column, videos.frames, as many rows as videos.
    joined = "SELECT count(*), count(f.time) FROM videos v{} (SELECT frames) f{}"
    cross = engine.query(joined.format(",", "")).fetchall()
    assert cross == engine.query(joined.format(" JOIN", " ON true")).fetchall() and cross[0][0] > 100
    assert len(engine.query(f"{one} EXCEPT {one}")) == 0
    assert engine.query(f"{one} UNION ALL {two} ORDER BY score DESC LIMIT 1").fetchone()["score"] == 0.97
    assert len(engine.query(f"WITH v AS (SELECT 1) {one};")) == dog
    assert engine.query(f"SELECT a.video FROM ({one}) a JOIN ({two}) b USING (video)").fetchall() == []
    nested = "SELECT frames WHERE entity = 'red-van' AND video IN (SELECT video FROM ({}))"
    assert len(engine.query(nested.format("SELECT frames WHERE entity = 'blue-van' AND score > 0.9"))) == 110


def test_the_shorthand_is_read_whatever_its_case_and_layout(engine: Engine) -> None:
    text = "select /* all */ frames -- of it\n where Entity = 'dog' -- SELECT frames WHERE 1\n limit 3"
    assert len(engine.query(text)) == 3


def random_condition(rng: random.Random, depth: int) -> tuple:
    kind = rng.choice(["and", "or", "not", "leaf", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        return rng.choice(
            [
                ("seen", rng.choice(ENTITIES), None),
                ("seen", rng.choice(ENTITIES), rng.choice([0.0, 0.35, 0.6, 0.9])),
                ("time", rng.choice([1.5, 2.5, 4.0])),
                ("video", rng.choice(["gate%", "yard.mp4"])),
            ]
        )
    if kind == "not":
        return ("not", random_condition(rng, depth - 1))
    return (kind, *(random_condition(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))))


def as_sql(condition: tuple) -> str:
    match condition:
        case ("seen", name, None):
            return f"entity = '{name.replace(chr(39), chr(39) * 2)}'"
        case ("seen", name, score):
            return f"(entity = '{name.replace(chr(39), chr(39) * 2)}' AND score >= {score})"
        case ("time", value):
            return f"time < {value}"
        case ("video", pattern):
            return f"video LIKE '{pattern}'"
        case ("not", item):
            return f"NOT ({as_sql(item)})"
        case (kind, *items):
            return "(" + f" {kind.upper()} ".join(as_sql(item) for item in items) + ")"


def judge(condition: tuple, video: str, segment: int, frame: int, opposite: bool = False) -> tuple[bool, set]:
    """Whether a frame satisfies a condition, and the rows that it gives."""
    match condition:
        case ("seen", name, score):
            found = {
                (name, t.track_id)
                for t in TRACKS
                if t.segment == segment
                and t.start <= frame < t.end
                and t.scores.get(name, 0.0) >= (0.8 if score is None else score)
            }
            return (not found, set()) if opposite else (bool(found), found)
        case ("time", value):
            return (frame / FPS < value) != opposite, set()
        case ("video", pattern):
            holds = video.startswith("gate") if pattern == "gate%" else video == pattern
            return holds != opposite, set()
        case ("not", item):
            return judge(item, video, segment, frame, not opposite)
        case (kind, *items):
            parts = [judge(item, video, segment, frame, opposite) for item in items]
            rows = set().union(*(part[1] for part in parts))
            if (kind == "and") != opposite:
                truth = all(part[0] for part in parts)
                return truth, rows if truth else set()
            return any(part[0] for part in parts), rows


@pytest.mark.parametrize("seed", range(40))
def test_any_nesting_of_conditions_agrees_with_the_definition(engine: Engine, seed: int) -> None:
    condition = random_condition(random.Random(seed), 3)
    expected = []
    for video, _, segment, count in VIDEOS:
        for frame in range(count):
            truth, rows = judge(condition, video, segment, frame)
            if truth:
                expected += [(video, frame, *row) for row in sorted(rows)] or [(video, frame, None, None)]
    sql = f"SELECT frames WHERE {as_sql(condition)}"
    found = [(r["video"], r["frame"], r["entity"], r["track_id"]) for r in engine.query(sql)]
    assert found == sorted(expected, key=lambda row: tuple(str(v) if v is None else v for v in row[:2])), sql


HALF = "random() < 0.5"
"""Of 1,500 rows or more, between 0.4 and 0.6 hold, but for once in a hundred million million times."""


@pytest.mark.parametrize(
    "condition",
    [
        HALF,
        f"entity = 'red-van' AND {HALF}",
        "entity = 'red-van' AND NOT random() >= 0.5",
        "entity = 'red-van' AND length(camera) * 0 + random() < 0.5",
        "entity = 'red-van' AND score * 0 + random() < 0.5",
        f"entity = 'red-van' AND entity LIKE 'red%' AND {HALF}",
        f"(entity = 'red-van' OR NOT entity = 'dog') AND {HALF}",
        f"((entity = 'red-van' AND x1 > 0) OR (entity = 'red-van' AND y1 > 0)) AND {HALF}",
    ],
)
def test_chance_decides_row_by_row_and_once(engine: Engine, condition: str) -> None:
    """It decided about whole videos, twice, or about tracks; and twice where two alternatives have a row."""
    sql = f"SELECT frames WHERE {condition}"
    every = engine.query(sql.replace("random()", "0.25" if "NOT random" not in sql else "0")).fetchall()
    drawn = [engine.query(sql).fetchall() for _ in range(12)]
    assert 0.4 < sum(map(len, drawn)) / (12 * len(every)) < 0.6
    whole = Counter((row["video"], row["track_id"]) for row in every)
    drawn_of = [Counter((row["video"], row["track_id"]) for row in rows) for rows in drawn]
    in_part = [0 < counts[place] < whole[place] for counts in drawn_of for place in whole]
    # the shortest track has 10 rows: all or none of them are drawn twice in 1,024 times
    assert min(whole.values()) >= 10 and sum(in_part) > 0.9 * len(in_part)
    assert len(engine.query(f"{sql} LIMIT 9").fetchall()) == 9


@pytest.mark.parametrize("target", ["tracks", "crops", "moments"])
@pytest.mark.parametrize("asked", ["", "entity LIKE '%' AND ", "NOT entity = 'dog' AND "])
def test_chance_decides_once_about_rows_of_any_target(engine: Engine, target: str, asked: str) -> None:
    every = len(engine.query(f"SELECT {target} WHERE {asked} 0 < 1").fetchall())
    drawn = [
        len(engine.query(f"SELECT {target} WHERE {asked}{HALF}").fetchall()) for _ in range(600 // every)
    ]
    assert 0.4 < sum(drawn) / (len(drawn) * every) < 0.6


def test_not_of_an_entity_by_chance_leaves_its_other_rows(engine: Engine) -> None:
    without = engine.query("SELECT frames WHERE NOT entity = 'red-van'").fetchall()
    rows = engine.query(f"SELECT frames WHERE NOT (entity = 'red-van' AND {HALF})").fetchall()
    assert {row[:3] for row in without} < {row[:3] for row in rows}


def test_a_similarity_beside_chance_is_there_in_every_row(engine: Engine) -> None:
    like = f"similarity({TRACKS[0].crop_id})"
    for sql in (
        f"SELECT {like} FROM crops WHERE {HALF}",
        f"SELECT similarity FROM (SELECT tracks WHERE {HALF} ORDER BY {like} DESC LIMIT 3)",
    ):
        rows = [row for _ in range(5) for row in engine.query(sql).fetchall()]
        assert rows and all(value is not None for (value,) in rows)


def test_the_functions_of_chance_are_those_that_duckdb_calls_volatile() -> None:
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    with duckdb.connect() as connection:
        assert {name for (name,) in connection.execute(sql).fetchall()} <= VOLATILE
