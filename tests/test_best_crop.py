"""Which crop stands for a track: the same for sheets, pages and `register`, also among equals."""

from __future__ import annotations

from types import SimpleNamespace

import duckdb
import pytest

from panorama.album import recurring
from panorama.album.seen_pictures import crops_taken
from panorama.shown.track_boxes import TrackBoxes
from panorama.tune import sample

CROPS = """
CREATE TABLE crops AS SELECT * FROM (VALUES
    (9, 5, 'a.mp4', 90, 9.0, 0.5), (8, 5, 'a.mp4', 80, 8.0, 0.9), (7, 5, 'a.mp4', 70, 7.0, 0.9),
    (6, 4, 'c.mp4', 60, 6.0, 0.1), (6, 4, 'b.mp4', 60, 6.0, 0.1)
) AS t(crop_id, track_id, video, frame, time, quality), (SELECT 1 AS x1, 2 AS y1, 3 AS x2, 4 AS y2)
"""


@pytest.fixture
def asked():
    with duckdb.connect() as connection:
        connection.execute(CROPS)
        yield lambda sql, values: connection.sql(sql, params=list(values)).to_arrow_table()


def test_of_equally_good_crops_the_first_stands_for_its_track_everywhere(asked):
    """A sheet showed the one that DuckDB read first, `register --track` and a page the first by its id."""
    library = SimpleNamespace(query=lambda sql, ids: SimpleNamespace(arrow=lambda: asked(sql, ids)))
    taken = crops_taken(library, "track", [4, 5, 3])
    assert {track: row["crop_id"] for track, row in taken.items()} == {4: 6, 5: 7}
    assert taken[4]["video"] == "b.mp4"  # of copies of a file the first by name
    views = TrackBoxes(asked).views([3, 4, 5])
    assert views == {4: (60, (1.0, 2.0, 3.0, 4.0)), 5: (70, (1.0, 2.0, 3.0, 4.0))}
    assert crops_taken(library, "crop", [8])[8]["frame"] == 80 and crops_taken(library, "crop", []) == {}


def test_what_recurs_and_what_is_tuned_on_take_the_same_of_equal_crops():
    """The one had an order of its own, by which the first of two crops was taken, however bad it was."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE videos AS SELECT 'a' AS video, 100 AS width, 100 AS height;"
            "CREATE TABLE tracks AS SELECT 4 AS track_id, 'a' AS video, 0.0 AS start_time, 10.0 AS end_time;"
            "CREATE TABLE crops AS SELECT c.*, 4 track_id, 'a' video, 0 x1, 0 y1, 50 x2, 50 y2"
            " FROM (VALUES (1, 4, 0.1), (2, 6, 0.8), (3, 9, 0.9), (4, 1, 0.9)) c(crop_id, time, quality)"
        )
        (recurs,) = connection.execute(recurring._TRACKS, [9]).fetchall()
        (tuned,) = connection.execute(sample._EXAMPLES, [9]).fetchall()
    assert recurs[0] == 2  # of the two that are nearest to the middle
    assert tuned == (3,)
