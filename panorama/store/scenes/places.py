"""Track ids come in; when these tracks were in view, and when and where their crops were taken, goes out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.store.ascending import rows_in
from panorama.store.files.schema import segment_of
from panorama.store.files.sorted_rows import (
    COLUMNS,
    SPAN,
    SortedRows,
    forget_others,
    frame_ids,
    kept_rows,
    open_rows,
)
from panorama.store.scenes.scenes import Scenes, find_scenes
from panorama.store.snapshot import Snapshot

MANY_FILES = 64
"""With more files than this, not yet merged by compaction, DuckDB reads the few files that are needed."""


@dataclass(frozen=True, slots=True)
class Followed:
    """All samples of some tracks, and every frame from the first to the last of each track, once.

    Attributes:
        track_ids: (B,) int64, ascending, the track of each sample; boxes: (B,) of BOX, by track and time.
        frame_ids: (F,) int64, `segment << 32 | frame`; times: (F,) float64 seconds.
        ids: (T,) int64, ascending, of the tracks; spans: (T,) of SPAN.
    """

    track_ids: NDArray[np.int64]
    boxes: NDArray[np.void]
    frame_ids: NDArray[np.int64]
    times: NDArray[np.float64]
    ids: NDArray[np.int64]
    spans: NDArray[np.void]


@dataclass(frozen=True, slots=True)
class TrackPlaces:
    """Spans of tracks, in order of id, and their views (crops), in order of track and time.

    In videos that continue another one, times continue, too (see `Scenes`).

    Attributes:
        track_ids: (T,) int64; start_seconds, end_seconds: (T,) float64.
        view_tracks: (V,) int64; view_seconds: (V,) float64; view_boxes_xyxy: (V, 4) float32.
    """

    track_ids: NDArray[np.int64]
    start_seconds: NDArray[np.float64]
    end_seconds: NDArray[np.float64]
    view_tracks: NDArray[np.int64]
    view_seconds: NDArray[np.float64]
    view_boxes_xyxy: NDArray[np.float32]


class PlaceTables:
    """Looks up rows of one snapshot by track, in the tables tracks, crops, boxes and frames.

    Args:
        before: the tables of an earlier snapshot; files that both hold stay open.
    """

    def __init__(self, snapshot: Snapshot, before: PlaceTables | None = None) -> None:
        self.snapshot = snapshot
        self._open: dict[tuple[str, str], SortedRows] = {}
        self._lacking: set[str] = set()
        self._scenes: Scenes | None = None
        if before is not None:
            if before.snapshot.data_version == snapshot.data_version:
                self._scenes = before._scenes
            wanted = set(_files(snapshot))
            # A copy: a query on the earlier snapshot may be opening more of them.
            self._open = {file: rows for file, rows in before._open.copy().items() if file in wanted}

    def prepare(self, wait: Callable[[], None] = lambda: None) -> None:
        """Make the arrays for lookups and delete those no longer needed; `wait` is called between pieces."""
        for table in COLUMNS:
            self._tables(table, wait)
        with suppress(OSError):  # of another user: they are in nobody's way, and their owner deletes them
            forget_others(self.snapshot.root, _files(self.snapshot))

    def spans(self, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Ids (T,), ascending, and rows (T,) of SPAN of the given tracks; unknown tracks are left out."""
        return self._rows("tracks", track_ids)

    def views(self, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """The track (V,) of every crop of some tracks, ascending, and rows (V,) of VIEW, in order of time."""
        return self._rows("crops", track_ids)

    def spans_in(self, segments: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Ids (T,), ascending, and rows (T,) of SPAN of all tracks of some segments (S,), ascending."""
        starts, stops = (frame_ids(segments + by, np.zeros(len(segments), np.int64)) for by in (0, 1))
        parts = [(file, file.find(starts, stops)) for file in self._tables("tracks")]
        ids = np.concatenate([np.zeros(0, np.int64), *(file.keys[at] for file, at in parts)])
        spans = np.concatenate([np.zeros(0, SPAN), *(file.rows[at] for file, at in parts)])
        order = np.argsort(ids, kind="stable")
        return ids[order], spans[order]

    def samples(self, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """The track (B,) of each sample of some tracks, ascending, and rows (B,) of BOX, in order of time."""
        return self._rows("boxes", track_ids)

    def places(self, track_ids: NDArray[np.int64]) -> TrackPlaces:
        """When and where some tracks were; unknown tracks are left out."""
        ids, spans = self.spans(track_ids)
        owners, views = self.views(track_ids)
        boxes = np.stack([views[side] for side in ("x1", "y1", "x2", "y2")], axis=1)
        since, views_since = (self.scenes.seconds_before(segment_of(some)) for some in (ids, owners))
        spans_seconds = spans["start_time"] + since, spans["end_time"] + since
        return TrackPlaces(ids, *spans_seconds, owners, views["time"] + views_since, boxes)

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) a number for each track, equal for tracks of the same shot, which may span several files.

        All tracks must be in the snapshot.
        """
        segments, cuts = segment_of(track_ids), self.snapshot.cuts
        found = frame_ids(segments, np.zeros(len(segments), np.int64))
        several = np.isin(segments, segment_of(cuts))
        if several.any():
            ids, spans = self.spans(track_ids[several])
            within = segment_of(ids)
            number = np.searchsorted(cuts, frame_ids(within, spans["start_frame"]), side="right")
            number -= np.searchsorted(segment_of(cuts), within)
            found[several] += number[np.searchsorted(ids, track_ids[several])]
        return self.scenes.begun(found)

    @property
    def scenes(self) -> Scenes:
        """Which shots form one scene; computed on first use."""
        if self._scenes is None:
            self._scenes = find_scenes(self.snapshot)
        return self._scenes

    def followed(self, track_ids: NDArray[np.int64], most: int) -> Followed | None:
        """The data to follow some tracks through every frame.

        Args:
            most: the largest number of boxes, and of frames.

        Returns:
            None if there are more, or if the arrays of boxes or frames are not stored.
        """
        tracks, spans = self.spans(track_ids)
        if max(int(spans["samples"].sum()), int((spans["end_frame"] - spans["start_frame"]).sum())) > most:
            return None
        if not (self._are_kept("boxes") and self._are_kept("frames")):
            return None
        owners, boxes = self._rows("boxes", tracks)
        starts, stops = _stretches(tracks, spans, owners, boxes)
        ids, times = [np.zeros(0, np.int64)], [np.zeros(0, np.float64)]
        for file in self._tables("frames"):
            at = file.find(starts, stops)
            ids.append(file.keys[at])
            times.append(file.rows["time"][at])
        return Followed(owners, boxes, np.concatenate(ids), np.concatenate(times), tracks, spans)

    def _are_kept(self, table: str) -> bool:
        """Whether lookups in a table need to read only the rows found: all its large files have arrays."""
        files = self.snapshot.files[table]
        if table in self._lacking or len(files) > MANY_FILES:
            return False
        for path in files:
            if (table, path) not in self._open:
                found = kept_rows(self.snapshot.root, path, table)
                if found is None:
                    self._lacking.add(table)
                    return False
                self._open[table, path] = found
        return True

    def _tables(self, table: str, wait: Callable[[], None] = lambda: None) -> list[SortedRows]:
        found = []
        for path in self.snapshot.files[table]:
            if (table, path) not in self._open:
                self._open[table, path] = open_rows(self.snapshot.root, path, table, wait)
            found.append(self._open[table, path])
        return found

    def _rows(self, table: str, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        wanted = np.asarray(track_ids, np.int64)
        if not bool(np.all(wanted[1:] > wanted[:-1])):
            wanted = np.unique(wanted)
        wanted = wanted[rows_in(self.snapshot.live_segments, segment_of(wanted)) >= 0]
        parts = [(file, file.find(wanted)) for file in self._tables(table)]
        parts = [(file, at) for file, at in parts if len(at)]
        owners = np.empty(sum(len(at) for _, at in parts), np.int64)
        found = np.empty(len(owners), COLUMNS[table])
        start = 0
        for file, at in parts:  # not np.concatenate, which is slow for structured arrays
            stop = start + len(at)
            owners[start:stop], found[start:stop] = file.keys[at], file.rows[at]
            start = stop
        if len(parts) > 1:  # each file holds whole segments, but files are in no order
            order = np.argsort(owners, kind="stable")
            owners, found = owners[order], found[order]
        return owners, found


def _stretches(
    track_ids: NDArray[np.int64],
    spans: NDArray[np.void],
    owners: NDArray[np.int64],
    boxes: NDArray[np.void],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranges of frame ids, starts and stops, ascending and disjoint, that cover some tracks (T,).

    They hold every frame from the start to the end of each track, and every sample.
    """
    if not len(track_ids):
        return track_ids, track_ids
    segments = segment_of(track_ids)
    starts, stops = (frame_ids(segments, spans[name]) for name in ("start_frame", "end_frame"))
    track = np.searchsorted(track_ids, owners)
    sampled = frame_ids(segment_of(owners), boxes["frame"])
    np.minimum.at(starts, track, sampled)
    np.maximum.at(stops, track, sampled + 1)
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return starts[first], reach[last]


def _files(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(table, path) for table in COLUMNS for path in snapshot.files[table]]
