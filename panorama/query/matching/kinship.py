"""Bands and scores of one entity's tracks come in, with when and where they were seen; settled ones go out.

Four rules apply within a scene, where camera and light are the same. A scene consists of the shots of a
video and those shots of other videos that show the same; a video without cuts is one shot.

1. An accepted track must come close to the entity's best track in the scene (`near_in_video`), measured
   without examples cut from that track. A track clearly less similar than the thing itself looked a minute
   ago is another thing: the next person at the door. On another day the light differs, and everything at the
   site may be less similar than on the best day. So the reference is the scene's own best track if it reaches
   `near_on_site` of the site's best, and the site's best if it does not: then the thing itself is not in the
   scene.
2. A scene whose best track does not stand out shows the thing in no track for sure: another track, seen at
   another time, is nearly as near to the entity and looks different. None is accepted there; see
   `contesting`. If a user confirmed a track of the scene, only tracks that contest that one are not
   accepted.
3. A track that continues an accepted one is accepted with it, if it reaches `carried` of the scene's best. It
   continues another track of its shot that is at the same place at the same time or within half a second. It
   also continues one that it takes over from: one track begins where and when the other ends, and between
   them the thing has moved by one diagonal of the larger box at most. Then no sure track may be at another
   place meanwhile, for more than GAP_SECONDS. This finds odd poses, partial boxes and broken tracks of the
   thing itself, which no threshold could separate from strangers.
4. A track that looks more like an accepted one than like a stranger is accepted with it, from `alike` of the
   scene's best on if it continues it as above, and from `carried` on if it is seen within NEAR_SECONDS of it,
   wherever that is, and the lead is clear. Strangers are the tracks that are at another place while an
   accepted one is there: in the same light, they show what the thing is not. Only what is seen within
   NEAR_SECONDS is compared: the next person at the door may come soon, but is then seen beside the first,
   or looks different. A track that accepted ones cover adds no time and is left as it is.

A track that a user confirmed is accepted for that reason, and carries the tracks that continue it. The
confirmation says nothing about how well it looks like the thing, so it raises no best track beyond the
track's own value.

A track that should have been evaluated deeper and was not, because time ran out, may be anything. It carries
nothing, is not carried, and a confirmation does not accept it: the tracks that continue it might then be
carried by nothing. Other tracks are compared with the most that it could be, and nothing takes over beside
it; and as long as there is one, the fourth rule accepts nothing, for it may be a stranger.

Carried and confirmed tracks get a score above `high`, tracks that fall behind by rule 1 a score below it: the
band always follows from the score. How likely an uncertain track is right depends less on its own value than
on its distance from the best track, in the library and in the scene; its score is reduced accordingly, at
most down to `low`. Values are compared on the scale of the deepest exit, whichever exit decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.carrying import carried_alike, carried_on
from panorama.query.matching.contesting import Contenders, contests, may_contest
from panorama.query.matching.decide import Calibration
from panorama.query.matching.looks import LookUp
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN
from panorama.query.matching.meeting import Whereabouts
from panorama.store.ascending import looked_up

CARRIED_GAIN = 0.05
"""A carried or confirmed track scores at least high + (1 - high) * CARRIED_GAIN * its own score.

