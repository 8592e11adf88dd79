"""Files and folders of a library come in; an error goes out if this user may not read or replace them.

Replacing and deleting a file takes the right to write in its folder, which another user may have made, or
whose disk may be mounted for reading only. It is checked before a change of several steps begins, so that the
first of them is not done without the last.
"""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

from panorama.errors import LibraryWriteError, PanoramaError
from panorama.store.catalog.database import write_errors
from panorama.store.files.layout import Place
from panorama.store.files.own_names import PLACES, index_folders
from panorama.store.files.schema import TABLES


def check_rewritable(place: Place) -> None:
    """Raise LibraryWriteError if files in data/, index/ or locks/ cannot be replaced by this user."""
    if not place.catalog.writable:
        return  # the change itself is refused
    tables = (place.data / table for table in TABLES)
    caches = (place.index, place.index / PLACES, *index_folders(place.index))
    for folder in (*tables, *caches, place.locks):
        check_folder(place.root, folder)


def check_folder(root: Path, folder: Path) -> None:
    """Raise LibraryWriteError if this user cannot delete files in a folder of the library at `root`."""
    if not folder.is_dir() or may(folder, os.W_OK | os.X_OK):
        return
    if os.statvfs(folder).f_flag & os.ST_RDONLY:  # whoever the owner is
        with write_errors(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    owner = owner_of(folder)
    raise LibraryWriteError(
        f"cannot write {folder}: it belongs to {owner}, and you may not delete files in it; nothing was"
        f" changed. Run the command as {owner}, or have {owner} give you write permission for all folders"
        f" in {root}"
    )


def unreadable(root: Path, path: Path) -> PanoramaError:
    """The error for a file of the library at `root` that this user may not read."""
    owner = owner_of(path)
    return PanoramaError(
        f"cannot read {path}: it belongs to {owner}, and you may not read it. Run the command as {owner}, or"
        f" have {owner} give you read permission for all files in {root}"
    )


def may(path: Path, how: int) -> bool:
    """Whether this user may do what `how` says (see access(2)) with an existing file."""
    return os.access(path, how, effective_ids=os.access in os.supports_effective_ids)


def owner_of(path: Path) -> str:
    """The name of the user that owns a file, or its number if it has none."""
    try:
        number = path.stat().st_uid
    except PermissionError:  # of the folder
        return "another user"
    try:
        return f"the user {pwd.getpwuid(number).pw_name!r}"
    except KeyError:
        return f"the user {number}"
