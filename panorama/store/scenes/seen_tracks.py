"""Places in videos come in; the tracks that were there go out, however their segments were indexed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.regions import iou
from panorama.store.catalog.seen import SeenPlaces
from panorama.store.files.schema import segment_of
from panorama.store.scenes.places import PlaceTables

SAME_BOX = 0.5
"""A track was at a place if its box overlaps that of the place by this intersection over union."""

NO_TRACK = -1

_Place = tuple[int, int, tuple[float, ...]]  # segment, frame, box


def tracks_at(tables: PlaceTables, seen: SeenPlaces) -> NDArray[np.int64]:
    """(P,) the track at each place; if there are several, the one whose box fits best; NO_TRACK for none."""
    found = np.full(len(seen), NO_TRACK, np.int64)
    ids, spans = tables.spans_in(np.unique(seen.segments))
    within = segment_of(ids)
    there = []
    for segment, frame in zip(seen.segments.tolist(), seen.frames.tolist(), strict=True):
        first, last = np.searchsorted(within, [segment, segment + 1])
        mine = spans[first:last]
        there.append(ids[first:last][(mine["start_frame"] <= frame) & (frame < mine["end_frame"])])
    ends = np.cumsum([len(tracks) for tracks in there], dtype=np.intp)
    every = np.concatenate([ids[:0], *there])
    owners, samples = tables.samples(np.unique(every))
    boxes = boxes_at(np.repeat(seen.seconds, [len(tracks) for tracks in there]), every, owners, samples)
    for place, (tracks, stop) in enumerate(zip(there, ends.tolist(), strict=True)):
        fits = iou(boxes[stop - len(tracks) : stop], seen.boxes_xyxy[place])[:, 0]
        if fits.max(initial=0.0) >= SAME_BOX:
            found[place] = tracks[int(fits.argmax())]
    return found


def boxes_at(
    seconds: NDArray[np.float64],
    tracks: NDArray[np.int64],
    owners: NDArray[np.int64],
    samples: NDArray[np.void],
) -> NDArray[np.float32]:
    """(N, 4) the box of each track at a time (N,), interpolated linearly between samples, as in answers.

    Args:
        owners, samples: (B,) the track of each sample and the samples, in order of track and time. A track
            without samples gets a box of zeros.
    """
    boxes = np.zeros((len(tracks), 4), np.float32)
    if not len(owners):
        return boxes
    starts, stops = (np.searchsorted(owners, tracks, side=side) for side in ("left", "right"))
    has = stops > starts
    starts, stops, seconds = starts[has], stops[has], seconds[has]
    # Combine track and time into one number. Rounding shifts times by some microseconds, which is harmless.
    times = samples["time"]
    since, length = times.min(), float(np.ptp(times)) + 1
    begins = np.concatenate([[0], np.cumsum(owners[1:] != owners[:-1])])  # (B,) number of the track
    asked = begins[starts] * length + np.clip(seconds - since, 0, length - 1)
    after = np.minimum(np.searchsorted(begins * length + (times - since), asked, side="right"), stops - 1)
    after = np.maximum(after, starts)
    before = np.maximum(after - 1, starts)
    apart = times[after] - times[before]
    share = np.clip((seconds - times[before]) / np.where(apart > 0, apart, 1), 0, 1)
    for column, side in enumerate(("x1", "y1", "x2", "y2")):
        boxes[has, column] = samples[side][before] * (1 - share) + samples[side][after] * share
    return boxes


class SeenTracks:
    """Looks up tracks like `tracks_at`, and remembers them: the tracks of a segment never change."""

    def __init__(self) -> None:
        self._known: dict[_Place, int] = {}
        self._data_version = -1

    def at(self, tables: PlaceTables, seen: SeenPlaces) -> NDArray[np.int64]:
        """(P,) the track at each place, see `tracks_at`."""
        known = self._known
        if self._data_version != tables.snapshot.data_version:
            live = set(tables.snapshot.live_segments.tolist())
            known = {place: track for place, track in known.items() if place[0] in live}
        columns = seen.segments.tolist(), seen.frames.tolist(), map(tuple, seen.boxes_xyxy.tolist())
        places: list[_Place] = list(zip(*columns, strict=True))
        new = np.flatnonzero([place not in known for place in places])
        if len(new):
            tracks = tracks_at(tables, seen[new]).tolist()
            # Replace the dictionary instead of extending it: other threads may be reading it.
            known = {**known, **{places[row]: track for row, track in zip(new.tolist(), tracks, strict=True)}}
        self._known, self._data_version = known, tables.snapshot.data_version
        return np.array([known[place] for place in places], np.int64)
