"""A model's name enters; the embedder of that name leaves, its weights loaded and checked."""

from __future__ import annotations

from panorama.models.base import Embedder
from panorama.models.color import ColorEmbedder
from panorama.models.late import LateEmbedder
from panorama.models.weights import model_names, open_model

DEFAULT_EMBEDDER = "panoramanet"


def embedder_names() -> tuple[str, ...]:
    """The embedders that can be loaded by name: the shipped ones, then the colour baseline."""
    return (*model_names("embedder"), ColorEmbedder.name)


def late_embedder() -> Embedder:
    """The default embedder, whose network is loaded and checked when the first picture comes.

    Raises:
        ModelError: its recipe is missing or malformed.
    """
    return LateEmbedder(open_model(DEFAULT_EMBEDDER, "embedder"))


def load_embedder(name: str | None = None) -> Embedder:
    """The embedder called `name`, or in the folder `name`; None means the default, 'panoramanet'.

    Raises:
        ModelError: no such embedder, or its weights are missing or not those of the recipe.
    """
    wanted = DEFAULT_EMBEDDER if name is None else name
    if wanted == ColorEmbedder.name:
        return ColorEmbedder()
    folder = open_model(wanted, "embedder", also=(ColorEmbedder.name,))
    # torch takes seconds to import; the baseline and the list of names do not need it.
    from panorama.models.embedder import PanoramaNet

    return PanoramaNet(folder)
