"""Shorthands in a UNION, EXCEPT or INTERSECT come in; an error goes out if their columns do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.shorthands.plan import OUTPUT, Query, columns_to_add
from panorama.query.sql.compile import output_columns
from panorama.query.text.extensions import SET_OPERATIONS, Extension

_BEFORE = {TokenType.L_PAREN, TokenType.R_PAREN, *SET_OPERATIONS}
_WORDS = ("ALL", "DISTINCT", "NAME", "EXPLAIN", "ANALYZE")
"""Words that may precede a side in parentheses; a closing parenthesis ends a WITH."""

_UNEQUAL = "Set operations can only apply to expressions with the same number of result columns"
"""The beginning of DuckDB's error for sides with different numbers of columns."""


def check_sides(
    tokens: list[Token], extensions: Sequence[Extension], queries: Sequence[Query], sql: str
) -> None:
    """Raise if two shorthands that are sides of one set operation return different columns.

    DuckDB matches columns by position. It would refuse different numbers of columns in its own words, and
    otherwise mix the values of different columns under one name.

    Args:
        tokens, extensions: of the statement as typed.
        queries: the shorthands, in any order.

    Raises:
        QueryError: with the columns of both sides and what to do.
    """
    sides = list(_sides(tokens, extensions, {query.start: query for query in queries}))
    begins = {first: query for first, _, query in sides}
    ends = {last: query for _, last, query in sides}
    for at, token in enumerate(tokens):
        if token.token_type not in SET_OPERATIONS:
            continue
        words = [behind.text.upper() for behind in tokens[at + 1 : at + 4]]
        skipped = int(words[:1] in (["ALL"], ["DISTINCT"]))
        left, right = ends.get(at), begins.get(at + 1 + skipped)  # BY NAME: no shorthand begins there
        if left is not None and right is not None and output_columns(left) != output_columns(right):
            raise QueryError(_told(token.text.upper(), left, right), sql, right.start)


def sides_hint(message: str, queries: Sequence[Query]) -> str:
    """A text to append to DuckDB's error about different numbers of columns in shorthands and plain SQL."""
    if not message.startswith(_UNEQUAL) or not queries:
        return ""
    return "; " + "; ".join(dict.fromkeys(_returns(query) for query in queries))


def _sides(
    tokens: list[Token], extensions: Sequence[Extension], queries: Mapping[int, Query]
) -> Iterator[tuple[int, int, Query]]:
    """The tokens [first, last) of each shorthand, also with each pair of parentheses around it."""
    for extension in extensions:
        if extension.start not in queries:
            continue
        first, last = extension.first, extension.last
        yield first, last, queries[extension.start]
        while first and last < len(tokens) and _brackets(tokens[first - 1], tokens[last]):
            first, last = first - 1, last + 1
            # After other words, the parentheses hold a part of plain SQL: FROM (...), IN (...).
            if (
                first == 0
                or tokens[first - 1].token_type in _BEFORE
                or tokens[first - 1].text.upper() in _WORDS
            ):
                yield first, last, queries[extension.start]


def _brackets(before: Token, behind: Token) -> bool:
    return before.token_type == TokenType.L_PAREN and behind.token_type == TokenType.R_PAREN


def _typed(query: Query) -> str:
    """The beginning of a shorthand, with its columns: SELECT frames, band."""
    return ", ".join((f"SELECT {query.target}", *(name for name, _ in query.columns)))


def _returns(query: Query) -> str:
    columns = output_columns(query)
    return f"{_typed(query)} returns {len(columns)} columns ({', '.join(columns)})"


def _told(operation: str, left: Query, right: Query) -> str:
    both = f"the sides of {operation} have different columns: {_returns(left)}; {_returns(right)}"
    named = _named(left, right)
    if named is not None:
        same = ", ".join((left.target, *named))
        return f"{both}. Name the same columns on both: SELECT {same} WHERE ... {operation} SELECT {same} ..."
    if operation == "UNION":
        return f"{both}. UNION BY NAME matches columns by name, with NULL where a side lacks one"
    return f"{both}. Select the same columns on both"


def _named(left: Query, right: Query) -> tuple[str, ...] | None:
    """The names that give two shorthands with one target equal columns; None if no names do."""
    if left.target != right.target:
        return None
    # The longer one first: columns that are returned unnamed stand before named ones.
    sides = sorted((output_columns(left), output_columns(right)), key=len, reverse=True)
    names = dict.fromkeys(name for side in sides for name in side[len(OUTPUT[left.target]) :])
    return tuple(names) if set(names) <= set(columns_to_add(left.target)) else None
