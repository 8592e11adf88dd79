"""Where a library's files lie: a directory enters, paths and lock names leave; and files written whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from panorama.errors import LibraryWriteError
from panorama.store.catalog import Catalog
from panorama.store.schema import TABLES

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
        """The lock that a writer holds while files that begin with its token may be unlisted."""
        return self.locks / f"writer-{token}.lock"

    def make_folders(self) -> None:
        """Create what a library consists of besides its catalog."""
        for folder in (*(self.data / table for table in TABLES), self.album, self.index, self.locks):
            folder.mkdir(parents=True, exist_ok=True)


def token_of(file_name: str) -> str:
    """The writer that a data file, finished or not, belongs to."""
    return file_name.removeprefix(TEMPORARY).split("-")[0].split(".")[0]


def sync_folder(folder: Path) -> None:
    """Make renames inside the folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, *content: bytes | memoryview, durable: bool = True) -> None:
    """Write a whole file, in pieces: under its name lies the old content or the new, never a part.

    Args:
        durable: False spares waiting for the disk: after a power cut anything may lie there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        with temporary.open("wb") as file:
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


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Where to write what becomes `out`, a file for users; until all of it is there what was there stays.

    Its folder is made. Nobody waits for the disk.

    Raises:
        LibraryWriteError: the file cannot be written.
    """
    if out.name == "":
        raise LibraryWriteError(f"{out} cannot be written: it is a folder; name a file in it")
    if out.is_symlink():
        out = out.resolve()  # as the shell does: what the link leads to is written, and the link stays
    partial = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and not (out.is_file() or out.is_dir()):
            yield out  # a device or a pipe: a file in its place would be the end of it
            return
        yield partial
        partial.replace(out)
    except OSError as exc:
        raise LibraryWriteError(f"{out} cannot be written: {exc.strerror or exc}") from exc
    finally:
        with suppress(OSError):  # the folder may be none
            partial.unlink(missing_ok=True)
