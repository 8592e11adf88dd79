"""A small library whose every answer a person can compute, and a matcher that looks scores up in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panorama.query.engine import Engine
from panorama.query.handed.relations import Limits
from panorama.query.matching.cost import Choice
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, Matches, MatchRequest
from panorama.store import Zone
from panorama.store.catalog.picture_clocks import PICTURE_CLOCKS, PICTURE_SPANS

FPS = 10.0
ENTITIES = ("blue-van", "dog", "red-van", "it's")
VIDEOS = [
    # video, camera, segment, frames
    ("gate-1.mp4", "gate", 1, 100),
    ("gate-2.mp4", "gate", 2, 60),
    ("yard.mp4", "yard", 3, 40),
    ("copies/gate-1.mp4", "copies", 1, 100),  # the same content as gate-1.mp4, hence one segment
]
CLOCKS = {
    "gate-1.mp4": datetime(2026, 3, 1, 9, 59, 56),
    "gate-2.mp4": datetime(2026, 3, 1, 23, 59, 57),
    "copies/gate-1.mp4": datetime(2026, 3, 2, 9, 59, 56),
}
"""When the videos begin; of yard.mp4 it is not known."""

UTC = {video: moment - timedelta(hours=1) for video, moment in CLOCKS.items()}


@dataclass(frozen=True)
class Track:
    """One track, sampled at every frame that is a multiple of five; its box moves right by 1 px a frame.

    x1 = 10 * local + frame, y1 = 5, x2 = x1 + 20, y2 = 35.
    """

    segment: int
    local: int
    start: int
    end: int
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def track_id(self) -> int:
        return (self.segment << 32) | self.local

    @property
    def crop_id(self) -> int:
        """Its first crop; the second is one more."""
        return (self.segment << 32) | (self.local * 10)

    def samples(self) -> list[int]:
        return [f for f in range(self.start, self.end) if f % 5 == 0]

    def box(self, frame: float) -> tuple[float, float, float, float]:
        """Where the thing is; before the first and after the last sample the box stands still."""
        held = min(max(frame, self.samples()[0]), self.samples()[-1])
        x1 = 10 * self.local + held
        return (x1, 5.0, x1 + 20, 35.0)


TRACKS = [
    Track(1, 1, 8, 28, {"red-van": 0.9, "blue-van": 0.4}),
    Track(1, 2, 18, 43, {"blue-van": 0.95, "red-van": 0.3}),
    Track(1, 3, 33, 48, {"red-van": 0.85}),  # 0.5 s after track 1: one moment
    Track(1, 4, 68, 88, {"red-van": 0.82, "dog": 0.6}),  # 2 s after track 3: another moment
    Track(1, 5, 50, 60, {"dog": 0.55}),  # undecided only
    Track(2, 1, 3, 28, {"blue-van": 0.81}),
    Track(2, 2, 38, 53, {"red-van": 0.97}),
    Track(3, 1, 3, 23, {"dog": 0.9, "it's": 0.88}),  # matched twice
    Track(3, 2, 13, 33, {"red-van": 0.2}),  # unknown
    Track(9, 1, 3, 13, {"red-van": 0.99}),  # of a segment that no video names any more
]


def rectangle(left: float, right: float) -> tuple[tuple[float, float], ...]:
    """From edge to edge of the frame in height; in pixels of 320 x 240."""
    return ((left / 320, 0.0), (right / 320, 0.0), (right / 320, 1.0), (left / 320, 1.0))


ZONES = (
    Zone("gate", "lawn", "zone", rectangle(40, 60)),
    Zone("gate", "kerb", "line", ((40 / 320, 1.0), (40 / 320, 0.0))),  # to the right is 'in'
    Zone("", "mat", "zone", rectangle(30, 50)),
    Zone("yard", "mat", "zone", rectangle(20, 30)),
)


@dataclass(frozen=True)
class Tables:
    """A snapshot as the engine reads it."""

    videos: pa.Table
    files: dict[str, list[str]]
    entities: pa.Table
    zones: tuple[Zone, ...] = ()
    picture_clocks: pa.Table = field(default_factory=PICTURE_CLOCKS.empty_table)
    picture_spans: pa.Table = field(default_factory=PICTURE_SPANS.empty_table)


@dataclass
class FakeMatcher:
    """Scores from TRACKS; at least 0.8 is accepted, at least 0.5 uncertain. Remembers what it was asked."""

    requests: list[MatchRequest] = field(default_factory=list)

    def match(self, request: MatchRequest) -> Matches:
        self.requests.append(request)
        names = ENTITIES if request.entities is None else request.entities
        rows = []
        for index, name in enumerate(names):
            for track in TRACKS:
                if request.segments is not None and track.segment not in request.segments:
                    continue
                if request.tracks is not None and track.track_id not in request.tracks:
                    continue
                score = track.scores.get(name, 0.0)
                band = ACCEPTED if score >= 0.8 else UNCERTAIN if score >= 0.5 else REJECTED
                if request.keep != "all" and band == REJECTED:
                    continue
                if request.min_score is not None and score < request.min_score:
                    continue
                rows.append((index, track.track_id, score, band, track.crop_id))
        columns = list(zip(*rows, strict=True)) or [()] * 5
        return Matches(
            tuple(names),
            np.array(columns[0], np.int32),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.float64),
            np.array(columns[3], np.uint8),
            np.array(columns[4], np.int64),
            np.full(len(rows), 7, np.int64),
            np.full(len(rows), 2, np.int16),
        )

    def prepare(self, entities: Sequence[str]) -> None:
        return

    def tracks(self, track_ids: NDArray[np.int64]) -> None:
        """The files know them."""

    def crops(self, track_ids: NDArray[np.int64], crop_ids: NDArray[np.int64]) -> None:
        """The files know them."""

    def followed(self, track_ids: NDArray[np.int64], most: int) -> None:
        """The files know them."""

    def choices(self, request: MatchRequest) -> dict[str, Choice]:
        """A millisecond for each entity."""
        names = ENTITIES if request.entities is None else request.entities
        return {name: Choice("exact", {"exact": 1e-3}) for name in names}

    def similarity(self, image: np.ndarray | int, request: MatchRequest) -> tuple[np.ndarray, np.ndarray]:
        """Of crop c to a picture of value v: how near the track's number times 10 is to v, within [0, 1].

        What the request does not ask for is missing.
        """
        self.requests.append(request)
        wanted = (image & 0xFFFFFFFF) if isinstance(image, int) else float(np.mean(image))
        found = [
            (t.crop_id + k, 1 - abs(t.local * 10 + k - wanted) / 100)
            for t in TRACKS
            if request.segments is None or t.segment in request.segments
            if request.tracks is None or t.track_id in request.tracks
            for k in (0, 1)
        ]
        found = [pair for pair in found if request.min_score is None or pair[1] >= request.min_score]
        if request.first is not None:
            best: dict[int, float] = {}
            for crop_id, value in found:
                track = crop_id // 10
                best[track] = max(value, best.get(track, 0.0))
            last = min(sorted(best.values(), reverse=True)[: request.first], default=2.0)
            found = [pair for pair in found if pair[1] >= last]
        ids, values = zip(*found, strict=True) if found else ((), ())
        return np.array(ids, np.int64), np.array(values, np.float64)

    def verify(self, first: np.ndarray, second: np.ndarray) -> tuple[float, int, int]:
        """By the difference of brightness: under 10 the same, under 50 undecided."""
        gap = abs(float(np.mean(first)) - float(np.mean(second)))
        return 1 - gap / 255, ACCEPTED if gap < 10 else UNCERTAIN if gap < 50 else REJECTED, 3


def read_picture(path: Path) -> np.ndarray:
    """A picture file of one byte: a grey square of that brightness."""
    return np.full((4, 4, 3), path.read_bytes()[0], np.uint8)


def make_library(folder: Path) -> Tables:
    """Write the sample library's Parquet files below `folder`."""
    frame_counts = {segment: count for _, _, segment, count in VIDEOS} | {9: 20}
    frames = [(s, f, f * 100, f / FPS) for s, count in sorted(frame_counts.items()) for f in range(count)]
    tracks = [
        (t.segment, t.track_id, t.start, t.end, t.start / FPS, t.end / FPS, len(t.samples())) for t in TRACKS
    ]
    boxes = [
        (t.segment, t.track_id, f, f / FPS, *t.box(f), 0.5)
        for t in sorted(TRACKS, key=lambda t: t.segment)
        for f in t.samples()
    ]
    crops = [
        (t.segment, t.crop_id + k, t.track_id, f, f / FPS, *t.box(f), 0.9 - k / 10, b"jpeg")
        for t in TRACKS
        for k, f in enumerate(t.samples()[:2])
    ]
    int32, int64, double, float32 = pa.int32(), pa.int64(), pa.float64(), pa.float32()
    box = [(name, float32) for name in ("x1", "y1", "x2", "y2")]
    schemas = {
        "frames": [("segment", int32), ("frame", int64), ("pts", int64), ("time", double)],
        "tracks": [
            *[("segment", int32), ("track_id", int64), ("start_frame", int64), ("end_frame", int64)],
            *[("start_time", double), ("end_time", double), ("samples", int32)],
        ],
        "boxes": [
            *[("segment", int32), ("track_id", int64), ("frame", int64), ("time", double)],
            *[*box, ("score", float32)],
        ],
        "crops": [
            *[
                ("segment", int32),
                ("crop_id", int64),
                ("track_id", int64),
                ("frame", int64),
                ("time", double),
            ],
            *[*box, ("quality", float32), ("jpeg", pa.binary())],
        ],
    }
    files: dict[str, list[str]] = {}
    for name, rows in {"frames": frames, "tracks": tracks, "boxes": boxes, "crops": crops}.items():
        path = folder / "data" / name / "one.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = list(zip(*rows, strict=True))
        schema = pa.schema(schemas[name])
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
        files[name] = [str(path)]
    return Tables(_videos(), files, _entities(), ZONES)


