"""The types in which decoding hands on a video's facts, presentation times, and a report of losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PICTURES = "images"
"""The `codec` of a folder of pictures, in place of a decoder's name."""

PICTURES_PER_SECOND = 5
"""Pictures per second of a folder, which has no rate of its own.

It equals the default sampling rate of indexing, so that every picture is sampled. The next frame of a video
usually shows what a skipped one did; the next picture of a camera trap, for example, does not.
"""

ALARM_SECONDS = 60.0
"""Pictures of a camera trap taken farther apart than this belong to two alarms, which are separate shots."""

BEAT_STEPS = 8
BEAT_TOLERANCE = 0.05
BEAT_PAUSE = 1.5
LONGEST_BEAT = 600.0
"""In a timelapse more than half of so many steps or more are alike, to a twentieth and at least a second, and
only a pause of so many beats separates anything. Whether more seconds than these join well is not known."""


def alarm_seconds(steps: NDArray[np.float64]) -> float:
    """The step beyond which two pictures of a folder belong to two alarms, in seconds.

    Args:
        steps: (N,) seconds between consecutive pictures of known time, or between some of them.
    """
    if len(steps) < BEAT_STEPS:
        return ALARM_SECONDS
    beat = float(np.median(steps))
    alike = np.abs(steps - beat) <= max(1.0, BEAT_TOLERANCE * beat)
    is_timelapse = beat <= LONGEST_BEAT and alike.mean() > 0.5
    return max(ALARM_SECONDS, BEAT_PAUSE * beat) if is_timelapse else ALARM_SECONDS


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Facts of one video as displayed: upright, not mirrored, with square pixels.

    Attributes:
        path: the file or image folder.
        codec: the decoder's name, for example 'h264'; PICTURES for a folder of pictures.
        width, height: size of the displayed frame, in square pixels.
        rotation: clockwise degrees already applied to what readers return: 0, 90, 180 or 270.
        time_base: seconds per pts unit.
        duration_seconds: as the container claims; None if it does not say.
        average_rate: frames per second as the container claims; None if it does not say.
        streams: number of video streams in the file, not counting cover pictures; one is read.
        mirrored: whether what readers return was also mirrored left to right, after the rotation.
        assumed_rate: whether the file stores neither times nor a rate, so that the demuxer's default applies.
        hdr: the transfer function of high dynamic range video, "pq" or "hlg"; "" for ordinary video. Readers
            return colours as an ordinary screen shows them.
    """

    path: str
    codec: str
    width: int
    height: int
    rotation: int
    time_base: Fraction
    duration_seconds: float | None = None
    average_rate: float | None = None
    streams: int = 1
    mirrored: bool = False
    assumed_rate: bool = False
    hdr: Literal["", "pq", "hlg"] = ""

    @property
    def is_pictures(self) -> bool:
        """Whether it is a folder of pictures, each of which may show something else, unlike video frames."""
        return self.codec == PICTURES

    def __post_init__(self) -> None:
        if self.width <= 0 or self.height <= 0:
            raise ValueError(f"a video has positive size, got {self.width}x{self.height}")
        if self.rotation not in (0, 90, 180, 270):
            raise ValueError(f"rotation is one of 0, 90, 180, 270, got {self.rotation}")


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """Presentation times of the decodable frames of one video, in presentation order.

    Attributes:
        pts: (N,) int64, strictly increasing, in units of `time_base`.
        time_base: seconds per pts unit.
    """

    pts: NDArray[np.int64]
    time_base: Fraction

    def __post_init__(self) -> None:
        if self.pts.ndim != 1:
            raise ValueError(f"pts is one row of numbers, got shape {self.pts.shape}")
        if len(self.pts) > 1 and not bool(np.all(np.diff(self.pts) > 0)):
            where = int(np.argmin(np.diff(self.pts)))
            raise ValueError(f"pts increase, got {self.pts[where]} then {self.pts[where + 1]} at {where}")

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """(N,) float64 seconds since the first frame."""
        if not len(self.pts):
            return np.zeros(0, dtype=np.float64)
        scale = self.time_base.numerator / self.time_base.denominator
        return (self.pts - self.pts[0]).astype(np.float64) * scale


@dataclass(slots=True)
class DecodeReport:
    """What one pass over a video decoded and lost; grows while the video is read.

    Attributes:
        frames: frames that came out, decoded or passed over.
        lost_packets: packets that gave an error or belong to a part that cannot be read.
        errors: the first five distinct messages, for people.
        fitted: pictures of a folder whose size differs from its frame size.
    """

    frames: int = 0
    lost_packets: int = 0
    errors: list[str] = field(default_factory=list)
    fitted: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing was lost."""
        return self.lost_packets == 0 and not self.errors

    def add(self, other: DecodeReport) -> None:
        """Add the losses of another pass that this one used."""
        self.lost_packets += other.lost_packets
        for message in other.errors:
            self.note(message)

    def note(self, message: str) -> None:
        """Record one error message, keeping the first five distinct ones."""
        if message not in self.errors and len(self.errors) < 5:
            self.errors.append(message)
