"""A path, or none, comes in; the directory of the library, or of pictures, that it means goes out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from panorama.commands import DEFAULT_PATH, ENVIRONMENT
from panorama.errors import LibraryNotFound, UsageError

LONGEST_BYTES = 489
"""SQLite opens no file whose path is longer than 504 bytes; the catalog's own name takes 15 of them."""


def library_path(path: str | Path | None = None) -> Path:
    """The library's path: the one given, else $PANORAMA_LIBRARY, else ./panorama-library."""
    return Path(path or os.environ.get(ENVIRONMENT) or DEFAULT_PATH)


def picture_folder(root: str | Path | None = None) -> Path:
    """The absolute folder that contains the pictures named in SQL: the one given, else the working directory.

    If that has been deleted, the path as it is, for statements that name no picture.
    """
    folder = Path(root or "")
    try:
        return folder.absolute()
    except FileNotFoundError:
        return folder


def library_folder(path: str | Path | None = None) -> Path:
    """The absolute directory of the library. It does not check whether a library exists there.

    Raises:
        UsageError: the path cannot be the name of a folder.
        LibraryNotFound: the system cannot reach the path: it leads through a file or through endless links.
    """
    given = library_path(path)
    try:
        where = given.expanduser().absolute()
    except RuntimeError as exc:
        raise UsageError(
            f"the library {str(given)!r} is in the home of an unknown user; write the whole path, or"
            f" {f'./{given}'!r} for a folder of that name"
        ) from exc
    try:
        count = len(str(where).encode())
    except UnicodeEncodeError as exc:
        raise UsageError(f"the library {str(where)!r} is not UTF-8 text; choose another folder") from exc
    try:
        where.stat()
    except FileNotFoundError:
        if where.is_symlink():
            raise LibraryNotFound(f"{where} is a broken link; name another folder") from None
    except PermissionError:
        pass
    except OSError as exc:
        error = UsageError if exc.errno == errno.ENAMETOOLONG else LibraryNotFound
        raise error(f"no library can be at {where}: {exc.strerror}; name another folder") from exc
    if count > LONGEST_BYTES:
        raise UsageError(
            f"the library {str(where)!r} has a path of {count} bytes; choose a folder of at most"
            f" {LONGEST_BYTES}"
        )
    return where
