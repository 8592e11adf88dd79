"""The text of a statement in DuckDB's SQL with Panorama's extensions comes in; tokens and trees go out."""

from __future__ import annotations

import math
import re
from itertools import chain, pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, Tokenizer, TokenType

from panorama.errors import QueryError, UsageError
from panorama.query.text.extensions import AFTER_TARGET, TAIL, Extension, is_name
from panorama.query.text.quoting import quote_text

_BETWEEN_MOMENTS = ("FOLLOWED", "BEFORE", "DURING", "OVERLAPS")
_BEFORE_OPERAND = ("AND", "OR", "NOT", "WHERE", "IS", "(", ",")

_UNIT_SECONDS = {"SECOND": 1, "SECONDS": 1, "MINUTE": 60, "MINUTES": 60}


class Shorthand(exp.Expression):
    """SELECT frames WHERE ... as a sqlglot node; `meta` has the positions of its clauses."""

    arg_types = {"this": True, "where": False}  # noqa: RUF012


class Sequenced(exp.Expression):
    """a FOLLOWED BY b, a DURING b, a OVERLAPS b, a BEFORE b, and each of them with NOT."""

    arg_types = {"this": True, "expression": True, "within": False}  # noqa: RUF012


class Panorama(DuckDB):
    """DuckDB's dialect with shorthands and the operators between moments."""

    class Tokenizer(DuckDB.Tokenizer):
        """Reads OVERLAPS as an operator between conditions, not between values; `$` begins a parameter."""

        KEYWORDS = {k: v for k, v in DuckDB.Tokenizer.KEYWORDS.items() if k != "OVERLAPS"}  # noqa: RUF012
        # sqlglot takes whatever lies between two dollar signs for the tag of a quoted text: in $a,$b the tag
        # would be "a,". So only $$ is known here; `_tokenizer` adds the tags that a statement has.
        HEREDOC_STRINGS = []  # noqa: RUF012
        RAW_STRINGS = ["$$"]  # noqa: RUF012
        SINGLE_TOKENS = {**DuckDB.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012
        VAR_SINGLE_TOKENS = {"$"}  # noqa: RUF012
        # sqlglot reads the text after EXPLAIN, CALL or SHOW as one string; here its tokens are needed.
        COMMANDS = set()  # noqa: RUF012

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]
        """Records the position of every predicate, so that its text can be kept."""

        EXPRESSION_PARSERS = {  # noqa: RUF012
            **DuckDB.Parser.EXPRESSION_PARSERS,
            Shorthand: lambda self: self.parse_shorthand(),
        }

        def parse_shorthand(self) -> exp.Expr:
            """SELECT target [, column ...] [WHERE condition] [ORDER BY ...] [LIMIT n] [OFFSET n]."""
            self._match(TokenType.SELECT)
            self._advance()
            target = self._prev.text.lower()
            columns = self._parse_columns(target)
            where = None
            if self._match(TokenType.WHERE):
                where = self._parse_disjunction()
                if where is None:
                    self.raise_error("Expected a condition after WHERE")
            node = self.expression(Shorthand(this=exp.var(target), where=where))
            node.meta["columns"] = columns
            while self._curr:
                if self._curr.token_type in TAIL:
                    self._parse_tail(node)
                elif self._curr.text.upper() == "WITH":
                    self._parse_contract(node)
                elif self._match_text_seq("WITHIN"):
                    self._parse_budget(node)
                else:
                    self._refuse_rest()
            return node

        def _parse_columns(self, target: str) -> tuple[tuple[str, int], ...]:
            """The column names after the target, each with its position."""
            columns: list[tuple[str, int]] = []
            while self._match(TokenType.COMMA):
                name = self._curr
                if name and is_name(name):
                    self._advance()
                    columns.append((name.text.lower(), name.start))
                    if self._ends_column():
                        continue
                self.raise_error(
                    f"Expected names of columns after SELECT {target}, as in SELECT {target}, band WHERE"
                    f" ...; for anything else write SELECT ... FROM (SELECT {target}, band WHERE ...)",
                    self._curr or self._prev,
                )
            return tuple(columns)

        def _ends_column(self) -> bool:
            """Whether the current token may follow the name of a column."""
            if not self._curr or self._curr.token_type in (TokenType.COMMA, *AFTER_TARGET):
                return True
            return self._curr.text.upper() in ("WITH", "WITHIN")

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
                self.raise_error("There are two WITH clauses; an answer can promise only one accuracy")
            node.meta["contract"] = (kind, at_least, start)

        def _parse_budget(self, node: exp.Expr) -> None:
            """WITHIN 10 SECONDS; the word WITHIN has been read already."""
            amount = self._number()
            unit = self._curr.text.upper() if self._curr else ""
            if not amount or amount == math.inf or unit not in _UNIT_SECONDS:
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
                self.raise_error(f"{self._prev.text!r} is not a number", self._prev)
                return None

        def _parse_tail(self, node: exp.Expr) -> None:
            """One of ORDER BY, LIMIT, OFFSET: sqlglot checks it; only its text is kept."""
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
            """Raise an error about what may not follow a shorthand."""
            if self._curr.text.upper() in ("FOLLOWED", "NOT FOLLOWED"):
                self.raise_error(f"Expected BY after {self._curr.text.upper()}")
            if self._curr.text.upper() == "AFTER":
                self.raise_error("There is no AFTER: for a AFTER b write b BEFORE a, or b FOLLOWED BY a")
            self.raise_error(
                "Expected AND, OR, ORDER BY, LIMIT, OFFSET, WITH, WITHIN or the end, found"
                f" {self._curr.text!r}; for anything else write SELECT ... FROM (SELECT frames WHERE ...)"
            )

        def _parse_equality(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """A predicate with its position, and the operators that join it to others."""
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
                        f"A chain ends with {node.meta['kind']}; to continue it, put it in brackets:"
                        f" (a {node.meta['kind']} b) {kind} c"
                    )
                right.meta["span"] = (end, self._prev.end + 1)
                sequence = Sequenced(this=node, expression=right, within=self._parse_within())
                sequence.meta.update(kind=kind, at=operator.start, span=(first.start, self._prev.end + 1))
                node = sequence

        def _match_sequence(self) -> str | None:
            """Step over the operator between moments that stands here; None if there is none."""
            for negation in ("", "NOT "):
                if self._match_text_seq(f"{negation}FOLLOWED", "BY"):
                    return f"{negation}FOLLOWED BY"
                for word in _BETWEEN_MOMENTS[1:]:
                    if self._match_text_seq(f"{negation}{word}"):
                        return f"{negation}{word}"
            return None

        def _parse_within(self) -> exp.Expr | None:
            """WITHIN INTERVAL 30 SECONDS: the interval with its position, or None."""
            if not self._match_text_seq("WITHIN"):
                return None
            first = self._curr
            interval = self._parse_interval()
            if interval is None:
                self.raise_error(
                    "Expected INTERVAL after WITHIN, as in WITHIN INTERVAL 30 SECONDS between the two; for an"
                    " answer within 30 seconds use brackets: (a FOLLOWED BY b) WITHIN 30 SECONDS"
                )
            interval.meta["span"] = (first.start, self._prev.end + 1)
            return interval


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


