"""A catalog and the log beside it enter; an error leaves where the log is another catalog's.

SQLite takes what a killed process left in its log for the newest pages of whatever catalog lies beside it.
Where a backup was put there since, these pages destroy it, and answers come from a mixture of both.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from panorama.errors import LibraryDamaged

APART_SECONDS = 1.0
"""Between two times of files that are not of one moment."""


def check_log(catalog: Path) -> None:
    """Raise LibraryDamaged where a catalog was put beside a log that does not fit it; neither is touched."""
    log = catalog.with_name(catalog.name + "-wal")
    try:
        was_put, beside = catalog.stat(), log.stat()
    except OSError:
        return  # no log, which is how a library is left
    if not beside.st_size or not _put_beside(was_put, beside):
        return
    if not _fit(catalog, log):
        raise LibraryDamaged(
            f"{catalog} was put beside the log {log.name} of another one, as a backup over a library whose"
            f" process was killed; delete {log} and {catalog.name}-shm to go on with the backup"
        )


def _put_beside(catalog: os.stat_result, log: os.stat_result) -> bool:
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
