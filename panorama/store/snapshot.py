"""One consistent view of a library: the catalog enters, frozen lists of videos, files and exemplars leave."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.store import settings
from panorama.store import zones as shapes
from panorama.store.ascending import looked_up
from panorama.store.catalog import Transaction
from panorama.store.layout import Place
from panorama.store.locks import FileLock
from panorama.store.recorded import zone_named
from panorama.store.schema import CUT, ENDS_SHAPE, TABLES, pack_ids
from panorama.store.seen import SeenPlaces, live_places
from panorama.store.zones import Zone

VIDEOS = pa.schema(
    [
        pa.field("video", pa.string(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("camera", pa.string(), nullable=False),
        pa.field("duration", pa.float64(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("frames", pa.int64(), nullable=False),
        pa.field("segment", pa.int32(), nullable=False),
        pa.field("start_time_unix", pa.float64()),
        pa.field("decode_note", pa.string()),
        pa.field("time_zone", pa.string()),
        pa.field("time_from", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("content_sample", pa.string()),
        pa.field("start_clock", pa.timestamp("us")),
        pa.field("start_utc", pa.timestamp("us")),
    ]
)
ENTITIES = pa.schema(
    [
        pa.field("entity", pa.string(), nullable=False),
        pa.field("exemplars", pa.int64(), nullable=False),
        pa.field("negatives", pa.int64(), nullable=False),
        pa.field("denied", pa.int64(), nullable=False),
        pa.field("category", pa.bool_(), nullable=False),
    ]
)

_VERSIONS = "SELECT name, value FROM counters"
_VIDEOS = """
SELECT name, uri, camera, duration, width, height, frames, segment_id, start_time_unix, decode_note,
       time_zone, time_from, size, content_sample
FROM videos ORDER BY name
"""
_FILES = """
SELECT table_name, path FROM files
WHERE retired_version IS NULL AND table_name <> 'embeddings' ORDER BY file_id
"""
_EMBEDDINGS = """
SELECT path, file_id, row_count, model_hash, exit, dim FROM files
WHERE retired_version IS NULL AND table_name = 'embeddings' ORDER BY file_id
"""
_SEGMENT_ROWS = """
SELECT f.model_hash, f.exit, fs.segment_id, sum(fs.row_count) FROM files f
JOIN file_segments fs ON fs.file_id = f.file_id JOIN segments s ON s.segment_id = fs.segment_id
WHERE f.retired_version IS NULL AND f.table_name IN ('crops', 'embeddings') AND s.state = 'live'
GROUP BY f.model_hash, f.exit, fs.segment_id ORDER BY f.model_hash, f.exit, fs.segment_id
"""
_LIVE = """
SELECT segment_id, settings_hash, cuts, ends FROM segments WHERE state = 'live' ORDER BY segment_id
"""
_FILES_WITH_DEAD_ROWS = """
SELECT DISTINCT fs.file_id FROM file_segments fs JOIN files f ON f.file_id = fs.file_id
WHERE fs.segment_id IN (SELECT segment_id FROM segments WHERE state = 'retired')
AND f.retired_version IS NULL
"""
_ENTITIES = """
SELECT e.name, e.entity_id, e.category,
       coalesce(sum(1 - x.negative), 0) AS exemplars, coalesce(sum(x.negative), 0) AS negatives,
       coalesce(sum(x.denied), 0) AS denied
