"""Small pictures of the frames between two samples come in; the frame that replaced the one before goes out.

The change gate compares samples and tells whether the whole picture was replaced. Where a part was replaced,
say the person in front of a camera that stands still, samples show no more than when a person walks in. The
frames between them do: what moves changes the picture in many steps, a cut in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from panorama.video import VideoFrame

ONE_STEP = 0.5
"""A shot change needs this share of the change between two samples within a single frame step."""

JUMP = 4.0
"""Mean difference, in grey levels, of two frames between which a part of the picture was replaced."""

JUMP_QUIET = 0.35
"""Share of it that the steps before and after may have; more is motion, or a picture that goes in jerks."""

JUMP_FRAMES = 15
"""How many frames before are compared, and must be known: with fewer, each picture of a film that shows each
one for long, as a slow camera's or slides, would be a jump.
"""

JUMP_SECONDS = 0.25
"""Frames further apart differ by what happened between them."""

GAINS = (0.5, 2.0)
"""Contrasts of two pictures of the same in other light have a ratio within these."""


class ShotFinder:
    """Finds the frame of a shot change or of a jump, from small pictures of the frames since the last sample.

    Args:
        again: decodes frames [start, stop) once more; used if some of them were skipped.

    Attributes:
        frames, grids: numbers and small pictures of the frames since the last sample, beginning with it.
    """

    def __init__(self, again: Callable[[int, int], Iterator[VideoFrame]]) -> None:
        self._again = again
        self.frames: list[int] = []
        self.grids: list[NDArray[np.int16]] = []
        self._times: list[float] = []
        self._steps: list[float] = []  # how far each frame but the first differs from the one before it
        self._steps_before: list[tuple[int, float]] = []  # frames up to the last sample, and their steps
        self._known_from: int | None = None  # the first frame of all, or the last at which tracks ended
        self._quiet = 0.0  # the largest step beside the last jump
        self._passed = False

    def add(self, frame: VideoFrame) -> None:
        """Take a frame that was decoded."""
        if self._known_from is None:
            self._known_from = frame.index
        grid = _grid(frame)
        if self.grids:
            self._steps.append(_difference(self.grids[-1], grid))
        self.frames.append(frame.index)
        self.grids.append(grid)
        self._times.append(frame.time_seconds)

    def pass_over(self) -> None:
        """A frame was skipped without decoding."""
        self._passed = True

    def clear(self, cut_at: int | None = None) -> None:
        """The newest frame was sampled: keep only it, to compare the next ones with.

        Args:
            cut_at: a frame at which tracks ended: what came before says nothing about what comes next.
        """
        if cut_at is not None:
            self._known_from = cut_at
        self._steps_before = self._known_steps(self.frames[-1] - JUMP_FRAMES)
        self.frames = self.frames[-1:]
        self.grids = self.grids[-1:]
        self._times = self._times[-1:]
        self._steps = []
        self._passed = False

    def first_frame(self) -> int | None:
        """The frame that differs most from the one before it; None if the change was gradual.

        A camera that pans between two samples changes the picture as much as a shot change, but in many
        steps.
        """
        if self._passed:
            self._look_again()
        largest = int(np.argmax(self._steps))
        if self._steps[largest] < ONE_STEP * _difference(self.grids[0], self.grids[-1]):
            return None
        return self.frames[1 + largest]

    def jump(self) -> int | None:
        """The frame at which a part of the picture was replaced at once and stays so; None if there is none.

        It differs from the one before it, however bright both are, and hardly anything changes before or
        after that: ask `stands` when the next sample is due.
        """
        at = self._jump()
        if at is not None and self._passed:
            self._look_again()
            at = self._jump()
        return at

    def _jump(self) -> int | None:
        if not self._steps:
            return None
        at = int(np.argmax(self._steps))
        step = self._steps[at]
        if step < JUMP or self._times[at + 1] - self._times[at] > JUMP_SECONDS:
            return None
        jump = self.frames[at + 1]
        first = jump - JUMP_FRAMES
        if self._known_from is None or self._known_from > first:
            return None
        others = [other for frame, other in self._known_steps(first) if frame != jump]
        if not others or max(others) > JUMP_QUIET * step:
            return None
        stays = _difference_in_light(self.grids[at], self.grids[-1])
        self._quiet = JUMP_QUIET * step
        return jump if stays >= JUMP else None

    def stands(self) -> bool:
        """Whether the last jump is one by the frames since the sample after it.

        When something begins to move, one large step follows the other; with a slow camera some frames later.
        """
        return max(self._steps, default=0.0) <= self._quiet

    def _known_steps(self, after: int) -> list[tuple[int, float]]:
        """Frames behind this one, and behind the last at which tracks ended, each with the step to it."""
        known = self._steps_before + list(zip(self.frames[1:], self._steps, strict=True))
        return [(frame, step) for frame, step in known if frame > max(after, self._known_from or 0)]

    def _look_again(self) -> None:
        """Decode all frames between the two samples; if damage prevents it, keep those already seen."""
        first, last = self.frames[0], self.frames[-1]
        found = [(f.index, _grid(f), f.time_seconds) for f in self._again(first, last + 1)]
        if found and (found[0][0], found[-1][0]) == (first, last):
            self.frames = [index for index, _, _ in found]
            self.grids = [grid for _, grid, _ in found]
            self._times = [seconds for _, _, seconds in found]
            self._steps = [_difference(a, b) for a, b in pairwise(self.grids)]
        self._passed = False


def _grid(frame: VideoFrame) -> NDArray[np.int16]:
    return frame.thinned_luma(18, 32).astype(np.int16)


def _difference(a: NDArray[np.int16], b: NDArray[np.int16]) -> float:
    """Mean difference of two small pictures; infinite if their sizes differ."""
    return float(np.abs(b - a).mean()) if a.shape == b.shape else np.inf


def _difference_in_light(a: NDArray[np.int16], b: NDArray[np.int16]) -> float:
    """The same after the light of `a` is made that of `b`: brightness and contrast of the whole picture."""
    if a.shape != b.shape:
        return np.inf
    first, second = a - a.mean(), b - b.mean()
    gain = np.clip(float((first * second).mean()) / max(float((first * first).mean()), 1.0), *GAINS)
    return float(np.abs(second - gain * first).mean())
