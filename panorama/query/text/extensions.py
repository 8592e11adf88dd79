"""A statement's tokens come in; the parts that DuckDB does not know go out, with their positions."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from panorama.query.shorthands.space import PREDICATES

TARGETS = ("frames", "moments", "tracks", "crops")
VERDICTS = {
    "verify": "BOOLEAN",
    "verify_score": "DOUBLE",
    "verify_band": "VARCHAR",
    "verify_exit": "INTEGER",
}
"""The functions that compare two pictures, with their result types."""
CALLS = ("similarity", *VERDICTS, *PREDICATES)

# What may follow SELECT frames and its columns; after anything else (FROM, an operator), `frames` is a
# column.
AFTER_TARGET = {TokenType.WHERE, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH}
SET_OPERATIONS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_OPENS_QUERY = {TokenType.FROM, TokenType.JOIN, TokenType.ALIAS}
_LISTS_VALUES = {
    *(TokenType.SELECT, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY),
    *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.WINDOW, TokenType.VALUES, TokenType.SEMICOLON),
    *SET_OPERATIONS,
}
"""What may contain commas at the same depth as a FROM without being part of it."""
_WORDS_BEFORE_QUERY = ("MATERIALIZED", "EXPLAIN", "ANALYZE", "DESCRIBE", "SUMMARIZE")
TAIL = {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET}
OPENERS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
CLOSERS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


@dataclass(frozen=True, slots=True)
class Extension:
    """A part of a statement that DuckDB does not know.

    Attributes:
        kind: 'shorthand', 'similarity', one of VERDICTS or a predicate of space.
        first, last: its tokens, [first, last).
        start, stop: its characters, [start, stop).
        alone: for a shorthand, whether it is the whole statement, which gives it a default order.
        grouped: for a shorthand, whether it is a side of UNION, EXCEPT or INTERSECT.
    """

    kind: str
    first: int
    last: int
    start: int
    stop: int
    alone: bool = False
    grouped: bool = False


@dataclass(slots=True)
class _Level:
    """What has been read of one pair of brackets: the index that opened it, and what its last clause is."""

    opened: int
    lists_tables: bool = False
    has_from: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a statement's tokens stand, found in one pass: lists of values may have 20,000 of them.

    Attributes:
        opened: (T,) for every token, the index of the bracket around it or of the semicolon before it; -1 if
            there is neither.
        commas: indices of the commas that separate the tables of a FROM, not values.
        behind_from: indices of the SELECTs of DuckDB's FROM-first form: FROM videos SELECT frames.
    """

    opened: list[int]
    commas: set[int]
    behind_from: set[int]

    @classmethod
    def of(cls, tokens: list[Token]) -> Layout:
        """The layout of all tokens of a statement."""
        found = cls([], set(), set())
        levels = [_Level(-1)]
        for i, token in enumerate(tokens):
            kind, level = token.token_type, levels[-1]
            found.opened.append(level.opened)
            if kind in OPENERS:
                levels.append(_Level(i))
            elif kind in CLOSERS:
                levels.pop()
                levels = levels or [_Level(-1, has_from=level.has_from)]
            elif kind == TokenType.COMMA and level.lists_tables:
                found.commas.add(i)
            elif kind == TokenType.FROM:
                level.lists_tables |= names_tables(tokens, i)
                level.has_from = True
            elif kind in _LISTS_VALUES:
                level.lists_tables = False
                if kind == TokenType.SELECT and level.has_from:
                    found.behind_from.add(i)
                elif kind == TokenType.SEMICOLON:
                    levels[-1] = _Level(i)
                elif kind in SET_OPERATIONS:
                    level.has_from = False
        return found


