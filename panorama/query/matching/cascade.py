"""Scored tracks of some entities come in; the same tracks go out, the undecided ones seen at deeper exits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.kinship import SceneBests, settle
from panorama.query.matching.ledger import note_bands, timed
from panorama.query.matching.looks import LookUp
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, Matches
from panorama.query.matching.meeting import Whereabouts
from panorama.query.matching.scoring import Scored

IsOpen = Callable[[NDArray[np.uint8], NDArray[np.float64], int], NDArray[np.bool_]]
"""Which tracks deserve a deeper look, by (band, score, exit)."""

SecondLook = Callable[[Mapping[str, NDArray[np.int64]], int], Mapping[str, Scored]]
"""Scores the tracks of several entities at an exit, in full batches; tracks without crops may be missing."""


class Cascade:
    """The tracks of one entity on their way through the exits.

    Args:
        name: of the entity.
        calibrations: one per exit.
        exit: the exit at which `scored` was computed.
        scored: its tracks there.
        best: the entity's known best values by exit; missing ones are found here.

    Attributes:
        band, score, exit: (T,) of each track, at the exit that decided it so far.
        best: the entity's best value at every exit used, each track measured without the exemplars cut from
            it. Missing for an exit that only confirmed tracks reached, and only because they were confirmed:
            other tracks are compared with those that came there by themselves.
        top: the best value among these tracks at every exit at which they were seen.
        scenes: the references that these tracks were compared with, once they are settled.
        unseen: (T,) tracks that should have been seen deeper when the time was over.
    """

    def __init__(
        self,
        name: str,
        calibrations: Sequence[Calibration],
        exit: int,
        scored: Scored,
        best: Mapping[int, float],
    ) -> None:
        self.name = name
        self._calibrations = calibrations
        self.first = exit
        order = np.argsort(scored.track_ids, kind="stable")
        scored = scored[order]
        self.track_ids = scored.track_ids
        self._crop_ids, self._exemplar_ids = scored.crop_ids.copy(), scored.exemplar_ids.copy()
        self.best = dict(best)
        self.top: dict[int, float] = {}
        self.scenes = SceneBests.none()
        self.exit = np.full(len(scored.track_ids), exit, np.int16)
        self.unseen = np.zeros(len(scored.track_ids), np.bool_)
        self._said = scored.said
        self._led = np.zeros(len(scored.track_ids), np.bool_)  # went deeper only because it was confirmed
        every = np.arange(len(scored.track_ids))
        self.band, self.score, self._unaided = self._decided(scored, every, exit)

    def waiting(self, is_open: IsOpen, exit: int) -> NDArray[np.int64]:
        """The tracks seen at `exit` that deserve a deeper look."""
        return self.track_ids[(self.exit == exit) & is_open(self.band, self.score, exit)]

    def take(self, again: Scored | None, waiting: NDArray[np.int64], exit: int) -> None:
        """Decide the waiting tracks by the values of a deeper exit; tracks without values become `unseen`."""
        seen = waiting[:0] if again is None else again.track_ids
        self.unseen |= np.isin(self.track_ids, np.setdiff1d(waiting, seen))
        if again is None:
            return
        rows = np.searchsorted(self.track_ids, again.track_ids)
        self.band[rows], self.score[rows], self._unaided[rows] = self._decided(again, rows, exit)
        self.exit[rows] = exit
        self._crop_ids[rows], self._exemplar_ids[rows] = again.crop_ids, again.exemplar_ids

    def _decided(
        self, scored: Scored, rows: NDArray[np.intp], exit: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
        """Bands, scores, and scores without the exemplars cut from the track itself, each (T,)."""
        calibration = self._calibrations[exit - 1]
        top = float(scored.unaided.max(initial=0.0))
        best = self.best.get(exit, top)
        if exit == self.first or not self._led[rows].all():
            self.top[exit], self.best[exit] = top, best
        decided = bands(scored.normalised, calibration, best)
        self._led[rows] |= scored.said & (decided == REJECTED)
        if exit == len(self._calibrations):
            decided[scored.said] = ACCEPTED
        else:  # confirmed tracks go as deep as the others, so that their values are on the same scale
            decided[scored.said] = np.maximum(decided[scored.said], UNCERTAIN)
        note_bands(exit, decided)
        return decided, calibration.score(scored.normalised), calibration.score(scored.unaided)

    def settle(self, where: Whereabouts, looks: LookUp, known: SceneBests | None = None) -> None:
        """Compare the tracks of each scene with each other; a rejected track is never accepted here.

        Confirmed tracks were not rejected, and are accepted if they were seen as deep as the others.

        Args:
            where: gives the scenes of the tracks.
            looks: gives what tracks look like; asked only of those that were seen at the deepest exit.
            known: what the entity's other tracks are in scenes, if these are only some of its tracks.
        """
        deepest = self._calibrations[-1]
        at = max(self.best)  # the deepest exit that any track was seen at
        best = float(deepest.values(self._calibrations[at - 1].score(np.array(self.best[at]))))
        tracks = self.track_ids, self.score, self.band
        deep = self.track_ids[self.exit == len(self._calibrations)]
        settled = settle(
            *tracks, deepest, where, best, self._unaided, known, said=self._said, unseen=self.unseen,
            looks=lambda track_ids: looks(track_ids[np.isin(track_ids, deep)]),
        )  # fmt: skip
        self.score, self.band, self.scenes = settled.score, settled.band, settled.bests

    def matches(self, keep: NDArray[np.bool_]) -> Matches:
        """The tracks to keep, (T,), as matches of the one entity."""
        index = np.zeros(len(self.track_ids), np.int32)
        columns = (self.track_ids, self.score, self.band, self._crop_ids, self._exemplar_ids, self.exit)
        return Matches((self.name,), index, *columns)[keep]


def passed_by(calibrations: Sequence[Calibration], exit: int) -> bool:
    """Whether tracks on their way deeper skip an exit: one that accepts nothing saves nothing."""
    return exit < len(calibrations) and calibrations[exit - 1].high >= 1


def refine(
    cascades: Sequence[Cascade],
    calibrations: Sequence[Calibration],
    is_open: IsOpen,
    second_look: SecondLook,
) -> None:
    """Take the open tracks of all entities deeper together until none is left; all start at the same exit."""
    if not cascades:
        return
    before = cascades[0].first
    for exit in range(before + 1, len(calibrations) + 1):
        if passed_by(calibrations, exit):
            continue
        waiting = {c.name: c.waiting(is_open, before) for c in cascades}
        waiting = {name: tracks for name, tracks in waiting.items() if len(tracks)}
        if not waiting:
            return
        with timed(exit):
            again = second_look(waiting, exit)
        for cascade in cascades:
            if cascade.name in waiting:
                cascade.take(again.get(cascade.name), waiting[cascade.name], exit)
        before = exit
