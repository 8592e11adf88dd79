"""Views of a track enter as it is followed; the few worth keeping leave; and pictures as bytes and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage

MAX_SIDE = 256
"""Longest side of a stored crop in pixels: twice what the embedder reads, so a better one finds detail."""

JPEG_QUALITY = 90


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
    done, data = cv2.imencode(".jpg", small[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise BadImage(f"a picture of {rgb.shape[1]}x{rgb.shape[0]} pixels could not be written as JPEG")
    return bytes(data)


def decode_picture(data: bytes, name: str = "picture") -> NDArray[np.uint8]:
    """The RGB picture (H, W, 3) in JPEG, PNG, WebP, ... bytes; transparency is laid over mid-grey.

    Raises:
        BadImage: no bytes, or not a picture that OpenCV reads.
    """
    if not data:
        raise BadImage(f"{name} is empty (0 bytes)")
    # A JPEG may say which way up it was taken; OpenCV follows that only where it may change the channels.
    how = cv2.IMREAD_COLOR if data[:2] == b"\xff\xd8" else cv2.IMREAD_UNCHANGED
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    if picture is None:
        raise BadImage(f"{name} is not a picture: expected JPEG, PNG, WebP, BMP, TIFF or GIF")
    if picture.dtype != np.uint8:
        picture = cv2.normalize(picture, np.empty(0), 0, 255, cv2.NORM_MINMAX, cv2.CV_8U)
    if picture.ndim == 2:
        return cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB).astype(np.uint8)
    if picture.shape[2] == 4:
        alpha = picture[:, :, 3:].astype(np.float32) / 255
        picture = (picture[:, :, :3] * alpha + 128 * (1 - alpha)).astype(np.uint8)
    return np.ascontiguousarray(picture[:, :, ::-1])


def cut(rgb: NDArray[np.uint8], box_xyxy: NDArray[np.floating]) -> NDArray[np.uint8]:
    """The part of a picture inside a box, at least one pixel in each direction."""
    x1, y1, x2, y2 = whole_box(box_xyxy, rgb.shape[1], rgb.shape[0])
    return rgb[y1:y2, x1:x2]


def whole_box(box_xyxy: NDArray[np.floating], width: int, height: int) -> tuple[int, int, int, int]:
    """A box in whole pixels inside a picture, at least one pixel in each direction."""
    x1 = int(np.clip(np.floor(box_xyxy[0]), 0, width - 1))
    y1 = int(np.clip(np.floor(box_xyxy[1]), 0, height - 1))
    x2 = int(np.clip(np.ceil(box_xyxy[2]), x1 + 1, width))
    y2 = int(np.clip(np.ceil(box_xyxy[3]), y1 + 1, height))
    return x1, y1, x2, y2


def view_quality(luma: NDArray[np.uint8], touches_edge: bool, objectness: float) -> float:
    """How much a view shows: larger, sharper, whole and surer is better; comparable within one track only.

    Args:
        luma: (h, w) brightness inside the box.
    """
    height, width = luma.shape
    small = cv2.resize(luma, (48, 48), interpolation=cv2.INTER_AREA)
    sharpness = float(cv2.meanStdDev(cv2.Laplacian(small, cv2.CV_16S))[1][0, 0])
    size = math.sqrt(height * width)
    return float(
        math.log1p(size) * (1 + sharpness / 20) * (0.5 + objectness) * (0.5 if touches_edge else 1.0)
    )


def appearance(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A cheap unit vector (64,) of how a region looks, for linking it to itself a moment later.

    Colour counts of both halves, coarse on purpose: neighbouring samples differ in pose and blur,
    hardly in colour.
    """
    small = cv2.resize(rgb, (24, 24), interpolation=cv2.INTER_AREA)
    hue, saturation, value = cv2.split(cv2.cvtColor(small, cv2.COLOR_RGB2HSV))
    # Hue means nothing without colour: greys are counted by brightness, colours by hue and brightness.
    grey = value // 32  # 0..7
    coloured = 8 + (hue // 15) * 2 + value // 128  # 8..31
    code = np.where(saturation < 48, grey, coloured).astype(np.intp)  # (24, 24)
    halves = [np.bincount(half.ravel(), minlength=32) for half in (code[:12], code[12:])]
    vector = np.sqrt(np.concatenate(halves).astype(np.float32))  # (64,)
    return (vector / np.float32(24)).astype(np.float32)


@dataclass(slots=True, eq=False)
class View:
    """One view of a track: where and when, how good, and the picture (H, W, 3), already small.

    Args:
        make: returns the picture. It is called at most once, and let go of then with all that it holds.
    """

    frame: int
    time_seconds: float
    box_xyxy: NDArray[np.float32]
    quality: float
    make: Callable[[], NDArray[np.uint8]] | None
    _picture: NDArray[np.uint8] | None = None

    @property
    def picture(self) -> NDArray[np.uint8]:
        """The picture, made when it is first asked for."""
        if self._picture is None:
            assert self.make is not None, "a view that was dropped has no picture"
            self._picture, self.make = self.make(), None
        return self._picture

    def develop(self) -> View:
        """Make the picture now. Itself."""
        assert self.picture is not None
        return self

    def drop(self) -> None:
        """Let go of what the picture would be made of."""
        self.make = None


@dataclass(slots=True)
class ViewKeeper:
    """Keeps the best view of each stretch of a track's life, in bounded memory whatever the length.

    Time is cut into stretches; each keeps its best view. When there are more than twice as many stretches as
    views wanted, neighbours are merged and the stretch doubles: a person who walks by and a parked car that
    stays for hours both end with a few views spread over their whole stay.
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
        """At most `wanted` views in order of time, the best of as many equal parts of the track's life."""
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
