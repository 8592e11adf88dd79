"""Bands and scores of one entity's tracks come in, with when and where they were seen; settled ones go out.

Two rules apply within a scene, where camera and light are the same. A scene consists of the shots of a video
and those shots of other videos that show the same; a video without cuts is one shot.

1. An accepted track must come close to the entity's best track in the scene (`near_in_video`), measured
   without examples cut from that track. A track clearly less similar than the thing itself looked a minute
   ago is another thing: the next person at the door. On another day the light differs, and everything at the
   site may be less similar than on the best day. So the reference is the scene's own best track if it reaches
   `near_on_site` of the site's best, and the site's best if it does not: then the thing itself is not in the
   scene.
2. A track that continues an accepted one is accepted with it, if it reaches `carried` of the scene's best. It
   continues another track of its shot that is at the same place at the same time or within half a second. It
   also continues one that it takes over from: one track begins where and when the other ends, and between
   them the thing has moved by one diagonal of the larger box at most. Then no sure track may be at another
   place meanwhile, for more than GAP_SECONDS. This finds odd poses, partial boxes and broken tracks of the
   thing itself, which no threshold could separate from strangers.

A track that a user confirmed is accepted for that reason, and carries the tracks that continue it. The
confirmation says nothing about how well it looks like the thing, so it raises no best track beyond the
track's own value.

A track that should have been evaluated deeper and was not, because time ran out, may be anything. It carries
nothing, is not carried, and a confirmation does not accept it: the tracks that continue it might then be
carried by nothing. Other tracks are compared with the most that it could be, and nothing takes over beside
it.

Carried and confirmed tracks get a score above `high`, tracks that fall behind by rule 1 a score below it: the
band always follows from the score. How likely an uncertain track is right depends less on its own value than
on its distance from the best track, in the library and in the scene; its score is reduced accordingly, at
most down to `low`. Values are compared on the scale of the deepest exit, whichever exit decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.decide import Calibration
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN
from panorama.regions import shared
from panorama.store.ascending import looked_up

GAP_SECONDS = 0.5
"""A track can continue another one that ended at most this long before; see `takes_over` for after."""

SAME_PLACE = 0.5
"""Two boxes are at the same place if they share at least this part of the smaller one."""

MOVED = 1.0
"""A track takes over from another one at most this many diagonals of the larger box away.

Things that run, turn or come near have left their box when the next track begins. Decision 166 says what
other values do.
"""

CARRIED_GAIN = 0.05
"""A carried or confirmed track scores at least high + (1 - high) * CARRIED_GAIN * its own score.

So these tracks keep their order.
"""

PAIRS = 1 << 16
"""Pairs of tracks compared at a time: enough to keep the work in numpy, few enough to fit a cache."""


@dataclass(frozen=True, slots=True)
class Places:
    """When and where tracks were seen.

    Attributes:
        track_ids: (T,) int64, sorted.
        start_seconds, end_seconds: (T,) float64.
        view_seconds: (T, C) float64, ascending; every track has at least one view, and inf fills up to C.
        view_boxes_xyxy: (T, C, 4) float32.
    """

    track_ids: NDArray[np.int64]
    start_seconds: NDArray[np.float64]
    end_seconds: NDArray[np.float64]
    view_seconds: NDArray[np.float64]
    view_boxes_xyxy: NDArray[np.float32]

    def __post_init__(self) -> None:
        count = len(self.track_ids)
        shapes = (self.start_seconds.shape, self.end_seconds.shape, self.view_seconds.shape[:1])
        if shapes != ((count,),) * 3 or self.view_boxes_xyxy.shape != (*self.view_seconds.shape, 4):
            raise ValueError(f"{count} tracks, but spans and views have shapes {shapes}")

    def boxes_at(
        self, seconds: NDArray[np.float64], rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.float32]:
        """(N, 4) box of each track at a time (N,): linear between views, outside of them the nearest view.

        Args:
            rows: (N,) which tracks; None for all in order.
        """
        rows = np.arange(len(self.track_ids)) if rows is None else rows
        times, boxes = self.view_seconds, self.view_boxes_xyxy
        known = times[rows]  # (N, C)
        views = np.isfinite(known).sum(axis=1)
        after = np.minimum((known <= seconds[:, None]).sum(axis=1), views - 1)
        before = np.maximum(after - 1, 0)
        first, last = times[rows, before], times[rows, after]
        share = np.where(last > first, (seconds - first) / np.where(last > first, last - first, 1), 1.0)
        share = np.clip(share, 0, 1)[:, None].astype(np.float32)
        return np.asarray(boxes[rows, before] * (1 - share) + boxes[rows, after] * share, np.float32)


class Whereabouts(Protocol):
    """Says when and where tracks were seen; `panorama.answering.source.SnapshotVectors` is one."""

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        """When and where tracks (T,), sorted, were seen; tracks without a crop are left out."""
        ...

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) a number per track, equal for tracks of the same shot, which may go on over several videos."""
        ...

    def scenes(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) a number per track, equal for tracks of the same scene: of shots that show the same."""
        ...

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S,) a number per scene, equal for scenes of the same site: that show the same in any light."""
        ...

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        """Segments of the videos whose shots continue into the given ones, or continue them."""
        ...


