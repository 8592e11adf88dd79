"""Shapes as DuckDB sees them: points inside them, and of which boxes a crossing is asked."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_samples import TRACKS, VIDEOS, ZONES, make_engine, make_library, rectangle

from panorama.query.engine import Engine
from panorama.query.handed.shapes import add_shapes, touching
from panorama.store import Zone

SIDE = 1024
POINTS = st.tuples(st.integers(0, SIDE), st.integers(0, SIDE))


@settings(deadline=None, max_examples=60)
@given(st.lists(POINTS, min_size=3, max_size=12, unique=True), st.integers(0, 2**32 - 1))
def test_points_in_any_polygon_agree_with_opencv(corners: list[tuple[int, int]], seed: int) -> None:
    """Corners in order of their angle make a polygon without crossings; points on its edge are left out."""
    centre = np.mean(corners, axis=0)
    around = sorted(corners, key=lambda c: (math.atan2(c[1] - centre[1], c[0] - centre[0]), c))
    angles = [math.atan2(c[1] - centre[1], c[0] - centre[0]) for c in around]
    if min(b - a for a, b in zip(angles, [*angles[1:], angles[0] + 2 * math.pi], strict=True)) < 1e-3:
        return
    try:
        zone = Zone("", "z", "zone", tuple((x / SIDE, y / SIDE) for x, y in around))
    except Exception:
        return  # two of the angles were opposite: edges touch
    tried = np.random.default_rng(seed).integers(0, SIDE + 1, (200, 2))
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA _panorama")
    connection.execute(
        "CREATE TABLE _panorama.videos AS"
        " SELECT 'v' AS video, '' AS camera, 1024 AS width, 1024 AS height, 1 AS segment"
    )
    connection.register("tried", pa.table({"i": range(200), "x": tried[:, 0], "y": tried[:, 1]}))
    connection.execute(
        "CREATE TABLE _panorama.boxes AS SELECT 1 AS segment, i::INT AS track_id, 0 AS frame,"
        " x::INT AS x1, 0 AS y1, 0 AS x2, y::INT AS y2 FROM tried"
    )
    add_shapes(connection, [zone])
    got = [
        row[0]
        for row in connection.execute(
            "SELECT _panorama.inside('z', 'v', x1, y2) FROM _panorama.boxes ORDER BY track_id"
        ).fetchall()
    ]
    connection.close()
    outline = np.array(around, np.float32).reshape(-1, 1, 2)
    for (x, y), inside in zip(tried.tolist(), got, strict=True):
        distance = cv2.pointPolygonTest(outline, (float(x), float(y)), True)
        if abs(distance) > 1e-3:
            assert inside == (distance > 0), (around, x, y)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("video LIKE 'gate%'", lambda row: row["video"].startswith("gate")),
        ("time < 3 AND frame % 10 = 0", lambda row: row["time"] < 3 and row["frame"] % 10 == 0),
        ("x1 > 30 AND (y2 - y1) > 5", lambda row: row["x1"] > 30),
        ("track_id % 2 = ?", lambda row: row["track_id"] % 2 == 1),
        ("video IN (SELECT video FROM videos WHERE camera = 'gate')", lambda row: row["video"][:4] == "gate"),
        ("inside('mat')", None),
    ],
)
@pytest.mark.parametrize("shape", ["'kerb'", "'mat'", "'lawn', 'in'", "'mat', 'out'"])
def test_conditions_beside_crosses_only_leave_out_rows(
    engine: Engine, shape: str, condition: str, holds: Callable[[Any], bool] | None
) -> None:
    every = engine.query(f"SELECT * FROM detections WHERE crosses({shape})").fetchall()
    if holds is None:
        allowed = set(engine.query(f"SELECT * FROM detections WHERE {condition}").fetchall())
        expected = [row for row in every if row in allowed]
    else:
        expected = [row for row in every if holds(row)]
    parameters = [1] if "?" in condition else None
    sql = f"SELECT * FROM detections WHERE crosses({shape}) AND {condition}"
    assert sorted(map(repr, engine.query(sql, parameters).fetchall())) == sorted(map(repr, expected))
    joined = "SELECT d.* FROM videos v JOIN detections d USING (video) WHERE v.camera = 'gate'"
    joined += f" AND crosses({shape}, d)"
    gates = [row for row in every if row["video"].startswith("gate")]
    assert sorted(map(repr, engine.query(joined).fetchall())) == sorted(map(repr, gates))


def test_crosses_looks_at_the_tracks_that_come_near_only(engine: Engine) -> None:
    """The window over all boxes of a library took seconds."""
    plan = engine.query(
        "EXPLAIN ANALYZE SELECT * FROM detections WHERE crosses('kerb') AND video = 'gate-2.mp4'"
    )
    rows = [re.search(r"window +(\d+) rows?", row[0]) for row in plan]
    windowed = [int(found[1]) for found in rows if found]
    boxes = sum(len(track.samples()) for track in TRACKS if track.segment == 2)
    assert windowed and max(windowed) <= boxes


@pytest.mark.parametrize("seed", range(4))
def test_no_track_that_crosses_is_left_out_before_it_is_followed(seed: int) -> None:
    """A line across the picture, which all boxes come near, had every track followed frame by frame."""
    rng = np.random.default_rng(seed)
    tracks, samples, between = 400, 6, 9
    feet = rng.integers(0, SIDE, (tracks, 1, 2)) + rng.integers(-40, 41, (tracks, samples, 2)).cumsum(axis=1)
    feet[::7] = feet[::7, :1]  # some stand still
    ends = rng.integers(0, SIDE, (3, 2, 2)) / SIDE
    shapes = [Zone("", "long", "line", ((0.0, 0.07), (1.0, 0.93)))]
    shapes += [Zone("", f"line{i}", "line", tuple(map(tuple, pair))) for i, pair in enumerate(ends)]
    shapes.append(Zone("", "mat", "zone", ((0.3, 0.3), (0.6, 0.35), (0.5, 0.7))))
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA _panorama")
    connection.execute(
        "CREATE TABLE _panorama.videos AS"
        " SELECT 'v' AS video, '' AS camera, 1024 AS width, 1024 AS height, 1 AS segment"
    )
    shares = np.linspace(0, 1, between + 2)[:-1, None]
    paths = [np.concatenate([a + (b - a) * shares for a, b in itertools.pairwise(f)]) for f in feet]
    for name, frames in (("boxes", list(feet)), ("frames", paths)):
        x, y = np.concatenate(frames).astype(np.float64).T
        length = len(frames[0])
        columns = {
            "segment": np.ones(len(x), np.int32),
            "track_id": np.repeat(np.arange(tracks), length),
            "frame": np.tile(np.arange(length), tracks),
            **{"x1": x - 5, "y1": y - 30, "x2": x + 5, "y2": y + 0.5},
        }
        connection.register(f"{name}_", pa.table(columns))
        connection.execute(f"CREATE TABLE _panorama.{name} AS FROM {name}_")
    add_shapes(connection, shapes)
    for shape in shapes:
        followed = (
            "SELECT DISTINCT track_id FROM (SELECT track_id, x1 + 5 AS x, y2 - 0.5 AS y,"
            " lag(x1 + 5) OVER w AS px, lag(y2 - 0.5) OVER w AS py"
            " FROM _panorama.frames WINDOW w AS (PARTITION BY track_id ORDER BY frame))"
            f" WHERE _panorama.crosses('{shape.name}', 2, 'v', px, py, x, y)"
        )
        crossing = {row[0] for row in connection.execute(followed).fetchall()}
        near, kept = (
            {
                row[0]
                for row in connection.execute(touching((shape.name,), crossed, "_panorama.videos")).fetchall()
            }
            for crossed in ((), (shape.name,))
        )
        assert crossing <= kept <= near
        if shape.name == "long":
            assert crossing and len(kept) < 1.3 * len(crossing) + 10 < len(near) / 2
    connection.close()


@pytest.mark.parametrize(
    "of", ["crosses('kerb')", "crosses('the  kerb')", "crosses('the  kerb') AND inside('a  mat')"]
)
@pytest.mark.parametrize("also", ["", " AND video = 'gate  2.mp4'"])
def test_spaces_in_names_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, also: str
) -> None:
    """SQL was made one line after names had been put in: of a name with two spaces nothing was found."""
    zones = (*ZONES, replace(ZONES[1], name="the  kerb"), Zone("gate", "a  mat", "zone", rectangle(0, 320)))
    monkeypatch.setattr("query_samples.ZONES", zones)
    named = [("gate  2.mp4", *rest) if video == "gate-2.mp4" else (video, *rest) for video, *rest in VIDEOS]
    monkeypatch.setattr("query_samples.VIDEOS", named)
    engine, _ = make_engine(make_library(tmp_path))
    expected = {"gate  2.mp4"} if also else {"gate-1.mp4", "gate  2.mp4"}
    for sql in (f"SELECT frames WHERE {of}{also}", f"SELECT video FROM detections WHERE {of}{also}"):
        assert {row[0] for row in engine.query(sql).fetchall()} == expected, sql
    engine.close()
