"""A picture comes in; one view of it goes out twice: clean for the teacher, degraded for the student."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from panorama.models.base import Image

TEACHER_SIDE = 224


def geometry(picture: NDArray[np.uint8], rng: Generator, side: int = TEACHER_SIDE) -> NDArray[np.uint8]:
    """A random part of the picture, often tilted and in perspective, as a `side` x `side` square.

    One in eight extends over the border, like a loose box; the others are tight or partial.
    """
    height, width = picture.shape[:2]
    loose = rng.random() < 0.125
    area = rng.uniform(1.0, 1.6) if loose else rng.uniform(0.3, 1.0) ** 0.7
    aspect = float(np.exp(rng.uniform(-0.3, 0.3)))
    w, h = width * (area * aspect) ** 0.5, height * (area / aspect) ** 0.5
    if not loose:
        w, h = min(w, width), min(h, height)
    cx = width / 2 + (0 if loose else rng.uniform(-0.5, 0.5) * (width - w))
    cy = height / 2 + (0 if loose else rng.uniform(-0.5, 0.5) * (height - h))
    corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h]], np.float64) / 2
    if rng.random() < 0.6:
        angle = np.deg2rad(rng.normal(0, 8))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        corners = corners @ turn.T + rng.uniform(-0.07, 0.07, (4, 2)) * (w, h)
    corners += (cx, cy)
    if rng.random() < 0.5:
        corners = corners[[1, 0, 3, 2]]
    target = np.array([[0, 0], [side, 0], [side, side], [0, side]], np.float32)
    matrix = cv2.getPerspectiveTransform(corners.astype(np.float32), target)
    border = cv2.BORDER_REPLICATE if loose else cv2.BORDER_REFLECT_101
    shrinks = min(w, h) > 1.5 * side
    warped = cv2.warpPerspective(
        picture,
        matrix,
        (side, side),
        flags=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR,
        borderMode=border,
    )
    return np.asarray(warped, np.uint8)


def on_background(sprite: NDArray[np.uint8], background: Image, rng: Generator) -> Image:
    """An RGBA picture laid over another picture or, half of the time, over a flat colour."""
    height, width = sprite.shape[:2]
    pad_x, pad_y = (int(rng.uniform(0.05, 0.4) * s) for s in (width, height))
    size = (width + 2 * pad_x, height + 2 * pad_y)
    if rng.random() < 0.5:
        canvas = np.empty((size[1], size[0], 3), np.uint8)
        canvas[:] = rng.integers(0, 256, 3) if rng.random() < 0.6 else rng.choice([0, 128, 255])
    else:
        canvas = np.array(cv2.resize(background[..., :3], size, interpolation=cv2.INTER_LINEAR), np.uint8)
    alpha = sprite[..., 3:].astype(np.float32) / 255
    inner = canvas[pad_y : pad_y + height, pad_x : pad_x + width]
    inner[:] = (alpha * sprite[..., :3] + (1 - alpha) * inner).astype(np.uint8)
    return canvas


def occlude(view: Image, other: Image, rng: Generator) -> Image:
    """The view with a patch of another picture on it, at most a quarter of its area."""
    side = view.shape[0]
    w, h = (int(side * rng.uniform(0.15, 0.5)) for _ in range(2))
    x, y = int(rng.integers(-w // 2, side - w // 2)), int(rng.integers(-h // 2, side - h // 2))
    x1, y1, x2, y2 = max(0, x), max(0, y), min(side, x + w), min(side, y + h)
    out = view.copy()
    out[y1:y2, x1:x2] = cv2.resize(other[..., :3], (x2 - x1, y2 - y1), interpolation=cv2.INTER_AREA)
    return out


def light(view: Image, rng: Generator) -> Image:
    """Brightness, contrast, gamma, warmth and a little saturation; hue stays, as evidence of identity."""
    x = view.astype(np.float32) / 255
    if rng.random() < 0.5:
        x = x ** float(np.exp(rng.normal(0, 0.25)))
    gain = np.exp(rng.normal(0, 0.18)) * np.exp(rng.normal(0, 0.05, 3))
    mean = x.mean()
    x = (x - mean) * np.exp(rng.normal(0, 0.18)) + mean
    x = x * gain.astype(np.float32)
    grey = x.mean(axis=2, keepdims=True)
    x = grey + (x - grey) * np.exp(rng.normal(0, 0.15))
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def low_resolution(view: Image, rng: Generator) -> Image:
    """Scaled down to 20 to 96 pixels and up again, as a small box in a large frame looks."""
    side = view.shape[0]
    small = int(np.exp(rng.uniform(np.log(20), np.log(96))))
    down = cv2.resize(view, (small, small), interpolation=cv2.INTER_AREA)
    how = cv2.INTER_LINEAR if rng.random() < 0.5 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(down, (side, side), interpolation=how), np.uint8)


def blur(view: Image, rng: Generator) -> Image:
    """Out of focus, or with motion blur."""
    if rng.random() < 0.5:
        return np.asarray(cv2.GaussianBlur(view, (0, 0), float(rng.uniform(0.5, 2.2))), np.uint8)
    length = int(rng.integers(3, 11))
    kernel = np.zeros((length, length), np.float32)
    angle = rng.uniform(0, np.pi)
    steps = np.linspace(-(length - 1) / 2, (length - 1) / 2, 2 * length)
    middle = (length - 1) / 2
    for step in steps:
        kernel[round(middle + step * np.sin(angle)), round(middle + step * np.cos(angle))] = 1
    return np.asarray(cv2.filter2D(view, -1, kernel / kernel.sum()), np.uint8)


def noise(view: Image, rng: Generator) -> Image:
    """Sensor noise."""
    grain = rng.normal(0, rng.uniform(2, 12), view.shape).astype(np.float32)
    return np.clip(view + grain, 0, 255).astype(np.uint8)


def jpeg(view: Image, rng: Generator) -> Image:
    """Compressed at quality 40 to 95 and decoded again."""
    _, data = cv2.imencode(".jpg", view[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(40, 96))])
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert decoded is not None  # it was encoded one line above
    return np.ascontiguousarray(decoded[..., ::-1], np.uint8)


DEGRADATIONS: tuple[tuple[float, Callable[[Image, Generator], Image]], ...] = (
    (0.6, light),
    (0.2, blur),
    (0.25, low_resolution),
    (0.15, noise),
    (0.4, jpeg),
)


def degrade(view: Image, rng: Generator) -> Image:
    """What separates a thing from its picture in a video: several steps, each with its own odds."""
    for odds, step in DEGRADATIONS:
        if rng.random() < odds:
            view = step(view, rng)
    return view


def make_view(
    picture: NDArray[np.uint8], others: Sequence[Image], rng: Generator, side: int
) -> tuple[Image, Image]:
    """One view, as (the teacher's TEACHER_SIDE square, the student's degraded `side` square).

    `others` are pictures for backgrounds and occlusions. The teacher sees geometry, background and occlusion,
    too, but no degradation, so that the student learns to see through it.
    """
    other = others[int(rng.integers(len(others)))]
    opaque = on_background(picture, other, rng) if picture.shape[2] == 4 else picture
    clean = geometry(opaque, rng)
    if rng.random() < 0.2:
        clean = occlude(clean, other, rng)
    small = np.asarray(cv2.resize(clean, (side, side), interpolation=cv2.INTER_AREA), np.uint8)
    return clean, degrade(small, rng)
