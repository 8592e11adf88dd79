"""A PanoramaNet folder comes in; an embedder goes out that loads its network when first needed.

Most queries need a model's hash and cohort but embed no picture; they should not wait for a network to load.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from panorama.errors import ModelError
from panorama.models.base import Cohort, Embedder, Image, Proposer
from panorama.models.precision import Precision
from panorama.models.weights import COHORT, WEIGHTS, ModelFolder

if TYPE_CHECKING:
    from panorama.models.embedder import PanoramaNet

CODE_VERSION = "2"  # 2: exits add up
EXITS = 3

MOST_SIDE = 1024
"""Eight times the shipped model's side; with larger ones, a batch of crops would exhaust any memory."""

Made = TypeVar("Made")
Net = TypeVar("Net", bound="Embedder | Proposer")


class Late(Generic[Made]):
    """A value that is made on the first call, once, whichever thread calls; later calls return the same."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Made | None = None

    def __call__(self) -> Made:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    @property
    def is_made(self) -> bool:
        """Whether the value has been made."""
        return self._made is not None


class LateNet(Generic[Net]):
    """The properties of a network that is loaded on first use, apart from what it computes.

    Attributes:
        _late: loads the network.
    """

    _late: Late[Net]

    @property
    def precision(self) -> Precision | None:
        """The number format of the network; loads it."""
        return self._late().precision

    @property
    def device(self) -> object:
        """Where the network runs; loads it."""
        return self._late().device

    @property
    def is_loaded(self) -> bool:
        """Whether the network is loaded."""
        return self._late.is_made

    def load(self) -> None:
        """Load and check the network, unless it is loaded."""
        self._late()

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function that the network calls while it computes; loads the network."""
        self._late().rest_by(rest)


def net_hash(folder: ModelFolder) -> str:
    """Hex digest of everything that changes a PanoramaNet's vectors: weights, input side, colour share, code.

    Raises:
        ModelError: the recipe lacks one of them or has an invalid value.
    """
    side, _, color_weight = net_facts(folder)
    settings = (folder.sha256(WEIGHTS), side, color_weight, CODE_VERSION)
    return hashlib.sha256(repr(settings).encode()).hexdigest()


def net_facts(folder: ModelFolder) -> tuple[int, int, float]:
    """The recipe's input side in pixels, length of a vector, and share of colour in its squared length.

    Raises:
        ModelError: the recipe lacks one of them or has an invalid value.
    """
    try:
        network: dict[str, Any] = folder.recipe["network"]
        side, color_weight = int(folder.recipe["preprocess"]["side"]), float(network["color_weight"])
        dim = int(network["learned_dim"]) + int(network["color_dim"])
    except KeyError as exc:
        raise ModelError(f"the recipe in {folder.path} lacks {exc}; it is not PanoramaNet's") from exc
    except (OverflowError, TypeError, ValueError) as exc:
        raise ModelError(f"the recipe in {folder.path} is not PanoramaNet's: {exc}") from exc
    if not 1 <= side <= MOST_SIDE or not 0 <= color_weight <= 1:
        raise ModelError(
            f"the recipe in {folder.path} has side {side} and color_weight {color_weight}: a side is pixels "
            f"from 1 to {MOST_SIDE}, and a weight is in [0, 1]"
        )
    return side, dim, color_weight


def cohorts_of(folder: ModelFolder) -> tuple[Cohort, ...]:
    """The cohort of each exit, read-only; none at all if the folder has none."""
    if COHORT not in folder.recipe.get("sha256", {}):
        return ()
    parts = folder.arrays(COHORT)
    if "grey" not in parts:  # of an earlier version
        return tuple(Cohort.plain(_shared(vectors)) for vectors in parts["vectors"])
    hues, each = _shared(parts["hues"]), zip(parts["vectors"], parts["grey"], strict=True)
    return tuple(Cohort(_shared(vectors), _shared(grey), hues) for vectors, grey in each)


def _shared(values: NDArray[Any]) -> NDArray[np.float32]:
    found = np.asarray(values, np.float32)
    found.flags.writeable = False  # all callers share this array
    return found


class LateEmbedder(LateNet["PanoramaNet"], Embedder):  # type: ignore[override]
    """PanoramaNet, loaded on first use; its name, hash, dim and cohort are known without the network."""

    exits = EXITS

    def __init__(self, folder: ModelFolder) -> None:
        self._model_folder = folder
        self._late = Late(self._loaded)
        self._cohorts = Late(lambda: cohorts_of(folder))
        self.folder = folder.path
        self.name = folder.name
        self.hash = net_hash(folder)
        self.dim = net_facts(folder)[1]

    @property
    def macs(self) -> tuple[int, ...]:  # type: ignore[override]
        """Multiply-adds per picture up to and including each exit."""
        return self.net.macs

    @property
    def net(self) -> PanoramaNet:
        """The network, loaded and checked; ModelError if its weights do not match the recipe."""
        return self._late()

    def _loaded(self) -> PanoramaNet:
        from panorama.models.embedder import PanoramaNet

        return PanoramaNet(self._model_folder)

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """(exits, B, dim) float32."""
        return self.net.embed_all(images)

    def embed_to(self, images: Sequence[Image], last: int) -> NDArray[np.float32]:
        """(last, B, dim) float32; the trunk runs no deeper."""
        return self.net.embed_to(images, last)

    def embed(self, images: Sequence[Image], exit: int | None = None) -> NDArray[np.float32]:
        """(B, dim) float32; the trunk runs no deeper than the exit."""
        return self.net.embed(images, exit)

    def cohort(self) -> NDArray[np.float32]:
        """(exits, N, dim) float32 of foreign training pictures; N = 0 if the folder has none."""
        cohorts = self._cohorts()
        return np.stack([cohort.vectors for cohort in cohorts]) if cohorts else super().cohort()

    def cohorts(self) -> tuple[Cohort, ...]:
        """The same at each exit, with those strangers that count for grey pictures alone; read-only."""
        return self._cohorts() or super().cohorts()
