"""Colours of high dynamic range enter, as their video encodes them; what an ordinary screen shows leaves.

Models, example pictures and sheets are of ordinary (BT.709) pictures. Shown as they are encoded, colours of
PQ video are grey and pale, and those of HLG are darker than they were.

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
"""How light is encoded, by the number of the transfer characteristics in ITU-T H.273."""

UNSPECIFIED, BT2020 = 2, 9
"""Two of the matrices there, between brightness and chroma and colours; the first, of transfers, too."""

WHITE_NITS = 203.0
SCREEN_NITS = 1000.0
"""The brightest light that keeps apart from what is darker."""

KNEE = 0.7
"""Up to this share of white, light is shown as it is; what is brighter shares the rest."""

STEPS = 1 << 14
"""Of the table that light is shown by: of its square root, so that the dark is as fine as the screen's."""

AT_ONCE = 8192
"""Pixels converted at once: so few that what is between stays in the processor's cache."""

FROM_BT2020 = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]], np.float32
)
"""Red, green and blue of BT.2020 as those of BT.709, both of light."""

LUMINANCE = np.array([[0.2627, 0.6780, 0.0593]], np.float32)
"""Shares of the three of BT.2020 in brightness."""


def shown(rgb: NDArray[np.uint16], transfer: str) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 as an ordinary screen shows colours (H, W, 3) of full range, 65,535 for all there is.

    Args:
        transfer: "pq" or "hlg"; the primaries are taken for those of BT.2020, as such video has them.
    """
    out = np.empty(rgb.shape, np.uint8)
    pixels, shown_pixels = rgb.reshape(1, -1, 3), out.reshape(1, -1, 3)
    for first in range(0, pixels.shape[1], AT_ONCE):
        some = np.s_[:, first : first + AT_ONCE]
        steps = _steps(pixels[some], transfer)
        # Without 'clip', which nothing needs, it takes longer.
        _encoded().take(steps, mode="clip", out=shown_pixels[some])
    return out


def _steps(rgb: NDArray[np.uint16], transfer: str) -> NDArray[np.uint16]:
    """(1, N, 3) the steps, 0 to STEPS - 1, of light of the colours (1, N, 3) in primaries of BT.709."""
    light = _decoded(transfer).take(rgb, mode="clip")  # 1 is white
    if transfer == "hlg":
        # On a screen contrast is more than in what the camera saw: by 1.2, of the brightness alone.
        scene = np.maximum(cv2.transform(light, LUMINANCE), 1e-6)
        light *= (scene**0.2)[:, :, None] * np.float32(SCREEN_NITS / WHITE_NITS)
    light = np.asarray(cv2.transform(light, FROM_BT2020), np.float32)
    most = SCREEN_NITS / WHITE_NITS
    return np.asarray(np.sqrt(np.clip(light, 0, most) / most) * (STEPS - 1), np.float32).astype(np.uint16)


@cache
def _decoded(transfer: str) -> NDArray[np.float32]:
    """(65,536,) light of each value: of PQ by white, of HLG in the scene, as a share of the brightest."""
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
    """(STEPS,) what a screen is sent for light from none to the brightest, by steps of its square root."""
    most = SCREEN_NITS / WHITE_NITS
    light = np.linspace(0, 1, STEPS) ** 2 * most
    # A hyperbola that leaves the knee at the slope of 1 and reaches white at the brightest.
    above = np.maximum(light - KNEE, 0) / (1 - KNEE)
    brightest = (most - KNEE) / (1 - KNEE)
    rolled = KNEE + (1 - KNEE) * above / (1 + above * (1 - 1 / brightest))
    seen = np.where(light <= KNEE, light, rolled)
    return np.rint(seen ** (1 / 2.4) * 255).astype(np.uint8)
