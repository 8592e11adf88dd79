"""Small segments and pictures for the store's tests, with contents that a person can predict."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from panorama.errors import LibraryWriteError
from panorama.store import NewExemplar, SegmentWriter, Snapshot, Store, VideoRow
from panorama.store.files.schema import segment_of
from panorama.store.files.segments import FileSet, add_vectors, list_files
from panorama.store.upkeep import rewrite
from panorama.store.vectors.vector_cache import prints_of
from panorama.store.vectors.vector_table import VectorTable

MODEL = "model-hash-" + "0" * 53
FRAMES = 12


def video_row(name: str, content: str, root: str = "/archive", **more: object) -> VideoRow:
    """A row as indexing would make it for root/name."""
    facts = {"size": 1000, "mtime_ns": 5, "width": 64, "height": 48, "duration": 1.2, "frames": FRAMES}
    return VideoRow(name, f"{root}/{name}", root, content, **{**facts, **more})  # type: ignore[arg-type]


def fill(writer: SegmentWriter, tracks: int = 3, seed: int = 0, exits: tuple[int, ...] = (1,)) -> None:
    """Twelve frames, some tracks of two boxes and one crop each."""
    writer.add_frames(np.arange(FRAMES), np.arange(FRAMES) * 100, np.arange(FRAMES) / 10)
    ids = writer.pack(np.arange(tracks))
    zero, one = np.zeros(tracks), np.ones(tracks)
    writer.add_tracks(
        {
            "track_id": ids,
            "start_frame": zero,
            "end_frame": zero + FRAMES,
            "start_time": zero,
            "end_time": zero + 1.2,
            "samples": zero + 2,
        }
    )
    box = {"x1": zero, "y1": zero, "x2": one * 8, "y2": one * 8}
    for frame in (0, FRAMES - 1):
        writer.add_boxes(
            {"track_id": ids, "frame": zero + frame, "time": zero + frame / 10, **box, "score": one}
        )
    writer.add_crops(
        {
            "crop_id": ids,
            "track_id": ids,
            "frame": zero,
            "time": zero,
            **box,
            "quality": one,
            "jpeg": [jpeg(seed, k) for k in range(tracks)],
        }
    )
    for exit in exits:
        writer.add_embeddings(MODEL, exit, ids, ids, unit_vectors(tracks, seed))


def jpeg(seed: int, crop: int) -> bytes:
    """Stands for a picture; the store never looks inside."""
    return f"jpeg of video {seed} crop {crop}".encode()


def unit_vectors(count: int, seed: int = 0, dim: int = 8) -> np.ndarray:
    """(count, dim) float32 of unit length."""
    vectors = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def index(store: Store, name: str, content: str | None = None, settings: str = "s", **more: object) -> str:
    """Write one video as indexing would; its name in the library."""
    content = content or f"content of {name}"
    fill_options = {key: more.pop(key) for key in ("tracks", "seed", "exits") if key in more}
    with store.begin_segment(content_hash=content, settings_hash=settings) as writer:
        fill(writer, **fill_options)  # type: ignore[arg-type]
        return writer.commit(video_row(name, content, **more))  # type: ignore[arg-type]


def embed_again(
    store: Store, exit: int, crop_ids: np.ndarray, vectors: np.ndarray, model: str = MODEL
) -> None:
    """Add vectors of crops that may have some, as earlier versions did where two processes embedded them."""
    files = FileSet(store._place, f"w{uuid.uuid4().hex}")
    add_vectors(files, model, exit, crop_ids, crop_ids, vectors, None)
    listed = files.finish()
    with store._place.catalog.write() as tx:
        list_files(tx, listed)
        tx.bump("data")
    files.release()


def exemplar(
    picture: bytes = b"picture", negative: bool = False, vector: np.ndarray | None = None
) -> NewExemplar:
    """A picture to register, with a vector at exit 1, of one view of it, where one is given."""
    vectors = {} if vector is None else {(MODEL, 1): vector[None]}
    return NewExemplar(picture, "somewhere.jpg", negative, vectors)


def check_whole(snapshot: Snapshot) -> None:
    """Every listed file can be read, and every video has all its rows."""
    segments = set(snapshot.videos.column("segment").to_pylist())
    assert segments == set(snapshot.live_segments.tolist())
    for table, paths in snapshot.files.items():
        found = {s for path in paths for s in pq.read_table(path, columns=["segment"])["segment"].to_pylist()}
        assert segments <= found or (table == "pictures" and not paths), table  # films have none


def jpegs_on_disk(store: Store) -> set[bytes]:
    """Every crop in any file, listed or not."""
    files = [path for path in data_files(store) if path.parent.name == "crops"]
    return {picture for path in files for picture in pq.read_table(path)["jpeg"].to_pylist()}


def data_files(store: Store) -> list[Path]:
    """Everything under data/, finished or not."""
    return sorted(path for path in (store.path / "data").rglob("*") if path.is_file())


def data_contents(library: Path) -> dict[str, bytes]:
    """Every data file by its name without the part that is drawn, in order."""
    found = sorted((library / "data").rglob("*.parquet"))
    contents = {re.sub("-[0-9a-f]{32}", "", str(p.relative_to(library))): p.read_bytes() for p in found}
    assert len(contents) == len(found), "segments have numbers of their own"
    return contents


def lacking(store: Store, model_hash: str, exit: int) -> list[int]:
    """Live segments of which some crop has no vector at this exit of this model."""
    snapshot = store.snapshot()
    held = VectorTable.load(snapshot, model_hash, exit).crop_ids
    batches = store.read_crops(segments=snapshot.live_segments)
    stored = np.concatenate([batch.crop_ids for batch in batches])
    return [int(segment) for segment in np.unique(segment_of(stored[~np.isin(stored, held)]))]


def table_of(crop_ids: np.ndarray, vectors: np.ndarray, folder: Path | None = None) -> VectorTable:
    return VectorTable(MODEL, 1, crop_ids, crop_ids // 4, prints_of(vectors), vectors, folder)


def clustered(count: int, seed: int = 0, clusters: int = 150, dim: int = 16) -> np.ndarray:
    """Unit vectors in tight groups, as crops of the same things are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(clusters, dim))
    vectors = centres[rng.integers(clusters, size=count)] + 0.25 * rng.normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@contextmanager
def full_after(written: int) -> Iterator[None]:
    """Within, the disk is full once so many data files were erased from."""
    swap, left = rewrite._swap, [written]

    def full(*arguments: object, **options: object) -> bool:
        if not left[0]:
            raise LibraryWriteError("cannot write: no space left; run the same command again")
        left[0] -= 1
        return swap(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rewrite, "_swap", full)
        yield
