"""A folder comes in; which folders below it are to be searched, and the files in them, go out.

Also: whether a file is gone, and how the disk spells a name.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NO_SUCH = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
"""Errors that mean that no file has the name, or none can have it."""


@dataclass(frozen=True, slots=True)
class FolderSearch:
    """The search of one folder, through links, nothing twice.

    Attributes:
        real: the folder's real path, with links followed.
        entered: real paths of folders searched outside of it.
    """

    real: Path
    entered: set[Path] = field(default_factory=set)

    def goes_into(self, folder: Path) -> bool:
        """Whether to search a folder. A link's target is searched once, unless `real` contains it."""
        real = folder.resolve()
        if real.is_relative_to(self.real):
            return not folder.is_symlink()
        # A link to a parent folder would extend the search to what nobody named.
        upwards = folder.parent.resolve().is_relative_to(real) or self.real.is_relative_to(real)
        if upwards or real in self.entered:
            return False
        self.entered.add(real)
        return True


def is_gone(path: Path) -> bool:
    """Whether a file no longer exists; False if nobody can say, as of a closed folder or a failing drive."""
    try:
        path.stat()
    except OSError as exc:
        return exc.errno in _NO_SUCH
    return False


def spelled(path: Path) -> Path:
    """A path as the disk spells it: names from a Mac have decomposed accents, typed ones hardly ever do.

    If no spelling of it is there, the path itself.
    """
    if os.path.exists(path):  # noqa: PTH110  may be no path
        return path
    found = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        forms = (part, *(unicodedata.normalize(form, part) for form in ("NFC", "NFD")))
        there = (found / form for form in forms if os.path.exists(found / form))  # noqa: PTH110
        found = next(there, found / part)
    return found if os.path.exists(found) else path  # noqa: PTH110


def files_below(folder: Path) -> dict[Path, Path]:
    """The files in a folder and below it, sorted, each with its real path; none if there is no folder.

    Left out is what is hidden, or lies in a hidden folder. A file found both directly and through links is
    found directly.

    Raises:
        OSError: a folder cannot be read.
    """
    root, found = folder.resolve(), dict[Path, Path]()
    for path in _below(folder, FolderSearch(root)) if folder.is_dir() else ():
        real = _real(path)
        if real not in found or real == root / path.relative_to(folder):
            found[real] = path
    return {path: real for real, path in sorted(found.items(), key=lambda both: both[1])}


def searched_with(folder: Path) -> list[Path]:
    """The real paths of a folder and of those elsewhere that links in it lead to; see `files_below`.

    Raises:
        OSError: a folder cannot be read.
    """
    search = FolderSearch(folder.resolve())
    if folder.is_dir():
        deque(_below(folder, search), maxlen=0)
    return [search.real, *sorted(search.entered)]


def _below(folder: Path, search: FolderSearch) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            yield path
        elif search.goes_into(path):
            yield from _below(path, search)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # up to Python 3.12, of a link that leads to itself; opening it says so
        return path.absolute()
