"""A LIMIT of moments leaves out tracks before their boxes are looked up, and no row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import query_samples
from query_samples import Track, make_engine, make_library

from panorama.query.engine import Engine


@pytest.fixture(params=range(3))
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Tracks at random, several to a moment, many with one score."""
    rng = np.random.default_rng(request.param)
    tracks = []
    for segment, frames in ((1, 100), (2, 60), (3, 40)):
        for local in range(1, 25):
            start = int(rng.integers(0, frames - 8))
            stop = min(frames, start + int(rng.integers(6, 12)))
            score = float(rng.choice([0.6, 0.81, 0.85, 0.9, 0.95]))
            tracks.append(Track(segment, local, start, stop, {str(rng.choice(["dog", "red-van"])): score}))
    monkeypatch.setattr(query_samples, "TRACKS", tracks)
    return make_engine(make_library(tmp_path))[0]


@pytest.mark.parametrize("order", ["", "ORDER BY score DESC"])
@pytest.mark.parametrize(
    "where", ["entity = 'dog'", "entity IN ('dog', 'red-van')", "entity = 'dog' AND score > 0.5"]
)
def test_the_first_moments_are_those_of_the_whole_answer(engine: Engine, where: str, order: str) -> None:
    everything = engine.query(f"SELECT moments WHERE {where} {order}").fetchall()
    assert len(everything) > 3
    for limit, offset in ((1, 0), (2, 0), (2, 3), (5, 1), (len(everything), 0), (1000, 2), (0, 0)):
        sql = f"SELECT moments WHERE {where} {order} LIMIT {limit} OFFSET {offset}"
        assert engine.query(sql).fetchall() == everything[offset : offset + limit]


def test_tracks_are_left_out_before_their_boxes_are_looked_up(engine: Engine) -> None:
    sql = "EXPLAIN SELECT moments WHERE entity = 'dog' LIMIT 2"
    assert "stops after the tracks of the first 2 rows" in str(engine.query(sql).fetchall())
    for more in ("AND duration > 1", "AND NOT entity = 'red-van'", "AND start_time > 1", "AND area > 5"):
        told = str(engine.query(sql.replace("'dog'", f"'dog' {more}")).fetchall())
        # What is asked of a merged moment is not known of its tracks.
        assert ("stops after" in told) == (more == "AND duration > 1"), more