So these tracks keep their order.
"""


@dataclass(frozen=True, slots=True)
class SceneBests:
    """The reference values of one entity, by scene.

    Attributes:
        scenes: (S,) int64, ascending: scenes in which not every track was rejected.
        best: (S,) float64 value of the best track, each measured without examples cut from it.
        shown: (S,) whether a track was accepted there.
        contest: (S, 2) int64, the best track and one that contests it; of a scene with tracks that a user
            confirmed, one of these and 0; 0 and 0 of others.
    """

    scenes: NDArray[np.int64]
    best: NDArray[np.float64]
    shown: NDArray[np.bool_]
    contest: NDArray[np.int64]

    @classmethod
    def none(cls) -> SceneBests:
        """No scenes."""
        nobody = np.zeros((0, 2), np.int64)
        return cls(np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(0, np.bool_), nobody)

    def of(self, scenes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Best value and `shown` of some scenes (N,); -inf and False for unknown scenes."""
        best = looked_up(self.scenes, self.best, scenes, -np.inf)
        return best, looked_up(self.scenes, self.shown, scenes, False)

    def contests_of(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(N, 2) `contest` of some scenes (N,)."""
        columns = [looked_up(self.scenes, tracks, scenes, 0) for tracks in self.contest.T]
        return np.stack(columns, axis=1)

    def with_others(self, others: SceneBests) -> SceneBests:
        """These scenes and others; for a scene in both, the better value."""
        scenes = np.union1d(self.scenes, others.scenes)
        (one, here), (two, there) = self.of(scenes), others.of(scenes)
        contest = self.contests_of(scenes)
        contest = np.where(contest[:, :1] > 0, contest, others.contests_of(scenes))
        return SceneBests(scenes, np.maximum(one, two), here | there, contest)

    def on_sites(self, where: Whereabouts, scenes: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) the best value at the site of each scene; -inf if nothing is known there."""
        sites, site = np.unique(where.sites(self.scenes), return_inverse=True)
        tops = np.full(len(sites), -np.inf)
        np.maximum.at(tops, site, self.best)
        return looked_up(sites, tops, where.sites(scenes), -np.inf)

    def unchanged_by(self, others: SceneBests, where: Whereabouts, ratio: float) -> bool:
        """Whether the results in these scenes stay the same when those of others are added.

        Args:
            ratio: see `Calibration.distance_ratio`.
        """
        known = np.isin(others.scenes, self.scenes)
        best, shown = self.of(others.scenes[known])
        if (others.best[known] > best).any() or (others.shown[known] & ~shown).any():
            return False
        if ratio < 1:
            contest = self.contests_of(others.scenes[known])
            by_word = (contest[:, 0] > 0) & (contest[:, 1] == 0) & others.shown[known]
            if (by_word | (shown & may_contest(best, others.best[known], ratio))).any():
                return False
        there = self.on_sites(where, others.scenes)
        return not bool((np.isfinite(there) & (others.best > there)).any())


@dataclass(frozen=True, slots=True)
class Settled:
    """Scores and bands (T,) after all four rules, and the scenes of these tracks."""

    score: NDArray[np.float64]
    band: NDArray[np.uint8]
    bests: SceneBests


def settle(
    track_ids: NDArray[np.int64],
    score: NDArray[np.float64],
    band: NDArray[np.uint8],
    calibration: Calibration,
    where: Whereabouts,
    best: float | None = None,
    unaided: NDArray[np.float64] | None = None,
    known: SceneBests | None = None,
    said: NDArray[np.bool_] | None = None,
    unseen: NDArray[np.bool_] | None = None,
    looks: LookUp | None = None,
) -> Settled:
    """Scores and bands after all four rules.

    Args:
        track_ids: (T,) of one entity; includes every track that may be accepted.
        score, band: (T,) as `bands` set them.
        calibration: of the deepest exit.
        where: gives shots and scenes; asked for places only if a track may be carried.
        best: the value of the entity's best track, if these are only some of its tracks.
        unaided: (T,) scores to measure other tracks by, none larger than `score`; None for `score`.
        known: what the entity's other tracks are in scenes, if these are only some of its tracks.
        said: (T,) tracks that a user confirmed; None for none.
        unseen: (T,) uncertain tracks that were not evaluated as deep as they should be; None for none.
        looks: what tracks look like; asked only of tracks that compete for a scene, and of tracks near those
            that may be accepted for their looks. None: the second and the fourth rule change nothing.
    """
    score, band = score.copy(), band.copy()
    unseen = np.zeros(len(band), np.bool_) if unseen is None else unseen
    said = np.zeros(len(band), np.bool_) if said is None else said & ~unseen
    band[said] = ACCEPTED
    raised = np.maximum(score, calibration.high + (1 - calibration.high) * CARRIED_GAIN * score)
    if calibration.near_in_video <= 0 or not (band > REJECTED).any():
        return Settled(np.where(said, raised, score), band, SceneBests.none())
    value = calibration.values(score)
    measure = value if unaided is None else calibration.values(unaided)
    scenes, scene = np.unique(where.scenes(track_ids), return_inverse=True)
    known = known or SceneBests.none()
    before, seen = known.of(scenes)
    contest = known.contests_of(scenes)
    bests = before.copy()
    most = np.where(unseen, 1.0, measure)  # no value is above 1
    np.maximum.at(bests, scene, np.where(band > REJECTED, most, -np.inf))
    _, shot = np.unique(where.shots(track_ids), return_inverse=True)
    here = SceneBests(scenes, bests, seen, contest)
    tops = here.with_others(known).on_sites(where, scenes)
    counts = np.where(bests >= calibration.near_on_site * tops, bests, tops)
    sure = said | ((band == ACCEPTED) & ~unseen & (value >= calibration.near_in_video * counts[scene]))
    if looks is not None and calibration.distance_ratio < 1:
        every = Contenders(track_ids, value, measure, scene, shot, sure, said)
        # What is known of a scene stands: if tracks that come in could change it, all are looked at again.
        asked = (np.bincount(scene[sure], minlength=len(scenes)) > 0) & ~np.isfinite(before)
        compared = every[(band > REJECTED) & ~unseen]
        found = contests(compared, asked, calibration.distance_ratio, where, looks)
        held, contest = _held(track_ids, scene, said, contest, found)
        sure &= ~held
    waiting = np.isin(shot, shot[sure]) & ~sure & ~unseen & (band != REJECTED)
    reaching = waiting & (value >= calibration.carried * counts[scene])
    # As long as some were not seen deep enough, others that are accepted so far may turn out to be sure.
    perhaps = sure | unseen | ((band == ACCEPTED) & unseen.any())
    carried = carried_on(track_ids, shot, sure, reaching, perhaps, where)
    if looks is not None and calibration.alike < 1 and not unseen.any():
        like = waiting & ~carried & (value >= calibration.alike * counts[scene])
        accepted, others = sure | carried, waiting & ~carried
        carried |= carried_alike(track_ids, shot, accepted, others, like, reaching, where, looks)
    band[(band == ACCEPTED) & ~(sure | carried)] = UNCERTAIN
    score = np.where(carried | said, raised, score)
    band[carried] = ACCEPTED
    waits = band == UNCERTAIN
    shown = seen | (np.bincount(scene[band == ACCEPTED], minlength=len(scenes)) > 0)
    top = max(float(measure.max()) if best is None else best, 1e-6)
    score[waits] = standing(score, value / top, shown[scene], calibration)[waits]
    met = np.isfinite(bests)
    return Settled(score, band, SceneBests(scenes[met], bests[met], shown[met], contest[met]))


def _held(
    track_ids: NDArray[np.int64],
    scene: NDArray[np.intp],
    said: NDArray[np.bool_],
    known: NDArray[np.int64],
    found: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which tracks (T,) are not accepted because others contest them, and `SceneBests.contest` (S, 2).

    Args:
        known: (S, 2) the same as far as it is known of other tracks; found: (N, 2) contests among these.
    """
    contest = known.copy()
    order = np.argsort(track_ids)
    row = order[np.searchsorted(track_ids[order], found)]  # (N, 2)
    by_word = said[row[:, 0]]
    open_ = np.flatnonzero(~by_word)[::-1]  # the best comes first, and stays
    contest[scene[row[open_, 0]]] = found[open_]
    held = contest[scene, 1] > 0
    held[row[by_word, 1]] = True
    contest[scene[said], 0] = track_ids[said]
    return held & ~said, contest


def standing(
    score: NDArray[np.float64],
    of_best: NDArray[np.float64],
    shown: NDArray[np.bool_],
    calibration: Calibration,
) -> NDArray[np.float64]:
    """The scores (T,) of tracks that stay uncertain, from `low` to below `high`.

    Args:
        score: from their own values.
        of_best: their values divided by that of the entity's best track.
        shown: whether their scene shows the entity in another track.
    """
    # Tracks that only a better track kept from acceptance keep their order below `high`.
    border = np.nextafter(calibration.high, -1)
    held = np.where(score >= calibration.high, calibration.low + (border - calibration.low) * score, score)
    share = np.clip(of_best, 0, 1) ** calibration.fade * np.where(shown, calibration.beside, 1.0)
    return np.asarray(calibration.low + (held - calibration.low) * share)
