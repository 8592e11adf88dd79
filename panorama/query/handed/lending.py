"""An Arrow table and a name come in; DuckDB can read the table, and Ctrl-C raises KeyboardInterrupt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa


def lend(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Let a connection read a table under a name, for as long as the connection is open."""
    with _interrupts():
        connection.register(name, rows)


@contextmanager
def lent(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    """Let a connection read a table under a name within a block. Run no text of a user in the block."""
    with _interrupts():
        connection.register(name, rows)
        yield
        connection.unregister(name)


@contextmanager
def _interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt if Ctrl-C came while DuckDB asked a Python table for its schema or rows.

    DuckDB keeps only the text of such an error. A statement of a user can raise an error with any text, so do
    not use this around one.
    """
    try:
        yield
    except duckdb.InvalidInputException as exc:
        if f"failed: {KeyboardInterrupt.__name__}" in str(exc):
            raise KeyboardInterrupt from exc
        raise
