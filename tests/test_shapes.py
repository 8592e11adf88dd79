"""Shapes as DuckDB sees them: points inside them, and of which boxes a crossing is asked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import cv2
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_samples import TRACKS

from panorama.query.engine import Engine
from panorama.query.shapes import add_shapes
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
