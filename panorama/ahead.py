"""The words of a command enter; the process of its networks is started, where they are sure to be wanted.

That is where a library is made: nothing in it can be indexed already. Elsewhere the catalog has to be asked,
which takes as long to load as the networks do. What is guessed wrong costs a process that ends by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from panorama.content import DEFAULT_EMBEDDER, DEFAULT_PROPOSER, content_dir
from panorama.errors import PanoramaError
from panorama.library_path import library_path
from panorama.worker.starting import possible, start_ahead

INDEX = "index"
LIBRARY = "--library"
ELSE = ("--model", "--help", "-h")
"""Options with which other networks are wanted, or none."""


def begin(words: Sequence[str]) -> None:
    """Start the networks' process where a command indexes into a library that is not there yet."""
    names = [word.split("=")[0] for word in words]
    if any(option in names for option in ELSE) or not _indexes(words):
        return
    with contextlib.suppress(PanoramaError, OSError, RuntimeError):  # whoever needs it tells what is wrong
        if possible() and not library_path(_library(words)).expanduser().exists():
            models = content_dir("embeddings")
            start_ahead(str(models / DEFAULT_PROPOSER), str(models / DEFAULT_EMBEDDER))


def _indexes(words: Sequence[str]) -> bool:
    """Whether the command is `index`: the first word that is neither an option nor its value."""
    value = False
    for word in words:
        if not value and not word.startswith("-"):
            return word == INDEX
        value = word == LIBRARY
    return False


def _library(words: Sequence[str]) -> str | None:
    """The library named last, as the command line takes it."""
    found = None
    for word, behind in zip(words, [*words[1:], None], strict=True):
        if word == LIBRARY:
            found = behind
        elif word.startswith(f"{LIBRARY}="):
            found = word.removeprefix(f"{LIBRARY}=")
    return found
