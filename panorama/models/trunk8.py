"""The embedder's folded trunk and the ranges of its layers enter; the same trunk in 8 bits leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from panorama.models import network
from panorama.models.late import EXITS
from panorama.models.quantized import FLOAT, Conv8, Residual8, Scales, Stem8, go_on
from panorama.models.ranges import Ranges

KINDS: tuple[type[nn.Module], ...] = (network.ConvNorm, network.Residual)
"""The layers whose ranges are measured."""


class Trunk8:
    """PanoramaNet's trunk: pictures (B, side, side, 3) of bytes to unit vectors.

    Args:
        trunk: folded.
        mean, std: (3,) of the normalisation, in shares of 255.
        ranges: of its layers.

    Attributes:
        rest: called before each layer.

    Raises:
        KeyError: the ranges lack a layer.
    """

    def __init__(self, trunk: network.Trunk, mean: Tensor, std: Tensor, ranges: Ranges) -> None:
        scale_of = Scales(ranges)
        self._stages: list[list[Stem8 | Conv8 | Residual8]] = []
        self._heads: list[list[Conv8]] = []
        self._trunk = trunk
        self.rest: Callable[[], None] = go_on
        self._own: Any = trunk.heads
        scale = 1.0
        stages: Any = trunk.stages
        heads: Any = trunk.heads
        for number, stage in enumerate(stages):
            layers: list[Stem8 | Conv8 | Residual8] = []
            for place, module in enumerate(stage):
                name = f"stages.{number}.{place}"
                if isinstance(module, network.Residual):
                    units: Any = module.layers
                    layers.append(_residual(name, [unit[0] for unit in units], scale, scale_of))
                elif not self._stages and not layers:  # the first of all sees pictures
                    layers.append(Stem8(module[0], mean * 255, std * 255, scale_of(name)))
                else:
                    layers.append(Conv8(module[0], scale, scale_of(name)))
                scale = scale_of(name)
            self._stages.append(layers)
            down, widen, convs = heads[number].down, heads[number].widen, []
            before = scale
            if len(list(down.children())):  # else it hands its input on
                before = scale_of(f"heads.{number}.down")
                convs.append(Conv8(down[0], scale, before))
            self._heads.append([*convs, Conv8(widen[0], before, FLOAT)])

    def exits_out(self, pictures: NDArray[np.uint8], first: int = 1, last: int = EXITS) -> list[Tensor]:
        """Unit vectors (B, dim) of exits `first` to `last`; see `Trunk.exits_out`."""
        return self._trunk.summed(self._vectors(pictures, last), first)

    def _vectors(self, pictures: NDArray[np.uint8], last: int) -> Iterator[Tensor]:
        x: Tensor | NDArray[np.uint8] = pictures
        for layers, convs, head in zip(self._stages[:last], self._heads[:last], self._own, strict=False):
            for layer in layers:
                self.rest()
                x = layer(x)  # type: ignore[arg-type]
            y = x
            for conv in convs:
                self.rest()
                y = conv(y)  # type: ignore[arg-type]
            yield head.vectors(y)


def _residual(
    name: str,
    convs: Sequence[nn.Conv2d],
    scale_in: float,
    scale_of: Scales,
) -> Residual8:
    layers, before = [], scale_in
    for conv, inner in zip(convs[:-1], ("layers.0", "layers.1"), strict=False):
        after = scale_of(f"{name}.{inner}")
        layers.append(Conv8(conv, before, after))
        before = after
    return Residual8([*layers, Conv8(convs[-1], before, scale_of(name))], scale_in)
