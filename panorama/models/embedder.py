"""RGB pictures come in; PanoramaNet's unit vectors go out: learned appearance together with plain colour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import ModelError
from panorama.models.base import Cohort, Embedder, Image
from panorama.models.color import BINS, COLOR_DIM, HUES, TONES, color_bands
from panorama.models.device import choose_device
from panorama.models.folded import Tensors
from panorama.models.late import EXITS, cohorts_of, net_facts, net_hash
from panorama.models.precision import Precision, choose, why_no_int8
from panorama.models.ranges import Ranges, in_batches, measure, ranges_for
from panorama.models.weights import WEIGHTS, ModelFolder

BATCH = 96
"""Most crops in one batch of the network: as many as indexing gathers, and what one parcel adds."""


class Network(Protocol):
    """The trunk, whatever runs it."""

    def exits_out(self, pictures: NDArray[np.uint8], first: int, last: int) -> Sequence[Any]:
        """Unit vectors (B, dim) of exits `first` to `last`, from (B, side, side, 3) bytes.

        Arrays, or torch tensors that the caller fetches when all batches are under way.
        """

    def macs(self, side: int) -> tuple[int, ...]:
        """Multiply-adds of one picture up to and including each exit."""

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function that it calls while it computes, as often as possible."""


def squash(image: Image, side: int) -> Image:
    """Resize a picture to a (side, side, 3) square; the aspect ratio changes, so no pixel goes to padding."""
    height, width = image.shape[:2]
    how = cv2.INTER_AREA if min(height, width) >= side else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (side, side), interpolation=how), np.uint8)


