"""A snapshot enters; how its videos begin and end, and on which day they were recorded, leaves.

Of each video the brightness of its first and its last sampled picture is kept; two such pictures tell whether
two videos show the same.
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
"""Clocks may say that a video began so long before or after another one ended that it goes on with."""

ALIKE_CONTRAST = 0.25
LEAST_DIFFERENCE, MOST_DIFFERENCE = 2.0, 8.0
"""A part of a picture is the same within so much of the picture's contrast, between these grey levels."""

MOST_LIGHT = 16.0
"""Grey levels by which a camera may expose otherwise: dark clothes make all of the rest brighter."""

LEAST_CORRELATION = 0.7
LEAST_CONTRAST = 3.0
"""Grey levels (standard deviation): a picture with less, as a black one, tells no scene from others."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Videos in order of their names, by their ends.

    Attributes:
        first, last: (N,) int64 shots.
        opening, closing: of the first and the last picture.
        sizes: (N, 2) pixels.
        durations: (N,) seconds; starts: (N,) when each began, seconds since 1970, nan if unknown.
        days: (N,) the date by its camera's clock; of a video without one, the folder in its name.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    opening: Looks
    closing: Looks
    sizes: NDArray[np.int64]
    durations: NDArray[np.float64]
    starts: NDArray[np.float64]
    days: list[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Ends:
        """Of all videos of a snapshot."""
        videos = snapshot.videos
        names = videos.column("video").to_pylist()
        order = sorted(range(len(names)), key=lambda row: (natural_key(names[row]), names[row]))
        row = np.array(order, np.intp)
        segments = videos.column("segment").to_numpy()
        # Copies of a video share its segment: it counts where the first one stands.
        row = row[np.sort(np.unique(segments[row], return_index=True)[1])]
        segments = segments[row]
        pictures = snapshot.ends[np.searchsorted(snapshot.live_segments, segments)]
        first = segments.astype(np.int64) << LOCAL_BITS
        opening, closing = (Looks.of(pictures[:, end]) for end in (0, 1))
        columns = ("width", "height", "duration", "start_time_unix")
        width, height, durations, starts = (videos.column(name).to_numpy()[row] for name in columns)
        sizes = np.stack([width, height], axis=1)
        last = first + number_of_cuts(snapshot, segments)
        clocks = videos.column("start_clock").to_pylist()
        days = [_day(names[r], clocks[r]) for r in row.tolist()]
        return cls(first, last, opening, closing, sizes, durations, starts, days)

    def shares(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
        """(M, 2) how much of the picture that each video begins with is that which the other one ends with.

        Whatever the exposure is, and as it is.
        """
        same_size = (self.sizes[rows] == self.sizes[others]).all(axis=1)
        return self.opening[rows].shared_with(self.closing[others]) * same_size[:, None]

    def pictures(self) -> Looks:
        """(2 N) of each video the first picture, then the last one."""
        both = zip(self.opening.columns(), self.closing.columns(), strict=True)
        return Looks(*(np.stack(pair, axis=1).reshape(2 * len(pair[0]), *pair[0].shape[1:]) for pair in both))

    def may_go_on(self, row: int, other: int) -> bool:
        """Whether the clocks of both say that a video goes on with another one, or say nothing."""
        return not abs(self.starts[row] - self.starts[other] - self.durations[other]) > GOES_ON_SECONDS


def _day(name: str, clock: datetime | None) -> str:
    """Of which day a video is: its date where its clock is known, else its folder, as recorders name them."""
    return f"/{name.rpartition('/')[0]}" if clock is None else clock.date().isoformat()


def number_of_cuts(snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.intp]:
    """(S,) in each of some segments."""
    within = segment_of(snapshot.cuts)
    return np.searchsorted(within, segments, side="right") - np.searchsorted(within, segments)


@dataclass(frozen=True, slots=True)
class Looks:
    """Pictures (N, P) with what they are compared by.

    Attributes:
        levels: grey levels; means, contrasts: (N,) of each.
        tells: (N,) whether it has enough contrast to be told from others.
    """

    levels: NDArray[np.float32]
    means: NDArray[np.float32]
    contrasts: NDArray[np.float32]
    tells: NDArray[np.bool_]

    @classmethod
    def of(cls, pictures: NDArray[np.uint8]) -> Looks:
        """Measures pictures (N, h, w)."""
        levels = pictures.reshape(len(pictures), pictures[:1].size or 1).astype(np.float32)
        contrasts = levels.std(axis=1)
        return cls(levels, levels.mean(axis=1), contrasts, contrasts >= LEAST_CONTRAST)

    def __getitem__(self, rows: NDArray[np.intp]) -> Looks:
        return Looks(self.levels[rows], self.means[rows], self.contrasts[rows], self.tells[rows])

    def columns(self) -> tuple[NDArray[Any], ...]:
        """What it is made of."""
        return self.levels, self.means, self.contrasts, self.tells

    def shapes(self) -> NDArray[np.float32]:
        """(N, P) pictures but for light: the product of two is their correlation; 0 of what tells none."""
        norms = np.maximum(self.contrasts * np.sqrt(np.float32(max(self.levels.shape[1], 1))), 1e-6)
        return np.asarray(
            (self.levels - self.means[:, None]) / norms[:, None] * self.tells[:, None], np.float32
        )

    def share_but_for_light(self, other: Looks) -> NDArray[np.float64]:
        """(N,) how much of each picture is that of the other in its row, but for brightness and contrast."""
        difference = self.levels / self.contrasts[:, None] - other.levels / other.contrasts[:, None]
        difference -= np.median(difference, axis=1, keepdims=True)
        least = LEAST_DIFFERENCE / np.minimum(self.contrasts, other.contrasts)
        return (np.abs(difference) <= np.maximum(ALIKE_CONTRAST, least)[:, None]).mean(axis=1)

    def shared_with(self, other: Looks) -> NDArray[np.float64]:
        """(N, 2) how much of each picture is that of the other in its row, 0 where that may be chance.

        Whatever the exposure is, and as it is.
        """
        contrast = np.minimum(self.contrasts, other.contrasts)
        tolerance = np.clip(ALIKE_CONTRAST * contrast, LEAST_DIFFERENCE, MOST_DIFFERENCE)[:, None]
        difference = self.levels - other.levels
        light = np.clip(np.median(difference, axis=1), -MOST_LIGHT, MOST_LIGHT)[:, None]
        shares = [(np.abs(difference - by) <= tolerance).mean(axis=1) for by in (light, 0)]
        covariance = (self.levels * other.levels).mean(axis=1) - self.means * other.means
        alike = covariance >= LEAST_CORRELATION * self.contrasts * other.contrasts
        return np.stack(shares, axis=1) * (alike & self.tells & other.tells)[:, None]
