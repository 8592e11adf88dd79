"""The Y plane of sampled frames comes in; boxes around what moves in front of a fixed camera go out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import UsageError
from panorama.regions import MOTION, Regions
from panorama.video.planes import scaled, strided

LONG_SIDE = 240
MIN_CONTRAST = 8.0  # grey levels; flicker of compression is weaker
CONTRAST_IN_SIGMAS = 4.0
START_VARIANCE = 9.0
VARIANCE_RANGE = (2.0, 225.0)
LEARNING_RATE = 0.05
MIN_AREA_SHARE = 0.0004
MERGE_GAP_SHARE = 0.012
PICTURE_CHANGED_SHARE = 0.6
FULL_CONTRAST = 40.0
FULL_AREA_SHARE = 0.01

# Camera motion changes the edges of the background, in tiles all over the picture.
TILE = 20
TEXTURE = 24.0  # Sobel response
TILE_TEXTURE_SHARE = 0.03
TILE_MOVED_SHARE = 0.4  # of its edges
MIN_TEXTURED_TILES = 6
CAMERA_MOVED_SHARE = 0.6
TEXTURE_UPDATES = 5

# When an object enters, the camera's exposure adapts: the rest is the same picture, darker.
LIGHT_INLIER = (25.0, 10.0, 6.0)
MIN_LIGHT_INLIERS = 0.2
GAIN_RANGE = (0.5, 2.0)

MID_GREY = np.float32(128)

GHOST_EDGE_RATIO = 1.5

# What pauses becomes background, and where it leaves, the ground behind it differs from that. A second
# background, which follows so much more slowly, still knows the ground.
SETTLED_MEMORIES = 60
SETTLED_UPDATES = 4

# Soft shadows and reflections around an object are far weaker than the object itself.
SHADOW_SHARE = 0.2
SHADOW_REACH = 31


class MotionProposer:
    """Proposes regions that a background model cannot explain.

    The model is a running mean and variance of each pixel of a small luma picture. A pixel that keeps a new
    value becomes background within about `memory` updates. When the camera moves or a light is switched, most
    edges of the picture change at once: then nothing is proposed and the background starts over.

    Args:
        width, height: size of the displayed frame; boxes are in its pixels.
        rotation: clockwise degrees from the luma plane to the displayed frame.
        mirrored: whether the rotated picture is also mirrored left to right.
        warm_up: updates before the first proposal, also after the camera has moved.
        memory: updates until a lasting change becomes background.

    Raises:
        UsageError: an argument is out of range.
    """

    def __init__(
        self,
        width: int,
        height: int,
        rotation: int = 0,
        mirrored: bool = False,
        *,
        warm_up: int = 4,
        memory: int = 60,
    ) -> None:
        if rotation not in (0, 90, 180, 270):
            raise UsageError(f"rotation is one of 0, 90, 180, 270, got {rotation}")
        if warm_up < 1 or memory < 1:
            raise UsageError(f"warm_up and memory are at least 1, got {warm_up} and {memory}")
        self._displayed = (width, height)
        self._rotation = rotation
        self._mirrored = mirrored
        self._warm_up = warm_up
        self._memory = memory
        self.reset()

    def reset(self) -> None:
        """Forget the background, because a new shot begins."""
        self._seen = 0
        self._mean = np.zeros((0, 0), np.float32)
        self._settled = np.zeros((0, 0), np.float32)
        self._variance = np.zeros((0, 0), np.float32)
        self._texture = Texture(self._mean)

    def update(self, luma: NDArray[np.uint8]) -> Regions:
        """Regions of motion in a frame's (H, W) uint8 luma, best first; none during warm-up."""
        small = shrink(luma)
        if small.shape != self._mean.shape:
            self._start(small)
            return Regions.empty()
        gain, offset = fit_light(self._mean, small)
        # The frame as it would look in the light of the background.
        relit = (small - np.float32(offset)) / np.float32(gain)
        difference = relit - self._mean
        contrast = np.abs(difference) * np.float32(gain)
        least = np.maximum(MIN_CONTRAST**2, CONTRAST_IN_SIGMAS**2 * self._variance)
        foreground = (contrast * contrast > least).view(np.uint8)
        uncovered = self._uncovered(relit, foreground, least / np.float32(gain * gain))
        if uncovered is not None:
            self._mean[uncovered] = relit[uncovered]
            difference[uncovered] = contrast[uncovered] = 0.0
            foreground[uncovered] = 0
        share = cv2.countNonZero(foreground) / foreground.size
        if share > PICTURE_CHANGED_SHARE or self._texture.camera_moved(contrast):
            self._start(small)
            return Regions.empty()
        self._seen += 1
        self._learn(relit, difference, foreground)
        if self._seen <= self._warm_up:
            return Regions.empty()
        return self._regions(small, contrast, foreground)

    def _start(self, small: NDArray[np.float32]) -> None:
        self._mean = small.copy()
        self._settled = small.copy()
        self._variance = np.full_like(small, START_VARIANCE)
        self._texture = Texture(self._mean)
        self._seen = 1

    def _uncovered(
        self, relit: NDArray[np.float32], foreground: NDArray[np.uint8], least: NDArray[np.float32]
    ) -> NDArray[np.bool_] | None:
        """The foreground (h, w) that is ground again, since what paused there has left; None if none is.

        Args:
            least: (h, w) squared difference from which on a pixel is another one.
        """
        follows = self._seen % SETTLED_UPDATES == 0
        if not follows and not cv2.countNonZero(foreground):
            return None
        far = relit - self._settled
        known = (far * far <= least).view(np.uint8)
        if follows:
            cv2.accumulateWeighted(relit, self._settled, SETTLED_UPDATES * LEARNING_RATE, known)
            slowly = SETTLED_UPDATES / (SETTLED_MEMORIES * self._memory)
            cv2.accumulateWeighted(relit, self._settled, slowly, 1 - known)
        uncovered = foreground & known
        return uncovered > 0 if cv2.countNonZero(uncovered) else None

    def _learn(
        self, relit: NDArray[np.float32], difference: NDArray[np.float32], foreground: NDArray[np.uint8]
    ) -> None:
        still = (foreground == 0).view(np.uint8)
        cv2.accumulateWeighted(relit, self._mean, max(LEARNING_RATE, 1 / self._seen), still)
        cv2.accumulateWeighted(relit, self._mean, 1 / self._memory, foreground)
        cv2.accumulateWeighted(difference * difference, self._variance, LEARNING_RATE, still)
        np.clip(self._variance, *VARIANCE_RANGE, out=self._variance)
        self._texture.follow(self._mean)

    def _regions(
        self, small: NDArray[np.float32], contrast: NDArray[np.float32], foreground: NDArray[np.uint8]
    ) -> Regions:
        height, width = foreground.shape
        # A lone pixel is noise; a pixel missing in an object is not a hole.
        if not cv2.countNonZero(cv2.medianBlur(foreground, 3)):
            return Regions.empty()  # removing shadows can only leave less
        strongest = cv2.dilate(cv2.convertScaleAbs(contrast), np.ones((SHADOW_REACH, SHADOW_REACH)))
        lit = contrast > np.float32(SHADOW_SHARE) * strongest
        mask = np.asarray(cv2.medianBlur(foreground & lit, 3), np.uint8)
        boxes: list[tuple[int, int, int, int]] = []
        scores: list[float] = []
        for (x, y, w, h), area, part in components(mask, MIN_AREA_SHARE * height * width):
            window = np.s_[y : y + h, x : x + w]
            outline = cv2.morphologyEx(part, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
            edges_before, edges_now, *_ = cv2.mean(edges_in(self._mean, small, window), outline)
            if edges_before > GHOST_EDGE_RATIO * edges_now:
                # The outline is in the background, not in the frame: what stood there has left.
                self._mean[window][part > 0] = small[window][part > 0]
                continue
            bx, by, bw, bh = cv2.boundingRect(part)
            boxes.append((x + bx, y + by, x + bx + bw, y + by + bh))
            strength = min(1.0, cv2.mean(contrast[window], part)[0] / FULL_CONTRAST)
            extent = min(1.0, area / (FULL_AREA_SHARE * height * width))
            scores.append(0.5 * strength + 0.3 * area / (bw * bh) + 0.2 * extent)
        if not boxes:
            return Regions.empty()
        order = np.argsort(-np.array(scores), kind="stable")
        shown = self._to_display(np.array(boxes, np.float32), width, height)
        return Regions.of(shown, np.array(scores, np.float32), MOTION)[order]

    def _to_display(self, boxes: NDArray[np.float32], width: int, height: int) -> NDArray[np.float32]:
        """Convert boxes in the small picture (width x height, as stored) to pixels of the displayed frame."""
        x1, y1, x2, y2 = (boxes / np.array([width, height] * 2, np.float32)).T
        if self._rotation == 90:
            x1, y1, x2, y2 = 1 - y2, x1, 1 - y1, x2
        elif self._rotation == 180:
            x1, y1, x2, y2 = 1 - x2, 1 - y2, 1 - x1, 1 - y1
        elif self._rotation == 270:
            x1, y1, x2, y2 = y1, 1 - x2, y2, 1 - x1
        if self._mirrored:
            x1, x2 = 1 - x2, 1 - x1
        turned = np.stack([x1, y1, x2, y2], axis=1)
        return turned * np.array(self._displayed * 2, np.float32)


def shrink(luma: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(h, w) float32 luma, at most LONG_SIDE pixels long: sampled by striding, then averaged and blurred."""
    samples = strided(luma, 2 * LONG_SIDE)
    factor = min(1.0, LONG_SIDE / max(samples.shape))
    small = scaled(
        samples, max(1, round(samples.shape[1] * factor)), max(1, round(samples.shape[0] * factor))
    )
    return np.asarray(cv2.GaussianBlur(small, (3, 3), 0), np.float32)


def fit_light(background: NDArray[np.float32], small: NDArray[np.float32]) -> tuple[float, float]:
    """Gain and offset that best explain a frame as the background in other light, ignoring objects."""
    # A ninth of the pixels is enough. Centred on mid-grey, sums in float32 are precise enough.
    before = background[::3, ::3].ravel() - MID_GREY
    now = small[::3, ::3].ravel() - MID_GREY
    gain, offset = 1.0, _median(now[::2] - before[::2])
    products = np.array([np.ones_like(now), before, now, before * before, before * now])  # (5, P)
    for limit in LIGHT_INLIER:
        same = np.abs(now - (gain * before + offset)) < limit
        sums: list[float] = (products @ same.astype(np.float32)).tolist()
        count = sums[0]
        if count < MIN_LIGHT_INLIERS * len(same):
            break
        mean_before, mean_now, square, cross = (value / count for value in sums[1:])
        spread = square - mean_before**2
        if spread >= 1.0:
            slope = (cross - mean_before * mean_now) / spread
            gain = min(max(slope, GAIN_RANGE[0]), GAIN_RANGE[1])
        offset = mean_now - gain * mean_before
    return gain, offset + float(MID_GREY) * (1 - gain)


def _median(values: NDArray[np.float32]) -> float:
    """The median; numpy's own spends most of its time on handling axes."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    lower, upper = np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1]
    return float((lower + upper) / np.float32(2))


def components(
    mask: NDArray[np.uint8], least: float
) -> Iterator[tuple[tuple[int, int, int, int], int, NDArray[np.uint8]]]:
    """Connected parts of a mask (h, w), joined over small gaps.

    Args:
        least: fewest pixels of the mask in a part.

    Yields:
        the window of a part as x, y, width, height; its number of pixels; the part's mask in the window.
    """
    gap = max(3, round(MERGE_GAP_SHARE * max(mask.shape)) * 2 + 1)
    joined = np.asarray(cv2.dilate(mask, np.ones((gap, gap), np.uint8)), np.uint8)
    # Most of a picture stands still, so search only where anything moves.
    left, top, width, height = cv2.boundingRect(joined)
    moving = joined[top : top + height, left : left + width]
    if cv2.countNonZero(moving) < least:
        return
    count, labels = cv2.connectedComponents(moving, ltype=cv2.CV_16U)
    for label in range(1, count):
        own = (np.asarray(labels) == label).view(np.uint8)
        x, y, w, h = cv2.boundingRect(own)
        part = own[y : y + h, x : x + w] & mask[top + y : top + y + h, left + x : left + x + w]
        area = cv2.countNonZero(part)
        if area >= least:
            yield (left + x, top + y, w, h), area, part


def edge_strength(small: NDArray[np.float32]) -> NDArray[np.float32]:
    """(h, w) or (h, w, C) float32 sum of absolute Sobel responses."""
    across, down = cv2.Sobel(small, cv2.CV_32F, 1, 0), cv2.Sobel(small, cv2.CV_32F, 0, 1)
    return np.asarray(np.abs(across) + np.abs(down), np.float32)


def edges_in(
    before: NDArray[np.float32], now: NDArray[np.float32], window: tuple[slice, slice]
) -> NDArray[np.float32]:
    """(h, w, 2) `edge_strength` of two pictures in a window, computed with the pixels around it."""
    y, x = window
    top, left = min(y.start, 1), min(x.start, 1)
    wider = np.s_[y.start - top : y.stop + 1, x.start - left : x.stop + 1]
    both = edge_strength(np.asarray(cv2.merge([before[wider], now[wider]]), np.float32))
    return both[top : top + y.stop - y.start, left : left + x.stop - x.start]


class Texture:
    """The edges of a background, which distinguish a moving camera from moving things.

    A background changes slowly, so its edges are computed only every TEXTURE_UPDATES updates.
    """

    def __init__(self, background: NDArray[np.float32]) -> None:
        self._age = 0
        self._least_pixels = 0.0
        if background.size:
            self._look(background)

    def follow(self, background: NDArray[np.float32]) -> None:
        """Note an update of the background; every few, compute its edges again."""
        self._age += 1
        if self._age >= TEXTURE_UPDATES:
            self._look(background)

    def camera_moved(self, contrast: NDArray[np.float32]) -> bool:
        """Whether the background's edges changed in most of the tiles that have any."""
        if not self._least_pixels:
            return False
        changed = self._edges & (contrast > MIN_CONTRAST).view(np.uint8)
        if cv2.countNonZero(changed) <= self._least_pixels:
            return False  # saves counting tiles while the camera stands still
        moved = _tile_shares(changed)[self._tiles] > TILE_MOVED_SHARE * self._shares
        return int(np.count_nonzero(moved)) > CAMERA_MOVED_SHARE * len(self._shares)

    def _look(self, background: NDArray[np.float32]) -> None:
        self._age = 0
        self._edges = (edge_strength(background) > TEXTURE).view(np.uint8)
        shares = _tile_shares(self._edges)
        self._tiles = shares > TILE_TEXTURE_SHARE
        self._shares = np.sort(shares[self._tiles])
        self._least_pixels = 0.0
        if len(self._shares) >= MIN_TEXTURED_TILES:
            # The fewest changed pixels with which the camera can have moved: as few tiles as are needed,
            # those with the fewest edges, each changed by just enough.
            needed = self._shares[: int(CAMERA_MOVED_SHARE * len(self._shares)) + 1]
            self._least_pixels = TILE_MOVED_SHARE * float(needed.sum()) * TILE**2
        self._shares = shares[self._tiles]


def _tile_shares(mask: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Mean of a mask of zeros and ones in each tile of about TILE x TILE pixels."""
    corners, pixels = _tiles(*mask.shape)
    sums = cv2.integral(mask)[corners]
    rows = sums[1:] - sums[:-1]
    return ((rows[:, 1:] - rows[:, :-1]) / pixels).astype(np.float32)


@lru_cache(maxsize=8)
def _tiles(height: int, width: int) -> tuple[Any, NDArray[np.intp]]:
    """Index of the tiles' corners in an integral image, and the number of pixels in each tile."""
    rows = np.linspace(0, height, max(1, height // TILE) + 1).astype(np.intp)
    columns = np.linspace(0, width, max(1, width // TILE) + 1).astype(np.intp)
    return np.ix_(rows, columns), np.outer(np.diff(rows), np.diff(columns))
