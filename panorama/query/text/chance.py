"""A parsed condition comes in; whether it may say something else each time that it is asked goes out."""

from __future__ import annotations

from sqlglot import exp

VOLATILE = frozenset(
    {
        *("random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "setseed"),
        *("nextval", "currval", "setval", "sleep_ms", "write_log", "error", "stats", "vector_type"),
        *("current_connection_id", "current_query", "current_query_id", "current_transaction_id"),
    }
)
"""The functions that DuckDB calls volatile. Those of the clock, such as now(), stand still in a statement."""


def depends_on_chance(node: exp.Expr) -> bool:
    """Whether a condition calls a volatile function, or samples rows, also in a SELECT inside it."""
    return any(
        isinstance(part, exp.TableSample) or not VOLATILE.isdisjoint(_names(part))
        for part in node.find_all(exp.Func, exp.TableSample)
    )


def _names(part: exp.Expr) -> set[str]:
    """The names of a function, in lower case."""
    if isinstance(part, exp.Anonymous):
        return {part.name.lower()}
    return {name.lower() for name in part.sql_names()} if isinstance(part, exp.Func) else set()
