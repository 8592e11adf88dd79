"""Track ids enter; when those tracks were in sight, and when and where their crops were taken, leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panorama.store.schema import segment_of
from panorama.store.snapshot import Snapshot

_SPAN = ("track_id", "start_time", "end_time")
_VIEW = ("track_id", "time", "x1", "y1", "x2", "y2")


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


def read_places(snapshot: Snapshot, track_ids: NDArray[np.int64]) -> TrackPlaces:
    """Where some tracks were; those that the snapshot does not hold are left out."""
    wanted = np.unique(np.asarray(track_ids, np.int64))
    wanted = wanted[np.isin(segment_of(wanted), snapshot.live_segments)]
    spans = _rows(snapshot.files["tracks"], _SPAN, wanted)
    views = _rows(snapshot.files["crops"], _VIEW, wanted)
    by_id = np.argsort(spans["track_id"], kind="stable")
    by_time = np.lexsort((views["time"], views["track_id"]))
    boxes = np.stack([views[name] for name in ("x1", "y1", "x2", "y2")], axis=1).astype(np.float32)
    return TrackPlaces(
        spans["track_id"][by_id],
        spans["start_time"][by_id],
        spans["end_time"][by_id],
        views["track_id"][by_time],
        views["time"][by_time],
        boxes[by_time],
    )


def _rows(paths: Sequence[str], columns: tuple[str, ...], wanted: NDArray[np.int64]) -> dict[str, NDArray]:
    """Columns of the rows of some tracks, from all files whose statistics do not rule them out."""
    found: list[pa.Table] = []
    segments = np.unique(segment_of(wanted))
    for path in paths if len(wanted) else ():
        with pq.ParquetFile(path) as file:
            number = file.schema_arrow.get_field_index("segment")
            for group in range(file.num_row_groups):
                statistics = file.metadata.row_group(group).column(number).statistics
                if statistics is not None and statistics.has_min_max:
                    first = np.searchsorted(segments, statistics.min)
                    if first == len(segments) or segments[first] > statistics.max:
                        continue
                rows = file.read_row_group(group, columns=list(columns))
                found.append(rows.filter(pa.array(np.isin(rows.column("track_id").to_numpy(), wanted))))
    if not found:
        return {name: np.zeros(0, np.int64 if name == "track_id" else np.float64) for name in columns}
    table = pa.concat_tables(found)
    return {name: table.column(name).to_numpy() for name in columns}
