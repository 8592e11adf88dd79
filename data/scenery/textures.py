"""A size and a seed enter, an RGB(A) picture of a material leaves: asphalt, brick, grass, cloth, fur."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from scenery.clouds import Floats, Picture

Colour = tuple[int, int, int]


def generator(seed: int) -> np.random.Generator:
    """The random numbers of one drawing; the same seed gives the same picture everywhere."""
    return np.random.Generator(np.random.PCG64(seed))


def clouds(height: int, width: int, seed: int, cell: int = 32, octaves: int = 4) -> Floats:
    """(height, width) float32 fractal noise around 0, about within [-1, 1]."""
    random = generator(seed)
    total = np.zeros((height, width), np.float32)
    for octave in range(octaves):
        size = max(1, cell >> octave)
        grid = random.uniform(-1, 1, (height // size + 3, width // size + 3)).astype(np.float32)
        large = cv2.resize(grid, (grid.shape[1] * size, grid.shape[0] * size), interpolation=cv2.INTER_CUBIC)
        total += large[size : size + height, size : size + width] / 2**octave
    return total / 1.4


def tinted(colour: Colour, noise: Floats, strength: float) -> Picture:
    """A colour made lighter and darker by noise."""
    picture = np.asarray(colour, np.float32) * (1 + strength * noise[..., None])
    return np.clip(picture, 0, 255).astype(np.uint8)


def cloth(colour: Colour, seed: int, height: int = 128, width: int = 128) -> Picture:
    """Woven cloth with soft folds."""
    folds = (
        clouds(height, width, seed, cell=48, octaves=2) * 0.7 + clouds(height, width, seed + 1, 4, 1) * 0.3
    )
    return tinted(colour, folds, 0.22)


def asphalt(height: int, width: int, seed: int, colour: Colour = (92, 93, 97)) -> Picture:
    """Road surface: speckle, stains, a few cracks filled with tar."""
    grain = generator(seed).normal(0, 1, (height, width)).astype(np.float32)
    noise = 0.5 * clouds(height, width, seed, 160, 5) + 0.28 * cv2.GaussianBlur(grain, (0, 0), 0.8)
    picture = tinted(colour, noise, 0.3)
    random = generator(seed + 7)
    for _ in range(5):
        walk = np.cumsum(random.normal(0, 1, (24, 2)), axis=0) * 14 + random.uniform(0, 1, 2) * [
            width,
            height,
        ]
        cv2.polylines(picture, [walk.astype(np.int32)], False, (58, 58, 60), 2, cv2.LINE_AA)
    return picture


def grass(height: int, width: int, seed: int, colour: Colour = (88, 122, 58)) -> Picture:
    """Lawn: blades in many greens over a mottled ground."""
    picture = tinted(colour, clouds(height, width, seed, 120, 5), 0.3)
    random = generator(seed)
    for _ in range(height * width // 60):
        x, y = random.integers(0, width), random.integers(0, height)
        tip = (int(x + random.normal(0, 2)), int(y - random.integers(2, 7)))
        tone = random.uniform(0.7, 1.35)
        cv2.line(picture, (int(x), int(y)), tip, tuple(int(min(255, c * tone)) for c in colour), 1)
    return picture


def bricks(
    height: int, width: int, seed: int, brick: tuple[int, int] = (42, 14), colour: Colour = (156, 92, 70)
) -> Picture:
    """A wall in running bond; `brick` is a brick's width and height in pixels."""
    picture = tinted((168, 160, 148), clouds(height, width, seed, 24, 3), 0.15)
    random = generator(seed)
    columns, rows = brick
    for row in range(height // rows + 1):
        for column in range(-1, width // columns + 2):
            x, y = column * columns + (row % 2) * columns // 2, row * rows
            tone = 1 + random.normal(0, 0.11)
            red = random.normal(0, 9)
            fill = tuple(
                float(np.clip(c * tone + shift, 0, 255)) for c, shift in zip(colour, (red, 0, 0), strict=True)
            )
            cv2.rectangle(picture, (x + 1, y + 1), (x + columns - 2, y + rows - 2), fill, -1)
    stains = 1 + 0.16 * clouds(height, width, seed + 1, 180, 4)[..., None]
    return np.clip(picture * stains, 0, 255).astype(np.uint8)


def slabs(height: int, width: int, seed: int, side: int = 40, colour: Colour = (158, 154, 146)) -> Picture:
    """Paving slabs of slightly different greys."""
    picture = np.full((height, width, 3), 112, np.uint8)
    random = generator(seed)
    for y in range(0, height, side):
        for x in range(-(y // side % 2) * side // 2, width, side):
            tone = 1 + random.normal(0, 0.06)
            fill = tuple(float(min(255, c * tone)) for c in colour)
            cv2.rectangle(picture, (x + 1, y + 1), (x + side - 2, y + side - 2), fill, -1)
    return np.clip(picture * (1 + 0.12 * clouds(height, width, seed, 40, 4)[..., None]), 0, 255).astype(
        np.uint8
    )


def leaves(height: int, width: int, seed: int, colour: Colour = (62, 92, 48)) -> Picture:
    """A hedge or a crown: overlapping leaves, light on top."""
    picture = tinted(tuple(c // 2 for c in colour), clouds(height, width, seed, 30, 3), 0.4)
    random = generator(seed)
    for _ in range(height * width // 45):
        x, y = int(random.integers(0, width)), int(random.integers(0, height))
        tone = random.uniform(0.55, 1.5)
        size = (int(random.integers(2, 5)), int(random.integers(1, 4)))
        fill = tuple(float(min(255, c * tone)) for c in colour)
        cv2.ellipse(picture, (x, y), size, float(random.uniform(0, 180)), 0, 360, fill, -1)
    return picture


def wood(height: int, width: int, seed: int, colour: Colour = (150, 110, 72)) -> Picture:
    """Planed wood, its grain running along x."""
    grain = cv2.resize(clouds(height, max(4, width // 12), seed, 12, 4), (width, height))
    return tinted(colour, grain, 0.25)


def sky(height: int, width: int, seed: int) -> Picture:
    """Pale blue with thin clouds, paler towards the horizon."""
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    blue, pale = np.array([132, 170, 212], np.float32), np.array([214, 222, 228], np.float32)
    veil = np.clip(clouds(height, width, seed, 120, 5), 0, 1)[..., None] * 0.6
    picture = blue * (1 - down) + pale * down
    return np.clip(picture * (1 - veil) + 240 * veil, 0, 255).astype(np.uint8)


def word(
    picture: Picture, text: str, at: tuple[int, int], scale: float, colour: Colour, thickness: int = 2
) -> None:
    """Letters on a picture, in place; `at` is their lower left corner."""
    cv2.putText(picture, text, at, cv2.FONT_HERSHEY_DUPLEX, scale, colour, thickness, cv2.LINE_AA)


def as_mask(alpha: NDArray[np.bool_], picture: Picture) -> Picture:
    """RGBA of a picture cut out by a mask."""
    return np.dstack([picture, alpha.astype(np.uint8) * 255])
