"""What the shorthand means: answers over the sample library that a person can compute."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from query_samples import ENTITIES, FPS, TRACKS, VIDEOS, Track, empty_library, make_engine, make_library

from panorama.errors import QueryError, QueryTimeout, UnknownEntity
from panorama.query.engine import Engine
from panorama.query.statements import (
    AddExemplars,
    CreateEntity,
    DescribeEntity,
    DropEntity,
    ForgetEntity,
    RemoveExemplars,
    RenameEntity,
    ShowEntities,
)

FRAME_COLUMNS = ["video", "frame", "time", "entity", "score", "track_id", "x1", "y1", "x2", "y2"]
FRAME_TYPES = ["VARCHAR", "BIGINT", "DOUBLE", "VARCHAR", "DOUBLE", "BIGINT", *["DOUBLE"] * 4]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("library")
    pictures = folder / "pictures"
    pictures.mkdir()
    for name, brightness in {"a.jpg": 20, "b.jpg": 25, "c.jpg": 60, "d.jpg": 200}.items():
        (pictures / name).write_bytes(bytes([brightness]))
    made, _ = make_engine(make_library(folder), pictures)
    yield made
    made.close()


def expected_frames(name: str, accepted: float = 0.8, videos: tuple[str, ...] = ()) -> list[tuple]:
    """Rows of SELECT frames WHERE entity = name, by the definition."""
    rows = []
    for video, _, segment, count in VIDEOS:
        for track in TRACKS:
            if track.segment != segment or track.scores.get(name, 0.0) < accepted:
                continue
            if videos and video not in videos:
                continue
            for frame in range(track.start, min(track.end, count)):
                where = (video, frame, frame / FPS, name, track.scores.get(name, 0.0), track.track_id)
                rows.append((*where, *track.box(frame)))
    return sorted(rows, key=lambda r: (r[0], r[1], r[3], r[5]))


def rounded(rows: object) -> list[tuple]:
    """Rows without the noise of floating point."""
    return [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in rows]  # type: ignore[attr-defined]


# frames


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


def test_a_shorthand_stands_where_any_select_stands(engine: Engine) -> None:
    dog = len(expected_frames("dog"))
    red = len(expected_frames("red-van"))
    one = "SELECT frames WHERE entity = 'dog'"
    two = "SELECT frames WHERE entity = 'red-van'"
    assert engine.query(f"SELECT count(*) FROM ({one})").fetchall() == [(dog,)]
    assert engine.query(f"SELECT count(*) FROM ({one}) AS d WHERE d.frame < 5").fetchall() == [(2,)]
    assert engine.query(f"WITH d AS ({one}) SELECT max(frame) FROM d").fetchall() == [(22,)]
    assert len(engine.query(f"{one} UNION ALL {two}")) == dog + red
    assert len(engine.query(f"{one} EXCEPT {one}")) == 0
    assert engine.query(f"{one} UNION ALL {two} ORDER BY score DESC LIMIT 1").fetchone()["score"] == 0.97
    assert len(engine.query(f"WITH v AS (SELECT 1) {one};")) == dog
    assert engine.query(f"SELECT a.video FROM ({one}) a JOIN ({two}) b USING (video)").fetchall() == []
    nested = "SELECT frames WHERE entity = 'red-van' AND video IN (SELECT video FROM ({}))"
    assert len(engine.query(nested.format("SELECT frames WHERE entity = 'blue-van' AND score > 0.9"))) == 110


def test_the_shorthand_is_read_whatever_its_case_and_layout(engine: Engine) -> None:
    text = "select /* all */ frames -- of it\n where Entity = 'dog' -- SELECT frames WHERE entity = 'cat'\n limit 3"
    assert len(engine.query(text)) == 3


# moments, tracks, crops


def test_moments_merge_tracks_over_small_gaps_and_show_the_best_view(engine: Engine) -> None:
    result = engine.query("SELECT moments WHERE entity = 'red-van' AND video = 'gate-1.mp4'")
    assert result.columns == [
        *["video", "start_time", "end_time", "entity", "score", "track_id"],
        *["frame", "x1", "y1", "x2", "y2"],
    ]
    first, second = TRACKS[0], TRACKS[3]
    assert rounded(result) == rounded(
        [
            ("gate-1.mp4", 0.8, 4.8, "red-van", 0.9, first.track_id, 10, *first.box(10)),
            ("gate-1.mp4", 6.8, 8.8, "red-van", 0.82, second.track_id, 70, *second.box(70)),
        ]
    )


def spans(engine: Engine, sql: str) -> list[tuple[float, float, str | None]]:
    return [(r["start_time"], r["end_time"], r["entity"]) for r in engine.query(sql).fetchall()]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("entity = 'red-van' AND time BETWEEN 4 AND 5", [(0.8, 4.8, "red-van")]),
        ("entity = 'red-van' AND time >= 4.8", [(6.8, 8.8, "red-van")]),  # moments are half-open
        ("entity = 'red-van' AND time <= 6.8", [(0.8, 4.8, "red-van"), (6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND time < 6.8", [(0.8, 4.8, "red-van")]),
        ("entity = 'red-van' AND time = 7", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND NOT time < 5", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND end_time - start_time > 3", [(0.8, 4.8, "red-van")]),
        ("entity = 'red-van' AND score < 0.85 AND score > 0.5", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND frame = 70", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND entity = 'blue-van'", [(1.8, 4.3, "blue-van"), (1.8, 4.3, "red-van")]),
        (
            "entity = 'red-van' AND NOT entity = 'blue-van'",
            [(0.8, 1.8, "red-van"), (4.3, 4.8, "red-van"), (6.8, 8.8, "red-van")],
        ),
        ("NOT entity = 'red-van'", [(0, 0.8, None), (4.8, 6.8, None), (8.8, 10, None)]),
        ("NOT (entity = 'red-van' AND time > 6)", [(0, 0.8 + 6, None), (8.8, 10, None)]),
        (
            "entity = 'blue-van' OR entity = 'red-van'",
            [(0.8, 4.8, "red-van"), (1.8, 4.3, "blue-van"), (6.8, 8.8, "red-van")],
        ),
        (
            "entity LIKE '%-van' AND (entity = 'red-van' OR time < 2)",
            [(0.8, 4.8, "red-van"), (1.8, 4.3, "blue-van"), (6.8, 8.8, "red-van")],
        ),
        (
            "entity = 'red-van' FOLLOWED BY entity = 'blue-van'",
            [(0.8, 4.8, "red-van"), (1.8, 4.3, "blue-van")],
        ),
        ("entity = 'blue-van' FOLLOWED BY entity = 'red-van' WITHIN INTERVAL 2 SECONDS", []),
        (
            "entity = 'blue-van' FOLLOWED BY entity = 'red-van' WITHIN INTERVAL '3' SECONDS",
            [(1.8, 4.3, "blue-van"), (6.8, 8.8, "red-van")],
        ),
        ("entity = 'blue-van' BEFORE entity = 'red-van'", [(1.8, 4.3, "blue-van"), (6.8, 8.8, "red-van")]),
        ("entity = 'blue-van' DURING entity = 'red-van'", [(0.8, 4.8, "red-van"), (1.8, 4.3, "blue-van")]),
        ("entity = 'red-van' DURING entity = 'blue-van'", []),
        ("entity = 'red-van' OVERLAPS entity = 'blue-van'", [(0.8, 4.8, "red-van"), (1.8, 4.3, "blue-van")]),
        ("entity = 'red-van' BEFORE entity = 'red-van'", [(0.8, 4.8, "red-van"), (6.8, 8.8, "red-van")]),
        ("entity = 'red-van' OVERLAPS entity = 'red-van'", []),
        (
            "(entity = 'red-van' AND score > 0.86) BEFORE (entity = 'red-van' AND end_time > 6)",
            [],  # with a score of its own, the first side is [0.8, 2.8); both lie in order
        ),
    ],
)
def test_moments_follow_interval_logic(engine: Engine, condition: str, expected: list) -> None:
    if "score > 0.86" in condition:
        expected = [(0.8, 2.8, "red-van"), (6.8, 8.8, "red-van")]
    found = spans(engine, f"SELECT moments WHERE ({condition}) AND video = 'gate-1.mp4'")
    assert found == [(pytest.approx(a), pytest.approx(b), name) for a, b, name in expected]


def test_moments_without_condition_are_those_of_all_entities(engine: Engine) -> None:
    shorthand = engine.query("SELECT moments").fetchall()
    relation = engine.query("SELECT * FROM moments ORDER BY video, start_time, end_time, entity").fetchall()
    assert shorthand == relation
    assert len(shorthand) == 10


def test_unknown_tracks_are_moments_of_their_own(engine: Engine) -> None:
    rows = engine.query("SELECT moments WHERE entity IS NULL").fetchall()
    assert [(r["video"], r["start_time"], r["end_time"], r["frame"]) for r in rows] == [
        ("yard.mp4", 1.3, 3.3, 15)
    ]


def test_tracks_and_crops_have_their_own_shorthand(engine: Engine) -> None:
    tracks = engine.query("SELECT tracks WHERE entity = 'dog'")
    assert tracks.columns == ["video", "track_id", "start_time", "end_time", "entity", "score"]
    assert tracks.fetchall() == [("yard.mp4", TRACKS[7].track_id, 0.3, 2.3, "dog", 0.9)]
    overlapping = engine.query("SELECT tracks WHERE time BETWEEN 2 AND 3 AND video = 'yard.mp4'").fetchall()
    assert [row["track_id"] & 0xFF for row in overlapping] == [1, 2]
    crops = engine.query("SELECT crops WHERE entity = 'dog' AND quality > 0.85")
    assert crops.columns[:4] == ["crop_id", "video", "track_id", "frame"]
    assert [row["frame"] for row in crops] == [5]
    assert len(engine.query("SELECT crops")) == len(engine.query("SELECT * FROM crops"))
    assert len(engine.query("SELECT tracks WHERE NOT entity LIKE '%'")) == 3


# similarity and verify


def test_tracks_are_ordered_by_similarity_to_a_picture(engine: Engine) -> None:
    result = engine.query("SELECT tracks ORDER BY similarity('c.jpg') DESC LIMIT 2")
    assert result.columns == ["video", "track_id", "start_time", "end_time", "similarity"]
    assert [row["track_id"] & 0xFF for row in result] == [5, 5]  # crop 51 is nearest to 60
    assert result[0]["similarity"] == pytest.approx(1 - 9 / 100)


def test_similarity_works_in_plain_sql_and_beside_other_conditions(engine: Engine) -> None:
    by_picture = "SELECT crop_id, similarity('a.jpg') AS s FROM crops WHERE video = 'gate-1.mp4'"
    assert engine.query(f"{by_picture} ORDER BY s DESC LIMIT 1").fetchall() == [(TRACKS[1].crop_id, 1.0)]
    by_crop = f"SELECT similarity({TRACKS[1].crop_id}) FROM tracks WHERE video = 'gate-2.mp4' ORDER BY 1 DESC"
    result = engine.query(by_crop)
    assert result.columns == ["similarity"]
    assert result.fetchall() == [(1.0,), (pytest.approx(0.91),)]
    near = "SELECT frames WHERE entity = 'red-van' AND similarity('a.jpg') > 0.99"
    assert {row["track_id"] for row in engine.query(near)} == {TRACKS[6].track_id}
    anything = "SELECT frames WHERE similarity('a.jpg') > 0.99 AND video LIKE 'gate-%' AND frame = 40"
    assert [(r["track_id"] & 0xFF, r["entity"]) for r in engine.query(anything)] == [(2, None), (2, None)]


def test_verify_says_yes_no_or_nothing(engine: Engine) -> None:
    assert engine.query("SELECT verify('a.jpg', 'b.jpg')").columns == ["verify"]
    assert engine.query("SELECT verify('a.jpg', 'b.jpg')").fetchall() == [(True,)]
    assert engine.query("SELECT verify('a.jpg', 'd.jpg') AS same, 1").fetchall() == [(False, 1)]
    undecided = engine.query("SELECT 1, verify('a.jpg', ?)", ["c.jpg"])
    assert undecided.fetchall() == [(1, None)]
    assert "undecided" in undecided.warnings[0]


@pytest.mark.parametrize("path", ["../outside.jpg", "/etc/passwd", "link.jpg"])
def test_pictures_are_read_only_below_the_picture_root(tmp_path: Path, path: str) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (tmp_path / "outside.jpg").write_bytes(b"x")
    (pictures / "link.jpg").symlink_to(tmp_path / "outside.jpg")
    engine, _ = make_engine(make_library(tmp_path), pictures)
    with pytest.raises(QueryError, match="outside"):
        engine.query(f"SELECT verify('{path}', '{path}')")
    closed, _ = make_engine(make_library(tmp_path), None)
    with pytest.raises(QueryError, match="no picture root"):
        closed.query("SELECT tracks ORDER BY similarity('a.jpg')")


# parameters


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


# what is asked of the matcher


def test_conditions_on_the_video_restrict_matching(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    engine.query("SELECT frames WHERE entity = 'dog' AND video = 'yard.mp4'")
    assert matcher.requests[-1].segments.tolist() == [3]
    assert matcher.requests[-1].entities == ("dog",)
    assert matcher.requests[-1].keep == "accepted"
    engine.query("SELECT frames WHERE entity = 'dog' AND time < 0.5")
    assert set(matcher.requests[-1].tracks.tolist()) == {t.track_id for t in TRACKS if t.start <= 15} - {
        TRACKS[-1].track_id
    }
    engine.query("SELECT frames WHERE entity = 'dog' AND score >= 0.25")
    assert (matcher.requests[-1].keep, matcher.requests[-1].min_score) == ("all", 0.25)
    engine.query("SELECT frames WHERE entity = 'dog' AND band = 'uncertain'")
    assert matcher.requests[-1].keep == "undecided"
    asked = len(matcher.requests)
    assert len(engine.query("SELECT frames WHERE entity = 'dog' AND video = 'nowhere.mp4'")) == 0
    engine.query("SELECT frames WHERE video = 'yard.mp4'")
    engine.query("SELECT count(*) FROM tracks, videos")
    assert len(matcher.requests) == asked  # nothing there to match


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


# an oracle: the definition, frame by frame


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


# errors


@pytest.mark.parametrize(
    ("sql", "message", "pointed"),
    [
        ("SELECT frames WHERE entity", "convert", "entity"),
        ("SELECT frames WHERE colour = 'red'", "no column 'colour'; it has video, frame", "colour"),
        ("SELECT frames WHERE entity = 'dog' GROUP BY video", "found 'GROUP BY'", "GROUP"),
        ("SELECT frames WHERE entity = 'dog' WITH PRECISION >= 0.9", "WITH PRECISION.*not built yet", "WITH"),
        ("SELECT frames WHERE entity = 'dog' WITH RECALL >= 0.9", "WITH RECALL.*not built yet", "WITH"),
        ("SELECT frames WHERE entity = 'dog' WITHIN 10 SECONDS", "WITHIN.*not built yet", "WITHIN"),
        ("SELECT frames WHERE entity = 'dog' AND inside(door)", "inside.*not built yet", "inside"),
        ("SELECT frames WHERE entity = 'dog' AND time > '10:00'", "wall-clock", "time"),
        ("SELECT frames WHERE frames.time > 1", "columns stand alone", ""),
        ("SELECT frames WHERE entity = 'dog' FOLLOWED BY entity = 'it''s'", "SELECT moments", "FOLLOWED"),
        ("SELECT moments WHERE time % 2 = 1 AND entity = 'dog'", "time is compared with numbers", "time"),
        ("SELECT moments WHERE entity = 'dog' AND (score > 0.5 OR end_time > 3)", "of their own", ""),
        ("SELECT frames WHERE (entity = 'dog'", "expecting \\)", ""),
        ("SELECT frames WHERE entity = 'dog' AND", "expected", ""),
        ("SELECT frames WHERE entity = 'dog", "does not end", "'dog"),
        ("SELECT frames WHERE", "expected a condition", ""),
        ("SELECT frames LIMIT 3 LIMIT 4", "two LIMIT", ""),
        ("SELECT frames WHERE entity = 'dog' ORDER BY nothing", "nothing", "SELECT"),
        ("SELECT nothing FROM videos", "nothing", "nothing"),
        ("SELECT * FROM videos WHERE camera = = 1", "= =|syntax|operator", ""),
        ("SELECT * FRM videos", "syntax error", "videos"),
        ("SELECT tracks ORDER BY similarity(video)", "similarity takes one picture", "video"),
        ("SELECT verify('a.jpg')", "verify takes two pictures", "verify"),
        ("SELECT similarity(12345) FROM tracks", "no crop 12345", "similarity"),
        ("SELECT count(*) FROM (SELECT frames WHERE entity = 'dog'), nowhere", "nowhere", "nowhere"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(engine: Engine, sql: str, message: str, pointed: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        engine.query(sql)
    if pointed:
        assert caught.value.position is not None
        assert sql[caught.value.position :].startswith(pointed)


def test_an_unknown_entity_brings_near_names(engine: Engine) -> None:
    with pytest.raises(UnknownEntity, match=r"no entity 'bluevan'\. Did you mean 'blue-van'"):
        engine.query("SELECT frames WHERE entity IN ('dog', 'bluevan')")


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
    with pytest.raises(QueryTimeout, match="memory"):
        engine.query("SELECT list(i) FROM range(50000000) r(i)")
    assert engine.query("SELECT 1").fetchall() == [(1,)]


# statements about entities


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
        ("ALTER ENTITY 'X' CHANGE", "expected ADD, REMOVE or RENAME TO, found 'CHANGE'"),
        ("FORGET ENTITY 'X' WITH", "expected the end of the statement, found 'WITH'"),
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


# explain


def test_explain_shows_the_plan_and_asks_the_matcher_nothing(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    sql = "SELECT frames WHERE entity = 'red-van' AND video = 'yard.mp4' AND time < 3 LIMIT 5"
    plan = "\n".join(row[0] for row in engine.query(f"EXPLAIN {sql}"))
    assert matcher.requests == []
    assert "seen: red-van" in plan
    assert "pushed below matching: video = 'yard.mp4', time to 3 s" in plan
    counted = "\n".join(row[0] for row in engine.query(f"EXPLAIN ANALYZE {sql.replace('yard', 'gate-1')}"))
    assert "2 accepted, 0 uncertain" in counted  # the third red-van begins a second after the bound
    assert "exit 2 decided 2" in counted
