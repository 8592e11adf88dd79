"""Matched tracks come in; a box for every frame goes out, of the tracks that an answer's rows may come from.

Every track left out here is also left out by the SQL of the statement; the conditions must agree with
`_bound_filters`, `_first_tracks`, `_best_tracks` and `_places` in `compile`. The boxes equal those of the SQL
bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.query.matching.matches import ACCEPTED, Matches
from panorama.query.shorthands.clock import MARGIN_SECONDS
from panorama.query.shorthands.conditions import Bounds
from panorama.query.shorthands.plan import Query
from panorama.store.ascending import rows_in
from panorama.store.files.schema import segment_of
from panorama.store.files.sorted_rows import frame_ids

_MARGIN_SECONDS = MARGIN_SECONDS + 0.5
"""Slightly more than the margin of the SQL, which reads its numbers as decimals."""

_SIDES = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True, slots=True)
class Videos:
    """The facts about videos that decide which tracks to follow, by segment.

    Attributes:
        segments: (V,) int32, ascending; a segment occurs several times if its video has copies.
        frames: (V,) int64, number of frames.
        place: (V,) int64, rank of the video's name among all names.
        apart: whether no video has copies.
    """

    segments: NDArray[np.int32]
    frames: NDArray[np.int64]
    place: NDArray[np.int64]
    apart: bool

    @classmethod
    def of(cls, videos: pa.Table) -> Videos:
        """Built from the relation `videos` with its segments."""
        segments = videos.column("segment").to_numpy().astype(np.int32)
        names = videos.column("video").to_pylist()
        place = np.empty(len(names), np.int64)
        # Python compares text by code point, as DuckDB does: the same order as that of UTF-8 bytes.
        place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order = np.argsort(segments, kind="stable")
        frames = videos.column("frames").to_numpy().astype(np.int64)
        apart = len(np.unique(segments)) == len(segments)
        return cls(segments[order], frames[order], place[order], apart)

    def rows_of(self, segments: NDArray[np.int32]) -> NDArray[np.intp]:
        """(S,) index of one video of each segment, -1 for none."""
        return rows_in(self.segments, segments)


def in_time(tracks: pa.Table, bounds: Bounds, margin_seconds: float) -> NDArray[np.bool_]:
    """Which tracks (stored rows) end after the lower bound and start before the upper one, with a margin."""
    inside = np.ones(tracks.num_rows, np.bool_)
    if bounds.low is not None:
        inside &= tracks.column("end_time").to_numpy() > bounds.low - margin_seconds
    if bounds.high is not None:
        inside &= tracks.column("start_time").to_numpy() <= bounds.high + margin_seconds
    return inside


def worth_following(
    query: Query, matches: Matches, tracks: pa.Table, videos: Videos, whole: bool
) -> NDArray[np.int64]:
    """The matched tracks, ascending, that a shorthand has to follow, and possibly some more.

    Args:
        matches: all matches that pass the shorthand's conditions on a match, possibly more.
        tracks: stored rows, ascending; matches without a row here belong to no video.
        whole: whether the condition on videos admits all segments of `matches`.
    """
    ids = tracks.column("track_id").to_numpy()
    found = ids[np.isin(ids, matches.track_id) & in_time(tracks, query.bounds, _MARGIN_SECONDS)]
    seen = query.every_seen()
    alone = len(seen) == 1 and seen[0].source == "known" and not seen[0].conditions
    everywhere = not query.shared and not query.video_clock_sql()
    # The condition may admit only one of a video and its copies.
    if not (query.first_rows is not None and alone and whole and (videos.apart or everywhere)):
        return found
    if query.target != "frames" or query.bounds != Bounds() or query.track_clock_sql():
        return found
    return _first(query, query.first_rows, matches[matches.band == ACCEPTED], tracks, videos)


def _first(query: Query, rows: int, matches: Matches, tracks: pa.Table, videos: Videos) -> NDArray[np.int64]:
    """The tracks of the first rows of the answer, in its order; see `_first_tracks` and `_best_tracks`."""
    ids = tracks.column("track_id").to_numpy()
    matches = matches[np.isin(matches.track_id, ids)]
    segments = segment_of(matches.track_id)
    video = np.searchsorted(videos.segments, segments)
    copies = np.searchsorted(videos.segments, segments, side="right") - video
    matches = matches[np.repeat(np.arange(len(matches)), copies)]
    video = np.arange(len(matches)) + np.repeat(video - np.cumsum(copies) + copies, copies)
    if not len(matches):
        return np.zeros(0, np.int64)
    at = np.searchsorted(ids, matches.track_id)
    start = tracks.column("start_frame").to_numpy()[at]
    stop = tracks.column("end_frame").to_numpy()[at]
    length = np.maximum(np.minimum(stop, videos.frames[video]) - start, 0)
    place = videos.place[video]
    name = np.argsort(np.argsort(np.array(matches.entities, object)))[matches.entity_index]
    keys = [name, matches.track_id, start, place]
    order = np.lexsort([*keys, -matches.score] if query.best_first else keys)
    before = np.cumsum(length[order]) - length[order]
    taken = order[before < rows]
    if not len(taken):  # LIMIT 0
        return np.zeros(0, np.int64)
    if query.best_first:
        return np.unique(matches.track_id[matches.score >= matches.score[taken].min()])
    last = place[taken].max()
    until = stop[taken[place[taken] == last]].max()
    return np.unique(matches.track_id[(place < last) | ((place == last) & (start < until))])


def no_places() -> pa.Table:
    """An empty table with the columns that `followed` returns."""
    kinds = {"track_id": pa.int64(), "frame": pa.int64(), "time": pa.float64()}
    return pa.schema({**kinds, **dict.fromkeys(_SIDES, pa.float64())}).empty_table()


def followed(tracks: pa.Table, boxes: pa.Table, frames: pa.Table, videos: Videos) -> pa.Table:
    """A box for every frame of some tracks: track_id, frame, time, x1, y1, x2, y2.

    A sample's box holds until the next sample. Between two samples it moves linearly in time; before the
    first and after the last it stands still.

    Args:
        tracks: stored rows, ascending; tracks of no video are left out.
        boxes: their samples, possibly others too: track_id, frame, time, x1, y1, x2, y2.
        frames: all frames from each track's first to its last, possibly more: segment, frame, time.
    """
    of_video = videos.rows_of(tracks.column("segment").to_numpy()) >= 0
    if not of_video.all():
        tracks = tracks.filter(pa.array(of_video))
    boxes = _in_order(boxes, tracks.column("track_id").to_numpy())
    owners, numbers, seconds = (boxes.column(name).to_numpy() for name in ("track_id", "frame", "time"))
    first, last = _edges(owners)
    starts, stops = _reach(tracks, owners, numbers, first, last, videos)
    counts = np.maximum(stops - starts, 0)
    sample = np.repeat(np.arange(len(owners)), counts)
    ends = np.cumsum(counts)
    at_frame = np.arange(len(sample)) + np.repeat(starts - ends + counts, counts)
    at_time, there = _times(frames, segment_of(owners[sample]), at_frame)
    sample, at_frame = sample[there], at_frame[there]
    after = np.where(last, np.arange(len(owners)), np.arange(1, len(owners) + 1))[sample]
    began = seconds[sample]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(1.0, (at_time - began) / (seconds[after] - began))
    share[last[sample] | (at_time <= began)] = 0.0
    columns = {"track_id": owners[sample], "frame": at_frame, "time": at_time}
    for side in _SIDES:
        values = boxes.column(side).to_numpy()
        here = values[sample]
        columns[side] = here + share * (values[after] - here)
    return pa.table(columns)


def _in_order(boxes: pa.Table, track_ids: NDArray[np.int64]) -> pa.Table:
    """The samples of some tracks (ids ascending), ordered by track and frame."""
    owners, numbers = boxes.column("track_id").to_numpy(), boxes.column("frame").to_numpy()
    mine = np.isin(owners, track_ids)
    if not mine.all():
        boxes, owners, numbers = boxes.filter(pa.array(mine)), owners[mine], numbers[mine]
    later = (owners[1:] > owners[:-1]) | ((owners[1:] == owners[:-1]) & (numbers[1:] >= numbers[:-1]))
    return boxes if later.all() else boxes.take(pa.array(np.lexsort((numbers, owners))))


def _edges(owners: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which samples (B,) are the first of their track, and which are the last."""
    changes = owners[1:] != owners[:-1]
    edge = np.ones(min(len(owners), 1), np.bool_)
    return np.concatenate([edge, changes]), np.concatenate([changes, edge])


