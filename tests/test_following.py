"""The tracks worth following, and the boxes of every frame, are those of the SQL, to the bit."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panorama.query.handed.following import Videos, followed, worth_following
from panorama.query.handed.handing import _with_tracks
from panorama.query.matching.matches import ACCEPTED, Matches
from panorama.query.shorthands.plan import Query
from panorama.query.sql.places_sql import places_from_files, tracks_to_follow
from panorama.query.sql.rewrite import Rewriter
from panorama.query.text.tokens import tokenize

NAMES = ("ant", "bee")
SEGMENTS = ((1, "c"), (2, "a"), (3, "b"), (2, "copy of a"))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect(":memory:")
    made.execute("CREATE SCHEMA _panorama")
    made.execute("SET threads = 1")
    yield made
    made.close()


def planned(sql: str, connection: duckdb.DuckDBPyConnection) -> Query:
    rewriter = Rewriter(sql, tokenize(sql), None, NAMES, connection, lambda *_: None)
    return rewriter.rewrite().queries[0]


class Things:
    """A few tracks, their samples, and the frames of three videos, one of which may have a copy."""

    def __init__(self, rng: np.random.Generator, copies: bool) -> None:
        count = int(rng.integers(0, 14))
        frames = rng.integers(20, 60, 4)
        frames[3] = frames[1]
        used = range(4 if copies else 3)
        self.videos = pa.table(
            {
                "video": [SEGMENTS[i][1] for i in used],
                **{name: ["x"] * len(used) for name in ("uri", "camera")},
                "duration": [9.0] * len(used),
                "frames": pa.array([int(frames[i]) for i in used], pa.int64()),
                "segment": pa.array([SEGMENTS[i][0] for i in used], pa.int32()),
                "start_clock": pa.array([None] * len(used), pa.timestamp("us")),
                "clock_key": pa.array([None] * len(used), pa.int64()),
            }
        )
        segments = np.sort(rng.choice([1, 2, 3, 9], count))  # 9 is of no video
        ids = (segments << 32) | np.arange(count)
        start = rng.integers(0, 40, count)
        end = start + rng.integers(1, 25, count)
        self.tracks = pa.table(
            {
                "segment": pa.array(segments, pa.int32()),
                "track_id": ids,
                "start_frame": start,
                "end_frame": end,
                "start_time": start / 7,
                "end_time": end / 7,
                "samples": pa.array([0] * count, pa.int32()),
            }
        )
        samples = [
            (int(i), int(f))
            for i, a, b in zip(ids, start, end, strict=True)
            for f in np.flatnonzero(rng.random(b - a + 2) < 0.4) + max(a - 1, 0)
        ]
        owners, numbers = (np.array([row[k] for row in samples], np.int64) for k in (0, 1))
        boxes = {
            side: rng.normal(size=len(samples)).astype(np.float32) * 99 for side in ("x1", "y1", "x2", "y2")
        }
        times = ((numbers + 1) // 2 * 2) / 7 if rng.random() < 0.3 else numbers / 7  # some at one time
        self.boxes = pa.table(
            {
                "segment": pa.array(owners >> 32, pa.int32()),
                "track_id": owners,
                "frame": numbers,
                "time": times,
            }
            | boxes
        )
        rows = [(s, f) for s in (1, 2, 3) for f in range(70) if rng.random() < 0.95]
        self.frames = pa.table(
            {
                "segment": pa.array([s for s, _ in rows], pa.int32()),
                "frame": pa.array([f for _, f in rows], pa.int64()),
                "time": [f / 7 + rng.normal() * 0.02 for _, f in rows],
            }
        )
        pairs = [(e, i) for e in (0, 1) for i in range(count) if rng.random() < 0.6]
        picked = np.array([i for _, i in pairs], np.intp)
        band = rng.choice([1, 2, 2], len(pairs)).astype(np.uint8)
        score = np.round(rng.random(len(pairs)), 1)
        self.matches = Matches(
            NAMES, np.array([e for e, _ in pairs], np.int32), ids[picked], score, band, ids[picked],
            np.zeros(len(pairs), np.int64), np.ones(len(pairs), np.int16),
        )  # fmt: skip

    def stand_in(self, connection: duckdb.DuckDBPyConnection, matches: Matches) -> None:
        """As the tables of the first shorthand of a statement."""
        for name in ("videos", "boxes", "frames"):
            connection.register("given", getattr(self, name))
            connection.execute(f"CREATE OR REPLACE TABLE _panorama.{name} AS FROM given")
        connection.register("_p1_matches_found", _with_tracks(matches, self.tracks))


STATEMENTS = st.sampled_from(
    [
        "entity = 'ant'",
        "entity = 'ant' AND time < {x}",
        "entity IN ('ant', 'bee') AND time BETWEEN {x} AND 5.1",
        "entity = 'ant' LIMIT {n}",
        "entity IN ('ant', 'bee') LIMIT {n} OFFSET 7",
        "entity = 'bee' ORDER BY score DESC LIMIT {n}",
        "(entity = 'ant' OR entity = 'bee') ORDER BY score DESC LIMIT {n}",
        "entity = 'ant' AND band = 'uncertain' LIMIT {n}",
        "entity = 'ant' AND entity = 'bee' LIMIT {n}",
        "entity = 'ant' AND video > 'a' LIMIT {n}",
    ]
)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**30), st.booleans(), STATEMENTS, st.integers(0, 60), st.floats(0, 8))
def test_tracks_and_places_are_those_of_the_sql(connection, seed, copies, text, limit, seconds):
    things = Things(np.random.default_rng(seed), copies)
    sql = f"SELECT frames WHERE {text.format(n=limit, x=seconds)}"
    query = planned(sql, connection)
    matches, videos = things.matches, Videos.of(things.videos)
    names = {name for seen in query.every_seen() for name in seen.names}
    matches = matches[np.isin(matches.entity_index, [NAMES.index(name) for name in names])]
    if "video" in text:  # segments that the condition on videos leaves
        matches = matches[np.isin(matches.track_id >> 32, [1, 2, 3] if copies else [1, 3])]
    things.stand_in(connection, matches)
    if all(seen.calibrated for seen in query.every_seen()):
        matches = matches[matches.band == ACCEPTED]
    wanted = connection.execute(tracks_to_follow(query)).fetchnumpy()["track_id"]
    found = worth_following(query, matches, things.tracks, videos, True)
    assert set(wanted.tolist()) <= set(found.tolist()) and (np.diff(found) > 0).all()
    exact = text.endswith("{n}") and "band" not in text and "AND" not in text
    if exact:
        assert set(wanted.tolist()) == {i for i in found.tolist() if i >> 32 != 9}
    tracks = things.tracks.filter(pa.array(np.isin(things.tracks["track_id"].to_numpy(), found)))
    rows = followed(tracks, things.boxes, things.frames, videos)
    rows = rows.filter(pa.array(np.isin(rows["track_id"].to_numpy(), wanted))).to_pylist()
    told = connection.sql(places_from_files(query)).to_arrow_table()
    assert [str(kind) for kind in told.schema.types] == ["int64", "int64", *["double"] * 5]
    told = [row for row in told.to_pylist() if row["track_id"] in set(wanted.tolist())]
    if len(query.every_seen()) == 1:  # of two, the SQL leaves out what is not beside the other
        assert order(rows) == order(told)
    else:
        assert {*order(told)} <= {*order(rows)}


def order(rows: list[dict]) -> list[tuple]:
    return sorted(tuple(row.values()) for row in rows)
