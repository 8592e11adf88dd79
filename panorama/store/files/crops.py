"""Stored crops: crop ids or segments enter, JPEG bytes leave in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.errors import LibraryDamaged
from panorama.store.files.layout import Place
from panorama.store.files.lost import ListedFile
from panorama.store.files.own_names import check_data_files
from panorama.store.files.schema import CROPS, segment_of

_FILES_OF = """
SELECT DISTINCT f.path FROM files f JOIN file_segments fs ON fs.file_id = f.file_id
WHERE f.table_name = 'crops' AND f.retired_version IS NULL AND fs.segment_id IN :segments
ORDER BY f.file_id
"""
_LIVE = "SELECT segment_id FROM segments WHERE state = 'live' AND segment_id IN :segments"


@dataclass(frozen=True, slots=True)
class CropBatch:
    """Some crops: (B,) int64 ids and as many JPEG files, from the data file at `path`."""

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
    """Crops by id, or all of some segments, in the order of the files; unknown ids are left out.

    Args:
        on_damage: gets the error of a data file that is missing or cannot be read, whose other crops are left
            out. None: the error is raised.
    """
    if (crop_ids is None) == (segments is None):
        raise ValueError("give crop_ids or segments, one of the two")
    wanted = None if crop_ids is None else np.unique(np.asarray(crop_ids, np.int64))
    numbers = np.unique(segment_of(wanted)) if wanted is not None else np.unique(np.asarray(segments))
    with place.catalog.read() as tx:
        live = np.array([row[0] for row in tx.rows(_LIVE, segments=numbers.tolist())], np.int32)
        paths = [row.path for row in tx.rows(_FILES_OF, segments=live.tolist())]
    check_data_files(place.root, paths)
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
    """Whether the group's smallest and largest crop id admit one of the sorted ids."""
    statistics = file.metadata.row_group(group).column(CROPS.get_field_index("crop_id")).statistics
    if statistics is None:
        return True
    first = np.searchsorted(wanted, statistics.min)
    return bool(first < len(wanted) and wanted[first] <= statistics.max)
