"""The text of a statement comes in; its tokens go out, cut as DuckDB cuts them."""

from __future__ import annotations

import re
from itertools import chain

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, Tokenizer, TokenType

from panorama.errors import QueryError, UsageError
from panorama.query.text.dialect import Panorama
from panorama.query.text.meant_texts import QUOTE_TWICE

_TAG = r"\$[A-Za-z_\x80-\U0010ffff][0-9A-Za-z_\x80-\U0010ffff]*\$"
"""The tag that begins and ends a text in DuckDB, as in $tag$it's$tag$."""


def _tokenizer(sql: str) -> Tokenizer:
    """A tokenizer that knows the tags of the dollar-quoted texts in `sql`."""
    tags = dict.fromkeys(re.findall(f"(?=({_TAG}))", sql))
    if not tags:
        return Panorama.Tokenizer(dialect=Panorama())

    class Tagged(Panorama.Tokenizer):
        RAW_STRINGS = [*Panorama.Tokenizer.RAW_STRINGS, *tags]  # noqa: RUF012

    return Tagged(dialect=Panorama())


def tokenize(sql: str) -> list[Token]:
    """The statement's tokens; every kind of quoted text is a STRING.

    Raises:
        UsageError: `sql` is not a string.
        QueryError: a string, a quoted name or a comment is not closed, or it is doubtful where one begins.
    """
    if not isinstance(sql, str):
        raise UsageError(f"a query is SQL as text, got {type(sql).__name__} {sql!r:.40}")
    try:
        tokens = _tokenizer(sql).tokenize(sql)
        if _INVISIBLE.search(sql):
            tokens = _tokenizer(sql).tokenize(_with_blanks(sql, tokens))
    except TokenError as exc:
        place = _unclosed(sql)
        message = "a string, a quoted name or a comment that begins here does not end"
        if place is not None and sql[place] == "'":
            message = f"{message}; {QUOTE_TWICE}"
        raise QueryError(
            message if place is not None else f"the statement cannot be read: {exc}", sql, place
        ) from exc
    joined = _joined_parameters(tokens)
    _refuse_doubtful_tags(joined, sql)
    return joined


_IN_NAMES = re.compile(r"[0-9A-Za-z_\x1c-\x1f]|[^\x00-\x7f]")
"""What DuckDB takes for a part of a name; some of it is a blank to Python."""


def _refuse_doubtful_tags(tokens: list[Token], sql: str) -> None:
    """Raise if DuckDB may see the beginning of a dollar-quoted text elsewhere: it could hide a call.

    A tag that is not ASCII is read as a parameter here. Behind a letter, or behind a blank that is none to
    DuckDB, the tag may be the rest of a name.
    """
    for token in tokens:
        text = token.token_type == TokenType.STRING and sql[token.start] == "$"
        parameter = token.token_type == TokenType.PARAMETER and "$" in token.text[1:]
        if parameter or (text and _IN_NAMES.match(sql[max(token.start - 1, 0) : token.start])):
            raise QueryError(
                "a text in dollar signs begins behind a blank with $$ or a tag of ASCII letters, digits"
                " and _, as in $tag$it's$tag$",
                sql,
                token.start,
            )


_INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
"""Characters without a width, which DuckDB takes for blanks and sqlglot for letters."""


def _with_blanks(sql: str, tokens: list[Token]) -> str:
    """The statement with blanks for these characters, except in quotes; as long as before."""
    quoted = (*_QUOTED, TokenType.STRING, TokenType.IDENTIFIER)
    pieces, end = [], 0
    for token in tokens:
        if token.token_type in quoted:
            pieces += [_INVISIBLE.sub(" ", sql[end : token.start]), sql[token.start : token.end + 1]]
            end = token.end + 1
    return "".join([*pieces, _INVISIBLE.sub(" ", sql[end:])])


def words_of_explain(tokens: list[Token]) -> int:
    """Number of words before the statement to explain: 1 for EXPLAIN, 2 for EXPLAIN ANALYZE; 0 for others."""
    words = [token.text.upper() for token in tokens[:2]]
    return 1 + (words[1:] == ["ANALYZE"]) if words[:1] == ["EXPLAIN"] else 0


def is_ordered(sql: str) -> bool:
    """Whether a statement says with ORDER BY in which order its rows come; raises as `tokenize` does."""
    depth = 0
    for token in tokenize(sql):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.ORDER_BY:
            return True
    return False


def promises_in(sql: str) -> list[str]:
    """The accuracies that a statement asks for, each once, as 'WITH RECALL >= 0.9'.

    Raises as `tokenize` does.
    """
    tokens = tokenize(sql)
    found = []
    for i, (word, kind, compared, number) in enumerate(zip(*(tokens[n:] for n in range(4)), strict=False)):
        is_promise = word.token_type == TokenType.WITH and kind.text.upper() in ("PRECISION", "RECALL")
        if is_promise and compared.token_type == TokenType.GTE and number.token_type == TokenType.NUMBER:
            found.append(" ".join(token.text for token in tokens[i : i + 4]))
    return list(dict.fromkeys(found))


def texts_in(sql: str) -> list[str]:
    """The quoted texts of a statement, in order; raises as `tokenize` does."""
    return [token.text for token in tokenize(sql) if token.token_type == TokenType.STRING]


_QUOTES = re.compile(
    rf"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|(?<!\w)(\$\$|{_TAG}).*?\1", re.DOTALL
)


def _unclosed(sql: str) -> int | None:
    """Position of the first quote or comment that is not closed."""
    rest = _QUOTES.sub(lambda found: " " * len(found.group()), sql)
    found = re.search(rf"['\"]|/\*|(?<!\w)(?:\$\$|{_TAG})", rest)
    return found.start() if found else None


def _joined_parameters(tokens: list[Token]) -> list[Token]:
    """Join `$` and the name right after it into one token, and `?` and its number into the `$1` it means."""
    joined: list[Token] = []
    for token in chain.from_iterable(map(_as_duckdb_reads, tokens)):
        last = joined[-1] if joined else None
        dollar = last is not None and last.text == "$" and last.token_type == TokenType.PARAMETER
        counted = last is not None and last.token_type == TokenType.PLACEHOLDER and token.text.isdigit()
        if last is not None and (dollar or counted) and token.start == last.end + 1:
            text = f"${token.text}"
            joined[-1] = Token(TokenType.PARAMETER, text, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


_QUOTED = (TokenType.RAW_STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING)
"""The kinds of $$text$$, e'text' and n'text'; to DuckDB each is a text like any other."""


def _as_duckdb_reads(token: Token) -> tuple[Token, ...]:
    """Split `?::`, one operator in other dialects, into a parameter and a cast; make quoted texts STRINGs."""
    if token.token_type in _QUOTED:
        return (Token(TokenType.STRING, token.text, token.line, token.col, token.start, token.end),)
    if token.token_type != TokenType.QDCOLON:
        return (token,)
    mark, cast = token.start, token.start + 1
    return (
        Token(TokenType.PLACEHOLDER, "?", token.line, token.col - 2, mark, mark),
        Token(TokenType.DCOLON, "::", token.line, token.col, cast, token.end),
    )
