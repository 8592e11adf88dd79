"""The interface of models: pictures come in, unit vectors or class-agnostic boxes go out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from panorama.models.precision import Precision
from panorama.regions import Regions

Image = NDArray[np.uint8]
"""One RGB picture of any size, (H, W, 3) uint8."""

Result = TypeVar("Result")


class Later(Generic[Result]):
    """A result that a model computes elsewhere; the caller goes on until it needs the result.

    Args:
        wait: returns the result and the processor seconds spent outside this thread, or raises what the model
            raised.
    """

    def __init__(self, wait: Callable[[], tuple[Result, float]]) -> None:
        self._wait = wait
        self.away_seconds = 0.0

    def result(self) -> Result:
        """Wait for the result and return it."""
        result, self.away_seconds = self._wait()
        return result

    @classmethod
    def done(cls, result: Result) -> Later[Result]:
        """A result that is already there."""
        return cls(lambda: (result, 0.0))


MOST_HUE = 0.02
"""A picture is grey if its hues have at most this share of its colours' squared length. Pictures without any
colour have up to 0.007, since the model keeps colours roughly; a white car in colour has 0.06, and a tint of
one level of chroma 0.04.
"""


@dataclass(frozen=True, eq=False)
class Cohort:
    """Foreign pictures that scores are normalised against, at one exit.

    A camera in infrared shows the world in grey, and an old film does. There all things look more alike than
    in colour, so strangers are nearer. Grey strangers count for what is grey itself, and for nothing else.

    Attributes:
        vectors: (N, dim) float32; N = 0 for a model without a cohort.
        grey: (M, dim) float32 of grey pictures.
        hues: (dim, K) float32: a vector's product with these gives the strengths of its hues.
    """

    vectors: NDArray[np.float32]
    grey: NDArray[np.float32]
    hues: NDArray[np.float32]

    @classmethod
    def plain(cls, vectors: NDArray[np.float32]) -> Cohort:
        """Without grey pictures."""
        dim = vectors.shape[1]
        return cls(vectors, np.zeros((0, dim), np.float32), np.zeros((dim, 0), np.float32))

    def without_grey(self) -> Cohort:
        """The same without the strangers that count for grey pictures alone."""
        return Cohort.plain(self.vectors)

    def __len__(self) -> int:
        return len(self.vectors)

    def is_grey(self, vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
        """(V,) whether vectors (V, dim) are of grey pictures; without grey strangers, none is."""
        if not len(self.grey):
            return np.zeros(len(vectors), np.bool_)
        return np.asarray(((vectors @ self.hues) ** 2).sum(axis=1) <= MOST_HUE)

    def similarity(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(V, N or N + M) similarities of vectors (V, dim) to all strangers that count for one of them.

        Where a stranger does not count, the similarity is -1.
        """
        found = vectors @ self.vectors.T
        grey = self.is_grey(vectors)
        if not grey.any():
            return found
        more = np.full((len(vectors), len(self.grey)), -1, np.float32)
        more[grey] = vectors[grey] @ self.grey.T
        return np.concatenate([found, more], axis=1)

    def beside(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(N or N + M, dim) the strangers that count for all of some vectors (V, dim)."""
        is_grey = len(vectors) > 0 and bool(self.is_grey(vectors).all())
        return np.concatenate([self.vectors, self.grey]) if is_grey else self.vectors


class Embedder(ABC):
    """Turns pictures into L2-normalised vectors, at one of several depths (exits).

    Attributes:
        name: the folder in embeddings/, or the name of a built-in baseline.
        hash: hex digest of everything that changes the vectors: weights, code version, preprocessing.
        dim: length of a vector, the same at every exit.
        exits: number of exits; they are numbered from 1 (cheapest) to `exits` (deepest).
        macs: multiply-adds per picture up to and including each exit.
        folder: folder with its recipe, weights and calibration; None for an embedder without files.
        precision: the number format of its network, and why not the fastest; None without a network.
        device: where its network runs.
        of_colour_alone: whether it sees only colour, so that a picture in other light looks like another
            thing.
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
        """Vectors at exits 1 to `last`: (last, B, dim) float32; a network runs no deeper."""
        return self.embed_all(images)[:last]

    def embed_to_later(self, images: Sequence[Image], last: int) -> Later[NDArray[np.float32]]:
        """The same as `embed_to`; a model in a process of its own has only started when this returns."""
        return Later.done(self.embed_to(images, last))

    def embed(self, images: Sequence[Image], exit: int | None = None) -> NDArray[np.float32]:
        """Vectors at one exit (None: the deepest): (B, dim) float32; a network runs no deeper."""
        number = self.exits if exit is None else exit
        if not 1 <= number <= self.exits:
            raise ValueError(f"{self.name} has exits 1 to {self.exits}, got {number}")
        return self.embed_all(images)[number - 1]

    def load(self) -> None:  # noqa: B027  most models are ready after construction
        """Load now what the first picture would otherwise wait for.

        Raises:
            ModelError: the weights are missing or do not match the recipe.
        """

    def use_threads(self, count: int) -> None:  # noqa: B027
        """Set the network's number of threads in its own process; in this process `panorama.threads` does."""

    def hold(self, held: bool) -> None:  # noqa: B027
        """Pause (True) or resume (False), even inside a batch; only models in a process of their own can."""

    def rest_by(self, rest: Callable[[], None]) -> None:  # noqa: B027
        """Set a function that the network calls every few milliseconds, and waits for, while it computes."""

    def give_up(self) -> None:  # noqa: B027
        """End at once a model that runs elsewhere; callers that still wait for it get an error."""

    def cohort(self) -> NDArray[np.float32]:
        """Vectors of foreign pictures that scores are normalised against: (exits, N, dim) float32.

        They show nothing that a user would register. They belong to the model and are frozen with its
        weights. N = 0 for a model without a cohort.
        """
        return np.zeros((self.exits, 0, self.dim), np.float32)

    def cohorts(self) -> tuple[Cohort, ...]:
        """The same at each exit, with those strangers that count for grey pictures alone."""
        return tuple(Cohort.plain(vectors) for vectors in self.cohort())

    @cached_property
    def cohort_digest(self) -> str:
        """Digest of the cohorts: with other cohorts, the same vectors get other normalised values."""
        digest, cohorts = hashlib.sha256(), self.cohorts()
        for part in ("vectors", "grey", "hues"):
            for cohort in cohorts:
                digest.update(np.ascontiguousarray(getattr(cohort, part)).tobytes())
        return digest.hexdigest()


def network_facts(model: Embedder | Proposer) -> dict[str, str] | None:
    """Format and device of a model's network, and why it is not the fastest; None without a network.

    It loads the network to find out.
    """
    precision = model.precision
    if precision is None:
        return None
    told = {"model": model.name, "precision": precision.name, "device": str(model.device)}
    return told | {"why": precision.why}


class Proposer(ABC):
    """Finds regions that may hold an entity, whatever it is. Attributes are as in Embedder."""

    name: str
    hash: str
    precision: Precision | None = None
    device: object = "cpu"

    @abstractmethod
    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in that picture's own pixels, best first, overlaps removed."""

    def propose_later(self, images: Sequence[Image]) -> Later[list[Regions]]:
        """The same as `propose`; a model in a process of its own has only started when this returns."""
        return Later.done(self.propose(images))

    def load(self) -> None:  # noqa: B027
        """Load now what the first picture would otherwise wait for."""

    def use_threads(self, count: int) -> None:  # noqa: B027
        """Set the network's number of threads in its own process; see Embedder."""

    def hold(self, held: bool) -> None:  # noqa: B027
        """Pause (True) or resume (False); see Embedder."""

    def rest_by(self, rest: Callable[[], None]) -> None:  # noqa: B027
        """Set a function that the network calls while it computes; see Embedder."""

    def give_up(self) -> None:  # noqa: B027
        """End at once a model that runs elsewhere; see Embedder."""

    def at_side(self, side: int, zoom: int = 1) -> Proposer:
        """The same model for pictures with this longest side; itself if the side makes no difference to it.

        Args:
            zoom: from 2 on, it also sees zoom x zoom parts of each picture; see `zooming`.
        """
        return self
