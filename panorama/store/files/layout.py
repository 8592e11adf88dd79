"""A library's directory comes in; the paths of its files and locks go out."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from panorama.store.catalog.connections import CATALOG_NAME
from panorama.store.catalog.database import Catalog
from panorama.store.files.schema import TABLES
from panorama.whole_files import sync_folder, write_whole

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


def make_folder(folder: Path) -> None:
    """Create a folder and the missing ones above it, such that they survive a power cut."""
    missing = []
    above = folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def temporary_of(path: Path) -> Path:
    """Where a file of a library is written before it takes its place: a new name, which sweeping knows."""
    return path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}-{path.name}")


def write_atomically(path: Path, *content: bytes | memoryview, durable: bool = True) -> None:
    """Replace a whole file of a library by pieces of content; see `write_whole`.

    Args:
        durable: False does not wait for the disk: after a power cut the file may hold anything.
    """
    if durable:
        make_folder(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, *content, part=temporary_of(path), durable=durable)
