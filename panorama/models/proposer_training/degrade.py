"""A clean picture comes in; it goes out as a cheap camera, poor light and compression would leave it."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[Any]
"""Pixels, uint8; OpenCV's stubs promise no element type."""


def jitter_colour(rng: np.random.Generator, rgb: Picture) -> Picture:
    """Random brightness and contrast, and a little random gain per channel."""
    gain = np.exp(rng.normal(0, 0.15)) * np.exp(rng.normal(0, 0.06, 3))
    table = np.arange(256)[:, None] * gain + rng.normal(0, 12)
    table = np.clip(table, 0, 255).astype(np.uint8).reshape(1, 256, 3)
    return cv2.LUT(np.ascontiguousarray(rgb), table)


def degrade(rng: np.random.Generator, rgb: Picture) -> Picture:
    """Light, grey or shifted colours, low resolution, blur, noise and JPEG, most of them by chance."""
    height, width = rgb.shape[:2]
    gamma = float(np.exp(rng.normal(0, 0.25)))
    table = np.clip((np.arange(256) / 255) ** gamma * 255, 0, 255).astype(np.uint8)
    rgb = jitter_colour(rng, cv2.LUT(rgb, table))
    if rng.random() < 0.06:
        rgb = np.repeat(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[..., None], 3, 2)
    elif rng.random() < 0.2:
        hsv = cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)
        hsv[..., 0] = (hsv[..., 0].astype(np.int16) + int(rng.integers(-18, 19))) % 180
        hsv[..., 1] = np.clip(hsv[..., 1] * rng.uniform(0.3, 1.5), 0, 255).astype(np.uint8)
        rgb = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    if rng.random() < 0.2:
        factor = rng.uniform(0.35, 0.8)
        small = cv2.resize(rgb, (int(width * factor), int(height * factor)), interpolation=cv2.INTER_AREA)
        rgb = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    if rng.random() < 0.1:
        rgb = cv2.GaussianBlur(rgb, (0, 0), rng.uniform(0.4, 1.6))
    elif rng.random() < 0.08:
        length = int(rng.integers(3, 9))
        kernel = np.zeros((length, length), np.float32)
        slope = rng.uniform(-1, 1) * (length // 2)
        middle = length // 2
        ends = (0, round(middle - slope)), (length - 1, round(middle + slope))
        cv2.line(kernel, *ends, 1.0)
        if rng.random() < 0.3:
            kernel = np.ascontiguousarray(kernel.T)
        rgb = cv2.filter2D(rgb, -1, kernel / kernel.sum())
    if rng.random() < 0.25:
        noise = rng.integers(-128, 128, (height, width, 1), np.int16)
        rgb = np.clip(rgb + noise * int(rng.integers(2, 20)) // 128, 0, 255).astype(np.uint8)
    if rng.random() < 0.4:
        quality = int(rng.integers(20, 90))
        _, data = cv2.imencode(".jpg", rgb, [cv2.IMWRITE_JPEG_QUALITY, quality])
        rgb = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))
    return rgb
