"""Views of a track come in as it is followed; the few worth keeping go out. Also encodes pictures as JPEG."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage
from panorama.pictures.pixels import laid_flat, read_pixels
from panorama.video import scaled

MAX_SIDE = 256
"""Longest side of a stored crop in pixels: twice what the embedder reads, as a better model needs detail."""

JPEG_QUALITY = 90

LOOK_GRID = 24
LOOK_DIM = 64
LOOKS_AT_ONCE = 1024
"""Regions sampled together: OpenCV's maps must have fewer than 32,768 rows."""


def shrunk(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A copy of an RGB picture (H, W, 3) whose longest side is at most MAX_SIDE."""
    height, width = rgb.shape[:2]
    factor = MAX_SIDE / max(height, width)
    if factor >= 1:
        return rgb.copy()
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def encode_jpeg(rgb: NDArray[np.uint8]) -> bytes:
    """A JPEG of an RGB picture (H, W, 3), shrunk so that its longest side is at most MAX_SIDE."""
    small = shrunk(rgb) if max(rgb.shape[:2]) > MAX_SIDE else rgb
    bgr = cv2.cvtColor(small, cv2.COLOR_RGB2BGR)  # a copy by negative strides takes as long as encoding
    done, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise BadImage(f"a picture of {rgb.shape[1]}x{rgb.shape[0]} pixels could not be written as JPEG")
    return bytes(data)


def decode_picture(data: bytes, name: str = "picture") -> NDArray[np.uint8]:
    """Decode JPEG, PNG, WebP, ... bytes to upright RGB (H, W, 3); transparency is laid over mid-grey.

    Raises:
        BadImage: no bytes, damaged, too large, or not a picture (see `read_pixels`).
    """
    return laid_flat(read_pixels(data, name))


def cut(rgb: NDArray[np.uint8], box_xyxy: NDArray[np.floating]) -> NDArray[np.uint8]:
    """The part of a picture inside a box, at least one pixel in each direction."""
    x1, y1, x2, y2 = whole_boxes(np.reshape(box_xyxy, (1, 4)), rgb.shape[1], rgb.shape[0])[0]
    return rgb[y1:y2, x1:x2]


def whole_boxes(boxes_xyxy: NDArray[np.floating], width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Boxes (N, 4) in whole pixels inside a picture, at least one pixel in each direction."""
    size = np.array([width, height])
    starts = np.minimum(np.maximum(np.floor(boxes_xyxy[:, :2]), 0), size - 1)
    stops = np.minimum(np.maximum(np.ceil(boxes_xyxy[:, 2:]), starts + 1), size)
    whole = np.concatenate([starts, stops], axis=1).astype(np.int64)
    return [(x1, y1, x2, y2) for x1, y1, x2, y2 in whole.tolist()]


def view_quality(luma: NDArray[np.uint8], touches_edge: bool, objectness: float) -> float:
    """How good a view is: large, sharp, whole and certain is best; comparable within one track only.

    Args:
        luma: (h, w) brightness inside the box.
    """
    height, width = luma.shape
    small = scaled(luma, 48, 48)
    sharpness = float(cv2.meanStdDev(cv2.Laplacian(small, cv2.CV_16S))[1][0, 0])
    size = math.sqrt(height * width)
    return float(
        math.log1p(size) * (1 + sharpness / 20) * (0.5 + objectness) * (0.5 if touches_edge else 1.0)
    )


def appearances(rgb: NDArray[np.uint8], boxes_xyxy: NDArray[np.floating]) -> NDArray[np.float32]:
    """Cheap unit vectors (N, 64) of the appearance of regions, for linking them a moment later.

    They count the colours of 24 x 24 samples, separately in the upper and lower half. The bins are coarse on
    purpose: neighbouring pictures differ in pose and blur, hardly in colour.

    Args:
        rgb: (H, W, 3).
        boxes_xyxy: (N, 4) in its pixels.
    """
    if not len(boxes_xyxy):
        return np.zeros((0, LOOK_DIM), np.float32)
    # Average once for all regions, so that a sample represents the pixels around it.
    averaged = np.asarray(cv2.blur(rgb, (3, 3)), np.uint8)
    vectors = [
        _colour_counts(_sampled(averaged, boxes_xyxy[start : start + LOOKS_AT_ONCE]))
        for start in range(0, len(boxes_xyxy), LOOKS_AT_ONCE)
    ]
    return np.concatenate(vectors)


def _sampled(rgb: NDArray[np.uint8], boxes_xyxy: NDArray[np.floating]) -> NDArray[np.uint8]:
    """(N * 24, 24, 3): a grid of samples in each box, one box below the other."""
    count = len(boxes_xyxy)
    limits = np.array([rgb.shape[1], rgb.shape[0]], np.float32) - 1
    start, stop = boxes_xyxy[:, :2].astype(np.float32), boxes_xyxy[:, 2:].astype(np.float32)
    steps = (np.arange(LOOK_GRID, dtype=np.float32) + 0.5) / LOOK_GRID  # (24,)
    places = start[:, :, None] + (stop - start)[:, :, None] * steps - 0.5  # (N, 2, 24)
    places = np.clip(places, 0, limits[:, None])
    across = np.repeat(places[:, 0], LOOK_GRID, axis=0)  # (N * 24, 24)
    down = np.broadcast_to(places[:, 1].reshape(-1, 1), (count * LOOK_GRID, LOOK_GRID))
    return np.asarray(cv2.remap(rgb, across, np.ascontiguousarray(down), cv2.INTER_LINEAR), np.uint8)


def _colour_counts(samples: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(N, 64) unit vectors: square roots of the colour counts in both halves of (N * 24, 24, 3) samples."""
    # Split into planes: numpy is several times slower on every third byte.
    planes = cv2.split(cv2.cvtColor(samples, cv2.COLOR_RGB2HSV))
    hue, saturation, value = (np.asarray(plane, np.uint8) for plane in planes)
    # Hue means nothing without colour: greys are counted by brightness, colours by hue and brightness.
    grey = value >> 5  # 0..7
    coloured = np.uint8(8) + (hue // np.uint8(15) << 1) + (value >> 7)  # 8..31
    code = np.where(saturation < 48, grey, coloured).reshape(-1, LOOK_GRID**2 // 2)  # (2 N, 288)
    places = code + 32 * np.arange(len(code))[:, None]
    counts = np.bincount(places.ravel(), minlength=32 * len(code))
    roots = np.sqrt(counts.astype(np.float32)).reshape(-1, LOOK_DIM)
    return np.asarray(roots / np.float32(LOOK_GRID), np.float32)


@dataclass(slots=True, eq=False)
class View:
    """One view of a track: where and when, how good, and its small picture (H, W, 3).

    Args:
        make: returns the picture. It is called at most once and then dropped, with all that it references.
    """

    frame: int
    time_seconds: float
    box_xyxy: NDArray[np.float32]
    quality: float
    make: Callable[[], NDArray[np.uint8]] | None
    _picture: NDArray[np.uint8] | None = None

    @property
    def picture(self) -> NDArray[np.uint8]:
        """The picture, made on first access."""
        if self._picture is None:
            assert self.make is not None
            self._picture, self.make = self.make(), None
        return self._picture

    def develop(self) -> View:
        """Make the picture now; returns the view itself."""
        _ = self.picture  # not in an assert: python -O would leave it unmade
        return self


@dataclass(slots=True)
class ViewKeeper:
    """Keeps the best view of each stretch of a track's life, in bounded memory however long the track is.

    Time is cut into stretches, each of which keeps its best view. When more than twice as many stretches as
    wanted views are in use, the length of a stretch doubles and neighbours merge. So a person who walks by
    and a car that is parked for hours both end with a few views spread over their whole stay.
    """

    wanted: int = 4
    stretch_seconds: float = 0.5
    _started_seconds: float | None = None
    _best: dict[int, View] = field(default_factory=dict)

    def wants(self, time_seconds: float, quality: float) -> bool:
        """Whether a view of that quality would be kept."""
        if self._started_seconds is None:
            return True
        known = self._best.get(self._slot(time_seconds))
        return known is None or quality > known.quality

    def offer(self, view: View) -> None:
        """Keep a view if it is the best of its stretch."""
        if self._started_seconds is None:
            self._started_seconds = view.time_seconds
        slot = self._slot(view.time_seconds)
        known = self._best.get(slot)
        if known is None or view.quality > known.quality:
            self._best[slot] = view
        if len(self._best) > 2 * self.wanted:
            self._merge_stretches()

    def keeps(self, view: View) -> bool:
        """Whether a view that was offered is still among the best."""
        return any(kept is view for kept in self._best.values())

    def best(self) -> list[View]:
        """At most `wanted` views in order of time, each the best of a group of consecutive views."""
        views = [self._best[slot] for slot in sorted(self._best)]
        if len(views) <= self.wanted:
            return views
        parts = np.array_split(np.arange(len(views)), self.wanted)
        return [max((views[i] for i in part), key=lambda v: v.quality) for part in parts]

    def _slot(self, time_seconds: float) -> int:
        return int((time_seconds - (self._started_seconds or 0.0)) / self.stretch_seconds)

    def _merge_stretches(self) -> None:
        self.stretch_seconds *= 2
        merged: dict[int, View] = {}
        for view in self._best.values():
            slot = self._slot(view.time_seconds)
            if slot not in merged or view.quality > merged[slot].quality:
                merged[slot] = view
        self._best = merged
