"""The score, track, frame and box of a moment that a condition has cut."""

from __future__ import annotations

import duckdb
import pytest
from query_samples import TRACKS, Track

from panorama.query.engine import Engine
from panorama.query.shorthands.plan import Branch, Seen
from panorama.query.sql.moments_sql import Tables, _with_own_view, moments_of_branches


@pytest.mark.parametrize(
    ("condition", "start", "track", "frame"),
    [
        ("entity = 'red-van' AND entity = 'blue-van'", 1.8, TRACKS[0], 18),  # its best view is in frame 10
        ("entity = 'red-van' AND NOT entity = 'blue-van'", 0.8, TRACKS[0], 10),
        ("entity = 'red-van' AND NOT entity = 'blue-van'", 4.3, TRACKS[2], 43),  # 0.9 of the first track
        ("entity = 'red-van' AND (entity = 'blue-van' FOLLOWED BY entity = 'red-van')", 1.8, TRACKS[0], 18),
        ("x1 > 30 AND entity = 'red-van' AND NOT entity = 'blue-van'", 4.3, TRACKS[2], 43),
    ],
)
def test_a_piece_of_a_moment_has_the_view_that_lies_in_it(
    engine: Engine, condition: str, start: float, track: Track, frame: int
) -> None:
    """It had that of the whole moment: a frame in which what NOT rules out is seen, and another track."""
    rows = engine.query(f"SELECT moments, band WHERE {condition} AND video = 'gate-1.mp4'").fetchall()
    (row,) = (r for r in rows if r["entity"] == "red-van" and r["start_time"] == pytest.approx(start))
    assert (row["track_id"], row["frame"]) == (track.track_id, frame)
    assert row["score"] == pytest.approx(track.scores["red-van"])
    assert [row[side] for side in ("x1", "y1", "x2", "y2")] == pytest.approx(track.box(frame))
    assert row["band"] == "accepted"


@pytest.mark.parametrize("condition", ["frame = 18", "x1 < 29", "score < 0.91", "x2 - x1 = 20"])
def test_conditions_on_the_view_are_asked_of_the_piece(engine: Engine, condition: str) -> None:
    both = "SELECT moments WHERE entity = 'red-van' AND entity = 'blue-van' AND video = 'gate-1.mp4'"
    assert "red-van" in [row["entity"] for row in engine.query(f"{both} AND {condition}")]
    assert "red-van" not in [row["entity"] for row in engine.query(f"{both} AND NOT {condition}")]


def test_a_piece_between_two_tracks_shows_neither() -> None:
    """They are close enough to be one moment; it is cut where neither is seen."""
    whole = (
        "SELECT 'a' AS video, NULL AS camera, NULL AS uri, 9 AS duration, NULL AS video_clock,"
        " 0.0::DOUBLE AS start_time, 5.0::DOUBLE AS end_time, 'x' AS entity, 0.9::DOUBLE AS score,"
        " 'accepted' AS band, 7 AS track_id, 3 AS frame, 1 AS x1, 1 AS y1, 2 AS x2, 2 AS y2"
    )
    cut = "SELECT * REPLACE (unnest([{}, {}]) AS start_time, unnest([{}, {}]) AS end_time) FROM whole"
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE whole AS {whole}")
        con.execute(f"CREATE TABLE views AS {cut.format(0, 3, 2.5, 5)}")
        con.execute(
            "CREATE TABLE places AS SELECT 7 AS track_id, f AS frame, f::DOUBLE AS time, f AS x1, 1 AS y1,"
            " f + 9 AS x2, 2 AS y2 FROM range(5) t(f)"
        )
        thing = Seen("known", ("x",))
        tables = Tables({thing: "whole"}, {thing: "views"}, "places", "videos")
        pieces = _with_own_view(cut.format(2.5, 1, 2.75, 2.5), tables)
        found = con.execute(
            f"SELECT start_time, entity, score, track_id, frame, x1 FROM ({pieces}) ORDER BY ALL"
        ).fetchall()
    assert found == [(1.0, "x", 0.9, 7, 2, 2), (2.5, "x", 0.9, None, None, None)]


def test_pieces_of_many_alternatives_are_looked_at_together() -> None:
    """They were joined with tracks and boxes for each alternative: 16 of them took 22 s instead of 2."""
    red, blue = Seen("known", ("red-van",)), Seen("known", ("blue-van",))
    tables = Tables({red: "red", blue: "blue"}, {red: "views"}, "places", "videos")
    sql = moments_of_branches([Branch(seen=(red,), unseen=(blue,))] * 16, tables)
    assert sql.count("views") == sql.count("places") == 1
