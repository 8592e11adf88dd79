"""SQL with bound values comes in; rows of the catalog go out. Every change is one SQLite transaction.

This is the only module that imports sqlalchemy. A reader sees the state at its first read and never waits
for a writer. Writers queue when they begin.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import re
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from panorama.errors import (
    LibraryClosed,
    LibraryDamaged,
    LibraryDiskFull,
    LibraryNotFound,
    LibraryVersionError,
    LibraryWriteError,
    PanoramaError,
)
from panorama.lines import shell_word
from panorama.store.catalog.connections import (
    BUSY_SECONDS,
    CATALOG_NAME,
    Connection,
    Pool,
    connect,
    unreadable_of,
)
from panorama.store.catalog.decoded import Column
from panorama.store.catalog.migrations import MIGRATIONS

_SELECT_VERSION = "SELECT value FROM meta WHERE key = 'schema_version'"
_SET_META = """
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_ERASING = "erasing"
_VACUUMED = "vacuumed "
"""Prefix of the mark once the file is vacuumed: only the log still holds the deleted bytes."""
_MARK = "SELECT value FROM meta WHERE key = ?"
_SET_MARK = "UPDATE meta SET value = ? WHERE key = ? AND value = ?"
_DROP_MARK = "DELETE FROM meta WHERE key = ? AND value = ?"
_ATTEMPT = "erasing attempt"
"""Key of a value that every attempt to empty the log changes, see `_scrubbed`."""
_DISK_FULL = "the disk is full; free some space and run the same command again"
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_BUMP = """
UPDATE counters SET value = CASE WHEN value < :now THEN :now ELSE value + 1 END
WHERE name = :name RETURNING value
"""


