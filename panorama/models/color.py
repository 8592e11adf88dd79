"""Pictures come in; unit vectors go out: soft colour histograms of four horizontal bands each.

The histogram is the baseline for every learned embedding, the fake embedder of the tests, and the part of
PanoramaNet that keeps plain colour as evidence of identity.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Embedder, Image

BANDS = 4
SIDE = 32
HUES = 8
TONES = 3
GREYS = 6
BINS = HUES * TONES + GREYS
COLOR_DIM = BANDS * BINS
ROW = 32
# From this difference between the strongest and the weakest channel on, a pixel counts as fully coloured.
FULL_CHROMA = 0.3
LEVELS = 32
VERSION = "1"


def pixel_bins(rgb: NDArray[np.floating]) -> NDArray[np.float32]:
    """The weights of each pixel (N, 3), channels in [0, 1], over the bins: (N, BINS) float32, rows sum to 1.

    The coloured share, (max - min) / FULL_CHROMA up to 1, goes to the two nearest of 8 hues (red is hue 0,
    the others follow every 45 degrees) times the two nearest of 3 tones (value 0, 1/2, 1): bin = hue * 3 +
    tone. The rest goes to the two nearest of 6 greys (value 0, 1/5, ... 1): bin = 24 + grey.
    """
    pixels = np.asarray(rgb, np.float32)
    value = pixels.max(axis=1)
    chroma = value - pixels.min(axis=1)
    red, green, blue = pixels.T
    safe = np.where(chroma > 0, chroma, 1)
    sextant = np.where(
        value == red,
        ((green - blue) / safe) % 6,
        np.where(value == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = sextant / 6 * HUES
    coloured = np.minimum(chroma / FULL_CHROMA, 1)
    out = np.zeros((len(pixels), BINS), np.float32)
    rows = np.arange(len(pixels))
    for hue_bin, hue_share in _two_nearest(hue):
        for tone_bin, tone_share in _two_nearest(value * (TONES - 1)):
            column = (hue_bin % HUES) * TONES + np.minimum(tone_bin, TONES - 1)
            np.add.at(out, (rows, column), coloured * hue_share * tone_share)
    for grey_bin, grey_share in _two_nearest(value * (GREYS - 1)):
        column = HUES * TONES + np.minimum(grey_bin, GREYS - 1)
        np.add.at(out, (rows, column), (1 - coloured) * grey_share)
    return out


def _two_nearest(position: NDArray[np.floating]) -> tuple[tuple[NDArray[np.intp], NDArray[np.floating]], ...]:
    """The bins below and above each position, each with its share; the two shares sum to 1."""
    below = np.floor(position).astype(np.intp)
    share = position - below
    return (below, 1 - share), (below + 1, share)


@cache
def _bins_of_levels() -> NDArray[np.float32]:
    """`pixel_bins` of all colours at 32 levels per channel: (32768, 32), indexed by r * 1024 + g * 32 + b.

    Two zero columns follow the BINS: gathering and summing rows of 128 bytes takes half the time.
    """
    level = np.arange(LEVELS, dtype=np.float32) / (LEVELS - 1)
    grid = np.stack(np.meshgrid(level, level, level, indexing="ij"), axis=-1)
    bins = pixel_bins(grid.reshape(-1, 3))
    return np.pad(bins, ((0, 0), (0, ROW - BINS)))


@cache
def _places_of_values() -> NDArray[np.intp]:
    """(3, 256): what each value of each channel adds to the index of `_bins_of_levels`."""
    levels = (np.arange(256, dtype=np.intp) * (LEVELS - 1) + 127) // 255
    return levels * np.array([[LEVELS**2], [LEVELS], [1]])


def color_bands(images: Sequence[Image]) -> NDArray[np.float32]:
    """(B, COLOR_DIM) float32 of unit length: square roots of each band's histogram, top band first.

    The inner product of two such vectors is the mean Bhattacharyya coefficient of their bands.
    """
    sums = np.empty((len(images), BANDS, ROW), np.float32)
    table, (red, green, blue) = _bins_of_levels(), _places_of_values()
    pixels = np.empty((BANDS, SIDE**2 // BANDS, ROW), np.float32)
    for i, image in enumerate(images):
        small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        index = red[small[..., 0]] + green[small[..., 1]] + blue[small[..., 2]]
        # No index is out of bounds, but with the default mode numpy would gather into a copy first.
        np.take(table, index.reshape(BANDS, -1), axis=0, out=pixels, mode="clip")
        np.add.reduce(pixels, axis=1, out=sums[i])
    out = sums[..., :BINS] / np.float32(SIDE**2 // BANDS)
    return np.sqrt(out / BANDS).reshape(len(images), COLOR_DIM)


class ColorEmbedder(Embedder):
    """The colour baseline 'color-bands': one exit, no weights.

    Example: a pure red picture puts everything into hue 0, tone 2 of each band, so its vector is 0.5 at
    2, 32, 62 and 92 and 0 elsewhere. A pure blue picture shares no bin with it: their similarity is 0.
    """

    name = "color-bands"
    of_colour_alone = True
    dim = COLOR_DIM
    exits = 1
    macs = (SIDE * SIDE * BINS,)

    def __init__(self) -> None:
        settings = (self.name, VERSION, BANDS, SIDE, HUES, TONES, GREYS, FULL_CHROMA, LEVELS)
        self.hash = hashlib.sha256(repr(settings).encode()).hexdigest()

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """(1, B, dim) float32."""
        return color_bands(images)[None]

    def cohort(self) -> NDArray[np.float32]:
        """(1, 256, dim) float32: vectors of seeded random pictures, each four bands of two mixed colours."""
        rng = np.random.default_rng(0)
        pictures = []
        for _ in range(256):
            pair = rng.integers(0, 256, (BANDS, 1, 2, 3))
            mix = rng.random((BANDS, SIDE // BANDS * SIDE, 1, 1)) < 0.5
            pixels = np.where(mix[:, :, 0], pair[:, :, 0], pair[:, :, 1])
            pictures.append(pixels.reshape(SIDE, SIDE, 3).astype(np.uint8))
        return self.embed_all(pictures)
