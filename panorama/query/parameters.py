"""Values for ? and $name: tokens and what a caller gave enter; places, constants and their SQL leave."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.relations import quote_text

Parameters = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Place:
    """A parameter in the text: its key is the index of its value, or its name."""

    key: int | str
    start: int
    stop: int
    token: int


def parameter_places(tokens: list[Token]) -> list[Place]:
    """Every parameter, in order."""
    places: list[Place] = []
    asked = 0
    for i, token in enumerate(tokens):
        key: int | str
        if token.token_type == TokenType.PLACEHOLDER:
            key = asked
            asked += 1
        elif token.token_type == TokenType.PARAMETER and token.text.startswith("$") and len(token.text) > 1:
            name = token.text[1:]
            key = int(name) - 1 if name.isdigit() else name
        else:
            continue
        places.append(Place(key, token.start, token.end + 1, i))
    return places


def parameter_values(places: list[Place], parameters: Parameters, sql: str) -> dict[int | str, Any]:
    """The value of every parameter in the text.

    Raises:
        QueryError: one has none.
    """
    if isinstance(parameters, (str, bytes)):
        raise QueryError("parameters are a list, a tuple or a dict")
    given: dict[int | str, Any] = {}
    if isinstance(parameters, Mapping):
        given = {str(key): value for key, value in parameters.items()}
    elif parameters is not None:
        given = dict(enumerate(parameters))
    for place in places:
        if place.key not in given:
            name = f"${place.key}" if isinstance(place.key, str) else f"number {place.key + 1}"
            raise QueryError(f"parameter {name} has no value; {len(given)} given", sql, place.start)
    return given


def with_constants(
    tokens: list[Token],
    places: list[Place],
    values: dict[int | str, Any],
    others: TokenType = TokenType.STRING,
) -> list[Token]:
    """The tokens with every parameter as the constant it stands for.

    Args:
        others: the kind of token for values that are neither text nor a number nor NULL.
    """
    changed = list(tokens)
    for place in places:
        value, old = values[place.key], tokens[place.token]
        changed[place.token] = Token(_kind(value, others), str(value), old.line, old.col, old.start, old.end)
    return changed


def _kind(value: Any, others: TokenType) -> TokenType:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return TokenType.NUMBER
    if value is None:
        return TokenType.NULL
    return TokenType.STRING if isinstance(value, str) else others


def literal(value: Any, sql: str, position: int) -> str:
    """A Python value as SQL writes it.

    Raises:
        QueryError: SQL has no constant for it.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"({value})"
    if isinstance(value, float):
        return f"({value!r})" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, str):
        if "\x00" in value:
            raise QueryError("a text parameter holds a NUL character", sql, position)
        return quote_text(value)
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return f"({value:f})"
    kinds = {
        datetime.datetime: "TIMESTAMP",
        datetime.date: "DATE",
        datetime.time: "TIME",
        uuid.UUID: "UUID",
    }
    for kind, name in kinds.items():
        if isinstance(value, kind):
            name = "TIMESTAMPTZ" if getattr(value, "tzinfo", None) and name == "TIMESTAMP" else name
            return f"CAST({quote_text(str(value))} AS {name})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item, sql, position) for item in value)}]"
    raise QueryError(f"a parameter of type {type(value).__name__} cannot stand in a shorthand", sql, position)
