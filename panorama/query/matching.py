"""The album and the library's vectors enter; scored tracks leave, deeper exits tried where they decide.

Matching starts at the deepest exit that is stored for every crop in scope. Tracks whose score falls inside
that exit's band go on to the next one: its vectors are taken from disk or computed from the stored JPEGs of
just those tracks, and kept for the next query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class _Whole:
    """An entity's matches over the whole library, and its best value at every exit that was looked at."""

    matches: Matches
    best: dict[int, float]


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
        self._wholes: dict[str, _Whole] = {}

    def match(self, request: MatchRequest) -> Matches:
        """Every (entity, track) that the request needs; see MatchRequest.keep."""
        names = (
            self.source.album(self.embedder.exits).entities if request.entities is None else request.entities
        )
        scope = self._scope(request)
        if request.keep == "all":
            return _joined(tuple(names), [self._everything(name, scope, request.min_score) for name in names])
        wholes = [self._whole(name).matches for name in names]
        if scope is not None:
            wholes = [whole[np.isin(whole.track_id, scope)] for whole in wholes]
        return _joined(tuple(names), wholes)

    def similarity(
        self, image: Image | int, request: MatchRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Crop ids within the request and their cosine to a picture or to a crop, as (1 + cosine) / 2."""
        exit = self.first_exit()
        table = self.source.stored(exit)
        if isinstance(image, (int, np.integer)):
            query = self.source.deepen(np.array([image], np.int64), exit).vectors
        else:
            query = self.embedder.embed([image], exit)
        scope = self._scope(request)
        rows = self._rows(exit, scope)
        cosine = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), SCAN_ROWS):
            part = rows[start : start + SCAN_ROWS]
            cosine[start : start + SCAN_ROWS] = _block(table.vectors, part) @ query[0]
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

    def first_exit(self) -> int:
        """The deepest exit that every crop of the library has a vector at, 1 where none has all.

        Of the library, not of a scope: what a query asks for besides must not change a score.
        """
        count = len(self.source.crops()[0])
        complete = [
            e for e in range(1, self.embedder.exits + 1) if len(self.source.stored(e).crop_ids) >= count
        ]
        return max(complete, default=1)

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

    def _whole(self, name: str) -> _Whole:
        """What the bands do not reject, over the whole library; kept, since every query needs it.

        Bands compare with the entity's best track, so they are set here and nowhere else.
        """
        if name not in self._wholes:
            exit = self.first_exit()
            scored = self._first_pass(name, exit, None, everything=False)
            if scored is None:
                self._wholes[name] = _Whole(Matches.empty((name,)), {})
            else:
                found = _Cascade(self, name, exit, scored, {})
                found.refine(lambda band, _score, _exit: band == UNCERTAIN)
                self._wholes[name] = _Whole(found.matches(found.band > REJECTED), found.best)
        return self._wholes[name]

    def _everything(self, name: str, scope: NDArray[np.int64] | None, min_score: float | None) -> Matches:
        """Every track in scope with its score; refined where that could cross `min_score`."""
        exit = self.first_exit()
        scored = self._first_pass(name, exit, scope, everything=True)
        if scored is None:
            return Matches.empty((name,))
        found = _Cascade(self, name, exit, scored, self._whole(name).best)

        def open_(band: NDArray[np.uint8], score: NDArray[np.float64], exit: int) -> NDArray[np.bool_]:
            calibration = self.calibrations[exit - 1]
            width = max(calibration.high - calibration.low, 0.1) / 2
            return (band == UNCERTAIN) | (np.abs(score - (min_score or 0.0)) <= width)

        found.refine(open_)
        return found.matches(found.score >= (min_score or 0.0))

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

    def best(self, name: str) -> Mapping[int, float]:
        """The normalised value of the entity's best track at every exit that was looked at."""
        return self._whole(name).best

    def second_look(self, name: str, exit: int, track_ids: NDArray[np.int64]) -> _Scored | None:
        """Those of the tracks that still have crops, at a deeper exit."""
        crop_ids, owners = self.source.crops()
        table = self.source.deepen(crop_ids[np.isin(owners, track_ids)], exit)
        if not len(table.crop_ids):
            return None
        groups = TrackGroups.of(table.track_ids)
        return self._score(name, exit, table, groups, np.arange(len(groups.track_ids)))

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
            normalised = normalise(both @ _block(table.vectors, part).T, level)  # (P + Q, rows)
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


class _Cascade:
    """Tracks of one entity on their way through the exits.

    Attributes:
        band, score, exit: (T,) of each track at the exit that decided it so far.
        best: the entity's best value by exit; those given are taken, others are found here.
    """

    def __init__(
        self, matcher: AlbumMatcher, name: str, exit: int, scored: _Scored, best: dict[int, float]
    ) -> None:
        self._matcher = matcher
        self._name = name
        self._first = exit
        self._track_ids = scored.track_ids
        self._crop_ids, self._exemplar_ids = scored.crop_ids.copy(), scored.exemplar_ids.copy()
        self.best = dict(best)
        self.exit = np.full(len(scored.track_ids), exit, np.int16)
        self.band, self.score = self._decided(scored.normalised, exit)

    def refine(
        self, is_open: Callable[[NDArray[np.uint8], NDArray[np.float64], int], NDArray[np.bool_]]
    ) -> None:
        """Take the tracks that `is_open` (band, score, exit) names to the next exit, until none is left."""
        for exit in range(self._first + 1, self._matcher.embedder.exits + 1):
            waiting = np.flatnonzero((self.exit == exit - 1) & is_open(self.band, self.score, exit - 1))
            if not len(waiting):
                return
            again = self._matcher.second_look(self._name, exit, self._track_ids[waiting])
            if again is None:
                return
            rows = np.searchsorted(self._track_ids, again.track_ids)
            self.band[rows], self.score[rows] = self._decided(again.normalised, exit)
            self.exit[rows] = exit
            self._crop_ids[rows], self._exemplar_ids[rows] = again.crop_ids, again.exemplar_ids

    def _decided(
        self, normalised: NDArray[np.float32], exit: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        calibration = self._matcher.calibrations[exit - 1]
        best = self.best.setdefault(exit, float(normalised.max(initial=0.0)))
        return bands(normalised, calibration, best), calibration.score(normalised)

    def matches(self, keep: NDArray[np.bool_]) -> Matches:
        """The tracks as matches of the one entity."""
        index = np.zeros(len(self._track_ids), np.int32)
        columns = (self._track_ids, self.score, self.band, self._crop_ids, self._exemplar_ids, self.exit)
        return Matches((self._name,), index, *columns)[keep]


def _block(vectors: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
    """Rows of a table: a view where they stand together, which is ten times as quick as a copy."""
    together = len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
    return vectors[rows[0] : rows[-1] + 1] if together else vectors[rows]


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
