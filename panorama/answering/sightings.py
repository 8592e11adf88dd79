"""What matching found enters; it leaves again, in any later query, as long as nothing that changes it has.

The key of an entity holds its exemplars, the places that they were cut from in what is there now, the model
with its cohort, the calibration, the exit that matching begins at, and the code that decides. Beside the
matches lie the segments that they were found in: where some have been added since, only those are looked at;
where one has gone or changed, everything is.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import panorama
from panorama.errors import LibraryWriteError
from panorama.models.base import Embedder
from panorama.query.matching.decide import Calibration
from panorama.query.matching.whole import Recalled, Whole, decode, encode
from panorama.store import Snapshot, Store
from panorama.store.scenes.scenes import Scenes, state_of

DECIDING = (
    "panorama.query.matching.matcher",
    "panorama.query.matching.cascade",
    "panorama.query.matching.passes",
    "panorama.query.matching.cost",
    "panorama.query.matching.scoring",
    "panorama.query.matching.said",
    "panorama.query.matching.decide",
    "panorama.query.matching.category",
    "panorama.query.matching.kinship",
    "panorama.query.matching.matches",
    "panorama.query.matching.whole",
    "panorama.regions",
    "panorama.answering.source",
    "panorama.store.ascending",
    "panorama.store.vectors.index",
    "panorama.store.vectors.vector_table",
    "panorama.store.vectors.vector_cache",
    "panorama.store.vectors.inverted",
    "panorama.store.vectors.inverted_codes",
    "panorama.store.vectors.inverted_training",
    "panorama.store.scenes.places",
    "panorama.store.scenes.seen_tracks",
    "panorama.store.scenes.ends",
    "panorama.store.scenes.scenes",
    "panorama.store.scenes.sites",
    "panorama.store.files.sorted_rows",
)
"""Modules that decide which tracks are found, from stored rows to bands.

Not among them are those whose results the key holds: calibration, views and places of examples, models.
"""


def code_of(modules: Sequence[str]) -> str:
    """A digest of modules as they are installed: their source, or what was compiled where there is none."""
    digest = hashlib.sha256()
    for name in modules:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"no module {name}", name=name)
        code = Path(spec.origin).read_bytes()
        digest.update(f"{name} {len(code)}\n".encode() + code)
    return digest.hexdigest()


@cache
def _rule() -> str:
    """What stands for the code that decides: another version of it may decide otherwise."""
    # The version is of what is running, also where another one has been installed under it since it began.
    return f"{panorama.__version__} {code_of(DECIDING)}"


@dataclass(frozen=True, slots=True)
class Known:
    """What was found of an entity under a key, in segments (S,) that were such.

    Attributes:
        rows: (S, 8) crops, vectors, and where each stands among others (see `scenes.state_of`).
    """

    key: str
    whole: Whole
    segments: NDArray[np.int32]
    rows: NDArray[np.int64]


class CatalogSightings:
    """The `Sightings` of one snapshot under one model, kept in the library's catalog.

    Args:
        scenes: of the snapshot.
        known: by entity, what this process knows of earlier snapshots; what is found is noted there, too.
    """

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        embedder: Embedder,
        calibrations: Sequence[Calibration],
        scenes: Scenes,
        known: dict[str, Known] | None = None,
    ) -> None:
        self._known = {} if known is None else known
        for gone in self._known.keys() - set(snapshot.entity_names):
            self._known.pop(gone, None)
        self._store = store
        self._snapshot = snapshot
        self._embedder = embedder
        rows = [tuple(sorted(calibration.as_dict().items())) for calibration in calibrations]
        crops = snapshot.crops()
        held = [snapshot.vectors(embedder.hash, exit) for exit in range(1, embedder.exits + 1)]
        complete = [e for e, holding in enumerate(held, start=1) if holding.total >= crops.total]
        first = max(complete, default=1)
        self._basis = repr((_rule(), embedder.hash, embedder.cohort_digest, rows, first))
        self._segments = crops.segments
        self._keys: dict[str, str] = {}
        vectors = held[first - 1].rows_of(crops.segments)
        where = state_of(scenes, snapshot, crops.segments)
        self._rows = np.column_stack([crops.rows, vectors, where])  # (S, 8)

    def key(self, name: str) -> str:
        """A digest of all that changes what is found of an entity in a segment."""
        if name in self._keys:
            return self._keys[name]
        digest = hashlib.sha256(self._basis.encode())
        exemplars = []
        for exit in range(1, self._embedder.exits + 1):
            album = self._snapshot.album(self._embedder.hash, exit)
            mine = album.entity_index == album.entities.index(name)
            for column in (album.exemplar_ids, album.negative, album.denied, album.vectors):
                digest.update(np.ascontiguousarray(column[mine]).tobytes() + b"\0")
            exemplars.append(album.exemplar_ids[mine])
            digest.update(b"category" if name in album.categories else b"")
        digest.update(self._snapshot.seen.of(np.concatenate(exemplars)).as_bytes())
        return self._keys.setdefault(name, digest.hexdigest())

    def recall(self, name: str) -> Recalled | None:
        known = self._known.get(name)
        if known is not None and known.key == self.key(name):
            added = self._added(known.segments, known.rows)
            if added is not None:
                return Recalled(known.whole, added)
        value = self._store.cached_sightings(name, self.key(name))
        if value is None:
            return None
        try:
            whole, segments, rows = decode(name, value)
        except ValueError:
            return None
        added = self._added(segments, rows)
        if added is None:
            return None
        self._known[name] = Known(self.key(name), whole, segments, rows)
        return Recalled(whole, added)

    def _added(self, segments: NDArray[np.int32], rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """The segments that are new; None where one of the old ones is no longer there as it was."""
        place = np.searchsorted(self._segments, segments)
        if len(place) and int(place[-1]) >= len(self._segments):
            return None
        same = np.array_equal(self._segments[place], segments) and np.array_equal(self._rows[place], rows)
        return np.setdiff1d(self._segments, segments, assume_unique=True) if same else None

    def keep(self, name: str, whole: Whole) -> None:
        self._known[name] = Known(self.key(name), whole, self._segments, self._rows)
        # A library that cannot be written (full disk, read-only) still answers; it only answers slower.
        with contextlib.suppress(LibraryWriteError):
            self._store.cache_sightings(name, self.key(name), encode(whole, self._segments, self._rows))
