"""Track ids enter; when those tracks were in sight, and when and where their crops were taken, leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.store.schema import segment_of
from panorama.store.snapshot import Snapshot
from panorama.store.sorted_rows import COLUMNS, SortedRows, forget_others, open_rows


@dataclass(frozen=True, slots=True)
class TrackPlaces:
    """Spans of tracks, in order of id, and their views, in order of track and time.

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
    """Rows of the tables `tracks` and `crops` of one snapshot, looked up by track.

    Args:
        before: those of an earlier snapshot; what both hold stays open.
    """

    def __init__(self, snapshot: Snapshot, before: PlaceTables | None = None) -> None:
        self.snapshot = snapshot
        self._open: dict[tuple[str, str], SortedRows] = {}
        if before is not None:
            wanted = set(_files(snapshot))
            self._open = {file: rows for file, rows in before._open.items() if file in wanted}

    def prepare(self) -> None:
        """Make what look-ups read, and delete what they no longer read."""
        for table in COLUMNS:
            self._tables(table)
        forget_others(self.snapshot.root, _files(self.snapshot))

    def spans(self, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Ids (T,), ascending, and rows (T,) of SPAN of those of the tracks that the snapshot holds."""
        return self._rows("tracks", track_ids)

    def views(self, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """The track (V,) of every crop of some tracks, ascending, and rows (V,) of VIEW, in order of time."""
        return self._rows("crops", track_ids)

    def places(self, track_ids: NDArray[np.int64]) -> TrackPlaces:
        """Where some tracks were; those that the snapshot does not hold are left out."""
        ids, spans = self.spans(track_ids)
        owners, views = self.views(track_ids)
        boxes = np.stack([views[side] for side in ("x1", "y1", "x2", "y2")], axis=1)
        return TrackPlaces(ids, spans["start_time"], spans["end_time"], owners, views["time"], boxes)

    def _tables(self, table: str) -> list[SortedRows]:
        found = []
        for path in self.snapshot.files[table]:
            if (table, path) not in self._open:
                self._open[table, path] = open_rows(self.snapshot.root, path, table)
            found.append(self._open[table, path])
        return found

    def _rows(self, table: str, track_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        wanted = np.unique(np.asarray(track_ids, np.int64))
        wanted = wanted[np.isin(segment_of(wanted), self.snapshot.live_segments)]
        ids, rows = [np.zeros(0, np.int64)], [np.zeros(0, COLUMNS[table])]
        for file in self._tables(table):
            at = file.find(wanted)
            if len(at):
                ids.append(file.track_ids[at])
                rows.append(file.rows[at])
        owners, found = np.concatenate(ids), np.concatenate(rows)
        if len(rows) > 2:  # files hold segments, each a whole one, but in no order
            order = np.argsort(owners, kind="stable")
            owners, found = owners[order], found[order]
        return owners, found


def _files(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(table, path) for table in COLUMNS for path in snapshot.files[table]]
