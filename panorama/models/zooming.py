"""Pictures and a proposer come in; regions of each picture and of its enlarged parts go out as one list.

Small things in a large picture have too few pixels once the whole picture is reduced to the network's input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from panorama.models.base import Image
from panorama.regions import Regions, suppress

SPAN = 1.2
"""Total length of all parts in a row, as a multiple of the picture's side: neighbours overlap."""

CUT_SHARE = 0.01
"""A region this close to an inner edge of a part, in sides of the part, is a piece of something larger."""

PART_WEIGHT = 0.8
"""Factor on scores in parts: regions of the whole picture come first, pieces of large things last."""


def picture_side(side: int, zoom: int) -> int:
    """Longest side in pixels of a picture whose parts have the longest side `side`."""
    return side if zoom == 1 else round(side * zoom / SPAN)


def parts_of(image: Image, zoom: int) -> list[tuple[int, int, Image]]:
    """Left and top edge of each of zoom x zoom overlapping parts, and the part itself, a view."""
    height, width = image.shape[:2]
    rows, columns = (_pieces(length, zoom) for length in (height, width))
    return [(left, top, image[top:bottom, left:right]) for top, bottom in rows for left, right in columns]


def _pieces(length: int, zoom: int) -> list[tuple[int, int]]:
    """Start and end (exclusive) of `zoom` pieces of a length, each overlapping its neighbours."""
    piece = min(length, max(1, round(length * SPAN / zoom)))
    return [
        (start, start + piece) for start in np.linspace(0, length - piece, zoom).round().astype(int).tolist()
    ]


def propose_zoomed(
    propose: Callable[[Sequence[Image]], list[Regions]],
    images: Sequence[Image],
    zoom: int,
    max_iou: float,
    limit: int,
) -> list[Regions]:
    """Regions of each picture in its own pixels, best first, overlaps removed, at most `limit`.

    Args:
        propose: finds regions of whole pictures.
        images: (H, W, 3) uint8 each.
        zoom: number of parts per row and per column, besides the whole picture.
        max_iou: overlap (IoU) above which the weaker of two regions is dropped.
    """
    places = [parts_of(image, zoom) for image in images]
    # All parts at once, so that the network's batches are full.
    parts = iter(propose([part for several in places for _, _, part in several]))
    found: list[Regions] = []
    for image, whole, several in zip(images, propose(images), places, strict=True):
        moved = [_placed(next(parts), place, image) for place in several]
        found.append(suppress(Regions.concat([whole, *moved]), max_iou, limit))
    return found


def _placed(regions: Regions, place: tuple[int, int, Image], image: Image) -> Regions:
    """Regions of a part in the picture's pixels, without those at its inner edges."""
    left, top, part = place
    height, width = part.shape[:2]
    boxes = regions.boxes_xyxy
    near_x, near_y = CUT_SHARE * width, CUT_SHARE * height
    cut = (left > 0) & (boxes[:, 0] < near_x)
    cut |= (top > 0) & (boxes[:, 1] < near_y)
    cut |= (left + width < image.shape[1]) & (boxes[:, 2] > width - near_x)
    cut |= (top + height < image.shape[0]) & (boxes[:, 3] > height - near_y)
    moved = boxes + np.array([left, top, left, top], np.float32)
    return Regions(moved, regions.scores * np.float32(PART_WEIGHT), regions.sources)[~cut]
