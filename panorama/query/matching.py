"""The album and the library's vectors enter; scored tracks leave, deeper exits tried where they decide.

Matching starts at the deepest exit that is stored for every crop in scope. Tracks whose score falls inside
that exit's band go on to the next one: its vectors are taken from disk or computed from the stored JPEGs of
just those tracks, and kept for the next query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Embedder, Image
from panorama.query.decide import (
    Calibration,
    bands,
    cohort_level,
    crop_scores,
    least_similarity,
    normalise,
    pool,
)
from panorama.query.matches import REJECTED, UNCERTAIN, Matches, MatchRequest

SCAN_ROWS = 65_536
"""Crops compared at once: the similarities of a few hundred exemplars stay within a few hundred megabytes."""


class Vectors(Protocol):
    """Crops with vectors at one exit; `panorama.store.vectors.VectorTable` is one."""

    @property
    def crop_ids(self) -> NDArray[np.int64]: ...
    @property
    def track_ids(self) -> NDArray[np.int64]: ...
    @property
    def vectors(self) -> NDArray[np.float32]: ...


class Exemplars(Protocol):
    """The album at one exit; `panorama.store.Album` is one."""

    @property
    def entities(self) -> tuple[str, ...]: ...
    @property
    def entity_index(self) -> NDArray[np.int32]: ...
    @property
    def exemplar_ids(self) -> NDArray[np.int64]: ...
    @property
    def negative(self) -> NDArray[np.bool_]: ...
    @property
    def vectors(self) -> NDArray[np.float32]: ...


class VectorSource(Protocol):
    """Where vectors come from and go to; one library snapshot under one model."""

    def album(self, exit: int) -> Exemplars:
        """The exemplars at an exit."""
        ...

    def stored(self, exit: int) -> Vectors:
        """All crops that have a vector at an exit."""
        ...

    def crops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Crop and track ids of every crop of the library."""
        ...

    def near(
        self, exit: int, queries: NDArray[np.float32], least: NDArray[np.float32]
    ) -> NDArray[np.intp] | None:
        """Rows of `stored(exit)` at least `least` (M,) similar to any of the queries (M, dim), or more rows.

        None where looking at every row is quicker than an index.
        """
        ...

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> Vectors:
        """Vectors of some crops at an exit, from disk or computed from their JPEGs and kept."""
        ...


@dataclass(frozen=True, slots=True)
class TrackGroups:
    """Which rows of a vector table belong to which track.

    Attributes:
        track_ids: (T,) int64, sorted.
        slots: (T, C) rows of each track, -1 where it has fewer than C crops.
    """

    track_ids: NDArray[np.int64]
    slots: NDArray[np.intp]

    @classmethod
    def of(cls, owners: NDArray[np.int64]) -> TrackGroups:
        """Groups of rows (N,) that carry their track's id."""
        track_ids, index, counts = np.unique(owners, return_inverse=True, return_counts=True)
        order = np.argsort(index, kind="stable")
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = np.full((len(track_ids), int(counts.max(initial=1))), -1, np.intp)
        slots[index[order], within] = order
        return cls(track_ids, slots)

    def spread(self, values: NDArray[np.float32], tracks: NDArray[np.intp]) -> NDArray[np.float32]:
        """Row values (N,) of some tracks as (T, C), -inf where there is no row."""
        slots = self.slots[tracks]
        return np.where(slots >= 0, values[slots], np.float32(-np.inf))


@dataclass(frozen=True, slots=True)
class _Scored:
    """Pooled values of some tracks of one entity at one exit."""

    track_ids: NDArray[np.int64]
    normalised: NDArray[np.float32]
    crop_ids: NDArray[np.int64]
    exemplar_ids: NDArray[np.int64]


