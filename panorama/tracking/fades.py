"""Sampled pictures of one video enter in order; where another shot begins behind black leaves.

A fade is no cut: each picture is nearly the one before it. But where the picture goes black and comes back,
it can be told from what it was before: as another one, and that is another shot, or as the same, where a
camera lost its signal. It comes back little by little, so it is looked at for a second before that is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.video.gate import is_cut

BLACK_CONTRAST, BLACK_SHARE = 3.0, 0.25
"""Black is a picture of less contrast (standard deviation, grey levels), and of less than so much of that of
the pictures before it: a night without a lamp has little of it, too."""

FADING_SHARE = 0.8
"""A sample of less than so much of the latest contrast fades: only there all frames are looked at."""

OUT_SECONDS = 2.0
"""How long a picture may take to fade: of so long the one with the most contrast is kept."""

BLACK_SECONDS = 10.0
"""What is black for longer is no fade: a night after the lamp went out, in which headlights come and go."""

IN_SECONDS = 1.0
"""So long is waited for the next one to come."""


@dataclass(frozen=True, slots=True)
class Fade:
    """What one sample says.

    Attributes:
        lit_at: the frame at which the picture came back from black: what was followed has ended there.
        shot_at: a frame like that, of this sample or an earlier one, which begins another shot.
    """

    lit_at: int | None = None
    shot_at: int | None = None


class FadeFinder:
    """Finds the shots of one video that begin behind black."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._recent: deque[tuple[float, float, NDArray[np.float32]]] = deque()  # seconds, contrast, cells
        self._is_black = False
        self._black_since = 0.0
        self._before: NDArray[np.float32] | None = None  # the picture that went black
        self._lit: tuple[int, float] | None = None  # the frame at which it came back, and seconds

    def shows_black(self, cells: NDArray[np.float32]) -> bool:
        """Whether the last sample or this one is black: what a cut between them says is told here."""
        return self._is_black or float(cells.std()) < self._limit()

    def look(
        self,
        seconds: float,
        cells: NDArray[np.float32],
        frames: Sequence[int],
        grids: Sequence[NDArray[np.int16]],
    ) -> Fade:
        """What a sample says.

        Args:
            seconds, cells: of the sample, as the gate sees it.
            frames, grids: numbers and small pictures of the frames from the last sample to this one.
        """
        contrast = float(cells.std())
        if self._is_black and seconds - self._black_since > BLACK_SECONDS:
            self._forget()
        black = self._black(contrast, grids)
        lit_at = shot_at = None
        if len(black):
            shot_at = self._decided()  # it went black again
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
        """The video is over, or a cut was seen: the frame that began another shot, if that was waited for."""
        found = self._decided()
        self._forget()
        return found

    def _black(self, contrast: float, grids: Sequence[NDArray[np.int16]]) -> NDArray[np.intp]:
        """Which frames since the last sample show nothing; looked for only where the picture fades."""
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
        """Of the latest pictures the one with the most contrast."""
        return max(self._recent, key=lambda one: one[1])[2] if self._recent else None

    def _decided(self) -> int | None:
        """The frame at which the picture came back, if it is another one; it is compared no more."""
        if self._lit is None:
            return None
        (lit_at, _), before, after = self._lit, self._before, self._most()
        self._lit = self._before = None
        if before is None or after is None or before.shape != after.shape:
            return None
        return lit_at if is_cut(after, before, np.abs(after - before)) else None
