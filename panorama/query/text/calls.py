"""A statement's tokens come in; it is refused if it calls a DuckDB function that nobody has reviewed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, zip_longest

from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.text.tokens import tokenize

TABLE_FUNCTIONS = frozenset(
    {
        # These read files. DuckDB is locked, so they read only the library's data files.
        *("glob", "read_blob", "read_text", "sniff_csv", "read_csv", "read_csv_auto", "read_single_csv_file"),
        *("read_json", "read_json_auto", "read_json_objects", "read_json_objects_auto"),
        *("read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_single_json_file"),
        *("read_parquet", "read_single_parquet_file", "parquet_scan", "parquet_bloom_probe"),
        *("parquet_file_metadata", "parquet_full_metadata", "parquet_kv_metadata", "parquet_metadata"),
        "parquet_schema",
        # Information about DuckDB itself and the relations.
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
        # Computation.
        *("generate_series", "range", "repeat", "repeat_row", "unnest", "json_each", "json_tree", "summary"),
        *("histogram", "histogram_values", "query", "query_table", "test_all_types", "test_vector_types"),
    }
)
"""The table functions that a query may call: reviewed, and harmless in a locked DuckDB.

This is an allowlist because new versions of DuckDB bring new functions (2.0.1 had one that changes the
grammar). None of them may be called before somebody has read what it does.
"""

_REFUSED_CALLS = frozenset({"write_log", "getenv"})
"""Other functions that no query needs: one writes, one reads the environment."""

_REFUSED_VIEWS = frozenset({"pg_settings", "duckdb_logs"})
"""Views of DuckDB that show the same as refused table functions."""

_READS_TEXT = frozenset({"query", "query_table"})
"""Functions that read a statement, or names of tables, from a text."""

_SHOWN_SETTINGS = frozenset(
    {"timezone", "calendar", "threads", "memory_limit", "default_order", "search_path"}
)


def refuse_calls(tokens: list[Token], sql: str, table_functions: Callable[[], frozenset[str]]) -> None:
    """Raise if a called function changes DuckDB, reads the machine, or has not been reviewed.

    Args:
        table_functions: returns the names of all table functions of DuckDB, in lower case; called only if the
            statement calls a function that is not known to be harmless.

    Raises:
        QueryError: with the name of what is refused.
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
    # More after the text could turn it into another name.
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
    """Check a text that DuckDB reads as part of the statement; refuse one composed of expressions."""
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
