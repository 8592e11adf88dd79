"""Sampled pictures of one video come in, in order; the frames at which a new shot begins after black go out.

A fade is not a cut: each picture is nearly the same as the one before. But if the picture goes black and
comes back, it can be compared with what it was before. If it differs, a new shot has begun; if it is the
same, the camera lost its signal for a while. The picture comes back gradually, so the comparison waits for a
second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.video.gate import is_cut

BLACK_CONTRAST, BLACK_SHARE = 3.0, 0.25
"""A picture is black if its contrast (standard deviation in grey levels) is below the first value and below
this share of the contrast of the pictures before: a night without lamps has little contrast, too.
"""

FADING_SHARE = 0.8
"""A sample with less than this share of the recent contrast is fading; only then are all frames examined."""

OUT_SECONDS = 2.0
"""Longest fade-out; the picture with the most contrast within this time is remembered."""

BLACK_SECONDS = 10.0
"""Longer darkness is not a fade, but a night after the lamp went out, in which headlights come and go."""

IN_SECONDS = 1.0
"""How long to wait for the next picture to fade in."""


@dataclass(frozen=True, slots=True)
class Fade:
    """The findings at one sample.

    Attributes:
        lit_at: the frame at which the picture came back from black; tracks have ended there. None if it did
            not.
        shot_at: such a frame, of this sample or an earlier one, that begins another shot; None if there is
            none.
    """

    lit_at: int | None = None
    shot_at: int | None = None


class FadeFinder:
    """Finds the shots of one video that begin after black."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._recent: deque[tuple[float, float, NDArray[np.float32]]] = deque()  # seconds, contrast, cells
        self._is_black = False
        self._black_since = 0.0
        self._before: NDArray[np.float32] | None = None  # the picture that went black
        self._lit: tuple[int, float] | None = None  # the frame at which it came back, and seconds

    def shows_black(self, cells: NDArray[np.float32]) -> bool:
        """Whether the last sample or this one is black; a cut between these is judged here."""
        return self._is_black or float(cells.std()) < self._limit()

    def look(
        self,
        seconds: float,
        cells: NDArray[np.float32],
        frames: Sequence[int],
        grids: Sequence[NDArray[np.int16]],
    ) -> Fade:
        """Examine a sample.

        Args:
            seconds, cells: time and cells of the sample, from the change gate.
            frames, grids: numbers and small pictures of the frames from the last sample to this one.
        """
        contrast = float(cells.std())
        if self._is_black and seconds - self._black_since > BLACK_SECONDS:
            self._forget()
        black = self._black(contrast, grids)
        lit_at = shot_at = None
        if len(black):
            shot_at = self._decided()  # decide now, as it went black again
            self._before = self._most() if self._before is None else self._before
            self._recent.clear()
            self._black_since = self._black_since if self._is_black else seconds
            self._is_black = int(black[-1]) == len(frames) - 1
            if self._before is not None and not self._is_black:
                lit_at = frames[int(black[-1]) + 1]
                self._lit = lit_at, seconds
        while self._recent and seconds - self._recent[0][0] > OUT_SECONDS:
            self._recent.popleft()
        self._recent.append((seconds, contrast, cells))
        if self._lit is not None and seconds - self._lit[1] >= IN_SECONDS:
            shot_at = self._decided()
        return Fade(lit_at, shot_at)

    def end(self) -> int | None:
        """End the video, or the shot at a cut: the pending frame if it began another shot, else None."""
        found = self._decided()
        self._forget()
        return found

    def _black(self, contrast: float, grids: Sequence[NDArray[np.int16]]) -> NDArray[np.intp]:
        """Which frames since the last sample are black; only examined if the picture fades."""
        if not self._is_black:
            least = min(contrast, self._recent[-1][1]) if self._recent else contrast
            if least >= FADING_SHARE * self._most_contrast():
                return np.zeros(0, np.intp)
        limit = self._limit()
        return np.flatnonzero([grid.std() < limit for grid in grids])

    def _limit(self) -> float:
        """The contrast below which a picture is black."""
        before = 0.0 if self._before is None else float(self._before.std())
        return min(BLACK_CONTRAST, BLACK_SHARE * max(self._most_contrast(), before))

    def _most_contrast(self) -> float:
        return max((one[1] for one in self._recent), default=0.0)

    def _most(self) -> NDArray[np.float32] | None:
        """The recent picture with the most contrast."""
        return max(self._recent, key=lambda one: one[1])[2] if self._recent else None

    def _decided(self) -> int | None:
        """The frame at which the picture came back, if it is a different picture; ends the comparison."""
        if self._lit is None:
            return None
        (lit_at, _), before, after = self._lit, self._before, self._most()
        self._lit = self._before = None
        if before is None or after is None:
            return None
        # As in the gate, a picture of another size is another shot.
        is_other = before.shape != after.shape or is_cut(after, before, np.abs(after - before))
        return lit_at if is_other else None
