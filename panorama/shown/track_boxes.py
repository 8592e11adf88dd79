"""Tracks and frames come in; the place of each track and the timestamp of each frame go out, for pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panorama.frames import PICTURES_PER_SECOND
from panorama.store.catalog.picture_clocks import KEY_BITS
from panorama.store.files.schema import BEST_FIRST

if TYPE_CHECKING:
    from panorama.library import Library
    from panorama.store import Snapshot

Box = tuple[float, float, float, float]

_VIEWS = f"""
SELECT track_id, frame, x1, y1, x2, y2 FROM crops WHERE track_id IN ({{ids}})
QUALIFY row_number() OVER (PARTITION BY track_id ORDER BY {BEST_FIRST}) = 1
"""
_CROPS = "SELECT crop_id, frame, x1, y1, x2, y2 FROM crops WHERE crop_id IN ({ids})"
_ALONG = "SELECT frames WHERE track_id IN ({ids})"
_BANDS = "SELECT tracks, band WHERE entity = ? AND score >= 0 AND track_id IN ({ids})"
_NAMED = "SELECT frames WHERE entity = ? AND band = ? AND video = ? AND time >= ? AND time < ?"
_FRAMES = """
SELECT DISTINCT video, frame, pts, time FROM frames
WHERE list_contains(?, video) AND frame BETWEEN ? AND ? AND list_contains(?, frame)
"""


class TrackBoxes:
    """Boxes of a library's tracks, and timestamps of its frames.

    Args:
        query: answers SQL with parameters, as `Library.query` does.
        snapshot: the library's, for its alarms; None to know of none.
    """

    def __init__(
        self, query: Callable[[str, Sequence[Any]], pa.Table], snapshot: Snapshot | None = None
    ) -> None:
        self._query = query
        self._snapshot = snapshot

    @classmethod
    def of(cls, library: Library) -> TrackBoxes:
        """The boxes and timestamps of one library."""
        return cls(lambda sql, values: library.query(sql, values).arrow(), library.snapshot())

    def views(self, track_ids: Iterable[int]) -> Mapping[int, tuple[int, Box]]:
        """Frame and box of the best crop of each track; unknown tracks are left out."""
        return {row["track_id"]: (row["frame"], _box(row)) for row in self._rows(_VIEWS, track_ids)}

    def crops(self, crop_ids: Iterable[int]) -> Mapping[int, tuple[int, Box]]:
        """Frame and box of each crop; unknown crops are left out."""
        return {row["crop_id"]: (row["frame"], _box(row)) for row in self._rows(_CROPS, crop_ids)}

    def along(self, track_ids: Iterable[int]) -> dict[int, list[Box]]:
        """Frame -> the boxes of these tracks, all of one video, in every frame of theirs."""
        found: dict[int, list[Box]] = defaultdict(list)
        for row in self._rows(_ALONG, track_ids):
            found[row["frame"]].append(_box(row))
        return found

    def bands(self, entity: str, track_ids: Iterable[int]) -> dict[int, str]:
        """The band of each of these tracks for an entity; none if the album has no such entity."""
        if self._snapshot is None or entity not in self._snapshot.entity_names:
            return {}
        return {row["track_id"]: row["band"] for row in self._rows(_BANDS, track_ids, entity)}

    def named(
        self, entity: str, band: str, video: str, spans: Sequence[tuple[float, float]]
    ) -> dict[int, list[Box]]:
        """Frame -> the boxes of an entity's tracks of one band in spans of a video, half-open, in seconds."""
        found: dict[int, list[Box]] = defaultdict(list)
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        for row in self._query(_NAMED, [entity, band, video, first, last]).to_pylist():
            if any(start <= row["time"] < end for start, end in spans):
                found[row["frame"]].append(_box(row))
        return found

    def stamps(self, frames: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """(video, frame) -> the frame's pts; frames that the library does not have are left out.

        A frame's number counts the frames that decode, which in a damaged file depends on where decoding
        starts; its pts does not.
        """
        return {at: row["pts"] for at, row in self._frames(frames).items()}

    def times(self, frames: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
        """(video, frame) -> seconds from the start; frames that the library does not have are left out."""
        return {at: row["time"] for at, row in self._frames(frames).items()}

    def alarms(self, videos: Iterable[str]) -> dict[str, list[float]]:
        """When each alarm begins, in seconds of its video; only pictures of known time have any."""
        begun: dict[str, list[float]] = {}
        if self._snapshot is None:
            return begun
        clocks, listed = self._snapshot.picture_clocks, self._snapshot.videos
        keys, alarms = (clocks.column(name).to_numpy() for name in ("key", "alarm"))
        firsts = zip(*(listed.column(name).to_pylist() for name in ("video", "clock_key")), strict=True)
        wanted = set(videos)
        for video, first in firsts:
            if first is not None and video in wanted:
                start, stop = np.searchsorted(keys, [first, first + (1 << KEY_BITS)])
                begins = np.flatnonzero(np.diff(alarms[start:stop], prepend=-1))
                begun[video] = (begins / PICTURES_PER_SECOND).tolist()
        return begun

    def _frames(self, frames: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Mapping[str, Any]]:
        wanted = set(frames)
        if not wanted:
            return {}
        videos = sorted({video for video, _ in wanted})
        numbers = sorted({number for _, number in wanted})
        rows = self._query(_FRAMES, [videos, numbers[0], numbers[-1], numbers]).to_pylist()
        found = {(row["video"], row["frame"]): row for row in rows}
        return {one: found[one] for one in found.keys() & wanted}

    def _rows(self, sql: str, some: Iterable[int], *before: Any) -> list[dict[str, Any]]:
        """The rows of SQL about some tracks or crops, whose ids follow its other values."""
        ids = sorted(set(some))
        if not ids:
            return []
        rows: list[dict[str, Any]] = self._query(
            sql.format(ids=", ".join("?" * len(ids))), [*before, *ids]
        ).to_pylist()
        return rows


def _box(row: Mapping[str, Any]) -> Box:
    return float(row["x1"]), float(row["y1"]), float(row["x2"]), float(row["y2"])
