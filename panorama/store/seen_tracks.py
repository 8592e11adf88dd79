"""Places in videos enter; the tracks that were there leave, whichever way their segments were indexed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.regions import iou
from panorama.store.places import PlaceTables
from panorama.store.schema import segment_of
from panorama.store.seen import SeenPlaces

SAME_BOX = 0.5
"""A track was at a place if its box there overlaps the place's so much (intersection over union)."""

NO_TRACK = -1


def tracks_at(tables: PlaceTables, seen: SeenPlaces) -> NDArray[np.int64]:
    """(P,) the track that was at each place; of several the one whose box fits best, NO_TRACK for none."""
    found = np.full(len(seen), NO_TRACK, np.int64)
    ids, spans = tables.spans_in(np.unique(seen.segments))
    within = segment_of(ids)
    there = []
    for segment, frame in zip(seen.segments.tolist(), seen.frames.tolist(), strict=True):
        first, last = np.searchsorted(within, [segment, segment + 1])
        mine = spans[first:last]
        there.append(ids[first:last][(mine["start_frame"] <= frame) & (frame < mine["end_frame"])])
    owners, samples = tables.samples(np.unique(np.concatenate([ids[:0], *there])))
    for place, tracks in enumerate(there):
        boxes = _boxes_at(float(seen.seconds[place]), tracks, owners, samples)
        fits = iou(boxes, seen.boxes_xyxy[place])[:, 0]
        if fits.max(initial=0.0) >= SAME_BOX:
            found[place] = tracks[int(fits.argmax())]
    return found


def _boxes_at(
    seconds: float, tracks: NDArray[np.int64], owners: NDArray[np.int64], samples: NDArray[np.void]
) -> NDArray[np.float32]:
    """(T, 4) the box of each track at a time: between its samples on a line, as answers have it."""
    boxes = np.zeros((len(tracks), 4), np.float32)
    starts, stops = (np.searchsorted(owners, tracks, side=side) for side in ("left", "right"))
    for row, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        mine = samples[start:stop]
        if len(mine):
            boxes[row] = [np.interp(seconds, mine["time"], mine[side]) for side in ("x1", "y1", "x2", "y2")]
    return boxes
