"""An Arrow table and a name enter; DuckDB reads it under that name, and Ctrl-C meanwhile stays Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa


def lend(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Let a connection read a table under a name, for as long as it is open."""
    with _interrupts():
        connection.register(name, rows)


@contextmanager
def lent(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    """Let a connection read a table under a name within a block, in which no text of a user is run."""
    with _interrupts():
        connection.register(name, rows)
        yield
        connection.unregister(name)


@contextmanager
def _interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where it came while DuckDB asked a table in Python for its schema or rows.

    DuckDB keeps of an error there the text alone. A statement of a user can raise any text, so this is not
    for those.
    """
    try:
        yield
    except duckdb.InvalidInputException as exc:
        if f"failed: {KeyboardInterrupt.__name__}" in str(exc):
            raise KeyboardInterrupt from exc
        raise
