"""A recipe's table about a proposer's network enters; how wide and deep that is, checked, leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from panorama.errors import ModelError
from panorama.models.points import STRIDES


@dataclass(frozen=True, slots=True)
class Shape:
    """How wide and deep a proposer's network is.

    Attributes:
        widths: channels at strides 2, 4, 8, 16 and 32.
        depths: bottlenecks at strides 4, 8, 16 and 32; 0 for none of the stage's other layers either.
        pyramid: channels of the pyramid and the heads at strides 8, 16 and 32; they do not fall.
    """

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    pyramid: tuple[int, ...]

    @classmethod
    def of(cls, table: Mapping[str, Any], what: str) -> Shape:
        """The shape that a recipe's table tells; its `pyramid` may be one number for all levels.

        Args:
            what: the recipe, as an error calls it.

        Raises:
            ModelError: it lacks them, or a network cannot have them.
        """
        try:
            widths, depths, pyramid = table["widths"], table["depths"], table["pyramid"]
        except KeyError as exc:
            raise ModelError(f"{what} lacks {exc}, which a proposer needs") from exc
        levels = [pyramid] * len(STRIDES) if isinstance(pyramid, int) else pyramid
        fit = (_are_numbers(widths, 5, 2), _are_numbers(depths, 4, 0), _are_numbers(levels, len(STRIDES), 1))
        if all(fit) and levels == sorted(levels):
            return cls(tuple(widths), tuple(depths), tuple(levels))
        raise ModelError(
            f"{what} has widths {widths!r}, depths {depths!r} and pyramid {pyramid!r}: a proposer has "
            "5 widths from 2, 4 depths from 0 and a pyramid from 1, one number or 3 that do not fall"
        )

    def holds(self, other: Shape) -> bool:
        """Whether it is at least as wide and deep everywhere."""
        mine, theirs = (x.widths + x.depths + x.pyramid for x in (self, other))
        return all(many >= few for many, few in zip(mine, theirs, strict=True))


def _are_numbers(values: Any, count: int, least: int) -> bool:
    """Whether a recipe's value is a list of so many whole numbers."""
    return (
        isinstance(values, list)
        and len(values) == count
        and all(isinstance(value, int) and value >= least for value in values)
    )
