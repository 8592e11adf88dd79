"""The proposer's tensors and the ranges of its layers come in; its network in 8 bits goes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.models.folded import Floats, Tensors
from panorama.models.graph8 import (
    Layers,
    Network8,
    Node,
    added,
    doubled,
    floating_conv,
    joined,
    pooled,
    residual,
)
from panorama.models.points import SPREAD, STRIDES, ZERO
from panorama.models.proposer_shape import Shape
from panorama.models.ranges import Ranges

PIECE = 4
"""Pictures per call. More would save 5 % of the network's time, but a query would wait longer for the CPU."""


OWN_AFTER = 200
"""Full pieces of one size that justify compiling a network for it: 0.25 s once, to save 1.2 ms per piece."""


class Proposer8:
    """The proposer's network in 8 bits: pictures (B, H, W, 3) uint8 to the outputs of its heads.

    Args:
        shape: of the network.
        tensors: as trained.
        ranges: of its layers.

    Raises:
        ModelError: the tensors do not belong to such a network.
        KeyError: the ranges lack a layer.
    """

    def __init__(self, shape: Shape, tensors: Tensors, ranges: Ranges) -> None:
        weights = _read(shape, tensors)
        border = np.full(3, round(ZERO), np.uint8)
        self._network = Network8(partial(_build, shape, weights), ranges, border, 1, PIECE, OWN_AFTER)
        self._network.check()

    def __call__(self, pictures: NDArray[np.uint8]) -> Floats:
        """(B, N, 5): objectness logit and log distances of all points, finest level first; see `points`."""
        levels = self._network(pictures)
        return np.concatenate([x.reshape(*x.shape[:2], -1) for x in levels], 2).transpose(0, 2, 1)

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function to call before each piece of a batch."""
        self._network.rest = rest


Weights = dict[str, tuple[Floats, Floats]]
"""Layer name -> its weight (out, in, k, k) and its bias (out,)."""


def _read(shape: Shape, tensors: Tensors) -> Weights:
    """All layers of the network, with batch norms merged."""
    found: Weights = {}

    def unit(name: str, inputs: int, outputs: int, size: int = 3) -> None:
        found[name] = tensors.conv(f"{name}.conv", f"{name}.norm", inputs, outputs, size)

    stem, *stages = shape.widths
    unit("stem", 3, stem)
    for number, (before, width, depth) in enumerate(zip(shape.widths, stages, shape.depths, strict=False)):
        unit(f"stages.{number}.0", before, width)
        if depth:
            stage, half = f"stages.{number}.1", width // 2
            unit(f"{stage}.through", width, half, 1)
            unit(f"{stage}.around", width, half, 1)
            for block in range(depth):
                unit(f"{stage}.blocks.{block}.first", half, half, 1)
                unit(f"{stage}.blocks.{block}.second", half, half)
            unit(f"{stage}.join", 2 * half, width, 1)
    deep = stages[-1]
    unit("context.narrow", deep, deep // 2, 1)
    unit("context.join", deep // 2 * 4, deep, 1)
    unit("settle", shape.pyramid[1], shape.pyramid[1])
    for level, (fine, coarse) in enumerate(pairwise(shape.pyramid)):
        if fine != coarse:
            unit(f"descend.{level}", coarse, fine, 1)
        unit(f"ascend.{level}", fine, coarse)
    for level, (width, pyramid) in enumerate(zip(stages[1:], shape.pyramid, strict=True)):
        unit(f"laterals.{level}", width, pyramid, 1)
        unit(f"smooth.{level}", pyramid, pyramid)
        head = f"heads.{level}"
        unit(f"{head}.score_tower", pyramid, pyramid)
        unit(f"{head}.box_tower", pyramid, pyramid)
        for part, outputs in (("score", 1), ("box", 4)):
            weight = tensors.take(f"{head}.{part}.weight", outputs, pyramid, 1, 1)
            found[f"{head}.{part}"] = weight, tensors.take(f"{head}.{part}.bias", outputs)
    tensors.check_all_used()
    return found


def _build(shape: Shape, weights: Weights, layers: Layers, pictures: Node) -> list[Node]:
    """The output of each level's head, (B, 5, h, w), from pictures with their border."""

    def unit(x: Node, name: str, stride: int = 1, to: str | None = None) -> Node:
        """A layer, rounded to its own bytes or to those of layer `to`."""
        return layers.to_bytes(layers.conv(x, *weights[name], stride), name if to is None else to)

    ones = np.ones(3, np.float32)
    x = layers.stem(pictures, *weights["stem"], 2, ZERO * ones, SPREAD * ones)
    x = layers.to_bytes(x, "stem")
    trunk = []
    for number, depth in enumerate(shape.depths):
        x = unit(x, f"stages.{number}.0", 2)
        if depth:
            x = _cross_stage(f"stages.{number}.1", depth, weights, layers, x)
        trunk.append(x)
    parts = [unit(trunk[-1], "context.narrow")]
    for _ in range(3):
        parts.append(pooled(parts[-1]))
    trunk[-1] = unit(joined(parts), "context.join")
    return _pyramid(weights, layers, trunk[1:], unit)


