"""An Arrow table and a name come in; DuckDB can read the table.

Where a signal raises while DuckDB asks the table for its schema or rows, DuckDB keeps only the text. Who asks
on behalf of a user does it within `stopping.signals_raise`, which knows what was raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa


def lend(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Let a connection read a table under a name, for as long as the connection is open."""
    connection.register(name, rows)


@contextmanager
def lent(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    """Let a connection read a table under a name within a block."""
    connection.register(name, rows)
    yield
    connection.unregister(name)
