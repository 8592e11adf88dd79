"""The catalog comes in; a snapshot, with frozen lists of videos, files and exemplars, goes out."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.store.ascending import looked_up
from panorama.store.catalog import picture_clocks, settings
from panorama.store.catalog import zones as shapes
from panorama.store.catalog.album_views import Album, read_album
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import UNREADABLE, Column
from panorama.store.catalog.recorded import INDEXED_AT, STARTS, time_zones
from panorama.store.catalog.seen import SeenPlaces, live_places
from panorama.store.catalog.zones import Zone
from panorama.store.files.layout import Place
from panorama.store.files.locks import FileLock
from panorama.store.files.own_names import check_data_files
from panorama.store.files.schema import CUT, ENDS_SHAPE, TABLES, pack_ids

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
        pa.field("root", pa.string(), nullable=False),
        pa.field("indexed_at", pa.timestamp("us"), nullable=False),
        pa.field("start_clock", pa.timestamp("us")),
        pa.field("start_utc", pa.timestamp("us")),
        pa.field("clock_key", pa.int64()),
        pa.field("first_clock", pa.timestamp("us")),
        pa.field("last_clock", pa.timestamp("us")),
        pa.field("undated_pictures", pa.int64()),
    ]
)
_VERSIONS = "SELECT name, value FROM counters"
_VIDEOS = """
SELECT name, uri, camera, duration, width, height, frames, segment_id, start_time_unix, decode_note,
       time_zone, time_from, size, content_sample, root, indexed_at
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


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file that the catalog lists.

    Attributes:
        path: absolute; the file name is never used again, see `FileSet`.
        rows: number of rows in the file.
        dead_rows: whether it also holds rows of segments that are not live (see `Snapshot.live_segments`).
        model_hash, exit, dim: of embeddings; None for other tables.
    """

    path: str
    rows: int
    dead_rows: bool = False
    model_hash: str | None = None
    exit: int | None = None
    dim: int | None = None

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Holding:
    """How many rows of one kind each live segment has; segments without rows are left out.

    Attributes:
        segments: (S,) int32, ascending.
        rows: (S,) int64.
    """

    segments: NDArray[np.int32]
    rows: NDArray[np.int64]

    @property
    def total(self) -> int:
        """The total number of rows."""
        return int(self.rows.sum())

    def rows_of(self, segments: NDArray[np.int32]) -> NDArray[np.int64]:
        """(S,) the number of rows of each given segment."""
        return looked_up(self.segments, self.rows, segments, 0)


@dataclass(frozen=True)
class Snapshot:
    """What the library held at one moment.

    Its files stay on disk while this object lives, if it has a `lease`; erasing deletes them nevertheless.

    Attributes:
        root: the library's directory.
        data_version, album_version, settings_version: rise with every change of videos, files or segments; of
            entities or exemplars; of calibration, settings or zones.
        videos: columns of the relation `videos`, and segment, root, start_time_unix, decode_note, size;
            clock_key and what follows it are null unless pictures have times of their own.
        picture_clocks: when pictures of folders were taken, see `picture_clocks.PICTURE_CLOCKS`.
        picture_spans: the times of those that are not in order, see `picture_clocks.PICTURE_SPANS`.
        files: absolute paths of the Parquet files by table, for DuckDB; empty for a table without rows.
        embeddings: files by (model_hash, exit).
        holdings: rows of live segments: crops under (None, None), vectors under (model_hash, exit).
        live_segments: (S,) int32 sorted. If `has_dead_rows`, files that hold several segments may also have
            rows of other segments: join with `videos` on segment, or filter by this.
        albums: the exemplars by (model_hash, exit).
        lease: tells sweeps which files to keep; None if it could not be made, as in a read-only library.
        looks: the hash of the settings that each live segment was made with.
        cuts: (C,) int64 ascending, `segment << 32 | frame` of the frames that begin a new shot.
        ends: (S, 2, 9, 16) uint8, first and last picture of each live segment, 0 if unknown (see
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
    picture_clocks: pa.Table = field(default_factory=lambda: picture_clocks.NONE.table, repr=False)
    picture_spans: pa.Table = field(default_factory=lambda: picture_clocks.NONE.unordered, repr=False)

    @property
    def version(self) -> str:
        """The version, part of every cache key: snapshots with equal versions give equal answers."""
        return f"{self.library_id}:{self.data_version}.{self.album_version}.{self.settings_version}"

    @property
    def entity_names(self) -> tuple[str, ...]:
        """All names of entities, sorted."""
        return tuple(self.entities.column("entity").to_pylist())

    def album(self, model_hash: str, exit: int) -> Album:
        """The exemplars with their vectors at one exit of one model."""
        return self.albums.get((model_hash, exit)) or Album.empty(self.entity_names)

    def crops(self) -> Holding:
        """How many crops each live segment has."""
        return self.holdings.get((None, None), _NOTHING)

    def vectors(self, model_hash: str, exit: int) -> Holding:
        """How many vectors each live segment has at an exit; a crop that was embedded twice counts twice."""
        return self.holdings.get((model_hash, exit), _NOTHING)

    def unembedded(self, model_hash: str) -> NDArray[np.int32]:
        """(S,) live segments with fewer vectors at a model's first exit than crops, see `vectors`."""
        crops = self.crops()
        return crops.segments[crops.rows > self.vectors(model_hash, 1).rows_of(crops.segments)]


_NOTHING = Holding(np.zeros(0, np.int32), np.zeros(0, np.int64))


class Snapshots:
    """Takes snapshots; each shares the unchanged parts with the one before."""

    def __init__(self, place: Place, library_id: str) -> None:
        self._place = place
        self._library_id = library_id
        self._last: Snapshot | None = None
        self._clocks = picture_clocks.NONE
        self._is_over = False

    def take(self) -> Snapshot:
        """The library as it is now; the previous snapshot if nothing has changed."""
        last = self._last
        with self._place.catalog.read() as tx:
            versions = _versions(tx)
        if last is not None and versions == (last.data_version, last.album_version, last.settings_version):
            return last
        # Take the lease before the list is read: otherwise a sweep could delete listed files in between.
        lease = _take_lease(self._place)
        with self._place.catalog.read() as tx:
            taken = self._read(tx, last, lease)
        if lease is not None:
            # Until this is written, or if it cannot be, the lease is empty and protects every retired file.
            with contextlib.suppress(OSError):
                lease.write(str(taken.data_version))
        self._last = taken
        if self._is_over:  # another thread closed the library in the meantime
            self._last = None
        return taken

    def _read(self, tx: Transaction, last: Snapshot | None, lease: FileLock | None) -> Snapshot:
        data, album, setting = _versions(tx)
        same_data = last is not None and last.data_version == data
        same_album = last is not None and last.album_version == album
        if same_data and last is not None:
            videos, files, embeddings = last.videos, last.files, last.embeddings
            clocked, spanned = last.picture_clocks, last.picture_spans
            holdings = last.holdings
            live, looks, dead = last.live_segments, last.looks, last.has_dead_rows
            cuts, ends = last.cuts, last.ends
        else:
            self._clocks = clocks = picture_clocks.read_clocks(tx, self._clocks)
            videos, clocked, spanned = _read_videos(tx, clocks), clocks.table, clocks.unordered
            files, embeddings, dead = _read_files(tx, self._place.root)
            holdings = _read_holdings(tx)
            segments = tx.tuples(_LIVE)
            live = np.array([segment for segment, *_ in segments], np.int32)
            looks = tuple(look for _, look, *_ in segments)
            cut = [segment for segment in segments if segment[2]]
            found = _CUTS.of(tx, ((segment, held) for segment, _, held, _ in cut))
            cuts = _packed(dict(zip([segment for segment, *_ in cut], found, strict=True)))
            ends = _ends_of(_ENDS.of(tx, ((segment, held) for segment, *_, held in segments)))
        if same_album and last is not None:
            entities, albums = last.entities, last.albums
        else:
            entities, albums = read_album(tx)
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
            clocked,
            spanned,
        )

    def forget(self) -> None:
        """Drop the last snapshot; its files are no longer protected unless somebody else holds it."""
        self._last = None

    def close(self) -> None:
        """Drop the last snapshot and keep none from now on."""
        self._is_over = True
        self._last = None


