"""A random generator comes in; pictures of words, signs and grids go out, drawn from nothing.

They are strangers to whatever people print: logos, words, markers, screens. These consist of few colours
with sharp borders, so the embedder finds them all alike. If no stranger were drawn, one logo would pass for
another. The marks are random, because a known logo among the strangers would keep just this logo from being
found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Image

SIDE = 256
"""Pixels of a sign or grid while it is drawn."""

SEEN_SIDE = 96
"""The longer side of a finished mark in pixels."""

LEAST_SIDE = 8

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
MOST_LETTERS = 9
TILT = 6.0
"""Standard deviation of a mark's turn, in degrees."""

BLUR = (0.5, 2.0)
"""Standard deviation of the blur of half of them, in pixels at SEEN_SIDE."""

Shape = NDArray[np.uint8]
"""(H, W): 255 where there is ink, 0 elsewhere."""

_FACES = (
    cv2.FONT_HERSHEY_SIMPLEX,
    cv2.FONT_HERSHEY_DUPLEX,
    cv2.FONT_HERSHEY_COMPLEX,
    cv2.FONT_HERSHEY_TRIPLEX,
    cv2.FONT_HERSHEY_PLAIN,
)


def word(rng: np.random.Generator) -> Shape:
    """A few random letters and digits in a row."""
    text = "".join(rng.choice(LETTERS, int(rng.integers(1, MOST_LETTERS + 1))))
    face, thickness, size = int(rng.choice(_FACES)), int(rng.integers(2, 14)), 3.0
    (width, height), below = cv2.getTextSize(text, face, size, thickness)
    margin = int(rng.uniform(0.05, 0.5) * height)
    shape = np.zeros((height + below + 2 * margin, width + 2 * margin), np.uint8)
    cv2.putText(shape, text, (margin, margin + height), face, size, 255, thickness, cv2.LINE_AA)
    return shape


def sign(rng: np.random.Generator) -> Shape:
    """A few discs, rings, bars, rectangles and triangles, half of the signs with a frame around them."""
    shape = np.zeros((SIDE, SIDE), np.uint8)
    if rng.random() < 0.5:
        edge, frame = 10, int(rng.integers(20, 50))
        cv2.rectangle(shape, (edge, edge), (SIDE - edge, SIDE - edge), 255, -1)
        cv2.rectangle(shape, (frame, frame), (SIDE - frame, SIDE - frame), 0, -1)
    for _ in range(int(rng.integers(1, 6))):
        corners: list[Any] = rng.integers(40, SIDE - 40, (3, 2)).tolist()
        ink, line = int(rng.choice((255, 255, 0))), int(rng.choice((-1, 6, 12, 20)))
        kind = int(rng.integers(4))
        if kind == 0:
            cv2.circle(shape, corners[0], int(rng.integers(12, 80)), ink, line, cv2.LINE_AA)
        elif kind == 1:
            cv2.line(shape, corners[0], corners[1], ink, abs(line) + 4, cv2.LINE_AA)
        elif kind == 2:
            cv2.rectangle(shape, corners[0], corners[1], ink, line)
        else:
            cv2.fillPoly(shape, [np.array(corners, np.int32)], ink, cv2.LINE_AA)
    return shape


def grid(rng: np.random.Generator) -> Shape:
    """Squares in rows and columns, each with ink or without."""
    cells = int(rng.integers(4, 9))
    squares = (rng.random((cells, cells)) < 0.5).astype(np.uint8) * 255
    if rng.random() < 0.5:
        squares = np.pad(squares, 1)
    return np.asarray(cv2.resize(squares, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST), np.uint8)


DRAWN: tuple[Callable[[np.random.Generator], Shape], ...] = (word, word, sign, grid)


def mark(rng: np.random.Generator) -> Image:
    """A word, sign or grid in two colours, its longer side SEEN_SIDE, a little turned, sometimes blurred."""
    shape = DRAWN[int(rng.integers(len(DRAWN)))](rng)
    dark, light = np.full(3, rng.uniform(0, 50)), np.full(3, rng.uniform(190, 255))
    pairs = ((dark, light), (light, dark), (rng.uniform(0, 255, 3), rng.uniform(0, 255, 3)))
    ink, paper = pairs[int(rng.integers(len(pairs)))]
    share = shape[..., None] / 255
    picture = (ink * share + paper * (1 - share)).astype(np.float32)
    height, width = shape.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), float(rng.normal(0, TILT)), 1)
    picture = np.asarray(
        cv2.warpAffine(picture, turn, (width, height), borderMode=cv2.BORDER_REPLICATE), np.float32
    )
    scale = SEEN_SIDE / max(height, width)
    seen = (max(LEAST_SIDE, round(width * scale)), max(LEAST_SIDE, round(height * scale)))
    picture = np.asarray(cv2.resize(picture, seen, interpolation=cv2.INTER_AREA), np.float32)
    if rng.random() < 0.5:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), rng.uniform(*BLUR)), np.float32)
    return np.clip(picture, 0, 255).astype(np.uint8)