def _cross_stage(stage: str, depth: int, weights: Weights, layers: Layers, x: Node) -> Node:
    """Half of the channels through bottlenecks, half around them, then both joined."""
    largest = f"{stage}.through"
    inner = layers.to_bytes(layers.conv(x, *weights[largest]), largest)
    for number in range(depth):
        block = f"{stage}.blocks.{number}"
        first = f"{block}.first"
        middle = layers.to_bytes(layers.conv(inner, *weights[first]), first)
        change = layers.conv(middle, *weights[f"{block}.second"], relu=False)
        inner, largest = layers.to_bytes(residual(inner, change), block), block
    # What went through several sums is many times larger than what went around them. With one scale for
    # both, the latter would keep only a few byte values. So it is rounded on its own scale, its bytes are
    # taken for values on the larger scale, and its weights in `join` shrink by the same factor.
    through, around = layers.range_of(largest), layers.range_of(f"{stage}.around")
    beside = layers.conv(x, *weights[f"{stage}.around"])
    beside = layers.to_bytes(beside, f"{stage}.around", stands_for=through)
    weight, bias = weights[f"{stage}.join"]
    weight = weight.copy()
    weight[:, weight.shape[1] // 2 :] *= around / through
    return layers.to_bytes(layers.conv(joined([inner, beside]), weight, bias), f"{stage}.join")


def _pyramid(weights: Weights, layers: Layers, trunk: Sequence[Node], unit: Any) -> list[Node]:
    """The output of each head, from the trunk's maps at strides 8, 16 and 32."""
    # Levels are added to each other, so all of them use the scale of the largest sum.
    sums = ["settle:in", *(f"smooth.{level}:in" for level in range(len(STRIDES)))]
    shared = max(sums, key=layers.range_of)
    inner = [unit(x, f"laterals.{level}", to=shared) for level, x in enumerate(trunk)]

    def handed_down(level: int) -> Node:
        """A level's map plus the map passed down from the coarser level."""
        down, name = inner[level + 1], f"descend.{level}"
        if name in weights:  # their channels differ
            down = unit(down, name, to=shared)
        return layers.to_bytes(added(inner[level], doubled(down)), shared)

    inner[1] = unit(handed_down(1), "settle", to=shared)
    inner[0] = handed_down(0)
    said = []
    finer: Node = None
    for level, x in enumerate(inner):
        if level:
            x = layers.to_bytes(added(x, unit(finer, f"ascend.{level - 1}", 2, to=shared)), shared)
        finer = unit(x, f"smooth.{level}")
        head = f"heads.{level}"
        score = layers.conv(finer, *weights[f"{head}.score_tower"])
        box = layers.conv(finer, *weights[f"{head}.box_tower"])
        both = [floating_conv(score, *weights[f"{head}.score"]), floating_conv(box, *weights[f"{head}.box"])]
        said.append(joined(both))
    return said
