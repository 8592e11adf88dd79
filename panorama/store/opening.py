"""A path comes in; the library there, opened or created, goes out as a Place."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from panorama.errors import LibraryDamaged, LibraryDiskFull, LibraryNotFound, PanoramaError, UsageError
from panorama.lines import shell_word
from panorama.store.catalog.connections import CATALOG_NAME
from panorama.store.catalog.database import Catalog, check_version, write_errors
from panorama.store.catalog.leftover import check_log
from panorama.store.catalog.migrations import SCHEMA_VERSION
from panorama.store.files.layout import ALBUM, DATA, FOLDERS, LOCKS, Place, make_folder
from panorama.store.files.own_names import DATA_FILE, check_folders, files_named, pictures_in
from panorama.store.files.schema import TABLES


def made(path: str | Path, exist_ok: bool) -> Place:
    """Create an empty library, see `Store.create`."""
    root = Path(path).expanduser().absolute()
    catalog_path = root / CATALOG_NAME
    there = catalog_path.exists()
    if not there:
        with write_errors(root):
            refusal = _refusal(root)
            # Looked for again: what is in the way may be the library that another process has just made here.
            there = catalog_path.exists()
            if refusal is not None and not there:
                raise refusal
    if there:
        if exist_ok:
            return opened(root, write=True)
        raise UsageError(f"there is a library at {root} already; open it, or choose another path")
    with write_errors(root):
        make_folder(root)
        place = Place(root, Catalog(root))
        place.make_folders()
    place.catalog.migrate()
    return place


def _refusal(root: Path) -> PanoramaError | None:
    """The error if a folder without a catalog holds something that keeps a library from being created."""
    if _has_content(root):
        return _without_catalog(root, "missing")
    if is_taken(root):
        return UsageError(f"{root} exists and is not a library; choose a new or an empty folder")
    return None


def opened(path: str | Path, write: bool) -> Place:
    """Open the library at a path, see `Store.open`."""
    root = Path(path).expanduser().absolute()
    catalog_path = root / CATALOG_NAME
    try:
        found, taken = catalog_path.is_file(), False
        if not found:
            has_content, taken = _has_content(root), is_taken(root)
            found = catalog_path.is_file()  # again: another process may just have made a library here
            if has_content and not found:
                raise _without_catalog(root, "missing")
    except PermissionError as exc:
        raise LibraryNotFound(f"no permission to look into {root}") from exc
    if taken and not found:
        kind = "a folder with something else in it" if root.is_dir() else "a file"
        raise LibraryNotFound(
            f"{root} is not a library but {kind}; name a library, or a new or empty folder for one"
        )
    if not found:
        named = shell_word(str(root))
        raise LibraryNotFound(f"no library at {root}. Make one: panorama --library {named} index VIDEO...")
    writable = write and _can_write(root)
    check_folders(root, writable)
    catalog, version = _open_catalog(root, writable)
    try:
        return _upgraded(root, catalog, version, writable)
    except BaseException:
        catalog.close()  # else its log stays beside a library that was refused, and the file stays open
        raise


def _upgraded(root: Path, catalog: Catalog, version: int, writable: bool) -> Place:
    """The library of a catalog whose schema version was read, upgraded if it is older."""
    if (
        version == 0 and _has_content(root) and catalog.schema_version() == 0
    ):  # again: its maker may be at work
        raise _without_catalog(root, "empty")
    if version == 0 and not catalog.writable:
        raise LibraryNotFound(f"{catalog.path} is empty: the library was never completed")
    check_version(root, version, SCHEMA_VERSION, migrating=writable)
    if version < SCHEMA_VERSION:  # only then: it waits for other writers, and raises if the disk is full
        catalog.migrate()
    place = Place(root, catalog)
    if catalog.writable:
        with write_errors(root):
            place.make_folders()
    return place


def is_at(path: Path) -> bool:
    """Whether there is a library at `path`, of any version; True if the folder may not be read."""
    with contextlib.suppress(PermissionError):
        return (path / CATALOG_NAME).is_file()
    return True  # opening it will report the missing permission


def is_taken(path: Path) -> bool:
    """Whether something other than a library is at `path`, see `Store.is_taken`."""
    return path.exists() and not (path.is_dir() and _is_remains(path))


def _is_remains(root: Path) -> bool:
    """Whether a folder is empty or holds only what a killed `create` had made: folders and locks."""
    made = {root / name for name in FOLDERS} | {root / DATA / table for table in TABLES}
    for place, folders, files in os.walk(root, onerror=_raise):
        here = Path(place)
        if any(here / name not in made or (here / name).is_symlink() for name in folders):
            return False
        if files and not (here == root / LOCKS and all(name.endswith(".lock") for name in files)):
            return False
    return True


def _raise(error: OSError) -> None:
    raise error


def _open_catalog(root: Path, writable: bool) -> tuple[Catalog, int]:
    """The catalog in a folder and its schema version; 0 if it is empty."""
    check_log(root / CATALOG_NAME)
    catalog = Catalog(root, writable=writable)
    try:
        return catalog, catalog.schema_version()
    except LibraryDiskFull:
        # The catalog can still be read while nobody writes.
        catalog = Catalog(root, writable=False, disk_full=True)
        return catalog, catalog.schema_version()
    except LibraryDamaged as exc:
        if _has_content(root):
            raise
        raise LibraryNotFound(f"no library at {root}: {exc}") from exc


def _has_content(root: Path) -> bool:
    """Whether a folder holds data files or pictures of a library."""
    rows = any(files_named(root / DATA / table, DATA_FILE) for table in TABLES)
    return rows or bool(pictures_in(root / ALBUM))


def _without_catalog(root: Path, how: str) -> LibraryDamaged:
    """The error for data without a catalog: opened as a new library, a sweep would delete all of it."""
    return LibraryDamaged(
        f"{root / CATALOG_NAME} is {how} but there are data files or pictures of a library; put it back"
        " from a backup, or name another folder"
    )


def _can_write(root: Path) -> bool:
    return os.access(root / CATALOG_NAME, os.W_OK) and os.access(root, os.W_OK)
