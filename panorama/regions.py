"""Boxes that may contain an entity: proposers return them, trackers consume them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadBox

DETECTOR = 0
MOTION = 1


@dataclass(frozen=True, slots=True)
class Regions:
    """Class-agnostic boxes of one frame, as a struct of arrays.

    Attributes:
        boxes_xyxy: (N, 4) float32, pixels of the displayed frame, half-open: x in [x1, x2).
        scores: (N,) float32 objectness in [0, 1].
        sources: (N,) uint8, DETECTOR or MOTION.
    """

    boxes_xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    sources: NDArray[np.uint8]

    def __post_init__(self) -> None:
        n = len(self.boxes_xyxy)
        if self.boxes_xyxy.shape != (n, 4):
            raise ValueError(f"boxes_xyxy is (N, 4), got {self.boxes_xyxy.shape}")
        if self.scores.shape != (n,) or self.sources.shape != (n,):
            raise ValueError(f"{n} boxes, but scores {self.scores.shape} and sources {self.sources.shape}")

    def __len__(self) -> int:
        return len(self.boxes_xyxy)

    def __getitem__(self, pick: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Regions:
        return Regions(self.boxes_xyxy[pick], self.scores[pick], self.sources[pick])

    @classmethod
    def empty(cls) -> Regions:
        """No region."""
        return cls.of(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), DETECTOR)

    @classmethod
    def of(cls, boxes_xyxy: NDArray[np.floating], scores: NDArray[np.floating], source: int) -> Regions:
        """Regions that all come from one source."""
        boxes = np.asarray(boxes_xyxy, np.float32).reshape(-1, 4)
        return cls(boxes, np.asarray(scores, np.float32), np.full(len(boxes), source, np.uint8))

    @classmethod
    def concat(cls, parts: Sequence[Regions]) -> Regions:
        """All regions of several lists, in order."""
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([p.boxes_xyxy for p in parts]),
            np.concatenate([p.scores for p in parts]),
            np.concatenate([p.sources for p in parts]),
        )

    def scaled(self, x_factor: float, y_factor: float) -> Regions:
        """The same regions in a picture of another size."""
        factors = np.array([x_factor, y_factor, x_factor, y_factor], np.float32)
        return Regions(self.boxes_xyxy * factors, self.scores, self.sources)

    def clipped(self, width: int, height: int, min_side: float = 1.0) -> Regions:
        """The parts inside the picture; regions smaller than `min_side` pixels are dropped."""
        limits = np.array([width, height, width, height], np.float32)
        boxes = np.minimum(np.maximum(self.boxes_xyxy, np.float32(0)), limits)
        keep = (boxes[:, 2] - boxes[:, 0] >= min_side) & (boxes[:, 3] - boxes[:, 1] >= min_side)
        return Regions(boxes[keep], self.scores[keep], self.sources[keep])


def iou(a_xyxy: NDArray[np.floating], b_xyxy: NDArray[np.floating]) -> NDArray[np.float32]:
    """Intersection over union of every box in `a` (N, 4) with every box in `b` (M, 4): (N, M)."""
    # Side by side, not along the last axis: reducing over two numbers at a time is ten times slower.
    ax1, ay1, ax2, ay2 = np.asarray(a_xyxy, np.float32).reshape(-1, 4).T[:, :, None]  # each (N, 1)
    bx1, by1, bx2, by2 = np.asarray(b_xyxy, np.float32).reshape(-1, 4).T[:, None, :]  # each (1, M)
    nothing = np.float32(0)
    width = np.maximum(np.minimum(ax2, bx2) - np.maximum(ax1, bx1), nothing)
    height = np.maximum(np.minimum(ay2, by2) - np.maximum(ay1, by1), nothing)
    inner = width * height
    outer = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1)
    return inner / np.maximum(outer - inner, 1e-9)


def shared(first_xyxy: NDArray[np.float32], second_xyxy: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N,) the share of the smaller box that each pair of boxes, (N, 4) and (N, 4), has in common."""
    low = np.maximum(first_xyxy[:, :2], second_xyxy[:, :2])
    high = np.minimum(first_xyxy[:, 2:], second_xyxy[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first_xyxy, second_xyxy)]
    return np.asarray(both / np.maximum(np.minimum(*areas), 1e-6), np.float32)


def suppress(regions: Regions, max_iou: float, limit: int | None = None) -> Regions:
    """Greedy non-maximum suppression: best score first, overlaps above `max_iou` dropped."""
    order = np.argsort(-regions.scores, kind="stable")
    boxes = regions.boxes_xyxy[order]
    alive = np.ones(len(order), np.bool_)
    # Few pairs overlap. They come in order of the better box, whose own fate is decided when its turn comes.
    better, worse = np.nonzero(iou(boxes, boxes) > max_iou)
    for one, other in zip(better.tolist(), worse.tolist(), strict=True):
        if one < other and alive[one]:
            alive[other] = False
    return regions[order[alive][:limit]]


def parse_box(text: str, width: int, height: int) -> tuple[int, int, int, int]:
    """Parse the box `x1,y1,x2,y2` in pixels and check it against a picture of `width` x `height`.

    Fractional corners, as in answers, are rounded to the nearest pixel.

    Raises:
        BadBox: not four numbers, shares instead of pixels, empty, or not inside the picture.
    """
    _refuse_shares(text, width, height)
    try:
        x1, y1, x2, y2 = (round(float(part)) for part in text.split(","))
    except (ValueError, OverflowError) as exc:  # OverflowError: infinite
        raise BadBox(f"a box is four numbers x1,y1,x2,y2 of pixels, got {text!r}") from exc
    if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
        raise BadBox(
            f"box {text} does not lie inside the {width}x{height} picture: "
            f"it needs 0 <= x1 < x2 <= {width} and 0 <= y1 < y2 <= {height}"
        )
    return x1, y1, x2, y2


def _refuse_shares(text: str, width: int, height: int) -> None:
    """Raise BadBox for a box in percent or in shares of 1; the message gives it in pixels."""
    words = [part.strip() for part in text.split(",")]
    percent = all(word.endswith("%") for word in words)
    try:
        shares = [float(word.removesuffix("%")) / (100 if percent else 1) for word in words]
    except ValueError:
        return
    if len(shares) != 4 or not (percent or all(share <= 1 for share in shares)):
        return
    x1, y1, x2, y2 = shares
    meant = ""
    if 0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1:
        pixels = (round(x1 * width), round(y1 * height), round(x2 * width), round(y2 * height))
        meant = f", of which that would be {','.join(map(str, pixels))}"
    raise BadBox(f"a box is x1,y1,x2,y2 in pixels of the {width}x{height} picture{meant}; got {text!r}")
