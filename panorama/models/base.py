"""What the engine asks of a model: pictures enter, unit vectors or class-agnostic boxes leave."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from panorama.models.precision import Precision
from panorama.regions import Regions

Image = NDArray[np.uint8]
"""One RGB picture, (H, W, 3) uint8, any size."""

Result = TypeVar("Result")


class Later(Generic[Result]):
    """What was asked of a model that works elsewhere: the caller goes on until it needs the result.

    Args:
        wait: gives the result, or raises what the model raised, and the seconds of processor time that it
            took outside of this thread.
    """

    def __init__(self, wait: Callable[[], tuple[Result, float]]) -> None:
        self._wait = wait
        self.away_seconds = 0.0

    def result(self) -> Result:
        """The result, once it is there."""
        result, self.away_seconds = self._wait()
        return result

    @classmethod
    def done(cls, result: Result) -> Later[Result]:
        """What is there already."""
        return cls(lambda: (result, 0.0))


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
        of_colour_alone: whether a picture in other light is one of another thing to it.
    """

    folder: Path | None = None
    precision: Precision | None = None
    device: object = "cpu"
    of_colour_alone: bool = False
    name: str
    hash: str
    dim: int
    exits: int
    macs: tuple[int, ...]

    @abstractmethod
    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """Vectors at every exit: (exits, B, dim) float32, each of unit length. An empty list gives B = 0."""

    def embed_to(self, images: Sequence[Image], last: int) -> NDArray[np.float32]:
        """Vectors at exits 1 to `last`: (last, B, dim) float32; a network stops there."""
        return self.embed_all(images)[:last]

    def embed_to_later(self, images: Sequence[Image], last: int) -> Later[NDArray[np.float32]]:
        """What `embed_to` gives; a model of a process of its own has only begun with it."""
        return Later.done(self.embed_to(images, last))

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

    def use_threads(self, count: int) -> None:  # noqa: B027
        """Give the network so many threads where it runs; in this process `panorama.threads` does it."""

    def hold(self, held: bool) -> None:  # noqa: B027
        """Stand still until told otherwise, also in the middle of a batch; only what runs elsewhere can."""

    def rest_by(self, rest: Callable[[], None]) -> None:  # noqa: B027
        """Call this while the network computes, each few milliseconds: it returns when to go on."""

    def give_up(self) -> None:  # noqa: B027
        """Nothing is asked any more: what runs elsewhere ends at once, and who waits for it gets an error."""

    def cohort(self) -> NDArray[np.float32]:
        """Vectors of foreign pictures that scores are normalised against: (exits, N, dim) float32.

        They show nothing that a user would register, and belong to the model: frozen with its weights. A
        model without a cohort returns N = 0.
        """
        return np.zeros((self.exits, 0, self.dim), np.float32)

    @cached_property
    def cohort_digest(self) -> str:
        """Of the cohort: with another one the same vectors get other values."""
        return hashlib.sha256(np.ascontiguousarray(self.cohort()).tobytes()).hexdigest()


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

    def propose_later(self, images: Sequence[Image]) -> Later[list[Regions]]:
        """What `propose` gives; a model of a process of its own has only begun with it."""
        return Later.done(self.propose(images))

    def load(self) -> None:  # noqa: B027
        """Make ready what the first picture would otherwise wait for."""

    def use_threads(self, count: int) -> None:  # noqa: B027
        """Give the network so many threads where it runs; see Embedder."""

    def hold(self, held: bool) -> None:  # noqa: B027
        """Stand still until told otherwise; see Embedder."""

    def rest_by(self, rest: Callable[[], None]) -> None:  # noqa: B027
        """Call this while the network computes; see Embedder."""

    def give_up(self) -> None:  # noqa: B027
        """Nothing is asked any more; see Embedder."""

    def at_side(self, side: int, zoom: int = 1) -> Proposer:
        """The same model for pictures of that longest side; itself where its work does not depend on it.

        Args:
            zoom: from 2, it also looks at zoom x zoom parts of each picture; see `zooming`.
        """
        return self
