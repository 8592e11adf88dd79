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
            f"{catalog} was put beside the log {log.name} of another one, as a backup over a library whose"
            f" process was killed; delete {log} and {catalog.name}-shm to go on with the backup"
        )


def _holds_any(catalog: Path, log: Path) -> bool:
    """Whether a catalog has any page as it is in a log; True where they cannot be read."""
    try:
        content = _content(catalog)
        with log.open("rb") as frames:
            return any(
                content[(number - 1) * len(page) : number * len(page)] == page
                for number, page in _frames(frames.read)
            )
    except sqlite3.OperationalError:
        return True  # who opens it tells
    except sqlite3.DatabaseError:
        return False  # no database: a page of a log is one of a database
    except OSError:
        return True


def _content(catalog: Path) -> bytes:
    """The pages of a catalog as they lie on the disk, without its log.

    SQLite reads them, never `open`: to close a file drops all locks that this process has on it, and so those
    of a library that is open here at the same time. Another process would then take the log for left behind
    and delete it, under the connections that go on in it
    (https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).
    """
    if not catalog.stat().st_size:
        return b""
    uri = f"{catalog.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA schema_version").fetchall()  # tells what is no database; the next does not
        return connection.serialize()


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
            (Path(folder) / catalog.name).write_bytes(_content(catalog))
            shutil.copyfile(log, Path(folder) / log.name)
        except (OSError, sqlite3.OperationalError):
            return True  # no room to find out: opened as it is
        except sqlite3.DatabaseError:
            return False
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(Path(folder) / catalog.name)) as connection,
        ):
            sound = connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
            return sound and not connection.execute("PRAGMA foreign_key_check").fetchall()
    return False