def _reach(
    tracks: pa.Table,
    owners: NDArray[np.int64],
    numbers: NDArray[np.int64],
    first: NDArray[np.bool_],
    last: NDArray[np.bool_],
    videos: Videos,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The frames [start, stop) that each sample (B,) covers."""
    ids = tracks.column("track_id").to_numpy()
    video = videos.rows_of(segment_of(ids))
    ended = np.minimum(tracks.column("end_frame").to_numpy(), videos.frames[video])
    began = tracks.column("start_frame").to_numpy()
    starts = numbers.copy()
    track = np.searchsorted(ids, owners[first])
    starts[first] = np.minimum(began[track], numbers[first])
    stops = np.append(numbers[1:], 0)
    track = np.searchsorted(ids, owners[last])
    stops[last] = np.maximum(ended[track], numbers[last] + 1)
    return starts, stops


def _times(
    frames: pa.Table, segments: NDArray[np.int32], numbers: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """For frames (N,): the times in seconds (K,) of those that exist, and a mask (N,) of which exist."""
    known = frame_ids(*(frames.column(name).to_numpy() for name in ("segment", "frame")))
    seconds = frames.column("time").to_numpy()
    if not bool(np.all(known[1:] > known[:-1])):
        order = np.argsort(known, kind="stable")
        known, seconds = known[order], seconds[order]
    rows = rows_in(known, frame_ids(segments, numbers))
    there = rows >= 0
    return seconds[rows[there]], there
