"""Entities and a scope of tracks come in; their pooled values at one exit go out, found the cheapest way.

All entities share each pass: one scan, one search of the index, one run of the model over stored pictures. An
index only says which tracks to look at; those are compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Cohort
from panorama.query.matching.cascade import passed_by
from panorama.query.matching.cost import Costs, Work, choose
from panorama.query.matching.decide import Calibration
from panorama.query.matching.ledger import note_dropped, note_ways
from panorama.query.matching.looks import Looks
from panorama.query.matching.matches import MatchRequest
from panorama.query.matching.meeting import Whereabouts
from panorama.query.matching.said import Said
from panorama.query.matching.scoring import Exemplars, Scored, Sought, Vectors, by_others, score_tracks
from panorama.query.matching.track_rows import TrackRows
from panorama.store.files.schema import segment_of


class VectorSource(Whereabouts, Protocol):
    """The vectors of one library snapshot under one model."""

    def album(self, exit: int) -> Exemplars:
        """The exemplars at an exit."""
        ...

    def said(self, name: str) -> Said:
        """The tracks that a user confirmed or denied for an entity."""
        ...

    def stored(self, exit: int) -> Vectors:
        """All crops that have a vector at an exit."""
        ...

    def counts(self) -> tuple[int, Sequence[int]]:
        """Number of crops, and number of vectors at each exit, shallowest first."""
        ...

    def crops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Crop and track ids of every crop of the library."""
        ...

    def codes(self, exit: int, least: float) -> int | None:
        """Rows that an index visits to find those of similarity `least` or more; None without an index."""
        ...

    def near(
        self,
        exit: int,
        queries: NDArray[np.float32],
        least: NDArray[np.float32],
        rows: NDArray[np.intp] | None = None,
    ) -> Sequence[NDArray[np.intp]] | None:
        """For each query (M, dim), rows of `stored(exit)` at least `least` (M,) similar; may include others.

        Args:
            rows: the only rows to consider; None for all.

        Returns:
            None if a full scan is faster than an index.
        """
        ...

    def nearest(
        self, exit: int, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None
    ) -> NDArray[np.intp] | None:
        """Rows of `stored(exit)` with the `count` most similar to a query (dim,); None as in `near`."""
        ...

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> Vectors:
        """Vectors of some crops at an exit, from disk or computed from their JPEGs and kept."""
        ...


def first_exit(crops: int, vectors: Sequence[int]) -> int:
    """The deepest exit at which every crop has a vector, 1 if no exit has all: matching begins there.

    Args:
        vectors: number of vectors at each exit, shallowest first.
    """
    return max((exit for exit, count in enumerate(vectors, start=1) if count >= crops), default=1)


@dataclass(frozen=True, slots=True)
class Scope:
    """Tracks of a pass: their numbers (T,), ascending, and the total number of their crops."""

    tracks: NDArray[np.intp]
    rows: int


