"""Decoded frames of one video come in, in order; samples worth looking at go out, with what moved in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.frames import VideoInfo
from panorama.regions import Regions
from panorama.store.files.schema import ENDS_SHAPE
from panorama.tracking.fades import FadeFinder
from panorama.tracking.shots import ShotFinder
from panorama.video import ChangeGate, MotionProposer, PassedFrame, VideoFrame

GRACE_SECONDS = 5e-4
"""Tolerance for times, which are rounded to the container's time base."""

MOST_AHEAD = 160
"""At least as many frames as decoding may be ahead of the gate; decisions of the gate apply after these. If
they applied earlier, chance would decide which frames of a damaged file are decoded, and so which count.
"""

KNOWN_TICKS = 64
"""Ticks of the rate to remember; no codec's decoding order and display order differ by more."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sampled frame that changed, as the proposer sees it, with what moved in it.

    Attributes:
        frame: the decoded frame.
        small: (h, w, 3) the whole frame at the proposer's size.
        motion: the regions that moved.
        cut_at: the frame at which all tracks ended; None if they go on.
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
class Break:
    """A frame, sampled or not, that was taken long after the one before: all tracks end there."""

    frame: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Which frames are sampled.

    Attributes:
        samples_per_second: sample the first frame at or after each tick of this rate.
        every: sample every n-th frame instead; None for the rate.
        all_frames: sample every decoded frame instead.
    """

    samples_per_second: float
    every: int | None = None
    all_frames: bool = False

    def of(self, info: VideoInfo) -> Rate:
        """The rate for one video: all pictures of a folder are sampled, unless `every` is set.

        What a film shows between two samples is mostly visible in the next one; what one picture shows is in
        no other.
        """
        return replace(self, all_frames=True) if info.is_pictures and self.every is None else self

    @property
    def unneeded(self) -> Unneeded | None:
        """Tells which frames of one video are never sampled; None if that cannot be told."""
        return None if self.all_frames or self.every is not None else Unneeded(self.samples_per_second)


class Unneeded:
    """Tells which frames of one video no sample needs; asked in decoding order.

    A frame is not needed if a frame was met before that is shown earlier after the same tick. So the first
    frame after a tick is always needed, whatever the order; others may be needed, too.
    """

    def __init__(self, samples_per_second: float) -> None:
        self._rate = samples_per_second
        self._first: dict[int, float] = {}
        self._asked = 0
        self._last: int | None = None

    def stop(self, frame: int) -> None:
        """From `MOST_AHEAD` frames after this one, all are needed, however far decoding is by now."""
        if self._last is None:
            self._last = frame + MOST_AHEAD

    def __call__(self, time_seconds: float) -> bool:
        self._asked += 1
        tick = tick_of(time_seconds, self._rate)
        first = self._first.get(tick)
        if first is not None and first < time_seconds:
            return self._last is None or self._asked <= self._last
        self._first[tick] = time_seconds
        if len(self._first) > KNOWN_TICKS:
            del self._first[min(self._first)]
        return False


def tick_of(time_seconds: float, samples_per_second: float) -> int:
    """Number of the last tick of a rate at or before a time."""
    return int((time_seconds + GRACE_SECONDS) / (1 / samples_per_second))


