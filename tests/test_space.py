"""Predicates of space: where boxes are, what they cross, and how two of them lie to each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from query_samples import (
    FPS,
    TRACKS,
    VIDEOS,
    FakeMatcher,
    Track,
    make_engine,
    make_library,
    rectangle,
)

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.store import Zone

RANGES = {  # of x in pixels, half-open
    ("gate", "lawn"): (40, 60),
    ("gate", "mat"): (30, 50),
    ("yard", "mat"): (20, 30),
    ("copies", "mat"): (30, 50),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, FakeMatcher]]:
    made, matcher = make_engine(make_library(tmp_path_factory.mktemp("library")))
    yield made, matcher
    made.close()


@pytest.fixture(scope="module")
def engine(asked: tuple[Engine, FakeMatcher]) -> Engine:
    return asked[0]


def foot(track: Track, frame: int) -> float:
    """x of the foot point of a track: the middle of its box."""
    x1, _, x2, _ = track.box(frame)
    return (x1 + x2) / 2


def is_inside(track: Track, frame: int, camera: str, zone: str) -> bool:
    if (camera, zone) not in RANGES:
        return False
    left, right = RANGES[camera, zone]
    return left <= foot(track, frame) < right


def seen(name: str | None, segment: int, count: int) -> list[tuple[Track, int]]:
    """Tracks accepted as an entity (any track without one) with their frames."""
    return [
        (track, frame)
        for track in TRACKS
        if track.segment == segment and (name is None or track.scores.get(name, 0.0) >= 0.8)
        for frame in range(track.start, min(track.end, count))
    ]


def frames(engine: Engine, condition: str) -> list[tuple[str, int, int]]:
    rows = engine.query(f"SELECT frames WHERE {condition}").fetchall()
    return sorted((r["video"], r["frame"], r["track_id"]) for r in rows)


def spans(engine: Engine, condition: str) -> list[tuple[str, float, float, str]]:
    rows = engine.query(f"SELECT moments WHERE {condition}").fetchall()
    return [(r["video"], round(r["start_time"], 6), round(r["end_time"], 6), r["entity"]) for r in rows]


@pytest.mark.parametrize("zone", ["lawn", "mat"])
@pytest.mark.parametrize("name", ["red-van", "blue-van", "dog"])
def test_frames_inside_a_zone_are_those_whose_foot_lies_in_it(engine: Engine, name: str, zone: str) -> None:
    expected = sorted(
        (video, frame, track.track_id)
        for video, camera, segment, count in VIDEOS
        for track, frame in seen(name, segment, count)
        if is_inside(track, frame, camera, zone)
    )
    assert expected or (name, zone) == ("dog", "lawn")
    assert frames(engine, f"entity = '{name}' AND inside('{zone}')") == expected


def test_outside_means_outside_where_the_camera_has_the_zone(engine: Engine) -> None:
    expected = sorted(
        (video, frame, track.track_id)
        for video, camera, segment, count in VIDEOS
        if (camera, "lawn") in RANGES
        for track, frame in seen("red-van", segment, count)
        if not is_inside(track, frame, camera, "lawn")
    )
    assert frames(engine, "entity = 'red-van' AND NOT inside('lawn')") == expected


def test_zones_combine_with_and_or_not_time_and_video(engine: Engine) -> None:
    expected = sorted(
        (video, frame, track.track_id)
        for video, camera, segment, count in VIDEOS
        if video == "gate-1.mp4"
        for track, frame in seen("red-van", segment, count)
        if (is_inside(track, frame, camera, "lawn") or is_inside(track, frame, camera, "mat"))
        and not (is_inside(track, frame, camera, "lawn") and is_inside(track, frame, camera, "mat"))
        and frame / FPS < 4.5
    )
    condition = (
        "entity = 'red-van' AND (inside('lawn') OR inside('mat')) AND NOT (inside('lawn') AND inside('mat'))"
        " AND time < 4.5 AND video = 'gate-1.mp4'"
    )
    assert expected
    assert frames(engine, condition) == expected


def test_without_an_entity_any_track_is_asked(engine: Engine) -> None:
    expected = sorted(
        (video, frame, track.track_id)
        for video, camera, segment, count in VIDEOS
        for track, frame in seen(None, segment, count)
        if is_inside(track, frame, camera, "mat")
    )
    assert frames(engine, "inside('mat')") == expected


def test_the_centre_of_a_box_can_count_instead_of_its_foot(tmp_path: Path) -> None:
    tables = make_library(tmp_path)
    # Boxes reach from y = 5 to 35: the foot is at 34.5, the centre at 20.
    upper = Zone("", "upper", "zone", ((0, 0), (1, 0), (1, 30 / 240), (0, 30 / 240)))
    engine, _ = make_engine(type(tables)(tables.videos, tables.files, tables.entities, (upper,)))
    assert frames(engine, "entity = 'dog' AND inside('upper')") == []
    assert frames(engine, "entity = 'dog' AND inside('upper', 'centre')") == frames(engine, "entity = 'dog'")


def test_a_line_is_crossed_in_the_first_frame_beyond_it(engine: Engine) -> None:
    expected = sorted(
        (video, frame, track.track_id)
        for video, camera, segment, count in VIDEOS
        if camera == "gate"
        for track, frame in seen(None, segment, count)
        if frame > track.start and foot(track, frame - 1) <= 40 < foot(track, frame)
    )
    assert len(expected) == 2
    assert frames(engine, "crosses('kerb')") == expected
    assert frames(engine, "crosses('kerb', 'in')") == expected
    assert frames(engine, "crosses('kerb', 'out')") == []


def test_what_does_not_cross_includes_the_first_frame_of_each_track(engine: Engine) -> None:
    """It was neither in `crosses` nor in `NOT crosses`, so moments began one frame late."""
    every = frames(engine, "x1 >= 0 AND camera = 'gate'")
    crossed = frames(engine, "crosses('kerb')")
    assert len(crossed) == 2
    assert frames(engine, "NOT crosses('kerb')") == sorted(set(every) - set(crossed))


def test_a_zone_is_crossed_where_it_is_entered_and_left(engine: Engine) -> None:
    for way, (before, after) in {"in": (False, True), "out": (True, False)}.items():
        expected = sorted(
            (video, frame, track.track_id)
            for video, camera, segment, count in VIDEOS
            for track, frame in seen(None, segment, count)
            if frame > track.start
            and is_inside(track, frame - 1, camera, "mat") == before
            and is_inside(track, frame, camera, "mat") == after
        )
        assert expected
        assert frames(engine, f"crosses('mat', '{way}')") == expected


def test_conditions_on_the_box_hold_beside_steps_and_pairs(engine: Engine) -> None:
    """They were forgotten there once. Boxes are 20 by 30 pixels."""
    crossed, left = frames(engine, "crosses('kerb')"), frames(engine, "left_of('red-van', 'blue-van')")
    assert frames(engine, "crosses('kerb') AND area BETWEEN 500 AND 700 AND aspect < 1") == crossed
    assert frames(engine, "crosses('kerb') AND area > 700") == []
    assert frames(engine, "left_of('red-van', 'blue-van') AND (area < 700 AND score > 0.2)") == left
    assert frames(engine, "left_of('red-van', 'blue-van') AND area > 700") == []
    small = engine.query("SELECT moments WHERE entity = 'red-van' AND crosses('kerb') AND area > 700")
    assert len(small) == 0


def test_tracks_and_crops_are_asked_too(engine: Engine) -> None:
    def tracks(condition: str) -> set[tuple[str, int]]:
        rows = engine.query(f"SELECT tracks WHERE {condition}").fetchall()
        return {(r["video"], r["track_id"]) for r in rows}

    every = {(v, t.track_id) for v, camera, s, n in VIDEOS if camera == "gate" for t, _ in seen(None, s, n)}
    within = {
        (video, track.track_id)
        for video, camera, segment, count in VIDEOS
        for track, frame in seen(None, segment, count)
        if is_inside(track, frame, camera, "lawn")
    }
    assert 0 < len(within) < len(every)
    assert tracks("inside('lawn')") == within
    assert tracks("NOT inside('lawn')") == every - within
    assert tracks("crosses('kerb', 'in')") == {(v, t) for v, _, t in frames(engine, "crosses('kerb')")}
    crops = engine.query("SELECT crops WHERE inside('lawn')").fetchall()
    assert {(r["video"], r["track_id"], r["frame"]) for r in crops} == {
        (video, track.track_id, frame)
        for video, camera, segment, _ in VIDEOS
        for track in TRACKS
        if track.segment == segment
        for frame in track.samples()[:2]
        if is_inside(track, frame, camera, "lawn")
    }


@pytest.mark.parametrize("clock", ["time > '22:00'", "start_clock > '2026-03-01 23:00'", "end_clock IS NULL"])
@pytest.mark.parametrize("thing", ["entity = 'blue-van'", "left_of('red-van', 'blue-van')"])
def test_tracks_may_be_asked_for_a_place_or_a_clock(engine: Engine, thing: str, clock: str) -> None:
    """The clock was in no row of those over which places are asked: an error."""

    def tracks(condition: str) -> set[tuple[object, ...]]:
        return {(r["video"], r["track_id"]) for r in engine.query(f"SELECT tracks WHERE {condition}")}

    inside, then = tracks(f"{thing} AND inside('lawn')"), tracks(f"{thing} AND {clock}")
    assert inside | then
    assert tracks(f"{thing} AND (inside('lawn') OR {clock})") == inside | then
    known = tracks(f"{thing} AND (inside('lawn') OR NOT inside('lawn')) AND ({clock} OR NOT {clock})")
    neither = tracks(f"{thing} AND NOT (inside('lawn') OR {clock})")
    assert neither == {row for row in known if row not in inside | then}


def test_a_moment_is_cut_to_the_time_inside(engine: Engine) -> None:
    # Track 1 of gate-1 has its foot at 20 + frame, held at frame 10 before and 25 after: 30 to 45.
    # Track 3 (33 to 48) has it at 40 + frame, 75 to 85: never inside. Lawn: 40 to 60.
    assert spans(engine, "entity = 'red-van' AND inside('lawn') AND video = 'gate-1.mp4'") == [
        ("gate-1.mp4", 2.0, 2.8, "red-van")
    ]
    assert spans(engine, "entity = 'red-van' AND NOT inside('lawn') AND video = 'gate-1.mp4'") == [
        # 1.3 s pass between 2.0 and 3.3: more than the gap that moments are merged over.
        ("gate-1.mp4", 0.8, 2.0, "red-van"),
        ("gate-1.mp4", 3.3, 4.8, "red-van"),
        ("gate-1.mp4", 6.8, 8.8, "red-van"),
    ]
    row = engine.query("SELECT moments WHERE entity = 'red-van' AND inside('lawn')").fetchall()[0]
    assert (row["frame"], row["x1"], row["x2"]) == (20, 30, 50)  # of the time inside, nearest to the best


def test_a_crossing_is_a_moment_as_long_as_its_frame(engine: Engine) -> None:
    assert spans(engine, "entity = 'red-van' AND crosses('kerb') AND video = 'gate-1.mp4'") == [
        ("gate-1.mp4", 2.1, 2.2, "red-van")
    ]


def test_zone_events_stand_in_sequences(engine: Engine) -> None:
    found = spans(
        engine,
        "(entity = 'red-van' AND inside('lawn')) FOLLOWED BY (entity = 'dog' OR entity = 'red-van')"
        " AND video = 'gate-1.mp4'",
    )
    assert found == [("gate-1.mp4", 2.0, 2.8, "red-van"), ("gate-1.mp4", 6.8, 8.8, "red-van")]


def pairs(condition) -> list[tuple[str, int, int]]:  # type: ignore[no-untyped-def]
    """Rows of red-van and blue-van in frames where a condition on their boxes holds."""
    rows = set()
    for video, _, segment, count in VIDEOS:
        for red, frame in seen("red-van", segment, count):
            for blue, other in seen("blue-van", segment, count):
                if frame == other and red != blue and condition(red.box(frame), blue.box(frame)):
                    rows |= {(video, frame, red.track_id), (video, frame, blue.track_id)}
    return sorted(rows)


def test_left_of_compares_the_middles_of_two_boxes(engine: Engine) -> None:
    left = pairs(lambda red, blue: red[0] + red[2] < blue[0] + blue[2])
    right = pairs(lambda red, blue: red[0] + red[2] > blue[0] + blue[2])
    assert left and right
    assert frames(engine, "left_of('red-van', 'blue-van')") == left
    assert frames(engine, "left_of('blue-van', 'red-van')") == right
    both = "entity = 'red-van' AND entity = 'blue-van' AND NOT left_of('red-van', 'blue-van')"
    assert frames(engine, both) == pairs(lambda red, blue: red[0] + red[2] >= blue[0] + blue[2])
    seen_without = {(v, f) for v, f, _ in frames(engine, "NOT left_of('red-van', 'blue-van')")}
    everything = {(video, frame) for video, _, _, count in VIDEOS for frame in range(count)}
    assert seen_without == everything - {(v, f) for v, f, _ in left}


def test_above_compares_the_middles_of_two_boxes(engine: Engine) -> None:
    assert frames(engine, "above('red-van', 'blue-van')") == []  # all boxes are at one height
    higher = "SELECT above(a, b) FROM (SELECT 5 y1, 35 y2) a, (SELECT 6 y1, 35 y2) b"
    assert engine.query(higher).fetchall() == [(True,)]


@pytest.mark.parametrize("pixels", [0, 4, 9.5, 100])
def test_near_measures_the_gap_between_two_boxes(engine: Engine, pixels: float) -> None:
    def near(red: tuple[float, ...], blue: tuple[float, ...]) -> bool:
        return math.hypot(max(red[0] - blue[2], blue[0] - red[2], 0), 0) <= pixels

    assert frames(engine, f"near('red-van', 'blue-van', {pixels})") == pairs(near)


@pytest.mark.parametrize("order", ["", " ORDER BY score DESC", " ORDER BY clock"])
def test_a_limit_takes_the_first_rows_of_a_pair(engine: Engine, order: str) -> None:
    sql = f"SELECT frames WHERE left_of('red-van', 'blue-van'){order}"
    whole = engine.query(sql).fetchall()
    assert len(whole) > 8
    for limit in range(len(whole) + 1):
        assert engine.query(f"{sql} LIMIT {limit}").fetchall() == whole[:limit]


def test_moments_and_tracks_of_a_pair_are_the_time_that_it_holds(engine: Engine) -> None:
    held = pairs(lambda red, blue: red[0] + red[2] < blue[0] + blue[2])
    found = spans(engine, "left_of('red-van', 'blue-van')")
    assert {entity for *_, entity in found} == {"red-van", "blue-van"}
    for video, frame, track_id in held:
        t = frame / FPS + 0.01
        names = {name for v, a, b, name in found if v == video and a <= t < b}
        assert names == {"red-van", "blue-van"}, (video, frame, track_id)
    rows = engine.query("SELECT tracks WHERE left_of('red-van', 'blue-van')").fetchall()
    assert {(r["video"], r["track_id"]) for r in rows} == {(v, t) for v, _, t in held}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("(inside('early') OR inside('late'))", True),
        ("NOT inside('elsewhere')", True),
        ("NOT inside('early')", False),
        ("NOT (inside('early') AND inside('late'))", True),
        ("NOT (inside('early') OR inside('late'))", False),
        ("crosses('early', 'out')", False),  # the first one only
        ("(crosses('early', 'out') OR crosses('late', 'in'))", True),
    ],
)
def test_tracks_of_a_pair_are_inside_at_any_time_not_only_together(
    tmp_path: Path, asked: str, found: bool
) -> None:
    """Only the frames in which two are together were looked at, here 18 to 27 of each one's longer way."""
    tables = make_library(tmp_path)
    places = {"early": (27, 33), "late": (60, 75), "elsewhere": (200, 210)}
    zones = tuple(Zone("", name, "zone", rectangle(*place)) for name, place in places.items())
    engine, _ = make_engine(type(tables)(tables.videos, tables.files, tables.entities, zones))
    sql = f"SELECT tracks WHERE left_of('red-van', 'blue-van') AND {asked} AND video = 'gate-1.mp4'"
    rows = [(row["entity"], row["track_id"]) for row in engine.query(sql)]
    both = [("red-van", TRACKS[0].track_id), ("blue-van", TRACKS[1].track_id)]
    assert rows == (both if found else [])