@dataclass(frozen=True, slots=True)
class SceneBests:
    """The reference values of one entity, by scene.

    Attributes:
        scenes: (S,) int64, ascending: scenes in which not every track was rejected.
        best: (S,) float64 value of the best track, each measured without examples cut from it.
        shown: (S,) whether a track was accepted there.
    """

    scenes: NDArray[np.int64]
    best: NDArray[np.float64]
    shown: NDArray[np.bool_]

    @classmethod
    def none(cls) -> SceneBests:
        """No scenes."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(0, np.bool_))

    def of(self, scenes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Best value and `shown` of some scenes (N,); -inf and False for unknown scenes."""
        best = looked_up(self.scenes, self.best, scenes, -np.inf)
        return best, looked_up(self.scenes, self.shown, scenes, False)

    def with_others(self, others: SceneBests) -> SceneBests:
        """These scenes and others; for a scene in both, the better value."""
        scenes = np.union1d(self.scenes, others.scenes)
        (one, here), (two, there) = self.of(scenes), others.of(scenes)
        return SceneBests(scenes, np.maximum(one, two), here | there)

    def on_sites(self, where: Whereabouts, scenes: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) the best value at the site of each scene; -inf if nothing is known there."""
        sites, site = np.unique(where.sites(self.scenes), return_inverse=True)
        tops = np.full(len(sites), -np.inf)
        np.maximum.at(tops, site, self.best)
        return looked_up(sites, tops, where.sites(scenes), -np.inf)

    def unchanged_by(self, others: SceneBests, where: Whereabouts) -> bool:
        """Whether the results in these scenes stay the same when those of others are added."""
        known = np.isin(others.scenes, self.scenes)
        best, shown = self.of(others.scenes[known])
        if (others.best[known] > best).any() or (others.shown[known] & ~shown).any():
            return False
        there = self.on_sites(where, others.scenes)
        return not bool((np.isfinite(there) & (others.best > there)).any())


@dataclass(frozen=True, slots=True)
class Settled:
    """Scores and bands (T,) after both rules, and the scenes of these tracks."""

    score: NDArray[np.float64]
    band: NDArray[np.uint8]
    bests: SceneBests


def continues(places: Places, ones: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(N,) whether pairs of tracks (rows) are at the same place, at the same time or within GAP_SECONDS.

    It compares them at the times of all views of both, and in the middle of their common time or of the gap.
    """
    first = np.maximum(places.start_seconds[ones], places.start_seconds[others])
    last = np.minimum(places.end_seconds[ones], places.end_seconds[others])
    near = first < last + GAP_SECONDS
    early, late = np.minimum(first, last)[:, None], np.maximum(first, last)[:, None]
    moments = [((first + last) / 2)[:, None], places.view_seconds[ones], places.view_seconds[others]]
    seconds = np.concatenate(moments, axis=1)  # (N, 1 + 2 C)
    pair, moment = np.nonzero(near[:, None] & (seconds >= early) & (seconds <= late))
    at = seconds[pair, moment]
    same = shared(places.boxes_at(at, ones[pair]), places.boxes_at(at, others[pair])) >= SAME_PLACE
    found = np.zeros(len(ones), np.bool_)
    found[pair[same]] = True
    return found


