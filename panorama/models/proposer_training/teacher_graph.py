"""RGB batches on a GPU come in; the teacher's answers go out there, computed by torch from the ONNX graph.

On the CPU, ONNX Runtime is faster (`teachers.Teacher`). For a GPU, its CUDA build would be one more package
of hundreds of megabytes, and every answer would travel through the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from panorama.errors import ModelError
from panorama.models.proposer_net import grid
from panorama.models.proposer_training.teachers import (
    PREDICTIONS,
    PYRAMID_TAPS,
    TAPS,
    TRUNK_TAPS,
    read_teacher,
)

Values = dict[str, Tensor]
"""The values computed so far, by their names in the graph."""


class GraphTeacher:
    """A YOLOX-nano that also returns inner feature maps, run by torch; in half precision on a GPU.

    Args:
        path: the ONNX file.
        device: the device of the batches.

    Raises:
        MissingExtra: the packages that read the file are not installed.
        ModelError: there is no such file, it is another export, or has unknown kinds of layers.
    """

    def __init__(self, path: Path, device: str) -> None:
        self._dtype = torch.float16 if device.startswith("cuda") else torch.float32
        self._graph = Graph(read_teacher(path), TAPS, device, self._dtype)

    @torch.no_grad()  # not inference mode: the backward pass of the student keeps these tensors
    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Scores (B, N), boxes (B, N, 4) in pixels, six maps (B, C, h, w), for (B, H, W, 3) uint8 RGB."""
        bgr = images.flip(-1).permute(0, 3, 1, 2).to(self._dtype)
        found = self._graph({"images": bgr.contiguous(memory_format=torch.channels_last)})
        raw = [found[name] for name in PREDICTIONS]
        centres, strides = grid([(level.shape[2], level.shape[3]) for level in raw], images.device)
        said = torch.cat([level.flatten(2) for level in raw], 2).float()  # (B, 85, N)
        # YOLOX measures from a cell's corner, `grid` gives its middle.
        middle = said[:, :2] * strides + centres.T - strides / 2
        half = said[:, 2:4].clamp(max=6.0).exp() * strides / 2
        boxes = torch.cat([middle - half, middle + half], 1).transpose(1, 2)
        pyramid = [torch.cat([found[a], found[b]], 1) for a, b in PYRAMID_TAPS]
        return said[:, 4] * said[:, 5:].amax(1), boxes, [*(found[name] for name in TRUNK_TAPS), *pyramid]


class Graph:
    """The part of an ONNX graph that the wanted values depend on, with its constants on a device.

    Args:
        model: an `onnx.ModelProto`.
        wanted: names of values.
    """

    def __init__(self, model: Any, wanted: Sequence[str], device: str, dtype: torch.dtype) -> None:
        from onnx import helper, numpy_helper

        self._wanted = tuple(wanted)
        constants = {
            c.name: torch.from_numpy(numpy_helper.to_array(c).copy()) for c in model.graph.initializer
        }
        # Sizes and indices stay on the CPU, where Python reads them without waiting for a GPU.
        sizes = {name for node in model.graph.node if node.op_type == "Resize" for name in node.input[1:]}
        self._constants = {
            name: value.to(device, dtype)
            if value.is_floating_point() and value.ndim and name not in sizes
            else value
            for name, value in constants.items()
        }
        self._nodes: list[tuple[Callable[..., Tensor], list[str], str, dict[str, Any]]] = []
        needed = set(wanted)
        for node in reversed(model.graph.node):
            if needed.isdisjoint(node.output):
                continue
            if node.op_type not in LAYERS:
                raise ModelError(
                    f"the teacher has a layer {node.op_type!r}; supported are {', '.join(sorted(LAYERS))}"
                )
            needed.update(filter(None, node.input))  # an omitted input has no name
            facts = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            self._nodes.append((LAYERS[node.op_type], list(node.input), node.output[0], facts))
        self._nodes.reverse()
        last = {name: at for at, (_, inputs, _, _) in enumerate(self._nodes) for name in inputs}
        self._done = [
            [n for n in inputs if last[n] == at] for at, (_, inputs, _, _) in enumerate(self._nodes)
        ]

    def __call__(self, given: Values) -> Values:
        """The wanted values by name."""
        values = self._constants | given
        for (layer, inputs, output, facts), done in zip(self._nodes, self._done, strict=True):
            values[output] = layer(*(values[name] if name else None for name in inputs), **facts)
            for name in done:  # maps are large, and nothing needs these any more
                if name not in self._wanted:
                    values.pop(name, None)
        return {name: values[name] for name in self._wanted}


def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    pads: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    **_: Any,
) -> Tensor:
    return F.conv2d(x, weight, bias, tuple(strides), _even(pads), tuple(dilations), group)


def _max_pool(
    x: Tensor, *, kernel_shape: Sequence[int], pads: Sequence[int], strides: Sequence[int], **_: Any
) -> Tensor:
    return F.max_pool2d(x, tuple(kernel_shape), tuple(strides), _even(pads))


def _even(pads: Sequence[int]) -> tuple[int, int]:
    """Padding (top, left); the bottom and right must have the same."""
    top, left, bottom, right = pads
    if (top, left) != (bottom, right):
        raise ModelError(f"a teacher whose layers are padded unevenly, by {list(pads)}, is not supported")
    return top, left


def _resize(x: Tensor, *rest: Tensor | None, mode: bytes, **_: Any) -> Tensor:
    scales = rest[1] if len(rest) > 1 else None
    if mode != b"nearest" or scales is None or scales.tolist() != [1, 1, 2, 2]:
        raise ModelError("a teacher may resize maps only to twice their size, by nearest neighbour")
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def _slice(x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor, steps: Tensor | None = None) -> Tensor:
    step = steps.tolist() if steps is not None else [1] * len(starts)
    places = [slice(None)] * x.ndim
    for axis, first, stop, by in zip(axes.tolist(), starts.tolist(), ends.tolist(), step, strict=True):
        places[axis] = slice(first, stop, by)
    return x[tuple(places)]


LAYERS: dict[str, Callable[..., Tensor]] = {
    "Add": torch.add,
    "Concat": lambda *parts, axis: torch.cat(parts, axis),
    "Conv": _conv,
    "MaxPool": _max_pool,
    "Mul": torch.mul,
    "Resize": _resize,
    "Sigmoid": torch.sigmoid,
    "Slice": _slice,
}
"""Functions by the names of ONNX's operators."""