def test_plain_sql_asks_boxes_of_any_relation(engine: Engine) -> None:
    inside = {
        (video, track.track_id, frame)
        for video, camera, segment, _ in VIDEOS
        for track in TRACKS
        if track.segment == segment
        for frame in track.samples()
        if is_inside(track, frame, camera, "lawn")
    }
    plain = "SELECT video, track_id, frame FROM detections WHERE inside('lawn')"
    assert set(engine.query(plain).arrow().to_pandas().itertuples(index=False, name=None)) == inside
    named = (
        "SELECT d.video, d.track_id, d.frame FROM tracks t JOIN detections d USING (track_id, video)"
        " WHERE inside('lawn', d) AND t.samples > 0 AND d.x1 > -1"
    )
    assert len(engine.query(named)) == len(inside)
    assert engine.query("SELECT inside('mat') FROM crops LIMIT 1").columns == ["inside"]
    crossed = engine.query(
        "SELECT track_id, frame, crosses('kerb', 'in') FROM detections WHERE crosses('kerb')"
    )
    steps = {
        (track.track_id, after)
        for video, camera, segment, _ in VIDEOS
        if camera == "gate"
        for track in TRACKS
        if track.segment == segment
        for before, after in zip(track.samples(), track.samples()[1:], strict=False)
        if foot(track, before) <= 40 < foot(track, after)
    }
    assert {row[:2] for row in crossed.fetchall()} == steps
    beside = (
        "SELECT count(*) FROM detections a JOIN detections b ON a.video = b.video AND a.frame = b.frame"
        " WHERE left_of(a, b) AND near(a, b, 5)"
    )
    written = (
        "SELECT count(*) FROM detections a JOIN detections b ON a.video = b.video AND a.frame = b.frame"
        " WHERE a.x1 + a.x2 < b.x1 + b.x2 AND b.x1 - a.x2 <= 5"
    )
    assert engine.query(beside).fetchall() == engine.query(written).fetchall() != [(0,)]


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("frames", "entity = 'red-van' AND crosses('kerb')"),
        ("frames", "left_of('red-van', 'blue-van')"),
        ("tracks", "inside('lawn')"),
        ("moments", "entity = 'blue-van' AND inside('mat')"),
    ],
)
def test_a_place_may_stand_behind_is_distinct_from(engine: Engine, target: str, place: str) -> None:
    """The FROM of the comparison was taken for that of another SELECT: other rows came, or an error."""
    for compared in ("camera IS DISTINCT FROM 'yard'", "camera IS NOT DISTINCT FROM 'gate'"):
        before = engine.query(f"SELECT {target} WHERE {place} AND {compared}").fetchall()
        assert engine.query(f"SELECT {target} WHERE {compared} AND {place}").fetchall() == before != []


