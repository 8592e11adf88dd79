"""Rows of a query result enter; the places in videos that they name leave, and why some cannot be shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, overload

from panorama.errors import QueryError
from panorama.shown.track_boxes import Box

CLIP_MARGIN_SECONDS = 0.5
"""So much of a video is shown before and behind a hit."""
LONGEST_SECONDS = 1e9
"""No video is as long; 32 years. Computing with larger numbers loses parts of a second."""
FARTHEST_PIXELS = 1e6


@dataclass(frozen=True, slots=True)
class Hit:
    """One place to show: a moment of a video, with the box of what was found there if there is one."""

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
        """Its end, or its one instant."""
        return self.time_seconds if self.end_seconds is None else self.end_seconds

    def untimed(self) -> str:
        """Why it is at no time that a video could have, in the row's own numbers; '' where it may be."""
        if math.isnan(self.time_seconds):
            return f"{self.video}: the row has no time"
        if all(abs(seconds) < LONGEST_SECONDS for seconds in (self.time_seconds, self.last_seconds)):
            return ""
        return f"{self.video}: no video has the time of the row, {self._span()}"

    def uncuttable(self) -> str:
        """Why no clip can be cut at it; '' where one may be."""
        if self.last_seconds < self.time_seconds:
            return f"{self.video}: the row ends before it begins, {self._span()}"
        if self.last_seconds + CLIP_MARGIN_SECONDS <= 0:
            return f"{self.video}: the row is before the beginning of the video, {self._span()}"
        return self.untimed()

    def _span(self) -> str:
        end = "" if self.end_seconds is None else f" to {self.end_seconds:g}"
        return f"{self.time_seconds:g}{end} seconds"

    def told(self) -> str:
        """What it is and how sure, in a line."""
        return "  ".join(part for part in (self.entity, self.sure()) if part)

    def sure(self) -> str:
        """How sure it is: score, band and similarity, those that there are."""
        parts = [] if self.score is None else [f"{self.score:.2f}"]
        parts += [self.band] if self.band else []
        parts += [] if self.similarity is None else [f"similarity {self.similarity:.2f}"]
        return "  ".join(parts)


def hits_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[Hit]:
    """The places that result rows name; they need a video and a time or start_time.

    Raises:
        QueryError: the result has no such columns, or what is no number of seconds in them.
    """
    start = "time" if "time" in columns else "start_time"
    if "video" not in columns or start not in columns:
        raise QueryError(
            f"pictures need the columns video and time (or start_time), the result has {', '.join(columns)}; "
            "try SELECT frames WHERE entity = '...' or SELECT moments WHERE entity = '...'"
        )
    hits = []
    for row in rows:
        hits.append(
            Hit(
                str(row["video"]),
                _seconds(row, start, math.nan),
                str(row.get("entity") or ""),
                _number(row, "score"),
                _box(row),
                _seconds(row, "end_time", None),
                _count(row, "track_id"),
                _count(row, "frame"),
                _number(row, "similarity"),
                str(row.get("band") or ""),
                _count(row, "crop_id"),
            )
        )
    return hits


def _number(row: Mapping[str, Any], column: str) -> float | None:
    """The number in a column of a row, None where it has none: plain SQL may call anything a score."""
    value = row.get(column)
    return float(value) if isinstance(value, (int, float, Decimal)) else None


def _count(row: Mapping[str, Any], column: str) -> int | None:
    """The id or frame in a column of a row, None where that is no whole number that one can have."""
    value = row.get(column)
    is_one = isinstance(value, (int, float, Decimal)) and 0 <= value < 2**63 and value % 1 == 0
    return int(value) if is_one else None  # type: ignore[arg-type]


def _box(row: Mapping[str, Any]) -> Box | None:
    """The box of a row; None where a corner is NULL, no number, NaN or far outside of any picture."""
    corners = [row.get(name) for name in ("x1", "y1", "x2", "y2")]
    x1, y1, x2, y2 = (float(c) if isinstance(c, (int, float, Decimal)) else math.nan for c in corners)
    return (x1, y1, x2, y2) if all(abs(c) < FARTHEST_PIXELS for c in (x1, y1, x2, y2)) else None


@overload
def _seconds(row: Mapping[str, Any], column: str, missing: float) -> float: ...
@overload
def _seconds(row: Mapping[str, Any], column: str, missing: None) -> float | None: ...
def _seconds(row: Mapping[str, Any], column: str, missing: float | None) -> float | None:
    """The time in a column of a row, `missing` where it has none."""
    value = row.get(column)
    try:
        return missing if value is None else float(value)
    except (TypeError, ValueError):
        raise QueryError(
            f"pictures need {column} in seconds from the start of the video, the result has {value!s:.40}"
        ) from None


def sifted(hits: Iterable[Hit], why_not: Callable[[Hit], str]) -> tuple[list[Hit], list[str]]:
    """The hits with nothing against them, and what is told of the others, each thing once."""
    told = [(hit, why_not(hit)) for hit in hits]
    return [hit for hit, why in told if not why], list(dict.fromkeys(why for _, why in told if why))


@dataclass(slots=True)
class Drawn:
    """How many hits were drawn, and what could not be shown.

    Attributes:
        drawn: number of hits on a contact sheet, or of clips.
        failed: what could not be shown, and why.
        warnings: remarks: videos whose files are no longer what was indexed, and names that the sheet's font
            lacks letters for.
        without_frame: why some hits are shown by a stored picture instead of their frame.
    """

    drawn: int = 0
    failed: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    without_frame: list[str] = field(default_factory=list)
