"""The words of a command come in; if it is sure to need the networks, their process is started early.

It is sure only if the command creates a library, in which nothing can be indexed yet. Otherwise the catalog
would have to say, and loading that takes as long as loading the networks. A wrong guess costs a process that
ends by itself.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence

from panorama.api.path import library_folder
from panorama.content import DEFAULT_EMBEDDER, DEFAULT_PROPOSER, content_dir
from panorama.errors import PanoramaError
from panorama.worker.starting import possible, start_ahead

INDEX = "index"
LIBRARY = "--library"
VALUES = frozenset(("--fps", "--every", "--zoom", "--depth", "--time-from", "--timezone", "--camera-from"))
FLAGS = frozenset(("--quick", "--redo", "--verbose", "-v", "--quiet", "-q", "--json"))
"""Options of `index` that still use the default networks: those with a value, and those without."""


def begin(words: Sequence[str]) -> None:
    """Start the process of the default networks if the command indexes into a library yet to be created."""
    library, paths = _indexing(words)
    if library == "" or not any(glob.has_magic(path) or os.path.lexists(path) for path in paths):
        return
    with contextlib.suppress(PanoramaError, OSError, RuntimeError):  # the command itself reports the error
        if possible() and _is_new(library):
            models = content_dir("embeddings")
            start_ahead(str(models / DEFAULT_PROPOSER), str(models / DEFAULT_EMBEDDER))


def _is_new(library: str | None) -> bool:
    """Whether the library would be created: its folder is missing or empty."""
    try:
        with os.scandir(library_folder(library)) as there:
            return next(there, None) is None
    except FileNotFoundError:
        return True


def _indexing(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The library named last (None if none is named) and the paths to index.

    No paths if it is another command, or has an option that uses another model or indexes nothing.
    """
    library: str | None = None
    paths: list[str] = []
    command = ""
    left = iter(words)
    for word in left:
        name, sign, value = word.partition("=")
        if command and word == "--":
            return library, [*paths, *left]
        if name == LIBRARY or (command and name in VALUES):
            given = value if sign else next(left, "")
            library = given if name == LIBRARY else library
        elif word == "--debug" or (command and word in FLAGS):
            continue
        elif word.startswith("-") or not (command or word == INDEX):
            return None, []
        elif command:
            paths.append(word)
        else:
            command = word
    return library, paths
