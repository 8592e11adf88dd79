"""Rows of a query result come in; the places in videos that they name go out, or why one cannot be shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, overload

from panorama.errors import QueryError
from panorama.shown.track_boxes import Box

CLIP_MARGIN_SECONDS = 0.5
"""A clip begins this much before a hit and ends this much after it."""
LONGEST_SECONDS = 1e9
"""No video is this long, 32 years; calculating with larger numbers loses fractions of a second."""
FARTHEST_PIXELS = 1e6


@dataclass(frozen=True, slots=True)
class Hit:
    """One place to show: a moment of a video, with the box of what was found there, if there is one."""

    video: str
    time_seconds: float
    entity: str
    score: float | None
    box_xyxy: Box | None
    end_seconds: float | None = None
    track_id: int | None = None
    frame: int | None = None
    similarity: float | None = None
    band: str = ""
    crop_id: int | None = None

    @property
    def last_seconds(self) -> float:
        """Its end; its time if it has none."""
        return self.time_seconds if self.end_seconds is None else self.end_seconds

    def untimed(self) -> str:
        """Why no video can have its time, with the row's own numbers; '' if one can."""
        if math.isnan(self.time_seconds):
            return f"{self.video}: the row has no time"
        if all(abs(seconds) < LONGEST_SECONDS for seconds in (self.time_seconds, self.last_seconds)):
            return ""
        return f"{self.video}: no video has the time of the row, {self._span()}"

    def uncuttable(self) -> str:
        """Why no clip can be cut for it; '' if one can."""
        if self.last_seconds < self.time_seconds:
            return f"{self.video}: the row ends before it begins, {self._span()}"
        if self.last_seconds + CLIP_MARGIN_SECONDS <= 0:
            return f"{self.video}: the row is before the beginning of the video, {self._span()}"
        return self.untimed()

    def _span(self) -> str:
        end = "" if self.end_seconds is None else f" to {self.end_seconds:g}"
        return f"{self.time_seconds:g}{end} seconds"

    def told(self) -> str:
        """Its entity and how sure it is, in one line."""
        return "  ".join(part for part in (self.entity, self.sure()) if part)

    def thing(self) -> str:
        """The crop or track that it is about, as 'track 8589934614'; '' if it names neither."""
        for kind, number in (("crop", self.crop_id), ("track", self.track_id)):
            if number is not None:
                return f"{kind} {number}"
        return ""

    def sure(self) -> str:
        """How sure it is: those of score, band and similarity that it has."""
        parts = [] if self.score is None else [f"{self.score:.2f}"]
        parts += [self.band] if self.band else []
        parts += [] if self.similarity is None else [f"similarity {self.similarity:.2f}"]
        return "  ".join(parts)


def hits_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[Hit]:
    """The places that result rows name; they need a video and a time or start_time.

    A box is of one frame. A row that tells of a stretch (start_time) and not of which frame has none: it may
    be anywhere in the stretch.

    Raises:
        QueryError: the result has no such columns, or a value in them is not a number of seconds.
    """
    start = "time" if "time" in columns else "start_time"
    if "video" not in columns or start not in columns:
        raise QueryError(
            f"pictures need the columns video and time (or start_time), the result has {', '.join(columns)}; "
            "try SELECT frames WHERE entity = '...' or SELECT moments WHERE entity = '...'"
        )
    hits = []
    for row in rows:
        frame = _count(row, "frame")
        hits.append(
            Hit(
                str(row["video"]),
                _seconds(row, start, math.nan),
                str(row.get("entity") or ""),
                _number(row, "score"),
                None if start == "start_time" and frame is None else _box(row),
                _seconds(row, "end_time", None),
                _count(row, "track_id"),
                frame,
                _number(row, "similarity"),
                str(row.get("band") or ""),
                _count(row, "crop_id"),
            )
        )
    return hits


def _number(row: Mapping[str, Any], column: str) -> float | None:
    """The number in a column of a row; None if it is not a number: plain SQL may call anything a score."""
    value = row.get(column)
    return float(value) if isinstance(value, (int, float, Decimal)) else None


def _count(row: Mapping[str, Any], column: str) -> int | None:
    """The id or frame number in a column of a row; None if it is not a possible one."""
    value = row.get(column)
    is_one = isinstance(value, (int, float, Decimal)) and 0 <= value < 2**63 and value % 1 == 0
    return int(value) if is_one else None  # type: ignore[arg-type]


def _box(row: Mapping[str, Any]) -> Box | None:
    """The box of a row; None if a corner is NULL, not a number, NaN or far outside any picture."""
    corners = [row.get(name) for name in ("x1", "y1", "x2", "y2")]
    x1, y1, x2, y2 = (float(c) if isinstance(c, (int, float, Decimal)) else math.nan for c in corners)
    return (x1, y1, x2, y2) if all(abs(c) < FARTHEST_PIXELS for c in (x1, y1, x2, y2)) else None


@overload
def _seconds(row: Mapping[str, Any], column: str, missing: float) -> float: ...
@overload
def _seconds(row: Mapping[str, Any], column: str, missing: None) -> float | None: ...
def _seconds(row: Mapping[str, Any], column: str, missing: float | None) -> float | None:
    """The time in a column of a row; `missing` if it is NULL or absent."""
    value = row.get(column)
    try:
        return missing if value is None else float(value)
    except (TypeError, ValueError):
        raise QueryError(
            f"pictures need {column} in seconds from the start of the video, the result has {value!s:.40}"
        ) from None


def sifted(hits: Iterable[Hit], why_not: Callable[[Hit], str]) -> tuple[list[Hit], list[str]]:
    """The hits that `why_not` has nothing against, and the reasons against the others, each once."""
    told = [(hit, why_not(hit)) for hit in hits]
    return [hit for hit, why in told if not why], list(dict.fromkeys(why for _, why in told if why))


@dataclass(slots=True)
class Drawn:
    """How many hits were drawn, and what could not be shown.

    Attributes:
        drawn: number of hits on a contact sheet, or of clips.
        failed: what could not be shown, and why.
        unread: number of hits, or of clips, of `failed` whose file is gone or cannot be read; the others are
            of rows that name no place in a video of the library.
        warnings: remarks: videos whose files are no longer what was indexed, and names that the sheet's font
            lacks letters for.
        without_frame: why some hits are shown by a stored picture instead of their frame.
        chosen: which tracks a sheet shows, if the hits have more than it has tiles; '' if it shows all.
    """

    drawn: int = 0
    failed: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    without_frame: list[str] = field(default_factory=list)
    unread: int = 0
    chosen: str = ""
