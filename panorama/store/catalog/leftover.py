"""A catalog and the log beside it enter; an error leaves where the log is another catalog's.

SQLite takes what a killed process left in its log for the newest pages of whatever catalog lies beside it.
Where a backup was put there since, these pages destroy it, and answers come from a mixture of both.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from panorama.errors import LibraryDamaged

APART_SECONDS = 1.0
"""Between two times of files that are not of one moment."""

# Of https://sqlite.org/fileformat2.html: a log begins with its page size and two salts. Each frame in it is a
# page behind the number of that and the salts of its log.
_LOG = struct.Struct(">8x I 4x 8s 8x")
_FRAME = struct.Struct(">I 4x 8s 8x")


def check_log(catalog: Path) -> None:
    """Raise LibraryDamaged where a catalog was put beside a log that does not fit it; neither is touched."""
    log = catalog.with_name(catalog.name + "-wal")
    try:
        was_put, beside = catalog.stat(), log.stat()
    except OSError:
        return  # no log, which is how a library is left
    if not beside.st_size:
        return
    # A log is written first, and pages of it then go into its catalog.
    copied_now = was_put.st_mtime_ns > beside.st_mtime_ns and not _holds_any(catalog, log)
    if not copied_now and not _copied_with_its_time(was_put, beside):
        return
    if not _fit(catalog, log):
        raise LibraryDamaged(
            f"{catalog} lies beside the log {log.name} of another catalog, as after restoring a backup over a"
            f" library whose process was killed; to use the backup, delete {log} and {catalog.name}-shm"
        )


def _holds_any(catalog: Path, log: Path) -> bool:
    """Whether a catalog has any page as it is in a log; True where they cannot be read."""
    try:
        with catalog.open("rb") as pages, log.open("rb") as frames:
            for number, page in _frames(frames.read):
                pages.seek((number - 1) * len(page))
                if pages.read(len(page)) == page:
                    return True
    except OSError:
        return True  # who opens it tells
    return False


def _frames(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Numbers, from 1, and contents of the pages in a log."""
    head = read(_LOG.size)
    if len(head) < _LOG.size:
        return
    size, salts = _LOG.unpack(head)
    while len(frame := read(_FRAME.size)) == _FRAME.size:
        number, its = _FRAME.unpack(frame)
        if its != salts or not number:  # left of a log before
            return
        yield number, read(size)


def _copied_with_its_time(catalog: os.stat_result, log: os.stat_result) -> bool:
    """Whether a catalog was copied, with the time that it had, to a log that was written here before."""
    return (
        catalog.st_ctime > catalog.st_mtime + APART_SECONDS  # copied: a file that is written has one time
        and catalog.st_ctime > log.st_ctime
        and abs(log.st_ctime - log.st_mtime) < APART_SECONDS  # written
    )


def _fit(catalog: Path, log: Path) -> bool:
    """Whether both together are a sound database; tried on copies, since trying writes."""
    with tempfile.TemporaryDirectory(prefix="panorama-") as folder:
        try:
            for path in (catalog, log):
                shutil.copyfile(path, Path(folder) / path.name)
        except OSError:
            return True  # no room to find out: opened as it is
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(Path(folder) / catalog.name)) as connection,
        ):
            sound = connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
            return sound and not connection.execute("PRAGMA foreign_key_check").fetchall()
    return False
