"""The Y plane of sampled frames enters; boxes around what moves before a fixed camera leave."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import UsageError
from panorama.regions import MOTION, Regions
from panorama.video.planes import scaled

LONG_SIDE = 240
MIN_CONTRAST = 8.0  # gray levels: flicker of compression lies below
CONTRAST_IN_SIGMAS = 4.0
START_VARIANCE = 9.0
VARIANCE_RANGE = (2.0, 225.0)
LEARNING_RATE = 0.05
MIN_AREA_SHARE = 0.0004
MERGE_GAP_SHARE = 0.012
PICTURE_CHANGED_SHARE = 0.6
FULL_CONTRAST = 40.0
FULL_AREA_SHARE = 0.01

# Camera motion shows in tiles all over the picture, on the edges of what stands still.
TILE = 20
TEXTURE = 24.0  # Sobel response
TILE_TEXTURE_SHARE = 0.03
MIN_TEXTURED_TILES = 6
CAMERA_MOVED_SHARE = 0.6

# An object enters and the camera's exposure follows: the rest is the same picture, darker.
LIGHT_INLIER = (25.0, 10.0, 6.0)
MIN_LIGHT_INLIERS = 0.2
GAIN_RANGE = (0.5, 2.0)

GHOST_EDGE_RATIO = 1.5

# Soft shadows and reflections around an object are far weaker than the object itself.
SHADOW_SHARE = 0.2
SHADOW_REACH = 31


class MotionProposer:
    """Proposes what a background model cannot explain.

    A running mean and variance per pixel of a small luma picture; what keeps a new value becomes background
    within `memory` updates. When the camera moves or the light switches, most of the picture's edges change
    at once: then nothing is proposed and the background starts over.

    Args:
        width, height: of the displayed frame, in whose pixels boxes are returned.
        rotation: clockwise degrees from the luma plane to the displayed frame.
        warm_up: updates before the first proposal, also after the camera has moved.
        memory: updates in which a lasting change becomes background.
    """

    def __init__(
        self, width: int, height: int, rotation: int = 0, *, warm_up: int = 4, memory: int = 60
    ) -> None:
        if rotation not in (0, 90, 180, 270):
            raise UsageError(f"rotation is one of 0, 90, 180, 270, got {rotation}")
        if warm_up < 1 or memory < 1:
            raise UsageError(f"warm_up and memory are at least 1, got {warm_up} and {memory}")
        self._displayed = (width, height)
        self._rotation = rotation
        self._warm_up = warm_up
        self._memory = memory
        self.reset()

    def reset(self) -> None:
        """Forget the background: a new shot begins."""
        self._seen = 0
        self._mean = np.zeros((0, 0), np.float32)
        self._variance = np.zeros((0, 0), np.float32)

    def update(self, luma: NDArray[np.uint8]) -> Regions:
        """Regions of motion in a frame's (H, W) uint8 luma, best first; none during warm-up."""
        small = shrink(luma)
        if small.shape != self._mean.shape:
            self._start(small)
            return Regions.empty()
        gain, offset = fit_light(self._mean, small)
        difference: NDArray[np.float32] = small - (gain * self._mean + offset)
        contrast = np.abs(difference)
        foreground = contrast > np.maximum(MIN_CONTRAST, CONTRAST_IN_SIGMAS * np.sqrt(self._variance))
        if float(foreground.mean()) > PICTURE_CHANGED_SHARE or camera_moved(self._mean, contrast):
            self._start(small)
            return Regions.empty()
        self._seen += 1
        self._learn(difference / np.float32(gain), foreground)
        foreground &= contrast > SHADOW_SHARE * cv2.dilate(contrast, np.ones((SHADOW_REACH, SHADOW_REACH)))
        if self._seen <= self._warm_up:
            return Regions.empty()
        return self._regions(small, contrast, foreground)

    def _start(self, small: NDArray[np.float32]) -> None:
        self._mean = small.copy()
        self._variance = np.full_like(small, START_VARIANCE)
        self._seen = 1

    def _learn(self, difference: NDArray[np.float32], foreground: NDArray[np.bool_]) -> None:
        rate = max(LEARNING_RATE, 1 / self._seen)
        self._mean += np.where(foreground, 1 / self._memory, rate) * difference
        spread = np.where(foreground, 0, LEARNING_RATE) * (difference**2 - self._variance)
        self._variance = np.clip(self._variance + spread, *VARIANCE_RANGE)

    def _regions(
        self, small: NDArray[np.float32], contrast: NDArray[np.float32], foreground: NDArray[np.bool_]
    ) -> Regions:
        height, width = foreground.shape
        # A lone pixel is noise; a pixel missing in an object is not a hole.
        mask = cv2.medianBlur(foreground.astype(np.uint8), 3)
        gap = max(3, round(MERGE_GAP_SHARE * max(height, width)) * 2 + 1)
        joined = cv2.dilate(mask, np.ones((gap, gap), np.uint8))
        count, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
        if count == 1:  # the ground alone
            return Regions.empty()
        edges_now, edges_before = edge_strength(small), edge_strength(self._mean)
        boxes: list[tuple[int, int, int, int]] = []
        scores: list[float] = []
        for label in range(1, count):
            x, y, w, h = (int(v) for v in stats[label, :4])
            window = np.s_[y : y + h, x : x + w]
            part = ((labels[window] == label) & (mask[window] > 0)).astype(np.uint8)
            area = int(part.sum())
            if area < MIN_AREA_SHARE * height * width:
                continue
            outline = cv2.morphologyEx(part, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
            if edges_before[window][outline].sum() > GHOST_EDGE_RATIO * edges_now[window][outline].sum():
                # The outline lies in the background, not in the frame: what stood there has left.
                self._mean[window][part > 0] = small[window][part > 0]
                continue
            bx, by, bw, bh = cv2.boundingRect(part)
            boxes.append((x + bx, y + by, x + bx + bw, y + by + bh))
            strength = min(1.0, float(contrast[window][part > 0].mean()) / FULL_CONTRAST)
            extent = min(1.0, area / (FULL_AREA_SHARE * height * width))
            scores.append(0.5 * strength + 0.3 * area / (bw * bh) + 0.2 * extent)
        if not boxes:
            return Regions.empty()
        order = np.argsort(-np.array(scores), kind="stable")
        shown = self._to_display(np.array(boxes, np.float32), width, height)
        return Regions.of(shown, np.array(scores, np.float32), MOTION)[order]

    def _to_display(self, boxes: NDArray[np.float32], width: int, height: int) -> NDArray[np.float32]:
        """Boxes in the small picture (width x height, as decoded) to pixels of the displayed frame."""
        x1, y1, x2, y2 = (boxes / np.array([width, height] * 2, np.float32)).T
        if self._rotation == 90:
            x1, y1, x2, y2 = 1 - y2, x1, 1 - y1, x2
        elif self._rotation == 180:
            x1, y1, x2, y2 = 1 - x2, 1 - y2, 1 - x1, 1 - y1
        elif self._rotation == 270:
            x1, y1, x2, y2 = y1, 1 - x2, y2, 1 - x1
        turned = np.stack([x1, y1, x2, y2], axis=1)
        return turned * np.array(self._displayed * 2, np.float32)


def shrink(luma: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(h, w) float32 with LONG_SIDE samples along the longer side, sampled by striding, then averaged."""
    step = max(1, max(luma.shape) // (2 * LONG_SIDE))
    samples = np.ascontiguousarray(luma[step // 2 :: step, step // 2 :: step])
    factor = min(1.0, LONG_SIDE / max(samples.shape))
    size = (max(1, round(samples.shape[1] * factor)), max(1, round(samples.shape[0] * factor)))
    small = scaled(samples, *size)
    return np.asarray(cv2.GaussianBlur(small, (3, 3), 0), np.float32)


def fit_light(background: NDArray[np.float32], small: NDArray[np.float32]) -> tuple[float, float]:
    """Gain and offset that best explain a frame as the background in another light, objects left out."""
    # A quarter of the pixels tells a light as well as all.
    background, small = background[::2, ::2].copy(), small[::2, ::2].copy()
    gain, offset = 1.0, float(np.median(small - background))
    for limit in LIGHT_INLIER:
        same = np.abs(small - (gain * background + offset)) < limit
        if float(same.mean()) < MIN_LIGHT_INLIERS:
            break
        before, now = background[same], small[same]
        spread = float(before.var())
        if spread < 1.0:
            offset = float(now.mean()) - gain * float(before.mean())
            continue
        slope = float(((before - before.mean()) * (now - now.mean())).mean()) / spread
        gain = float(np.clip(slope, *GAIN_RANGE))
        offset = float(now.mean()) - gain * float(before.mean())
    return gain, offset


def edge_strength(small: NDArray[np.float32]) -> NDArray[np.float32]:
    """(h, w) float32 sum of absolute Sobel responses."""
    across, down = cv2.Sobel(small, cv2.CV_32F, 1, 0), cv2.Sobel(small, cv2.CV_32F, 0, 1)
    return np.asarray(np.abs(across) + np.abs(down), np.float32)


def camera_moved(background: NDArray[np.float32], contrast: NDArray[np.float32]) -> bool:
    """Whether the background's edges changed in most of the tiles that have any."""
    textured = (edge_strength(background) > TEXTURE).astype(np.float32)
    changed = textured * (contrast > MIN_CONTRAST)
    size = (max(1, background.shape[1] // TILE), max(1, background.shape[0] // TILE))
    texture_share = cv2.resize(textured, size, interpolation=cv2.INTER_AREA)
    changed_share = cv2.resize(changed, size, interpolation=cv2.INTER_AREA)
    tiles = texture_share > TILE_TEXTURE_SHARE
    if int(tiles.sum()) < MIN_TEXTURED_TILES:
        return False
    return float((changed_share[tiles] > 0.4 * texture_share[tiles]).mean()) > CAMERA_MOVED_SHARE
