"""Folded convolutions and the ranges of their values come in; a network in 8-bit arithmetic goes out.

OpenVINO runs it, which imports in a tenth of a second where torch takes two. All values between layers are at
least 0, because every layer ends in a ReLU: a value is a byte times the layer's scale, and zero is byte 0.
Weights are signed bytes with one scale per output channel. Sums are exact. The last products, which give
vectors and boxes, stay in float32. Pictures are bytes already; normalising them is part of the first layer's
weights and loses nothing.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.models.cores import get_num_threads
from panorama.models.folded import Floats
from panorama.models.ranges import Ranges


@contextmanager
def _unheard() -> Iterator[None]:
    """Import OpenVINO inside this block without sending telemetry.

    Every import of it would start a process that reports to its makers and stores an identifier in the user's
    home folder. It skips this if the telemetry package is not installed, so this block hides that package.
    """
    told = "openvino_telemetry"
    before = {told: sys.modules[told]} if told in sys.modules else {}
    sys.modules[told] = None  # type: ignore[assignment]  # Python takes this for a missing package
    try:
        yield
    finally:
        del sys.modules[told]
        sys.modules.update(before)


with _unheard():
    import openvino as ov
    from openvino import opset15 as ops

BYTE = 255
MOST_KEPT = 4
"""Most compiled networks kept, each for one size or for any size. One takes about 10 MB."""

MOST_SHAPES = 24
"""Batch shapes that a network for any size sees before it is compiled again: it keeps about 5 MB for each."""

ANY = -1
"""OpenVINO's value for a side or a batch size that is known only when pictures arrive."""

Node = Any
"""A node of OpenVINO's graph, or one of its outputs."""

Build = Callable[["Layers", Node], Sequence[Node]]
"""Builds the network's outputs from layers and the pictures (B, 3, H, W)."""


def go_on() -> None:
    """Do nothing: the default of `Network8.rest`."""


