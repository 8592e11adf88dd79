"""RGB batches come in; the teacher's dense scores, boxes and inner features go out, as soft targets.

The teacher is a YOLOX-nano in ONNX form. It serves training and comparison, and is never shipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.errors import MissingExtra, ModelError
from panorama.models.proposer_net import STRIDES

PREDICTIONS = ("onnx::Shape_1066", "onnx::Shape_1108", "output.1")
TRUNK_TAPS = ("input.175", "input.283", "input.351")
PYRAMID_TAPS = (("input.631", "input.663"), ("input.703", "input.735"), ("input.775", "input.807"))
"""Names in the graph for strides 8, 16, 32: raw outputs, trunk features, both towers of the heads."""

TAPS = (*PREDICTIONS, *TRUNK_TAPS, *(name for pair in PYRAMID_TAPS for name in pair))
"""All of these names."""

PIECE = 8
"""Pictures that the teacher sees at once: its maps of many do not fit into a core's cache."""

TAP_WIDTHS = (64, 128, 256, 128, 128, 128)
"""Channels of the six feature maps in `Answer.features`."""


def read_teacher(path: Path) -> Any:
    """The teacher as an `onnx.ModelProto` that has all of `TAPS`.

    Raises:
        MissingExtra: the packages that read and run it are not installed.
        ModelError: there is no such file, or it is another export.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401  # require both even if only one is used
    except ImportError as exc:
        how = "pip install onnx onnxruntime"
        raise MissingExtra(f"training the proposer needs a teacher: {how}") from exc
    if not path.is_file():
        raise ModelError(f"no teacher {path}; the data folder holds it as teachers/yolox_nano.onnx")
    model = onnx.load(str(path))
    made = {name for node in model.graph.node for name in node.output}
    absent = [name for name in TAPS if name not in made]
    if absent:
        raise ModelError(f"{path} is not the expected export: it has no {', '.join(absent)}")
    return model


@dataclass(frozen=True, slots=True)
class Answer:
    """The teacher's answer for a batch.

    Attributes:
        scores: (B, N) float32, objectness times the best class, per grid point of all levels.
        boxes: (B, N, 4) float32, in pixels.
        features: trunk features of the three levels, then pyramid features; each (B, C, h, w) float16.
    """

    scores: NDArray[np.float32]
    boxes: NDArray[np.float32]
    features: list[NDArray[np.float16]]


class Teacher:
    """A YOLOX-nano that also returns inner feature maps, for pictures whose sides are multiples of 32."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        model = read_teacher(path)
        import onnx
        import onnxruntime

        del model.graph.output[:]
        for name in TAPS:
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        axes = model.graph.input[0].type.tensor_type.shape.dim
        for axis, label in ((0, "batch"), (2, "height"), (3, "width")):
            axes[axis].ClearField("dim_value")
            axes[axis].dim_param = label
        options: Any = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def __call__(self, images: NDArray[np.uint8]) -> Answer:
        """The teacher's answer for (B, H, W, 3) uint8 RGB."""
        pieces = [self._answer(images[i : i + PIECE]) for i in range(0, len(images), PIECE)]
        return Answer(
            np.concatenate([piece.scores for piece in pieces]),
            np.concatenate([piece.boxes for piece in pieces]),
            [np.concatenate(maps) for maps in zip(*(piece.features for piece in pieces), strict=True)],
        )

    def _answer(self, images: NDArray[np.uint8]) -> Answer:
        bgr = np.ascontiguousarray(images[..., ::-1].transpose(0, 3, 1, 2), np.float32)
        found = dict(zip(TAPS, self._session.run(None, {"images": bgr}), strict=True))
        levels = zip((found[name] for name in PREDICTIONS), STRIDES, strict=True)
        scores, boxes = zip(*(_level(raw, stride) for raw, stride in levels), strict=True)
        pyramid = [np.concatenate([found[a], found[b]], 1) for a, b in PYRAMID_TAPS]
        features = [*(found[name] for name in TRUNK_TAPS), *pyramid]
        return Answer(
            np.concatenate(scores, 1), np.concatenate(boxes, 1), [f.astype(np.float16) for f in features]
        )


def _level(raw: NDArray[np.float32], stride: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores (B, n) and boxes (B, n, 4) from a level's raw output (B, 85, h, w)."""
    y, x = np.mgrid[0 : raw.shape[2], 0 : raw.shape[3]].astype(np.float32).reshape(2, -1)
    return decoded(raw.reshape(*raw.shape[:2], -1), x, y, np.float32(stride))


def decoded(
    raw: NDArray[np.float32],
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    stride: NDArray[np.float32] | np.float32,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores (B, N) and boxes (B, N, 4) in pixels, from YOLOX's raw outputs for the points of its grids.

    Args:
        raw: (B, 85, N): centre and logarithm of the size in strides, objectness, classes.
        x, y, stride: (N,) column, row and stride in pixels of each point.
    """
    centre_x, centre_y = (raw[:, 0] + x) * stride, (raw[:, 1] + y) * stride
    half_w, half_h = (np.exp(np.minimum(raw[:, i], 6.0)) * stride / 2 for i in (2, 3))
    boxes = np.stack([centre_x - half_w, centre_y - half_h, centre_x + half_w, centre_y + half_h], -1)
    return raw[:, 4] * raw[:, 5:].max(1), np.asarray(boxes, np.float32)
