"""Matches come in and go out again in later queries, as long as nothing that could change them has.

The key of an entity covers its exemplars, the places in the current library that they were cut from, the
model with its cohort, the calibration, the exit at which matching starts, and the code that decides. The
segments searched are stored beside the matches: if segments have been added, only these are searched; if one
was removed or has changed, all are.
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
    "panorama.query.matching.track_rows",
    "panorama.query.matching.said",
    "panorama.query.matching.decide",
    "panorama.query.matching.category",
    "panorama.query.matching.kinship",
    "panorama.query.matching.carrying",
    "panorama.query.matching.contesting",
    "panorama.query.matching.meeting",
    "panorama.query.matching.looks",
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

Modules whose results the key covers are not listed: calibration, views and places of examples, models.
"""


def code_of(modules: Sequence[str]) -> str:
    """A digest of the installed files of modules: source, or compiled code if there is no source."""
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
    """Identifies the code that decides: another version may decide differently."""
    # The running version; another one may have been installed in its place since the process began.
    return f"{panorama.__version__} {code_of(DECIDING)}"


@dataclass(frozen=True, slots=True)
class Known:
    """The matches of an entity under a key, in segments (S,) that were in the state `rows`.

    Attributes:
        rows: (S, 8) number of crops, number of vectors, and `scenes.state_of` for each segment.
    """

    key: str
    whole: Whole
    segments: NDArray[np.int32]
    rows: NDArray[np.int64]


class CatalogSightings:
    """The `Sightings` of one snapshot under one model, stored in the library's catalog.

    Args:
        scenes: of the snapshot.
        known: by entity, what this process knows from earlier snapshots; new results are added. None for
            nothing.
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
        """A digest of everything that can change the matches of an entity in a segment."""
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
        """The segments that are new; None if an old one is missing or has changed."""
        place = np.searchsorted(self._segments, segments)
        if len(place) and int(place[-1]) >= len(self._segments):
            return None
        same = np.array_equal(self._segments[place], segments) and np.array_equal(self._rows[place], rows)
        return np.setdiff1d(self._segments, segments, assume_unique=True) if same else None

    def keep(self, name: str, whole: Whole) -> None:
        self._known[name] = Known(self.key(name), whole, self._segments, self._rows)
        # A library that cannot be written (full disk, read-only) still answers, only more slowly.
        with contextlib.suppress(LibraryWriteError):
            self._store.cache_sightings(name, self.key(name), encode(whole, self._segments, self._rows))
