"""A library's directory comes in; the paths of its files and locks go out."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from panorama.store.catalog.connections import CATALOG_NAME
from panorama.store.catalog.database import Catalog
from panorama.store.files.schema import TABLES

FOLDERS = DATA, ALBUM, INDEX, LOCKS = "data", "album", "index", "locks"
TEMPORARY = ".tmp-"


@dataclass(frozen=True, slots=True)
class Place:
    """A library's directory and its open catalog."""

    root: Path
    catalog: Catalog

    @property
    def data(self) -> Path:
        return self.root / DATA

    @property
    def album(self) -> Path:
        return self.root / ALBUM

    @property
    def index(self) -> Path:
        return self.root / INDEX

    @property
    def locks(self) -> Path:
        return self.root / LOCKS

    def writer_lock(self, token: str) -> Path:
        """The lock that a writer holds while it has unlisted files, whose names begin with its token."""
        return self.locks / f"writer-{token}.lock"

    def make_folders(self) -> None:
        """Create the folders of a library."""
        for folder in (*(self.data / table for table in TABLES), self.album, self.index, self.locks):
            make_folder(folder)


def own_files(path: Path) -> tuple[str, ...]:
    """The names in a folder that belong to the library there; none if there is no library."""
    with suppress(OSError):
        if (path / CATALOG_NAME).is_file() and (path / DATA).is_dir():
            return (*(f"{CATALOG_NAME}{end}" for end in ("", "-wal", "-shm")), *FOLDERS)
    return ()


def token_of(file_name: str) -> str:
    """The token of the writer of a data file, finished or temporary."""
    return file_name.removeprefix(TEMPORARY).split("-")[0].split(".")[0]


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and the missing ones above it, such that they survive a power cut."""
    missing = []
    above = folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        with suppress(PermissionError):  # above the library may be a folder that this user may not read
            sync_folder(made.parent)


def _created(path: Path) -> BinaryIO:
    """A new file for writing; OSError if there is anything: a link may lead out of the library."""
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, how, 0o666), "wb")


def write_atomically(path: Path, *content: bytes | memoryview, durable: bool = True) -> None:
    """Replace a whole file by pieces of content: its name always leads to the old or the new content.

    Args:
        durable: False does not wait for the disk: after a power cut the file may hold anything.
    """
    if durable:
        make_folder(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    # Not the number of the process: threads share it, and so do processes in containers.
    temporary = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}-{path.name}")
    try:
        with _created(temporary) as file:
            for piece in content:
                file.write(piece)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)
