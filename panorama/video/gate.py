"""The Y plane of each frame comes in; whether anything changed, and whether a new shot began, goes out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import UsageError
from panorama.video.planes import strided
from panorama.video.ticking import Ticking

SAMPLES_PER_CELL = 4
NOISE_FLOOR = 0.7  # grey levels of a cell's mean; smaller differences are rounding
NOISE_CEILING = 2.0  # grey levels; keeps motion, which is not noise, from raising its own threshold
NOISE_MEMORY = 15
QUIET_STRIDE = 5  # every fifth cell goes into the quartile of noise; odd, so that no column is left out
CELL_NOISE_RATE = 0.1
LIGHT_STEP = 2.0  # grey levels by which the whole picture drifts before it counts as changed
LONE_FACTOR = 2.0  # a cell that changes alone must differ by this much more: compression flickers in one cell

# A cut: most of the picture differs, regardless of brightness, and no shift of its parts explains that.
CUT_MEAN_DIFFERENCE = 5.0
CUT_MAX_CORRELATION = 0.85
CUT_RESIDUAL = 6.0
CUT_RESIDUAL_OF_CONTRAST = 0.35
CUT_SHARE = 0.35
CUT_TILE = 5
CUT_REACH = 6
TILE_DIFFERS = 8.0

# Black bars are alike in all pictures and left out: they are darker than this in both of two.
BAR_LEVEL = 20.0
LEAST_BETWEEN_BARS = 0.2
MOST_BETWEEN_BARS = 0.9  # narrower bars dilute nothing

_REACHED = range(-CUT_REACH, CUT_REACH + 1)
SHIFTS = sorted(((dy, dx) for dy in _REACHED for dx in _REACHED), key=lambda at: at[0] ** 2 + at[1] ** 2)


@dataclass(frozen=True, slots=True)
class GateResult:
    """The comparison of one frame with those before it.

    Attributes:
        changed: whether it shows something that the last changed frame did not show.
        cut: whether a new shot begins with this frame; a cut always is a change, too.
        difference: largest difference in units of the noise, on the scale of the gate's threshold.
    """

    changed: bool
    cut: bool
    difference: float


class ChangeGate:
    """Separates frames that need work from frames that repeat what is known.

    It samples the stored picture by striding and averages the samples into cells, so that noise cancels and a
    small object fills a cell. A frame is compared with the last changed frame, so that slow changes add up,
    and, to find cuts, with the previous one. A clock in the picture that ticks is no change. Changes and cuts
    refer to the frames passed to `update`.

    Args:
        threshold: how many times the noise a cell must differ; a higher value detects less.
        grid: cells along the longer side; an object of a cell's size (16 pixels of 1280) is detected.
    """

    def __init__(self, threshold: float = 6.0, grid: int = 80) -> None:
        if threshold <= 0 or grid < 4:
            raise UsageError(f"a gate needs threshold > 0 and grid >= 4, got {threshold} and {grid}")
        self.threshold = threshold
        self.grid = grid
        self._reference: NDArray[np.float32] | None = None
        self._previous: NDArray[np.float32] | None = None
        self._noise: deque[float] = deque(maxlen=NOISE_MEMORY)
        self._cell_noise: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._ticking = Ticking()

    def update(self, luma: NDArray[np.uint8]) -> GateResult:
        """Compare a frame's (H, W) uint8 luma with the frames before; the first frame is a change.

        A frame of another size is a change and a cut.
        """
        cells = cell_means(luma, self.grid)
        previous, self._previous = self._previous, cells
        if self._reference is None or previous is None or previous.shape != cells.shape:
            first = self._reference is None
            self._reference = cells
            self._cell_noise = np.zeros_like(cells)
            self._ticking = Ticking()
            return GateResult(True, not first, self.threshold)
        step = np.abs(cells - previous)
        cut = is_cut(cells, previous, step)
        if not cut:
            self._learn_noise(step)
        noise = self._noise_of_cells()
        self._ticking.update(step >= self.threshold * noise)
        signed = cells - self._reference
        strength = np.abs(signed) / noise
        drift = abs(float(signed.mean())) * self.threshold / LIGHT_STEP
        clock = self._ticking.place()
        if clock is not None:
            strength[clock] = 0.0
        changed = cut or drift >= self.threshold or lasts(strength, self.threshold)
        if changed:
            self._reference = cells
        elif clock is not None:
            self._reference = self._reference.copy()  # others hold it, too
            self._reference[clock] = cells[clock]
        return GateResult(changed, cut, max(float(strength.max()), drift))

    @property
    def cells(self) -> NDArray[np.float32]:
        """(h, w) mean grey levels of the latest frame; shape (0, 0) before the first."""
        return np.zeros((0, 0), np.float32) if self._previous is None else self._previous

    def _learn_noise(self, step: NDArray[np.float32]) -> None:
        # The quietest quarter of the cells remains usable when much of the picture moves.
        some = step.ravel()[::QUIET_STRIDE]
        quiet = float(np.partition(some, some.size // 4)[some.size // 4]) / 0.3186
        if quiet > 0.0 or float(step.max()) > 0.5:  # a frame shown twice says nothing about noise
            self._noise.append(quiet)
            # Compression flickers in some places only; 1.25 is a standard deviation over a mean difference.
            self._cell_noise += CELL_NOISE_RATE * (1.25 * step - self._cell_noise)

    def _noise_of_cells(self) -> NDArray[np.float32]:
        """(h, w) standard deviations in grey levels."""
        measured = sorted(self._noise)[len(self._noise) // 3] if self._noise else NOISE_FLOOR
        measured = min(measured, NOISE_CEILING)
        noise = np.maximum(self._cell_noise, max(measured, NOISE_FLOOR))
        return np.asarray(np.minimum(noise, NOISE_CEILING), np.float32)


def lasts(strength: NDArray[np.float32], threshold: float) -> bool:
    """Whether some cell of `strength` (h, w) changed: by a lot, or together with a neighbour."""
    strongest = float(strength.max())
    if not threshold <= strongest < LONE_FACTOR * threshold:
        return strongest >= threshold  # the strongest cell decides alone, as in most samples
    over = (strength >= threshold).view(np.uint8)
    neighbours = cv2.filter2D(over, -1, np.ones((3, 3), np.uint8), borderType=cv2.BORDER_CONSTANT)
    return bool((neighbours[over > 0] >= 2).any())


def cell_means(luma: NDArray[np.uint8], grid: int) -> NDArray[np.float32]:
    """(h, w) float32 means of strided samples, about `grid` cells along the longer side of large pictures."""
    samples = strided(luma, grid * SAMPLES_PER_CELL).astype(np.float32)
    height, width = samples.shape
    size = (max(1, width // SAMPLES_PER_CELL), max(1, height // SAMPLES_PER_CELL))
    return np.asarray(cv2.resize(samples, size, interpolation=cv2.INTER_AREA), np.float32)


def is_cut(cells: NDArray[np.float32], previous: NDArray[np.float32], step: NDArray[np.float32]) -> bool:
    """Whether most of the picture was replaced, which neither light nor camera or object motion explains.

    Args:
        cells, previous: (h, w) mean grey levels of two pictures.
        step: (h, w) their absolute difference.
    """
    if float(step.mean()) < CUT_MEAN_DIFFERENCE * LEAST_BETWEEN_BARS:
        return False
    shown = between_bars(np.maximum(cells, previous))
    cells, previous, step = cells[shown], previous[shown], step[shown]
    if float(step.mean()) < CUT_MEAN_DIFFERENCE:
        return False
    spreads = float(cells.std()), float(previous.std())
    covariance = float(((cells - cells.mean()) * (previous - previous.mean())).mean())
    # The same picture, slightly moved or in other light: saves the search for a camera that always moves.
    if covariance > CUT_MAX_CORRELATION * max(spreads[0] * spreads[1], 1.0):
        return False
    contrast = min(spreads)
    gain = np.clip(spreads[0] / max(spreads[1], 1.0), 0.5, 2.0)
    relit = (previous - previous.mean()) * gain + cells.mean()
    least = max(CUT_RESIDUAL, CUT_RESIDUAL_OF_CONTRAST * contrast)
    residual = motion_residual(cells, relit.astype(np.float32), least)
    return float(residual.mean()) >= least and float((residual > TILE_DIFFERS).mean()) >= CUT_SHARE


def between_bars(cells: NDArray[np.float32]) -> tuple[slice, slice]:
    """Rows and columns between black bars, of cells (h, w); all if there are none, or nearly nothing else."""
    lit = cells >= BAR_LEVEL
    rows, columns = np.flatnonzero(lit.any(1)), np.flatnonzero(lit.any(0))
    if not len(rows):
        return np.s_[:, :]
    shown = slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
    share = cells[shown].size / cells.size
    return shown if LEAST_BETWEEN_BARS <= share <= MOST_BETWEEN_BARS else np.s_[:, :]


def motion_residual(
    cells: NDArray[np.float32], previous: NDArray[np.float32], least: float = 0.0
) -> NDArray[np.float32]:
    """Mean absolute difference of each tile of cells to its best match nearby in the previous picture.

    Args:
        least: stop trying shifts, which come from near to far, when the mean over all tiles is below this.
    """
    height, width = cells.shape
    size = (max(1, width // CUT_TILE), max(1, height // CUT_TILE))
    padded = np.pad(previous, CUT_REACH, mode="edge")
    best = np.full(size[::-1], np.inf, np.float32)
    for dy, dx in SHIFTS:
        y, x = CUT_REACH + dy, CUT_REACH + dx
        difference = np.abs(cells - padded[y : y + height, x : x + width])
        tiles = cv2.resize(difference, size, interpolation=cv2.INTER_AREA)
        np.minimum(best, tiles, out=best)
        if float(best.mean()) < least:
            break
    return best
