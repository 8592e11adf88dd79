"""Decoded frames of one video enter in order; those worth looking at leave, with what moved in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.frames import VideoInfo
from panorama.regions import Regions
from panorama.video import ChangeGate, MotionProposer, VideoFrame

ONE_STEP = 0.5
"""Share of the change between two samples that must happen from one frame to the next to be a shot change."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sampled frame that changed, as the proposer sees it, with what moved in it.

    Attributes:
        small: (h, w, 3) the whole frame.
        cut_at: the first frame of a new shot, None where the shot goes on.
    """

    frame: VideoFrame
    small: NDArray[np.uint8]
    motion: Regions
    cut_at: int | None


@dataclass(frozen=True, slots=True)
class Hold:
    """A sampled frame in which nothing changed."""

    frame: int
    time_seconds: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Which frames are looked at.

    Attributes:
        samples_per_second: the first at or after each tick of this rate.
        every: every so many frames instead, None for the rate.
        all_frames: all that are decoded instead.
    """

    samples_per_second: float
    every: int | None = None
    all_frames: bool = False


class Sampler:
    """Takes all decoded frames of one video, in order.

    Args:
        side: longest side in pixels of the picture that the proposer sees.
    """

    def __init__(self, info: VideoInfo, rate: Rate, side: int) -> None:
        self._gate = ChangeGate()
        self._motion = MotionProposer(info.width, info.height, info.rotation)
        self._schedule = _Schedule(rate)
        self._shots = _ShotFinder()
        self._small_size = small_size(info, side)

    def look(self, frame: VideoFrame) -> Iterator[Sample | Hold]:
        """What to do about a frame: nothing, look at it, or take it for the one before."""
        luma = frame.luma()
        self._shots.add(frame.index, luma)
        if not self._schedule.due(frame):
            return
        seen = self._gate.update(luma)
        cut_at = self._shots.first_frame() if seen.cut else None
        self._shots.clear()
        if cut_at is not None:
            self._motion.reset()
        # Also where nothing changed: it is then that the background is learned and its noise measured.
        moving = self._motion.update(luma)
        if seen.changed:
            yield Sample(frame, frame.rgb(*self._small_size), moving, cut_at)
        else:
            yield Hold(frame.index, frame.time_seconds)


def small_size(info: VideoInfo, side: int) -> tuple[int, int]:
    """Width and height of the picture that the proposer sees; a video is not enlarged."""
    factor = min(1.0, side / max(info.width, info.height))
    return max(1, round(info.width * factor)), max(1, round(info.height * factor))


class _Schedule:
    """Which frames are looked at: every so many, or the first at or after each tick of the rate."""

    def __init__(self, rate: Rate) -> None:
        self._every = rate.every
        self._all = rate.all_frames
        self._interval = 1 / rate.samples_per_second
        self._next_seconds = 0.0

    def due(self, frame: VideoFrame) -> bool:
        if self._all:
            return True
        if self._every is not None:
            return frame.index % self._every == 0
        # Half a millisecond of grace: times are rounded to the container's time base.
        if frame.time_seconds < self._next_seconds - 5e-4:
            return False
        ticks = int((frame.time_seconds + 5e-4) / self._interval) + 1
        self._next_seconds = ticks * self._interval
        return True


class _ShotFinder:
    """Small pictures of the frames since the last sample, to find on which of them a shot change fell."""

    def __init__(self) -> None:
        self._frames: list[int] = []
        self._grids: list[NDArray[np.int16]] = []

    def add(self, frame: int, luma: NDArray[np.uint8]) -> None:
        self._frames.append(frame)
        self._grids.append(self._grid(luma))

    def clear(self) -> None:
        """The newest frame has been sampled: only it stays, to compare the next with."""
        self._frames = self._frames[-1:]
        self._grids = self._grids[-1:]

    def first_frame(self) -> int | None:
        """The frame that differs most from the one before it; None where the change came little by little.

        A camera that pans between two samples changes as much as a shot change does, but in many steps.
        """
        if len(self._grids) < 2:
            return self._frames[-1]
        steps = [_difference(a, b) for a, b in zip(self._grids, self._grids[1:], strict=False)]
        largest = int(np.argmax(steps))
        if steps[largest] < ONE_STEP * _difference(self._grids[0], self._grids[-1]):
            return None
        return self._frames[1 + largest]

    @staticmethod
    def _grid(luma: NDArray[np.uint8]) -> NDArray[np.int16]:
        step_y, step_x = max(1, luma.shape[0] // 18), max(1, luma.shape[1] // 32)
        return luma[::step_y, ::step_x].astype(np.int16)


def _difference(a: NDArray[np.int16], b: NDArray[np.int16]) -> float:
    """Mean difference of two small pictures; a change of the picture's size is the largest there is."""
    return float(np.abs(b - a).mean()) if a.shape == b.shape else np.inf
