"""Tracks enter; where each was, in its best view or along the way, leaves: for hits that bring no box."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from panorama.store.schema import BEST_FIRST

Box = tuple[float, float, float, float]

_VIEWS = f"""
SELECT track_id, frame, x1, y1, x2, y2 FROM crops WHERE track_id IN ({{tracks}})
QUALIFY row_number() OVER (PARTITION BY track_id ORDER BY {BEST_FIRST}) = 1
"""
_ALONG = "SELECT frames WHERE track_id IN ({tracks})"


class TrackBoxes:
    """Boxes of a library's tracks.

    Args:
        query: answers SQL with parameters, as `Library.query` does.
    """

    def __init__(self, query: Callable[[str, Sequence[Any]], pa.Table]) -> None:
        self._query = query

    def views(self, track_ids: Iterable[int]) -> Mapping[int, tuple[int, Box]]:
        """Frame and box of the best crop of each track; tracks that are not there are left out."""
        return {row["track_id"]: (row["frame"], _box(row)) for row in self._rows(_VIEWS, track_ids)}

    def along(self, track_ids: Iterable[int]) -> dict[int, list[Box]]:
        """Frame -> the boxes of these tracks, which are of one video, in every frame of theirs."""
        found: dict[int, list[Box]] = defaultdict(list)
        for row in self._rows(_ALONG, track_ids):
            found[row["frame"]].append(_box(row))
        return found

    def _rows(self, sql: str, track_ids: Iterable[int]) -> list[dict[str, Any]]:
        tracks = sorted(set(track_ids))
        if not tracks:
            return []
        rows: list[dict[str, Any]] = self._query(
            sql.format(tracks=", ".join("?" * len(tracks))), tracks
        ).to_pylist()
        return rows


def _box(row: Mapping[str, Any]) -> Box:
    return float(row["x1"]), float(row["y1"]), float(row["x2"]), float(row["y2"])
