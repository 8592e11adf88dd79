"""Which tracks are followed for an answer, which are counted, and what is read of files for it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from query_samples import (
    TRACKS,
    FakeMatcher,
    Tables,
    make_engine,
    make_library,
    read_picture,
)

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.handed import handing
from panorama.query.handed.relations import Limits, connect
from panorama.query.sql.places_sql import places_from_files, tracks_to_follow
from panorama.query.sql.rewrite import Rewriter
from panorama.query.text.tokens import tokenize

FOLLOWED = (
    "SELECT frames WHERE entity = 'red-van'",
    "SELECT frames WHERE entity = 'blue-van' LIMIT 30",
    "SELECT frames WHERE entity = 'red-van' AND video = 'gate-1.mp4' LIMIT 45",
    "SELECT frames WHERE entity = 'red-van' AND camera <> 'gate' ORDER BY score DESC LIMIT 25 OFFSET 3",
    "SELECT frames WHERE entity IN ('red-van', 'dog') AND time < 2.4",
    "SELECT frames WHERE entity = 'red-van' AND entity = 'blue-van'",
    "SELECT frames WHERE entity = 'red-van' AND NOT entity = 'blue-van'",
    "SELECT frames WHERE entity = 'dog' AND band = 'uncertain' AND time > 5",
    "SELECT frames WHERE entity = 'red-van' AND score >= 0.3 ORDER BY score DESC LIMIT 12",
    "SELECT frames WHERE (entity = 'red-van' OR entity = 'dog') AND crosses('kerb')",
    "SELECT moments WHERE entity = 'red-van' AND inside('lawn')",
    "SELECT tracks WHERE entity = 'blue-van' AND crosses('kerb', 'in')",
    "SELECT moments WHERE left_of('red-van', 'blue-van')",
)


class Follower(FakeMatcher):
    """Also knows the boxes and frames of the tracks that it is asked for."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self.asked: list[set[int]] = []
        self._tracks, self._boxes, self._frames = (
            pq.read_table(tables.files[name][0]) for name in ("tracks", "boxes", "frames")
        )

    def tracks(self, track_ids: NDArray[np.int64]) -> pa.Table:  # type: ignore[override]
        mine = pc.is_in(self._tracks["track_id"], pa.array(track_ids))
        return self._tracks.filter(mine).sort_by("track_id")

    def followed(self, track_ids: NDArray[np.int64], most: int) -> tuple[pa.Table, pa.Table, pa.Table]:  # type: ignore[override]
        self.asked.append(set(track_ids.tolist()))
        mine = pc.is_in(self._boxes["track_id"], pa.array(track_ids))
        segments = pc.is_in(self._frames["segment"], pa.array((track_ids >> 32).astype(np.int32)))
        boxes = self._boxes.filter(mine).drop_columns("score")
        return self.tracks(track_ids), boxes, self._frames.filter(segments)


READS = "read_parquet of (frames|boxes)"


def operators(engine: Engine, sql: str) -> str:
    """What DuckDB does for a statement."""
    rows = [row[0] for row in engine.query(f"EXPLAIN ANALYZE {sql}").fetchall()]
    return "\n".join(rows[next(i for i, row in enumerate(rows) if row.startswith("DuckDB does")) :])


def test_what_the_matcher_knows_of_tracks_is_not_read_from_files(tmp_path: Path) -> None:
    tables = make_library(tmp_path)
    plain, _ = make_engine(tables)
    follower = Follower(tables)
    engine = Engine(tables, follower, picture_root=None, read_picture=read_picture)
    for sql in FOLLOWED:
        rows = engine.query(sql).fetchall()
        assert rows == plain.query(sql).fetchall() and rows, sql
        assert follower.asked and follower.asked.pop(), sql
    for sql in FOLLOWED[:2]:  # lines of deeper plans are cut
        assert not re.search(READS, operators(engine, sql)), sql
        assert re.search(READS, operators(plain, sql)), sql


def test_only_tracks_that_can_be_shown_are_followed(tmp_path: Path) -> None:
    tables = make_library(tmp_path)
    follower = Follower(tables)
    engine = Engine(tables, follower, picture_root=None, read_picture=read_picture)
    engine.query("SELECT frames WHERE entity = 'dog'")
    assert follower.asked == [{t.track_id for t in TRACKS if t.scores.get("dog", 0) >= 0.8}]
    engine.query("SELECT frames WHERE entity = 'dog' AND band = 'uncertain'")
    assert {t.track_id for t in TRACKS if 0.5 <= t.scores.get("dog", 0) < 0.8} <= follower.asked[1]
    # Tracks that nothing matched are known to the files only.
    engine.query("SELECT frames WHERE NOT entity = 'dog' AND track_id > 0")
    engine.query("SELECT tracks WHERE entity = 'dog'")
    assert len(follower.asked) == 2


