"""Tracks come in; the crops of other tracks that show the same place at the same time go out.

The proposer makes several boxes of one thing: the whole, parts, and the thing with what is around it. Each
becomes a track of its own, and only some of these are matched to the thing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.regions import shared
from panorama.store.files.schema import segment_of
from panorama.store.scenes.places import PlaceTables
from panorama.store.scenes.seen_tracks import boxes_at

SHOWN = 0.1
"""A crop shows a track if they have at least this part of the smaller box in common.

With half, as for `kinship.SAME_PLACE`, crops stay that show legs and even a face beside much floor and wall.
"""

GAP_SECONDS = 0.5
"""A thing is still there this long before and after its track, which may begin late and break off."""


@dataclass(frozen=True, slots=True)
class Overlapping:
    """Crops that show the place of a track while it is there.

    Attributes:
        crop_ids: (C,) int64, unique; those that show the least of it first.
        track_ids: (C,) int64 the track of each crop.
        shares: (C,) float32 the most of the smaller box that it has in common with such a track.
        emptied: (E,) int64, ascending: the tracks that have no other crops.
    """

    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    shares: NDArray[np.float32]
    emptied: NDArray[np.int64]


def overlapping(tables: PlaceTables, track_ids: NDArray[np.int64], alike: NDArray[np.int64]) -> Overlapping:
    """The crops of other tracks that show some tracks; unknown tracks are left out.

    Args:
        track_ids: (T,) what is shown.
        alike: (A,) tracks that may follow the same thing. If one crop of such a track shows it, all do: where
            one box slips off a thing, another still follows it.
    """
    ids, spans = tables.spans(track_ids)
    beside, _ = tables.spans_in(np.unique(segment_of(ids)))
    owners, views = tables.views(np.setdiff1d(beside, ids))
    samples_of, samples = tables.samples(ids)
    track, view = _at_once(ids, spans, owners, views)
    boxes = boxes_at(views["time"][view], ids[track], samples_of, samples)
    cut = np.stack([views[side] for side in ("x1", "y1", "x2", "y2")], axis=1)
    shares = np.zeros(len(owners), np.float32)
    np.maximum.at(shares, view, shared(boxes, cut[view]))
    shown = shares >= SHOWN
    shown |= np.isin(owners, np.intersect1d(owners[shown], alike))
    rows = np.flatnonzero(shown)
    rows = rows[np.argsort(shares[rows], kind="stable")]
    emptied = np.setdiff1d(owners, owners[~shown])
    return Overlapping(views["crop_id"][rows], owners[rows], shares[rows], emptied)


def _at_once(
    ids: NDArray[np.int64], spans: NDArray[np.void], owners: NDArray[np.int64], views: NDArray[np.void]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of a track (row of `spans`) and a view (row of `views`) taken while it was there."""
    # One number encodes segment and time, so that the views of a track are found by bisection.
    segments, within = np.unique(segment_of(ids), return_inverse=True)
    length = max(views["time"].max(initial=0), spans["end_time"].max(initial=0)) + 4 * GAP_SECONDS
    taken = np.searchsorted(segments, segment_of(owners)) * length + views["time"]
    order = np.argsort(taken, kind="stable")
    first = within * length + spans["start_time"] - GAP_SECONDS
    last = within * length + spans["end_time"] + GAP_SECONDS
    starts = np.searchsorted(taken[order], first, side="left")
    counts = np.searchsorted(taken[order], last, side="right") - starts
    place = np.arange(int(counts.sum())) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return np.repeat(np.arange(len(ids)), counts), order[place]
