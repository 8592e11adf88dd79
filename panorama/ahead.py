"""The words of a command enter; the process of its networks is started, where they are sure to be wanted.

That is where a library is made: nothing in it can be indexed already. Elsewhere the catalog has to be asked,
which takes as long to load as the networks do. What is guessed wrong costs a process that ends by itself.
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
FLAGS = frozenset(("--quick", "--redo", "--verbose", "-v", "--json"))
"""Options of `index` with which these networks are wanted: with a value, and without."""


def begin(words: Sequence[str]) -> None:
    """Start the networks' process where a command indexes into a library that is not there yet."""
    library, paths = _indexing(words)
    if library == "" or not any(glob.has_magic(path) or os.path.lexists(path) for path in paths):
        return
    with contextlib.suppress(PanoramaError, OSError, RuntimeError):  # whoever needs it tells what is wrong
        if possible() and _is_new(library):
            models = content_dir("embeddings")
            start_ahead(str(models / DEFAULT_PROPOSER), str(models / DEFAULT_EMBEDDER))


def _is_new(library: str | None) -> bool:
    """Whether a library is made there: nothing is, or an empty folder."""
    try:
        with os.scandir(library_folder(library)) as there:
            return next(there, None) is None
    except FileNotFoundError:
        return True


def _indexing(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The library named last and what is to be indexed in it.

    Without any of these where another command is meant, or an option with which nothing is indexed, or by
    another model.
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
