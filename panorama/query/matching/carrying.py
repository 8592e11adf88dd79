"""Accepted tracks and others that wait come in; those that are accepted with the accepted ones go out.

These are the third and the fourth rule of `kinship`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.looks import LookUp
from panorama.query.matching.meeting import GAP_SECONDS, NEAR_SECONDS, Met, Places, Whereabouts, meet, pairs

LEAD = 0.3
"""What comes back is so much more like an accepted track than like a stranger, on the scale of exemplars.

What continues an accepted one need only be more like it.
"""

COVERED = 0.75
"""A track that accepted ones cover for more than this part of its time adds hardly any time to theirs.

The times of several are added up, also where they are the same.
"""

STRANGE = 0.4
"""Every track counts as at least so much like a stranger: not every stranger was seen."""


def carried_on(
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
    rows = _rows(track_ids, known)
    left = waiting[rows]
    met = meet(known, shot[rows], np.flatnonzero(sure[rows]), np.flatnonzero(left))
    more = np.flatnonzero(perhaps[rows] & ~sure[rows])
    elsewhere = met.elsewhere
    if len(more):
        elsewhere = elsewhere | meet(known, shot[rows], more, np.flatnonzero(left)).elsewhere
    carried[rows] = _spread(
        known, shot[rows], met, left, lambda met: met.at_place | (met.taking_over & ~elsewhere), GAP_SECONDS
    )
    return carried


def carried_alike(
    track_ids: NDArray[np.int64],
    shot: NDArray[np.intp],
    accepted: NDArray[np.bool_],
    others: NDArray[np.bool_],
    like: NDArray[np.bool_],
    reaching: NDArray[np.bool_],
    where: Whereabouts,
    looks: LookUp,
) -> NDArray[np.bool_]:
    """Which of some tracks look more like accepted ones near in time than like strangers.

    A track that an accepted one is beside at another place is a stranger. One that accepted ones cover would
    add a second box of the thing, more often than not of a part of it.

    Args:
        others: (T,) tracks that are not accepted and may be strangers.
        like: (T,) those of them that may be accepted if they continue an accepted one.
        reaching: (T,) those that may be accepted if they are near an accepted one.
    """
    found = np.zeros(len(track_ids), np.bool_)
    if not like.any():
        return found
    asked = (accepted | others) & np.isin(shot, shot[like])
    known = where.places(np.sort(track_ids[asked]))
    if not len(known.track_ids):
        return found
    rows = _rows(track_ids, known)
    shots, front = shot[rows], np.flatnonzero(accepted[rows])
    beside = meet(known, shots, front, np.flatnonzero(others[rows]))
    strangers = np.flatnonzero(beside.elsewhere)
    covered = beside.together > COVERED * (known.end_seconds - known.start_seconds)
    left = like[rows] & ~beside.elsewhere & ~covered
    lead = _lead(known, shots, front, strangers, np.flatnonzero(left), looks)
    left &= lead >= 0
    back = reaching[rows] & (lead >= LEAD)
    met = meet(known, shots, front, np.flatnonzero(left), NEAR_SECONDS)
    found[rows] = _spread(
        known, shots, met, left, lambda met: met.at_place | met.taking_over | (met.near & back), NEAR_SECONDS
    )
    return found


def _spread(
    known: Places,
    shots: NDArray[np.intp],
    met: Met,
    left: NDArray[np.bool_],
    admits: Callable[[Met], NDArray[np.bool_]],
    seconds: float,
) -> NDArray[np.bool_]:
    """(T,) which of the tracks left are admitted by how they met the front, or one admitted before them."""
    found, left = np.zeros(len(left), np.bool_), left.copy()
    while len(reached := np.flatnonzero(left & admits(met))):
        left[reached] = False
        found[reached] = True
        met = meet(known, shots, reached, np.flatnonzero(left), seconds)
    return found


def _lead(
    known: Places,
    shots: NDArray[np.intp],
    front: NDArray[np.intp],
    strangers: NDArray[np.intp],
    left: NDArray[np.intp],
    looks: LookUp,
) -> NDArray[np.float64]:
    """(T,) how much more tracks left look like one of the front near in time than like a stranger near.

    -inf for the others, and for those that have none of the front near.
    """
    among = [_together(known, shots, these, left) for these in (front, strangers)]
    if not len(among[0][0]):
        return np.full(len(shots), -np.inf)
    seen = looks(known.track_ids[np.unique(np.concatenate([rows for pair in among for rows in pair]))])
    most = np.full(len(shots), -np.inf), np.full(len(shots), STRANGE)
    for (ones, these), likeness in zip(among, most, strict=True):
        np.maximum.at(likeness, these, seen.likeness(known.track_ids[ones], known.track_ids[these]))
    return most[0] - most[1]


def _together(
    known: Places, shots: NDArray[np.intp], front: NDArray[np.intp], left: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs (N,) of a track of the front and one left (rows) that are near in time."""
    none = np.zeros(0, np.intp)
    parts = [(none, none), *pairs(known, shots, front, left, NEAR_SECONDS)]
    ones, others = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    return ones, others


def _rows(track_ids: NDArray[np.int64], known: Places) -> NDArray[np.intp]:
    """(K,) the place in `track_ids` (T,), in any order, of each track that a place is known of."""
    order = np.argsort(track_ids, kind="stable")
    return np.asarray(order[np.searchsorted(track_ids[order], known.track_ids)])
