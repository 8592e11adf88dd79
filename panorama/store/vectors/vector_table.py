"""A snapshot comes in; the crops with a vector at one exit go out as arrays, with lookup by crop."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.store.ascending import looked_up, rows_in
from panorama.store.files.lost import ListedFile
from panorama.store.files.schema import segment_of
from panorama.store.snapshot import Snapshot
from panorama.store.vectors.vector_cache import cache_folder, load_rows


@dataclass(frozen=True)
class VectorTable:
    """Crops with a vector at one exit of one model, in one snapshot.

    Attributes:
        crop_ids, track_ids: (N,) int64; each crop once.
        prints: (N,) uint64, fingerprints of the vectors, see `prints_of`.
        vectors: (N, dim) float32 of unit length, mapped from disk if possible; read only.
        folder: for its cache and inverted file; None for none.
    """

    model_hash: str
    exit: int
    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    prints: NDArray[np.uint64]
    vectors: NDArray[np.float32]
    folder: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        n = len(self.crop_ids)
        numbers = self.track_ids.shape, self.prints.shape
        if numbers != ((n,), (n,)) or self.vectors.ndim != 2 or len(self.vectors) != n:
            raise ValueError(f"{n} crops, but tracks and prints {numbers}, vectors {self.vectors.shape}")

    def __len__(self) -> int:
        return len(self.crop_ids)

    @classmethod
    def load(cls, snapshot: Snapshot, model_hash: str, exit: int) -> VectorTable:
        """The table of a snapshot, from the cache in index/ or the Parquet files; errors as `load_rows`."""
        rows = load_rows(snapshot, model_hash, exit)
        folder = cache_folder(snapshot.root, model_hash, exit)
        return cls(model_hash, exit, rows.crop_ids, rows.track_ids, rows.prints, rows.vectors, folder)

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def _order(self) -> NDArray[np.intp] | None:
        """The rows in order of crop id; None if they already are in that order, as segments write them."""
        if bool(np.all(self.crop_ids[1:] > self.crop_ids[:-1])):
            return None
        return np.argsort(self.crop_ids, kind="stable")

    @cached_property
    def _sorted_ids(self) -> NDArray[np.int64]:
        return self.crop_ids if self._order is None else self.crop_ids[self._order]

    def rows_of(self, crop_ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """The rows of some crops, in the given order; -1 for crops without a vector here."""
        wanted = np.asarray(crop_ids, np.int64)
        if self._order is None:
            return rows_in(self.crop_ids, wanted)
        return looked_up(self._sorted_ids, self._order, wanted, -1)


def read_crop_ids(snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Crop and track ids of all live crops of a snapshot, with or without vectors, in file order."""
    crop_ids, track_ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for path in snapshot.files["crops"]:
        with ListedFile(path) as file:
            table = file.read(columns=["crop_id", "track_id"])
        crop_ids.append(table.column("crop_id").to_numpy())
        track_ids.append(table.column("track_id").to_numpy())
    crops, tracks = np.concatenate(crop_ids), np.concatenate(track_ids)
    if not snapshot.has_dead_rows:
        return crops, tracks
    live = np.isin(segment_of(crops), snapshot.live_segments)
    return crops[live], tracks[live]
