"""A model's name or folder comes in; the embedder or proposer goes out."""

from __future__ import annotations

from panorama.content import DEFAULT_EMBEDDER, DEFAULT_PROPOSER
from panorama.models.base import Embedder, Proposer
from panorama.models.color import ColorEmbedder
from panorama.models.late import LateEmbedder
from panorama.models.late_proposer import LateProposer
from panorama.models.weights import model_names, open_model


def embedder_names() -> tuple[str, ...]:
    """The embedders that can be loaded by name: the shipped ones, then the colour baseline."""
    return (*model_names("embedder"), ColorEmbedder.name)


def late_embedder(name: str | None = None) -> Embedder:
    """The embedder with this name or folder; its network is loaded and checked when first needed.

    Args:
        name: None for the default.

    Raises:
        ModelError: there is no such embedder, or its recipe is malformed.
    """
    wanted = DEFAULT_EMBEDDER if name is None else name
    if wanted == ColorEmbedder.name:
        return ColorEmbedder()
    return LateEmbedder(open_model(wanted, "embedder", also=(ColorEmbedder.name,)))


def proposer_names() -> tuple[str, ...]:
    """The proposers that can be loaded by name: the shipped ones."""
    return model_names("proposer")


def late_proposer(name: str | None = None) -> Proposer:
    """The proposer with this name or folder; its network is loaded and checked when first needed.

    Args:
        name: None for the default, 'proposer'.

    Raises:
        ModelError: there is no such proposer, or its recipe is malformed.
    """
    return LateProposer(open_model(DEFAULT_PROPOSER if name is None else name, "proposer"))


def load_embedder(name: str | None = None) -> Embedder:
    """The embedder with this name or folder, loaded and checked now.

    Args:
        name: None for the default, 'panoramanet'.

    Raises:
        ModelError: there is no such embedder, or its weights are missing or do not match the recipe.
    """
    wanted = DEFAULT_EMBEDDER if name is None else name
    if wanted == ColorEmbedder.name:
        return ColorEmbedder()
    folder = open_model(wanted, "embedder", also=(ColorEmbedder.name,))
    # Imported here because it loads the network code, which the baseline and the names do not need.
    from panorama.models.embedder import PanoramaNet

    return PanoramaNet(folder)
