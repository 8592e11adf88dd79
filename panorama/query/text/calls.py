"""Which of DuckDB's functions a question may call: what nobody has looked at is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, zip_longest

from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.text.dialect import tokenize

TABLE_FUNCTIONS = frozenset(
    {
        # Files of the library's data; DuckDB, locked as it is, refuses any other.
        *("glob", "read_blob", "read_text", "sniff_csv", "read_csv", "read_csv_auto", "read_single_csv_file"),
        *("read_json", "read_json_auto", "read_json_objects", "read_json_objects_auto"),
        *("read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_single_json_file"),
        *("read_parquet", "read_single_parquet_file", "parquet_scan", "parquet_bloom_probe"),
        *("parquet_file_metadata", "parquet_full_metadata", "parquet_kv_metadata", "parquet_metadata"),
        "parquet_schema",
        # What DuckDB says of itself and of the relations.
        *("duckdb_approx_database_count", "duckdb_available_metrics", "duckdb_columns"),
        *("duckdb_connection_count", "duckdb_constraints", "duckdb_coordinate_systems", "duckdb_databases"),
        *("duckdb_dependencies", "duckdb_dialects", "duckdb_eviction_queues"),
        *("duckdb_external_resource_types", "duckdb_functions", "duckdb_grammar_extensions"),
        *("duckdb_indexes", "duckdb_keywords", "duckdb_log_contexts", "duckdb_memory", "duckdb_optimizers"),
        *("duckdb_prepared_statements", "duckdb_profiling_settings", "duckdb_schemas"),
        *("duckdb_secret_type_parameters", "duckdb_secret_types", "duckdb_sequences", "duckdb_table_sample"),
        *("duckdb_tables", "duckdb_triggers", "duckdb_types", "duckdb_variables", "duckdb_views"),
        *("pragma_collations", "pragma_database_size", "pragma_metadata_info", "pragma_platform"),
        *("pragma_show", "pragma_storage_info", "pragma_table_info", "pragma_user_agent", "pragma_version"),
        *("icu_calendar_names", "pg_timezone_names"),
        # Computing.
        *("generate_series", "range", "repeat", "repeat_row", "unnest", "json_each", "json_tree", "summary"),
        *("histogram", "histogram_values", "query", "query_table", "test_all_types", "test_vector_types"),
    }
)
"""The table functions that a question may call: looked at, and harmless behind the lock.

A list of what is allowed: a new DuckDB brings new ones (2.0.1 had one that changes the grammar), and none of
them is called before somebody has read what it does.
"""

_REFUSED_CALLS = frozenset({"write_log", "getenv"})
"""Others than table functions that no question needs: one writes, one reads the environment."""

_REFUSED_VIEWS = frozenset({"pg_settings", "duckdb_logs"})
"""What table functions that are refused would say is in these views of DuckDB's, too."""

_READS_TEXT = frozenset({"query", "query_table"})
"""What reads a statement, or names of tables, that stand in a text."""

_SHOWN_SETTINGS = frozenset(
    {"timezone", "calendar", "threads", "memory_limit", "default_order", "search_path"}
)


def refuse_calls(tokens: list[Token], sql: str, table_functions: Callable[[], frozenset[str]]) -> None:
    """Raise where a function is called that changes DuckDB, reads the machine, or that nobody has looked at.

    Args:
        table_functions: gives the names of all that DuckDB has, in lower case; asked where a statement calls
            something that is not known to be harmless.

    Raises:
        QueryError: naming what is refused.
    """
    for i, (token, after) in enumerate(zip_longest(tokens, tokens[1:])):
        if token.token_type == TokenType.STRING:
            continue
        name = token.text.lower()
        called = after is not None and after.token_type == TokenType.L_PAREN
        if called and name == "current_setting":
            _refuse_setting(tokens, i, sql)
        elif called and name in _READS_TEXT:
            _check_text(tokens, i, sql, table_functions)
        if name in _REFUSED_VIEWS or (called and _is_refused(name, table_functions)):
            raise QueryError(
                f"{name} is refused: a query reads only the library's relations", sql, token.start
            )


def _is_refused(name: str, table_functions: Callable[[], frozenset[str]]) -> bool:
    return name in _REFUSED_CALLS or (name not in TABLE_FUNCTIONS and name in table_functions())


def _refuse_setting(tokens: list[Token], call: int, sql: str) -> None:
    inside = tokens[call + 2 : call + 4]
    named = inside[0].text.lower() if inside else ""
    # What stands behind the text may make another name of it.
    alone = [token.token_type for token in inside] == [TokenType.STRING, TokenType.R_PAREN]
    if named not in _SHOWN_SETTINGS or not alone:
        given = repr(named) if alone else "anything but one name in quotes"
        raise QueryError(
            f"current_setting is refused for {given}; it shows {', '.join(sorted(_SHOWN_SETTINGS))}",
            sql,
            tokens[call].start,
        )


def _check_text(
    tokens: list[Token], call: int, sql: str, table_functions: Callable[[], frozenset[str]]
) -> None:
    """Look into a text that DuckDB reads as part of the statement; one that is put together is refused."""
    name = tokens[call].text.lower()
    for before, token in pairwise(tokens[call + 1 :]):
        if token.token_type == TokenType.R_PAREN:
            return
        if token.token_type == TokenType.STRING and before.token_type != TokenType.STRING:
            try:
                refuse_calls(tokenize(token.text), token.text, table_functions)
            except QueryError as error:
                raise QueryError(error.args[0], sql, token.start) from error
        elif token.token_type not in (TokenType.L_BRACKET, TokenType.R_BRACKET, TokenType.COMMA):
            raise QueryError(f"{name} takes only a text written out in quotes", sql, token.start)