class Layers:
    """Builds the layers of one network; names are those of its ranges.

    Args:
        ranges: of the outputs of each layer, see `measure`.
        most: largest absolute value of a weight's byte.
    """

    def __init__(self, ranges: Ranges, most: int) -> None:
        self._ranges = ranges
        self._most = most

    def range_of(self, name: str) -> float:
        """The range of a layer's output; KeyError if it was not measured."""
        return self._ranges[name]

    def conv(
        self,
        x: Node,
        weight: Floats,
        bias: Floats,
        stride: int = 1,
        *,
        pad: int | None = None,
        relu: bool = True,
    ) -> Node:
        """A convolution of bytes, (B, in, H, W) to (B, out, H', W'); the result is not rounded to bytes yet.

        Args:
            weight: (out, in, k, k); bias: (out,).
            pad: None for k // 2, which keeps the size at stride 1.
        """
        rounded, scales = self.rounded(weight)
        weights = ops.multiply(ops.convert(ops.constant(rounded), np.float32), _constant(scales))
        sides = [weight.shape[2] // 2 if pad is None else pad] * 2
        y = ops.convolution(x, weights, [stride] * 2, sides, sides, [1, 1])
        y = ops.add(y, _constant(bias.reshape(1, -1, 1, 1)))
        return ops.relu(y) if relu else y

    def stem(
        self, pictures: Node, weight: Floats, bias: Floats, stride: int, zero: Floats, spread: Floats
    ) -> Node:
        """The first layer, on bytes (B, 3, H, W) that are not normalised and already have their border.

        Args:
            weight: the weight for pictures normalised as (pixel - zero) / spread.
            zero, spread: (3,) per channel, in pixel values.
        """
        inner = weight / spread.reshape(1, 3, 1, 1)
        rounded, scales = self.rounded(inner)
        # A picture equal to `zero` everywhere must give 0 before the bias, with the weights as rounded.
        nothing = ((rounded * scales).sum((2, 3)) * zero).sum(1)
        x = _to_bytes(ops.convert(pictures, np.float32), BYTE, BYTE)
        return self.conv(x, inner, bias - nothing, stride, pad=0)

    def rounded(self, weight: Floats) -> tuple[NDArray[np.int8], Floats]:
        """Weights as bytes (out, in, k, k), and the scale of each output channel (out, 1, 1, 1)."""
        scales = np.maximum(np.abs(weight).max((1, 2, 3), keepdims=True) / self._most, 1e-8)
        return np.clip(np.round(weight / scales), -self._most, self._most).astype(np.int8), scales

    def to_bytes(self, x: Node, name: str, stands_for: float | None = None) -> Node:
        """Round values to the bytes of a layer, whose range gives the value of the largest byte.

        Args:
            stands_for: the value that later layers take the largest byte for; None for its real one.
        """
        largest = self.range_of(name)
        return _to_bytes(x, largest, largest if stands_for is None else stands_for)


def floating_conv(x: Node, weight: Floats, bias: Floats) -> Node:
    """A 1 x 1 convolution in float32."""
    y = ops.convolution(x, _constant(weight), [1, 1], [0, 0], [0, 0], [1, 1])
    return ops.add(y, _constant(bias.reshape(1, -1, 1, 1)))


def floating_product(x: Node, weight: Floats, bias: Floats) -> Node:
    """Vectors (B, in) times a matrix (out, in) plus a bias (out,), in float32: (B, out)."""
    return ops.add(ops.matmul(x, _constant(weight), False, True), _constant(bias))


def doubled(x: Node) -> Node:
    """A map at twice its height and width, each value repeated."""
    factors, axes = ops.constant(np.array([2, 2], np.float32)), ops.constant(np.array([2, 3]))
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return ops.interpolate(x, factors, "nearest", "scales", axes=axes, **how)


def pooled(x: Node) -> Node:
    """The maximum of each 5 x 5 window; the size stays."""
    return ops.max_pool(x, [1, 1], [1, 1], [2, 2], [2, 2], [5, 5]).output(0)


def mean_of(x: Node) -> Node:
    """The mean of each channel: (B, C, H, W) to (B, C)."""
    return ops.reduce_mean(x, ops.constant(np.array([2, 3])), False)


def joined(parts: Sequence[Node]) -> Node:
    """Maps concatenated along their channels."""
    return ops.concat(list(parts), 1)


def added(a: Node, b: Node) -> Node:
    """The sum of two maps."""
    return ops.add(a, b)


def residual(x: Node, change: Node) -> Node:
    """relu(x + change)."""
    return ops.relu(ops.add(change, x))


def _to_bytes(x: Node, largest: float, stands_for: float) -> Node:
    zero = _constant(0)
    return ops.fake_quantize(x, zero, _constant(largest), zero, _constant(stands_for), BYTE + 1)


def _constant(values: Any) -> Node:
    return ops.constant(np.asarray(values, np.float32))


def model_of(build: Build, layers: Layers, height: int = ANY, width: int = ANY, batch: int = ANY) -> Any:
    """The OpenVINO model of a network whose input is bytes (batch, height, width, 3), border included."""
    pictures = ops.parameter(ov.PartialShape([batch, height, width, 3]), np.uint8)
    upright = ops.transpose(pictures, ops.constant(np.array([0, 3, 1, 2])))
    outputs = build(layers, upright)
    return ov.Model([ops.result(output) for output in outputs], [pictures], "network")


def products(model: Any) -> int:
    """Multiply-adds of a model for one picture; its height and width must be fixed."""
    total = 0
    for node in model.get_ops():
        if node.get_type_name() in ("Convolution", "MatMul"):
            per_output = int(np.prod(node.input(1).get_shape()[1:]))
            total += int(np.prod(node.output(0).get_shape()[1:])) * per_output
    return total


class Network8:
    """A network in 8 bits for pictures of any size.

    One network compiled for any size serves everything at first: compiling takes as long as some hundred
    pictures do, and a folder has pictures of many sizes. A size that fills enough whole pieces gets a network
    of its own, which is a seventh faster.

    Args:
        build: builds its outputs.
        ranges: of the outputs of each layer, see `measure`.
        border: (3,) bytes of the pixel value that is zero to the network; it surrounds each picture.
        width: of the border, in pixels.
        piece: most pictures per call of the network; other work may take the CPU between pieces.
        own_after: a size gets a network of its own when more than this many full pieces had it.

    Attributes:
        rest: called before each piece.
    """

    def __init__(
        self,
        build: Build,
        ranges: Ranges,
        border: NDArray[np.uint8],
        width: int,
        piece: int,
        own_after: int = 0,
    ) -> None:
        self._build = build
        self._layers = Layers(ranges, largest_weight())
        self._border, self._width, self._piece = border, width, piece
        self._own_after = own_after
        self.rest: Callable[[], None] = go_on
        self._lock = threading.Lock()
        self._full: Counter[tuple[int, int]] = Counter()
        self._compiled: dict[tuple[int, int, int, int], _Compiled] = {}

    def check(self) -> None:
        """Raise KeyError if the ranges lack a layer."""
        self.products(64, 64)

    def products(self, height: int, width: int) -> int:
        """Multiply-adds for one picture of this size."""
        around = 2 * self._width
        return products(model_of(self._build, self._layers, height + around, width + around, 1))

    def __call__(self, pictures: NDArray[np.uint8]) -> list[Floats]:
        """Each output (B, ...) float32 for pictures (B, H, W, 3) uint8, B at least 1."""
        parts = []
        for start in range(0, len(pictures), self._piece):
            some = self._bordered(pictures[start : start + self._piece])
            self.rest()
            parts.append(self._for(some.shape)(some))
        return [
            np.concatenate(output) if len(output) > 1 else output[0] for output in zip(*parts, strict=True)
        ]

    def _bordered(self, pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
        count, height, width, _ = pictures.shape
        pad = self._width
        padded = np.empty((count, height + 2 * pad, width + 2 * pad, 3), np.uint8)
        padded[:, pad : pad + height, pad : pad + width] = pictures
        # Fill only the border: filling everything, three bytes at a time, takes longer than the convolution.
        padded[:, :pad], padded[:, pad + height :] = self._border, self._border
        padded[:, :, :pad], padded[:, :, pad + width :] = self._border, self._border
        return padded

    def _for(self, shape: tuple[int, ...]) -> _Compiled:
        """The compiled network for pictures of this shape, border included; compiled now if necessary."""
        count, height, width, _ = shape
        threads = get_num_threads()
        with self._lock:
            dimensions = ANY, ANY, ANY
            if count == self._piece:
                self._full[height, width] += 1
                if self._full[height, width] > self._own_after:
                    dimensions = height, width, count
            key = *dimensions, threads
            found = self._compiled.pop(key, None)
            if found is None or not found.has_room_for(shape):
                found = _Compiled(model_of(self._build, self._layers, *dimensions), threads)
                while len(self._compiled) >= MOST_KEPT:
                    del self._compiled[next(iter(self._compiled))]  # the least recently used
            found.shapes.add(shape)
            self._compiled[key] = found
            return found


class _Compiled:
    """A network compiled for the CPU; one caller at a time.

    Attributes:
        shapes: of the batches it was requested for.
    """

    def __init__(self, model: Any, threads: int) -> None:
        facts = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",  # else the layers that are not in 8 bits would run in bfloat16
            "ENABLE_CPU_PINNING": False,  # other threads of this process need these cores, too
        }
        self._model = _core().compile_model(model, "CPU", facts)
        self._request = self._model.create_infer_request()
        self._lock = threading.Lock()
        self.shapes: set[tuple[int, ...]] = set()

    def has_room_for(self, shape: tuple[int, ...]) -> bool:
        """Whether a batch of this shape stays within the memory limit, `MOST_SHAPES`."""
        return shape in self.shapes or len(self.shapes) < MOST_SHAPES

    def __call__(self, pictures: NDArray[np.uint8]) -> list[Floats]:
        with self._lock:
            self._request.set_input_tensor(ov.Tensor(pictures, shared_memory=True))
            self._request.infer()
            return [np.array(tensor.data) for tensor in self._request.output_tensors]


@cache
def _core() -> Any:
    return ov.Core()


def why_not_here() -> str:
    """Why this CPU has no fast 8-bit products, as OpenVINO reports it; '' if it has them."""
    able = _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return "" if "INT8" in able else f"this processor has no fast 8-bit products ({', '.join(able)})"


@cache
def largest_weight() -> int:
    """The largest absolute weight: 127, or 63 if the CPU's sums of two products saturate at 32,767.

    CPUs with AVX2 but without VNNI add two products in 16 bits, and 2 * 255 * 127 does not fit in those.
    """
    return 127 if overflow(127) < 1e-3 else 63


def overflow(most: int) -> float:
    """The relative error of a sum of many largest products, with weights of up to `most`."""
    channels, size, brightest = 64, 3, 3.0 * BYTE
    none, ones = np.zeros(channels, np.float32), np.ones((channels, channels, size, size), np.float32)

    def build(layers: Layers, pictures: Node) -> list[Node]:
        x = layers.stem(pictures, ones[:, :3, :1, :1], none, 1, none[:3], ones[:3, 0, 0, 0])
        return [layers.conv(layers.to_bytes(x, "x"), ones, none, pad=0)]

    run = _Compiled(model_of(build, Layers({"x": brightest}, most), 8, 8, 1), 1)
    found = run(np.full((1, 8, 8, 3), BYTE, np.uint8))[0]
    exact = channels * size * size * brightest
    return float(np.abs(found - exact).max() / exact)
