"""Pictures come in; a reference model's features go out, pooled and as a map, for the student to imitate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import MissingExtra, ModelError
from panorama.models.base import Image
from panorama.models.device import CPU
from panorama.models.embedder import PanoramaNet
from panorama.models.training.copies import digest
from panorama.models.training.sources import data_folder
from panorama.models.weights import ModelFolder, open_model


class Teacher(Protocol):
    """A model whose features are worth imitating."""

    dim: int

    def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features of one RGB picture: pooled (dim,), and (4, 4, dim) over a grid of places."""
        ...


def grid_weights(cells: int, out: int = 4) -> NDArray[np.float32]:
    """(out, cells): the share of each cell in each of `out` equal parts of a line; rows sum to 1."""
    edges = np.arange(out + 1) * cells / out
    cell = np.arange(cells)
    overlap = np.minimum(edges[1:, None], cell + 1) - np.maximum(edges[:-1, None], cell)
    return np.asarray(np.clip(overlap, 0, None) * out / cells, np.float32)


class LiteTeacher:
    """A TensorFlow Lite classifier cut before its logits; its 8-bit map is averaged here, in floats."""

    def __init__(self, path: Path) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as exc:
            raise MissingExtra("distilling needs ai-edge-litert: pip install ai-edge-litert") from exc
        if not path.is_file():
            raise ModelError(f"there is no teacher at {path}; the recipe's [teacher] names it")
        self._model: Any = Interpreter(str(path), num_threads=1)
        self._model.allocate_tensors()
        given = self._model.get_input_details()[0]
        pool = next(op for op in self._model._get_ops_details() if op["op_name"] == "AVERAGE_POOL_2D")
        details = {d["index"]: d for d in self._model.get_tensor_details()}
        grid = details[int(pool["inputs"][0])]
        self._input, self._map = given["index"], grid["index"]
        self._size = (int(given["shape"][2]), int(given["shape"][1]))
        self._scale = float(grid["quantization"][0]) or 1.0
        self.dim = int(grid["shape"][3])
        self._pool = grid_weights(int(grid["shape"][1]))

    def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Pooled (dim,), and (4, 4, dim)."""
        if picture.shape[1::-1] != self._size:
            picture = np.asarray(cv2.resize(picture, self._size, interpolation=cv2.INTER_LINEAR), np.uint8)
        self._model.set_tensor(self._input, np.ascontiguousarray(picture)[None])
        self._model.invoke()
        grid = self._model.get_tensor(self._map)[0].astype(np.float32) * self._scale  # (7, 7, dim)
        rows = np.tensordot(self._pool, grid, (1, 0))  # (4, 7, dim)
        cells = np.tensordot(self._pool, rows, (1, 1)).transpose(1, 0, 2)  # (4, 4, dim)
        return grid.mean(axis=(0, 1)), np.ascontiguousarray(cells, np.float32)


class SelfTeacher:
    """A PanoramaNet as its own teacher: it keeps what it knows while it learns new identities."""

    def __init__(self, folder: ModelFolder) -> None:
        # One picture at a time is too little for a GPU, and every process of a bank would take memory there.
        self._model = PanoramaNet(folder, precision="float32", device=CPU)
        self.dim = self._model.learned_dim

    def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The deepest exit's learned part, of unit length; the map repeats it at every place."""
        vector = self._model.learned([picture])[0]
        return vector, np.broadcast_to(vector, (4, 4, self.dim)).astype(np.float32)


def make_teacher(plan: dict[str, Any], data: Mapping[str, Path]) -> Teacher:
    """The recipe's reference model, or, if it names none, the model that training starts from."""
    table = plan.get("teacher", {})
    if "path" in table:
        return LiteTeacher(data_folder(data, table["data"], "the teacher") / table["path"])
    if "start" not in plan:
        raise ModelError("a recipe without [teacher] needs [start] model = NAME: the model to learn from")
    return SelfTeacher(open_model(str(plan["start"]["model"]), "embedder"))


def teacher_digest(plan: Mapping[str, Any], data: Mapping[str, Path]) -> str:
    """Digest of the teacher's weights; '' if there is none, which `make_teacher` reports."""
    table = plan.get("teacher", {})
    if "path" in table:
        path = data_folder(data, table["data"], "the teacher") / table["path"]
        return digest(path).hex()[:12] if path.is_file() else ""
    return open_model(str(plan["start"]["model"]), "embedder").sha256()[:12] if "start" in plan else ""
