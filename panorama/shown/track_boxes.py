"""Tracks and frames come in; the place of each track and the timestamp of each frame go out, for pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panorama.frames import ALARM_SECONDS
from panorama.store.files.schema import BEST_FIRST

if TYPE_CHECKING:
    from panorama.library import Library

Box = tuple[float, float, float, float]

_VIEWS = f"""
SELECT track_id, frame, x1, y1, x2, y2 FROM crops WHERE track_id IN ({{tracks}})
QUALIFY row_number() OVER (PARTITION BY track_id ORDER BY {BEST_FIRST}) = 1
"""
_ALONG = "SELECT frames WHERE track_id IN ({tracks})"
_FRAMES = """
SELECT DISTINCT video, frame, pts, time FROM frames
WHERE list_contains(?, video) AND frame BETWEEN ? AND ? AND list_contains(?, frame)
"""
_ALARMS = f"""
SELECT video, time FROM (
    SELECT video, time, epoch(clock - lag(clock) OVER (PARTITION BY video ORDER BY frame)) AS apart
    FROM frames WHERE picture IS NOT NULL AND clock IS NOT NULL AND list_contains(?, video))
WHERE apart IS NULL OR abs(apart) > {ALARM_SECONDS} ORDER BY video, time
"""


class TrackBoxes:
    """Boxes of a library's tracks, and timestamps of its frames.

    Args:
        query: answers SQL with parameters, as `Library.query` does.
    """

    def __init__(self, query: Callable[[str, Sequence[Any]], pa.Table]) -> None:
        self._query = query

    @classmethod
    def of(cls, library: Library) -> TrackBoxes:
        """The boxes and timestamps of one library."""
        return cls(lambda sql, values: library.query(sql, values).arrow())

    def views(self, track_ids: Iterable[int]) -> Mapping[int, tuple[int, Box]]:
        """Frame and box of the best crop of each track; unknown tracks are left out."""
        return {row["track_id"]: (row["frame"], _box(row)) for row in self._rows(_VIEWS, track_ids)}

    def along(self, track_ids: Iterable[int]) -> dict[int, list[Box]]:
        """Frame -> the boxes of these tracks, all of one video, in every frame of theirs."""
        found: dict[int, list[Box]] = defaultdict(list)
        for row in self._rows(_ALONG, track_ids):
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
        begun: dict[str, list[float]] = defaultdict(list)
        for row in self._query(_ALARMS, [sorted(set(videos))]).to_pylist():
            begun[row["video"]].append(row["time"])
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
