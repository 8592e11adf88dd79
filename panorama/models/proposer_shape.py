"""A proposer's recipe comes in; the widths and depths of its network, checked, go out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panorama.errors import ModelError
from panorama.models.points import STRIDES


@dataclass(frozen=True, slots=True)
class Shape:
    """The widths and depths of a proposer's network.

    Attributes:
        widths: channels at strides 2, 4, 8, 16 and 32.
        depths: bottlenecks at strides 4, 8, 16 and 32; 0 also omits the stage's other layers after the first.
        pyramid: channels of the pyramid and the heads at strides 8, 16 and 32.
    """

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    pyramid: tuple[int, ...]

    @classmethod
    def of(cls, recipe: Mapping[str, Any], what: str) -> Shape:
        """The shape in a recipe's `network` table, where `pyramid` may be one number for all levels.

        Args:
            what: the name of the recipe in error messages.

        Raises:
            ModelError: the recipe lacks an entry, or has an invalid one.
        """
        try:
            table = recipe["network"]
            widths, depths, pyramid = table["widths"], table["depths"], table["pyramid"]
        except KeyError as exc:
            raise ModelError(f"{what} lacks {exc}, which a proposer needs") from exc
        levels = by_level(pyramid) if isinstance(pyramid, int) else pyramid
        fits = _are_numbers(widths, 5, 2), _are_numbers(depths, 4, 0), _are_numbers(levels, len(STRIDES), 1)
        if all(fits):
            return cls(tuple(widths), tuple(depths), tuple(levels))
        raise ModelError(
            f"{what} has widths {widths!r}, depths {depths!r} and pyramid {pyramid!r}: a proposer has "
            f"5 widths from 2, 4 depths from 0 and a pyramid from 1, one number or {len(STRIDES)}"
        )


def by_level(pyramid: int | Sequence[int]) -> tuple[int, ...]:
    """Channels of the pyramid at each stride, from one number for all or one for each."""
    return (pyramid,) * len(STRIDES) if isinstance(pyramid, int) else tuple(pyramid)


def _are_numbers(values: Any, count: int, least: int) -> bool:
    """Whether a recipe's value is a list of `count` whole numbers, each at least `least`."""
    return (
        isinstance(values, (list, tuple))
        and len(values) == count
        and all(isinstance(value, int) and value >= least for value in values)
    )
