"""A folded network and the ranges of its layers enter; the same network in arithmetic of 8 bits leaves.

Every value between layers is at least 0, because every layer ends in a ReLU: a value is a byte times the
layer's scale, and zero is byte 0. Weights are signed bytes with one scale for each output channel, sums are
exact, and the last products, from which vectors and boxes come, stay in float32. The pictures themselves are
bytes already: their normalisation is part of the first layer's weights and loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from panorama.models import network, proposer_net
from panorama.models.late import EXITS
from panorama.models.ranges import Ranges

BYTE = 255
KINDS: tuple[type[nn.Module], ...] = (
    network.ConvNorm,
    network.Residual,
    proposer_net.ConvUnit,
    proposer_net.Bottleneck,
)
"""The layers whose ranges are measured."""

FLOAT = 0.0
"""The scale of a layer whose output stays in float32."""


@cache
def largest_weight() -> int:
    """127, or 63 where the processor's sums of two products of bytes stop at 32,767.

    Processors with AVX2 and without VNNI add two products in 16 bits: 2 * 255 * 127 is too much for that.
    """
    x = torch.full((1, 64, 8, 8), BYTE, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    ones = nn.Conv2d(64, 64, 3)
    ones.weight.data.fill_(1.0)
    assert ones.bias is not None
    ones.bias.data.zero_()
    exact = 64 * 9 * BYTE
    found = Conv8(ones, 1.0, FLOAT, most=127)(x)
    return 127 if bool(torch.allclose(found, torch.full_like(found, exact), rtol=1e-3)) else 63


class Conv8:
    """One convolution with its ReLU.

    Args:
        conv: normalisation folded in.
        scale_in: what a byte of the input stands for.
        scale_out: what a byte of the output stands for; FLOAT keeps float32.
        relu: whether values below zero become zero; bytes need it.
        most: largest weight in bytes; None for what the processor bears.
    """

    def __init__(
        self,
        conv: nn.Conv2d,
        scale_in: float,
        scale_out: float,
        relu: bool = True,
        most: int | None = None,
    ) -> None:
        most = largest_weight() if most is None else most
        weight = conv.weight.detach().float()  # (out, in, k, k)
        self.scales = (weight.abs().amax((1, 2, 3)) / most).clamp_min(1e-8)  # (out,)
        self.weight = (weight / self.scales[:, None, None, None]).round().clamp(-most, most)
        self.bias = conv.bias.detach().float() if conv.bias is not None else torch.zeros(len(weight))
        self.scale_in, self.scale_out = scale_in, scale_out
        self._zero = torch.zeros(len(weight), dtype=torch.int64)
        self._stride, self._pad = list(conv.stride), [int(p) for p in conv.padding]
        self._how = "relu" if relu else "none"
        self._packed: tuple[torch.Size, Tensor] | None = None

    def _weights(self, x: Tensor) -> Tensor:
        """In the order that the kernel for such an input wants; else it would reorder them at every call."""
        if self._packed is None or self._packed[0] != x.shape[2:]:
            packed = torch.ops.onednn.qconv_prepack(
                self.weight.to(torch.int8), self.scales, self.scale_in, 0, self._stride, self._pad, [1, 1], 1,
                list(x.shape),
            )  # fmt: skip
            self._packed = x.shape[2:], packed
        return self._packed[1]

    def __call__(self, x: Tensor) -> Tensor:
        """(B, in, H, W) bytes, channels last, to (B, out, H', W') bytes or float32."""
        kind = torch.uint8 if self.scale_out else torch.float32
        return torch.ops.onednn.qconv_pointwise(
            x, self.scale_in, 0, self._weights(x), self.scales, self._zero, self.bias, self._stride,
            self._pad, [1, 1], 1, self.scale_out or 1.0, 0, kind, self._how, [], "",
        )  # fmt: skip

    def onto(self, x: Tensor, shortcut: Tensor, scale_shortcut: float, over: bool = False) -> Tensor:
        """relu(convolution + shortcut), all in bytes; with `over` it is written over the shortcut."""
        shortcut = shortcut if over else shortcut.clone()
        return torch.ops.onednn.qconv2d_pointwise.binary(
            x, self.scale_in, 0, self._weights(x), self.scales, self._zero, shortcut, self.bias,
            self._stride, self._pad, [1, 1], 1, self.scale_out, 0, torch.uint8, scale_shortcut, 0, "sum", 1.0,
            "relu", [], "",
        )  # fmt: skip


class Stem8:
    """The first layer, on pictures of bytes that were not normalised.

    Args:
        conv: the layer as it works on (pixel - zero) / spread.
        zero, spread: (3,) of each channel, in pixel values.
        scale_out: what a byte of the output stands for.
    """

    def __init__(self, conv: nn.Conv2d, zero: Tensor, spread: Tensor, scale_out: float) -> None:
        inner = nn.Conv2d(3, conv.out_channels, conv.kernel_size[0], conv.stride[0])
        inner.weight.data = conv.weight.detach().float() / spread.reshape(1, 3, 1, 1)
        assert conv.bias is not None
        inner.bias = nn.Parameter(conv.bias.detach().float().clone())
        self._conv = Conv8(inner, 1.0, scale_out)
        used = self._conv.weight * self._conv.scales[:, None, None, None]
        # What the weights as rounded make of a picture that is zero everywhere has to come out as nothing.
        self._conv.bias = self._conv.bias - (used.sum((2, 3)) * zero).sum(1)
        self._pad = int(conv.padding[0])
        self._border = zero.round().to(torch.uint8).numpy()

    def __call__(self, pictures: NDArray[np.uint8]) -> Tensor:
        """(B, H, W, 3) bytes to (B, out, H', W') bytes, channels last."""
        count, height, width, _ = pictures.shape
        pad = self._pad
        padded = np.empty((count, height + 2 * pad, width + 2 * pad, 3), np.uint8)
        padded[:, pad : pad + height, pad : pad + width] = pictures
        # The border alone: to fill all of it, three bytes at a time, takes longer than the convolution.
        padded[:, :pad], padded[:, pad + height :] = self._border, self._border
        padded[:, :, :pad], padded[:, :, pad + width :] = self._border, self._border
        return self._conv(torch.from_numpy(padded).permute(0, 3, 1, 2))


class Residual8:
    """relu(x + f(x)), f of one or two convolutions; it is written over x."""

    def __init__(self, layers: Sequence[Conv8], scale_in: float) -> None:
        self._layers = layers
        self._scale_in = scale_in

    def __call__(self, x: Tensor) -> Tensor:
        y = x
        for layer in self._layers[:-1]:
            y = layer(y)
        # Written over x, which nothing needs any more, unless it is also what is convolved.
        return self._layers[-1].onto(y, x, self._scale_in, over=y is not x)


class _Scales:
    """What a byte stands for behind each layer."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def __call__(self, name: str) -> float:
        return self._ranges[name] / BYTE


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

    def __init__(self, name: str, stage: proposer_net.CrossStage, scale_in: float, scale_of: _Scales) -> None:
        scale = scale_of(f"{name}.through")
        self._through = Conv8(stage.through.conv, scale_in, scale)
        # What is joined lies side by side in one map of bytes, so both halves have one scale: the larger.
        last = f"{name}.blocks.{len(stage.blocks) - 1}"
        shared = max(scale_of(f"{name}.around"), scale_of(last))
        self._blocks: list[Residual8] = []
        for place, block in enumerate(stage.blocks):
            assert isinstance(block, proposer_net.Bottleneck)
            inner, after = f"{name}.blocks.{place}", shared
            if place < len(stage.blocks) - 1:
                after = scale_of(inner)
            middle = scale_of(f"{inner}.first")
            convs = [Conv8(block.first.conv, scale, middle), Conv8(block.second.conv, middle, after)]
            self._blocks.append(Residual8(convs, scale))
            scale = after
        self._around = Conv8(stage.around.conv, scale_in, shared)
        self.scale_out = scale_of(f"{name}.join")
        self._join = Conv8(stage.join.conv, shared, self.scale_out)

    def __call__(self, x: Tensor) -> Tensor:
        inner = self._through(x)
        for block in self._blocks:
            inner = block(inner)
        return self._join(torch.cat([inner, self._around(x)], 1))


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
        scale_of = _Scales(ranges)
        self._stages: list[list[Stem8 | Conv8 | Residual8]] = []
        self._heads: list[list[Conv8]] = []
        self._trunk = trunk
        self.rest: Callable[[], None] = _go_on
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
        scale_of = _Scales(ranges)
        self._net = net
        self.rest: Callable[[], None] = _go_on
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
                x = layer(x)
            trunk.append(x)
        levels = [*trunk[1:-1], self._join(_pooled(self._narrow(trunk[-1])))]
        inner = [lateral(level) for lateral, level in zip(self._laterals, levels, strict=True)]
        inner[1] = self._settle(_added(inner[1], _doubled(inner[2])))
        inner[0] = _added(inner[0], _doubled(inner[1]))
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


def _go_on() -> None:
    """Nobody has to be waited for."""


def _residual(
    name: str,
    convs: Sequence[nn.Conv2d],
    scale_in: float,
    scale_of: _Scales,
    names: Sequence[str] = ("layers.0", "layers.1"),
) -> Residual8:
    layers, before = [], scale_in
    for conv, inner in zip(convs[:-1], names, strict=False):
        after = scale_of(f"{name}.{inner}")
        layers.append(Conv8(conv, before, after))
        before = after
    return Residual8([*layers, Conv8(convs[-1], before, scale_of(name))], scale_in)


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


def _doubled(x: Tensor) -> Tensor:
    """A map at twice its height and width."""
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def _added(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two maps of bytes of the same scale, which stops at 255."""
    first, second = (x.permute(0, 2, 3, 1).contiguous().numpy().reshape(-1, x.shape[1]) for x in (a, b))
    total = torch.from_numpy(np.asarray(cv2.add(first, second)))
    return total.reshape(a.shape[0], a.shape[2], a.shape[3], a.shape[1]).permute(0, 3, 1, 2)