class Transaction:
    """One open transaction, which runs statements; `path` is the path of the catalog."""

    def __init__(self, connection: sa.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def rows(self, sql: str, **values: Any) -> Sequence[Any]:
        """All rows of a query. `IN :name` takes a list of any length."""
        return self._done(sql, values).fetchall()

    def tuples(self, sql: str) -> list[Any]:
        """All rows of a query without values, as plain tuples: several times faster for thousands of rows."""
        cursor = self._connection.connection.cursor()
        try:
            cursor.execute(sql)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def row(self, sql: str, **values: Any) -> Any | None:
        """The first row, or None."""
        return self._done(sql, values).fetchone()

    def scalar(self, sql: str, **values: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, **values)
        return None if row is None else row[0]

    def run(self, sql: str, **values: Any) -> int:
        """Run a change and return how many rows it touched."""
        return int(self._done(sql, values).rowcount)

    def run_many(self, sql: str, many: Sequence[Mapping[str, Any]]) -> None:
        """Run one change for many sets of values."""
        if many:
            self._connection.execute(sa.text(sql), list(many))

    def _done(self, sql: str, values: dict[str, Any]) -> sa.CursorResult[Any]:
        """The result of one statement. Bind a list as one JSON value: SQLite limits the number of values."""
        for name, value in values.items():
            if isinstance(value, list):
                sql = re.sub(rf"\bIN :{name}\b", f"IN (SELECT value FROM json_each(:{name}))", sql)
                values = {**values, name: json.dumps(value)}
        return self._connection.execute(sa.text(sql), values)

    def mark_erasing(self) -> None:
        """Request that no byte of what this transaction deletes stays on disk, see `Catalog.scrub`."""
        # A new value each time, so that a scrub begun for an earlier mark does not remove this one.
        self.run(_SET_META, key=_ERASING, value=uuid.uuid4().hex)

    def bump(self, counter: str) -> int:
        """Raise the version of 'data', 'album' or 'settings' after a change that can change an answer.

        The version is the time in milliseconds since 1970, or the old value plus 1 if the clock is behind. A
        plain count would repeat, with different contents, after an older catalog was restored.
        """
        return int(self.scalar(_BUMP, name=counter, now=time.time_ns() // 1_000_000))


class Catalog:
    """One catalog file. It may stay open for long: between calls it blocks neither readers nor writers.

    Args:
        root: the library's directory.
        writable: False opens the file read-only, which also works in a directory without write permission.
        disk_full: with `writable` False, True if the reason is that SQLite has no room to write.
    """

    def __init__(self, root: Path, writable: bool = True, disk_full: bool = False) -> None:
        self.path = root / CATALOG_NAME
        self.writable = writable
        self._disk_full = disk_full
        self._opened: tuple[int, int] | None = None
        self._closed = False
        self._engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=Pool, pool_reset_on_return=None
        )

    def _connect(self) -> Connection:
        return connect(self.path, self.writable, self._disk_full)

    def check_there(self) -> None:
        """Raise if this catalog was closed, or if the file is no longer the one that was opened.

        Connections to a deleted or replaced file would go on in it, and nobody else would see their changes.
        After `close` the next transaction would silently open the file again.
        """
        if self._closed:
            raise LibraryClosed(f"the library at {self.path.parent} is closed; open it again")
        try:
            state = self.path.stat()
        except OSError:
            found = None
        else:
            found = (state.st_dev, state.st_ino)
        if self._opened is None:
            self._opened = found
        elif found is None:
            raise LibraryNotFound(
                f"there is no longer a library at {self.path.parent}: it was there when it was opened"
            )
        elif found != self._opened:
            raise LibraryNotFound(
                f"the library that was opened at {self.path.parent} was replaced by another; open it again"
            )

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A block with one consistent view; it never waits for a writer.

        Raises:
            LibraryClosed: this catalog was closed.
            LibraryDiskFull: there is no room for the memory that readers share (the -shm file).
            LibraryNotFound: the library was deleted or replaced since it was opened.
            LibraryDamaged: the file is not a database, or its contents contradict each other.
            PanoramaError: the file cannot be read.
        """
        self.check_there()
        try:
            with self._transaction(None, "BEGIN") as transaction:
                yield transaction
        except (sa.exc.DBAPIError, sqlite3.DatabaseError) as exc:
            said = getattr(exc, "orig", exc)
            code = getattr(said, "sqlite_errorname", "")
            if code == "SQLITE_IOERR_SHMSIZE":
                raise LibraryDiskFull(f"cannot read {self.path}: {_DISK_FULL}") from exc
            if code.startswith(_DAMAGED):
                raise LibraryDamaged(f"{self.path} is damaged: {said}; put it back from a backup") from exc
            file = unreadable_of(self.path)
            raise PanoramaError(f"cannot read {file}: {said}; check that it is readable") from exc

    def check_writable(self) -> None:
        """Raise LibraryWriteError if the catalog is open for reading only, unless for lack of room."""
        if not self.writable and not self._disk_full:
            raise LibraryWriteError(
                f"{self.path.parent} is open for reading only; open it where you have write permission"
            )

    @contextmanager
    def write(self, durable: bool = True, wait_seconds: float | None = None) -> Iterator[Transaction]:
        """A block whose changes are stored together or not at all.

        Args:
            durable: False does not wait for the disk: a power cut may undo the change.
            wait_seconds: how long to wait for another writer; None for BUSY_SECONDS.

        Raises:
            LibraryWriteError: full disk, no permission, or another writer held the catalog that long.
            LibraryClosed, LibraryNotFound: see `read`.
        """
        self.check_there()
        with write_errors(self.path):
            if self._disk_full:
                raise LibraryDiskFull(f"cannot write {self.path}: {_DISK_FULL}")
            self.check_writable()
            # FULL: a committed video survives a power cut, not just a crash of the process.
            synchronous = f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}"
            # IMMEDIATE: a transaction that reads first and writes later could fail half-way.
            with self._transaction(wait_seconds, synchronous, "BEGIN IMMEDIATE") as transaction:
                yield transaction

    @contextmanager
    def _transaction(self, wait_seconds: float | None, *begin: str) -> Iterator[Transaction]:
        """A transaction that ends with the block, even on an interrupt (decision 110).

        SQLAlchemy's own transaction does not: an interrupt leaves it half ended and raises AssertionError.
        """
        pooled = self._engine.raw_connection()
        connection = cast(Connection, pooled.driver_connection)
        try:
            for statement in (_waiting(wait_seconds), *begin):
                connection.execute(statement)
            yield Transaction(sa.Connection(self._engine, pooled), self.path)
            connection.commit()
        except (sa.exc.DBAPIError, sqlite3.DatabaseError) as exc:
            _refuse_mixed(connection, self.path, exc)  # pages of before and of after may fit nothing
            raise
        else:
            _refuse_mixed(connection, self.path)
        finally:
            connection.end()
            pooled.close()

    @property
    def is_erasing(self) -> bool:
        """Whether deleted bytes still await `scrub`; cheap."""
        with self.read() as tx:
            return tx.scalar("SELECT 1 FROM meta WHERE key = :key", key=_ERASING) is not None

    def scrub(self, wait_seconds: float | None = None) -> None:
        """Remove the bytes of deleted rows from the file and its log if `mark_erasing` requested it.

        After a failure, the next call does not repeat the vacuum if that part succeeded.

        Args:
            wait_seconds: how long to wait for other readers and writers; None for BUSY_SECONDS.

        Raises:
            LibraryWriteError: somebody reads or writes, or there is no room; the mark stays.
        """
        with write_errors(self.path), contextlib.closing(self._connect()) as connection:
            connection.execute(_waiting(wait_seconds))
            busy = _scrubbed(connection)
        if busy:
            raise LibraryWriteError(
                f"{self.path}: another process is reading, so the write-ahead log still holds deleted bytes;"
                " close it"
            )

    def close(self) -> None:
        """Close the connections; the last process to do so merges the write-ahead log into the file."""
        self._closed = True
        self._engine.pool.dispose()

    def close_idle(self) -> None:
        """Close the idle connections; the next transaction opens a new one."""
        cast(Pool, self._engine.pool).close_idle()

    def schema_version(self) -> int:
        """The schema version of the file; 0 for an empty file.

        Raises:
            LibraryNotFound: the file cannot be read as a catalog.
            LibraryDiskFull, LibraryDamaged: see `read`.
        """
        try:
            with self.read() as tx:
                if tx.row("SELECT 1 FROM sqlite_master WHERE name = 'meta'") is None:
                    return 0
                return _schema_version(tx)
        except (LibraryDiskFull, LibraryDamaged):
            raise
        except PanoramaError as exc:
            raise LibraryNotFound(f"no library at {self.path.parent}: {exc}") from exc

    def migrate(self, steps: Sequence[Sequence[str]] = MIGRATIONS) -> int:
        """Upgrade the file to the last version of `steps`, wholly or not at all; return how many steps ran.

        Raises:
            LibraryVersionError: the file is newer than this program.
            LibraryWriteError: see `write`; the file is as it was, for the program that made it.
        """
        with (
            self.write() as tx
        ):  # read the version inside: two programs may open an old library at the same time
            exists = tx.row("SELECT 1 FROM sqlite_master WHERE name = 'meta'") is not None
            version = _schema_version(tx) if exists else 0
            check_version(self.path.parent, version, len(steps), migrating=True)
            missing = steps[version:]
            for statement in itertools.chain.from_iterable(missing):
                tx.run(statement)
            if version == 0:
                tx.run(_SET_META, key="library_id", value=uuid.uuid4().hex)
                tx.run(_SET_META, key="created_at", value=repr(time.time()))
            if missing:
                tx.run(_SET_META, key="schema_version", value=str(len(steps)))
        return len(missing)


def _refuse_mixed(connection: Connection, path: Path, cause: Exception | None = None) -> None:
    """Raise if what was read without locks was written meanwhile."""
    if connection.is_outdated:
        raise PanoramaError(f"{path} was written while it was read; ask again") from cause


def _scrubbed(connection: sqlite3.Connection) -> bool:
    """Scrub the file if it is marked; return True if a reader keeps the deleted bytes in the log.

    SQLite before 3.51.3 may lose committed pages if a checkpoint begins when all of the log is copied, and
    another connection then commits, which begins the log anew (https://sqlite.org/wal.html#walresetbug).
    Emptying the log shuts writers out, but goes on without that if one stays. So a change of our own is
    committed just before, and is not copied by the commit: the log cannot begin anew until it is copied.
    """
    found = connection.execute(_MARK, (_ERASING,)).fetchone()
    if found is None:
        return False
    mark = found[0]
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    if not mark.startswith(_VACUUMED):
        connection.execute("VACUUM")
        connection.execute(_SET_MARK, (_VACUUMED + mark, _ERASING, mark))
        mark = _VACUUMED + mark
    connection.execute(_SET_META, {"key": _ATTEMPT, "value": uuid.uuid4().hex})
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if not busy:
        connection.execute(_DROP_MARK, (_ERASING, mark))
    return bool(busy)


def _waiting(seconds: float | None) -> str:
    """The statement that sets how long to wait; transactions share connections, so each one sets it."""
    return f"PRAGMA busy_timeout = {round(1000 * (BUSY_SECONDS if seconds is None else seconds))}"


_VALUE = Column("meta.value", lambda _, value: int(value), lambda key: f"the key {key!r}")


def _schema_version(tx: Transaction) -> int:
    return _VALUE.one(tx, "schema_version", tx.scalar(_SELECT_VERSION))


def check_version(root: Path, version: int, ours: int, migrating: bool) -> None:
    """Raise LibraryVersionError unless `version` is `ours`, or older while `migrating`."""
    if version > ours:
        raise LibraryVersionError(
            f"{root} was made by a newer Panorama: its schema version is {version}, this one reads up to "
            f"{ours}. Upgrade: pip install --upgrade panorama-video"
        )
    if version < ours and not migrating:
        raise LibraryVersionError(
            f"{root} has schema version {version}, this Panorama reads {ours}. "
            "Open it, or a copy of it, once with write permission and it is upgraded:"
            f" panorama --library {shell_word(str(root))} info"
        )


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn errors of disk and SQLite, except IntegrityError, into LibraryWriteError with the next step."""
    try:
        yield
    except LibraryWriteError:
        raise
    except sa.exc.IntegrityError:
        raise
    except (sa.exc.DBAPIError, sqlite3.DatabaseError, OSError) as exc:
        raise LibraryWriteError(_advice(_denied(exc) or path, *told_by(exc))) from exc


def _denied(exc: Exception) -> Path | None:
    """The file that may not be written, if an error names one."""
    if isinstance(exc, OSError) and exc.errno in _DENIED and isinstance(exc.filename, str):
        return Path(exc.filename)
    return None


def told_by(exc: BaseException) -> tuple[str, int | None]:
    """The message of the disk or of SQLite, and the errno of a system error, else None."""
    if isinstance(exc, OSError):
        return exc.strerror or str(exc), exc.errno
    return str(getattr(exc, "orig", exc)), None


def is_of_room(said: str, number: int | None) -> bool:
    """Whether a message or errno means that the disk is full."""
    lower = said.lower()
    return number in _FULL or "full" in lower or "no space" in lower


def lacks_room(exc: PanoramaError) -> bool:
    """Whether an error of the library came from a full disk."""
    if isinstance(exc, LibraryDiskFull):
        return True
    cause = exc.__cause__
    return isinstance(exc, LibraryWriteError) and cause is not None and is_of_room(*told_by(cause))


def _advice(path: Path, said: str, number: int | None) -> str:
    lower = said.lower()
    if is_of_room(said, number):
        step = "free some space and run the same command again; what was committed before is safe"
    elif number == errno.EROFS:
        step = "mount its disk for writing, and run the same command again"
    elif number in _DENIED or "readonly" in lower or "read-only" in lower or "permission" in lower:
        step = "check the permissions of the library's directory"
    elif "disk i/o error" in lower:
        step = "the disk is full or failing: free some space, check it, and run the same command again"
    elif "malformed" in lower or "not a database" in lower:
        step = "it is damaged: put it back from a backup"
    elif "locked" in lower:
        step = f"another process has been writing for {BUSY_SECONDS:.0f} s; try again when it is done"
    else:
        step = "nothing half-written is visible; check the disk and try again"
    return f"cannot write {path}: {said}; {step}"


def left_by(exc: PanoramaError) -> str:
    """Why the rest of a stored change failed, and what to do before trying that rest again.

    The usual advice, to run the same command again, would not fit: the change itself is already stored.
    """
    cause = exc.__cause__
    if not isinstance(exc, LibraryWriteError) or cause is None:  # not an error of the disk or of SQLite
        return str(exc)
    said, number = told_by(cause)
    step = "check the disk and its permissions"
    if is_of_room(said, number) or "disk i/o" in said.lower():
        step = "free some space"
    elif "locked" in said.lower():
        step = "stop the process that writes to it"
    return f"{said}; {step}"
