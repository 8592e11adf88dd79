"""Pixels of any depth enter; which of their values are black and which white, and pixels of 8 bits, leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage

_DEPTHS = (8, 10, 12, 14, 16)

Kind: TypeAlias = tuple[str, bool]
"""What numbers a picture holds (numpy's letter), and whether it has colours."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The values that are black and white in pictures of one origin, so that all of them are as bright.

    Colours keep their brightness: a photograph of 16 bits is what it is in 8. Grey ones of more bits are
    measurements (heat, depth) that use a part of the range, and are stretched over all of it.

    Attributes:
        ranges: black and white of pictures of each kind that was seen.
    """

    ranges: Mapping[Kind, tuple[float, float]]

    @classmethod
    def of(cls, pictures: Iterable[NDArray[Any]]) -> Levels:
        """Those of pictures (H, W) or (H, W, C); what holds values that are no numbers is passed over."""
        ends: dict[Kind, tuple[float, float]] = {}
        for picture in pictures:
            low, high = float(picture.min()), float(picture.max())
            if np.isfinite(low) and np.isfinite(high):
                before = ends.get(_kind(picture), (low, high))
                ends[_kind(picture)] = min(low, before[0]), max(high, before[1])
        return cls({kind: _range(kind, *found) for kind, found in ends.items()})

    def eight_bits(self, picture: NDArray[Any], name: str) -> NDArray[np.uint8]:
        """Pixels of 0 to 255 from those of any depth; what lies outside of the range is black or white.

        A picture of a kind that was not seen has levels of its own.

        Raises:
            BadImage: it holds values that are no numbers.
        """
        if picture.dtype == np.uint8:
            return np.asarray(picture, np.uint8)
        own = Levels.of([picture])
        if not own.ranges:
            raise BadImage(f"{name} holds values that are not numbers (NaN or infinite)")
        low, high = {**own.ranges, **self.ranges}[_kind(picture)]
        # In single precision: double takes 16 times the memory of the result.
        even = np.subtract(picture, low, dtype=np.float32)
        even *= 255 / (high - low) if high > low else 0
        return np.rint(np.clip(even, 0, 255, out=even), out=even).astype(np.uint8)


def own_eight_bits(picture: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Pixels of 0 to 255 from those of any depth, by the levels of the picture alone; BadImage as above."""
    return Levels({}).eight_bits(picture, name)


def _kind(picture: NDArray[Any]) -> Kind:
    return picture.dtype.kind, picture.ndim == 3


def _range(kind: Kind, low: float, high: float) -> tuple[float, float]:
    numbers, coloured = kind
    if numbers == "u" and coloured:
        bits = int(high).bit_length()
        return 0, (1 << next((depth for depth in _DEPTHS if depth >= bits), 32)) - 1
    if numbers == "f" and low >= 0 and high <= 1:
        return 0, 1
    return low, high