@pytest.mark.parametrize(
    ("sql", "undecided"),
    [
        ("SELECT moments WHERE entity = 'dog'", 2),  # at the gate from 5.0 to 6.0 s and from 6.8 to 8.8 s
        ("SELECT moments WHERE entity = 'dog' AND time < 3", 0),
        ("SELECT moments WHERE entity = 'dog' AND time BETWEEN 7.5 AND 100", 1),
        ("SELECT moments WHERE entity = 'dog' AND time BETWEEN 3 AND 4.9", 0),
        ("SELECT moments WHERE entity = 'dog' AND (time < 3 OR time = 5)", 1),
        ("SELECT moments WHERE entity = 'dog' AND time BETWEEN 6.2 AND 6.4", 2),  # moments: over the gap
        ("SELECT tracks WHERE entity = 'dog' AND time BETWEEN 6.2 AND 6.4", 0),
        ("SELECT tracks WHERE entity = 'dog' AND time BETWEEN 5.9 AND 6.4", 1),
        ("SELECT tracks WHERE entity = 'dog' AND time > 90", 0),
        ("SELECT tracks WHERE entity = 'dog' AND NOT time < 3", 2),
        ("SELECT moments WHERE entity = 'dog' FOLLOWED BY entity = 'dog' AND time > 90", 2),
        # Each of two times by itself: a track beside the gap of the first is outside of what spans both.
        (
            "SELECT moments WHERE entity = 'dog' AND time = 6.3 OR entity = 'dog' AND time BETWEEN 20 AND 21",
            2,
        ),
        ("SELECT moments WHERE entity = 'dog' AND time = 1 OR entity = 'dog' AND time = 6.3", 2),
        ("SELECT moments WHERE entity = 'dog' AND time < 3 OR entity = 'dog' AND time = 20", 0),
        ("SELECT tracks WHERE entity = 'dog' AND time < 3 OR entity = 'dog' AND time > 8.5", 1),
        ("SELECT tracks WHERE entity = 'dog' AND time < 3 OR entity = 'dog'", 2),
        # Times that OR joins without an entity, and what is looked for at one of them only.
        ("SELECT tracks WHERE entity = 'dog' AND (time < 3 OR time > 90)", 0),
        ("SELECT tracks WHERE entity = 'dog' AND (time < 3 OR time > 8.5)", 1),
        ("SELECT tracks WHERE entity = 'dog' AND NOT time BETWEEN 3 AND 8.5", 1),
        ("SELECT tracks WHERE entity = 'dog' AND (time < 3 OR time > 6.5 AND time < 90)", 1),
        ("SELECT tracks WHERE entity = 'dog' AND (time < 3 OR camera = 'gate')", 2),
        ("SELECT moments WHERE entity = 'dog' AND time < 3 OR time > 7 AND entity = 'red-van'", 0),
        ("SELECT frames WHERE entity = 'dog' AND (time < 3 OR time > 90)", 0),
        ("SELECT frames WHERE entity = 'dog' AND (time < 3 OR time > 8.5)", 1),
        ("SELECT frames WHERE entity = 'dog' AND NOT (time >= 3 AND time <= 90)", 0),
        ("SELECT frames WHERE entity = 'dog' AND time < 3 OR time > 7", 0),
        ("SELECT frames WHERE entity = 'dog' AND time < 3 OR entity = 'red-van' AND time > 7", 0),
        ("SELECT frames WHERE entity = 'dog' AND time < 3 OR entity = 'dog' AND time > 8.5", 1),
        ("SELECT crops WHERE entity = 'dog' AND (time < 3 OR time > 90)", 0),
        ("SELECT frames WHERE entity = 'dog' AND time BETWEEN 8 AND 7", 0),
        ("SELECT moments WHERE entity = 'dog' AND time BETWEEN 8 AND 7", 0),
        ("SELECT moments WHERE entity = 'dog' AND time > 8 AND time < 7", 1),
    ],
)
def test_undecided_tracks_outside_of_the_time_asked_for_are_not_counted(
    tmp_path: Path, engine: Engine, sql: str, undecided: int
) -> None:
    """They were told, and the advice how to see them showed nothing."""
    tables = make_library(tmp_path / "known")
    for asked in (engine, Engine(tables, Follower(tables), picture_root=None, read_picture=read_picture)):
        assert asked.query(sql).uncertain == undecided