class Passes:
    """Makes passes over one library.

    Args:
        source: its vectors and exemplars.
        cohorts: of each exit, to normalise scores against.
        calibrations: one per exit.
        costs: decides between exact comparison and index.
        threads: for comparing with all vectors.
    """

    def __init__(
        self,
        source: VectorSource,
        cohorts: Sequence[Cohort],
        calibrations: Sequence[Calibration],
        costs: Costs,
        threads: int,
    ) -> None:
        self._source = source
        self._threads = threads
        self._cohorts = cohorts
        self._calibrations = calibrations
        self.costs = costs
        self._groups: dict[int, TrackRows] = {}

    def groups(self, exit: int) -> TrackRows:
        """Which rows of an exit's table belong to which track."""
        if exit not in self._groups:
            self._groups[exit] = TrackRows.of(self._source.stored(exit).track_ids)
        return self._groups[exit]

    def scope(self, exit: int, request: MatchRequest) -> Scope | None:
        """The tracks that a request admits; None for all."""
        if request.tracks is None and request.segments is None:
            return None
        groups = self.groups(exit)
        if request.tracks is None:
            tracks = np.flatnonzero(within(groups.track_ids, request))
        else:
            tracks = groups.of_ids(request.tracks[within(request.tracks, request)])
        return Scope(tracks, int((groups.starts[tracks + 1] - groups.starts[tracks]).sum()))

    def rows(self, exit: int, scope: Scope | None) -> NDArray[np.intp] | None:
        """Rows in scope, ascending; None for all."""
        if scope is None:
            return None
        groups = self.groups(exit)
        rows = groups.rows(scope.tracks)
        return rows if groups.order is None else np.sort(rows)

    def sought(self, name: str, exit: int) -> Sought:
        """An entity's exemplars at an exit; an exit that accepts nothing gets no denied pictures."""
        found = Sought.of(self._source.album(exit), name, self._cohorts[exit - 1], self._source.said(name))
        return found.without_denied() if passed_by(self._calibrations, exit) else found

    def first(
        self, names: Sequence[str], exit: int, scope: Scope | None, least: float | None
    ) -> dict[str, Scored]:
        """Score the tracks in scope, for each entity that has exemplars.

        Args:
            least: tracks with a lower score may be missing, except confirmed ones; None: none may be missing.
        """
        table = self._source.stored(exit)
        sought = {name: self.sought(name, exit) for name in names}
        sought = {name: one for name, one in sought.items() if len(one.positive)}
        if not len(table.crop_ids) or not sought:
            return {}
        floor = self._floor(exit, least)
        groups = self.groups(exit)
        found: dict[str, Scored] = {}
        for name, tracks in self._near(sought, floor, exit, scope).items():
            found[name] = score_tracks([sought[name]], table, groups, tracks, floor)[0]
            note_dropped(exit, len(tracks) - len(found[name].track_ids))
        note_ways("index", len(found))
        rest = [name for name in sought if name not in found]
        note_ways("exact", len(rest))
        if rest:
            tracks = np.arange(len(groups)) if scope is None else scope.tracks
            these = [sought[name] for name in rest]
            scored = score_tracks(these, table, groups, tracks, floor, self._threads)
            found.update(zip(rest, scored, strict=True))
            note_dropped(exit, sum(len(tracks) - len(one.track_ids) for one in scored))
        return {name: found[name] for name in sought}

    def second(self, tracks: Mapping[str, NDArray[np.int64]], exit: int) -> dict[str, Scored]:
        """Score tracks of several entities at an exit; vectors that are missing are computed in full batches.

        Tracks that have no crops any more are missing.
        """
        crop_ids, owners = self._source.crops()
        wanted = np.unique(np.concatenate([*tracks.values(), np.zeros(0, np.int64)]))
        table = self._source.deepen(crop_ids[np.isin(owners, wanted)], exit)
        groups = TrackRows.of(table.track_ids)
        found: dict[str, Scored] = {}
        for name, mine in tracks.items():
            numbers, one = groups.of_ids(mine), self.sought(name, exit)
            if len(numbers) and len(one.positive):
                found[name] = score_tracks([one], table, groups, numbers, None)[0]
        return found

    def by_others(self, name: str, track_ids: NDArray[np.int64], exit: int) -> NDArray[np.float32]:
        """Values of an entity's tracks at an exit without the exemplars cut from each of them.

        Tracks that have no crops any more are missing; DENIED if there are no other exemplars.
        """
        crop_ids, owners = self._source.crops()
        table = self._source.deepen(crop_ids[np.isin(owners, track_ids)], exit)
        groups = TrackRows.of(table.track_ids)
        return by_others(self.sought(name, exit), table, groups, groups.of_ids(track_ids))

    def looks(self, track_ids: NDArray[np.int64]) -> Looks:
        """What some tracks look like at the deepest exit, from their vectors there."""
        exit = len(self._calibrations)
        if first_exit(*self._source.counts()) == exit:  # all are stored: no need to look for the crops
            table, groups = self._source.stored(exit), self.groups(exit)
            rows = groups.rows(groups.of_ids(track_ids))
            return Looks.of(table.track_ids[rows], table.vectors[rows], self._cohorts[exit - 1])
        crop_ids, owners = self._source.crops()
        some = self._source.deepen(crop_ids[np.isin(owners, track_ids)], exit)
        return Looks.of(some.track_ids, some.vectors, self._cohorts[exit - 1])

    def work(self, one: Sought, exit: int, scope: Scope | None, least: float | None) -> Work:
        """The work of finding one entity's tracks with a score of at least `least`."""
        every = len(self._source.stored(exit).crop_ids)
        rows, table = (every, 0) if scope is None else (scope.rows, every)
        floor = self._floor(exit, least)
        if floor is None or not len(one.positive):
            return Work(rows, len(one.level))
        codes = self._source.codes(exit, float(one.near(floor)[1].min()))
        wanted = None if codes is None else codes * len(one.positive)
        return Work(rows, len(one.level), wanted, table=table)

    def _near(
        self, sought: Mapping[str, Sought], floor: float | None, exit: int, scope: Scope | None
    ) -> dict[str, NDArray[np.intp]]:
        """The tracks that an index finds, for the entities for which it is faster; all in one search."""
        if floor is None:
            return {}
        least = float(self._calibrations[exit - 1].score(np.array(floor)))
        chosen = [
            name
            for name, one in sought.items()
            if choose(self.work(one, exit, scope, least), self.costs).way == "index"
        ]
        if not chosen:
            return {}
        queries, limits = zip(*(sought[name].near(floor) for name in chosen), strict=True)
        rows = self.rows(exit, scope)
        near = self._source.near(exit, np.concatenate(queries), np.concatenate(limits), rows)
        if near is None:
            return {}
        owners, groups = self._source.stored(exit).track_ids, self.groups(exit)
        found: dict[str, NDArray[np.intp]] = {}
        at = 0
        for name in chosen:
            width = len(sought[name].positive)
            reached = np.concatenate([*near[at : at + width], np.zeros(0, np.intp)])
            # An index finds tracks that look like the examples; confirmed tracks may not.
            said = groups.of_ids(sought[name].said.accepted)
            said = said if scope is None else np.intersect1d(said, scope.tracks)
            found[name] = np.union1d(groups.of_rows(reached, owners), said)
            at += width
        return found

    def _floor(self, exit: int, least: float | None) -> float | None:
        return None if least is None or least <= 0 else self._calibrations[exit - 1].normalised(least)


def within(track_ids: NDArray[np.int64], request: MatchRequest) -> NDArray[np.bool_]:
    """Which tracks a request admits."""
    admitted = np.ones(len(track_ids), np.bool_)
    if request.segments is not None:
        admitted &= np.isin(segment_of(track_ids), request.segments)
    if request.tracks is not None:
        admitted &= np.isin(track_ids, request.tracks)
    return admitted
