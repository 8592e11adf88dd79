"""The embedder's tensors and the ranges of its layers enter; its trunk in 8 bits leaves."""

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
"""Crops at once. More gain 5 % of the network's time, and a question would wait for the processor."""


@dataclass(frozen=True, slots=True)
class Step:
    """One layer of the trunk: a convolution that halves the map, or some with a shortcut around them.

    Attributes:
        inner, outer: channels.
        depth: convolutions within the shortcut; 0 for the one that halves.
    """

    inner: int
    outer: int
    depth: int = 0


STAGES = (
    (Step(3, 32), Step(32, 32, 1), Step(32, 64), Step(64, 64, 1)),
    (Step(64, 64, 2), Step(64, 128), Step(128, 128, 2), Step(128, 128, 2)),
    (Step(128, 256), Step(256, 256, 2), Step(256, 256, 2), Step(256, 256, 2)),
)
"""As `network.Trunk` has them; the very first has 7 x 7 and takes every fourth point."""

STEM_SIZE, STEM_STRIDE = 7, 4
DOWN = 96
"""Channels of the first head, which halves its map before it widens it."""

WIDENED = (256, 384, 512)
"""Channels of each head before they are averaged."""


class Trunk8:
    """PanoramaNet's trunk: pictures (B, side, side, 3) of bytes to unit vectors.

    Args:
        tensors: as it was trained.
        dim: length of a vector.
        mean, std: (3,) of the normalisation, in shares of 255.
        ranges: of its layers.

    Raises:
        ModelError: the tensors are not those of such a trunk.
        KeyError: the ranges lack a layer.
    """

    def __init__(self, tensors: Tensors, dim: int, mean: Floats, std: Floats, ranges: Ranges) -> None:
        weights = _read(tensors, dim)
        self._centers = [tensors.take(f"heads.{number}.center", dim) for number in range(EXITS)]
        tensors.check_all_used()
        border = np.round(mean * 255).astype(np.uint8)
        # One network for each depth that is asked for: what lies deeper is not computed.
        builds = [partial(_build, weights, mean * 255, std * 255, last) for last in range(1, EXITS + 1)]
        self._networks = [Network8(build, ranges, border, STEM_SIZE // 2, PIECE) for build in builds]
        self._networks[-1].check()

    def exits_out(self, pictures: NDArray[np.uint8], first: int = 1, last: int = EXITS) -> list[Floats]:
        """Unit vectors (B, dim) of exits `first` to `last`: an exit's own and all before it, added."""
        found = []
        total = np.zeros((), np.float32)
        own = self._networks[last - 1](pictures)
        for number, (center, vectors) in enumerate(zip(self._centers, own, strict=False), 1):
            total = total + _unit(_unit(vectors) - center)
            if number >= first:
                found.append(_unit(total))
        return found

    def macs(self, side: int) -> tuple[int, ...]:
        """Multiply-adds of one picture up to and including each exit, shallower exits' heads included."""
        return tuple(network.products(side, side) for network in self._networks)

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Call this between pieces of a batch."""
        for network in self._networks:
            network.rest = rest


def _unit(x: Floats) -> Floats:
    """(B, dim) of unit length."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12), np.float32)


Weights = dict[str, tuple[Floats, Floats]]
"""Name of a layer -> its weight, (out, in, k, k) or (out, in) of the last, and its bias (out,)."""


def _convs() -> Iterator[tuple[str, int, int, int]]:
    """Name, channels before and behind, and size of every convolution."""
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
    """All layers, folded: the modules of each convolution are called 0, and its normalisation's 1."""
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
    """What each head projects, (B, dim), up to exit `last`."""
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
    """relu(x + f(x)), f of so many convolutions."""
    y = x
    for number in range(depth - 1):
        inner = f"{name}.layers.{number}"
        y = layers.to_bytes(layers.conv(y, *weights[inner]), inner)
    return residual(x, layers.conv(y, *weights[f"{name}.layers.{depth - 1}"], relu=False))