class Sampler:
    """Takes all frames of one video, in order.

    Args:
        info: the video's facts.
        rate: which frames to sample.
        side: longest side, in pixels, of the picture that the proposer sees.
        unneeded: what skipped frames before decoding; None if all are decoded.
        again: decodes frames [start, stop) once more, all of them.
    """

    def __init__(
        self,
        info: VideoInfo,
        rate: Rate,
        side: int,
        unneeded: Unneeded | None = None,
        again: Callable[[int, int], Iterator[VideoFrame]] = lambda start, stop: iter(()),
    ) -> None:
        self._gate = ChangeGate()
        self._motion = MotionProposer(info.width, info.height, info.rotation, info.mirrored)
        self._schedule = _Schedule(rate)
        self._shots = ShotFinder(again)
        self._unneeded = unneeded
        self._small_size = small_size(info, side)
        self._first: NDArray[np.float32] | None = None
        self._fades = FadeFinder()
        self._cuts: list[int] = []
        self._is_anew = False
        self._waiting: Sample | None = None  # at a jump, if what comes next agrees

    def look(self, frame: VideoFrame | PassedFrame) -> Iterator[Sample | Hold | Break]:
        """Take one frame: yields a Break where one begins, and a Sample to look at or, unchanged, a Hold."""
        if isinstance(frame, PassedFrame):
            self._shots.pass_over()
            return
        self._shots.add(frame)
        if frame.begins_anew:
            yield from self._settle()
            # Now, not at the next sample: others may come before that, or none at all.
            self._is_anew = True
            self._cut(frame.index)
            yield Break(frame.index)
        if not self._schedule.due(frame):
            return
        yield from self._settle()
        luma = frame.luma()
        seen = self._gate.update(luma)
        cells = self._gate.cells
        if self._first is None:
            self._first = cells
        is_cut = seen.cut and not self._fades.shows_black(cells)
        cut_at = begins = self._shots.first_frame() if is_cut else None
        if cut_at is not None:
            self._cut(self._fades.end())
        fade = self._fades.look(frame.time_seconds, cells, self._shots.frames, self._shots.grids)
        if cut_at is None:
            begins, cut_at = fade.shot_at, fade.lit_at
        jump = self._shots.jump() if seen.changed and not seen.cut and cut_at is None else None
        cut_at = jump if cut_at is None else cut_at
        self._cut(begins)
        if is_cut and self._unneeded is not None:
            # The video has cuts: decoding again at every cut would take longer than decoding all frames.
            self._unneeded.stop(frame.index)
        self._shots.clear(cut_at)
        if begins is not None:  # behind a Break the camera has not moved: keep the learned background
            self._motion.reset()
        # Update even if nothing changed: that is when it learns the background and measures its noise.
        moving = self._motion.update(luma)
        is_anew, self._is_anew = self._is_anew, False
        if jump is not None:
            self._waiting = Sample(frame, frame.rgb(*self._small_size), moving, cut_at)
        elif seen.changed or is_anew:
            yield Sample(frame, frame.rgb(*self._small_size), moving, cut_at)
        else:
            yield Hold(frame.index, frame.time_seconds)

    def cuts(self) -> list[int]:
        """The frames found since the last call that begin another shot, unordered."""
        found, self._cuts = self._cuts, []
        return found

    def end(self) -> Iterator[Sample]:
        """End the video: yields the last sample if it has waited for another."""
        yield from self._settle()
        self._cut(self._fades.end())

    def _settle(self) -> Iterator[Sample]:
        """The sample that waited until the next one was due, to tell whether there is a jump before it."""
        waited, self._waiting = self._waiting, None
        if waited is not None:
            yield waited if self._shots.stands() else replace(waited, cut_at=None)

    def _cut(self, first_frame: int | None) -> None:
        self._cuts += [] if first_frame is None else [first_frame]

    def ends(self) -> NDArray[np.uint8] | None:
        """(2, 9, 16) grey levels of the first and the last sampled picture; None if there was none."""
        if self._first is None:
            return None
        size = ENDS_SHAPE[:0:-1]
        both = [
            cv2.resize(cells, size, interpolation=cv2.INTER_AREA) for cells in (self._first, self._gate.cells)
        ]
        return np.clip(np.rint(both), 0, 255).astype(np.uint8)


def small_size(info: VideoInfo, side: int) -> tuple[int, int]:
    """Width and height of the picture that the proposer sees; videos are not enlarged."""
    factor = min(1.0, side / max(info.width, info.height))
    return max(1, round(info.width * factor)), max(1, round(info.height * factor))


class _Schedule:
    """Decides which frames are sampled: every n-th, or the first at or after each tick of the rate."""

    def __init__(self, rate: Rate) -> None:
        self._every = rate.every
        self._all = rate.all_frames
        self._rate = rate.samples_per_second
        self._tick = -1

    def due(self, frame: VideoFrame) -> bool:
        if self._all:
            return True
        if self._every is not None:
            return frame.index % self._every == 0
        before, self._tick = self._tick, max(self._tick, tick_of(frame.time_seconds, self._rate))
        return self._tick > before
