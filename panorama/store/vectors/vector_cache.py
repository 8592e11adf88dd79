"""Listed Parquet files come in; the vectors of one exit go out as memory-mapped rows, cached as raw arrays.

The cache is disposable. Its key is the model hash, the exit and the names of the files it was made from,
which are never used again. Missing rows are appended. If anything does not fit (sizes, checksums, the model),
the cache is made again from the Parquet files.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.store.ascending import rows_in
from panorama.store.files.layout import INDEX, write_atomically
from panorama.store.files.locks import held_within
from panorama.store.files.lost import FEW_ROWS, ListedFile
from panorama.store.files.own_names import CACHE_FILE, HALF_CACHE_FILE, files_named
from panorama.store.files.schema import segment_of, vectors_of
from panorama.store.files.segments import file_safe
from panorama.store.snapshot import DataFile, Snapshot

FORMAT = 4
MANIFEST = "manifest.json"
_KINDS = ("crops", "tracks", "prints", "vectors")
ROW = np.dtype([("crop_id", np.int64), ("print", np.uint64)])
"""Identifies a stored vector: its crop, and a fingerprint of the vector (see `prints_of`)."""
_COLUMNS = ["crop_id", "track_id", "vector"]
_SAMPLE_BYTES = 4096
_SAMPLE_EVERY = 1 << 20
_MOST_SAMPLES = 1024
_WEIGHT = 0x9E3779B97F4A7C15
LEAST_USE = 0.8
"""The cache is rewritten if less than this share of its rows is still needed."""
WAIT_SECONDS = 5.0
"""So long a query waits for another process that writes to `index/`, which may be suspended. Then it reads
the data files instead."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Crops with their vectors, as a struct of arrays.

    Attributes:
        crop_ids, track_ids: (N,) int64.
        prints: (N,) uint64, fingerprints of the vectors, see `prints_of`.
        vectors: (N, dim) float32.
    """

    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    prints: NDArray[np.uint64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.crop_ids)

    def __getitem__(self, pick: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        return Rows(self.crop_ids[pick], self.track_ids[pick], self.prints[pick], self.vectors[pick])

    @classmethod
    def concat(cls, parts: Sequence[Rows], dim: int) -> Rows:
        """The rows of several parts, in order."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(p.crop_ids for p in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(p.track_ids for p in parts)]),
            np.concatenate([np.zeros(0, np.uint64), *(p.prints for p in parts)]),
            np.concatenate([np.zeros((0, dim), np.float32), *(p.vectors for p in parts)]),
        )


