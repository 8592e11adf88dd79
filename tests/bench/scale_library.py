"""A size comes in; a synthetic library of that size goes out, written by the store's own writers.

Vectors are random: a thing has a centre with the spread of the shipped model's cohort, its tracks lie around
the centre, and a track's crops around the track. How often a thing is seen falls as a power of its rank.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.album.examples import VIEWS
from panorama.models.base import Embedder
from panorama.store import ModelRow, NewExemplar, SegmentWriter, Store, VideoRow
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.videos import place_video
from panorama.store.files.segments import _NEW_SEGMENT, FileSet, list_files

FPS = 25.0
SAMPLES_PER_SECOND = 2.0
TRACK_SECONDS = 8.0
SIDE = 1280, 720
JPEG = b"\xff\xd8" + bytes(598)
"""Stands for a stored picture of 600 bytes: at the deepest exit, which all crops have, none is opened."""

CHUNK_VIDEOS = 250
"""So many videos give files of about the size that compaction makes."""

CAMERAS = 20
STRETCH, REST_HOURS = 20, 4.0
"""A camera's videos follow each other without a gap, so many at a time."""

NEAR_THING, NEAR_TRACK = 0.85, 0.93
"""Cosine of a track with its thing, and of a crop with its track."""

NEAR_EXAMPLE, NEAR_VIEW = 0.9, 0.95
"""Cosine of an exemplar with its thing, and of one of its views with it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is in the library; 6 minutes a video make 1,000 videos 100 hours."""

    videos: int = 1000
    tracks: int = 250
    crops: int = 4
    seconds: float = 360.0
    things: int = 20_000

    @property
    def rows(self) -> int:
        """Crops in all."""
        return self.videos * self.tracks * self.crops


class Things:
    """Vectors of things, their tracks and crops.

    Args:
        cohort: (N, dim) of the shipped model: what strangers look like to it.
    """

    def __init__(self, cohort: NDArray[np.float32], size: Size) -> None:
        rng = np.random.default_rng(0)
        self._mean = cohort.mean(axis=0)
        self._spread = np.linalg.cholesky(np.cov(cohort.T) + 1e-6 * np.eye(cohort.shape[1])).astype(
            np.float32
        )
        self.centres = self.draw(rng, size.things)  # (T, dim)
        often = 1 / np.arange(20, size.things + 20) ** 0.7
        self.often = often / often.sum()

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
        """Unit vectors (count, dim) of strangers."""
        noise = rng.standard_normal((count, len(self._mean)), np.float32)
        return _unit(self._mean + noise @ self._spread.T)

    def near(
        self, rng: np.random.Generator, vectors: NDArray[np.float32], cosine: float
    ) -> NDArray[np.float32]:
        """One vector (N, dim) around each of some (N, dim), about `cosine` similar to it."""
        noise = rng.standard_normal(vectors.shape, np.float32)
        noise -= (noise * vectors).sum(axis=1, keepdims=True) * vectors
        return np.float32(cosine) * vectors + np.float32(np.sqrt(1 - cosine**2)) * _unit(noise)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def build(
    folder: Path,
    embedder: Embedder,
    size: Size,
    exits: tuple[int, ...],
    say: Callable[[str], None],
    seconds: float = math.inf,
) -> Things | None:
    """Write the library, or go on with one that was begun; None where `seconds` were over before its end.

    Many videos share a file, as compaction would leave them; memory holds a row group of each table.

    Args:
        exits: at which vectors are stored; indexing stores all, the deepest is the one that is searched.
    """
    things, started = Things(embedder.cohort()[-1], size), time.monotonic()
    with Store.create(folder, exist_ok=True) as store:
        store.put_model(ModelRow(embedder.hash, embedder.name, "embedder", embedder.dim, embedder.exits))
        written = set(store.snapshot().videos.column("video").to_pylist())
        lacking = [number for number in range(size.videos) if _name(number) not in written]
        for first in range(0, len(lacking), CHUNK_VIDEOS):
            if time.monotonic() - started > seconds:
                return None
            chunk = lacking[first : first + CHUNK_VIDEOS]
            _write(store, chunk, things, embedder, size, exits)
            say(f"{chunk[-1] + 1} videos written, {time.monotonic() - started:.0f} s")
    return things


class _InChunk(SegmentWriter):
    """A segment whose rows go to files that it shares with others."""

    def __init__(self, files: FileSet, content: str) -> None:
        self._place, self._files = files.place, files
        self._cuts, self._ends = [], None
        with files.place.catalog.write() as tx:
            self.segment = int(tx.scalar(_NEW_SEGMENT, content_hash=content, settings_hash="scale", now=0))

    def go_live(self, tx: Transaction, listed: Sequence[Mapping[str, Any]]) -> None:
        """Let readers see it; its rows are some of those in the files that are listed."""
        rows = {entry["table_name"]: entry["segment_rows"][self.segment] for entry in listed}
        self._go_live(tx, {table: rows[table] for table in ("frames", "tracks", "boxes", "crops")})


