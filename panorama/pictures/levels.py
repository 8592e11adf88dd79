"""Pixels of any depth come in; the values of black and white, and pixels of 8 bits, go out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage

_DEPTHS = (8, 10, 12, 14, 16)

Kind: TypeAlias = tuple[str, bool]
"""Type of a picture's numbers (numpy's letter), and whether it has several channels."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The black and white values of pictures from one source, shared so that all are equally bright.

    Colour pictures keep their brightness: a 16-bit photograph looks the same in 8 bits. Grey pictures of more
    than 8 bits are measurements (heat, depth) that use only part of the range; they are stretched.

    Attributes:
        ranges: black and white for each kind of picture seen.
    """

    ranges: Mapping[Kind, tuple[float, float]]

    @classmethod
    def of(cls, pictures: Iterable[NDArray[Any]]) -> Levels:
        """The levels of pictures (H, W) or (H, W, C); ignores those that contain NaN or infinity."""
        ends: dict[Kind, tuple[float, float]] = {}
        for picture in pictures:
            low, high = float(picture.min()), float(picture.max())
            if np.isfinite(low) and np.isfinite(high):
                before = ends.get(_kind(picture), (low, high))
                ends[_kind(picture)] = min(low, before[0]), max(high, before[1])
        return cls({kind: _range(kind, *found) for kind, found in ends.items()})

    def eight_bits(self, picture: NDArray[Any], name: str) -> NDArray[np.uint8]:
        """Convert pixels of any depth to 0 to 255; values outside of the range become black or white.

        A picture of a kind not seen before gets levels of its own.

        Args:
            name: names the picture in the error.

        Raises:
            BadImage: it contains NaN or infinity.
        """
        if picture.dtype == np.uint8:
            return np.asarray(picture, np.uint8)
        own = Levels.of([picture])
        if not own.ranges:
            raise BadImage(f"{name} holds values that are not numbers (NaN or infinite)")
        low, high = {**own.ranges, **self.ranges}[_kind(picture)]
        # Single precision is enough; double with its copies would take 16 times the memory of the result.
        even = np.subtract(picture, low, dtype=np.float32)
        even *= 255 / (high - low) if high > low else 0
        return np.rint(np.clip(even, 0, 255, out=even), out=even).astype(np.uint8)


def own_eight_bits(picture: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Convert pixels of any depth to 0 to 255 by the picture's own levels; raises BadImage as above."""
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
