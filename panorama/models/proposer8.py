"""The proposer's folded network and the ranges of its layers enter; the same network in 8 bits leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from panorama.models import proposer_net
from panorama.models.quantized import FLOAT, Conv8, Residual8, Scales, Stem8, go_on
from panorama.models.ranges import Ranges

KINDS: tuple[type[nn.Module], ...] = (proposer_net.ConvUnit, proposer_net.Bottleneck)
"""The layers whose ranges are measured."""


class CrossStage8:
    """Half of the channels through bottlenecks, half around them, and both joined.

    Args:
        name: of the module in its network.
        stage: folded.
        scale_in: what a byte of the input stands for.
        scale_of: of each layer by name.

    Attributes:
        scale_out: what a byte of the output stands for.
    """

    def __init__(self, name: str, stage: proposer_net.CrossStage, scale_in: float, scale_of: Scales) -> None:
        scale = scale_of(f"{name}.through")
        self._through = Conv8(stage.through.conv, scale_in, scale)
        self._blocks: list[Residual8] = []
        for place, block in enumerate(stage.blocks):
            assert isinstance(block, proposer_net.Bottleneck)
            inner = f"{name}.blocks.{place}"
            middle, after = scale_of(f"{inner}.first"), scale_of(inner)
            convs = [Conv8(block.first.conv, scale, middle), Conv8(block.second.conv, middle, after)]
            self._blocks.append(Residual8(convs, scale))
            scale = after
        around = scale_of(f"{name}.around")
        self._around = Conv8(stage.around.conv, scale_in, around)
        self.scale_out = scale_of(f"{name}.join")
        self._join = Conv8(_of_one_scale(stage.join.conv, scale, around), scale, self.scale_out)

    def __call__(self, x: Tensor, rest: Callable[[], None]) -> Tensor:
        """(B, width, H, W) bytes to as many; `rest` is called before each layer."""
        inner = self._through(x)
        for block in self._blocks:
            rest()
            inner = block(inner)
        rest()
        return self._join(torch.cat([inner, self._around(x)], 1))


def _of_one_scale(join: nn.Conv2d, through: float, around: float) -> nn.Conv2d:
    """The convolution of both halves as if a byte of the second stood for what one of the first does.

    What went through several sums is many times larger than what went around them. One scale for both would
    leave the second a few bytes; instead its weights bear the ratio.
    """
    half = join.in_channels // 2
    scaled = nn.Conv2d(join.in_channels, join.out_channels, 1)
    scaled.weight.data = join.weight.detach().float().clone()
    scaled.weight.data[:, half:] *= around / through
    assert join.bias is not None
    scaled.bias = nn.Parameter(join.bias.detach().float().clone())
    return scaled


class Proposer8:
    """The proposer's network: pictures (B, H, W, 3) of bytes to logits and boxes.

    Args:
        net: folded; its heads' last products in float32.
        zero, spread: the pixel value that is nothing, and by what the network divides.
        ranges: of its layers.

    Attributes:
        rest: called before each layer of the trunk, which is nearly all of the work, and before each head.

    Raises:
        KeyError: the ranges lack a layer.
    """

    def __init__(self, net: proposer_net.ProposerNet, zero: float, spread: float, ranges: Ranges) -> None:
        scale_of = Scales(ranges)
        self._net = net
        self.rest: Callable[[], None] = go_on
        self._own: Any = net.heads
        ones = torch.ones(3)
        scale = scale_of("stem")
        self._stem = Stem8(net.stem.conv, zero * ones, spread * ones, scale)
        self._stages: list[list[Conv8 | CrossStage8]] = []
        scales: list[float] = []
        stages: Any = net.stages
        for number, stage in enumerate(stages):
            layers: list[Conv8 | CrossStage8] = []
            for place, module in enumerate(stage):
                name = f"stages.{number}.{place}"
                if isinstance(module, proposer_net.CrossStage):
                    layers.append(CrossStage8(name, module, scale, scale_of))
                else:
                    layers.append(Conv8(module.conv, scale, scale_of(name)))
                scale = layers[-1].scale_out
            self._stages.append(layers)
            scales.append(scale)
        narrow, joined = scale_of("context.narrow"), scale_of("context.join")
        self._narrow = Conv8(net.context.narrow.conv, scale, narrow)
        self._join = Conv8(net.context.join.conv, narrow, joined)
        laterals: Any = net.laterals
        smoothing: Any = net.smooth
        heads: Any = net.heads
        scales = [*scales[1:-1], joined]
        # Levels are added up: all have the scale of the largest sum.
        sums = ["settle:in", *(f"smooth.{level}:in" for level in range(len(scales)))]
        shared = max(scale_of(name) for name in sums)
        self._laterals = [Conv8(u.conv, s, shared) for u, s in zip(laterals, scales, strict=True)]
        self._settle = Conv8(net.settle.conv, shared, shared)
        smooth = [scale_of(f"smooth.{level}") for level in range(len(scales))]
        self._smooth = [Conv8(u.conv, shared, s) for u, s in zip(smoothing, smooth, strict=True)]
        ascend: Any = net.ascend
        self._ascend = [Conv8(u.conv, s, shared) for u, s in zip(ascend, smooth, strict=False)]
        self._towers = [
            (Conv8(head.score_tower.conv, s, FLOAT), Conv8(head.box_tower.conv, s, FLOAT))
            for head, s in zip(heads, smooth, strict=True)
        ]

    def __call__(self, pictures: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        """Logits (B, N) and boxes (B, N, 4); see `ProposerNet.forward`."""
        x = self._stem(pictures)
        trunk = []
        for layers in self._stages:
            for layer in layers:
                self.rest()
                x = layer(x, self.rest) if isinstance(layer, CrossStage8) else layer(x)
            trunk.append(x)
        levels = [*trunk[1:-1], self._join(_pooled(self._narrow(trunk[-1])))]
        inner = [lateral(level) for lateral, level in zip(self._laterals, levels, strict=True)]
        inner[1] = self._settle(_added(inner[1], proposer_net.doubled(inner[2])))
        inner[0] = _added(inner[0], proposer_net.doubled(inner[1]))
        raw, shapes = [], []
        finer = inner[0]
        for level, (head, towers) in enumerate(zip(self._own, self._towers, strict=True)):
            self.rest()
            p = inner[level]
            if level:
                p = _added(p, self._ascend[level - 1](finer))
            p = finer = self._smooth[level](p)
            shapes.append((p.shape[2], p.shape[3]))
            raw.append(head.outputs(*(tower(p) for tower in towers)))
        return self._net.boxes_of(torch.cat(raw, 1), shapes)


def _pooled(x: Tensor) -> Tensor:
    """A map of bytes (B, C, H, W) beside its largest values in 5 x 5, 9 x 9 and 13 x 13: (B, 4 C, H, W)."""
    inner = x.permute(0, 2, 3, 1).numpy()  # (B, H, W, C), as it lies in memory
    count, height, width, channels = inner.shape
    parts = np.empty((count, height, width, 4, channels), np.uint8)
    parts[..., 0, :] = inner
    for number in range(1, 4):
        parts[..., number, :] = _largest(_largest(parts[..., number - 1, :], 1), 2)
    return torch.from_numpy(parts.reshape(count, height, width, -1)).permute(0, 3, 1, 2)


def _largest(values: NDArray[np.uint8], axis: int) -> NDArray[np.uint8]:
    """The largest of five neighbours along an axis; torch pools no maps of bytes of more than 127 points."""
    padding = [(0, 0)] * values.ndim
    padding[axis] = (2, 2)
    padded = np.moveaxis(np.pad(values, padding), axis, 0)  # zero is least
    out = padded[:-4]
    for shift in range(1, 5):
        out = np.maximum(out, padded[shift : len(padded) - 4 + shift])
    return np.moveaxis(out, 0, axis)


def _added(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two maps of bytes of the same scale, which stops at 255."""
    first, second = (x.permute(0, 2, 3, 1).contiguous().numpy().reshape(-1, x.shape[1]) for x in (a, b))
    total = torch.from_numpy(np.asarray(cv2.add(first, second)))
    return total.reshape(a.shape[0], a.shape[2], a.shape[3], a.shape[1]).permute(0, 3, 1, 2)
