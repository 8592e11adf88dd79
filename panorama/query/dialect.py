"""DuckDB's SQL plus the vocabulary: a statement's text enters, its extensions and their places leave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError, UsageError
from panorama.query.space import PREDICATES

TARGETS = ("frames", "moments", "tracks", "crops")
CALLS = ("similarity", "verify", *PREDICATES)

# What may stand after SELECT frames; anything else (FROM, a comma, an operator) makes `frames` a column.
_AFTER_TARGET = {TokenType.WHERE, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH}
_SET_OPERATIONS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_OPENS_QUERY = {TokenType.FROM, TokenType.JOIN, TokenType.ALIAS}
_TAIL = {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET}
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}

_BETWEEN_MOMENTS = ("FOLLOWED", "BEFORE", "DURING", "OVERLAPS")
_BEFORE_OPERAND = ("AND", "OR", "NOT", "WHERE", "IS", "(", ",")

_UNIT_SECONDS = {"SECOND": 1, "SECONDS": 1, "MINUTE": 60, "MINUTES": 60}


class Shorthand(exp.Expression):
    """SELECT frames WHERE ... as sqlglot holds it; places of the clauses are in `meta`."""

    arg_types = {"this": True, "where": False}  # noqa: RUF012


class Sequenced(exp.Expression):
    """a FOLLOWED BY b, a DURING b, a OVERLAPS b, a BEFORE b, and each behind NOT."""

    arg_types = {"this": True, "expression": True, "within": False}  # noqa: RUF012


class Panorama(DuckDB):
    """DuckDB's dialect with the shorthand and the operators between moments."""

    class Tokenizer(DuckDB.Tokenizer):
        """OVERLAPS stands between conditions here, not between values."""

        KEYWORDS = {k: v for k, v in DuckDB.Tokenizer.KEYWORDS.items() if k != "OVERLAPS"}  # noqa: RUF012
        # sqlglot reads what follows EXPLAIN, CALL or SHOW as one string; the words are needed here.
        COMMANDS = set()  # noqa: RUF012

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]
        """Notes the place of every predicate, so that its text can be kept."""

        EXPRESSION_PARSERS = {  # noqa: RUF012
            **DuckDB.Parser.EXPRESSION_PARSERS,
            Shorthand: lambda self: self.parse_shorthand(),
        }

        def parse_shorthand(self) -> exp.Expr:
            """SELECT target [WHERE condition] [ORDER BY ...] [LIMIT n] [OFFSET n]."""
            self._match(TokenType.SELECT)
            self._advance()
            target = self._prev.text.lower()
            where = None
            if self._match(TokenType.WHERE):
                where = self._parse_disjunction()
                if where is None:
                    self.raise_error("Expected a condition after WHERE")
            node = self.expression(Shorthand(this=exp.var(target), where=where))
            while self._curr:
                if self._curr.token_type in _TAIL:
                    self._parse_tail(node)
                elif self._curr.text.upper() == "WITH":
                    self._parse_contract(node)
                elif self._match_text_seq("WITHIN"):
                    self._parse_budget(node)
                else:
                    self._refuse_rest()
            return node

        def _parse_contract(self, node: exp.Expr) -> None:
            """WITH PRECISION >= 0.95 or WITH RECALL >= 0.9."""
            start = self._curr.start
            self._advance()
            kind = self._curr.text.lower() if self._curr else ""
            if kind not in ("precision", "recall"):
                self.raise_error("Expected PRECISION or RECALL after WITH, as in WITH PRECISION >= 0.95")
            self._advance()
            compared = self._match(TokenType.GTE)
            found, at_least = self._curr, self._number() if compared else None
            if at_least is None or not 0.5 <= at_least < 1:
                expected = f"Expected >= and a number from 0.5 to below 1 after WITH {kind.upper()}"
                got = f"found {found.text!r}" if found else "found the end"
                percent = "; 95 % is written 0.95" if at_least is not None and at_least > 1 else ""
                self.raise_error(f"{expected}, {got}{percent}", found)
            if "contract" in node.meta:
                self.raise_error("There are two accuracies; an answer keeps one of them")
            node.meta["contract"] = (kind, at_least, start)

        def _parse_budget(self, node: exp.Expr) -> None:
            """WITHIN 10 SECONDS, the word WITHIN being read."""
            amount = self._number()
            unit = self._curr.text.upper() if self._curr else ""
            if not amount or unit not in _UNIT_SECONDS:
                self.raise_error("Expected a time after WITHIN, as in WITHIN 10 SECONDS")
            self._advance()
            if "budget" in node.meta:
                self.raise_error("There are two WITHIN clauses")
            node.meta["budget"] = (amount or 0) * _UNIT_SECONDS[unit]

        def _number(self) -> float | None:
            if self._curr is None or not self._match(TokenType.NUMBER):
                return None
            try:
                return float(self._prev.text)
            except ValueError:
                self.raise_error(f"{self._prev.text!r} is no number", self._prev)
                return None

        def _parse_tail(self, node: exp.Expr) -> None:
            """One of ORDER BY, LIMIT, OFFSET: sqlglot checks it, its text is kept."""
            clause, first = self._curr.token_type, self._curr
            if clause.name in node.meta:
                self.raise_error(f"There are two {first.text.upper()} clauses")
            if clause == TokenType.ORDER_BY:
                self._parse_order()
            elif clause == TokenType.LIMIT:
                self._parse_limit()
            else:
                self._parse_offset()
            node.meta[clause.name] = (first.end + 1, self._prev.end + 1)

        def _refuse_rest(self) -> None:
            """What may not follow a shorthand, by name."""
            if self._curr.text.upper() in ("FOLLOWED", "NOT FOLLOWED"):
                self.raise_error(f"Expected BY after {self._curr.text.upper()}")
            self.raise_error(
                "Expected AND, OR, ORDER BY, LIMIT, OFFSET, WITH, WITHIN or the end, found"
                f" {self._curr.text!r}; for anything else write SELECT ... FROM (SELECT frames WHERE ...)"
            )

        def _parse_equality(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """A predicate with its place, and the operators that join two of them."""
            first = self._curr
            node = super()._parse_equality(*args, **kwargs)
            if node is None or not first:
                return node
            node.meta["span"] = (first.start, self._prev.end + 1)
            while True:
                operator = self._curr
                kind = self._match_sequence()
                if kind is None:
                    return node
                end = self._prev.end + 1
                right = super()._parse_equality(*args, **kwargs)
                if right is None:
                    self.raise_error(f"Expected a condition after {kind}")
                if str(node.meta.get("kind", "")).startswith("NOT "):
                    self.raise_error(
                        f"A chain ends with {node.meta['kind']}; for what goes on, put it in brackets:"
                        f" (a {node.meta['kind']} b) {kind} c"
                    )
                right.meta["span"] = (end, self._prev.end + 1)
                sequence = Sequenced(this=node, expression=right, within=self._parse_within())
                sequence.meta.update(kind=kind, at=operator.start, span=(first.start, self._prev.end + 1))
                node = sequence

        def _match_sequence(self) -> str | None:
            """The operator between moments that stands here, if one does."""
            for negation in ("", "NOT "):
                if self._match_text_seq(f"{negation}FOLLOWED", "BY"):
                    return f"{negation}FOLLOWED BY"
                for word in _BETWEEN_MOMENTS[1:]:
                    if self._match_text_seq(f"{negation}{word}"):
                        return f"{negation}{word}"
            return None

        def _parse_within(self) -> exp.Expr | None:
            """WITHIN INTERVAL 30 SECONDS: the interval's place, or nothing."""
            if not self._match_text_seq("WITHIN"):
                return None
            first = self._curr
            interval = self._parse_interval()
            if interval is None:
                self.raise_error(
                    "Expected INTERVAL after WITHIN, as in WITHIN INTERVAL 30 SECONDS between the two; for an"
                    " answer in 30 seconds put the condition in brackets: (a FOLLOWED BY b) WITHIN 30 SECONDS"
                )
            interval.meta["span"] = (first.start, self._prev.end + 1)
            return interval


@dataclass(frozen=True, slots=True)
class Extension:
    """A piece of a statement that DuckDB does not know.

    Attributes:
        kind: 'shorthand', 'similarity', 'verify' or a predicate of space.
        first, last: its tokens, [first, last).
        start, stop: its text, in characters.
        alone: for a shorthand, whether it is the whole statement, so that it has a default order.
        grouped: for a shorthand, whether it stands beside UNION, EXCEPT or INTERSECT.
    """

    kind: str
    first: int
    last: int
    start: int
    stop: int
    alone: bool = False
    grouped: bool = False


def tokenize(sql: str) -> list[Token]:
    """The statement's tokens.

    Raises:
        UsageError: it is no text.
        QueryError: a string, a quoted name or a comment does not end.
    """
    if not isinstance(sql, str):
        raise UsageError(f"a query is SQL as text, got {type(sql).__name__} {sql!r:.40}")
    try:
        return _joined_parameters(list(Panorama().tokenize(sql)))
    except TokenError as exc:
        place = _unclosed(sql)
        message = "a string, a quoted name or a comment that begins here does not end"
        if place is not None and sql[place] == "'":
            message = f"{message}; {QUOTE_TWICE}"
        raise QueryError(
            message if place is not None else f"the statement cannot be read: {exc}", sql, place
        ) from exc


QUOTE_TWICE = "a single quote inside a text is written twice, 'it''s'"


def single_quotes(word: str) -> str:
    """What to say of a word that stands where a text is meant."""
    text = "'" + word.replace("'", "''") + "'"
    return f"A text stands in single quotes, {text}; a bare word, or one in double quotes, is a column"


_WORD = re.compile(r"\w+(?:[-./]+\w+)*")
_COMPARED = re.compile(r"(=|<>|\bI?LIKE)\s*$", re.IGNORECASE)


def meant_text(sql: str, position: int | None, name: str, compared: bool = False) -> str:
    """A hint where a name that is none stands at a place and is compared: a text may have been meant.

    Args:
        name: as SQL reads it; gate/blue-van.mp4 without quotes is gate by blue less van.mp4.
        compared: whether the name is known to be compared with a text.
    """
    at = 0 if position is None else position
    found = next((word for word in _WORD.finditer(sql) if word.start() <= at < word.end()), None)
    if not compared and not _COMPARED.search(sql[: found.start() if found else at]):
        return ""
    word = found.group() if found else ""
    curly = "; ‘ and ’ are none" if set(sql) & set("‘’") else ""
    return f". {single_quotes(word if set(word) & set('-./') else name)}{curly}"


_QUOTES = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL)


