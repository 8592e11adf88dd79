"""The embedder's tensors and the ranges of its layers come in; its trunk in 8 bits goes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from panorama.models.folded import Floats, Tensors
from panorama.models.graph8 import Layers, Network8, Node, floating_product, mean_of, residual
from panorama.models.late import EXITS
from panorama.models.ranges import Ranges

PIECE = 16
"""Crops per call. More would save 5 % of the network's time, but a query would wait longer for the CPU."""


@dataclass(frozen=True, slots=True)
class Step:
    """One layer of the trunk: a strided convolution, or convolutions with a shortcut around them.

    Attributes:
        inner, outer: channels before and after.
        depth: convolutions inside the shortcut; 0 for the strided one.
    """

    inner: int
    outer: int
    depth: int = 0


STAGES = (
    (Step(3, 32), Step(32, 32, 1), Step(32, 64), Step(64, 64, 1)),
    (Step(64, 64, 2), Step(64, 128), Step(128, 128, 2), Step(128, 128, 2)),
    (Step(128, 256), Step(256, 256, 2), Step(256, 256, 2), Step(256, 256, 2)),
)
"""The layers of `network.Trunk`; the very first has 7 x 7 weights and stride 4, see STEM_SIZE."""

STEM_SIZE, STEM_STRIDE = 7, 4
DOWN = 96
"""Channels of the first head after it halves its map and before it widens it."""

WIDENED = (256, 384, 512)
"""Channels of each head before averaging."""


class Trunk8:
    """PanoramaNet's trunk in 8 bits: pictures (B, side, side, 3) uint8 to unit vectors.

    Args:
        tensors: as trained.
        dim: length of a vector.
        mean, std: (3,) normalisation of the pixels, as fractions of 255.
        ranges: of its layers.

    Raises:
        ModelError: the tensors do not belong to such a trunk.
        KeyError: the ranges lack a layer.
    """

    def __init__(self, tensors: Tensors, dim: int, mean: Floats, std: Floats, ranges: Ranges) -> None:
        weights = _read(tensors, dim)
        self._centers = [tensors.take(f"heads.{number}.center", dim) for number in range(EXITS)]
        tensors.check_all_used()
        border = np.round(mean * 255).astype(np.uint8)
        # One network per depth: shallower queries compute no deeper layers.
        builds = [partial(_build, weights, mean * 255, std * 255, last) for last in range(1, EXITS + 1)]
        self._networks = [Network8(build, ranges, border, STEM_SIZE // 2, PIECE) for build in builds]
        self._networks[-1].check()

    def exits_out(self, pictures: NDArray[np.uint8], first: int = 1, last: int = EXITS) -> list[Floats]:
        """Unit vectors (B, dim) of exits `first` to `last`: an exit's own plus all before it."""
        found = []
        total = np.zeros((), np.float32)
        own = self._networks[last - 1](pictures)
        for number, (center, vectors) in enumerate(zip(self._centers, own, strict=False), 1):
            total = total + _unit(_unit(vectors) - center)
            if number >= first:
                found.append(_unit(total))
        return found

    def macs(self, side: int) -> tuple[int, ...]:
        """Multiply-adds of one picture up to and including each exit, with the heads of shallower exits."""
        return tuple(network.products(side, side) for network in self._networks)

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function to call before each piece of a batch."""
        for network in self._networks:
            network.rest = rest


def _unit(x: Floats) -> Floats:
    """Vectors (B, dim) scaled to unit length."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12), np.float32)


Weights = dict[str, tuple[Floats, Floats]]
"""Layer name -> its weight, (out, in, k, k) or, for a projection, (out, in), and its bias (out,)."""


def _convs() -> Iterator[tuple[str, int, int, int]]:
    """Name, input channels, output channels and size of every convolution."""
    for stage, steps in enumerate(STAGES):
        for place, step in enumerate(steps):
            name = f"stages.{stage}.{place}"
            if not step.depth:
                yield name, step.inner, step.outer, 3 if stage or place else STEM_SIZE
            for inner in range(step.depth):
                yield f"{name}.layers.{inner}", step.inner, step.outer, 3
        before, wide = steps[-1].outer, WIDENED[stage]
        if not stage:
            yield "heads.0.down", before, DOWN, 3
        yield f"heads.{stage}.widen", before if stage else DOWN, wide, 1


def _read(tensors: Tensors, dim: int) -> Weights:
    """All layers, with norms merged: in each unit the convolution is module 0 and its norm module 1."""
    found = {
        name: tensors.conv(f"{name}.0", f"{name}.1", inner, outer, size)
        for name, inner, outer, size in _convs()
    }
    for number, wide in enumerate(WIDENED):
        last = f"heads.{number}.project"
        found[last] = tensors.take(f"{last}.weight", dim, wide), tensors.take(f"{last}.bias", dim)
    return found


def _build(
    weights: Weights, zero: Floats, spread: Floats, last: int, layers: Layers, pictures: Node
) -> list[Node]:
    """The projection of each head, (B, dim), up to exit `last`."""
    x, projected = pictures, []
    for stage, steps in enumerate(STAGES[:last]):
        for place, step in enumerate(steps):
            name = f"stages.{stage}.{place}"
            if not stage and not place:
                change = layers.stem(x, *weights[name], STEM_STRIDE, zero, spread)
            elif not step.depth:
                change = layers.conv(x, *weights[name], 2)
            else:
                change = _within_shortcut(name, step.depth, weights, layers, x)
            x = layers.to_bytes(change, name)
        y = x
        if not stage:
            y = layers.to_bytes(layers.conv(y, *weights["heads.0.down"], 2), "heads.0.down")
        wide = layers.conv(y, *weights[f"heads.{stage}.widen"])
        projected.append(floating_product(mean_of(wide), *weights[f"heads.{stage}.project"]))
    return projected


def _within_shortcut(name: str, depth: int, weights: Weights, layers: Layers, x: Node) -> Node:
    """relu(x + f(x)), where f is `depth` convolutions."""
    y = x
    for number in range(depth - 1):
        inner = f"{name}.layers.{number}"
        y = layers.to_bytes(layers.conv(y, *weights[inner]), inner)
    return residual(x, layers.conv(y, *weights[f"{name}.layers.{depth - 1}"], relu=False))
