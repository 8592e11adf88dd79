"""The words of a command enter; the line to be typed leaves, with the library in use where it must name it.

Messages are made in layers that do not know where their library lies, and what they advise is typed as it
stands: without `--library` it would change another library than the one that was asked.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from panorama.lines import shell_line, shell_word

DEFAULT_PATH = "panorama-library"
ENVIRONMENT = "PANORAMA_LIBRARY"

_IN_USE: ContextVar[str] = ContextVar("the library in use", default="")
"""Of each thread; '' where it is the one that plain `panorama` opens."""


@contextmanager
def using(library: str | Path | None) -> Iterator[None]:
    """Within it, commands are about the library at a path; None for the one that plain `panorama` opens."""
    before = _IN_USE.set(str(library or ""))
    try:
        yield
    finally:
        _IN_USE.reset(before)


def command(*words: str) -> str:
    """A command line, each of its words quoted where it must be.

    `command("exemplars", "a van")` is `panorama exemplars 'a van'`, or
    `panorama --library /data/yard exemplars 'a van'` where the library in use is not what plain `panorama`
    would open from here.
    """
    return shell_line(["panorama", *_named_library(), *words])


def command_of(verb: str, name: str, options: str = "", behind: str = "") -> str:
    """The command line about an entity: a name that begins with a dash stands behind `--`.

    Args:
        options: with their values, as they are typed.
        behind: what else is named, as pictures.
    """
    word = shell_word(name)
    words = [options, "--", word, behind] if name.startswith("-") else [word, behind, options]
    return " ".join([command(verb), *filter(None, words)])


def alone(name: str) -> str:
    """A pattern that only the video of this name fits: the name of a folder also means what lies in it."""
    if glob.has_magic(name):
        return glob.escape(name)
    # Not the exclamation mark: [!] is no pattern.
    last = max((place for place, one in enumerate(name) if one not in "!/"), default=None)
    return name if last is None else f"{name[:last]}[{name[last]}]{name[last + 1 :]}"


def _named_library() -> list[str]:
    """The option that names the library in use by its whole path, if it must be named."""
    library = _IN_USE.get()
    if not library:
        return []
    default = os.environ.get(ENVIRONMENT) or DEFAULT_PATH
    try:
        used, plain = map(_whole, (library, default))
        # Links to one folder are one library.
        return [] if os.path.realpath(used) == os.path.realpath(plain) else ["--library", used]
    except FileNotFoundError:  # the working directory has been deleted, and with it what lay there
        return ["--library", library]


def _whole(path: str) -> str:
    return str(Path(os.path.expanduser(path)).absolute())  # noqa: PTH111  Path's raises where it is nobody's home
