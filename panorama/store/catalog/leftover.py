"""A catalog and the log beside it come in; an error goes out if the log belongs to another catalog.

A killed process leaves its log behind. SQLite takes the pages in that log for the newest pages of whatever
catalog lies beside it. If a backup of the catalog was restored in the meantime, these pages destroy it, and
answers come from a mixture of both.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from panorama.errors import LibraryDamaged
from panorama.store.catalog.connections import log_of, state_of

APART_SECONDS = 1.0
"""File times at least this far apart are not from the same moment."""

# https://sqlite.org/fileformat2.html: the header of a log holds its page size and two salts. Each frame is a
# page, preceded by the page's number and the salts of its log.
_LOG = struct.Struct(">8x I 4x 8s 8x")
_FRAME = struct.Struct(">I 4x 8s 8x")


SETTLED_SECONDS = 0.05
"""Longer than the clocks of ext4, XFS and APFS take from one time to the next."""


def check_log(catalog: Path) -> None:
    """Raise LibraryDamaged if a catalog was put beside a log that does not fit it; touch neither file.

    While others write, the two files do not fit either: they are read one after the other. So both must have
    been left alone from before the first look until after a second one.
    """
    log = log_of(catalog)
    before = state_of(catalog)
    if not _is_of_another(catalog, log):
        return
    time.sleep(SETTLED_SECONDS)
    if state_of(catalog) == before and _is_of_another(catalog, log) and state_of(catalog) == before:
        raise LibraryDamaged(
            f"{catalog} lies beside the log {log.name} of another catalog, as after restoring a backup over a"
            f" library whose process was killed; to use the backup, delete {log} and {catalog.name}-shm"
        )


def _is_of_another(catalog: Path, log: Path) -> bool:
    """Whether a log seems to belong to another catalog than the one beside it."""
    try:
        was_put, beside = catalog.stat(), log.stat()
    except OSError:
        return False  # no log: the last process closed the library properly
    if not beside.st_size:
        return False
    # A checkpoint copies pages from the log to its catalog, which makes the catalog the newer file.
    copied_now = was_put.st_mtime_ns > beside.st_mtime_ns and not _holds_any(catalog, log)
    return (copied_now or _copied_with_its_time(was_put, beside)) and not _fit(catalog, log)


def _holds_any(catalog: Path, log: Path) -> bool:
    """Whether any page of a log is in the catalog unchanged; True if they cannot be read."""
    try:
        content = _content(catalog)
        with log.open("rb") as frames:
            return any(
                content[(number - 1) * len(page) : number * len(page)] == page
                for number, page in _frames(frames.read)
            )
    except sqlite3.OperationalError:
        return True  # opening the library will report it
    except sqlite3.DatabaseError:
        return False  # not a database, so no page of a log can be in it
    except OSError:
        return True


def _content(catalog: Path) -> bytes:
    """The pages of a catalog as they are on disk, without its log.

    Read them through SQLite, never with `open` (decision 139): closing a descriptor of a file drops all POSIX
    locks of this process on that file, including those of connections that are open. Another process would
    then take the log for a leftover and delete it under these connections
    (https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).
    """
    if not catalog.stat().st_size:
        return b""
    uri = f"{catalog.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA schema_version").fetchall()  # raises if it is no database
        return connection.serialize()


def _frames(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """(page number from 1, page) for each frame of a log."""
    head = read(_LOG.size)
    if len(head) < _LOG.size:
        return
    size, salts = _LOG.unpack(head)
    while len(frame := read(_FRAME.size)) == _FRAME.size:
        number, its = _FRAME.unpack(frame)
        if its != salts or not number:  # left over from before the log restarted
            return
        yield number, read(size)


def _copied_with_its_time(catalog: os.stat_result, log: os.stat_result) -> bool:
    """Whether a catalog was copied here, keeping its modification time, after the log was written."""
    return (
        catalog.st_ctime > catalog.st_mtime + APART_SECONDS  # copied: writing sets both times
        and catalog.st_ctime > log.st_ctime
        and abs(log.st_ctime - log.st_mtime) < APART_SECONDS  # written
    )


def _copy(catalog: Path, to: Path) -> None:
    """Copy a catalog as it is on disk, without its log."""
    try:
        to.write_bytes(_content(catalog))
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        # Alone it is no database: a checkpoint that a full disk cut short left most of it in the log. By
        # another process, since reading it here would drop locks; see `_content`.
        subprocess.run(["cp", "--", catalog, to], check=True, capture_output=True)


def _fit(catalog: Path, log: Path) -> bool:
    """Whether catalog and log together are a sound database; tested on copies, since the test writes."""
    with tempfile.TemporaryDirectory(prefix="panorama-") as folder:
        try:
            _copy(catalog, Path(folder) / catalog.name)
            shutil.copyfile(log, Path(folder) / log.name)
        except (OSError, subprocess.SubprocessError, sqlite3.OperationalError):
            return True  # no room for the test: open it as it is
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(Path(folder) / catalog.name)) as connection,
        ):
            sound = connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
            return sound and not connection.execute("PRAGMA foreign_key_check").fetchall()
    return False