def test_of_many_tracks_those_are_followed_that_the_statement_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Few(Follower):
        def followed(
            self, track_ids: NDArray[np.int64], most: int
        ) -> tuple[pa.Table, pa.Table, pa.Table] | None:  # type: ignore[override]
            found = super().followed(track_ids, most)
            return found if len(found[1]) <= most else None

    tables = make_library(tmp_path)
    plain, _ = make_engine(tables)
    few = Few(tables)
    engine = Engine(tables, few, picture_root=None, read_picture=read_picture)
    monkeypatch.setattr(handing, "MANY_FOLLOWED", 6)
    first = "SELECT frames WHERE entity = 'red-van' LIMIT 10"
    early = "SELECT frames WHERE entity = 'red-van' AND video = 'gate-1.mp4' AND time < 1"
    for sql in (first, early):  # what the spans of tracks tell costs no statement of DuckDB
        assert engine.query(sql).fetchall() == plain.query(sql).fetchall()
        assert len(few.asked) == 1 and len(few.asked.pop()) == 1
        assert "read_parquet of frames" not in operators(engine, sql)
        few.asked.clear()
    for sql in (
        first.replace("LIMIT", "AND score > 0.5 LIMIT"),
        first.replace("LIMIT 10", "AND track_id = 8589934594"),
    ):
        assert engine.query(sql).fetchall() == plain.query(sql).fetchall()
        assert len(few.asked[-1]) < len(few.asked[-2])
        assert "read_parquet of frames" not in operators(engine, sql)
    # Where those are many, too, the files are read; where the condition is wrong, the statement says so.
    everything = "SELECT frames WHERE entity = 'red-van'"
    assert engine.query(everything).fetchall() == plain.query(everything).fetchall()
    assert "read_parquet of frames" in operators(engine, everything)
    with pytest.raises(QueryError, match="nonsense"):
        engine.query("SELECT frames WHERE entity = 'red-van' AND nonsense(time) > 3")


def test_an_absent_entity_reads_no_frame(engine: Engine) -> None:
    # DuckDB began with a hash table of all frames of the library, and asked for the tracks afterwards.
    for nowhere in ("entity = 'dog' AND camera = 'gate'", "entity = 'it''s' AND video = 'gate-1.mp4'"):
        assert "read_parquet" not in operators(engine, f"SELECT frames WHERE {nowhere} LIMIT 100")
        assert not engine.query(f"SELECT frames WHERE {nowhere} LIMIT 100").fetchall()
    assert "read_parquet of frames" in operators(engine, "SELECT frames WHERE entity = 'dog' LIMIT 100")


D = "WITH d AS (SELECT 'yard.mp4' AS v, 0.5 AS s, 3 AS n) "
SHADOWED = "WITH videos AS (SELECT 'yard.mp4' AS video, 'gate' AS camera) "
IN_SHADOW = "video IN (SELECT video FROM videos WHERE camera = 'gate')"


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        (
            D + "SELECT frames WHERE entity = 'dog' AND video IN (FROM (SELECT v FROM d))",
            "video = 'yard.mp4'",
        ),
        (D + "SELECT frames WHERE entity = 'dog' AND score > (SELECT s FROM d)", "score > 0.5"),
        (D + "SELECT frames WHERE entity = 'dog' AND video = (SELECT v FROM d) LIMIT 5", "frame < 8"),
        (SHADOWED + f"SELECT frames WHERE entity = 'dog' AND {IN_SHADOW}", "video = 'yard.mp4'"),
        (SHADOWED + f"SELECT frames WHERE entity = 'dog' AND NOT {IN_SHADOW}", "false"),
        (
            D + "SELECT frames WHERE entity = 'dog' AND inside('mat') AND frame > (SELECT n FROM d)",
            "inside('mat') AND frame > 3",
        ),
    ],
)
def test_what_is_followed_may_depend_on_what_only_the_statement_knows(
    tmp_path: Path, sql: str, plain: str
) -> None:
    """CTEs that a condition reads: boxes that came from files were missing, or of other videos."""
    tables = make_library(tmp_path)
    follower = Follower(tables)
    for engine in (
        make_engine(tables)[0],
        Engine(tables, follower, picture_root=None, read_picture=read_picture),
    ):
        expected = engine.query(f"SELECT frames WHERE entity = 'dog' AND {plain}").fetchall()
        assert engine.query(sql).fetchall() == expected


@pytest.mark.parametrize(("inner", "kept"), [("videos", True), ("(SELECT tracks)", True), ("d", False)])
def test_a_select_over_what_is_handed_over_still_leaves_few_tracks_to_follow(
    tmp_path: Path, inner: str, kept: bool
) -> None:
    """Only what reads CTEs is left to the whole statement; any other condition spares it boxes."""
    sql = (
        "WITH d AS (FROM videos) SELECT frames"
        f" WHERE entity = 'dog' AND video IN (SELECT video FROM {inner} WHERE video <> 'x')"
    )
    with connect(make_library(tmp_path), Limits(threads=1)) as connection:
        rewriter = Rewriter(sql, tokenize(sql), None, ("dog",), connection, lambda *_: None)
        query = rewriter.rewrite().queries[-1]
    assert ("<> 'x'" in tracks_to_follow(query)) is kept
    assert ("<> 'x'" in places_from_files(query)) is kept
