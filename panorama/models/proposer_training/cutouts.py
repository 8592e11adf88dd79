"""A picture of one thing comes in; the thing with an alpha channel goes out, or None if it is not clear."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[Any]
"""Pixels, uint8; OpenCV's stubs promise no element type."""

MIN_SIDE = 20
"""Least side in pixels; smaller things are too coarse to be pasted anywhere."""


def with_alpha(picture: Picture, mask: Picture) -> Picture | None:
    """The picture cut to the mask's bounds, the softened mask (0 or 255) as alpha; None if too small."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if len(rows) < MIN_SIDE or len(columns) < MIN_SIDE:
        return None
    window = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    soft = cv2.GaussianBlur(mask, (3, 3), 0)
    return np.dstack([picture[window], np.minimum(soft, mask)[window]])


def from_polygon(picture: Picture, outline: NDArray[np.float32]) -> Picture | None:
    """The thing inside a labelled outline (V, 2), normalised to the picture."""
    height, width = picture.shape[:2]
    mask = np.zeros((height, width), np.uint8)
    cv2.fillPoly(mask, [np.rint(outline * (width, height)).astype(np.int32)], 255)
    return with_alpha(picture, mask)


def from_plain_background(picture: Picture) -> Picture | None:
    """The thing in front of one even colour, found by flooding that colour from the border."""
    border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]]).astype(np.float32)
    ground = np.median(border, 0)
    if (np.abs(border - ground).max(1) < 24).mean() < 0.8:
        return None
    near = (np.abs(picture.astype(np.int16) - ground).max(2) < 28).astype(np.uint8)
    _, parts = cv2.connectedComponents(near, connectivity=4)
    touching = np.unique(np.concatenate([parts[0], parts[-1], parts[:, 0], parts[:, -1]]))
    outside = np.isin(parts, touching[touching > 0])
    mask = cv2.morphologyEx((~outside).astype(np.uint8) * 255, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    return _largest(picture, mask)


def from_segmentation(picture: Picture) -> Picture | None:
    """The thing in the middle of a patterned ground, by GrabCut started from a frame near the border."""
    height, width = picture.shape[:2]
    inset_x, inset_y = max(2, width // 25), max(2, height // 25)
    labels = np.zeros((height, width), np.uint8)
    frame = (inset_x, inset_y, width - 2 * inset_x, height - 2 * inset_y)
    # GrabCut clusters colours with OpenCV's own generator: unseeded, the cache would differ from run to run.
    cv2.setRNGSeed(0)
    cv2.grabCut(picture, labels, frame, np.zeros((1, 65)), np.zeros((1, 65)), 3, cv2.GC_INIT_WITH_RECT)
    mask: Picture = np.where((labels == cv2.GC_FGD) | (labels == cv2.GC_PR_FGD), 255, 0).astype(np.uint8)
    mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    return _largest(picture, cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8)))


def _largest(picture: Picture, mask: Picture) -> Picture | None:
    """The largest connected part, if it fills 8 to 85 % of the picture and 70 % of the mask; else None."""
    count, parts, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    if count < 2:
        return None
    areas = stats[1:, cv2.CC_STAT_AREA]
    share = areas.max() / mask.size
    if not 0.08 <= share <= 0.85 or areas.max() < 0.7 * areas.sum():
        return None
    return with_alpha(picture, (parts == 1 + int(areas.argmax())).astype(np.uint8) * 255)
