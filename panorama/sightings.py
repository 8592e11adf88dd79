"""What matching found enters; it leaves again, in any later query, as long as nothing that changes it has.

The key of an entity holds its exemplars, the model with its cohort, the calibration, the exit that matching
begins at, and the code of the rule. Beside the matches lie the segments that they were found in: where some
have been added since, only those are looked at; where one has gone or changed, everything is.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama import query
from panorama.errors import LibraryWriteError
from panorama.models.base import Embedder
from panorama.query.decide import Calibration
from panorama.query.whole import Recalled, Whole, decode, encode
from panorama.store import Snapshot, Store


@cache
def _rule() -> str:
    """A digest of the code that decides: another version of it may decide otherwise."""
    digest = hashlib.sha256()
    for path in sorted(Path(query.__path__[0]).glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class CatalogSightings:
    """The `Sightings` of one snapshot under one model, kept in the library's catalog."""

    def __init__(
        self, store: Store, snapshot: Snapshot, embedder: Embedder, calibrations: Sequence[Calibration]
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._embedder = embedder
        rows = [tuple(sorted(calibration.as_dict().items())) for calibration in calibrations]
        cohort = hashlib.sha256(np.ascontiguousarray(embedder.cohort()).tobytes()).hexdigest()
        crops = snapshot.crops()
        held = [snapshot.vectors(embedder.hash, exit) for exit in range(1, embedder.exits + 1)]
        complete = [e for e, holding in enumerate(held, start=1) if holding.total >= crops.total]
        first = max(complete, default=1)
        self._basis = repr((_rule(), embedder.hash, cohort, rows, first))
        self._segments = crops.segments
        self._keys: dict[str, str] = {}
        self._rows = np.stack([crops.rows, held[first - 1].rows_of(crops.segments)], axis=1)  # (S, 2)

    def key(self, name: str) -> str:
        """A digest of all that changes what is found of an entity in a segment."""
        if name in self._keys:
            return self._keys[name]
        digest = hashlib.sha256(self._basis.encode())
        for exit in range(1, self._embedder.exits + 1):
            album = self._snapshot.album(self._embedder.hash, exit)
            mine = album.entity_index == album.entities.index(name)
            for column in (album.exemplar_ids, album.negative, album.vectors):
                digest.update(np.ascontiguousarray(column[mine]).tobytes() + b"\0")
        return self._keys.setdefault(name, digest.hexdigest())

    def recall(self, name: str) -> Recalled | None:
        value = self._store.cached_sightings(name, self.key(name))
        if value is None:
            return None
        try:
            whole, segments, rows = decode(name, value)
        except ValueError:
            return None
        added = self._added(segments, rows)
        return None if added is None else Recalled(whole, added)

    def _added(self, segments: NDArray[np.int32], rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """The segments that are new; None where one of the old ones is no longer there as it was."""
        place = np.searchsorted(self._segments, segments)
        if len(place) and int(place[-1]) >= len(self._segments):
            return None
        same = np.array_equal(self._segments[place], segments) and np.array_equal(self._rows[place], rows)
        return np.setdiff1d(self._segments, segments, assume_unique=True) if same else None

    def keep(self, name: str, whole: Whole) -> None:
        # A library that cannot be written (full disk, read-only) still answers; it only answers slower.
        with contextlib.suppress(LibraryWriteError):
            self._store.cache_sightings(name, self.key(name), encode(whole, self._segments, self._rows))