def _write(
    store: Store, numbers: list[int], things: Things, embedder: Embedder, size: Size, exits: tuple[int, ...]
) -> None:
    """Some videos, listed in one transaction."""
    files = FileSet(store._place, f"c{uuid.uuid4().hex}")
    try:
        writers = []
        for number in numbers:
            writer = _InChunk(files, f"video {number}")
            _fill(writer, things, embedder, size, exits, np.random.default_rng(number + 1))
            writer.put_ends(_ends(number, size))
            writers.append(writer)
        listed = files.finish()
        with store._place.catalog.write() as tx:
            for number, writer in zip(numbers, writers, strict=True):
                writer.go_live(tx, listed)
                place_video(tx, _video(number, f"video {number}", size), writer.segment)
            list_files(tx, listed)
            tx.bump("data")
    except BaseException:
        files.discard()
        raise
    files.release()


def _name(number: int) -> str:
    return f"camera-{number % CAMERAS:02d}/{number:05d}.mp4"


def _ends(number: int, size: Size) -> NDArray[np.uint8]:
    """(2, 9, 16) how a video begins and ends: as its camera's one before it ended, but for noise.

    The picture keeps its shapes and takes the light of the hour; after every stretch a camera rests.
    """
    turn, camera = divmod(number, CAMERAS)
    shapes = np.random.default_rng((1, camera)).uniform(40, 200, (3, 4)).repeat(3, axis=0).repeat(4, axis=1)
    hours = (turn + np.arange(2)) * size.seconds / 3600 + turn // STRETCH * REST_HOURS
    light = 0.7 + 0.3 * np.sin(2 * np.pi * hours / 24)
    noise = np.random.default_rng((2, number)).normal(0, 1, (2, 9, 16))
    return np.clip(light[:, None, None] * shapes + noise, 0, 255).astype(np.uint8)


def _video(number: int, content: str, size: Size) -> VideoRow:
    name = _name(number)
    return VideoRow(
        name, f"/archive/{name}", "/archive", content, 1000, 5,
        camera=f"camera-{number % CAMERAS:02d}", width=SIDE[0], height=SIDE[1],
        duration=size.seconds, frames=round(size.seconds * FPS),
    )  # fmt: skip


def _fill(
    writer: SegmentWriter,
    things: Things,
    embedder: Embedder,
    size: Size,
    exits: tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    frames = np.arange(round(size.seconds * FPS))
    writer.add_frames(frames, frames * 512, frames / FPS)
    samples = round(TRACK_SECONDS * SAMPLES_PER_SECOND)
    step = round(FPS / SAMPLES_PER_SECOND)
    first = np.sort(rng.integers(0, len(frames) - samples * step, size.tracks))
    last = first + (samples - 1) * step + 1
    track_ids = writer.pack(np.arange(size.tracks))
    writer.add_tracks(
        {
            "track_id": track_ids, "start_frame": first, "end_frame": last,
            "start_time": first / FPS, "end_time": last / FPS, "samples": np.full(size.tracks, samples),
        }
    )  # fmt: skip
    left, top = rng.uniform(0, SIDE[0] - 200, size.tracks), rng.uniform(0, SIDE[1] - 200, size.tracks)
    wide = rng.uniform(20, 200, size.tracks)

    def at(track: NDArray[np.intp], frame: NDArray[np.intp]) -> dict[str, NDArray]:
        x1 = left[track] + (frame - first[track]) * 0.2
        box = {"x1": x1, "y1": top[track], "x2": x1 + wide[track], "y2": top[track] + wide[track]}
        return {"track_id": track_ids[track], "frame": frame, "time": frame / FPS, **box}

    track = np.repeat(np.arange(size.tracks), samples)
    frame = first[track] + np.tile(np.arange(samples) * step, size.tracks)
    writer.add_boxes({**at(track, frame), "score": np.full(len(track), 0.8)})
    track = np.repeat(np.arange(size.tracks), size.crops)
    frame = first[track] + np.tile(np.arange(size.crops) * step, size.tracks)
    crop_ids = writer.pack(np.arange(len(track)))
    quality = rng.uniform(0, 1, len(track))
    writer.add_crops(
        {"crop_id": crop_ids, **at(track, frame), "quality": quality, "jpeg": [JPEG] * len(track)}
    )
    which = rng.choice(size.things, size.tracks, p=things.often)
    seen = things.near(rng, things.centres[which], NEAR_THING)  # (tracks, dim)
    vectors = things.near(rng, seen[track], NEAR_TRACK)  # (crops, dim)
    for exit in exits:
        writer.add_embeddings(embedder.hash, exit, crop_ids, track_ids[track], vectors)


def register(
    store: Store,
    embedder: Embedder,
    name: str,
    things: Things,
    rng: np.random.Generator,
    centre: NDArray[np.float32],
) -> None:
    """An entity with three exemplars around a centre (1, dim), the same at every exit, in as many views."""
    pictures = things.near(rng, np.repeat(centre, 3, axis=0), NEAR_EXAMPLE)
    vectors = things.near(rng, np.repeat(pictures, len(VIEWS), axis=0), NEAR_VIEW).reshape(3, len(VIEWS), -1)
    store.add_exemplars(
        name,
        [
            NewExemplar(
                f"{name} {i}".encode(), f"{name}-{i}.jpg", False,
                {(embedder.hash, e): views for e in range(1, embedder.exits + 1)}, 128, 128,
            )
            for i, views in enumerate(vectors)
        ],
    )  # fmt: skip