def _unclosed(sql: str) -> int | None:
    """Where a quote or a comment opens that nothing closes."""
    rest = _QUOTES.sub(lambda found: " " * len(found.group()), sql)
    found = re.search(r"['\"]|/\*", rest)
    return found.start() if found else None


def _joined_parameters(tokens: list[Token]) -> list[Token]:
    """`$` and the name right behind it as one token; so `?` and its number, as the `$1` that it means."""
    joined: list[Token] = []
    for token in chain.from_iterable(map(_without_casts, tokens)):
        last = joined[-1] if joined else None
        dollar = last is not None and last.text == "$" and last.token_type == TokenType.PARAMETER
        counted = last is not None and last.token_type == TokenType.PLACEHOLDER and token.text.isdigit()
        if last is not None and (dollar or counted) and token.start == last.end + 1:
            text = f"${token.text}"
            joined[-1] = Token(TokenType.PARAMETER, text, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


def _without_casts(token: Token) -> tuple[Token, ...]:
    """`?::`, in other dialects one operator, is a parameter and the cast behind it."""
    if token.token_type != TokenType.QDCOLON:
        return (token,)
    mark, cast = token.start, token.start + 1
    return (
        Token(TokenType.PLACEHOLDER, "?", token.line, token.col - 2, mark, mark),
        Token(TokenType.DCOLON, "::", token.line, token.col, cast, token.end),
    )


def find_extensions(tokens: list[Token]) -> list[Extension]:
    """Every extension, in the order of the text; one may lie inside another."""
    found = []
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.SELECT and _is_shorthand(tokens, i):
            found.append(_shorthand_span(tokens, i))
        elif _is_call(tokens, i):
            last = _closing(tokens, i + 1) + 1
            stop = tokens[min(last, len(tokens)) - 1].end + 1
            found.append(Extension(token.text.lower(), i, last, token.start, stop))
    return found


def parse_shorthand(tokens: list[Token], extension: Extension, sql: str) -> exp.Expr:
    """The shorthand as a tree.

    Raises:
        QueryError: with the place and what was expected.
    """
    piece = _joined_negations(tokens[extension.first : extension.last])
    try:
        parsed = Panorama().parser().parse_into(Shorthand, piece, sql)
    except ParseError as exc:
        raise query_error(exc, tokens, sql) from exc
    except RecursionError as exc:
        raise QueryError("the condition is nested too deeply", sql, extension.start) from exc
    except Exception as exc:  # a parser for a language of this size fails in ways nobody lists
        raise QueryError(f"the condition cannot be read ({exc})", sql, extension.start) from exc
    if len(parsed) != 1 or not isinstance(parsed[0], Shorthand):
        raise QueryError("expected a condition", sql, extension.start)
    return parsed[0]


def _joined_negations(tokens: list[Token]) -> list[Token]:
    """NOT and the operator between moments right behind it as one token: sqlglot expects IN or LIKE there."""
    joined: list[Token] = []
    for token in chain.from_iterable(map(_without_casts, tokens)):
        last = joined[-1] if joined else None
        operand = len(joined) > 1 and joined[-2].text.upper() not in _BEFORE_OPERAND
        negated = last is not None and last.token_type == TokenType.NOT and operand
        if last is not None and negated and token.text.upper() in _BETWEEN_MOMENTS:
            text = f"NOT {token.text.upper()}"
            joined[-1] = Token(TokenType.VAR, text, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


def query_error(error: ParseError, tokens: list[Token], sql: str) -> QueryError:
    """sqlglot's complaint, pointing at the same token in the statement."""
    first = error.errors[-1] if error.errors else {}
    where = (first.get("line"), first.get("col"))
    position = next((token.start for token in tokens if (token.line, token.col) == where), None)
    message = str(first.get("description") or error).splitlines()[0]
    if message.startswith("Required keyword"):
        message = "Expected a value"
    if any(_glued(token, after) for token, after in pairwise(tokens)):
        message = f"{message}; {QUOTE_TWICE}"
    return QueryError(message[:1].lower() + message[1:], sql, position)


def _glued(token: Token, after: Token) -> bool:
    """Whether a word stands right behind a text, as where the quote in 'it's' ends it."""
    word = after.text[:1].isalpha() and after.token_type != TokenType.STRING
    return token.token_type == TokenType.STRING and after.start == token.end + 1 and word


_NO_CALL_AFTER = {
    *(TokenType.DOT, TokenType.ALIAS, TokenType.FROM, TokenType.JOIN, TokenType.WITH),
    *(TokenType.IDENTIFIER, TokenType.R_PAREN),
}
_WORDS_BEFORE_CALL = ("BY", "BEFORE", "DURING", "OVERLAPS")


def _is_call(tokens: list[Token], i: int) -> bool:
    """Whether a call of the vocabulary stands here, and no relation or CTE that bears its name."""
    token = tokens[i]
    named = token.token_type == TokenType.VAR and token.text.lower() in CALLS
    if not named or i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.L_PAREN:
        return False
    before = tokens[i - 1] if i else None
    if before is not None and before.token_type in _NO_CALL_AFTER:
        return False
    # near(a) behind a name is its alias with columns.
    if before is not None and before.token_type == TokenType.VAR:
        return before.text.upper() in _WORDS_BEFORE_CALL
    after = _closing(tokens, i + 1) + 1
    return not (
        after + 1 < len(tokens)
        and tokens[after].token_type == TokenType.ALIAS
        and tokens[after + 1].token_type == TokenType.L_PAREN
    )


def _is_shorthand(tokens: list[Token], i: int) -> bool:
    """Whether the SELECT at `i` opens a shorthand and not a query that has a column of that name."""
    if i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.VAR:
        return False
    if tokens[i + 1].text.lower() not in TARGETS or _block_starts_with_from(tokens, i):
        return False
    if i + 2 >= len(tokens):
        return True
    after = tokens[i + 2]
    if after.token_type in _AFTER_TARGET or after.text.upper() in ("WITH", "WITHIN"):
        return True
    if after.token_type in _SET_OPERATIONS or after.token_type == TokenType.SEMICOLON:
        return True
    # A bare (SELECT frames) is a shorthand where a table is expected, elsewhere a correlated column.
    if after.token_type == TokenType.R_PAREN:
        opened = _opening(tokens, i)
        return opened > 0 and tokens[opened - 1].token_type in _OPENS_QUERY
    return False


def _opening(tokens: list[Token], i: int) -> int:
    """Index of the bracket around token `i`, -1 where there is none."""
    depth = 0
    for j in range(i - 1, -1, -1):
        kind = tokens[j].token_type
        if kind in _CLOSE:
            depth += 1
        elif kind in _OPEN:
            if depth == 0:
                return j
            depth -= 1
        elif kind == TokenType.SEMICOLON and depth == 0:
            return j
    return -1


def _closing(tokens: list[Token], i: int) -> int:
    """Index of the bracket that closes the one at `i`; the last token where it is never closed."""
    depth = 0
    for j in range(i, len(tokens)):
        if tokens[j].token_type in _OPEN:
            depth += 1
        elif tokens[j].token_type in _CLOSE:
            depth -= 1
            if depth == 0:
                return j
    return len(tokens) - 1


def _block_starts_with_from(tokens: list[Token], i: int) -> bool:
    """Whether SELECT at `i` belongs to DuckDB's FROM-first form: FROM videos SELECT frames."""
    start = _opening(tokens, i) + 1
    depth = 0
    first = start
    for j in range(start, i):
        kind = tokens[j].token_type
        depth += (kind in _OPEN) - (kind in _CLOSE)
        if depth == 0 and kind in _SET_OPERATIONS:
            first = j + 1
    return tokens[first].token_type == TokenType.FROM or any(
        tokens[j].token_type == TokenType.FROM and _opening(tokens, j) == start - 1 for j in range(first, i)
    )


def _shorthand_span(tokens: list[Token], i: int) -> Extension:
    """How far the shorthand reaches: to its bracket, a semicolon, a set operation or the end."""
    depth = 0
    last = len(tokens)
    tail = None
    for j in range(i + 1, len(tokens)):
        kind = tokens[j].token_type
        if kind in _OPEN:
            depth += 1
        elif kind in _CLOSE:
            if depth == 0:
                last = j
                break
            depth -= 1
        elif depth == 0 and (kind == TokenType.SEMICOLON or kind in _SET_OPERATIONS):
            last = j
            break
        elif depth == 0 and kind in _TAIL and tail is None:
            tail = j
    follows = last < len(tokens) and tokens[last].token_type in _SET_OPERATIONS
    grouped = follows or _follows_set_operation(tokens, i)
    if grouped and tail is not None:
        last = tail  # ORDER BY and LIMIT belong to the whole set operation
    whole = _opening(tokens, i) == -1 and not grouped
    return Extension("shorthand", i, last, tokens[i].start, tokens[last - 1].end + 1, whole, grouped)


def _follows_set_operation(tokens: list[Token], i: int) -> bool:
    j = i - 1
    while j >= 0 and tokens[j].text.upper() in ("ALL", "DISTINCT", "BY", "NAME"):
        j -= 1
    return j >= 0 and tokens[j].token_type in _SET_OPERATIONS
