"""Pictures and a proposer come in; it looks several times at each, and what its looks agree on goes out.

The looks are those of `LOOKS`: as it is, mirrored, and both again larger. Boxes of several looks that mean
the same thing become one, as in weighted boxes fusion (Solovyev, Wang and Gabruseva, Image and Vision
Computing 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Image
from panorama.regions import DETECTOR, Regions, iou, suppress


@dataclass(frozen=True, slots=True)
class Look:
    """One way to see a picture.

    Attributes:
        enlarged: the side of the network's input, as a multiple of the usual one.
        mirrored: left and right are swapped.
    """

    enlarged: float
    mirrored: bool


LOOKS = (Look(1.0, False), Look(1.0, True), Look(1.23, False), Look(1.23, True))
"""In the order in which they are added; 1.23 makes 512 pixels of 416."""

COUNTS = (1, 2, len(LOOKS))
"""Numbers of looks that there are: never a larger one without its mirror image."""

SAME_IOU = 0.55
"""Overlap (IoU) from which boxes of two looks mean the same thing."""

LEAST_SCORE = 0.02
"""Least score of a box within one look: what one look hardly sees, others may."""

MOST_BOXES = 100
"""Most boxes of one look at a picture."""

STEP = 32
"""The side of a network's input is a multiple of this, in pixels."""

Propose = Callable[[Sequence[Image], int], list[Regions]]
"""Regions of whole pictures, from an input of a side in pixels: `MOST_BOXES` each, from `LEAST_SCORE` on."""


def propose_fused(
    propose: Propose,
    images: Sequence[Image],
    side: int,
    count: int,
    *,
    floor: float,
    max_iou: float,
    limit: int,
) -> list[Regions]:
    """What several looks at each picture agree on, in its own pixels, best first, overlaps removed.

    Args:
        propose: looks once.
        images: (H, W, 3) uint8 each.
        side: of the network's input at the usual size, in pixels.
        count: number of looks, one of `COUNTS`.
        floor: least score of a region, the mean over all looks.
        max_iou: overlap (IoU) above which the weaker of two regions is dropped.
        limit: most regions of one picture.
    """
    turned = [np.ascontiguousarray(image[:, ::-1]) for image in images] if count > 1 else []
    looks: list[list[Regions]] = []
    for look in LOOKS[:count]:
        found = propose(turned if look.mirrored else images, round(side * look.enlarged / STEP) * STEP)
        if look.mirrored:
            found = [_mirrored(one, image.shape[1]) for one, image in zip(found, images, strict=True)]
        looks.append(found)
    return [suppress(fuse(several, floor), max_iou, limit) for several in zip(*looks, strict=True)]


def fuse(several: Sequence[Regions], floor: float) -> Regions:
    """The regions of several looks at one picture as one list, best box of each first.

    The best box that is left takes with it the best one of every other look that overlaps it by `SAME_IOU`;
    all others that do are dropped. Corners are their mean, weighted by score. The score is the mean over all
    looks, of which those that see nothing there count 0.

    Args:
        several: of one look each.
        floor: least mean score; others are left out.
    """
    every = Regions.concat(several)
    order = np.argsort(-every.scores, kind="stable")
    look = np.repeat(np.arange(len(several)), [len(one) for one in several])[order]
    boxes, scores = every.boxes_xyxy[order], every.scores[order]
    # A mean is no higher than the best of it, which comes first.
    seeds = int(np.count_nonzero(scores >= floor))
    same = iou(boxes[:seeds], boxes) >= SAME_IOU
    left = np.ones(len(boxes), np.bool_)
    fused: list[NDArray[np.float32]] = []
    means: list[float] = []
    for seed in range(seeds):
        if not left[seed]:
            continue
        near = np.flatnonzero(same[seed] & left)
        left[near] = False
        best = near[np.unique(look[near], return_index=True)[1]]
        weights = scores[best] / scores[best].sum()
        fused.append(weights @ boxes[best])
        means.append(float(scores[best].sum()) / len(several))
    if not fused:
        return Regions.empty()
    regions = Regions.of(np.stack(fused), np.array(means, np.float32), DETECTOR)
    return regions[regions.scores >= floor]


def _mirrored(regions: Regions, width: int) -> Regions:
    """Regions of a mirrored picture of this width in the picture as it is."""
    x1, y1, x2, y2 = regions.boxes_xyxy.T
    return Regions(np.stack([width - x2, y1, width - x1, y2], 1), regions.scores, regions.sources)
