"""Tokens of a statement in DuckDB's SQL with Panorama's extensions come in; trees of shorthands go out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.text.extensions import AFTER_TARGET, TAIL, Extension, is_name
from panorama.query.text.meant_texts import QUOTE_TWICE

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
        # would be "a,". So only $$ is known here; `tokens.tokenize` adds the tags that a statement has.
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