def test_a_call_is_named_after_itself_wherever_it_stands_in_the_select_list(engine: Engine) -> None:
    """Behind DISTINCT, also that of IS DISTINCT FROM, it was named by the SQL that it became."""
    for sql in (
        "SELECT DISTINCT inside('mat') FROM crops",
        "SELECT DISTINCT inside('mat'), x1 IS DISTINCT FROM 3 FROM crops",
        "SELECT x1 IS DISTINCT FROM 3, inside('mat') FROM crops",
        "SELECT inside('mat'), x1 IS DISTINCT FROM 3 FROM crops",
    ):
        assert "inside" in engine.query(sql).columns, sql
    counted = engine.query("SELECT count(DISTINCT inside('mat')) AS n FROM crops")
    assert counted.columns == ["n"]
    assert counted.fetchall() == [(2,)]


def test_the_shapes_are_a_relation(engine: Engine) -> None:
    rows = engine.query("SELECT zone, camera, kind, len(points) AS n FROM zones ORDER BY zone, camera")
    assert rows.fetchall() == [
        *[("kerb", "gate", "line", 2), ("lawn", "gate", "zone", 4)],
        *[("mat", "", "zone", 4), ("mat", "yard", "zone", 4)],
    ]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT frames WHERE inside('lwn')", "no zone or line 'lwn'. Did you mean 'lawn'"),
        ("SELECT frames WHERE inside('kerb')", "'kerb' is a line"),
        ("SELECT frames WHERE inside('lawn', 'head')", "'foot' or 'centre', got 'head'"),
        ("SELECT frames WHERE inside(lawn)", "expected inside"),
        ("SELECT frames WHERE inside()", "expected inside"),
        ("SELECT frames WHERE inside('lawn', d)", "expected inside"),
        ("SELECT frames WHERE crosses('kerb', 'up')", "'in', 'out' or 'any' way, got 'up'"),
        ("SELECT crops WHERE crosses('kerb')", "a crop does not move"),
        ("SELECT crops WHERE near('dog', 'it''s', 3)", "crops are not taken at the same time"),
        ("SELECT frames WHERE near('dog', 'it''s')", "expected near"),
        ("SELECT frames WHERE left_of('dog', 'cat')", "no entity 'cat'"),
        ("SELECT frames WHERE left_of('dog', 'red-van') = true", "left_of is a condition in itself"),
        ("SELECT frames WHERE left_of(a, b)", "expected left_of"),
        ("SELECT 1 FROM detections WHERE left_of('dog', 'red-van')", "compares two relations"),
        (
            "SELECT moments WHERE inside('lawn') OR (entity = 'dog' AND (inside('mat') OR end_time > 3))",
            "in separate conditions",
        ),
        ("SELECT 1 FROM videos WHERE inside('lawn')", "not found in FROM clause"),
    ],
)
def test_what_makes_no_sense_is_refused(engine: Engine, sql: str, message: str) -> None:
    from panorama.errors import UnknownEntity

    with pytest.raises((QueryError, UnknownEntity), match=message):
        engine.query(sql)