class PanoramaNet(Embedder):
    """The shipped embedder: three exits, each a unit vector with a learned part and a colour part.

    The parts have fixed shares of the squared length, so an inner product of two vectors is
    (1 - color_weight) * cosine of the learned parts + color_weight * cosine of the colour parts.

    Args:
        folder: recipe and weights, as `open_model` returns them.
        precision: 'int8', 'bfloat16', 'float32'; 'auto' for the fastest here; None for $PANORAMA_PRECISION.
        device: 'cpu', 'cuda', 'cuda:1'; 'auto' for a GPU if there is one; None for $PANORAMA_DEVICE.

    Attributes:
        precision: the number format of the network, and why not int8.
        device: where the trunk runs; colour is computed on the CPU meanwhile.
        network: the trunk.
        mean, std: (3,) normalisation of the pixels, as fractions of 255.

    Raises:
        ModelError: the recipe or the weights are not PanoramaNet's.
    """

    exits = EXITS
    precision: Precision
    device: str

    def __init__(self, folder: ModelFolder, precision: str | None = None, device: str | None = None) -> None:
        self._folder = folder
        self.name = folder.name
        self._side, _, self._color_weight = net_facts(folder)
        self.learned_dim = int(folder.recipe["network"]["learned_dim"])
        tensors = {name: np.asarray(value, np.float32) for name, value in folder.arrays(WEIGHTS).items()}
        try:
            self.mean, self.std = tensors.pop("input.mean"), tensors.pop("input.std")
            self._color_axes = tensors.pop("color.axes")  # (COLOR_DIM, color_dim)
        except KeyError as exc:
            raise ModelError(f"the weights in {folder.path} are not PanoramaNet's: they lack {exc}") from exc
        ranges, lacking = ranges_for(folder, precision)
        self.device = choose_device(device)
        self.precision = choose(precision, lambda: lacking or why_no_int8(), self.device)
        self.network = self._network(tensors, ranges)
        self.dim = self.learned_dim + self._color_axes.shape[1]
        self.folder = folder.path
        self.hash = net_hash(folder)

    def _network(self, tensors: dict[str, NDArray[np.float32]], ranges: Ranges) -> Network:
        where = f"the weights of {self._folder.path}"
        # Both variants need a large package: import only the one that runs.
        if self.precision.name != "int8":
            from panorama.models.trunk_floats import TrunkInFloats

            kind = self.precision.dtype, self.device
            return TrunkInFloats(tensors, where, self.learned_dim, self.mean, self.std, *kind)
        from panorama.models.trunk8 import Trunk8

        try:
            return Trunk8(Tensors(tensors, where), self.learned_dim, self.mean, self.std, ranges)
        except KeyError as exc:
            raise ModelError(f"the ranges of {self._folder.path} lack the layer {exc}") from exc

    @cached_property
    def macs(self) -> tuple[int, ...]:  # type: ignore[override]
        """Multiply-adds of one picture up to and including each exit, with the heads of shallower exits."""
        return self.network.macs(self._side)

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """(exits, B, dim) float32: all exits in one pass through the trunk."""
        return self._run(images, first=1, last=self.exits)

    def embed_to(self, images: Sequence[Image], last: int) -> NDArray[np.float32]:
        """(last, B, dim) float32; the trunk runs no deeper."""
        return self._run(images, first=1, last=self._check(last))

    def embed(self, images: Sequence[Image], exit: int | None = None) -> NDArray[np.float32]:
        """(B, dim) float32; the trunk runs no deeper than the exit."""
        number = self._check(self.exits if exit is None else exit)
        return self._run(images, first=number, last=number)[0]

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function to call between layers or, in 8 bits, between some pictures."""
        self.network.rest_by(rest)

    def cohort(self) -> NDArray[np.float32]:
        """(exits, N, dim) float32 of foreign training pictures; N = 0 if the folder has none."""
        cohorts = cohorts_of(self._folder)
        return np.stack([cohort.vectors for cohort in cohorts]) if cohorts else super().cohort()

    def cohorts(self) -> tuple[Cohort, ...]:
        """The same at each exit, with those strangers that count for grey pictures alone."""
        return cohorts_of(self._folder) or super().cohorts()

    def hues(self) -> NDArray[np.float32]:
        """(dim, K) float32: a vector times these gives the strengths of its hues, as `Cohort` wants them.

        The colour axes are orthogonal, so what they kept of the hues can be read from the colour part. K = 0
        if the vectors have no such part.
        """
        if not self._color_weight:
            return np.zeros((self.dim, 0), np.float32)
        of_hues = np.arange(COLOR_DIM) % BINS < HUES * TONES
        kept = self._color_axes[of_hues].T / np.float32(self._color_weight**0.5)  # (color_dim, K)
        return np.concatenate([np.zeros((self.learned_dim, kept.shape[1]), np.float32), kept])

    def _check(self, exit: int) -> int:
        if not 1 <= exit <= self.exits:
            raise ValueError(f"{self.name} has exits 1 to {self.exits}, got {exit}")
        return exit

    def _run(self, images: Sequence[Image], first: int, last: int) -> NDArray[np.float32]:
        """Vectors of exits `first` to `last`, in batches."""
        out = np.zeros((last - first + 1, len(images), self.dim), np.float32)
        learned = self.learned_dim
        waiting: list[tuple[slice, Sequence[Any]]] = []
        for start in range(0, len(images), BATCH):
            some = images[start : start + BATCH]
            rows = slice(start, start + len(some))
            squares = np.stack([squash(image, self._side) for image in some])
            found = self.network.exits_out(squares, first, last)
            # A GPU computes while the next batch is prepared: fetch the vectors once all batches are queued.
            waiting.append((rows, found))
            out[:, rows, learned:] = self.color(some) * np.float32(self._color_weight**0.5)
        for rows, found in waiting:
            for row, vectors in enumerate(found):
                fetched = vectors if isinstance(vectors, np.ndarray) else vectors.cpu().numpy()
                out[row, rows, :learned] = fetched * np.float32((1 - self._color_weight) ** 0.5)
        return out

    def learned(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """Only the learned part of the deepest exit, (B, learned_dim) float32 of unit length."""
        part = self.embed(images)[:, : self.learned_dim]
        return np.asarray(part / np.float32((1 - self._color_weight) ** 0.5), np.float32)

    def color(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """Only the colour part, (B, color_dim) float32 of unit length: `color_bands` on fixed axes."""
        y = color_bands(images) @ self._color_axes
        return np.asarray(y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-6), np.float32)

    def ranges(self, images: Iterable[Image]) -> Ranges:
        """The range of each layer, see `measure`, over pictures; needs floating point."""
        from panorama.models.trunk_floats import KINDS, TrunkInFloats

        assert isinstance(self.network, TrunkInFloats)
        return measure(
            self.network.trunk, KINDS, lambda: [self.embed_all(some) for some in in_batches(images, BATCH)]
        )
