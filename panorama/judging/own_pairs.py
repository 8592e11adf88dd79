"""A library's crops come in; how alike examples among them are to their own tracks and to strangers goes out.

A track shows one thing. One of its crops serves as the example, with the same views as a registered image;
the crops of the track that are at least a second away from it are the same thing. Strangers are the tracks of
other videos or, in a library with a single video, tracks visible at the same time elsewhere in the picture.

The same person or car may appear in two videos, and then its best "stranger" is itself. If a stranger fits
better than half of the sure pairs do, the example counts as recurring: its true best stranger is unknown,
because whatever fits a little less is mostly the same thing again, in other light or in part. Recurring
examples are counted and say nothing about strangers. Half of the things that recur fit less well than that
and go unnoticed, so about as many further examples have themselves as best stranger. What is visible beside
the example at the same time is something else, however alike, so in a single video no example recurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.album.recurring import VIEWS
from panorama.models.base import Cohort
from panorama.query.matching.decide import POOL_QUANTILE, levels_together, normalise, pool
from panorama.query.matching.scoring import SCAN_ROWS, with_mean
from panorama.query.matching.track_rows import TrackGroups
from panorama.store.files.schema import BEST_FIRST, segment_of

if TYPE_CHECKING:
    from panorama.library import Library

MOST_EXAMPLES = 600
LEAST_EXAMPLES = 20
APART_SECONDS = 1.0

BLOCK = 32
"""Examples compared with all crops at a time, so that memory stays at a few rows for each of them."""

_CROPS = f"""{VIEWS.format(order=BEST_FIRST)}
SELECT c.crop_id, c.track_id, c.time, c.quality, s.start_time, s.end_time, c.x1, c.y1, c.x2, c.y2,
       s.motion = 0 AS at_edge
FROM crops c JOIN views s USING (crop_id, video)
ORDER BY c.crop_id
"""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Normalised similarities of examples to their own track and to their best stranger.

    Attributes:
        same: (E,); stranger: of the examples not known to recur, without those for which no track certainly
            shows something else; may be empty.
        recurring: number of recurring examples. About as many of the strangers may be the example's own
            thing, fitting less well.
        crop_ids: (N,) of all crops that were compared.
    """

    same: NDArray[np.float32]
    stranger: NDArray[np.float32]
    recurring: int
    crop_ids: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OwnCrops:
    """All crops of a library, ordered by crop id, with what separates same from stranger.

    All arrays are (N,), boxes (N, 4).

    Attributes:
        at_edge: whether the track never leaves the picture's upper or lower edge, as writing does.
    """

    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    times: NDArray[np.float64]
    quality: NDArray[np.float32]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    boxes_xyxy: NDArray[np.float32]
    at_edge: NDArray[np.bool_]
    groups: TrackGroups

    @classmethod
    def read(cls, library: Library) -> OwnCrops:
        columns = library.query(_CROPS).arrow()
        crop_ids = columns["crop_id"].to_numpy()
        # If a video was copied, its crops are listed under each name.
        crop_ids, once = np.unique(crop_ids, return_index=True)
        names = ("track_id", "time", "quality", "start_time", "end_time")
        track_ids, times, quality, starts, ends = (columns[name].to_numpy()[once] for name in names)
        boxes = np.stack([columns[side].to_numpy()[once] for side in ("x1", "y1", "x2", "y2")], axis=1)
        at_edge = columns["at_edge"].to_numpy(zero_copy_only=False)[once]
        groups = TrackGroups.of(track_ids)
        return cls(crop_ids, track_ids, times, quality, starts, ends, boxes, at_edge, groups)

    @property
    def of_several_videos(self) -> bool:
        """Whether there are strangers in other videos; if not, they are those beside the example."""
        first, last = segment_of(self.groups.track_ids[[0, -1]])
        return bool(first != last)