def test_relations_and_aliases_may_bear_the_names(engine: Engine) -> None:
    assert engine.query("WITH near(a) AS (SELECT 1) SELECT a FROM near").fetchall() == [(1,)]
    assert engine.query("SELECT inside.x FROM (SELECT 2) inside(x)").fetchall() == [(2,)]
    assert engine.query(
        "WITH a AS (SELECT 1), crosses(b) AS (SELECT 3) SELECT b FROM crosses"
    ).fetchall() == [(3,)]


def test_parameters_name_shapes_and_entities(engine: Engine) -> None:
    written = engine.query("SELECT frames WHERE entity = 'red-van' AND inside('lawn')").fetchall()
    assert (
        engine.query("SELECT frames WHERE entity = ? AND inside(?)", ["red-van", "lawn"]).fetchall()
        == written
    )
    near = engine.query("SELECT frames WHERE near($a, $b, $d)", {"a": "dog", "b": "red-van", "d": 9.5})
    assert len(near) == 0


def test_any_distance_is_near_enough_where_it_is_infinite(engine: Engine) -> None:
    """It was told to be a column that is not there."""
    sql = "SELECT frames WHERE near('red-van', 'blue-van', ?)"
    assert engine.query(sql, [float("inf")]).fetchall() == engine.query(sql, [1e9]).fetchall() != []
    plain = "SELECT count(*) FROM detections a JOIN detections b USING (video, frame) WHERE near(a, b, ?)"
    assert engine.query(plain, [float("inf")]).fetchall() == engine.query(plain, [1e9]).fetchall() != [(0,)]
    with pytest.raises(QueryError, match="near takes a number of pixels, got nan"):
        engine.query(plain, [float("nan")])
    for pixels in (-1, -0.5):  # a literal -1 was refused, and as a parameter it found nothing
        with pytest.raises(QueryError, match=f"near takes a number of pixels, got {pixels}, not 0 or more"):
            engine.query(sql, [pixels])