def takes_over(places: Places, ones: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(N,) whether one of each pair of tracks (rows) begins when the other ends, at most MOVED away.

    It also ends later: a track that lies within another one's time is beside it.
    """
    start, end = places.start_seconds, places.end_seconds
    first_is_later = start[ones] > start[others]
    first_is_later |= (start[ones] == start[others]) & (end[ones] > end[others])
    earlier, later = np.where(first_is_later, others, ones), np.where(first_is_later, ones, others)
    ends, begins = end[earlier], start[later]
    found = (np.abs(begins - ends) < GAP_SECONDS) & (end[later] > ends)
    at = np.flatnonzero(found)
    boxes = places.boxes_at(ends[at], earlier[at]), places.boxes_at(begins[at], later[at])
    before, after = ((box[:, :2] + box[:, 2:]) / 2 for box in boxes)
    diagonals = [np.linalg.norm(box[:, 2:] - box[:, :2], axis=1) for box in boxes]
    found[at] = np.linalg.norm(after - before, axis=1) <= MOVED * np.maximum(*diagonals)
    return found


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
) -> Settled:
    """Scores and bands after both rules.

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
    before, seen = (known or SceneBests.none()).of(scenes)
    bests = before.copy()
    most = np.where(unseen, 1.0, measure)  # no value is above 1
    np.maximum.at(bests, scene, np.where(band > REJECTED, most, -np.inf))
    _, shot = np.unique(where.shots(track_ids), return_inverse=True)
    here = SceneBests(scenes, bests, seen)
    tops = here.with_others(known or SceneBests.none()).on_sites(where, scenes)
    counts = np.where(bests >= calibration.near_on_site * tops, bests, tops)
    sure = said | ((band == ACCEPTED) & ~unseen & (value >= calibration.near_in_video * counts[scene]))
    waiting = np.isin(shot, shot[sure]) & ~sure & ~unseen & (band != REJECTED)
    waiting &= value >= calibration.carried * counts[scene]
    # As long as some were not seen deep enough, others that are accepted so far may turn out to be sure.
    perhaps = sure | unseen | ((band == ACCEPTED) & unseen.any())
    carried = _carried(track_ids, shot, sure, waiting, perhaps, where)
    band[(band == ACCEPTED) & ~(sure | carried)] = UNCERTAIN
    score = np.where(carried | said, raised, score)
    band[carried] = ACCEPTED
    waits = band == UNCERTAIN
    shown = seen | (np.bincount(scene[band == ACCEPTED], minlength=len(scenes)) > 0)
    top = max(float(measure.max()) if best is None else best, 1e-6)
    score[waits] = standing(score, value / top, shown[scene], calibration)[waits]
    open_ = np.isfinite(bests)
    return Settled(score, band, SceneBests(scenes[open_], bests[open_], shown[open_]))


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


def _carried(
    track_ids: NDArray[np.int64],
    shot: NDArray[np.intp],
    sure: NDArray[np.bool_],
    waiting: NDArray[np.bool_],
    perhaps: NDArray[np.bool_],
    where: Whereabouts,
) -> NDArray[np.bool_]:
    """Which of the waiting tracks continue a sure track, directly or through others.

    Args:
        perhaps: (T,) the sure tracks and those that may yet be: where one is, the thing may be.
    """
    carried = np.zeros(len(track_ids), np.bool_)
    if not waiting.any():
        return carried
    asked = (sure | waiting | perhaps) & np.isin(shot, shot[waiting])
    known = where.places(np.sort(track_ids[asked]))
    if not len(known.track_ids):
        return carried
    order = np.argsort(track_ids, kind="stable")
    rows = order[np.searchsorted(track_ids[order], known.track_ids)]  # in `track_ids`, for each known place
    left = waiting[rows]
    met = _meet(known, shot[rows], np.flatnonzero(sure[rows]), np.flatnonzero(left))
    more = np.flatnonzero(perhaps[rows] & ~sure[rows])
    elsewhere = met.elsewhere
    if len(more):
        elsewhere = elsewhere | _meet(known, shot[rows], more, np.flatnonzero(left)).elsewhere
    while True:
        reached = np.flatnonzero(left & (met.at_place | (met.taking_over & ~elsewhere)))
        if not len(reached):
            return carried
        left[reached] = False
        carried[rows[reached]] = True
        met = _meet(known, shot[rows], reached, np.flatnonzero(left))


@dataclass(frozen=True, slots=True)
class _Met:
    """What some tracks (T,) have to do with any track of a front that they meet in their shot.

    Attributes:
        at_place: it is at the same place, at the same time or within GAP_SECONDS.
        taking_over: one begins where and when the other one ends.
        elsewhere: it is at another place for more than GAP_SECONDS at the same time.
    """

    at_place: NDArray[np.bool_]
    taking_over: NDArray[np.bool_]
    elsewhere: NDArray[np.bool_]


def _meet(places: Places, shot: NDArray[np.intp], front: NDArray[np.intp], left: NDArray[np.intp]) -> _Met:
    """How the tracks left (rows) meet those of the front (rows) in the same shot (T,)."""
    # One number encodes shot and time, so that only tracks that have begun by then are paired at all. It is
    # rounded, hence the extra second; the exact times are compared later.
    length = float(places.end_seconds.max() - places.start_seconds.min()) + 4
    since = places.start_seconds - places.start_seconds.min()
    began = shot * length + since
    left = left[np.argsort(began[left], kind="stable")]
    starts = np.searchsorted(began[left], shot[front] * length - 1)
    until = since[front] + (places.end_seconds - places.start_seconds)[front] + GAP_SECONDS + 1
    counts = np.searchsorted(began[left], shot[front] * length + until, side="right") - starts
    met = _Met(*(np.zeros(len(places.track_ids), np.bool_) for _ in range(3)))
    for part in np.array_split(np.arange(len(front)), 1 + int(counts.sum()) // PAIRS):
        ends = np.cumsum(counts[part])
        total = int(ends[-1]) if len(ends) else 0
        place = np.arange(total) + np.repeat(starts[part] - ends + counts[part], counts[part])
        ones, others = np.repeat(front[part], counts[part]), left[place]
        same = continues(places, ones, others)
        met.at_place[others[same]] = True
        met.taking_over[others[takes_over(places, ones, others)]] = True
        met.elsewhere[others[~same & (_together(places, ones, others) > GAP_SECONDS)]] = True
    return met


def _together(places: Places, ones: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
    """(N,) how long pairs of tracks (rows) last at the same time, in seconds; negative for a gap."""
    first = np.maximum(places.start_seconds[ones], places.start_seconds[others])
    return np.asarray(np.minimum(places.end_seconds[ones], places.end_seconds[others]) - first, np.float64)
