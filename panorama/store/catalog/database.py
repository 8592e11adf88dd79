"""The catalog: SQL with bound values enters, rows leave; every change is one SQLite transaction.

The only module that imports sqlalchemy. Readers see the state at their first read and never wait; writers
take their turn when they begin.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sqlite3
import time
import uuid
from collections import deque
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
from panorama.store.catalog.decoded import Column
from panorama.store.catalog.migrations import MIGRATIONS

CATALOG_NAME = "catalog.sqlite"
BUSY_SECONDS = 60.0

_SELECT_VERSION = "SELECT value FROM meta WHERE key = 'schema_version'"
_SET_META = """
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_ERASING = "erasing"
_VACUUMED = "vacuumed "
"""Before the mark: only the log still holds what was deleted."""
_MARK = "SELECT value FROM meta WHERE key = ?"
_SET_MARK = "UPDATE meta SET value = ? WHERE key = ? AND value = ?"
_DROP_MARK = "DELETE FROM meta WHERE key = ? AND value = ?"
_DISK_FULL = "the disk is full; free some space and run the same command again"
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_BUMP = """
UPDATE counters SET value = CASE WHEN value < :now THEN :now ELSE value + 1 END
WHERE name = :name RETURNING value
"""


class Transaction:
    """Statements of one transaction; `path` is that of the catalog."""

    def __init__(self, connection: sa.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def rows(self, sql: str, **values: Any) -> Sequence[Any]:
        """All rows of a query. A value that is a list, however long, goes with `IN :name`."""
        return self._done(sql, values).fetchall()

    def tuples(self, sql: str) -> list[Any]:
        """All rows of a query without values, as bare tuples: several times quicker for thousands of rows."""
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
        """Run a change; how many rows it touched."""
        return int(self._done(sql, values).rowcount)

    def run_many(self, sql: str, many: Sequence[Mapping[str, Any]]) -> None:
        """Run one change for many sets of values."""
        if many:
            self._connection.execute(sa.text(sql), list(many))

    def _done(self, sql: str, values: dict[str, Any]) -> sa.CursorResult[Any]:
        """The result of one statement. A list is one value, as JSON: as many values SQLite may not take."""
        for name, value in values.items():
            if isinstance(value, list):
                sql = re.sub(rf"\bIN :{name}\b", f"IN (SELECT value FROM json_each(:{name}))", sql)
                values = {**values, name: json.dumps(value)}
        return self._connection.execute(sa.text(sql), values)

    def mark_erasing(self) -> None:
        """Say that no byte of what this transaction deletes is to stay, see `Catalog.scrub`."""
        # A value of its own: who scrubs for an earlier one does not take this one's mark away.
        self.run(_SET_META, key=_ERASING, value=uuid.uuid4().hex)

    def bump(self, counter: str) -> int:
        """Say that something that can change an answer has changed: 'data', 'album' or 'settings'.

        Versions are milliseconds since 1970 where the clock lets them rise: counted, they would come again
        where an older catalog was put back, for other contents.
        """
        return int(self.scalar(_BUMP, name=counter, now=time.time_ns() // 1_000_000))


class _Connection(sqlite3.Connection):
    """A connection whose transaction ends with it.

    SQLAlchemy closes what an interrupt reached, and SQLite keeps a closed connection, with its transaction
    and the lock of writers, for as long as anything, as a traceback, holds one of its cursors.
    """

    def close(self) -> None:
        self.end()
        super().close()

    def end(self) -> None:
        """Roll back what was begun; nothing where that has ended, or where the connection is closed."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed
            if self.in_transaction:
                self.rollback()


class _Pool(sa.pool.Pool):
    """Connections that wait for the next transaction, without a lock.

    An interrupt may leave the lock of SQLAlchemy's own pools taken: every other thread waits for ever then.
    """

    def __init__(self, creator: Any, **options: Any) -> None:
        super().__init__(creator, **options)
        self._idle: deque[sa.pool.ConnectionPoolEntry] = deque()
        self._is_over = False

    def _do_get(self) -> sa.pool.ConnectionPoolEntry:
        try:
            return self._idle.pop()
        except IndexError:
            return self._create_connection()

    def _do_return_conn(self, record: sa.pool.ConnectionPoolEntry) -> None:
        self._idle.append(record)
        if self._is_over:  # another thread was amid a transaction
            self.dispose()

    def dispose(self) -> None:
        """Close those that wait, and from now on what comes back."""
        self._is_over = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close those that wait."""
        with contextlib.suppress(IndexError):  # not asked before: another thread may take the last
            while True:
                self._idle.pop().close()


class Catalog:
    """One catalog file; hold it open as long as you like, it locks nothing between calls.

    Args:
        root: the library's directory.
        writable: False opens the file read-only, also where the directory cannot be written.
        disk_full: with `writable` False, whether that is so because there is no room for what SQLite writes.
    """

    def __init__(self, root: Path, writable: bool = True, disk_full: bool = False) -> None:
        self.path = root / CATALOG_NAME
        self.writable = writable
        self._disk_full = disk_full
        self._opened: tuple[int, int] | None = None
        self._closed = False
        self._engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=_Pool, pool_reset_on_return=None
        )

    def _connect(self) -> sqlite3.Connection:
        if self.writable:
            connection = sqlite3.connect(
                self.path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                factory=_Connection,
            )
        else:
            frozen = "&immutable=1" if self._is_frozen() else ""
            connection = sqlite3.connect(
                f"{self.path.resolve().as_uri()}?mode=ro{frozen}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                factory=_Connection,
            )
        if self.writable:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def _is_frozen(self) -> bool:
        """Whether nobody can be writing: without a -wal file, where none can be made or filled."""
        log = self.path.with_name(CATALOG_NAME + "-wal")
        if self._disk_full:
            return not log.exists() or not log.stat().st_size
        return not log.exists() and not os.access(self.path.parent, os.W_OK)

    def check_there(self) -> None:
        """Raise where the file is no more the one opened: its connections go on, in what nobody else sees.

        Closed, it would be opened again, by what somebody kept of it.
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
        """One consistent view; never waits for a writer.

        Raises:
            LibraryDiskFull: there is no room for what readers share.
            LibraryNotFound: the library was deleted or replaced since it was opened.
            LibraryDamaged: the file is no database, or what it holds contradicts itself.
            PanoramaError: it cannot be read.
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
            raise PanoramaError(f"cannot read {self.path}: {said}; check that it is readable") from exc

    @contextmanager
    def write(self, durable: bool = True, wait_seconds: float | None = None) -> Iterator[Transaction]:
        """One change: all of it or nothing.

        Args:
            durable: False spares waiting for the disk, for what may be lost in a power cut.
            wait_seconds: for another writer; None for BUSY_SECONDS.

        Raises:
            LibraryWriteError: full disk, no permission, or another writer held the catalog for so long.
            LibraryNotFound: the library was deleted or replaced since it was opened.
        """
        self.check_there()
        with write_errors(self.path):
            if self._disk_full:
                raise LibraryDiskFull(f"cannot write {self.path}: {_DISK_FULL}")
            if not self.writable:
                raise LibraryWriteError(
                    f"{self.path.parent} is open for reading only; open it where you have write permission"
                )
            # FULL: a committed video survives a power cut, not only a crash of the process.
            synchronous = f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}"
            # IMMEDIATE: a transaction that reads and then asks to write could fail half-way otherwise.
            with self._transaction(wait_seconds, synchronous, "BEGIN IMMEDIATE") as transaction:
                yield transaction

    @contextmanager
    def _transaction(self, wait_seconds: float | None, *begin: str) -> Iterator[Transaction]:
        """A transaction that has ended when the block is left, also by an interrupt (decision 110).

        SQLAlchemy's own would not do: an interrupt leaves it half ended, and raises an AssertionError.
        """
        pooled = self._engine.raw_connection()
        connection = cast(_Connection, pooled.driver_connection)
        try:
            for statement in (_waiting(wait_seconds), *begin):
                connection.execute(statement)
            yield Transaction(sa.Connection(self._engine, pooled), self.path)
            connection.commit()
        finally:
            connection.end()
            pooled.close()

    @property
    def is_erasing(self) -> bool:
        """Whether bytes of what a transaction deleted are still to be scrubbed; costs little."""
        with self.read() as tx:
            return tx.scalar("SELECT 1 FROM meta WHERE key = :key", key=_ERASING) is not None

    def scrub(self, wait_seconds: float | None = None) -> None:
        """Rewrite the file so that bytes deleted by whoever marked it are gone from it and from its log.

        Nothing where nobody did. What was done stays done: who tries again vacuums only once.

        Args:
            wait_seconds: for other readers and writers; None for BUSY_SECONDS.

        Raises:
            LibraryWriteError: another process reads or writes, or there is no room; the mark stays.
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
        """Drop the connections; the last process to do so folds the write-ahead log into the file."""
        self._closed = True
        self._engine.pool.dispose()

    def close_idle(self) -> None:
        """Drop the connections that wait; the next transaction opens its own."""
        cast(_Pool, self._engine.pool).close_idle()

    def schema_version(self) -> int:
        """The version that the file has; 0 for an empty file.

        Raises:
            LibraryNotFound: the file is not a catalog.
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
        """Bring the file to the version of `steps`; how many steps ran.

        Raises:
            LibraryVersionError: the file is newer than this program.
        """
        ran = 0
        while True:
            with (
                self.write() as tx
            ):  # the version is read inside: two programs may open an old library at once
                exists = tx.row("SELECT 1 FROM sqlite_master WHERE name = 'meta'") is not None
                version = _schema_version(tx) if exists else 0
                check_version(self.path.parent, version, len(steps), migrating=True)
                if version == len(steps):
                    return ran
                for statement in steps[version]:
                    tx.run(statement)
                if version == 0:
                    tx.run(_SET_META, key="library_id", value=uuid.uuid4().hex)
                    tx.run(_SET_META, key="created_at", value=repr(time.time()))
                tx.run(_SET_META, key="schema_version", value=str(version + 1))
                ran += 1


def _scrubbed(connection: sqlite3.Connection) -> bool:
    """Whether somebody reads, so that what was deleted stays in the log."""
    found = connection.execute(_MARK, (_ERASING,)).fetchone()
    if found is None:
        return False
    mark = found[0]
    if not mark.startswith(_VACUUMED):
        connection.execute("VACUUM")
        connection.execute(_SET_MARK, (_VACUUMED + mark, _ERASING, mark))
        mark = _VACUUMED + mark
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if not busy:
        connection.execute(_DROP_MARK, (_ERASING, mark))
    return bool(busy)


def _waiting(seconds: float | None) -> str:
    """Connections go from one transaction to the next: each says how long it waits."""
    return f"PRAGMA busy_timeout = {round(1000 * (BUSY_SECONDS if seconds is None else seconds))}"


_VALUE = Column("meta.value", lambda _, value: int(value), lambda key: f"the key {key!r}")


def _schema_version(tx: Transaction) -> int:
    return _VALUE.one(tx, "schema_version", tx.scalar(_SELECT_VERSION))


def check_version(root: Path, version: int, ours: int, migrating: bool) -> None:
    """Raise LibraryVersionError where this program cannot read a library of `version`."""
    if version > ours:
        raise LibraryVersionError(
            f"{root} was made by a newer Panorama: its schema version is {version}, this one reads up to "
            f"{ours}. Upgrade: pip install --upgrade panorama-video"
        )
    if version < ours and not migrating:
        raise LibraryVersionError(
            f"{root} has schema version {version}, this Panorama reads {ours}. "
            "Open it once with write permission and it is upgraded:"
            f" panorama --library {shell_word(str(root))} info"
        )


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn what the disk and SQLite say into one LibraryWriteError with the next step."""
    try:
        yield
    except LibraryWriteError:
        raise
    except sa.exc.IntegrityError:
        raise
    except (sa.exc.DBAPIError, sqlite3.DatabaseError, OSError) as exc:
        raise LibraryWriteError(_advice(path, *told_by(exc))) from exc


def told_by(exc: BaseException) -> tuple[str, int | None]:
    """What the disk or SQLite says, and the number of an error of the system."""
    if isinstance(exc, OSError):
        return exc.strerror or str(exc), exc.errno
    return str(getattr(exc, "orig", exc)), None


def is_of_room(said: str, number: int | None) -> bool:
    """Whether what was said means a full disk."""
    lower = said.lower()
    return number in _FULL or "full" in lower or "no space" in lower


def _advice(path: Path, said: str, number: int | None) -> str:
    lower = said.lower()
    if is_of_room(said, number):
        step = "free some space and run the same command again; what was committed before is safe"
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
    """What kept a change from being completed that is made, and what to do before its rest is tried again.

    The advice of other errors, the same command again, knows no more what was changed.
    """
    cause = exc.__cause__
    if not isinstance(exc, LibraryWriteError) or cause is None:  # it was not the disk or SQLite that said it
        return str(exc)
    said, number = told_by(cause)
    step = "check the disk and its permissions"
    if is_of_room(said, number) or "disk i/o" in said.lower():
        step = "free some space"
    elif "locked" in said.lower():
        step = "stop the process that writes to it"
    return f"{said}; {step}"
