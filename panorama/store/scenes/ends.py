"""A snapshot comes in; how its videos begin and end, and on which day each was recorded, goes out.

The library keeps the brightness of the first and the last sampled picture of each video; comparing two such
pictures shows whether two videos show the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.lines import natural_key
from panorama.store.files.schema import LOCAL_BITS, segment_of
from panorama.store.snapshot import Snapshot

GOES_ON_SECONDS = 2.0
"""A video may continue another one if, by their clocks, it began within this time of the other's end."""

ALIKE_CONTRAST = 0.25
LEAST_DIFFERENCE, MOST_DIFFERENCE = 2.0, 8.0
"""Pixels are the same if they differ by at most ALIKE_CONTRAST times the picture's contrast.

That tolerance is kept between these two numbers of grey levels.
"""

MOST_LIGHT = 16.0
"""Largest difference in exposure, in grey levels: dark clothes in view make all the rest brighter."""

LEAST_CORRELATION = 0.7
LEAST_CONTRAST = 3.0
"""Grey levels (standard deviation): a picture with less, such as a black one, identifies no scene."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The beginnings and ends of videos, in order of their names; copies of a video count once.

    Attributes:
        first, last: (N,) int64, the first and the last shot of each video (see `Scenes`).
        opening, closing: the first and the last picture of each video.
        sizes: (N, 2) width and height in pixels.
        durations: (N,) seconds, by the clock if pictures have times of their own.
        starts: (N,) start times in seconds since 1970, nan if unknown.
        days: (N,) the date by the camera's clock; without a clock, the folder in the video's name.
        last_days: (N,) the date of the last picture, if pictures have times of their own; else as `days`.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    opening: Looks
    closing: Looks
    sizes: NDArray[np.int64]
    durations: NDArray[np.float64]
    starts: NDArray[np.float64]
    days: list[str]
    last_days: list[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Ends:
        """The ends of all videos of a snapshot."""
        videos = snapshot.videos
        names = videos.column("video").to_pylist()
        order = sorted(range(len(names)), key=lambda row: (natural_key(names[row]), names[row]))
        row = np.array(order, np.intp)
        segments = videos.column("segment").to_numpy()
        # Copies of a video share its segment: only the first one by name counts.
        row = row[np.sort(np.unique(segments[row], return_index=True)[1])]
        segments = segments[row]
        pictures = snapshot.ends[np.searchsorted(snapshot.live_segments, segments)]
        first = segments.astype(np.int64) << LOCAL_BITS
        opening, closing = (Looks.of(pictures[:, end]) for end in (0, 1))
        columns = ("width", "height", "duration", "start_time_unix")
        width, height, durations, starts = (videos.column(name).to_numpy()[row] for name in columns)
        sizes = np.stack([width, height], axis=1)
        last = first + number_of_cuts(snapshot, segments)
        clocks, until = (videos.column(name).to_pylist() for name in ("start_clock", "last_clock"))
        days = [_day(names[r], clocks[r]) for r in row.tolist()]
        last_days = [_day(names[r], until[r] or clocks[r]) for r in row.tolist()]
        spans = [None if until[r] is None else (until[r] - clocks[r]).total_seconds() for r in row.tolist()]
        durations = np.array([b if a is None else a for a, b in zip(spans, durations.tolist(), strict=True)])
        return cls(first, last, opening, closing, sizes, durations, starts, days, last_days)

    def shares(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
        """(M, 2) the part of each video's first picture that equals the last picture of the other video.

        The first column allows for a different exposure, the second does not.
        """
        same_size = (self.sizes[rows] == self.sizes[others]).all(axis=1)
        return self.opening[rows].shared_with(self.closing[others]) * same_size[:, None]

    def pictures(self) -> Looks:
        """2 N pictures: the first, then the last picture of each video."""
        both = zip(self.opening.columns(), self.closing.columns(), strict=True)
        return Looks(*(np.stack(pair, axis=1).reshape(2 * len(pair[0]), *pair[0].shape[1:]) for pair in both))

    def may_go_on(self, row: int, other: int) -> bool:
        """Whether a video may continue another one by their clocks; True if one of the clocks is unknown."""
        return not abs(self.starts[row] - self.starts[other] - self.durations[other]) > GOES_ON_SECONDS


def _day(name: str, clock: datetime | None) -> str:
    """The day of a video: the date by its clock, else its folder, since recorders use one per day."""
    return f"/{name.rpartition('/')[0]}" if clock is None else clock.date().isoformat()


def number_of_cuts(snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.intp]:
    """(S,) the number of cuts in each of some segments."""
    within = segment_of(snapshot.cuts)
    return np.searchsorted(within, segments, side="right") - np.searchsorted(within, segments)


@dataclass(frozen=True, slots=True)
class Looks:
    """N pictures of P pixels, with the values by which they are compared.

    Attributes:
        levels: (N, P) grey levels; means, contrasts: (N,) their mean and standard deviation.
        tells: (N,) whether a picture has enough contrast to be distinguished from others.
    """

    levels: NDArray[np.float32]
    means: NDArray[np.float32]
    contrasts: NDArray[np.float32]
    tells: NDArray[np.bool_]

    @classmethod
    def of(cls, pictures: NDArray[np.uint8]) -> Looks:
        """Measure pictures (N, h, w)."""
        levels = pictures.reshape(len(pictures), pictures[:1].size or 1).astype(np.float32)
        contrasts = levels.std(axis=1)
        return cls(levels, levels.mean(axis=1), contrasts, contrasts >= LEAST_CONTRAST)

    def __getitem__(self, rows: NDArray[np.intp]) -> Looks:
        return Looks(self.levels[rows], self.means[rows], self.contrasts[rows], self.tells[rows])

    def columns(self) -> tuple[NDArray[Any], ...]:
        """The attributes in order."""
        return self.levels, self.means, self.contrasts, self.tells

    def shapes(self) -> NDArray[np.float32]:
        """(N, P) normalised pictures: the inner product of two is their correlation; 0 without contrast."""
        norms = np.maximum(self.contrasts * np.sqrt(np.float32(max(self.levels.shape[1], 1))), 1e-6)
        return np.asarray(
            (self.levels - self.means[:, None]) / norms[:, None] * self.tells[:, None], np.float32
        )

    def share_but_for_light(self, other: Looks) -> NDArray[np.float64]:
        """(N,) the part of each picture that equals the other's in its row, up to brightness and contrast."""
        difference = self.levels / self.contrasts[:, None] - other.levels / other.contrasts[:, None]
        difference -= np.median(difference, axis=1, keepdims=True)
        least = LEAST_DIFFERENCE / np.minimum(self.contrasts, other.contrasts)
        return (np.abs(difference) <= np.maximum(ALIKE_CONTRAST, least)[:, None]).mean(axis=1)

    def shared_with(self, other: Looks) -> NDArray[np.float64]:
        """(N, 2) the part of each picture that equals the other picture in its row; 0 if that may be chance.

        The first column allows for a different exposure, the second does not.
        """
        contrast = np.minimum(self.contrasts, other.contrasts)
        tolerance = np.clip(ALIKE_CONTRAST * contrast, LEAST_DIFFERENCE, MOST_DIFFERENCE)[:, None]
        difference = self.levels - other.levels
        light = np.clip(np.median(difference, axis=1), -MOST_LIGHT, MOST_LIGHT)[:, None]
        shares = [(np.abs(difference - by) <= tolerance).mean(axis=1) for by in (light, 0)]
        covariance = (self.levels * other.levels).mean(axis=1) - self.means * other.means
        alike = covariance >= LEAST_CORRELATION * self.contrasts * other.contrasts
        return np.stack(shares, axis=1) * (alike & self.tells & other.tells)[:, None]
