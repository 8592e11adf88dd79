"""Decoded frames of one video enter in order; those worth looking at leave, with what moved in them."""

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
from panorama.video import ChangeGate, MotionProposer, PassedFrame, VideoFrame

ONE_STEP = 0.5
"""Share of the change between two samples that must happen from one frame to the next to be a shot change."""

GRACE_SECONDS = 5e-4
"""Times are rounded to the container's time base."""

MOST_AHEAD = 160
"""Frames that decoding may be ahead of the gate, and some: what the gate decides holds behind these. Sooner,
it would be chance which frames of a damaged file are decoded, and so which of them count."""

KNOWN_TICKS = 64
"""Ticks of the rate that are remembered: farther apart no codec puts what it decodes and what it shows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sampled frame that changed, as the proposer sees it, with what moved in it.

    Attributes:
        small: (h, w, 3) the whole frame.
        cut_at: the frame at which everything that was followed ended, None where it goes on.
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

    def of(self, info: VideoInfo) -> Rate:
        """That of one video: every picture of a folder is looked at, where not every so many are asked for.

        What a film shows between two looks is mostly on the next; what a picture shows is on no other.
        """
        return replace(self, all_frames=True) if info.is_pictures and self.every is None else self

    @property
    def unneeded(self) -> Unneeded | None:
        """What tells which frames of one video this does not look at, None where it cannot be told."""
        return None if self.all_frames or self.every is not None else Unneeded(self.samples_per_second)


class Unneeded:
    """Tells which frames of one video no sample will need, asked in the order of decoding.

    A frame is one if another was met that is shown earlier after the same tick. So the first after a tick is
    needed always, whatever the order; others may be, too.
    """

    def __init__(self, samples_per_second: float) -> None:
        self._rate = samples_per_second
        self._first: dict[int, float] = {}
        self._asked = 0
        self._last: int | None = None

    def stop(self, frame: int) -> None:
        """All are needed from `MOST_AHEAD` behind a frame on, however far decoding is by now."""
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
    """Number of the last tick of a rate before a time."""
    return int((time_seconds + GRACE_SECONDS) / (1 / samples_per_second))


class Sampler:
    """Takes all frames of one video, in order.

    Args:
        side: longest side in pixels of the picture that the proposer sees.
        unneeded: what the frames were passed over by, None where all are decoded.
        again: gives frames [start, stop) once more, all of them.
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
        self._shots = _ShotFinder(again)
        self._unneeded = unneeded
        self._small_size = small_size(info, side)
        self._first: NDArray[np.float32] | None = None
        self._fades = FadeFinder()
        self._cuts: list[int] = []
        self._anew: int | None = None

    def look(self, frame: VideoFrame | PassedFrame) -> Iterator[Sample | Hold]:
        """What to do about a frame: nothing, look at it, or take it for the one before."""
        if isinstance(frame, PassedFrame):
            self._shots.pass_over()
            return
        self._shots.add(frame)
        if frame.begins_anew:
            self._anew = frame.index
        if not self._schedule.due(frame):
            return
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
        self._cut(begins)
        anew, self._anew = self._anew, None
        if cut_at is None and anew is not None:
            # The camera stands where it stood: what it knows of the background stays.
            cut_at = anew
            self._cut(anew)
        if is_cut and self._unneeded is not None:
            # A film: to look again at every cut takes longer than to decode all.
            self._unneeded.stop(frame.index)
        self._shots.clear()
        if begins is not None:
            self._motion.reset()
        # Also where nothing changed: it is then that the background is learned and its noise measured.
        moving = self._motion.update(luma)
        if seen.changed or anew is not None:
            yield Sample(frame, frame.rgb(*self._small_size), moving, cut_at)
        else:
            yield Hold(frame.index, frame.time_seconds)

    def cuts(self) -> list[int]:
        """The frames found since the last call that begin another shot, in no order."""
        found, self._cuts = self._cuts, []
        return found

    def end(self) -> None:
        """The video is over."""
        self._cut(self._fades.end())

    def _cut(self, first_frame: int | None) -> None:
        self._cuts += [] if first_frame is None else [first_frame]

    def ends(self) -> NDArray[np.uint8] | None:
        """(2, 9, 16) grey levels of the first and the last picture looked at; None where there was none."""
        if self._first is None:
            return None
        size = ENDS_SHAPE[:0:-1]
        both = [
            cv2.resize(cells, size, interpolation=cv2.INTER_AREA) for cells in (self._first, self._gate.cells)
        ]
        return np.clip(np.rint(both), 0, 255).astype(np.uint8)


def small_size(info: VideoInfo, side: int) -> tuple[int, int]:
    """Width and height of the picture that the proposer sees; a video is not enlarged."""
    factor = min(1.0, side / max(info.width, info.height))
    return max(1, round(info.width * factor)), max(1, round(info.height * factor))


class _Schedule:
    """Which frames are looked at: every so many, or the first at or after each tick of the rate."""

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


class _ShotFinder:
    """Small pictures of the frames since the last sample, to find on which of them a shot change fell.

    Args:
        again: gives frames [start, stop) once more: where some were passed over, they are looked for then.

    Attributes:
        frames, grids: numbers and small pictures of the frames since the last sample, which is the first.
    """

    def __init__(self, again: Callable[[int, int], Iterator[VideoFrame]]) -> None:
        self._again = again
        self.frames: list[int] = []
        self.grids: list[NDArray[np.int16]] = []
        self._passed = False

    def add(self, frame: VideoFrame) -> None:
        self.frames.append(frame.index)
        self.grids.append(_grid(frame))

    def pass_over(self) -> None:
        """A frame came that was not decoded."""
        self._passed = True

    def clear(self) -> None:
        """The newest frame has been sampled: only it stays, to compare the next with."""
        self.frames = self.frames[-1:]
        self.grids = self.grids[-1:]
        self._passed = False

    def first_frame(self) -> int | None:
        """The frame that differs most from the one before it; None where the change came little by little.

        A camera that pans between two samples changes as much as a shot change does, but in many steps.
        """
        if self._passed:
            self._look_again()
        if len(self.grids) < 2:
            return self.frames[-1]
        steps = [_difference(a, b) for a, b in zip(self.grids, self.grids[1:], strict=False)]
        largest = int(np.argmax(steps))
        if steps[largest] < ONE_STEP * _difference(self.grids[0], self.grids[-1]):
            return None
        return self.frames[1 + largest]

    def _look_again(self) -> None:
        """All frames between the two samples; where damage leaves them out, those that came stay."""
        first, last = self.frames[0], self.frames[-1]
        found = [(frame.index, _grid(frame)) for frame in self._again(first, last + 1)]
        if found and (found[0][0], found[-1][0]) == (first, last):
            self.frames, self.grids = [index for index, _ in found], [grid for _, grid in found]


def _grid(frame: VideoFrame) -> NDArray[np.int16]:
    return frame.thinned_luma(18, 32).astype(np.int16)


def _difference(a: NDArray[np.int16], b: NDArray[np.int16]) -> float:
    """Mean difference of two small pictures; a change of the picture's size is the largest there is."""
    return float(np.abs(b - a).mean()) if a.shape == b.shape else np.inf
