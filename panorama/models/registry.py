"""A model's name enters; the embedder of that name leaves, its weights loaded and checked."""

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
    """The embedder called `name` (None: the default), its network loaded and checked when it is needed.

    Raises:
        ModelError: no such embedder, or its recipe is malformed.
    """
    wanted = DEFAULT_EMBEDDER if name is None else name
    if wanted == ColorEmbedder.name:
        return ColorEmbedder()
    return LateEmbedder(open_model(wanted, "embedder", also=(ColorEmbedder.name,)))


def proposer_names() -> tuple[str, ...]:
    """The proposers that can be loaded by name: the shipped ones."""
    return model_names("proposer")


def late_proposer(name: str | None = None) -> Proposer:
    """The proposer called `name`, or in the folder `name`, its network loaded and checked when it is needed.

    None means the default, 'proposer'.

    Raises:
        ModelError: no such proposer, or its recipe is malformed.
    """
    return LateProposer(open_model(DEFAULT_PROPOSER if name is None else name, "proposer"))


def load_embedder(name: str | None = None) -> Embedder:
    """The embedder called `name`, or in the folder `name`; None means the default, 'panoramanet'.

    Raises:
        ModelError: no such embedder, or its weights are missing or not those of the recipe.
    """
    wanted = DEFAULT_EMBEDDER if name is None else name
    if wanted == ColorEmbedder.name:
        return ColorEmbedder()
    folder = open_model(wanted, "embedder", also=(ColorEmbedder.name,))
    # It brings what runs networks; the baseline and the list of names do not need it.
    from panorama.models.embedder import PanoramaNet

    return PanoramaNet(folder)