def test_a_zone_limits_the_tracks_that_are_matched(asked: tuple[Engine, FakeMatcher]) -> None:
    engine, matcher = asked
    engine.query("SELECT frames WHERE entity = 'red-van' AND inside('lawn') AND score > 0")
    wanted = {
        track.track_id
        for _, camera, segment, count in VIDEOS
        for track, frame in seen(None, segment, count)
        if is_inside(track, frame, camera, "lawn")
    }
    tracks = matcher.requests[-1].tracks
    assert tracks is not None
    matched = set(tracks.tolist())
    assert wanted <= matched < {track.track_id for track in TRACKS}
    engine.query("SELECT frames WHERE entity = 'red-van' AND (inside('lawn') OR time > 1)")
    assert matcher.requests[-1].tracks is None
    engine.query("SELECT moments WHERE entity = 'red-van' AND NOT (entity = 'dog' AND inside('mat'))")
    assert matcher.requests[-1].tracks is None


def test_a_library_without_shapes_knows_none(tmp_path: Path) -> None:
    tables = make_library(tmp_path)
    engine, _ = make_engine(type(tables)(tables.videos, tables.files, tables.entities))
    assert len(engine.query("SELECT * FROM zones")) == 0
    with pytest.raises(QueryError, match=r"no zone or line 'lawn'\. See: panorama zones"):
        engine.query("SELECT frames WHERE inside('lawn')")
