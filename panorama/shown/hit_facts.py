"""Hits of an answer come in; when they were, and in which pictures of a folder, goes out as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from panorama.frames import PICTURES_PER_SECOND
from panorama.lines import clock
from panorama.shown.hits import Hit

if TYPE_CHECKING:
    from panorama.library import Library

_STARTS = "SELECT video, start_clock FROM videos WHERE start_clock IS NOT NULL"
_PICTURES = f"""
SELECT DISTINCT * FROM (
    SELECT video, CAST(round(time * {PICTURES_PER_SECOND}) AS BIGINT) AS number, picture, clock
    FROM frames WHERE picture IS NOT NULL AND list_contains(?, video))
WHERE list_contains(?, number)
"""


@dataclass(frozen=True, slots=True)
class SeenPicture:
    """One picture of a folder: its name, and when it was taken on the camera's clock, None if unknown."""

    name: str
    clock: datetime | None


@dataclass(frozen=True, slots=True)
class HitFacts:
    """What a library knows of the times of hits.

    Attributes:
        started: video -> local time of its first frame, if known.
        pictures: of folders, by video and number, which is a picture's time in frames.
    """

    started: Mapping[str, datetime] = field(default_factory=dict)
    pictures: Mapping[tuple[str, int], SeenPicture] = field(default_factory=dict)

    @classmethod
    def of(cls, library: Library, hits: Iterable[Hit]) -> HitFacts:
        """What a library knows of some hits."""
        timed = [hit for hit in hits if not hit.untimed()]
        videos = sorted({hit.video for hit in timed})
        numbers = sorted({number for hit in timed for number in _numbers(hit)})
        found = library.query(_PICTURES, [videos, numbers]).arrow().to_pylist() if timed else []
        return cls(
            {row["video"]: row["start_clock"] for row in library.query(_STARTS).arrow().to_pylist()},
            {(row["video"], row["number"]): SeenPicture(row["picture"], row["clock"]) for row in found},
        )

    def clock(self, hits: Sequence[Hit]) -> str:
        """The local time of hits of one video, from the first to the end of the last; '' if unknown."""
        pictures = self._pictures(hits)
        if pictures:
            known = sorted(picture.clock for picture in pictures if picture.clock is not None)
            return _span(known[0], known[-1], known[-1] > known[0]) if known else ""
        start = self.started.get(hits[0].video)
        if start is None:
            return ""
        first, last = _ends(hits)
        has_end = last > first or hits[0].end_seconds is not None
        return _span(start + timedelta(seconds=first), start + timedelta(seconds=last), has_end)

    def names(self, hits: Sequence[Hit]) -> tuple[str, ...]:
        """The names of the first and the last picture of hits of one video, one if it is the same.

        None for films.
        """
        return tuple(dict.fromkeys(picture.name for picture in self._pictures(hits)))

    def place(self, hit: Hit) -> str:
        """Where in its video a hit is: the names of its first and last picture; for films, seconds."""
        end = "" if hit.end_seconds is None else f" - {clock(hit.end_seconds)}"
        return " - ".join(self.names([hit])) or f"{clock(hit.time_seconds)}{end}"

    def _pictures(self, hits: Sequence[Hit]) -> list[SeenPicture]:
        """The first and the last picture of hits; none for films."""
        numbers = [number for hit in hits for number in _numbers(hit)]
        at = [(hits[0].video, number) for number in (min(numbers), max(numbers))]
        return [self.pictures[one] for one in at if one in self.pictures]


def _numbers(hit: Hit) -> tuple[int, int]:
    """The first and the last picture that a hit would cover in a folder of pictures."""
    first = round(hit.time_seconds * PICTURES_PER_SECOND)
    if hit.end_seconds is None:
        return first, first
    return first, max(first, round(hit.end_seconds * PICTURES_PER_SECOND) - 1)


def _ends(hits: Sequence[Hit]) -> tuple[float, float]:
    return min(hit.time_seconds for hit in hits), max(hit.last_seconds for hit in hits)


def _span(first: datetime, last: datetime, has_end: bool) -> str:
    form = "%H:%M:%S" if first.date() == last.date() else "%Y-%m-%d %H:%M:%S"
    return f"{first:%Y-%m-%d %H:%M:%S}" + (f" - {last:{form}}" if has_end else "")
