"""When and where tracks were seen comes in; which of them meet, and how, goes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from panorama.regions import shared

GAP_SECONDS = 0.5
"""A track can continue another one that ended at most this long before; see `takes_over` for after."""

SAME_PLACE = 0.5
"""Two boxes are at the same place if they share at least this part of the smaller one."""

MOVED = 1.0
"""A track takes over from another one at most this many diagonals of the larger box away.

Things that run, turn or come near have left their box when the next track begins. Decision 166 says what
other values do.
"""

NEAR_SECONDS = 3.0
"""Tracks that are told apart by their looks are compared with those at the same time or so near in time."""

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
        """Segments of the videos whose shots continue into the given ones, or continue them.

        Those beyond a neighbour are included where at most NEAR_SECONDS lie between.
        """
        ...


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


@dataclass(frozen=True, slots=True)
class Met:
    """What some tracks (T,) have to do with any track of a front that they meet in their shot.

    Attributes:
        at_place: it is at the same place, at the same time or within GAP_SECONDS.
        taking_over: one begins where and when the other one ends.
        elsewhere: it is at another place for more than GAP_SECONDS at the same time.
        near: it is there at the same time or within the seconds asked for, wherever that is.
        together: (T,) float64, for how many seconds it is there at the same time, all of these added up.
    """

    at_place: NDArray[np.bool_]
    taking_over: NDArray[np.bool_]
    elsewhere: NDArray[np.bool_]
    near: NDArray[np.bool_]
    together: NDArray[np.float64]


def meet(
    places: Places,
    shot: NDArray[np.intp],
    front: NDArray[np.intp],
    left: NDArray[np.intp],
    seconds: float = GAP_SECONDS,
) -> Met:
    """How the tracks left (rows) meet those of the front (rows) in the same shot (T,)."""
    count = len(places.track_ids)
    at_place, taking_over, elsewhere, near = np.zeros((4, count), np.bool_)
    met = Met(at_place, taking_over, elsewhere, near, np.zeros(count))
    for ones, others in pairs(places, shot, front, left, seconds):
        same, together = continues(places, ones, others), _together(places, ones, others)
        met.at_place[others[same]] = True
        met.taking_over[others[takes_over(places, ones, others)]] = True
        met.elsewhere[others[~same & (together > GAP_SECONDS)]] = True
        np.add.at(met.together, others, np.maximum(together, 0))
        met.near[others] = True
    return met


def pairs(
    places: Places,
    shot: NDArray[np.intp],
    front: NDArray[np.intp],
    left: NDArray[np.intp],
    seconds: float,
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs of a track of the front and one left (rows, each (N,)), some at a time.

    These are of the same shot (T,), and between them lie at most so many seconds.
    """
    # One number encodes shot and time, so that only tracks that have begun by then, and that the longest of
    # them would still reach, are paired at all. It is rounded, hence the extra second; the exact times are
    # compared afterwards.
    length = float(places.end_seconds.max() - places.start_seconds.min()) + 2 * seconds + 3
    since = places.start_seconds - places.start_seconds.min()
    began = shot * length + since
    left = left[np.argsort(began[left], kind="stable")]
    lasts = places.end_seconds - places.start_seconds
    least = np.maximum(since[front] - lasts[left].max(initial=0) - seconds, 0) - 1
    starts = np.searchsorted(began[left], shot[front] * length + least)
    until = since[front] + lasts[front] + seconds + 1
    counts = np.searchsorted(began[left], shot[front] * length + until, side="right") - starts
    for part in np.array_split(np.arange(len(front)), 1 + int(counts.sum()) // PAIRS):
        ends = np.cumsum(counts[part])
        total = int(ends[-1]) if len(ends) else 0
        place = np.arange(total) + np.repeat(starts[part] - ends + counts[part], counts[part])
        ones, others = np.repeat(front[part], counts[part]), left[place]
        near = _together(places, ones, others) >= -seconds
        yield ones[near], others[near]


def _together(places: Places, ones: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
    """(N,) how long pairs of tracks (rows) last at the same time, in seconds; negative for a gap."""
    first = np.maximum(places.start_seconds[ones], places.start_seconds[others])
    return np.asarray(np.minimum(places.end_seconds[ones], places.end_seconds[others]) - first, np.float64)