def pairs_of(
    crops: OwnCrops,
    vectors: NDArray[np.float32],
    examples: NDArray[np.intp],
    views: NDArray[np.float32],
    cohort: Cohort,
) -> Pairs:
    """The values that examples (E,), rows of the crops (N, dim), reach with their views (E, V, dim).

    Args:
        cohort: of their exit, to normalise against.
    """
    same = [
        float(np.quantile(values_of(seen[None], vectors[_apart(crops, example)], cohort)[0], POOL_QUANTILE))
        for example, seen in zip(examples.tolist(), views, strict=True)
    ]
    # What comes nearer to an example in another video is taken for the same thing.
    limit = float(np.median(same)) if crops.of_several_videos else np.inf
    best, recurring = [], 0
    for start in range(0, len(examples), BLOCK):
        values = values_of(views[start : start + BLOCK], vectors, cohort)
        for row, example in zip(values, examples[start : start + BLOCK].tolist(), strict=True):
            foreign = pooled_strangers(crops, row, example)
            nearest = float(foreign.max(initial=-np.inf))
            recurring += nearest >= limit
            best += [nearest] if -np.inf < nearest < limit else []
    return Pairs(np.array(same, np.float32), np.array(best, np.float32), recurring, crops.crop_ids)


def values_of(
    views: NDArray[np.float32], vectors: NDArray[np.float32], cohort: Cohort
) -> NDArray[np.float32]:
    """Normalised similarity (E, N) of crops (N, dim) to examples of one image each (E, V, dim)."""
    each = [with_mean(seen) for seen in views]
    level = np.concatenate([levels_together(positive, cohort) for positive in each])
    positive = np.concatenate(each)
    out = np.empty((len(views), len(vectors)), np.float32)
    for start in range(0, len(vectors), SCAN_ROWS):
        near = normalise(positive @ vectors[start : start + SCAN_ROWS].T, level)
        out[:, start : start + SCAN_ROWS] = near.reshape(len(views), -1, near.shape[1]).max(axis=1)
    return out


def _apart(crops: OwnCrops, example: int) -> NDArray[np.intp]:
    """The crops of an example's own track that are far enough away from it in time."""
    rows = np.flatnonzero(crops.track_ids == crops.track_ids[example])
    return rows[np.abs(crops.times[rows] - crops.times[example]) >= APART_SECONDS]


def pooled_strangers(crops: OwnCrops, values: NDArray[np.float32], example: int) -> NDArray[np.float32]:
    """Pooled values (T,) of the tracks that certainly show something other than the example."""
    groups = crops.groups
    if crops.of_several_videos:
        foreign = segment_of(groups.track_ids) != segment_of(crops.track_ids[example])
    else:
        first = groups.slots[:, 0]
        beside = (crops.starts[first] < crops.ends[example]) & (crops.ends[first] > crops.starts[example])
        # Overlapping boxes may show one thing, whole and in part.
        own = crops.track_ids == crops.track_ids[example]
        low, high = crops.boxes_xyxy[own, :2].min(axis=0), crops.boxes_xyxy[own, 2:].max(axis=0)
        meets = (crops.boxes_xyxy[:, :2] < high).all(axis=1) & (crops.boxes_xyxy[:, 2:] > low).all(axis=1)
        foreign = beside & ~np.isin(groups.track_ids, crops.track_ids[meets])
    return pool(groups.spread(values, np.flatnonzero(foreign)))


def examples_of(crops: OwnCrops) -> NDArray[np.intp]:
    """The best crops of tracks that a person could choose as examples, at most MOST_EXAMPLES.

    These are tracks with another crop far enough away in time, and of those the third with the best crops:
    nobody registers a blurred patch of lawn, which resembles every other one. What keeps to an edge is mostly
    writing, which looks the same in every crop and in every video of a camera.
    """
    slots = crops.groups.slots
    there = slots >= 0
    times = np.where(there, crops.times[slots], np.nan)
    quality = np.where(there, crops.quality[slots], -np.inf)  # (T, C)
    best = slots[np.arange(len(slots)), quality.argmax(axis=1)]
    farthest = np.nanmax(np.abs(times - crops.times[best][:, None]), axis=1)
    found = best[(farthest >= APART_SECONDS) & ~crops.at_edge[best]]
    if not len(found):
        return found
    ranked = found[np.argsort(-crops.quality[found], kind="stable")]
    count = min(max(len(found) // 3, LEAST_EXAMPLES), MOST_EXAMPLES)
    return np.sort(ranked[:count])
