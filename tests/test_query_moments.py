"""What SELECT moments, tracks and crops mean, and querying by example."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from query_samples import (
    FPS,
    TRACKS,
    VIDEOS,
    FakeMatcher,
    Track,
    make_engine,
    make_library,
    rounded,
)

from panorama.errors import BadImage, QueryError
from panorama.query.engine import Engine
from panorama.query.shorthands.plan import ORDER, OUTPUT


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
        ("entity = 'red-van' AND time BETWEEN 4 AND 3", []),  # no instant is both, as of frames
        ("entity = 'red-van' AND NOT time BETWEEN 4 AND 3", [(0.8, 4.8, "red-van"), (6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND time >= 4.8", [(6.8, 8.8, "red-van")]),  # moments are half-open
        ("entity = 'red-van' AND time <= 6.8", [(0.8, 4.8, "red-van"), (6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND time < 6.8", [(0.8, 4.8, "red-van")]),
        ("entity = 'red-van' AND time = 7", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND time <> 7", [(0.8, 4.8, "red-van"), (6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND NOT time <> 7", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND NOT time < 5", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND end_time - start_time > 3", [(0.8, 4.8, "red-van")]),
        ("entity = 'red-van' AND score < 0.85 AND score > 0.5", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND frame = 70", [(6.8, 8.8, "red-van")]),
        ("entity = 'red-van' AND entity = 'blue-van'", [(1.8, 4.3, "blue-van"), (1.8, 4.3, "red-van")]),
        # In brackets with an entity the view is that of its moments, else that of the rows that result.
        (
            "(entity = 'red-van' AND frame = 10) AND entity = 'blue-van'",
            [(1.8, 4.3, "blue-van"), (1.8, 4.3, "red-van")],
        ),
        (
            "entity = 'blue-van' AND ((entity = 'red-van' AND frame = 10) OR entity = 'dog')",
            [(1.8, 4.3, "blue-van"), (1.8, 4.3, "red-van")],
        ),
        ("(entity = 'red-van' AND frame = 70) AND entity = 'blue-van'", []),
        ("entity = 'red-van' AND frame = 10 AND entity = 'blue-van'", []),
        ("entity = 'red-van' AND frame = 18 AND entity = 'blue-van'", [(1.8, 4.3, "red-van")]),
        (
            "entity = 'red-van' AND NOT entity = 'blue-van'",
            [(0.8, 1.8, "red-van"), (4.3, 4.8, "red-van"), (6.8, 8.8, "red-van")],
        ),
        ("NOT entity = 'red-van'", [(0, 0.8, None), (4.8, 6.8, None), (8.8, 10, None)]),
        ("NOT (entity = 'red-van' AND time > 6)", [(0, 0.8 + 6, None), (8.8, 10, None)]),
        ("NOT (entity = 'red-van' AND time > 8)", [(0, 0.8 + 6, None), (8.8, 10, None)]),
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


@pytest.mark.parametrize(
    ("interval", "found"),
    [
        *(("'3'", 2), ("3 S", 2), ("3 SECS", 2), ("2600 MS", 2), ("'1 min'", 2), ("1 H", 2)),
        *(("2 SEC", 0), ("2000 MS", 0)),
    ],
)
def test_an_interval_has_a_unit_of_duckdb_or_is_in_seconds(engine: Engine, interval: str, found: int) -> None:
    condition = f"entity = 'blue-van' FOLLOWED BY entity = 'red-van' WITHIN INTERVAL {interval}"
    assert len(spans(engine, f"SELECT moments WHERE ({condition}) AND video = 'gate-1.mp4'")) == found


@pytest.mark.parametrize("unit", ["MSS", "HS", "MONTHS"])
def test_an_interval_in_another_unit_is_refused(engine: Engine, unit: str) -> None:
    """5 MSS were five minutes."""
    with pytest.raises(QueryError, match="an interval here is in SECONDS, MINUTES, HOURS or DAYS"):
        engine.query(f"SELECT moments WHERE entity = 'dog' BEFORE entity = 'dog' WITHIN INTERVAL 5 {unit}")


def test_moments_without_condition_are_those_of_all_entities(engine: Engine) -> None:
    shorthand = engine.query("SELECT moments").fetchall()
    relation = engine.query(
        "SELECT * EXCLUDE (start_clock, end_clock, start_utc, end_utc) FROM moments"
        " ORDER BY video, start_time, end_time, entity"
    ).fetchall()
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


def test_crops_of_one_file_under_two_names_keep_their_order(engine: Engine) -> None:
    whole = engine.query("SELECT crops").fetchall()
    assert whole == sorted(whole, key=lambda row: (row["crop_id"], row["video"]))
    assert [engine.query(f"SELECT crops LIMIT 1 OFFSET {i}")[0] for i in range(len(whole))] == whole


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


def test_score_band_and_exit_of_two_pictures_are_those_of_one_comparison(engine: Engine) -> None:
    names = ["verify_score", "verify_band", "verify_exit", "verify"]
    asked = "SELECT " + ", ".join(f"{name}('a.jpg', ?)" for name in names)
    for other, gap, band, same in (
        ("b.jpg", 5, "accepted", True),
        ("c.jpg", 40, "uncertain", None),
        ("d.jpg", 180, "rejected", False),
    ):
        answer = engine.query(asked, [other] * 4)
        assert answer.columns == names
        assert answer.types == ["DOUBLE", "VARCHAR", "INTEGER", "BOOLEAN"]
        assert answer.fetchall() == [(pytest.approx(1 - gap / 255), band, 3, same)]
        assert len(answer.warnings) == (same is None)
    # NULL is remarked on; what is told in full needs no remark.
    assert not engine.query("SELECT verify_band('a.jpg', 'c.jpg')").warnings
    assert str(engine.query(f"EXPLAIN ANALYZE {asked}", ["b.jpg"] * 4)).count("accepted at exit 3") == 1
    assert "verify_score('a.jpg', 'b.jpg')" in str(engine.query(f"EXPLAIN {asked}", ["b.jpg"] * 4))


def test_score_and_band_stand_wherever_a_value_does(engine: Engine) -> None:
    dogs = "SELECT tracks WHERE entity = 'dog' AND verify_score('a.jpg', 'b.jpg') > {}"
    assert [len(engine.query(dogs.format(least))) for least in (0.98, 0.99)] == [1, 0]
    assert engine.query("SELECT verify_band FROM (SELECT 1 AS verify_band)").fetchall() == [(1,)]
    with pytest.raises(QueryError, match="verify_score takes two pictures in single quotes: verify_score"):
        engine.query("SELECT verify_score('a.jpg')")


def test_an_error_of_verify_points_into_the_statement(engine: Engine) -> None:
    with pytest.raises(QueryError) as caught:
        engine.query("SELECT 1, verify('../a.jpg', 'b.jpg')")
    assert caught.value.sql == "SELECT 1, verify('../a.jpg', 'b.jpg')"
    assert caught.value.position == 10


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


def test_a_picture_that_cannot_be_read_is_named_as_it_was(tmp_path: Path) -> None:
    """The message told the whole path to it instead."""

    def refuse(path: Path) -> np.ndarray:
        raise BadImage(f"{path} is not a picture")

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jpg").write_bytes(b"x")
    tables = make_library(tmp_path)
    engine = Engine(tables, FakeMatcher(), picture_root=tmp_path, read_picture=refuse)
    with pytest.raises(BadImage, match=r"^sub/a\.jpg is not a picture$"):
        engine.query("SELECT tracks ORDER BY similarity('sub/a.jpg')")


# The definition of interval logic, checked at instants that lie between all ends.


def moment_spans(name: str, score: float | None, segment: int) -> list[tuple[float, float]]:
    """Merged intervals of an entity in one video, by the definition."""
    least = 0.8 if score is None else score
    tracks = [t for t in TRACKS if t.segment == segment and t.scores.get(name, 0.0) >= least]
    merged: list[tuple[float, float]] = []
    for start, end in sorted((t.start / FPS, t.end / FPS) for t in tracks):
        if merged and start <= merged[-1][1] + 1.0:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def random_formula(rng: random.Random, depth: int) -> tuple:
    kind = rng.choice(["and", "or", "not", "not", "at", "seen"]) if depth else "seen"
    if kind == "seen":
        return ("seen", rng.choice(["red-van", "blue-van", "dog"]), rng.choice([None, None, 0.3, 0.5]))
    if kind == "not":
        return ("not", random_formula(rng, depth - 1))
    if kind == "at":
        return ("and", random_formula(rng, depth - 1), ("at", rng.choice(["gate", "yard"])))
    return (kind, random_formula(rng, depth - 1), random_formula(rng, depth - 1))


def formula_sql(formula: tuple) -> str:
    match formula:
        case ("seen", name, None):
            return f"entity = '{name}'"
        case ("seen", name, score):
            return f"(entity = '{name}' AND score >= {score})"
        case ("at", camera):
            return f"camera = '{camera}'"
        case ("not", item):
            return f"NOT ({formula_sql(item)})"
        case (kind, left, right):
            return f"({formula_sql(left)} {kind.upper()} {formula_sql(right)})"


def at_instant(
    formula: tuple, camera: str, segment: int, t: float, opposite: bool = False
) -> tuple[bool, set[str]]:
    """Whether the formula holds at an instant of a video, and the entities whose moments it shows then."""
    match formula:
        case ("seen", name, score):
            there = any(a <= t < b for a, b in moment_spans(name, score, segment))
            return there != opposite, {name} if there and not opposite else set()
        case ("at", where):
            return (camera == where) != opposite, set()
        case ("not", item):
            return at_instant(item, camera, segment, t, not opposite)
        case (kind, *items):
            parts = [at_instant(item, camera, segment, t, opposite) for item in items]
            shown = set().union(*(part[1] for part in parts))
            if (kind == "and") != opposite:
                holds = all(part[0] for part in parts)
                return holds, shown if holds else set()
            return any(part[0] for part in parts), shown


@pytest.mark.parametrize("seed", range(40))
def test_any_formula_of_moments_agrees_with_the_definition_at_every_instant(
    engine: Engine, seed: int
) -> None:
    formula = random_formula(random.Random(seed), 3)
    rows = engine.query(f"SELECT moments WHERE {formula_sql(formula)}").fetchall()
    for video, camera, segment, count in VIDEOS:
        for tenth in range(count):
            t = tenth / FPS + 0.01
            holds, shown = at_instant(formula, camera, segment, t)
            here = [r for r in rows if r["video"] == video and r["start_time"] <= t < r["end_time"]]
            found = {r["entity"] for r in here if r["entity"] is not None}
            assert found == shown, (formula_sql(formula), video, t)
            assert bool(here) == holds, (formula_sql(formula), video, t)
            assert len(found) == len([r for r in here if r["entity"] is not None]), "one moment at a time"
    for row in rows:
        if row["track_id"] is not None:
            track = next(t for t in TRACKS if t.track_id == row["track_id"])
            assert row["score"] == pytest.approx(track.scores[row["entity"]])
            assert row["start_time"] <= row["frame"] / FPS < row["end_time"]
            assert [row[side] for side in ("x1", "y1", "x2", "y2")] == pytest.approx(track.box(row["frame"]))
        elif row["entity"] is not None:
            assert not [t for t in TRACKS if row["entity"] in t.scores and overlaps(t, row)]


def overlaps(track: Track, row: Any) -> bool:
    in_video = (row["video"], track.segment) in {(video, segment) for video, _, segment, _ in VIDEOS}
    return in_video and track.start / FPS < row["end_time"] and row["start_time"] < track.end / FPS


@pytest.mark.parametrize("target", ["moments", "tracks"])
@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("NOT (entity = 'dog' OR time < 0.5)", "NOT entity = 'dog' AND time >= 0.5"),
        (
            "NOT ((entity = 'dog' OR time < 1.5) AND video LIKE 'g%') AND video LIKE 'g%'",
            "NOT entity = 'dog' AND time >= 1.5 AND video LIKE 'g%'",
        ),
        (
            "entity = 'red-van' AND NOT (entity = 'dog' OR time < 1.5)",
            "entity = 'red-van' AND NOT entity = 'dog' AND time >= 1.5",
        ),
        ("NOT (entity = 'dog' OR NOT time < 1)", "NOT entity = 'dog' AND time < 1"),
        ("NOT (entity = 'dog' OR time < '10:00')", "NOT entity = 'dog' AND time >= '10:00'"),
    ],
)
def test_not_of_alternatives_is_not_of_each_also_of_a_time(
    engine: Engine, target: str, condition: str, same: str
) -> None:
    """A time beside OR and an entity was asked of the whole interval: what began before it was missing."""
    found = engine.query(f"SELECT {target} WHERE {condition}").fetchall()
    assert found and found == engine.query(f"SELECT {target} WHERE {same}").fetchall()


@pytest.mark.parametrize("target", ["moments", "tracks"])
@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("NOT NOT (entity = 'dog' AND time < 1)", "entity = 'dog' AND time < 1"),
        ("NOT NOT (entity = 'dog' AND time BETWEEN 1 AND 2)", "entity = 'dog' AND time BETWEEN 1 AND 2"),
        ("NOT NOT (entity = 'red-van' AND time >= '10:00')", "entity = 'red-van' AND time >= '10:00'"),
        ("NOT NOT (time < 1 AND (NOT entity = 'dog'))", "time < 1 AND (NOT entity = 'dog')"),
        (
            "NOT (entity = 'red-van' OR NOT (entity = 'dog' AND time < 1))",
            "NOT entity = 'red-van' AND (entity = 'dog' AND time < 1)",
        ),
        ("NOT NOT NOT (entity = 'dog' AND time < 1)", "NOT (entity = 'dog' AND time < 1)"),
    ],
)
def test_a_time_beside_an_entity_means_the_same_within_any_number_of_nots(
    engine: Engine, target: str, condition: str, same: str
) -> None:
    """NOT NOT asked it of the whole interval: what began before it or went on behind it was missing."""
    found = engine.query(f"SELECT {target} WHERE {condition}").fetchall()
    assert found and found == engine.query(f"SELECT {target} WHERE {same}").fetchall()


@pytest.mark.parametrize("target", ["frames", "moments", "tracks", "crops"])
def test_not_between_asks_for_another_entity_whatever_the_target(engine: Engine, target: str) -> None:
    """Of moments and tracks it asked for absence, which NOT IN does for no target."""
    found = engine.query(f"SELECT {target} WHERE entity NOT BETWEEN 'blue' AND 'e'").fetchall()
    assert found == engine.query(f"SELECT {target} WHERE entity NOT IN ('dog', 'blue-van')").fetchall()
    assert {row["entity"] for row in found if target in ("frames", "moments")} <= {"red-van", "it's"}


def test_moments_that_tie_in_their_order_are_equal() -> None:
    """One moment under two conditions, with another view for each, came in another order each time."""
    assert set(OUTPUT["moments"]) - set(ORDER["moments"]) == {"score"}  # which an entity and a track have


@pytest.mark.parametrize(
    "condition", ["entity = 'dog' AND time < 3", "time < 3 AND (entity = 'dog' OR video = 'x')"]
)
def test_not_of_an_entity_at_a_time_means_that_it_was_not_there_then(engine: Engine, condition: str) -> None:
    """Its track goes on behind that time: NOT of each would have found it."""
    yard = "video = 'yard.mp4'"
    rows = engine.query(f"SELECT moments WHERE NOT ({condition}) AND {yard}").fetchall()
    without = engine.query(f"SELECT moments WHERE NOT entity = 'dog' AND {yard}").fetchall()
    assert rows == without and [(r["start_time"], r["end_time"]) for r in rows] == [(0, 0.3), (2.3, 4)]


@pytest.mark.parametrize(
    ("condition", "whole", "cut"),
    [
        ("entity = 'red-van' AND camera = 'gate'", "yard.mp4", "gate-1.mp4"),
        ("entity IN ('red-van', 'dog') AND video = 'gate-1.mp4'", "yard.mp4", "gate-1.mp4"),
        (
            "entity LIKE 'red%' AND (entity = 'red-van' OR uri = '') AND duration > 6",
            "yard.mp4",
            "gate-1.mp4",
        ),
        ("entity = 'red-van' AND uri LIKE '%/gate-1.mp4'", "yard.mp4", "gate-1.mp4"),
        ("NOT entity = 'dog' AND camera = 'gate'", "copies/gate-1.mp4", "gate-1.mp4"),
    ],
)
def test_not_of_an_entity_in_some_videos_is_the_rest_of_the_time_with_no_entity(
    engine: Engine, condition: str, whole: str, cut: str
) -> None:
    """In the other videos it found the moments of all entities, and all time between them was missing."""
    rows = engine.query(f"SELECT moments WHERE NOT ({condition}) ORDER BY video, start_time").fetchall()
    assert {r["entity"] for r in rows} <= ({None, "dog"} if "NOT" in condition else {None})
    (one,) = [r for r in rows if r["video"] == whole and r["entity"] is None]
    assert (one["start_time"], one["end_time"]) == (0, {"yard.mp4": 4, "copies/gate-1.mp4": 10}[whole])
    left = [(r["start_time"], r["end_time"]) for r in rows if r["video"] == cut]
    assert left == ([] if "NOT" in condition else [(0, 0.8), (4.8, 6.8), (8.8, 10)])
    beside = f"SELECT moments WHERE entity = 'dog' OR NOT ({condition})"
    found = {(r["video"], r["entity"]) for r in engine.query(beside).fetchall()}
    assert found == {(r["video"], r["entity"]) for r in rows} | {("yard.mp4", "dog")}


def test_the_explanation_tells_all_time_where_nothing_is_looked_for(engine: Engine) -> None:
    told = engine.query("EXPLAIN SELECT moments WHERE NOT (entity = 'dog' AND camera = 'gate')").fetchall()
    assert [row[0] for row in told[1:3]] == ["  all time; where: NOT (camera = 'gate')", "  not seen: dog"]


def test_a_condition_on_the_video_with_no_entity_asks_for_all_entities(engine: Engine) -> None:
    for condition in ("camera = 'yard'", "NOT camera <> 'yard'", "NOT (camera = 'x' OR video <> 'yard.mp4')"):
        assert spans(engine, f"SELECT moments WHERE {condition}") == [(0.3, 2.3, "dog"), (0.3, 2.3, "it's")]
    either = spans(engine, "SELECT moments WHERE NOT (NOT (entity = 'red-van' OR camera = 'yard'))")
    assert either == spans(engine, "SELECT moments WHERE entity = 'red-van' OR camera = 'yard'")


RED, BLUE = "entity = 'red-van'", "entity = 'blue-van'"
BESIDE = f"{RED} AND ({BLUE} OR NOT {BLUE})"  # 0.8-1.8, 1.8-4.3 and 4.3-4.8, which are one; and 6.8-8.8


@pytest.mark.parametrize(
    ("asked", "of_rows", "found"),
    [
        ("end_time - start_time > 3", "end_time - start_time > 3", [(0.8, 4.8)]),
        ("time > 4.4", "end_time > 4.4", [(0.8, 4.8), (6.8, 8.8)]),
        ("start_time < 1", "start_time < 1", [(0.8, 4.8)]),
        ("end_time BETWEEN 4.5 AND 6", "end_time BETWEEN 4.5 AND 6", [(0.8, 4.8)]),
    ],
)
def test_a_condition_beside_alternatives_is_asked_of_what_they_give_together(
    engine: Engine, asked: str, of_rows: str, found: list[tuple[float, float]]
) -> None:
    place = "video = 'gate-1.mp4'"
    rows = engine.query(f"SELECT moments WHERE {BESIDE} AND {asked} AND {place}").fetchall()
    spans = [(r["start_time"], r["end_time"]) for r in rows if r["entity"] == "red-van"]
    assert spans == [(pytest.approx(a), pytest.approx(b)) for a, b in found]
    whole = f"SELECT * FROM (SELECT moments WHERE {BESIDE} AND {place}) WHERE {of_rows} ORDER BY ALL"
    assert rows == engine.query(whole).fetchall()
    nested = f"SELECT moments WHERE (({BESIDE} AND {asked}) OR entity = 'dog') AND {place}"
    assert rows == engine.query(nested).fetchall()


def test_a_condition_that_each_alternative_has_is_asked_of_each(engine: Engine) -> None:
    longer = "end_time - start_time > 3"
    each = f"({RED} AND {BLUE} AND {longer}) OR ({RED} AND NOT {BLUE} AND {longer})"
    assert spans(engine, f"SELECT moments WHERE ({each}) AND video = 'gate-1.mp4'") == []
