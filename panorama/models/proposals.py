"""True boxes and proposed regions come in; the share of boxes that were found goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.regions import Regions, iou

LARGE_SHARE = 0.01
"""A box that covers at least this share of its picture counts as large."""


@dataclass(frozen=True, slots=True)
class Recall:
    """How many true boxes were proposed.

    Attributes:
        found, boxes: found boxes and all boxes.
        found_large, large: the same for boxes that cover at least 1 % of their picture.
        proposals: number of regions considered, over all pictures.
        pictures: number of pictures.
    """

    found: int
    boxes: int
    found_large: int
    large: int
    proposals: int
    pictures: int

    @property
    def overall(self) -> float:
        """Share of all boxes that were found; NaN without any box."""
        return self.found / self.boxes if self.boxes else float("nan")

    @property
    def of_large(self) -> float:
        """Share of the large boxes that were found; NaN without any."""
        return self.found_large / self.large if self.large else float("nan")


def proposal_recall(
    boxes_true: Sequence[NDArray[np.floating]],
    regions: Sequence[Regions],
    picture_sizes: Sequence[tuple[int, int]],
    iou_at_least: float = 0.5,
    limit: int = 20,
) -> Recall:
    """Class-agnostic recall: a true box is found if one of the `limit` best regions overlaps it enough.

    Args:
        boxes_true: (G, 4) x1, y1, x2, y2 in pixels, one array per picture.
        regions: the proposed regions, one value per picture.
        picture_sizes: width and height in pixels, one pair per picture.
        iou_at_least: the overlap that is enough.
        limit: most regions considered per picture.

    Raises:
        ValueError: the three lists differ in length.
    """
    if not len(boxes_true) == len(regions) == len(picture_sizes):
        counts = f"{len(boxes_true)}, {len(regions)} and {len(picture_sizes)}"
        raise ValueError(f"boxes, regions and sizes are of the same pictures, got {counts}")
    found = found_large = total = total_large = proposals = 0
    for true, proposed, (width, height) in zip(boxes_true, regions, picture_sizes, strict=True):
        best = proposed[np.argsort(-proposed.scores, kind="stable")[:limit]]
        proposals += len(best)
        boxes = np.asarray(true, np.float64).reshape(-1, 4)
        if not len(boxes):
            continue
        hit = np.zeros(len(boxes), bool)
        if len(best):
            hit = iou(boxes, best.boxes_xyxy).max(1) >= iou_at_least
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        large = area >= LARGE_SHARE * width * height
        found, total = found + int(hit.sum()), total + len(boxes)
        found_large, total_large = found_large + int((hit & large).sum()), total_large + int(large.sum())
    return Recall(found, total, found_large, total_large, proposals, len(boxes_true))