def _take_lease(place: Place) -> FileLock | None:
    # A library opened for reading only may have no place for a lease; the grace time of sweeps must suffice.
    if not place.catalog.writable:
        return None
    try:
        return FileLock.take(place.locks / f"reader-{os.getpid()}-{uuid.uuid4().hex}.lock")
    except OSError:
        return None  # a full disk can still be queried; the grace time of sweeps must suffice


def _versions(tx: Transaction) -> tuple[int, int, int]:
    rows = tx.tuples(_VERSIONS)
    found = dict(zip([name for name, _ in rows], _COUNTS.of(tx, rows), strict=True))
    return found["data"], found["album"], found["settings"]


_COUNTS = Column("counters.value", lambda _, value: int(value), lambda name: f"the counter {name!r}")


def _packed(cuts: Mapping[int, NDArray[np.int32]]) -> NDArray[np.int64]:
    """The cuts of segments, given in ascending order, as one array (see `Snapshot.cuts`)."""
    return np.concatenate([np.zeros(0, np.int64), *(pack_ids(*one) for one in cuts.items())])


def _ends_of(stored: Sequence[bytes]) -> NDArray[np.uint8]:
    """(S, 2, 9, 16) the stored ends of some segments as an array."""
    return np.frombuffer(b"".join(stored), np.uint8).reshape(len(stored), *ENDS_SHAPE)