def prints_of(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Fingerprints (N,) of vectors (N, dim): different vectors differ in them but for chance (2**-64).

    A crop id alone does not identify a crop for ever: after an older catalog was restored, it is given again.
    """
    rows = np.ascontiguousarray(vectors, np.float32)
    if rows.shape[1] % 2:
        rows = np.pad(rows, ((0, 0), (0, 1)))
    weights = np.multiply.accumulate(np.full(rows.shape[1] // 2, _WEIGHT, np.uint64))  # wraps around; all odd
    return np.einsum("nd,d->n", rows.view(np.uint64), weights)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows [start, stop) of the cache: those of one file, without crops that were in earlier parts."""

    file: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a cache holds; its file is replaced as a whole after the rows that it counts are written."""

    format: int
    model_hash: str
    exit: int
    dim: int
    generation: int
    data_version: int
    parts: tuple[Part, ...]
    check: int

    @property
    def rows(self) -> int:
        return self.parts[-1].stop if self.parts else 0


def cache_folder(root: Path, model_hash: str, exit: int) -> Path:
    """The folder for cache and inverted file of one exit of one model."""
    return root / INDEX / f"{file_safe(model_hash)}-e{exit}"


def load_rows(snapshot: Snapshot, model_hash: str, exit: int) -> Rows:
    """All live rows at an exit, each crop once, in the order of the files; mapped if possible.

    Raises:
        ValueError: the files have vectors of different lengths.
        LibraryDamaged: a data file cannot be read.
    """
    files = snapshot.embeddings.get((model_hash, exit), ())
    dims = {file.dim for file in files}
    if len(dims) > 1:
        raise ValueError(
            f"vectors of {model_hash} exit {exit} have one length, found {sorted(map(str, dims))}"
        )
    dim = next(iter(dims), None) or 0
    if not files:
        return Rows.concat([], dim)
    folder = cache_folder(snapshot.root, model_hash, exit)
    found = _open(folder, model_hash, exit, dim)
    if found is None or not _serves(found[0], files, snapshot):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with held_within(folder / "lock", WAIT_SECONDS):
                found = _update(folder, snapshot, model_hash, exit, dim, files, found)
        except OSError:
            # No room or no permission for the cache, or its lock is held: answers do not depend on it.
            found = None
    if found is None:
        return _unique(Rows.concat([_live(rows, snapshot) for rows in _read(files)], dim))
    return _select(*found, files, snapshot)


def _serves(manifest: Manifest, files: Sequence[DataFile], snapshot: Snapshot) -> bool:
    """Whether the cache holds all rows of `files` and not too many others."""
    wanted = {file.name for file in files}
    mine = [part for part in manifest.parts if part.file in wanted]
    if len(mine) < len(wanted):
        return False
    # If others have updated the cache beyond this snapshot, leave the clean-up to them.
    rows = sum(part.stop - part.start for part in mine)
    return rows >= LEAST_USE * manifest.rows or snapshot.data_version < manifest.data_version


def _update(
    folder: Path,
    snapshot: Snapshot,
    model_hash: str,
    exit: int,
    dim: int,
    files: Sequence[DataFile],
    seen: tuple[Manifest, Rows] | None,
) -> tuple[Manifest, Rows] | None:
    """The cache after adding what it lacks; None if it serves a newer snapshot. Needs the cache's lock.

    Args:
        seen: the cache as it was before the lock was taken.
    """
    fresh = Manifest(FORMAT, model_hash, exit, dim, _next(folder), snapshot.data_version, (), 0)
    found = _open(folder, model_hash, exit, dim, seen)  # again, now under the lock
    none = np.zeros(0, np.int64)
    if found is None:
        return _write(folder, fresh, files, {}, none)
    manifest, rows = found
    if _serves(manifest, files, snapshot):
        return found
    if snapshot.data_version < manifest.data_version:
        return None
    wanted = {file.name for file in files}
    known = {part.file: rows[part.start : part.stop] for part in manifest.parts}
    kept = sum(len(known[name]) for name in wanted & known.keys())
    if kept < LEAST_USE * manifest.rows:
        return _write(folder, fresh, files, known, none)
    newer = replace(manifest, data_version=snapshot.data_version)
    have = np.concatenate([none, *(rows.crop_ids for name, rows in known.items() if name in wanted)])
    added = [file for file in files if file.name not in known]
    few = sum(file.rows for file in added) <= FEW_ROWS
    read = {file.name: Rows.concat(list(_read([file])), dim) for file in added} if few else {}
    return _write(folder, newer, added, read, have)


def _write(
    folder: Path,
    manifest: Manifest,
    files: Sequence[DataFile],
    known: Mapping[str, Rows],
    have: NDArray[np.int64],
) -> tuple[Manifest, Rows]:
    """Append the rows of `files`, taken from `known` if there, and list them in the manifest.

    Args:
        manifest: of the cache to append to.
        have: crops that the cache already holds from files that are still listed. Crops of unlisted files do
            not count: compaction wrote them into one of `files`.
    """
    parts = list(manifest.parts)
    paths = [folder / f"g{manifest.generation}.{kind}" for kind in _KINDS]
    first = _first_of_each(have, files, known)
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(path.open("ab")) for path in paths]
        for out, width in zip(outs, (8, 8, 8, 4 * manifest.dim), strict=True):
            if out.tell() != manifest.rows * width:
                out.truncate(manifest.rows * width)  # left behind by a killed append
        stop = manifest.rows
        for file in files:
            start = stop
            for rows in [known[file.name]] if file.name in known else _read([file]):
                keep, first = first[: len(rows)], first[len(rows) :]
                fresh = rows if keep.all() else rows[keep]
                columns = fresh.crop_ids, fresh.track_ids, fresh.prints, fresh.vectors
                for out, column in zip(outs, columns, strict=True):
                    out.write(np.ascontiguousarray(column).data)
                stop += len(fresh)
            parts.append(Part(file.name, start, stop))
    done = replace(manifest, parts=tuple(parts))
    mapped = _map(folder, done)
    done = replace(done, check=_checksum(mapped))
    # Not synced to disk: `_open` notices rows or a manifest that a power cut has taken.
    write_atomically(folder / MANIFEST, json.dumps(asdict(done)).encode(), durable=False)
    for old in (*files_named(folder, CACHE_FILE), *files_named(folder, HALF_CACHE_FILE)):
        if old not in paths:
            old.unlink(missing_ok=True)
    return done, mapped


def _first_of_each(
    have: NDArray[np.int64], files: Sequence[DataFile], known: Mapping[str, Rows]
) -> NDArray[np.bool_]:
    """For the rows of `files` in order: whether the crop appears for the first time."""
    ids = [known[file.name].crop_ids if file.name in known else _crop_ids(file) for file in files]
    new = np.concatenate([have[:0], *ids])
    if len(new):
        have = have[(have >= new.min()) & (have <= new.max())]  # usually none: files of new videos
    whole = np.concatenate([have, new])
    fresh = np.zeros(len(whole), np.bool_)
    fresh[np.unique(whole, return_index=True)[1]] = True
    return fresh[len(have) :]


def _crop_ids(file: DataFile) -> NDArray[np.int64]:
    with ListedFile(file.path) as parquet:
        return parquet.read(columns=["crop_id"]).column("crop_id").to_numpy()


def _open(
    folder: Path, model_hash: str, exit: int, dim: int, seen: tuple[Manifest, Rows] | None = None
) -> tuple[Manifest, Rows] | None:
    """The cache, or None if there is none that fits and can be trusted; `seen` if it is unchanged."""
    manifest = _manifest(folder)
    if manifest is None:
        return None
    if seen is not None and seen[0] == manifest:
        return seen
    if (manifest.format, manifest.model_hash, manifest.exit, manifest.dim) != (FORMAT, model_hash, exit, dim):
        return None
    try:
        rows = _map(folder, manifest)
    except (OSError, ValueError):
        return None
    return (manifest, rows) if _checksum(rows) == manifest.check else None


def _manifest(folder: Path) -> Manifest | None:
    try:
        raw = json.loads((folder / MANIFEST).read_text())
        return Manifest(**{**raw, "parts": tuple(Part(**part) for part in raw["parts"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_made_of(folder: Path, files: Collection[str]) -> bool:
    """Whether the files of a cache hold only rows of the given data files, by name."""
    try:
        held = {path.name: path.stat().st_size for path in files_named(folder, CACHE_FILE)}
    except FileNotFoundError:  # index/ may be deleted at any time
        return False
    manifest = _manifest(folder)
    if manifest is None:
        return not held
    widths = zip(_KINDS, (8, 8, 8, 4 * manifest.dim), strict=True)
    counted = {f"g{manifest.generation}.{kind}": manifest.rows * width for kind, width in widths}
    return held == counted and all(part.file in files for part in manifest.parts)


def _map(folder: Path, manifest: Manifest) -> Rows:
    n = manifest.rows
    if not n:
        return Rows.concat([], manifest.dim)
    crops, tracks, prints, vectors = (folder / f"g{manifest.generation}.{kind}" for kind in _KINDS)
    return Rows(
        _mapped(crops, np.dtype(np.int64), (n,)),
        _mapped(tracks, np.dtype(np.int64), (n,)),
        _mapped(prints, np.dtype(np.uint64), (n,)),
        _mapped(vectors, np.dtype(np.float32), (n, manifest.dim)),
    )


def _mapped(path: Path, kind: np.dtype, shape: tuple[int, ...]) -> NDArray:
    # As a plain array: the bookkeeping of np.memmap costs more than a small slice.
    return np.asarray(np.memmap(path, kind, "r", shape=shape))


def _next(folder: Path) -> int:
    used = [int(path.name[1:].split(".")[0]) for path in files_named(folder, CACHE_FILE)]
    return max(used, default=0) + 1


def _checksum(rows: Rows) -> int:
    """A checksum of all ids and of a sample of the vectors: reading all would cost more than it protects."""
    check = zlib.crc32(rows.prints.data, zlib.crc32(rows.track_ids.data, zlib.crc32(rows.crop_ids.data)))
    if len(rows):
        flat = rows.vectors.reshape(-1).view(np.uint8)
        every = max(_SAMPLE_EVERY, len(flat) // _MOST_SAMPLES // _SAMPLE_BYTES * _SAMPLE_BYTES)
        for start in range(0, len(flat), every):
            check = zlib.crc32(flat[start : start + _SAMPLE_BYTES].data, check)
        check = zlib.crc32(flat[-_SAMPLE_BYTES:].data, check)
    return check


def _select(manifest: Manifest, rows: Rows, files: Sequence[DataFile], snapshot: Snapshot) -> Rows:
    """The rows of `files` in live segments; without a copy if they are contiguous and all live."""
    wanted = {file.name for file in files}
    spans: list[tuple[int, int]] = []
    for part in manifest.parts:
        if part.file not in wanted or part.start == part.stop:
            continue
        if spans and spans[-1][1] == part.start:
            spans[-1] = (spans[-1][0], part.stop)
        else:
            spans.append((part.start, part.stop))
    mine = Rows.concat([rows[start:stop] for start, stop in spans], manifest.dim)
    return _live(mine, snapshot) if any(file.dead_rows for file in files) else mine


def _live(rows: Rows, snapshot: Snapshot) -> Rows:
    live = rows_in(snapshot.live_segments, segment_of(rows.crop_ids)) >= 0
    return rows if live.all() else rows[live]


def _read(files: Sequence[DataFile]) -> Iterator[Rows]:
    for file in files:
        with ListedFile(file.path) as parquet:
            for number in range(parquet.num_row_groups):
                group = parquet.read_row_group(number, columns=_COLUMNS, use_threads=file.rows > FEW_ROWS)
                vectors = vectors_of(group.column("vector"))
                crop_ids, track_ids = group.column("crop_id").to_numpy(), group.column("track_id").to_numpy()
                yield Rows(crop_ids, track_ids, prints_of(vectors), vectors)


def _unique(rows: Rows) -> Rows:
    """Each crop once, its first row: two processes may have embedded it at the same time."""
    _, first = np.unique(rows.crop_ids, return_index=True)
    return rows if len(first) == len(rows) else rows[np.sort(first)]
