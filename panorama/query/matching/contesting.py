"""One entity's tracks in their scenes come in; those that others contest go out.

If an entity is not in a scene, the best of the strangers there may still look enough like it to be accepted.
But then, more often than not, another stranger looks nearly as much like it, and not like the first. Two such
tracks cannot both be the thing, and neither stands out, so neither is accepted. This is the ratio test by
which nearest neighbours are told from chance ones (Lowe 2004), between tracks that look different. What goes
on from one of them to the other without a gap is one thing that turns, and contests nothing.

If a user confirmed a track of the scene, that one is the thing, and only what contests it is in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.carrying import carried_on
from panorama.query.matching.looks import LookUp
from panorama.query.matching.meeting import Whereabouts
from panorama.store.ascending import rows_in

SURE = 0.7
"""From this normalised value on, a track is too near to an example for others to contest it."""

UNLIKE = 0.5
"""Two tracks whose likeness is below this look different; see `Looks.likeness`."""

APART_SECONDS = 1.0
"""Only tracks with at least this much time between them contest each other.

What is there at the same time may be a part of the thing, or the same thing cut out in another way.
"""


def may_contest(best: NDArray[np.float64], other: NDArray[np.float64], ratio: float) -> NDArray[np.bool_]:
    """(N,) whether other values (N,) are so near to best values (N,) that they could contest them."""
    return np.asarray((best < SURE) & _close(best, other, ratio))


def _close(ones: NDArray[np.float64], others: NDArray[np.float64], ratio: float) -> NDArray[np.bool_]:
    """(N,) whether the distances of two values from 1 have a ratio above that at which one stands out."""
    return np.asarray(1 - np.maximum(ones, others) > ratio * (1 - np.minimum(ones, others)))


@dataclass(frozen=True, slots=True)
class Contenders:
    """The tracks of one entity that may be accepted, or contest those that are; each (T,).

    Attributes:
        track_ids, value: the tracks and their normalised values.
        measure: their values without examples that were cut from them.
        scene, shot: numbers of their scenes, below S, and shots.
        sure: whether the track is accepted so far; said: whether a user confirmed it.
    """

    track_ids: NDArray[np.int64]
    value: NDArray[np.float64]
    measure: NDArray[np.float64]
    scene: NDArray[np.intp]
    shot: NDArray[np.intp]
    sure: NDArray[np.bool_]
    said: NDArray[np.bool_]

    def __getitem__(self, pick: NDArray[np.bool_]) -> Contenders:
        return Contenders(*(getattr(self, one.name)[pick] for one in fields(self)))


def contests(
    tracks: Contenders, asked: NDArray[np.bool_], ratio: float, where: Whereabouts, looks: LookUp
) -> NDArray[np.int64]:
    """(N, 2) pairs of tracks: the best of a scene, or a confirmed one, and one that contests it.

    Of those that contest the same scene, the best comes first.

    Args:
        asked: (S,) the scenes to look at.
        ratio: of the distances 1 - value of two tracks, the largest at which the better one stands out.
        where: gives times; looks: gives likeness. Tracks of which either is unknown contest nothing.
    """
    none = np.zeros((0, 2), np.int64)
    first, second = _pairs(tracks, asked, ratio)
    if len(first):
        goes_on = _going_on(tracks, first, where)[second]
        first, second = first[~goes_on], second[~goes_on]
    if not len(first):
        return none
    one, other = tracks.track_ids[first], tracks.track_ids[second]
    apart = tracks.shot[first] != tracks.shot[second]
    known = where.places(np.unique(np.append(one, other)))
    row_one, row_other = rows_in(known.track_ids, one), rows_in(known.track_ids, other)
    found = np.flatnonzero((row_one >= 0) & (row_other >= 0))
    a, b = row_one[found], row_other[found]
    gap = np.maximum(known.start_seconds[a], known.start_seconds[b])
    gap -= np.minimum(known.end_seconds[a], known.end_seconds[b])
    found = found[apart[found] | (gap >= APART_SECONDS)]
    one, other = one[found], other[found]
    if not len(one):
        return none
    likeness = looks(np.unique(np.append(one, other))).likeness(one, other)
    unlike = np.isfinite(likeness) & (likeness < UNLIKE)
    # Several looks of a thing may be confirmed: what is like one of them is not in doubt.
    unlike &= ~np.isin(other, other[likeness >= UNLIKE])
    return np.stack([one[unlike], other[unlike]], axis=1)


def _going_on(tracks: Contenders, first: NDArray[np.intp], where: Whereabouts) -> NDArray[np.bool_]:
    """(T,) which tracks continue some of them (rows), directly or through others."""
    front = np.zeros(len(tracks.track_ids), np.bool_)
    front[first] = True
    others = ~front & np.isin(tracks.shot, tracks.shot[first])
    return carried_on(tracks.track_ids, tracks.shot, front, others, front, where)


def _pairs(
    tracks: Contenders, asked: NDArray[np.bool_], ratio: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows (N,) of tracks that may be contested, and of those that may contest them."""
    by_word = np.zeros(len(asked), np.bool_)
    by_word[tracks.scene[tracks.said]] = True
    # Beside a confirmed track only what is accepted can lose; a pair for all that is open could be millions.
    rows = np.flatnonzero(asked[tracks.scene] & (tracks.sure | ~by_word[tracks.scene]))
    best_first = np.lexsort(
        (-tracks.measure[rows], -tracks.value[rows], ~tracks.said[rows], tracks.scene[rows])
    )
    rows = rows[best_first]
    begins = np.append(True, tracks.scene[rows[1:]] != tracks.scene[rows[:-1]])[: len(rows)]
    leads = np.flatnonzero(begins | tracks.said[rows])
    rest = np.flatnonzero(~begins & ~tracks.said[rows] & (tracks.value[rows] < SURE))
    scene = tracks.scene[rows]
    # Each track that is no lead is paired with all leads of its scene.
    starts = np.searchsorted(scene[leads], scene[rest])
    counts = np.searchsorted(scene[leads], scene[rest], side="right") - starts
    ends = np.cumsum(counts)
    place = np.arange(int(counts.sum())) + np.repeat(starts - ends + counts, counts)
    first, second = rows[leads[place]], rows[np.repeat(rest, counts)]
    said = tracks.said[first]
    strength = np.where(said, tracks.measure[first], tracks.value[first])
    near = _close(strength, tracks.measure[second], ratio) & (said | (tracks.value[first] < SURE))
    return first[near], second[near]
