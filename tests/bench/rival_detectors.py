"""RGB pictures come in; the regions of two detectors trained on all of COCO go out, classes ignored.

These are FastestDet and YOLOX-nano, ONNX files in the footage's `teachers/`, for comparison with the
proposer. This is not a command, and Panorama itself uses neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Image
from panorama.models.proposer_training.teachers import decoded
from panorama.regions import DETECTOR, Regions, suppress

MAX_IOU, LIMIT = 0.5, 32
"""As the shipped proposer has them, so that only the networks differ."""

GREY = 114
"""What YOLOX was trained to see beside a picture that is no square."""


def session(path: Path, threads: int) -> Any:
    """The network of an ONNX file on the processor."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def sigmoid(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


class FastestDet:
    """One box a cell of 16 pixels; pictures are squashed to 352 x 352.

    Its outputs, (1, 85, 22, 22): objectness, offset of the centre (to be put through tanh), width and height
    as shares of the picture (to be put through the logistic function), probabilities of the classes.
    """

    side, floor = 352, 0.15

    def __init__(self, teachers: Path, threads: int = 1) -> None:
        self._session = session(teachers / "fastestdet.onnx", threads)

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in its own pixels, best first."""
        return [self._propose(image) for image in images]

    def _propose(self, image: Image) -> Regions:
        small = cv2.resize(image, (self.side, self.side), interpolation=cv2.INTER_LINEAR)
        x = np.ascontiguousarray(small[..., ::-1].transpose(2, 0, 1), np.float32)[None] / 255
        out = self._session.run(None, {"input.1": x})[0][0]
        cells = out.shape[1]
        rows, columns = np.mgrid[0:cells, 0:cells]
        scores = out[0] ** 0.6 * out[5:].max(axis=0) ** 0.4
        x_mid, y_mid = (columns + np.tanh(out[1])) / cells, (rows + np.tanh(out[2])) / cells
        half_w, half_h = sigmoid(out[3]) / 2, sigmoid(out[4]) / 2
        boxes = np.stack([x_mid - half_w, y_mid - half_h, x_mid + half_w, y_mid + half_h], axis=-1)
        height, width = image.shape[:2]
        return chosen(
            boxes.reshape(-1, 4) * (width, height, width, height), scores.ravel(), self.floor, image
        )


class YoloxNano:
    """One box a point of strides 8, 16 and 32; pictures are letterboxed to 416 x 416.

    Its outputs are (1, 3549, 85), see `decoded`.
    """

    side, floor = 416, 0.05

    def __init__(self, teachers: Path, threads: int = 1) -> None:
        self._session = session(teachers / "yolox_nano.onnx", threads)
        points = []
        for stride in (8, 16, 32):
            rows, columns = np.mgrid[0 : self.side // stride, 0 : self.side // stride]
            points.append(np.stack([columns, rows, np.full_like(rows, stride)], axis=-1).reshape(-1, 3))
        self._x, self._y, self._stride = np.concatenate(points).T.astype(np.float32)

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in its own pixels, best first."""
        return [self._propose(image) for image in images]

    def _propose(self, image: Image) -> Regions:
        height, width = image.shape[:2]
        factor = self.side / max(height, width)
        canvas = np.full((self.side, self.side, 3), GREY, np.uint8)
        inner = cv2.resize(image, (round(width * factor), round(height * factor)))
        canvas[: inner.shape[0], : inner.shape[1]] = inner
        x = np.ascontiguousarray(canvas[..., ::-1].transpose(2, 0, 1), np.float32)[None]
        out = self._session.run(None, {"images": x})[0]  # (1, 3549, 85)
        scores, boxes = decoded(out.transpose(0, 2, 1), self._x, self._y, self._stride)
        return chosen(boxes[0] / factor, scores[0], self.floor, image)


def chosen(boxes: NDArray[np.floating], scores: NDArray[np.floating], floor: float, image: Image) -> Regions:
    """The boxes above a floor within the picture, overlaps removed."""
    keep = scores >= floor
    regions = Regions.of(boxes[keep], scores[keep], DETECTOR)
    return suppress(regions.clipped(image.shape[1], image.shape[0]), MAX_IOU, LIMIT)