def texts_in(sql: str) -> list[str]:
    """The quoted texts of a statement, in order; raises as `tokenize` does."""
    return [token.text for token in tokenize(sql) if token.token_type == TokenType.STRING]


QUOTE_TWICE = "a single quote inside a text is written twice, 'it''s'"


def single_quotes(word: str) -> str:
    """The advice for a word where a text is meant."""
    text = quote_text(word)
    return f"Put text in single quotes, {text}; a bare word, or one in double quotes, is a column"


_WORD = re.compile(r"\w+(?:[-./]+\w+)*")
_CURLY = ("‘’", "„“", "“”", "«»")
"""Typographic quotes that word processors use instead of straight ones."""
_COMPARED = re.compile(r"(=|<>|\bI?LIKE)\s*$", re.IGNORECASE)


def meant_text(sql: str, position: int | None, name: str, compared: bool = False) -> str:
    """A hint if an unknown name is compared with something: a text may have been meant. '' otherwise.

    Args:
        position: of the name in `sql`.
        name: as SQL reads it; gate/blue-van.mp4 without quotes is gate divided by blue minus van.mp4.
        compared: whether the name is known to be compared with a text.
    """
    at = 0 if position is None else position
    found = next((word for word in _WORD.finditer(sql) if word.start() <= at < word.end()), None)
    if not compared and not _COMPARED.search(sql[: found.start() if found else at]):
        return ""
    word = found.group() if found else ""
    curly = next(
        (f"; {pair[0]} and {pair[1]} are not single quotes" for pair in _CURLY if set(sql) & set(pair)), ""
    )
    return f". {single_quotes(word if set(word) & set('-./') else name.strip(''.join(_CURLY)))}{curly}"


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


def parse_shorthand(tokens: list[Token], extension: Extension, sql: str) -> exp.Expr:
    """The shorthand as a tree.

    Raises:
        QueryError: it cannot be parsed; with the position and what was expected.
    """
    piece = _joined_negations(tokens[extension.first : extension.last])
    try:
        parsed = Panorama().parser().parse_into(Shorthand, piece, sql)
    except ParseError as exc:
        raise query_error(exc, tokens, sql) from exc
    except RecursionError as exc:
        raise QueryError("the condition is nested too deeply", sql, extension.start) from exc
    except Exception as exc:  # parsers for a language of this size fail in ways that nobody can list
        raise QueryError(f"the condition cannot be read ({exc})", sql, extension.start) from exc
    if len(parsed) != 1 or not isinstance(parsed[0], Shorthand):
        raise QueryError("expected a condition", sql, extension.start)
    return parsed[0]


def _joined_negations(tokens: list[Token]) -> list[Token]:
    """Join NOT and an operator between moments into one token: sqlglot expects IN or LIKE after NOT."""
    joined: list[Token] = []
    for token in tokens:
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
    """sqlglot's error as a QueryError, pointing at the same token in the statement."""
    first = error.errors[-1] if error.errors else {}
    where = (first.get("line"), first.get("col"))
    position = next((token.start for token in tokens if (token.line, token.col) == where), None)
    message = str(first.get("description") or error).splitlines()[0]
    if message.startswith("Required keyword"):
        message = "Expected a value"
        at = next((i for i, token in enumerate(tokens) if token.start == position), 0)
        for number, sign in pairwise(tokens[max(at - 2, 0) : at + 1]):
            if sign.text == "%" and number.text.isdecimal():
                message += f" after %, which divides; {number.text} % is written {int(number.text) / 100:g}"
    if any(_glued(token, after) for token, after in pairwise(tokens)):
        message = f"{message}; {QUOTE_TWICE}"
    return QueryError(message[:1].lower() + message[1:], sql, position)


def _glued(token: Token, after: Token) -> bool:
    """Whether a word follows a text without a space, as if the quote in 'it's' had ended it."""
    word = after.text[:1].isalpha() and after.token_type != TokenType.STRING
    return token.token_type == TokenType.STRING and after.start == token.end + 1 and word
