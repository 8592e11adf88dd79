"""Shorthands beside UNION, EXCEPT or INTERSECT enter; an error leaves where their columns do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.shorthands.plan import OUTPUT, Query, columns_to_add
from panorama.query.sql.compile import output_columns
from panorama.query.text.extensions import SET_OPERATIONS, Extension

_BEFORE = {TokenType.L_PAREN, TokenType.R_PAREN, *SET_OPERATIONS}
_WORDS = ("ALL", "DISTINCT", "NAME", "EXPLAIN", "ANALYZE")
"""What may stand before a side in brackets; a closing bracket ends a WITH."""

_UNEQUAL = "Set operations can only apply to expressions with the same number of result columns"
"""How DuckDB begins to say that the sides have different numbers of columns."""


def check_sides(
    tokens: list[Token], extensions: Sequence[Extension], queries: Sequence[Query], sql: str
) -> None:
    """Raise where two shorthands that are sides of one set operation return different columns.

    DuckDB takes sides by place: it would refuse other numbers of columns in its own words, and put the
    values of one under the name of another.

    Args:
        tokens: of the statement as typed; extensions: those found in them.
        queries: the shorthands, in any order.

    Raises:
        QueryError: naming the columns of both and what to do.
    """
    sides = list(_sides(tokens, extensions, {query.start: query for query in queries}))
    begins = {first: query for first, _, query in sides}
    ends = {last: query for _, last, query in sides}
    for at, token in enumerate(tokens):
        if token.token_type not in SET_OPERATIONS:
            continue
        words = [behind.text.upper() for behind in tokens[at + 1 : at + 4]]
        skipped = int(words[:1] in (["ALL"], ["DISTINCT"]))
        left, right = ends.get(at), begins.get(at + 1 + skipped)  # none begins with BY NAME
        if left is not None and right is not None and output_columns(left) != output_columns(right):
            raise QueryError(_told(token.text.upper(), left, right), sql, right.start)


def sides_hint(message: str, queries: Sequence[Query]) -> str:
    """What to add to DuckDB's message where a shorthand and plain SQL have different numbers of columns."""
    if not message.startswith(_UNEQUAL) or not queries:
        return ""
    return "; " + "; ".join(dict.fromkeys(_returns(query) for query in queries))


def _sides(
    tokens: list[Token], extensions: Sequence[Extension], queries: Mapping[int, Query]
) -> Iterator[tuple[int, int, Query]]:
    """Tokens [first, last) of each shorthand, also with the brackets around it that it may stand in."""
    for extension in extensions:
        if extension.start not in queries:
            continue
        first, last = extension.first, extension.last
        yield first, last, queries[extension.start]
        while first and last < len(tokens) and _brackets(tokens[first - 1], tokens[last]):
            first, last = first - 1, last + 1
            # Behind other words the brackets hold a part of plain SQL: FROM (...), IN (...).
            if (
                first == 0
                or tokens[first - 1].token_type in _BEFORE
                or tokens[first - 1].text.upper() in _WORDS
            ):
                yield first, last, queries[extension.start]


def _brackets(before: Token, behind: Token) -> bool:
    return before.token_type == TokenType.L_PAREN and behind.token_type == TokenType.R_PAREN


def _typed(query: Query) -> str:
    """The shorthand as it begins: SELECT frames, band."""
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
    """The names that give two shorthands of one target the same columns; None where no names do."""
    if left.target != right.target:
        return None
    # The longer first: what is returned without being named stands before what is named.
    sides = sorted((output_columns(left), output_columns(right)), key=len, reverse=True)
    names = dict.fromkeys(name for side in sides for name in side[len(OUTPUT[left.target]) :])
    return tuple(names) if set(names) <= set(columns_to_add(left.target)) else None
