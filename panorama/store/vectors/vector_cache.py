"""Vectors of one exit as raw arrays on disk: listed Parquet files enter, memory-mapped rows leave.

The cache is disposable. It is keyed by model hash, exit and the names of the files it was made from, which
are never given again; what is missing is appended, and anything that does not add up (sizes, checksums, a
model) makes it anew from the Parquet files.
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
from panorama.store.files.locks import held
from panorama.store.files.lost import FEW_ROWS, ListedFile
from panorama.store.files.own_names import CACHE_FILE, HALF_CACHE_FILE, files_named
from panorama.store.files.schema import segment_of, vectors_of
from panorama.store.files.segments import file_safe
from panorama.store.snapshot import DataFile, Snapshot

FORMAT = 4
MANIFEST = "manifest.json"
_KINDS = ("crops", "tracks", "prints", "vectors")
ROW = np.dtype([("crop_id", np.int64), ("print", np.uint64)])
"""What a vector is known by: the crop, and a number that is made of it (see `prints_of`)."""
_COLUMNS = ["crop_id", "track_id", "vector"]
_SAMPLE_BYTES = 4096
_SAMPLE_EVERY = 1 << 20
_MOST_SAMPLES = 1024
_WEIGHT = 0x9E3779B97F4A7C15
LEAST_USE = 0.8
"""A cache is written anew when less than this share of its rows is still wanted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Crops with their vectors, as a struct of arrays.

    Attributes:
        crop_ids, track_ids: (N,) int64.
        prints: (N,) uint64 of the vectors, see `prints_of`.
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
        """All rows of several lists, in order."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(p.crop_ids for p in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(p.track_ids for p in parts)]),
            np.concatenate([np.zeros(0, np.uint64), *(p.prints for p in parts)]),
            np.concatenate([np.zeros((0, dim), np.float32), *(p.vectors for p in parts)]),
        )


def prints_of(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Numbers (N,) by which vectors (N, dim) are known again: others have others, but for one in 2**64.

    A crop's number does not tell it for good: where an older catalog was put back, another crop gets it.
    """
    rows = np.ascontiguousarray(vectors, np.float32)
    if rows.shape[1] % 2:
        rows = np.pad(rows, ((0, 0), (0, 1)))
    weights = np.multiply.accumulate(np.full(rows.shape[1] // 2, _WEIGHT, np.uint64))  # wraps, all odd
    return np.einsum("nd,d->n", rows.view(np.uint64), weights)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows [start, stop) of the cache came from the file of that name, without crops that came before."""

    file: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a cache holds; it is replaced as a whole after the rows that it counts are on disk."""

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
    """Where the accelerators of one exit of one model lie."""
    return root / INDEX / f"{file_safe(model_hash)}-e{exit}"


def load_rows(snapshot: Snapshot, model_hash: str, exit: int) -> Rows:
    """All live rows at an exit, each crop once, in the order of the files; mapped where possible."""
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
            with held(folder / "lock"):
                found = _update(folder, snapshot, model_hash, exit, dim, files, found)
        except OSError:
            # No room or no permission for a cache: answers do not depend on it.
            found = None
    if found is None:
        return _unique(Rows.concat([_live(rows, snapshot) for rows in _read(files)], dim))
    return _select(*found, files, snapshot)


def _serves(manifest: Manifest, files: Sequence[DataFile], snapshot: Snapshot) -> bool:
    """Whether all rows of `files` are in the cache, and not too many others."""
    wanted = {file.name for file in files}
    mine = [part for part in manifest.parts if part.file in wanted]
    if len(mine) < len(wanted):
        return False
    # A cache that others have brought further than this snapshot is theirs to tidy up.
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
    """The cache after adding what it lacks; None for a snapshot older than what the cache serves.

    Args:
        seen: the cache as it was a moment ago.
    """
    fresh = Manifest(FORMAT, model_hash, exit, dim, _next(folder), snapshot.data_version, (), 0)
    found = _open(folder, model_hash, exit, dim, seen)  # again, now that nobody else changes it
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
    """Append the rows of `files`, taken from `known` where there, and make them count.

    Args:
        have: crops that listed files before these hold. Those of files that are not listed any more do not
            count: compaction wrote them into one of `files`.
    """
    parts = list(manifest.parts)
    paths = [folder / f"g{manifest.generation}.{kind}" for kind in _KINDS]
    first = _first_of_each(have, files, known)
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(path.open("ab")) for path in paths]
        for out, width in zip(outs, (8, 8, 8, 4 * manifest.dim), strict=True):
            if out.tell() != manifest.rows * width:
                out.truncate(manifest.rows * width)  # what an append that was killed left behind
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
    # Nobody waits for the disk: rows or a manifest that a power cut took are missed when it is opened.
    write_atomically(folder / MANIFEST, json.dumps(asdict(done)).encode(), durable=False)
    for old in (*files_named(folder, CACHE_FILE), *files_named(folder, HALF_CACHE_FILE)):
        if old not in paths:
            old.unlink(missing_ok=True)
    return done, mapped


def _first_of_each(
    have: NDArray[np.int64], files: Sequence[DataFile], known: Mapping[str, Rows]
) -> NDArray[np.bool_]:
    """For the rows of `files`, one after the other: whether the crop has not come before."""
    ids = [known[file.name].crop_ids if file.name in known else _crop_ids(file) for file in files]
    new = np.concatenate([have[:0], *ids])
    if len(new):
        have = have[(have >= new.min()) & (have <= new.max())]  # none, of a video that has just come
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
    """The cache, or None where there is none that can be trusted; `seen` where that is it still."""
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
    """Whether all that a cache's files hold was taken from some data files, by name."""
    held = {path.name: path.stat().st_size for path in files_named(folder, CACHE_FILE)}
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
    # A plain array over the map: np.memmap's bookkeeping costs more than a small slice.
    return np.asarray(np.memmap(path, kind, "r", shape=shape))


def _next(folder: Path) -> int:
    used = [int(path.name[1:].split(".")[0]) for path in files_named(folder, CACHE_FILE)]
    return max(used, default=0) + 1


def _checksum(rows: Rows) -> int:
    """Of all numbers and of a sample of the vectors: reading gigabytes would cost more than it protects."""
    check = zlib.crc32(rows.prints.data, zlib.crc32(rows.track_ids.data, zlib.crc32(rows.crop_ids.data)))
    if len(rows):
        flat = rows.vectors.reshape(-1).view(np.uint8)
        every = max(_SAMPLE_EVERY, len(flat) // _MOST_SAMPLES // _SAMPLE_BYTES * _SAMPLE_BYTES)
        for start in range(0, len(flat), every):
            check = zlib.crc32(flat[start : start + _SAMPLE_BYTES].data, check)
        check = zlib.crc32(flat[-_SAMPLE_BYTES:].data, check)
    return check


def _select(manifest: Manifest, rows: Rows, files: Sequence[DataFile], snapshot: Snapshot) -> Rows:
    """The rows of `files`, without those of segments that are not live; no copy where they lie together."""
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
    """Each crop once: two processes may have embedded it at the same time."""
    _, first = np.unique(rows.crop_ids, return_index=True)
    return rows if len(first) == len(rows) else rows[np.sort(first)]