def _videos() -> pa.Table:
    return pa.table(
        {
            "video": [video for video, *_ in VIDEOS],
            "uri": [f"/archive/{video}" for video, *_ in VIDEOS],
            "camera": [camera for _, camera, _, _ in VIDEOS],
            "duration": [count / FPS for *_, count in VIDEOS],
            "width": pa.array([320] * len(VIDEOS), pa.int32()),
            "height": pa.array([240] * len(VIDEOS), pa.int32()),
            "frames": pa.array([count for *_, count in VIDEOS], pa.int64()),
            "segment": pa.array([segment for _, _, segment, _ in VIDEOS], pa.int32()),
            "start_clock": pa.array([CLOCKS.get(video) for video, *_ in VIDEOS], pa.timestamp("us")),
            "start_utc": pa.array([UTC.get(video) for video, *_ in VIDEOS], pa.timestamp("us")),
            "indexed_at": pa.array([datetime(2026, 4, 1)] * len(VIDEOS), pa.timestamp("us")),
            "time_zone": [None if video not in CLOCKS else "Europe/Berlin" for video, *_ in VIDEOS],
        }
    )


def _entities() -> pa.Table:
    names = sorted(ENTITIES)
    return pa.table({"entity": names, "exemplars": [3] * len(names), "negatives": [1] * len(names)})


def empty_library() -> Tables:
    """A library into which nothing was indexed and nothing registered."""
    return Tables(_videos().slice(0, 0), {}, _entities().slice(0, 0))


def make_engine(tables: Tables, pictures: Path | None = None, **limits: object) -> tuple[Engine, FakeMatcher]:
    """An engine over the tables, and its matcher."""
    matcher = FakeMatcher()
    settings = Limits(**{"threads": 1, **limits})  # type: ignore[arg-type]
    engine = Engine(tables, matcher, picture_root=pictures, read_picture=read_picture, limits=settings)
    return engine, matcher


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


def engine_with_pictures(folder: Path) -> Engine:
    """An engine over the sample library, made in `folder`, with four pictures of known brightness to name."""
    pictures = folder / "pictures"
    pictures.mkdir()
    for name, brightness in {"a.jpg": 20, "b.jpg": 25, "c.jpg": 60, "d.jpg": 200}.items():
        (pictures / name).write_bytes(bytes([brightness]))
    made, _ = make_engine(make_library(folder), pictures)
    return made