def _end_bytes(_: int, held: bytes | None) -> bytes:
    """The stored ends of a segment; zeros if it has none."""
    size = prod(ENDS_SHAPE)
    if held is not None and len(held) != size:
        raise ValueError(f"they are {size}")
    return bytes(size) if held is None else held


_CUTS = Column("segments.cuts", lambda _, held: np.frombuffer(held, CUT), "the segment {}".format)
_ENDS = Column("segments.ends", _end_bytes, "the segment {}".format)


def _read_videos(tx: Transaction, clocks: picture_clocks.PictureClocks) -> pa.Table:
    rows = tx.tuples(_VIDEOS)
    names = [row[0] for row in rows]
    starts = STARTS.of(tx, ((row[0], row[8]) for row in rows))
    since = INDEXED_AT.of(tx, ((row[0], row[-1]) for row in rows))
    begun = [(row, start) for row, start in zip(rows, starts, strict=True) if start is not None]
    found = iter(time_zones(tx, [((row[0], start), row[10]) for row, start in begun]))
    rows = [
        (
            *(*row[:-1], indexed, *((None, None) if start is None else _clocks(start, next(found)))),
            *clocks.spans.get(row[0], (None, None, None, None)),
        )
        for row, indexed, start in zip(rows, since, starts, strict=True)
    ]
    columns = zip(*rows, strict=True) if rows else ([] for _ in VIDEOS)
    arrays = [_column(tx, kind, names, values) for values, kind in zip(columns, VIDEOS, strict=True)]
    return pa.table(arrays, schema=VIDEOS)


def _column(tx: Transaction, kind: pa.Field, names: Sequence[str], values: Sequence[Any]) -> pa.Array:
    """A column of `videos`; the error for a value of another type names the video."""
    try:
        return pa.array(values, kind.type)
    except UNREADABLE:
        # Find the bad value one by one only now: libraries have many thousands of videos.
        each = Column(f"videos.{kind.name}", lambda _, v: pa.scalar(v, kind.type), "the video {!r}".format)
        each.of(tx, zip(names, values, strict=True))
        raise


def _clocks(unix: float, zone: tzinfo) -> tuple[datetime, datetime]:
    """What the camera's clock and UTC showed at the start; during a video, its clock just runs on."""
    moment = datetime.fromtimestamp(unix, UTC)
    return moment.astimezone(zone).replace(tzinfo=None), moment.replace(tzinfo=None)


def _read_files(
    tx: Transaction, root: Path
) -> tuple[dict[str, list[str]], dict[tuple[str, int], tuple[DataFile, ...]], bool]:
    dead = {row[0] for row in tx.rows(_FILES_WITH_DEAD_ROWS)}
    files: dict[str, list[str]] = {table: [] for table in TABLES}
    embeddings: dict[tuple[str, int], list[DataFile]] = defaultdict(list)
    folder = f"{root}/"
    found, embedded = tx.tuples(_FILES), tx.tuples(_EMBEDDINGS)
    check_data_files(root, [path for _, path in found])
    check_data_files(root, [path for path, *_ in embedded])
    for table, path in found:
        files[table].append(folder + path)
    for path, file_id, rows, model_hash, exit, dim in embedded:
        file = DataFile(folder + path, rows, file_id in dead, model_hash, exit, dim)
        files["embeddings"].append(file.path)
        embeddings[model_hash, exit].append(file)
    return files, {key: tuple(group) for key, group in embeddings.items()}, bool(dead)


def _read_holdings(tx: Transaction) -> dict[tuple[str | None, int | None], Holding]:
    grouped: dict[tuple[str | None, int | None], list[tuple[int, int]]] = defaultdict(list)
    for model_hash, exit, segment, rows in tx.tuples(_SEGMENT_ROWS):
        grouped[model_hash, exit].append((segment, rows))
    holdings = {}
    for key, found in grouped.items():
        columns = np.array(found, np.int64)  # (S, 2)
        holdings[key] = Holding(columns[:, 0].astype(np.int32), columns[:, 1])
    return holdings
