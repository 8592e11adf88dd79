"""A matcher, a request and its terms (an accuracy, a time limit) come in; matches that keep them go out.

With a time limit, entities are searched one after the other. Crops that a deeper exit must see are computed
track by track, the most similar first; tracks not reached stay undecided. Every returned match would also be
in the complete answer. So a track seen deeper is accepted only if no better track could prevent it, and a
track not reached is not accepted by a confirmation and carries nothing (see `kinship`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from panorama.lines import counted
from panorama.query.matching.decide import Calibration
from panorama.query.matching.matcher import AlbumMatcher, VectorSource
from panorama.query.matching.matches import ACCEPTED, UNCERTAIN, Matches, MatchRequest, side_by_side
from panorama.query.matching.promises import (
    Evidence,
    account,
    no_category,
    nothing_found,
    only_pointed_at,
    promised,
)
from panorama.query.matching.scoring import Vectors
from panorama.query.shorthands.terms import Budget, Contract

FIRST_BATCH = 64
"""Crops in the first batch, before the speed is known; later ones take about a quarter of the time left."""


def match_on_terms(matcher: AlbumMatcher, request: MatchRequest, evidence: Sequence[Evidence]) -> Matches:
    """The matches that the request needs, with its accuracy and within its time.

    Raises:
        AccuracyError: the accuracy cannot be promised.
    """
    names = request.entities
    if names is None:
        names = matcher.source.album(matcher.embedder.exits).entities
    if request.contract is not None:
        for name in names:
            if name in matcher.categories:
                raise no_category(request.contract, name)
        crop_ids, _ = matcher.source.crops()
        kept = promised(request.contract, matcher.calibrations, evidence, matcher.first_exit(), crop_ids)
        request.remarks.append(account(request.contract, kept, evidence))
        matcher = _like(matcher, matcher.source, kept)
    recall = request.contract if request.contract and request.contract.kind == "recall" else None
    bare = replace(request, contract=None, budget=None)
    if request.budget is None:
        if recall is not None:
            _check_found(matcher, names, recall)
        return matcher.match(bare)
    parts = []
    for name in names:
        if request.budget.left <= 0:
            request.budget.cut.append(f"{name} was not looked for")
        else:
            parts.append(_within(matcher, replace(bare, entities=(name,)), request.budget))
    if recall is not None and not request.budget.cut:  # an answer that was cut short says that it is
        _check_found(matcher, names, recall)
    return side_by_side(tuple(names), parts)


def _check_found(matcher: AlbumMatcher, names: Sequence[str], contract: Contract) -> None:
    """Refuse to promise a recall for an entity for which no track of the whole library is accepted.

    Raises:
        AccuracyError: there is such an entity.
    """
    for name in names:
        # Confirmed tracks say nothing about how well the examples find the rest.
        if not matcher.accepts(name):
            if (matcher.match(MatchRequest((name,))).band == ACCEPTED).any():
                raise only_pointed_at(contract, name)
            raise nothing_found(contract, name, matcher.best(name), matcher.calibrations)


def _within(matcher: AlbumMatcher, request: MatchRequest, budget: Budget) -> Matches:
    """The matches of one entity that can be computed in time."""
    if matcher.first_exit() == matcher.embedder.exits:
        return matcher.match(request)  # nothing has to be computed
    assert request.entities is not None
    hurried = Hurried(matcher.source, request.entities[0], budget)
    source = cast(VectorSource, hurried)
    found = _like(matcher, source, matcher.calibrations).match(request)
    if not len(hurried.left_out):
        return found
    waiting = len(hurried.left_out)
    may_be = f"that may be {request.entities[0]}"
    told = counted(waiting, f"track {may_be} was", f"tracks {may_be} were")
    budget.cut.append(f"{told} not looked at closely")
    # What was left out may be as good as can be: past the first exit, accept only what it could not prevent.
    best = dict.fromkeys(range(matcher.first_exit() + 1, matcher.embedder.exits + 1), 1.0)
    found = _like(matcher, source, matcher.calibrations, best).match(request)
    if request.keep == "accepted":
        return found
    # Leave out tracks whose score and band may not be those of the complete answer.
    open_ = _may_change(found, matcher.rules(request.entities[0])[-1])
    return found[~(open_ | np.isin(found.track_id, hurried.left_out))]


def _may_change(found: Matches, rule: Calibration) -> NDArray[np.bool_]:
    """(T,) undecided tracks that what was left out may accept or lower, by the rule of the deepest exit."""
    # Other tracks may carry them or be better; where tracks are not compared in scenes, the best that could
    # be may have kept them from acceptance.
    compared = rule.near_in_video > 0
    return np.asarray((found.band == UNCERTAIN) & (compared | (found.score >= rule.high)))


def _like(
    matcher: AlbumMatcher,
    source: VectorSource,
    calibrations: Sequence[Calibration],
    best: Mapping[int, float] | None = None,
) -> AlbumMatcher:
    """A fresh matcher with the model and the threads of another one."""
    return AlbumMatcher(source, matcher.embedder, calibrations, threads=matcher.threads, best=best)


class Hurried:
    """A source of vectors that computes within a time limit: whole tracks, the most promising first.

    Attributes:
        left_out: (T,) tracks that were requested and not computed in time.
    """

    def __init__(self, source: VectorSource, entity: str, budget: Budget) -> None:
        self._source = source
        self._entity = entity
        self._budget = budget
        self._computed: dict[int, NDArray[np.int64]] = {}
        self.left_out: NDArray[np.int64] = np.zeros(0, np.int64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> Vectors:
        """Vectors at an exit of the crops whose tracks are known or were computed in time."""
        ids, owners = self._source.crops()
        order = np.argsort(ids)
        tracks = owners[order[np.searchsorted(ids[order], crop_ids)]]
        known = np.concatenate([self._source.stored(exit).crop_ids, self._computed.get(exit, ids[:0])])
        missing = ~np.isin(crop_ids, known)
        waiting = self._by_promise(crop_ids, tracks, np.unique(tracks[missing]))
        done, size, rate = 0, FIRST_BATCH, 0.0
        while done < len(waiting) and self._budget.left > 0:
            batch, taken = self._batch(waiting[done:], crop_ids, tracks, missing, size)
            started = time.perf_counter()
            self._source.deepen(batch, exit)
            rate = len(batch) / max(time.perf_counter() - started, 1e-6)
            size = max(FIRST_BATCH, int(rate * self._budget.left / 4))
            self._computed[exit] = np.concatenate([self._computed.get(exit, ids[:0]), batch])
            done += taken
        late = waiting[done:]
        self.left_out = np.union1d(self.left_out, late)
        return self._source.deepen(crop_ids[~np.isin(tracks, late)], exit)

    @staticmethod
    def _batch(
        waiting: NDArray[np.int64],
        crop_ids: NDArray[np.int64],
        tracks: NDArray[np.int64],
        missing: NDArray[np.bool_],
        size: int,
    ) -> tuple[NDArray[np.int64], int]:
        """Missing crops of the first waiting tracks, about `size` of them, and the number of these tracks."""
        picked: list[NDArray[np.int64]] = []
        taken = 0
        while taken < len(waiting) and sum(map(len, picked)) < size:
            picked.append(crop_ids[missing & (tracks == waiting[taken])])
            taken += 1
        return np.sort(np.concatenate(picked)), taken

    def _by_promise(
        self, crop_ids: NDArray[np.int64], tracks: NDArray[np.int64], waiting: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The waiting tracks, ordered by the similarity of their crops to an exemplar at the first exit."""
        table, album = self._source.stored(1), self._source.album(1)
        mine = (album.entity_index == album.entities.index(self._entity)) & ~album.negative
        order = np.argsort(table.crop_ids)
        place = np.minimum(np.searchsorted(table.crop_ids[order], crop_ids), len(order) - 1)
        likeness = (table.vectors[order[place]] @ album.vectors[mine].T).max(axis=1)  # (N,)
        best = np.array([likeness[tracks == track].max() for track in waiting])
        return waiting[np.argsort(-best, kind="stable")] if len(waiting) else waiting