FROM entities e LEFT JOIN exemplars x ON x.entity_id = e.entity_id
GROUP BY e.entity_id, e.name, e.category ORDER BY e.name
"""
_VECTORS = """
SELECT v.model_hash, v.exit, x.entity_id, x.exemplar_id, x.negative, x.denied, v.views, v.vectors
FROM exemplar_vectors v JOIN exemplars x ON x.exemplar_id = v.exemplar_id
JOIN entities e ON e.entity_id = x.entity_id
ORDER BY v.model_hash, v.exit, e.name, x.exemplar_id
"""


@dataclass(frozen=True, slots=True)
class Album:
    """The views of all exemplars at one exit of one model, as a struct of arrays ordered by entity.

    Attributes:
        entities: all names, sorted; also those without an exemplar at this exit.
        entity_index: (M,) int32 into `entities`.
        exemplar_ids: (M,) int64; the views of an exemplar stand together.
        negative: (M,) bool, True for look-alikes; denied: (M,) bool, those that were denied.
        vectors: (M, dim) float32; dim is 0 where M is 0.
        categories: the names that stand for any of their kind, not for one individual.
    """

    entities: tuple[str, ...]
    entity_index: NDArray[np.int32]
    exemplar_ids: NDArray[np.int64]
    negative: NDArray[np.bool_]
    denied: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    categories: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        m = len(self.entity_index)
        columns = (self.exemplar_ids, self.negative, self.denied)
        shapes = (*(column.shape for column in columns), self.vectors.shape[:1])
        if shapes != ((m,),) * 4 or self.vectors.ndim != 2:
            raise ValueError(f"{m} views, but ids, signs and vectors have shapes {shapes}")

    def __len__(self) -> int:
        return len(self.entity_index)

    def averaged(self) -> Album:
        """One row for each exemplar: the mean of its views, of unit length."""
        if not len(self):
            return self
        starts = np.flatnonzero(np.diff(self.exemplar_ids, prepend=self.exemplar_ids[0] - 1))
        sums = np.add.reduceat(self.vectors, starts, axis=0)
        return Album(
            self.entities,
            self.entity_index[starts],
            self.exemplar_ids[starts],
            self.negative[starts],
            self.denied[starts],
            np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9), np.float32),
            self.categories,
        )

    @classmethod
    def empty(cls, entities: tuple[str, ...]) -> Album:
        """Names without any vector."""
        return cls(
            entities,
            np.zeros(0, np.int32),
            np.zeros(0, np.int64),
            np.zeros(0, np.bool_),
            np.zeros(0, np.bool_),
            np.zeros((0, 0), np.float32),
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file that the catalog lists.

    Attributes:
        path: absolute; its last part is never given to another file, see `FileSet`.
        rows: in the file.
        dead_rows: whether it also holds rows of segments that are not live (see `Snapshot.live_segments`).
        model_hash, exit, dim: of embeddings.
    """

    path: str
    rows: int
    dead_rows: bool = False
    model_hash: str | None = None
    exit: int | None = None
    dim: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Holding:
    """How many rows of one kind each live segment has; segments with none are not listed.

    Attributes:
        segments: (S,) int32, ascending.
        rows: (S,) int64.
    """

    segments: NDArray[np.int32]
    rows: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Rows in all."""
        return int(self.rows.sum())

    def rows_of(self, segments: NDArray[np.int32]) -> NDArray[np.int64]:
        """(S,) rows of some segments."""
        return looked_up(self.segments, self.rows, segments, 0)


@dataclass(frozen=True)
class Snapshot:
    """What the library held at one moment; its files stay on disk for as long as this object lives.

    Attributes:
        root: the library's directory.
        data_version, album_version, settings_version: change whenever videos, files or segments; entities or
            exemplars; calibration, settings or zones change.
        videos: columns of the relation `videos`, and segment, start_time_unix, decode_note, size (bytes).
        files: absolute paths of the Parquet files by table, for DuckDB; a table without rows has none.
        embeddings: files by (model_hash, exit).
        holdings: rows of live segments: crops under (None, None), vectors under (model_hash, exit).
        live_segments: (S,) int32 sorted. Files that compaction made may hold rows of other segments, where
            `has_dead_rows`: join with `videos` on segment, or filter by this.
        looks: the hash of the settings that each live segment was made with.
        cuts: (C,) int64 ascending, `segment << 32 | frame` of the frames that begin another shot.
        ends: (S, 2, 9, 16) uint8, how each live segment begins and ends, 0 where that is not known (see
            `schema.ENDS_SHAPE`).
        entities: columns of the relation `entities`.
        settings: values by key, as `Store.put_setting` stored them.
        zones: named shapes of cameras.
        seen: where pictures of the album were seen in live segments.
    """

    root: Path
    library_id: str
    data_version: int
    album_version: int
    settings_version: int
    videos: pa.Table
    files: Mapping[str, list[str]]
    embeddings: Mapping[tuple[str, int], tuple[DataFile, ...]]
    holdings: Mapping[tuple[str | None, int | None], Holding]
    live_segments: NDArray[np.int32]
    has_dead_rows: bool
    entities: pa.Table
    settings: Mapping[str, Any]
    albums: Mapping[tuple[str, int], Album] = field(repr=False)
    lease: FileLock | None = field(default=None, repr=False, compare=False)
    zones: tuple[Zone, ...] = ()
    looks: tuple[str, ...] = ()
    cuts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    ends: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, *ENDS_SHAPE), np.uint8), repr=False)
    seen: SeenPlaces = field(default_factory=SeenPlaces.none, repr=False)

    @property
    def version(self) -> str:
        """Two snapshots of a library with equal versions give equal answers: a part of every cache key."""
        return f"{self.library_id}:{self.data_version}.{self.album_version}.{self.settings_version}"

    @property
    def entity_names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(self.entities.column("entity").to_pylist())

    def album(self, model_hash: str, exit: int) -> Album:
        """The exemplars as this exit of this model sees them."""
        return self.albums.get((model_hash, exit)) or Album.empty(self.entity_names)

    def crops(self) -> Holding:
        """The crops of every live segment."""
        return self.holdings.get((None, None), _NOTHING)

    def vectors(self, model_hash: str, exit: int) -> Holding:
        """The vectors of every live segment at an exit; a crop that was embedded twice counts twice."""
        return self.holdings.get((model_hash, exit), _NOTHING)

    def unembedded(self, model_hash: str) -> NDArray[np.int32]:
        """(S,) live segments with crops that have no vector of a model at its first exit."""
        crops = self.crops()
        return crops.segments[crops.rows > self.vectors(model_hash, 1).rows_of(crops.segments)]


_NOTHING = Holding(np.zeros(0, np.int32), np.zeros(0, np.int64))


class Snapshots:
    """Takes snapshots; what has not changed since the last one is shared with it."""

    def __init__(self, place: Place, library_id: str) -> None:
        self._place = place
        self._library_id = library_id
        self._last: Snapshot | None = None

    def take(self) -> Snapshot:
        """The library as it is now."""
        last = self._last
        with self._place.catalog.read() as tx:
            versions = _versions(tx)
        if last is not None and versions == (last.data_version, last.album_version, last.settings_version):
            return last
        # The lease comes before the list: at no time is there a list whose files a sweep may delete.
        lease = _take_lease(self._place)
        with self._place.catalog.read() as tx:
            taken = self._read(tx, last, lease)
        if lease is not None:
            # Until this is written, and where it cannot be, the lease is empty: it holds every file.
            with contextlib.suppress(OSError):
                lease.write(str(taken.data_version))
        self._last = taken
        return taken

    def _read(self, tx: Transaction, last: Snapshot | None, lease: FileLock | None) -> Snapshot:
        data, album, setting = _versions(tx)
        same_data = last is not None and last.data_version == data
        same_album = last is not None and last.album_version == album
        if same_data and last is not None:
            videos, files, embeddings = last.videos, last.files, last.embeddings
            holdings = last.holdings
            live, looks, dead = last.live_segments, last.looks, last.has_dead_rows
            cuts, ends = last.cuts, last.ends
        else:
            videos = _read_videos(tx)
            files, embeddings, dead = _read_files(tx, self._place.root)
            holdings = _read_holdings(tx)
            segments = tx.tuples(_LIVE)
            live = np.array([segment for segment, *_ in segments], np.int32)
            looks = tuple(look for _, look, *_ in segments)
            cuts = _packed({segment: np.frombuffer(cut, CUT) for segment, _, cut, _ in segments if cut})
            ends = _ends_of([end for *_, end in segments])
        if same_album and last is not None:
            entities, albums = last.entities, last.albums
        else:
            entities, albums = _read_album(tx)
        return Snapshot(
            self._place.root,
            self._library_id,
            data,
            album,
            setting,
            videos,
            files,
            embeddings,
            holdings,
            live,
            dead,
            entities,
            settings.read_all(tx),
            albums,
            lease,
            last.zones if last is not None and last.settings_version == setting else shapes.zones(tx),
            looks,
            cuts,
            ends,
            last.seen if same_data and same_album and last is not None else live_places(tx),
        )

    def forget(self) -> None:
        """Let go of the last snapshot, and of its files with it unless someone else holds it."""
        self._last = None


def _take_lease(place: Place) -> FileLock | None:
    # A library on a read-only file system cannot be swept from here, and has no place for a lease.
    if not place.catalog.writable:
        return None
    try:
        return FileLock.take(place.locks / f"reader-{os.getpid()}-{uuid.uuid4().hex}.lock")
    except OSError:
        return None  # a full disk can still be queried; the sweep's grace has to do


def _versions(tx: Transaction) -> tuple[int, int, int]:
    found = {name: int(value) for name, value in tx.tuples(_VERSIONS)}
    return found["data"], found["album"], found["settings"]


def _packed(cuts: Mapping[int, NDArray[np.int32]]) -> NDArray[np.int64]:
    """The frames of segments, which come in order, in one array."""
    return np.concatenate([np.zeros(0, np.int64), *(pack_ids(*one) for one in cuts.items())])


def _ends_of(stored: Sequence[bytes | None]) -> NDArray[np.uint8]:
    """(S, 2, 9, 16) what the catalog holds of some segments; of those without, 0."""
    unknown = bytes(prod(ENDS_SHAPE))
    joined = b"".join(unknown if ends is None else ends for ends in stored)
    return np.frombuffer(joined, np.uint8).reshape(len(stored), *ENDS_SHAPE)


def _read_videos(tx: Transaction) -> pa.Table:
    rows = [(*row, _local(row[8], row[10]), _local(row[8], "UTC")) for row in tx.tuples(_VIDEOS)]
    columns = zip(*rows, strict=True) if rows else ([] for _ in VIDEOS)
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, VIDEOS, strict=True)]
    return pa.table(arrays, schema=VIDEOS)


def _local(unix: float | None, zone: str | None) -> datetime | None:
    """What the camera's wall clock showed at the start; from there on a video's clock just runs on."""
    if unix is None:
        return None
    return datetime.fromtimestamp(unix, UTC).astimezone(zone_named(zone or "UTC")).replace(tzinfo=None)


def _read_files(
    tx: Transaction, root: Path
) -> tuple[dict[str, list[str]], dict[tuple[str, int], tuple[DataFile, ...]], bool]:
    dead = {row[0] for row in tx.rows(_FILES_WITH_DEAD_ROWS)}
    files: dict[str, list[str]] = {table: [] for table in TABLES}
    embeddings: dict[tuple[str, int], list[DataFile]] = defaultdict(list)
    folder = f"{root}/"
    for table, path in tx.tuples(_FILES):
        files[table].append(folder + path)
    for path, file_id, rows, model_hash, exit, dim in tx.tuples(_EMBEDDINGS):
        file = DataFile(folder + path, rows, file_id in dead, model_hash, exit, dim)
        files["embeddings"].append(file.path)
        embeddings[model_hash, exit].append(file)
    return files, {key: tuple(found) for key, found in embeddings.items()}, bool(dead)


def _read_holdings(tx: Transaction) -> dict[tuple[str | None, int | None], Holding]:
    grouped: dict[tuple[str | None, int | None], list[tuple[int, int]]] = defaultdict(list)
    for model_hash, exit, segment, rows in tx.tuples(_SEGMENT_ROWS):
        grouped[model_hash, exit].append((segment, rows))
    holdings = {}
    for key, found in grouped.items():
        columns = np.array(found, np.int64)  # (S, 2)
        holdings[key] = Holding(columns[:, 0].astype(np.int32), columns[:, 1])
    return holdings


def _read_album(tx: Transaction) -> tuple[pa.Table, dict[tuple[str, int], Album]]:
    rows = tx.rows(_ENTITIES)
    names = tuple(row.name for row in rows)
    position = {row.entity_id: i for i, row in enumerate(rows)}
    counts = [field.name for field in ENTITIES if field.name not in ("entity", "category")]
    columns = {name: [getattr(row, name) for row in rows] for name in counts}
    told = [bool(row.category) for row in rows]
    entities = pa.table({"entity": names, "category": told, **columns}, schema=ENTITIES)
    categories = frozenset(row.name for row in rows if row.category)
    grouped: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in tx.rows(_VECTORS):
        grouped[row[0], row[1]].append(row)
    albums = {key: _album_of(names, categories, position, found) for key, found in grouped.items()}
    return entities, albums


def _album_of(
    names: tuple[str, ...], categories: frozenset[str], position: Mapping[int, int], rows: list[Any]
) -> Album:
    views = np.array([row.views for row in rows], np.int64)
    vectors = np.frombuffer(b"".join(row.vectors for row in rows), np.float32)
    return Album(
        names,
        np.repeat(np.array([position[row.entity_id] for row in rows], np.int32), views),
        np.repeat(np.array([row.exemplar_id for row in rows], np.int64), views),
        np.repeat(np.array([row.negative for row in rows], np.bool_), views),
        np.repeat(np.array([row.denied for row in rows], np.bool_), views),
        vectors.reshape(int(views.sum()), -1),
        categories,
    )
