"""What the engine asks of a model: pictures enter, unit vectors or class-agnostic boxes leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.models.precision import Precision
from panorama.regions import Regions

Image = NDArray[np.uint8]
"""One RGB picture, (H, W, 3) uint8, any size."""


class Embedder(ABC):
    """Turns pictures into L2-normalised vectors, at one of several depths.

    Attributes:
        name: the folder in embeddings/, or the name of a built-in baseline.
        hash: hex digest of everything that changes the vectors: weights, code version, preprocessing.
        dim: length of a vector, the same at every exit.
        exits: how many exits there are; exit numbers run from 1 (cheapest) to `exits` (deepest).
        macs: multiply-adds per picture up to and including each exit.
        folder: where its recipe, weights and calibration lie; None for what is not made of files.
        precision: the number format that its network runs in, and why not the fastest; None without one.
        device: where its network runs.
    """

    folder: Path | None = None
    precision: Precision | None = None
    device: object = "cpu"
    name: str
    hash: str
    dim: int
    exits: int
    macs: tuple[int, ...]

    @abstractmethod
    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """Vectors at every exit: (exits, B, dim) float32, each of unit length. An empty list gives B = 0."""

    def embed(self, images: Sequence[Image], exit: int | None = None) -> NDArray[np.float32]:
        """Vectors at one exit (default: the deepest): (B, dim) float32; a cascade stops there."""
        number = self.exits if exit is None else exit
        if not 1 <= number <= self.exits:
            raise ValueError(f"{self.name} has exits 1 to {self.exits}, got {number}")
        return self.embed_all(images)[number - 1]

    def load(self) -> None:  # noqa: B027  most models are ready once they are made
        """Make ready what the first picture would otherwise wait for.

        Raises:
            ModelError: the weights are missing or not those of the recipe.
        """

    def cohort(self) -> NDArray[np.float32]:
        """Vectors of foreign pictures that scores are normalised against: (exits, N, dim) float32.

        They show nothing that a user would register, and belong to the model: frozen with its weights. A
        model without a cohort returns N = 0.
        """
        return np.zeros((self.exits, 0, self.dim), np.float32)


def network_facts(model: Embedder | Proposer) -> dict[str, str] | None:
    """What a model's network runs in, where, and why not in the fastest format; None without a network.

    It loads the network, to know.
    """
    precision = model.precision
    if precision is None:
        return None
    told = {"model": model.name, "precision": precision.name, "device": str(model.device)}
    return told | {"why": precision.why}


class Proposer(ABC):
    """Finds regions that may hold an entity, whatever it is; for what is not told see Embedder."""

    name: str
    hash: str
    precision: Precision | None = None
    device: object = "cpu"

    @abstractmethod
    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in that picture's own pixels, best first, already suppressed."""

    def load(self) -> None:  # noqa: B027
        """Make ready what the first picture would otherwise wait for."""

    def at_side(self, side: int) -> Proposer:
        """The same model for pictures of that longest side; itself where its work does not depend on it."""
        return self
