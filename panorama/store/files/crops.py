"""Crop ids or segments come in; the JPEG bytes of the stored crops go out in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.errors import LibraryDamaged, PanoramaError
from panorama.store.catalog.database import Transaction
from panorama.store.files.layout import Place
from panorama.store.files.lost import ListedFile
from panorama.store.files.own_names import check_data_files
from panorama.store.files.schema import CROPS, segment_of

_LISTED = """
SELECT fs.segment_id, f.path FROM files f JOIN file_segments fs ON fs.file_id = f.file_id
JOIN segments s ON s.segment_id = fs.segment_id
WHERE f.table_name = 'crops' AND f.retired_version IS NULL AND s.state = 'live'
AND fs.segment_id IN :segments ORDER BY f.file_id, fs.segment_id
"""
_LISTED_VECTORS = """
SELECT DISTINCT f.path FROM files f JOIN file_segments fs ON fs.file_id = f.file_id
WHERE f.table_name = 'embeddings' AND f.retired_version IS NULL AND f.model_hash = :model AND f.exit = :exit
AND fs.segment_id IN :segments ORDER BY f.file_id
"""
_CROP_ID = CROPS.get_field_index("crop_id")
"""The column of crop ids, in files of crops and of vectors alike."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Where crops of some segments lie, and their vectors at one exit; while it stays equal, so do both.

    Attributes:
        crops: live segments and the files that hold crops of them.
        vectors: the files that hold vectors of them.
    """

    crops: list[tuple[int, str]]
    vectors: list[str]


@dataclass(frozen=True, slots=True)
class CropBatch:
    """Some crops of the data file at `path`: crop and track ids, each (B,) int64, and B JPEG files."""

    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    jpegs: tuple[bytes, ...]
    path: Path

    def __len__(self) -> int:
        return len(self.crop_ids)


def read_crops(
    place: Place,
    crop_ids: NDArray[np.int64] | None = None,
    segments: NDArray[np.integer] | None = None,
    batch_size: int = 256,
    on_damage: Callable[[LibraryDamaged], None] | None = None,
) -> Iterator[CropBatch]:
    """Crops by id, or all of some segments, in file order; unknown ids and dead segments are left out.

    Args:
        on_damage: gets the error of a data file that is missing or cannot be read, whose other crops are left
            out. None: the error is raised.

    Raises:
        ValueError: both or neither of `crop_ids` and `segments` are given.
        LibraryDamaged: a data file is missing or cannot be read.
    """
    if (crop_ids is None) == (segments is None):
        raise ValueError("give crop_ids or segments, one of the two")
    wanted = None if crop_ids is None else np.unique(np.asarray(crop_ids, np.int64))
    numbers = np.unique(segment_of(wanted)) if wanted is not None else np.unique(np.asarray(segments))
    with place.catalog.read() as tx:
        listed = _listed(tx, numbers)
    live, paths = _apart(place, listed)
    for path in paths:
        try:
            yield from _file_crops(place.root / path, live, wanted, batch_size)
        except LibraryDamaged as exc:
            if on_damage is None:
                raise
            on_damage(exc)


def _file_crops(
    path: Path, live: NDArray[np.int32], wanted: NDArray[np.int64] | None, batch_size: int
) -> Iterator[CropBatch]:
    with ListedFile(path) as file:
        for group in range(file.num_row_groups):
            yield from _group_crops(path, file, group, live, wanted, batch_size)


def _listed(tx: Transaction, segments: NDArray[np.integer]) -> list[tuple[int, str]]:
    """Where the crops of some segments (S,) are; segments that are not live have none."""
    return [(row.segment_id, row.path) for row in tx.rows(_LISTED, segments=segments.tolist())]


def listing(tx: Transaction, segments: NDArray[np.integer], model_hash: str, exit: int) -> Listing:
    """Where crops and vectors of some segments (S,) lie now."""
    vectors = tx.rows(_LISTED_VECTORS, segments=segments.tolist(), model=model_hash, exit=exit)
    return Listing(_listed(tx, segments), [row.path for row in vectors])


def find_lacking(
    place: Place, crop_ids: NDArray[np.int64], model_hash: str, exit: int
) -> tuple[NDArray[np.bool_], Listing]:
    """Which of some crops (N,) are stored, in live segments, without a vector; and where that was read.

    A file of vectors that is lost has none.

    Raises:
        LibraryDamaged: a listed file of crops cannot be read.
    """
    segments = np.unique(segment_of(crop_ids))
    while True:
        with place.catalog.read() as tx:
            now = listing(tx, segments, model_hash, exit)
        try:
            return _are_stored(place, now, crop_ids) & ~_have_vectors(place, now, crop_ids), now
        except PanoramaError:
            with place.catalog.read() as tx:
                if listing(tx, segments, model_hash, exit) == now:
                    raise
            # A file was erased between the listing and its opening.


def _are_stored(place: Place, where: Listing, crop_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    live, paths = _apart(place, where.crops)
    held = [_ids_in(place.root / path, np.unique(crop_ids)) for path in paths]
    return np.isin(crop_ids, np.concatenate([crop_ids[:0], *held])) & np.isin(segment_of(crop_ids), live)


def _have_vectors(place: Place, where: Listing, crop_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    check_data_files(place.root, where.vectors)
    held = [crop_ids[:0]]
    for path in where.vectors:
        with suppress(LibraryDamaged):
            held.append(_ids_in(place.root / path, np.unique(crop_ids)))
    return np.isin(crop_ids, np.concatenate(held))


def _ids_in(path: Path, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The crop ids in a file, some of which may be among those wanted, ascending."""
    found = [wanted[:0]]
    with ListedFile(path) as file:
        for group in range(file.num_row_groups):
            if _may_hold(file, group, wanted):
                found.append(file.read_row_group(group, columns=["crop_id"]).column("crop_id").to_numpy())
    return np.concatenate(found)


def _apart(place: Place, listed: list[tuple[int, str]]) -> tuple[NDArray[np.int32], list[str]]:
    """The segments and the files of crops, each once."""
    paths = list(dict.fromkeys(path for _, path in listed))
    check_data_files(place.root, paths)
    return np.unique(np.array([segment for segment, _ in listed], np.int32)), paths


def _group_crops(
    path: Path,
    file: ListedFile,
    group: int,
    live: NDArray[np.int32],
    wanted: NDArray[np.int64] | None,
    batch_size: int,
) -> Iterator[CropBatch]:
    if wanted is not None and not _may_hold(file, group, wanted):
        return
    ids = file.read_row_group(group, columns=["segment", "crop_id"])
    mine = np.isin(ids.column("segment").to_numpy(), live)
    if wanted is not None:
        mine &= np.isin(ids.column("crop_id").to_numpy(), wanted)
    if not mine.any():
        return
    rows = file.read_row_group(group, columns=["crop_id", "track_id", "jpeg"]).filter(pa.array(mine))
    for start in range(0, len(rows), batch_size):
        part = rows.slice(start, batch_size)
        yield CropBatch(
            part.column("crop_id").to_numpy(),
            part.column("track_id").to_numpy(),
            tuple(part.column("jpeg").to_pylist()),
            path,
        )


def _may_hold(file: ListedFile, group: int, wanted: NDArray[np.int64]) -> bool:
    """Whether one of the sorted ids lies between the smallest and the largest crop id of a row group."""
    statistics = file.metadata.row_group(group).column(_CROP_ID).statistics
    if statistics is None:
        return True
    first = np.searchsorted(wanted, statistics.min)
    return bool(first < len(wanted) and wanted[first] <= statistics.max)
