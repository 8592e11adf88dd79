"""Listed paths and names found in a library's folders come in; those that are the library's own go out.

A library may come from anybody, and anybody may have put files into its folders. This program writes and
deletes only files that lie in the library's own folders and match the names that this program gives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from panorama.errors import LibraryDamaged
from panorama.lines import shell_word
from panorama.store.catalog.connections import CATALOG_NAME
from panorama.store.files.layout import ALBUM, DATA, INDEX, LOCKS, TEMPORARY
from panorama.store.files.schema import TABLES

_HALF = rf"{re.escape(TEMPORARY)}(?:[0-9a-f]+-)?"
_PICTURE = r"[0-9a-f]{32}\.[^\W_]+"

# s<number>: written with a segment; w: vectors added later; c: rewritten by compaction or erasing.
DATA_FILE = re.compile(
    rf"(?:{_HALF})?(?:s\d{{8,}}(?:-[0-9a-f]{{32}})?|[cw][0-9a-f]+)(?:-\w{{0,16}}-e\d+)?\.parquet"
)
PICTURE_FILE = re.compile(rf"(?:{_HALF})?{_PICTURE}")
LOCK_FILE = re.compile(r"(?:claim|reader|writer)-.+\.lock")
CACHE_FILE = re.compile(r"g\d+\.\w+")
CODES_FILE = re.compile(r"i\d+\.\w+")
PLACES_FILE = re.compile(rf"(?:{_HALF})?(?:{'|'.join(TABLES)})-.+\.\d+")
HALF_CACHE_FILE = re.compile(rf"{_HALF}(?:manifest\.json|g\d+\.\w+)")
HALF_CODES_FILE = re.compile(rf"{_HALF}(?:ivf\.json|i\d+\.\w+)")

PLACES = "places"
"""The folder in index/ for columns that are looked up by track or frame."""

_NUMBER = re.compile(r"[0-9]+")
_INDEX_FOLDER = re.compile(r"\w{0,16}-e\d+")
_REMADE = re.compile(f"{INDEX}|{LOCKS}")
_IN_INDEX = re.compile(f"{PLACES}|{_INDEX_FOLDER.pattern}")
_KEPT = re.compile(rf"{ALBUM}|{DATA}|{re.escape(CATALOG_NAME)}(?:-wal|-shm|-journal)?")
_IN_DATA = re.compile("|".join(TABLES))
_ANY = re.compile(r".*", re.DOTALL)
_PUT_IT_THERE = "put what it leads to in its place"
_LISTED_PICTURE = re.compile(rf"{ALBUM}/[0-9]+/{_PICTURE}")
# Checked for every listed file in every snapshot: only what it takes to keep a path in its folder.
_LISTED_DATA = re.compile(rf"{DATA}/(?:{'|'.join(TABLES)})/[csw][^/]*")


def files_named(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Files in a folder whose whole names match; none if the folder is missing. Links count as files."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return [
            folder / entry.name
            for entry in entries
            if name.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False)
        ]
    return []


def pictures_in(album: Path) -> list[Path]:
    """All picture files in the folders of an album."""
    return [path for folder in _folders_named(album, _NUMBER) for path in files_named(folder, PICTURE_FILE)]


def index_folders(index: Path) -> list[Path]:
    """The folders in index/ that belong to one exit of one model each."""
    return _folders_named(index, _INDEX_FOLDER)


def _folders_named(folder: Path, name: re.Pattern[str]) -> list[Path]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return [
            folder / entry.name
            for entry in entries
            if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    return []


def check_data_files(root: Path, listed: Iterable[str]) -> None:
    """Raise LibraryDamaged for the first listed path that cannot be a data file of the library."""
    fits = _LISTED_DATA.fullmatch
    for path in listed:
        if not (isinstance(path, str) and fits(path)):
            raise _not_ours(root, "files", path)


def picture_file(root: Path, listed: str) -> Path:
    """The absolute path of a picture file that a catalog lists.

    Raises:
        LibraryDamaged: the path cannot be that of a picture of the library, or it or its folder is a link.
    """
    if not (isinstance(listed, str) and _LISTED_PICTURE.fullmatch(listed)):
        raise _not_ours(root, "exemplars", listed)
    path = root / listed
    check_no_link(path.parent)
    check_no_link(path)
    return path


def _not_ours(root: Path, table: str, listed: object) -> LibraryDamaged:
    return LibraryDamaged(
        f"{root / CATALOG_NAME} was altered: a row of its table {table} names {listed!r}, where no file of a"
        " library can be; nothing was touched. Put the catalog back from a backup, or get the library again"
        " from somebody you trust"
    )


def check_folders(root: Path, write: bool) -> None:
    """Raise LibraryDamaged if a file or folder that will be written to, or deleted from, is a link.

    Args:
        write: False for a library opened for reading only; then only index/ and locks/ are written to.
    """
    remade = [*_links(root, _REMADE), *_links(root / INDEX, _IN_INDEX)]
    for folder in (root / LOCKS, *index_folders(root / INDEX)):
        remade += _links(folder)
    for link in remade:
        raise _is_link(link, f"delete it, and what is missing is made again: rm {shell_word(str(link))}")
    for link in [*_links(root, _KEPT), *_links(root / DATA, _IN_DATA)] if write else []:
        raise _is_link(link, _PUT_IT_THERE)


def check_no_link(path: Path) -> None:
    """Raise LibraryDamaged if a file or folder that a library keeps is a link."""
    if path.is_symlink():
        raise _is_link(path, _PUT_IT_THERE)


def _links(folder: Path, name: re.Pattern[str] = _ANY) -> list[Path]:
    # A folder that may not be listed is reported later, when it is needed.
    with suppress(OSError), os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if entry.is_symlink() and name.fullmatch(entry.name)]
    return []


def _is_link(path: Path, advice: str) -> LibraryDamaged:
    return LibraryDamaged(
        f"{path} is a link; a library writes and deletes only in its own folders, since a link may lead to"
        f" any of your files; {advice}. To have a library on another disk, move all of it there and name it,"
        " or a link to it, with --library"
    )