def find_extensions(tokens: list[Token]) -> list[Extension]:
    """Every extension, in the order of the text; one may contain others."""
    found = []
    layout: Layout | None = None
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.SELECT and _names_target(tokens, i):
            layout = Layout.of(tokens) if layout is None else layout
            if _is_shorthand(tokens, i, layout):
                found.append(_shorthand_span(tokens, i, layout))
        elif _is_call(tokens, i):
            last = closing(tokens, i + 1) + 1
            stop = tokens[min(last, len(tokens)) - 1].end + 1
            found.append(Extension(token.text.lower(), i, last, token.start, stop))
    return found


_NO_CALL_AFTER = {
    *(TokenType.DOT, TokenType.ALIAS, TokenType.FROM, TokenType.JOIN, TokenType.WITH),
    *(TokenType.IDENTIFIER, TokenType.R_PAREN),
}
_WORDS_BEFORE_CALL = ("BY", "BEFORE", "DURING", "OVERLAPS")


def _is_call(tokens: list[Token], i: int) -> bool:
    """Whether a call of CALLS stands here, and not a relation or CTE with the same name."""
    token = tokens[i]
    named = token.token_type == TokenType.VAR and token.text.lower() in CALLS
    if not named or i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.L_PAREN:
        return False
    before = tokens[i - 1] if i else None
    if before is not None and before.token_type in _NO_CALL_AFTER:
        return False
    # After a name, near(a) is its alias with columns.
    if before is not None and before.token_type == TokenType.VAR:
        return before.text.upper() in _WORDS_BEFORE_CALL
    after = closing(tokens, i + 1) + 1
    return not (
        after + 1 < len(tokens)
        and tokens[after].token_type == TokenType.ALIAS
        and tokens[after + 1].token_type == TokenType.L_PAREN
    )


def _names_target(tokens: list[Token], i: int) -> bool:
    """Whether a word of TARGETS follows the SELECT at `i`."""
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    return after is not None and after.token_type == TokenType.VAR and after.text.lower() in TARGETS


def _is_shorthand(tokens: list[Token], i: int, layout: Layout) -> bool:
    """Whether the SELECT of a target at `i` begins a shorthand, not a query with a column of that name."""
    if i in layout.behind_from:
        return False
    behind = _behind_names(tokens, i + 2)
    if behind >= len(tokens):
        return True
    after = tokens[behind]
    if after.token_type in AFTER_TARGET or after.text.upper() in ("WITH", "WITHIN"):
        return True
    if after.token_type in SET_OPERATIONS or after.token_type == TokenType.SEMICOLON:
        return True
    # A bare (SELECT frames) is a shorthand if a table is expected, otherwise a correlated column.
    if after.token_type == TokenType.R_PAREN:
        return _holds_table(tokens, i, layout)
    # A list of more than names is no shorthand; but without a FROM it can mean nothing else, so it is one
    # here and the parser reports the error.
    return tokens[i + 2].token_type == TokenType.COMMA and _reads_nothing(tokens, i, layout)


def _holds_table(tokens: list[Token], i: int, layout: Layout) -> bool:
    """Whether the parenthesis around a token contains a table, not a value: FROM (...), (...) UNION (...)."""
    opened = layout.opened[i]
    while opened >= 0 and tokens[opened].token_type == TokenType.L_PAREN:
        before = tokens[opened - 1] if opened else None
        if before is not None and (
            before.token_type in _OPENS_QUERY
            or before.text.upper() in _WORDS_BEFORE_QUERY
            or (before.token_type == TokenType.COMMA and opened - 1 in layout.commas)
        ):
            return True
        around = layout.opened[opened]
        # It begins the statement or the parenthesis around it, follows a WITH, or is a side of a set
        # operation.
        if not (
            opened == around + 1
            or (before is not None and before.token_type == TokenType.R_PAREN)
            or _follows_set_operation(tokens, opened)
        ):
            return False
        opened = around
    return opened < 0 or tokens[opened].token_type == TokenType.SEMICOLON


