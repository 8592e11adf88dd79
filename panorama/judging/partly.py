"""A library's vectors come in; they go out as if some videos, tracks, exits or exemplars were not in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from panorama.answering.source import PickedVectors
from panorama.query.matching.meeting import Places
from panorama.query.matching.passes import VectorSource
from panorama.query.matching.said import Said
from panorama.query.matching.scoring import Exemplars, Vectors
from panorama.store.files.schema import segment_of


@dataclass(frozen=True, slots=True)
class Strangers:
    """An album that nobody registered, at one exit: each picture is an entity of its own."""

    entities: tuple[str, ...]
    views: NDArray[np.float32]  # (N, V, dim)

    @property
    def entity_index(self) -> NDArray[np.int32]:
        return np.repeat(np.arange(len(self.entities), dtype=np.int32), self.views.shape[1])

    @property
    def exemplar_ids(self) -> NDArray[np.int64]:
        return self.entity_index.astype(np.int64)

    @property
    def negative(self) -> NDArray[np.bool_]:
        return np.zeros(len(self.entity_index), np.bool_)

    @property
    def denied(self) -> NDArray[np.bool_]:
        return self.negative

    @property
    def categories(self) -> frozenset[str]:
        return frozenset()

    @property
    def vectors(self) -> NDArray[np.float32]:
        return self.views.reshape(-1, self.views.shape[-1])


@dataclass(slots=True)
class Partly:
    """A `VectorSource` that hides a part of another one, and always compares exactly.

    Attributes:
        source: the other one.
        number_of_exits: of the embedder.
        without: segments to hide.
        without_tracks: tracks to hide.
        exits: exits with stored vectors, None for all; crops need to be deepened one by one for the others.
        strangers: albums by exit, in place of the library's own.
        deepened: ids of the crops that were deepened one by one, by exit.
    """

    source: VectorSource
    number_of_exits: int
    without: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    without_tracks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    exits: frozenset[int] | None = None
    strangers: Mapping[int, Strangers] | None = None
    deepened: dict[int, set[int]] = field(default_factory=dict)
    _tables: dict[int, PickedVectors] = field(default_factory=dict)

    def album(self, exit: int) -> Exemplars:
        return self.source.album(exit) if self.strangers is None else self.strangers[exit]

    def said(self, name: str) -> Said:
        return self.source.said(name) if self.strangers is None else Said.none()

    def stored(self, exit: int) -> Vectors:
        if exit not in self._tables:
            table = self.source.stored(exit)
            keep = np.full(len(table.crop_ids), self.exits is None or exit in self.exits)
            keep &= self._kept(table.track_ids)
            self._tables[exit] = PickedVectors(
                table.crop_ids[keep], table.track_ids[keep], np.asarray(table.vectors)[keep]
            )
        return self._tables[exit]

    def counts(self) -> tuple[int, Sequence[int]]:
        exits = range(1, self.number_of_exits + 1)
        return len(self.crops()[0]), [len(self.stored(exit).crop_ids) for exit in exits]

    def crops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        crop_ids, owners = self.source.crops()
        keep = self._kept(owners)
        return crop_ids[keep], owners[keep]

    def _kept(self, track_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        hidden = np.isin(segment_of(track_ids), self.without) | np.isin(track_ids, self.without_tracks)
        return np.asarray(~hidden)

    def codes(self, exit: int, least: float) -> int | None:
        return None

    def near(
        self,
        exit: int,
        queries: NDArray[np.float32],
        least: NDArray[np.float32],
        rows: NDArray[np.intp] | None = None,
    ) -> Sequence[NDArray[np.intp]] | None:
        return None

    def nearest(
        self, exit: int, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None
    ) -> NDArray[np.intp] | None:
        return None

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        return self.source.places(track_ids)

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.source.shots(track_ids)

    def scenes(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.source.scenes(track_ids)

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.source.sites(scenes)

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        return self.source.neighbours(segments)

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> Vectors:
        self.deepened.setdefault(exit, set()).update(crop_ids.tolist())
        return self.source.deepen(crop_ids, exit)
