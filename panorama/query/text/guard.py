"""A statement comes in; a QueryError with a position goes out if it is harmful or DuckDB rejects it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError, QueryTimeout, near
from panorama.query.handed.relations import RELATION_COLUMNS, RELATIONS, SCHEMA, relation_with
from panorama.query.shorthands.clock import is_daytime
from panorama.query.shorthands.plan import Query, columns_to_add
from panorama.query.sql.rewritten import LOOKS_UP, NO_SIMILARITY
from panorama.query.sql.unions import sides_hint
from panorama.query.text.extensions import CLOSERS, OPENERS, TARGETS, Layout
from panorama.query.text.meant_texts import meant_text
from panorama.query.text.next_steps import next_step
from panorama.query.text.tokens import tokenize, words_of_explain

_REFUSED = {
    *("ALTER", "ANALYZE", "ATTACH", "BEGIN", "CALL", "CHECKPOINT", "COMMENT", "COMMIT", "COPY", "CREATE"),
    *("DEALLOCATE", "DELETE", "DETACH", "DROP", "EXECUTE", "EXPORT", "FORCE", "FORGET", "GRANT", "IMPORT"),
    *("INSERT", "INSTALL", "LOAD", "MERGE", "PRAGMA", "PREPARE", "REINDEX", "REPLACE", "RESET", "REVOKE"),
    *("ROLLBACK", "SET", "START", "TRUNCATE", "UNINSTALL", "UPDATE", "USE", "VACUUM"),
}
_WRITES = {
    TokenType.INSERT: ("INTO", "OR", "BY"),
    TokenType.DELETE: ("FROM",),
    TokenType.MERGE: ("INTO",),
}

_PERMISSION = re.compile(r'Permission Error: Cannot access (\w+) "([^"]*)" - .*', re.DOTALL)
_INTERNAL = re.compile(rf'{SCHEMA}|"(duckdb|pg|sqlite|pragma|information_schema)[_.]')
_NO_COLUMN = re.compile(
    r'Referenced column "(?P<alone>[^"]+)" not found in FROM clause!'
    r'|[\w ]+ "[^"]+" does not have a column named "(?P<of>[^"]+)"'
)
_OF_UNION = re.compile(r'Could not ORDER BY column "+([^"]+)"')
_NO_INSTANT = re.compile(r'invalid timestamp field format: "([^"]*)", expected format is .*')
_NO_SECONDS = re.compile(r"Could not convert string '([^']*)' to DOUBLE")
_TIME_COLUMN = re.compile(r"\b(start_|end_|)(?:clock|time)\b(?!')", re.IGNORECASE)
_BESIDE = 40
"""Number of characters before and after a constant in which to look for the column it is compared with."""
_TOO_DEEP = re.compile(r"Max expression depth limit of (\d+) exceeded")
_LINE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+\s*$", re.DOTALL)
_EXAMPLE = "SELECT moments WHERE entity = 'blue-van'"
MOST_OPEN = 100
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
_ALLOWED = "Write a single SELECT; SQL can change only entities (CREATE, ALTER, DROP, FORGET ENTITY)"


def refuse_by_name(tokens: list[Token], sql: str) -> None:
    """Raise if the statement, or a part in parentheses, would write data or change settings.

    Raises:
        QueryError: with the name of what is refused.
    """
    if not tokens:
        raise QueryError("the statement is empty; write a SELECT")
    start = words_of_explain(tokens)
    options = [token.text.upper() for token in tokens[1:3]]
    if start and options in (["(", "ANALYZE"], ["(", "FORMAT"]):
        raise QueryError("expected EXPLAIN or EXPLAIN ANALYZE and a SELECT", sql, tokens[1].start)
    if start < len(tokens):
        first = tokens[start]
        if first.text.upper() in _REFUSED and first.token_type not in (
            TokenType.STRING,
            TokenType.IDENTIFIER,
        ):
            raise QueryError(f"{first.text.upper()} is refused. {_ALLOWED}", sql, first.start)
    for i in range(1, len(tokens) - 1):
        follows = _WRITES.get(tokens[i].token_type)
        bracket = tokens[i - 1].token_type == TokenType.L_PAREN
        if follows and bracket and tokens[i + 1].text.upper() in follows:
            raise QueryError(f"{tokens[i].text.upper()} is refused. {_ALLOWED}", sql, tokens[i].start)


def refuse_open_brackets(tokens: list[Token], sql: str) -> None:
    """Raise if a bracket is not closed: for thousands of them DuckDB's parser takes gigabytes.

    Raises:
        QueryError: with the position of the first.
    """
    opened: list[Token] = []
    for token in tokens:
        if token.token_type in OPENERS:
            opened.append(token)
        elif opened and token.text == _CLOSED_BY.get(opened[-1].text):
            opened.pop()
        elif opened and token.token_type in CLOSERS:
            opened = opened[-1:]
            break
    # A name in backticks, which the tokenizer does not know, may hold a few.
    if opened and ("`" not in sql or len(opened) > MOST_OPEN):
        raise QueryError(f"the {opened[0].text} that begins here is not closed", sql, opened[0].start)


def check_single_select(
    connection: duckdb.DuckDBPyConnection, sql: str, tokens: list[Token]
) -> duckdb.Statement | None:
    """Raise unless DuckDB parses the text as exactly one SELECT.

    Args:
        sql: the text for DuckDB.
        tokens: of the statement as typed. Both texts are equal up to the first extension, so also for
            EXPLAIN.

    Returns:
        The SELECT as DuckDB has parsed it, which saves parsing it again. None for an EXPLAIN, which is
        executed with another prefix, and for a PIVOT that DuckDB splits into several statements.

    Raises:
        QueryError: a syntax error with its position, several statements, or one that is not a SELECT.
    """
    # EXPLAIN ANALYZE executes what it explains, so that part must be a SELECT.
    explained = min(words_of_explain(tokens), len(tokens) - 1)
    body = " " * tokens[explained].start + sql[tokens[explained].start :] if explained else sql
    try:
        statements = connection.extract_statements(body)
    except duckdb.Error as exc:
        error = readable(exc, sql)
        if error.position == tokens[0].start:
            error.args = (f"{error.args[0]}. A query begins with SELECT: {_EXAMPLE}",)
        raise error from exc
    if len(statements) != 1:
        message = (
            "the statement is empty; write a SELECT"
            if not statements
            else (f"there are {len(statements)} statements; run them one at a time")
        )
        raise QueryError(message, sql, len(statements[0].query) if statements else None)
    kind = statements[0].type
    # DuckDB runs PIVOT without a list of values as several statements; the first finds the values.
    pivots = kind == duckdb.StatementType.MULTI and any(t.text.upper().startswith("PIVOT") for t in tokens)
    if kind != duckdb.StatementType.SELECT and not pivots:
        raise QueryError(f"{kind.name} is refused. {_ALLOWED}", sql, 0)
    return None if explained or pivots else statements[0]


def readable(error: BaseException, sql: str, queries: Sequence[Query] = ()) -> QueryError:
    """DuckDB's error as a QueryError; its position refers to the text that DuckDB got.

    Args:
        queries: the shorthands in the statement.
    """
    text = str(error)
    position = None
    found = _LINE.search(text)
    if found:
        text = text[: found.start()]
        position = _place(sql, int(found.group(1)), found.group(2), len(found.group(3)))
    elif unplaced := _OF_UNION.search(text):
        ordered = [at.start() for at in re.finditer(rf"(?<!\w){re.escape(unplaced[1])}(?!\w)", sql)]
        position = ordered[-1] if ordered else None
    message = re.sub(r"\s*\n\s*", " ", text).strip()
    message = re.sub(
        r"^\w+ Error: ", lambda m: m.group(0) if m.group(0) == "Permission Error: " else "", message
    )
    if isinstance(error, duckdb.OutOfMemoryException):
        # DuckDB advises to change settings, which would be refused.
        message = re.sub(
            r"^Out of Memory Error: | (Database is launched in in-memory mode|Possible solutions:).*",
            "",
            message,
        )
        return QueryTimeout(f"the query needs more memory than its limit: {message}", sql, position)
    if deep := _TOO_DEEP.match(message):
        # DuckDB advises to change a setting, which would be refused.
        message = (
            f"expressions nest beyond a depth of {deep[1]}: compute in steps, in a WITH clause, or from"
            f" Python allow more, limits=panorama.Limits(expressions={2 * int(deep[1])})"
        )
    if position is not None and _missing_column(message) and LOOKS_UP.search(sql, 0, position):
        return QueryError(NO_SIMILARITY, sql, position)  # nobody typed the column that is missing
    if denied := _PERMISSION.match(message):
        message = f"{denied[2]!r} cannot be read: a query reads only the library's relations"
    message = _with_clock(_with_relations(message), sql, position, bool(queries))
    hint = next_step(message, sql, position) or _target_hint(message, sql)
    hint = hint or _column_hint(message, [query.target for query in queries])
    hint = hint or sides_hint(message, queries) or _meant_text(message, sql, position)
    if not hint:
        message = _with_columns(message, sql, queries)
    return QueryError(f"{message.rstrip('!') if hint else message}{hint}", sql, position)


def _with_relations(message: str) -> str:
    """For a missing table: list the relations, unless DuckDB suggests a public one."""
    found = re.match(r"(Table with name .+? does not exist)!(?P<guess>.*)", message)
    # Tables of DuckDB's own are no help either: DuckDB finds them similar to almost any word.
    if found is None or (found["guess"] and not _INTERNAL.search(found["guess"])):
        return message
    return f"{found[1]}; the relations are {', '.join(RELATIONS)}"


def _with_clock(message: str, sql: str, position: int | None, in_shorthand: bool) -> str:
    """For text that is not a timestamp or not a number of seconds: tell what to compare it with or how to
    write it.

    Args:
        position: of the text in the statement.
    """
    no_instant, no_seconds = _NO_INSTANT.match(message), _NO_SECONDS.match(message)
    found = no_instant or no_seconds
    if found is None or not is_daytime(text := found[1]):
        return (
            f"{no_instant[1]!r} is not a date with a time: write '2026-03-01 10:00'"
            if no_instant
            else message
        )
    at = position or 0
    named = _TIME_COLUMN.findall(sql[max(at - _BESIDE, 0) : at])[-1:]
    named = named or _TIME_COLUMN.findall(sql[at : at + _BESIDE]) or ["start_"]
    is_what = "not a date with a time" if no_instant else "not a number of seconds"
    time = f", or with time: time >= {text!r}" if in_shorthand else ""
    return f"{text!r} is a time of day, {is_what}: compare it with {named[0].lower()}clock::TIME{time}"


def _with_columns(message: str, sql: str, queries: Sequence[Query]) -> str:
    """For a missing column: list the existing ones, besides the few that DuckDB finds similar."""
    name = _missing_column(message)
    if not name:
        return message
    word = rf"\b{re.escape(name)}\b(?!\s*\()"
    for query in queries:
        if query.order is not None and re.search(word, query.order, re.IGNORECASE):
            known = columns_to_add(query.target)
            guess = relation_with(name, query.target) or near(name, known, 0.7)
            told = f"SELECT {query.target} has no column {name!r} to order by; it has {', '.join(known)}"
            return f"{told}{'.' * bool(guess)}{guess}"
    lacking = [word for word in _read_names(sql) if name not in RELATION_COLUMNS.get(word, {name})]
    has = [f"{word} has {', '.join(sorted(RELATION_COLUMNS[word]))}" for word in lacking]
    return "; ".join([message, *has])


def _missing_column(message: str) -> str:
    """The column, in lower case, that a message of DuckDB says does not exist; '' for other messages."""
    found = _NO_COLUMN.match(message)
    return (found["alone"] or found["of"]).lower() if found else ""


def _read_names(sql: str) -> list[str]:
    """The names after FROM, JOIN and commas between tables, each once."""
    tokens = tokenize(sql)
    commas = Layout.of(tokens).commas
    named = (
        token.text.lower()
        for i, token in enumerate(tokens[1:])
        if tokens[i].token_type in (TokenType.FROM, TokenType.JOIN) or i in commas
    )
    return list(dict.fromkeys(named))


def _target_hint(message: str, sql: str) -> str:
    """A hint that a word after SELECT, which DuckDB takes for a column, may be meant as a shorthand."""
    found = re.match(r'Referenced column "(\w+)" ', message)
    if "FROM clause is missing" in message or "* expression without FROM clause" in message:
        words = re.findall(r"\bSELECT\s+(\w+)\s*(?:$|[;)]|WHERE\b|ORDER\b|LIMIT\b|WITH)", sql, re.IGNORECASE)
        meant = next((hint for word in words if (hint := near(word, TARGETS, 0.7))), "")
        named = (word.lower() + s for word in words for s in ("", "s"))
        relation = next((name for name in named if name in RELATIONS), "")
        if relation and not meant:
            meant = f" Or SELECT * FROM {relation} WHERE ..."
        more = "; for more columns, SELECT frames, band WHERE ..."
        target = re.search(rf"\bSELECT\b.*?\b({'|'.join(TARGETS)})\b", sql, re.IGNORECASE | re.DOTALL)
        if target:
            more += f"; to compute from it, SELECT count(*) FROM (SELECT {target[1].lower()} WHERE ...)"
        return (
            f". The shorthand is SELECT {', SELECT '.join(TARGETS)} WHERE ...{more}{'.' * bool(meant)}{meant}"
        )
    if found and found[1].lower() == "entity":
        return ". To search for an entity, use the shorthand, SELECT frames WHERE entity = 'X', or sightings"
    return ""


def _column_hint(message: str, targets: Sequence[str]) -> str:
    """A hint for a column that a shorthand inside the statement could return, but was not asked for."""
    name = _missing_column(message)
    target = next((target for target in targets if name in columns_to_add(target)), None)
    if name == "band" and not targets:
        return (
            ". Relations hold only accepted rows; the shorthand has all: SELECT tracks, band WHERE score >= 0"
        )
    return f". A shorthand returns {name} if you name it: SELECT {target}, {name} WHERE ..." if target else ""


def _meant_text(message: str, sql: str, position: int | None) -> str:
    """A hint if a word that is not a column is compared with something."""
    found = re.match(r'Referenced (?:column|table) "([^"]+)" not found', message)
    return meant_text(sql, position, found[1]) if found else ""


def _place(sql: str, line: int, shown: str, caret: int) -> int | None:
    """Offset in `sql` of the caret below a line, which DuckDB may have shortened at both ends."""
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return None
    column = caret - len(f"LINE {line}: ")
    if shown.startswith("..."):
        piece = shown.strip().removeprefix("...").removesuffix("...")
        at = lines[line - 1].find(piece)
        if at < 0:
            return None
        column += at - 3
    if not 0 <= column <= len(lines[line - 1]):
        return None
    return sum(len(text) + 1 for text in lines[: line - 1]) + column
