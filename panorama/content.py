"""Where the files that people read, run and extend lie: the checkout's folders, or the wheel's copies."""

from __future__ import annotations

from pathlib import Path

from panorama.errors import PanoramaError

DEFAULT_EMBEDDER = "panoramanet"
DEFAULT_PROPOSER = "proposer"
"""Folders of `embeddings`: the models that are used where none is named."""

CONTENT = ("queries", "embeddings", "data")


def content_dir(name: str) -> Path:
    """The folder `queries`, `embeddings` or `data`, in the installed package or beside it in a checkout.

    Raises:
        PanoramaError: the folder is in neither place; the installation is incomplete.
    """
    if name not in CONTENT:
        raise ValueError(f"content is one of {', '.join(CONTENT)}, got {name!r}")
    package = Path(__file__).resolve().parent
    for place in (package / "_content" / name, package.parent / name):
        if place.is_dir():
            return place
    raise PanoramaError(f"the folder {name!r} is missing from this installation; reinstall panorama-video")