def is_name(token: Token) -> bool:
    """Whether a token can be the name of a column."""
    if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.FROM, *AFTER_TARGET):
        return False
    return token.token_type == TokenType.IDENTIFIER or token.text.isidentifier()


def _behind_names(tokens: list[Token], at: int) -> int:
    """The index after `, name, name`, if that stands at `at`; otherwise `at`."""
    while at + 1 < len(tokens) and tokens[at].token_type == TokenType.COMMA and is_name(tokens[at + 1]):
        at += 2
    return at


def _reads_nothing(tokens: list[Token], i: int, layout: Layout) -> bool:
    """Whether the SELECT at `i` has no FROM and no query around it whose columns it could name."""
    opened = layout.opened[i]
    bracket = opened >= 0 and tokens[opened].token_type in OPENERS
    if bracket and tokens[opened - 1].token_type not in (TokenType.FROM, TokenType.ALIAS):
        return False
    depth = 0
    for j in range(i + 1, _shorthand_span(tokens, i, layout).last):
        kind = tokens[j].token_type
        depth += (kind in OPENERS) - (kind in CLOSERS)
        if depth == 0 and kind == TokenType.FROM and names_tables(tokens, j):
            return False
    return True


def names_tables(tokens: list[Token], i: int) -> bool:
    """Whether a FROM lists tables; that of IS DISTINCT FROM compares."""
    return not i or tokens[i - 1].token_type != TokenType.DISTINCT


def closing(tokens: list[Token], i: int) -> int:
    """Index of the token that closes the parenthesis at `i`; the last token if nothing closes it."""
    depth = 0
    for j in range(i, len(tokens)):
        if tokens[j].token_type in OPENERS:
            depth += 1
        elif tokens[j].token_type in CLOSERS:
            depth -= 1
            if depth == 0:
                return j
    return len(tokens) - 1


def named_queries(tokens: list[Token]) -> frozenset[str]:
    """The names, in lower case, that the WITHs of a statement give to queries; possibly a few others.

    A query is named by `name AS (`, `name(columns) AS MATERIALIZED (` and the like.
    """
    found = set()
    for i, token in enumerate(tokens[:-2]):
        after = i + 1
        if tokens[after].token_type == TokenType.L_PAREN:
            after = closing(tokens, after) + 1
        words = [word.text.upper() for word in tokens[after : after + 2]]
        if words in _NAMES_QUERY:
            found.add(token.text.lower())
    return frozenset(found)


_NAMES_QUERY = (["AS", "("], ["AS", "MATERIALIZED"], ["AS", "NOT"], ["USING", "KEY"])


def _shorthand_span(tokens: list[Token], i: int, layout: Layout) -> Extension:
    """The shorthand at `i`; it ends at its parenthesis, a semicolon, a set operation or the end."""
    depth = 0
    last = len(tokens)
    tail = None
    for j in range(i + 1, len(tokens)):
        kind = tokens[j].token_type
        if kind in OPENERS:
            depth += 1
        elif kind in CLOSERS:
            if depth == 0:
                last = j
                break
            depth -= 1
        elif depth == 0 and (kind == TokenType.SEMICOLON or kind in SET_OPERATIONS):
            last = j
            break
        elif depth == 0 and kind in TAIL and tail is None:
            tail = j
    follows = last < len(tokens) and tokens[last].token_type in SET_OPERATIONS
    grouped = follows or _follows_set_operation(tokens, i)
    if grouped and tail is not None:
        last = tail  # ORDER BY and LIMIT belong to the whole set operation
    whole = layout.opened[i] == -1 and not grouped
    return Extension("shorthand", i, last, tokens[i].start, tokens[last - 1].end + 1, whole, grouped)


def _follows_set_operation(tokens: list[Token], i: int) -> bool:
    j = i - 1
    while j >= 0 and tokens[j].text.upper() in ("ALL", "DISTINCT", "BY", "NAME"):
        j -= 1
    return j >= 0 and tokens[j].token_type in SET_OPERATIONS
