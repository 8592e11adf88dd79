"""Folded convolutions and the ranges of their values enter; the same layers in arithmetic of 8 bits leave.

Every value between layers is at least 0, because every layer ends in a ReLU: a value is a byte times the
layer's scale, and zero is byte 0. Weights are signed bytes with one scale for each output channel, sums are
exact, and the last products, from which vectors and boxes come, stay in float32. The pictures themselves are
bytes already: their normalisation is part of the first layer's weights and loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from panorama.models.ranges import Ranges

BYTE = 255
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


class Scales:
    """What a byte stands for behind each layer."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def __call__(self, name: str) -> float:
        return self._ranges[name] / BYTE


def go_on() -> None:
    """Nobody has to be waited for."""
