"""High dynamic range colours come in, as video encodes them; colours for an ordinary screen go out.

Models, example images and sheets use ordinary (BT.709) pictures. If shown as they are encoded, colours of PQ
video are grey and pale, and those of HLG too dark.

Sources: SMPTE ST 2084 (PQ) and ITU-R BT.2100 (HLG, with the light of a screen of 1,000 cd/m2), BT.2408 for
203 cd/m2 as the white of an ordinary picture, BT.2087 for the primaries, BT.1886 for the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

TRANSFERS: dict[int, Literal["pq", "hlg"]] = {16: "pq", 18: "hlg"}
"""Transfer functions by their number in ITU-T H.273."""

UNSPECIFIED, BT2020 = 2, 9
"""Numbers of colour matrices in ITU-T H.273; the first also means an unspecified transfer function."""

WHITE_NITS = 203.0
SCREEN_NITS = 1000.0
"""Brightness of ordinary white and of the screen, in cd/m2; brighter light is clipped to the latter."""

KNEE = 0.7
"""Light up to this share of white stays as it is; brighter light is compressed into the rest."""

STEPS = 1 << 14
"""Entries of the output table, spaced by the square root of light: as fine in the dark as the screen."""

AT_ONCE = 8192
"""Pixels converted at once: few enough for intermediate results to stay in the processor's cache."""

FROM_BT2020 = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]], np.float32
)
"""Converts linear RGB from BT.2020 to BT.709 primaries."""

LUMINANCE = np.array([[0.2627, 0.6780, 0.0593]], np.float32)
"""Weights of linear BT.2020 red, green and blue in the luminance."""


def shown(rgb: NDArray[np.uint16], transfer: str) -> NDArray[np.uint8]:
    """Convert full-range colours (H, W, 3) of 16 bits to (H, W, 3) uint8 for an ordinary screen.

    Args:
        transfer: "pq" or "hlg"; the primaries are assumed to be those of BT.2020, as usual for such video.
    """
    out = np.empty(rgb.shape, np.uint8)
    pixels, shown_pixels = rgb.reshape(1, -1, 3), out.reshape(1, -1, 3)
    for first in range(0, pixels.shape[1], AT_ONCE):
        some = np.s_[:, first : first + AT_ONCE]
        steps = _steps(pixels[some], transfer)
        # No index is out of range; 'clip' only is faster than the default.
        _encoded().take(steps, mode="clip", out=shown_pixels[some])
    return out


def _steps(rgb: NDArray[np.uint16], transfer: str) -> NDArray[np.uint16]:
    """(1, N, 3) indices into the output table, 0 to STEPS - 1, for encoded colours (1, N, 3)."""
    light = _decoded(transfer).take(rgb, mode="clip")  # 1 is white
    if transfer == "hlg":
        # A screen shows more contrast than the scene had: a gamma of 1.2, applied to luminance only.
        scene = np.maximum(cv2.transform(light, LUMINANCE), 1e-6)
        light *= (scene**0.2)[:, :, None] * np.float32(SCREEN_NITS / WHITE_NITS)
    light = np.asarray(cv2.transform(light, FROM_BT2020), np.float32)
    most = SCREEN_NITS / WHITE_NITS
    return np.asarray(np.sqrt(np.clip(light, 0, most) / most) * (STEPS - 1), np.float32).astype(np.uint16)


@cache
def _decoded(transfer: str) -> NDArray[np.float32]:
    """(65,536,) linear light of each code: relative to white for PQ, to the scene's maximum for HLG."""
    decode: Callable[[NDArray], NDArray] = {"pq": _pq, "hlg": _hlg}[transfer]
    return decode(np.arange(1 << 16) / 65535).astype(np.float32)


def _pq(value: NDArray[np.float64]) -> NDArray[np.float64]:
    root = value ** (32 / 2523)
    share = np.maximum(root - 107 / 128, 0) / (2413 / 128 - 2392 / 128 * root)
    return share ** (8192 / 1305) * 10_000 / WHITE_NITS


def _hlg(value: NDArray[np.float64]) -> NDArray[np.float64]:
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(value <= 0.5, value**2 / 3, (np.exp((value - c) / a) + b) / 12)


@cache
def _encoded() -> NDArray[np.uint8]:
    """(STEPS,) uint8 screen values for light from none to SCREEN_NITS, spaced by its square root."""
    most = SCREEN_NITS / WHITE_NITS
    light = np.linspace(0, 1, STEPS) ** 2 * most
    # A hyperbola with slope 1 at the knee that reaches white at the brightest light.
    above = np.maximum(light - KNEE, 0) / (1 - KNEE)
    brightest = (most - KNEE) / (1 - KNEE)
    rolled = KNEE + (1 - KNEE) * above / (1 + above * (1 - 1 / brightest))
    seen = np.where(light <= KNEE, light, rolled)
    return np.rint(seen ** (1 / 2.4) * 255).astype(np.uint8)
