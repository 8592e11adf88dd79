"""A random generator comes in; drawn grounds and things go out, so that things are not only known classes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[Any]
"""Pixels, uint8; OpenCV's stubs promise no element type."""


def backdrop(rng: np.random.Generator, height: int, width: int) -> Picture:
    """A ground without things: a colour gradient or soft clouds of colour, with some noise."""
    if rng.random() < 0.5:
        corners = rng.integers(0, 256, (2, 2, 3)).astype(np.uint8)
        image = cv2.resize(corners, (width, height), interpolation=cv2.INTER_LINEAR).astype(np.float32)
    else:
        cells = int(rng.integers(3, 24))
        clouds = rng.normal(rng.uniform(60, 200), rng.uniform(5, 45), (cells, cells, 3)).astype(np.float32)
        image = np.asarray(cv2.resize(clouds, (width, height), interpolation=cv2.INTER_CUBIC), np.float32)
    image += rng.normal(0, rng.uniform(0, 20), (height, width, 1)).astype(np.float32)
    return np.clip(image, 0, 255).astype(np.uint8)


def random_thing(rng: np.random.Generator, texture_source: Picture) -> Picture:
    """An RGBA shape, 32 to 159 pixels a side: ellipses, rectangles, polygons or blobs, up to three joined."""
    side_x, side_y = (int(n) for n in rng.integers(32, 160, 2))
    mask = np.zeros((side_y, side_x), np.uint8)
    for _ in range(int(rng.integers(1, 4))):
        _draw(rng, mask)
    rgb = _texture(rng, texture_source, side_y, side_x)
    if rng.random() < 0.4:  # light from one side
        angle = rng.uniform(0, 2 * np.pi)
        y, x = np.mgrid[0:side_y, 0:side_x]
        ramp = (x / side_x - 0.5) * np.cos(angle) + (y / side_y - 0.5) * np.sin(angle)
        rgb = np.clip(rgb * (1 + 0.8 * ramp[..., None]), 0, 255).astype(np.uint8)
    if rng.random() < 0.3:
        outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        cv2.drawContours(rgb, outlines, -1, rng.integers(0, 256, 3).tolist(), int(rng.integers(1, 4)))
    return np.dstack([rgb, mask])


def _draw(rng: np.random.Generator, mask: Picture) -> None:
    """Fill one shape around the mask's middle, in place."""
    height, width = mask.shape
    middle = np.array([width, height]) * rng.uniform(0.4, 0.6, 2)
    half = np.array([width, height]) * rng.uniform(0.2, 0.5, 2)
    kind = rng.integers(4)
    if kind == 0:
        angle = float(rng.uniform(0, 180))
        cv2.ellipse(mask, (middle.tolist(), (2 * half).tolist(), angle), 255, -1)
        return
    if kind == 1:
        corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half + middle
    else:
        count = int(rng.integers(3, 9)) if kind == 2 else 24
        angles = np.sort(rng.uniform(0, 2 * np.pi, count))
        reach = rng.uniform(0.5, 1.0, count)
        if kind == 3:  # smooth neighbouring radii: a blob instead of a star
            reach = np.convolve(np.tile(reach, 3), np.ones(5) / 5, "same")[count : 2 * count]
        corners = np.stack([np.cos(angles), np.sin(angles)], 1) * reach[:, None] * half + middle
    cv2.fillPoly(mask, [np.rint(corners).astype(np.int32)], 255)


def _texture(rng: np.random.Generator, source: Picture, height: int, width: int) -> Picture:
    """A plain colour, stripes, or a patch of a picture."""
    colours = rng.integers(0, 256, (2, 3))
    kind = rng.random()
    if kind < 0.3:
        return np.broadcast_to(colours[0].astype(np.uint8), (height, width, 3)).copy()
    if kind < 0.5:
        y, x = np.mgrid[0:height, 0:width]
        angle, period = rng.uniform(0, np.pi), rng.uniform(4, 40)
        bright = (np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period) > 0)[..., None]
        return np.where(bright, colours[0], colours[1]).astype(np.uint8)
    patch_height = int(rng.integers(8, max(9, source.shape[0])))
    patch_width = int(rng.integers(8, max(9, source.shape[1])))
    y = int(rng.integers(0, max(1, source.shape[0] - patch_height)))
    x = int(rng.integers(0, max(1, source.shape[1] - patch_width)))
    return cv2.resize(source[y : y + patch_height, x : x + patch_width], (width, height))