class AlbumMatcher:
    """Matches entities against tracks; the `Matcher` of a library.

    Args:
        source: vectors and exemplars of one snapshot.
        embedder: the model they came from; its cohort sets the scale.
        calibrations: one for each exit, shallowest first.
    """

    def __init__(self, source: VectorSource, embedder: Embedder, calibrations: Sequence[Calibration]) -> None:
        if len(calibrations) != embedder.exits:
            raise ValueError(
                f"{embedder.name} has {embedder.exits} exits, got {len(calibrations)} calibrations"
            )
        self.source = source
        self.embedder = embedder
        self.calibrations = tuple(calibrations)
        self._cohort = embedder.cohort()  # (exits, N, dim)
        self._groups: dict[int, TrackGroups] = {}
        self._best: dict[tuple[str, int], float] = {}

    def match(self, request: MatchRequest) -> Matches:
        """Every (entity, track) that the request needs; see MatchRequest.keep."""
        album = self.source.album(self.embedder.exits)
        names = album.entities if request.entities is None else request.entities
        scope = self._scope(request)
        exit = self._complete_exit(scope)
        found = [self._entity(number, name, exit, scope, request) for number, name in enumerate(names)]
        return _joined(tuple(names), found)

    def similarity(
        self, image: Image | int, request: MatchRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Crop ids within the request and their cosine to a picture or to a crop, as (1 + cosine) / 2."""
        scope = self._scope(request)
        exit = self._complete_exit(scope)
        table = self.source.stored(exit)
        if isinstance(image, (int, np.integer)):
            query = self.source.deepen(np.array([image], np.int64), exit).vectors
        else:
            query = self.embedder.embed([image], exit)
        rows = self._rows(exit, scope)
        cosine = table.vectors[rows] @ query[0]
        return table.crop_ids[rows], np.clip((1 + cosine.astype(np.float64)) / 2, 0, 1)

    def verify(self, first: Image, second: Image) -> tuple[float, int, int]:
        """Score, band and exit of two pictures, through the cascade; the order does not matter."""
        score, band, exit = 0.0, REJECTED, 0
        for exit in range(1, self.embedder.exits + 1):
            pair = self.embedder.embed([first, second], exit)  # (2, dim)
            level = cohort_level(pair, self._cohort[exit - 1])
            both_ways = normalise(np.full((2, 1), pair[0] @ pair[1], np.float32), level).mean(axis=0)
            calibration = self.calibrations[exit - 1]
            score = float(calibration.score(both_ways)[0])
            band = int(bands(both_ways, calibration)[0])
            if band != UNCERTAIN:
                break
        return score, band, exit

    # Scope: which tracks matter.

    def _scope(self, request: MatchRequest) -> NDArray[np.int64] | None:
        """Track ids that the request admits, None for all."""
        if request.tracks is None and request.segments is None:
            return None
        if request.tracks is not None:
            tracks = np.unique(request.tracks)
        else:
            tracks = np.unique(self.source.crops()[1])
        if request.segments is not None:
            tracks = tracks[np.isin(tracks >> 32, request.segments)]
        return tracks

    def _complete_exit(self, scope: NDArray[np.int64] | None) -> int:
        """The deepest exit that every crop in scope has a vector at; 1 where none has all."""
        crop_ids, owners = self.source.crops()
        wanted = crop_ids if scope is None else crop_ids[np.isin(owners, scope)]
        for exit in range(self.embedder.exits, 1, -1):
            have = self.source.stored(exit).crop_ids
            if len(have) >= len(wanted) and (scope is None or bool(np.isin(wanted, have).all())):
                return exit
        return 1

    def _grouped(self, exit: int) -> TrackGroups:
        if exit not in self._groups:
            self._groups[exit] = TrackGroups.of(self.source.stored(exit).track_ids)
        return self._groups[exit]

    def _tracks(self, exit: int, scope: NDArray[np.int64] | None) -> NDArray[np.intp]:
        groups = self._grouped(exit)
        if scope is None:
            return np.arange(len(groups.track_ids))
        return np.flatnonzero(np.isin(groups.track_ids, scope))

    def _rows(self, exit: int, scope: NDArray[np.int64] | None) -> NDArray[np.intp]:
        slots = self._grouped(exit).slots[self._tracks(exit, scope)]
        return np.sort(slots[slots >= 0])

    # One entity through the exits.

    def _entity(
        self, number: int, name: str, exit: int, scope: NDArray[np.int64] | None, request: MatchRequest
    ) -> Matches:
        scored = self._first_pass(name, exit, scope, everything=request.keep == "all")
        if scored is None:
            return Matches.empty((name,))
        best = self._best_in_library(name, exit, scored if scope is None else None)
        exits = np.full(len(scored.track_ids), exit, np.int16)
        band = bands(scored.normalised, self.calibrations[exit - 1], best)
        score = self.calibrations[exit - 1].score(scored.normalised)
        crop_ids, exemplar_ids = scored.crop_ids.copy(), scored.exemplar_ids.copy()
        for deeper in range(exit + 1, self.embedder.exits + 1):
            open_ = np.flatnonzero(self._undecided(band, score, exits, deeper - 1, request))
            if not len(open_):
                break
            again = self._second_look(name, deeper, scored.track_ids[open_])
            calibration = self.calibrations[deeper - 1]
            band[open_] = bands(again.normalised, calibration, best)
            score[open_] = calibration.score(again.normalised)
            exits[open_] = deeper
            crop_ids[open_], exemplar_ids[open_] = again.crop_ids, again.exemplar_ids
        keep = band > REJECTED if request.keep != "all" else score >= (request.min_score or 0.0)
        index = np.zeros(len(band), np.int32)
        matches = Matches((name,), index, scored.track_ids, score, band, crop_ids, exemplar_ids, exits)
        return matches[keep]

    def _best_in_library(self, name: str, exit: int, scored: _Scored | None) -> float:
        """The entity's best value over all tracks: a band must not depend on what else a query asks for."""
        if (name, exit) not in self._best:
            whole = scored or self._first_pass(name, exit, None, everything=False)
            values = whole.normalised if whole is not None else np.zeros(0)
            self._best[name, exit] = float(values.max(initial=0.0))
        return self._best[name, exit]

    def _undecided(
        self,
        band: NDArray[np.uint8],
        score: NDArray[np.float64],
        exits: NDArray[np.int16],
        exit: int,
        request: MatchRequest,
    ) -> NDArray[np.bool_]:
        """Which tracks a deeper exit could decide: those in the band, or near the score asked for."""
        at_exit = exits == exit
        if request.keep == "all" and request.min_score:
            calibration = self.calibrations[exit - 1]
            width = max(calibration.high - calibration.low, 0.1) / 2
            return at_exit & (np.abs(score - request.min_score) <= width)
        return at_exit & (band == UNCERTAIN)

    def _first_pass(
        self, name: str, exit: int, scope: NDArray[np.int64] | None, everything: bool
    ) -> _Scored | None:
        """Tracks in scope; unless `everything`, those that are surely rejected may be missing."""
        album, positive, _ = self._exemplars(name, exit)
        table = self.source.stored(exit)
        if not len(positive) or not len(table.crop_ids):
            return None
        groups = self._grouped(exit)
        tracks = self._tracks(exit, scope)
        if not everything:
            level = cohort_level(album.vectors[positive], self._cohort[exit - 1])
            floor = self.calibrations[exit - 1].normalised(self.calibrations[exit - 1].low)
            rows = self.source.near(exit, album.vectors[positive], least_similarity(floor, level))
            if rows is not None:
                tracks = np.intersect1d(tracks, np.searchsorted(groups.track_ids, table.track_ids[rows]))
        return self._score(name, exit, table, groups, tracks)

    def _second_look(self, name: str, exit: int, track_ids: NDArray[np.int64]) -> _Scored:
        """The same tracks at a deeper exit, in the order given."""
        crop_ids, owners = self.source.crops()
        table = self.source.deepen(crop_ids[np.isin(owners, track_ids)], exit)
        groups = TrackGroups.of(table.track_ids)
        return self._score(name, exit, table, groups, np.searchsorted(groups.track_ids, track_ids))

    def _exemplars(self, name: str, exit: int) -> tuple[Exemplars, NDArray[np.intp], NDArray[np.intp]]:
        """The album at an exit, and the rows of an entity's exemplars and look-alikes in it."""
        album = self.source.album(exit)
        mine = album.entity_index == album.entities.index(name)
        return album, np.flatnonzero(mine & ~album.negative), np.flatnonzero(mine & album.negative)

    def _score(
        self, name: str, exit: int, table: Vectors, groups: TrackGroups, tracks: NDArray[np.intp]
    ) -> _Scored:
        album, positive, negative = self._exemplars(name, exit)
        both = album.vectors[np.concatenate([positive, negative])]  # (P + Q, dim)
        level = cohort_level(both, self._cohort[exit - 1])
        values = np.full(len(table.crop_ids), -np.inf, np.float32)
        which = np.zeros(len(table.crop_ids), np.intp)
        slots = groups.slots[tracks]
        rows = np.sort(slots[slots >= 0])
        for start in range(0, len(rows), SCAN_ROWS):
            part = rows[start : start + SCAN_ROWS]
            normalised = normalise(both @ table.vectors[part].T, level)  # (P + Q, rows)
            values[part], which[part] = crop_scores(normalised[: len(positive)], normalised[len(positive) :])
        spread = groups.spread(values, tracks)  # (T, C)
        best_rows = (
            slots[np.arange(len(tracks)), spread.argmax(axis=1)] if len(tracks) else np.zeros(0, np.intp)
        )
        return _Scored(
            groups.track_ids[tracks],
            pool(spread),
            table.crop_ids[best_rows],
            album.exemplar_ids[positive][which[best_rows]],
        )


def _joined(names: tuple[str, ...], parts: Sequence[Matches]) -> Matches:
    if not parts:
        return Matches.empty(names)

    def column(get: Callable[[Matches], NDArray]) -> NDArray:
        return np.concatenate([get(part) for part in parts])

    index = [np.full(len(part), number, np.int32) for number, part in enumerate(parts)]
    return Matches(
        names,
        np.concatenate(index),
        column(lambda m: m.track_id),
        column(lambda m: m.score),
        column(lambda m: m.band),
        column(lambda m: m.crop_id),
        column(lambda m: m.exemplar_id),
        column(lambda m: m.exit),
    )
