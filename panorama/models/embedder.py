"""RGB pictures enter; PanoramaNet's unit vectors leave: learned appearance beside plain colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from panorama.errors import ModelError
from panorama.models.base import Embedder, Image
from panorama.models.color import color_bands
from panorama.models.device import choose_device, send
from panorama.models.late import cohort_of, net_hash
from panorama.models.network import EXITS, Trunk, macs_per_exit
from panorama.models.precision import Precision, choose, why_no_int8
from panorama.models.ranges import Ranges, measure, read_ranges, rest_between
from panorama.models.trunk8 import KINDS, Trunk8
from panorama.models.weights import ModelFolder

BATCH = 96
"""Most crops that go through the network at once: as many as indexing gathers, and what a parcel adds."""


def squash(image: Image, side: int) -> Image:
    """The picture as a (side, side, 3) square, its shape not kept: no pixel is spent on padding."""
    height, width = image.shape[:2]
    how = cv2.INTER_AREA if min(height, width) >= side else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (side, side), interpolation=how), np.uint8)


class PanoramaNet(Embedder):
    """The shipped embedder: three exits, each a unit vector of a learned part and a colour part.

    The parts have fixed shares of the squared length, so an inner product of two vectors is
    (1 - color_weight) * cosine of the learned parts + color_weight * cosine of the colour parts.

    Args:
        folder: recipe and weights, as `open_model` returns them.
        precision: 'int8', 'bfloat16', 'float32', 'auto' for the fastest here, None for $PANORAMA_PRECISION.
        device: 'cpu', 'cuda', 'cuda:1', 'auto' for a GPU where there is one, None for $PANORAMA_DEVICE.

    Attributes:
        precision: what it runs in, and why not int8.
        device: where the trunk runs; colour is computed on the processor meanwhile.
    """

    exits = EXITS
    precision: Precision
    device: torch.device

    def __init__(self, folder: ModelFolder, precision: str | None = None, device: str | None = None) -> None:
        self._folder = folder
        self.name = folder.name
        tensors = folder.tensors()
        try:
            self._side = int(folder.recipe["preprocess"]["side"])
            learned = int(folder.recipe["network"]["learned_dim"])
            self._color_weight = float(folder.recipe["network"]["color_weight"])
            self._mean, self._std = tensors.pop("input.mean").float(), tensors.pop("input.std").float()
            self._color_axes = tensors.pop("color.axes").float().numpy()  # (COLOR_DIM, color_dim)
            trunk = Trunk(learned)
            trunk.load_state_dict({name: value.float() for name, value in tensors.items()}, strict=False)
            absent = [
                name for name in trunk.state_dict() if name not in tensors and "num_batches" not in name
            ]
        except (KeyError, RuntimeError) as exc:
            raise ModelError(f"the weights in {folder.path} are not PanoramaNet's: {exc}") from exc
        if absent:
            raise ModelError(f"the weights in {folder.path} lack {absent[0]} and {len(absent) - 1} others")
        trunk.eval()
        trunk.fold()
        self.macs = macs_per_exit(trunk, self._side)
        ranges, lacking = read_ranges(folder)
        self.device = choose_device(device)
        self.precision = choose(precision, why_no_int8() or lacking, self.device)
        self.trunk = trunk.to(self.device, self.precision.dtype).to(memory_format=torch.channels_last)
        self._trunk8: Trunk8 | None = None
        if self.precision.name == "int8":
            try:
                self._trunk8 = Trunk8(self.trunk, self._mean, self._std, ranges)
            except KeyError as exc:
                raise ModelError(f"the ranges of {folder.path} lack the layer {exc}") from exc
        self._table = _normalising(self._mean, self._std, self.precision.dtype)
        self.learned_dim = learned
        self.dim = learned + self._color_axes.shape[1]
        self.folder = folder.path
        self.hash = net_hash(folder)

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """(exits, B, dim) float32, all exits in one pass through the trunk."""
        return self._run(images, first=1, last=self.exits)

    def embed_to(self, images: Sequence[Image], last: int) -> NDArray[np.float32]:
        """(last, B, dim) float32; the trunk runs no deeper."""
        return self._run(images, first=1, last=self._check(last))

    def embed(self, images: Sequence[Image], exit: int | None = None) -> NDArray[np.float32]:
        """(B, dim) float32; the trunk runs no deeper than the exit."""
        number = self._check(self.exits if exit is None else exit)
        return self._run(images, first=number, last=number)[0]

    def deepen(self, images: Sequence[Image], from_exit: int) -> NDArray[np.float32]:
        """Vectors at all exits past `from_exit`: (exits - from_exit, B, dim) float32."""
        return self._run(images, first=self._check(from_exit) + 1, last=self.exits)

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Call this between the layers."""
        if self._trunk8 is not None:
            self._trunk8.rest = rest
        else:
            rest_between(self.trunk, KINDS, rest)

    def cohort(self) -> NDArray[np.float32]:
        """(exits, N, dim) float32 of foreign training pictures; N = 0 where the folder has none."""
        found = cohort_of(self._folder)
        return super().cohort() if found is None else found

    def _check(self, exit: int) -> int:
        if not 1 <= exit <= self.exits:
            raise ValueError(f"{self.name} has exits 1 to {self.exits}, got {exit}")
        return exit

    def _run(self, images: Sequence[Image], first: int, last: int) -> NDArray[np.float32]:
        """Vectors of exits `first` to `last`, in batches."""
        out = np.zeros((max(0, last - first + 1), len(images), self.dim), np.float32)
        if not len(out):
            return out
        learned = self.learned_dim
        waiting: list[tuple[slice, list[Tensor]]] = []
        for start in range(0, len(images), BATCH):
            some = images[start : start + BATCH]
            rows = slice(start, start + len(some))
            with torch.inference_mode():
                found = self._exits(np.stack([squash(image, self._side) for image in some]), first, last)
            # A GPU computes while the next batch is made: its vectors are fetched when all are on the way.
            waiting.append((rows, found))
            out[:, rows, learned:] = self.color(some) * np.float32(self._color_weight**0.5)
        for rows, found in waiting:
            for row, vectors in enumerate(found):
                out[row, rows, :learned] = vectors.cpu().numpy() * np.float32((1 - self._color_weight) ** 0.5)
        return out

    def learned(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """The deepest exit's learned part alone, (B, learned_dim) float32 of unit length."""
        part = self.embed(images)[:, : self.learned_dim]
        return np.asarray(part / np.float32((1 - self._color_weight) ** 0.5), np.float32)

    def color(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """The colour part alone, (B, color_dim) float32 of unit length: `color_bands` on fixed axes."""
        y = color_bands(images) @ self._color_axes
        return np.asarray(y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-6), np.float32)

    def ranges(self, images: Sequence[Image]) -> Ranges:
        """The largest value of each layer over some pictures; needs floating point."""
        return measure(self.trunk, KINDS, lambda: self.embed_all(images))

    def _exits(self, pictures: NDArray[np.uint8], first: int, last: int) -> list[Tensor]:
        """Unit vectors (B, learned_dim) of the exits, from pictures (B, side, side, 3)."""
        if self._trunk8 is not None:
            return self._trunk8.exits_out(pictures, first, last)
        count, side = pictures.shape[:2]
        # A table of all 256 values instead of arithmetic on each: 1.5 ms instead of 50 for 64 pictures.
        looked_up = np.asarray(cv2.LUT(pictures.reshape(count * side, side, 3), self._table))
        x = torch.from_numpy(looked_up).view(self.precision.dtype).reshape(count, side, side, 3)
        return self.trunk.exits_out(send(x, self.device).permute(0, 3, 1, 2), first, last)


def _normalising(mean: Tensor, std: Tensor, dtype: torch.dtype) -> NDArray[Any]:
    """(1, 256, 3): what each value of each channel is to the network; numpy knows bfloat16 as int16."""
    values = (torch.arange(256)[:, None] / 255 - mean) / std
    bits = values.to(dtype)
    return (bits.view(torch.int16) if dtype == torch.bfloat16 else bits).numpy()[None]
