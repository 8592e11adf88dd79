"""A folder comes in; which folders below it are to be searched, and the files in them, go out.

Also: whether a file or video is gone or has moved, and how the disk spells a name.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NO_SUCH = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
"""Errors that mean that no file has the name, or none can have it."""

LYING_SECONDS = 86400.0
"""How long before it is stored a video may have been moved away: decoding it takes hours, rarely days."""

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".tif", ".tiff"}
    | {".ppm", ".pgm", ".jp2", ".avif", ".heic", ".heif", ".hif"}
)
"""Suffixes of the pictures that make a folder a video: all but GIF, which is a video by itself."""


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


def video_is_gone(path: Path) -> bool:
    """Whether a video's file no longer exists, or of a folder of pictures, none of them is left there.

    False if nobody can say, as for `is_gone`.
    """
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return False
        with os.scandir(path) as inside:
            return not any(_is_image(entry.name) for entry in inside)
    except OSError as exc:
        return exc.errno in _NO_SUCH


def _is_image(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122


def has_moved(uri: str, since_unix: float) -> bool:
    """Whether a video that is found elsewhere was moved away from here; else it was copied.

    A folder in which nothing is left may be where a disk is mounted at other times. Then nothing was taken
    out of the folder itself, so its time of change is that of before.

    Args:
        uri: its path; False for an address of another kind.
        since_unix: when the video was stored. Not long before, it lay here.
    """
    if "://" in uri or not video_is_gone(Path(uri)):
        return False
    try:
        changed = [Path(folder).stat().st_mtime for folder in emptied_folders([uri])]
    except OSError:  # it has gone as well
        return True
    return all(unix >= since_unix - LYING_SECONDS for unix in changed)


def emptied_folders(uris: Iterable[str]) -> tuple[str, ...]:
    """Existing but empty folders that missing videos were or lay in, at any depth."""
    # Many lie in one folder. A folder of pictures may itself be one; else the name may be no possible one.
    starts = dict.fromkeys(Path(uri) if os.path.isdir(uri) else Path(uri).parent for uri in uris)  # noqa: PTH112
    nearest = dict.fromkeys(map(_nearest, starts))
    return tuple(str(folder) for folder in nearest if folder is not None and _is_empty(folder))


def _nearest(folder: Path) -> Path | None:
    """The folder, or its nearest parent that exists; None if none does."""
    return next((one for one in (folder, *folder.parents) if not is_gone(one)), None)


def _is_empty(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return not any(entries)
    except OSError:  # access is denied
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
