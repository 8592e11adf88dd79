"""The path of a catalog comes in; SQLite connections to it go out, pooled without a lock.

A program without write permission cannot make the files beside the catalog in which readers and writers tell
each other what they do. While there is no log, nobody is writing, and such a program opens the catalog as a
file that does not change (`immutable`): SQLite then takes no locks and keeps the pages that it has read. But
another user may write at any time. So such a connection is used only while the file is as it was when opened.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

CATALOG_NAME = "catalog.sqlite"
BUSY_SECONDS = 60.0
_AGAIN_SECONDS = 0.01

State = tuple[int, ...]


class Connection(sqlite3.Connection):
    """A connection that rolls back its transaction when it is closed.

    SQLAlchemy closes a connection after an interrupt. SQLite keeps a closed connection, its transaction and
    the write lock for as long as anything, such as a traceback, holds one of its cursors.

    Attributes:
        frozen: the catalog and its state when it was opened as a file that does not change; else None.
    """

    frozen: tuple[Path, State] | None = None

    def close(self) -> None:
        self.end()
        super().close()

    def end(self) -> None:
        """Roll back the open transaction; do nothing if there is none or the connection is closed."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed
            if self.in_transaction:
                self.rollback()

    @property
    def is_outdated(self) -> bool:
        """Whether somebody has written since into a file that was taken for one that does not change."""
        return self.frozen is not None and state_of(self.frozen[0]) != self.frozen[1]


class Pool(sa.pool.Pool):
    """The idle connections, kept without a lock.

    An interrupt may leave the lock of SQLAlchemy's own pools held, and all other threads would wait for ever.
    """

    def __init__(self, creator: Any, **options: Any) -> None:
        super().__init__(creator, **options)
        self._idle: deque[sa.pool.ConnectionPoolEntry] = deque()
        self._is_over = False

    def _do_get(self) -> sa.pool.ConnectionPoolEntry:
        with contextlib.suppress(IndexError):  # no check for emptiness: another thread may take the last
            while True:
                record = self._idle.pop()
                connection = cast(Connection | None, record.dbapi_connection)
                if connection is None or not connection.is_outdated:  # None: it is opened when it is taken
                    return record
                record.close()
        return self._create_connection()

    def _do_return_conn(self, record: sa.pool.ConnectionPoolEntry) -> None:
        self._idle.append(record)
        if self._is_over:  # `dispose` ran during the transaction
            self.dispose()

    def dispose(self) -> None:
        """Close the idle connections now, and every other one when it comes back."""
        self._is_over = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()


def connect(path: Path, writable: bool, disk_full: bool) -> Connection:
    """A connection in which a transaction begins only where it is told to.

    Args:
        disk_full: with `writable` False, whether that is so because there is no room for what SQLite writes.
    """
    opened = partial(
        sqlite3.connect,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    if writable:
        connection = cast(Connection, opened(path))
        _keep_log(connection)
        connection.execute("PRAGMA secure_delete = ON")
    else:
        state = state_of(path)
        is_frozen = _is_frozen(path, disk_full)
        uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_frozen else ''}"
        connection = cast(Connection, opened(uri, uri=True))
        if is_frozen:
            connection.frozen = path, state
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _keep_log(connection: Connection) -> None:
    """Have changes go through a write-ahead log, which stays so for a file once it is set.

    To set it, SQLite waits for nobody: of two programs that create a library at once, one is refused.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(_AGAIN_SECONDS)


def log_of(path: Path) -> Path:
    """The write-ahead log beside a catalog, which is there while somebody has it open for writing."""
    return path.with_name(path.name + "-wal")


def unreadable_of(path: Path) -> Path:
    """Of a catalog and the files beside it the first that this user may not read; if none, the catalog."""
    effective = os.access in os.supports_effective_ids
    for file in (path, log_of(path), path.with_name(path.name + "-shm")):
        if file.exists() and not os.access(file, os.R_OK, effective_ids=effective):
            return file
    return path


def _is_frozen(path: Path, disk_full: bool) -> bool:
    """Whether nobody can be writing: without a log, where none can be made or filled."""
    log = log_of(path)
    if disk_full:
        return not log.exists() or not log.stat().st_size
    return not log.exists() and not os.access(path.parent, os.W_OK)


def state_of(path: Path) -> State:
    """What changes whenever a catalog or its log is written, made or replaced; -1 for a missing file."""
    found: list[int] = []
    for file in (path, log_of(path)):
        try:
            state = file.stat()
        except OSError:
            found.append(-1)
        else:
            found += (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
    return tuple(found)
