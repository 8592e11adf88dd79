"""Tokens and the caller's values for ? and $name come in; positions, constants and their SQL go out."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import re
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import NoneType
from typing import Any

import numpy as np
from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError, UsageError
from panorama.lines import composed
from panorama.query.text.quoting import quote_number, quote_text
from panorama.values import is_pixels, told

Parameters = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Place:
    """A parameter in the text.

    Attributes:
        key: the index of its value, or its name.
        start, stop: its characters in the text, [start, stop).
        token: its index among the tokens.
        counts: whether it is a plain `?`, which is numbered after the parameters before it.
    """

    key: int | str
    start: int
    stop: int
    token: int
    counts: bool


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""A character of a str that UTF-8 has not, as in the name of a file that is not text."""

PICTURES_GO = "only similarity(?) and verify(?, ?) take a picture"


@dataclass(frozen=True, slots=True, eq=False)
class GivenPicture:
    """A picture passed in memory; equal only to itself.

    Attributes:
        given: an array, a tensor or a PIL picture, not checked yet.
    """

    given: Any

    def __repr__(self) -> str:
        return told(self.given)


def meant_picture(value: Any) -> Any:
    """The value of a parameter that means a picture; arrays are wrapped here, and checked when read."""
    return GivenPicture(value) if getattr(value, "ndim", 1) > 1 else value


LEAST, MOST = -(1 << 127), (1 << 128) - 1
"""The range of DuckDB's integers."""


def plain_parameters(parameters: Parameters) -> Parameters:
    """Parameters with values of numpy and data frames, Paths and enums made plain Python values.

    Raises:
        UsageError: a number or a time is out of range.
    """
    if isinstance(parameters, Mapping):
        plain: Parameters = {name: _taken(value) for name, value in parameters.items()}
    elif isinstance(parameters, (list, tuple)):
        plain = [_taken(value) for value in parameters]
    else:
        return parameters
    for key, value in _given(plain).items():
        _refuse_too_large(key, value)
    return plain


def _refuse_too_large(key: int | str, value: Any) -> None:
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_too_large(key, item)
    elif isinstance(value, int) and not LEAST <= value <= MOST:
        raise UsageError(  # it may have more digits than Python converts to text
            f"parameter {called(key)} is a whole number of {value.bit_length()} bits; DuckDB's range is"
            " -2^127 to 2^128 - 1; beyond that give a float, or float('inf') for no bound"
        )


def _taken(value: Any) -> Any:
    return GivenPicture(value) if is_pixels(value) and getattr(value, "ndim", 3) == 3 else _plain(value)


_PLAIN = frozenset({int, float, bool, NoneType})
_NUMBERS = (int, float, decimal.Decimal, NoneType)
_DAY = np.dtype("M8[D]")  # a day, and as a value of Python a date
_TEXT = ("str", "string")
"""The names of the types of text in pandas. What is missing from such a column is NaN there."""


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:  # of long lists, nearly all
        return value
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "mM":
        value = _plain_times(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, enum.Enum) and isinstance(value, (int, float, str)):
        return _plain(value.value)  # text of the member itself may be its name
    pandas = sys.modules.get("pandas")
    if value is not None and any(value is getattr(pandas, name, None) for name in ("NaT", "NA")):
        return None  # both are NULL to DuckDB
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _plain(value.item())
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value.tolist() if value.dtype.kind not in "OT" else _listed_plain(value)
    if isinstance(value, decimal.Decimal) and value.is_snan():
        return math.nan  # neither Python's own functions nor DuckDB take a signaling NaN
    if isinstance(value, (list, tuple, set, frozenset)):
        return _listed_plain(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    for name in ("to_list", "to_pylist"):  # columns of a data frame, arrays of Arrow
        if callable(give := getattr(value, name, None)):
            return _listed_plain(give(), text=str(getattr(value, "dtype", "")) in _TEXT)
    if isinstance(value, (str, PurePath)):
        return composed(str(value))
    return value


def _plain_times(times: np.generic | np.ndarray) -> Any:
    """Times of numpy in units that become times of Python; what Python's cannot hold is a UsageError."""
    if times.dtype != _DAY:
        # Python's times count microseconds. numpy turns finer times, and later years, into plain integers.
        times = times.astype(f"{times.dtype.kind}8[us]")
    if late := [item for item in np.atleast_1d(times).ravel() if isinstance(item.item(), int)]:
        raise UsageError(f"a parameter is {late[0]}, which Python's times cannot hold; give it as text")
    return times


def _listed_plain(values: Iterable[Any], text: bool = False) -> list[Any]:
    """The values of a list; NaN among anything but numbers is NULL, as data frames mean it.

    Args:
        text: whether the column is of text, also if it holds none.
    """
    plain = [_plain(item) for item in values]
    if any(map(_is_nan, plain)) and (text or not all(isinstance(item, _NUMBERS) for item in plain)):
        return [None if _is_nan(item) else item for item in plain]
    return plain


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def parameter_places(tokens: list[Token]) -> list[Place]:
    """Every parameter, in order; as in DuckDB, `?` gets the number after the highest one before it."""
    places: list[Place] = []
    highest = -1
    for i, token in enumerate(tokens):
        key: int | str
        counts = token.token_type == TokenType.PLACEHOLDER
        if counts:
            key = highest + 1
        elif token.token_type == TokenType.PARAMETER and token.text.startswith("$") and len(token.text) > 1:
            name = token.text[1:]
            key = _key(name)
        else:
            continue
        if isinstance(key, int):
            highest = max(highest, key)
        places.append(Place(key, token.start, token.end + 1, i, counts))
    return places


def remaining_parameters(
    left: list[Place], values: dict[int | str, Any], parameters: Parameters, sql: str
) -> Parameters:
    """The parameters to pass to DuckDB, for the places that remain after extensions took others.

    Args:
        left: the remaining places.
        values: of all places in the text.
        parameters: as the caller passed them.

    Raises:
        QueryError: a remaining `?` and a numbered parameter would now mean the same, but did not before.
        UsageError: one of them is a picture.
    """
    if parameters is None:
        return None
    _refuse_pictures({place.key: values[place.key] for place in left})
    if not isinstance(parameters, Mapping) and all(place.counts for place in left):
        return [values[place.key] for place in left]
    named: dict[str, Any] = {}
    meant: dict[str, int | str] = {}
    highest = -1
    for place in left:
        key = highest + 1 if place.counts else place.key
        if isinstance(key, int):
            highest = max(highest, key)
        name = str(key + 1) if isinstance(key, int) else key
        if meant.setdefault(name, place.key) != place.key:
            raise QueryError(
                "in a statement with a shorthand, write all parameters as ? or all with numbers",
                sql,
                place.start,
            )
        named[name] = values[place.key]
    return named


def parameter_values(places: list[Place], parameters: Parameters, sql: str) -> dict[int | str, Any]:
    """The value of every parameter in the text.

    Raises:
        UsageError: they are neither a list nor a dict, or the text does not use some of them.
        QueryError: a parameter in the text has no value.
    """
    given = _given(parameters)
    folded = {_folded(key): value for key, value in given.items()}
    for place in places:
        if _folded(place.key) not in folded:
            raise QueryError(
                f"parameter {called(place.key)} has no value; {len(given)} given", sql, place.start
            )
    _refuse_unused(places, given)
    return {place.key: folded[_folded(place.key)] for place in places}


def with_values(parameters: Parameters, changed: Mapping[int | str, Any]) -> Parameters:
    """The parameters with other values for some, by the keys of their places."""
    by_key = {_folded(key): value for key, value in changed.items()}
    given = {key: by_key.get(_folded(key), value) for key, value in _given(parameters).items()}
    if isinstance(parameters, Mapping):
        return dict(zip(parameters, given.values(), strict=True))
    return list(given.values())


def check_parameters(places: list[Place], parameters: Parameters) -> None:
    """Raise if parameters for DuckDB are invalid or unused; DuckDB itself reports missing values.

    Raises:
        UsageError: they are neither a list nor a dict, the text does not use some, or one is a picture.
    """
    given = _given(parameters)
    _refuse_unused(places, given)
    _refuse_pictures(given)


def _given(parameters: Parameters) -> dict[int | str, Any]:
    """The values by name, or by index from 0; a dict with number keys counts from 1."""
    if isinstance(parameters, Mapping):
        keys = [_key(str(name)) for name in parameters]
        once: dict[int | str, int | str] = {}
        for key in keys:
            if (folded := _folded(key)) in once:
                both = f"{called(once[folded])} and {called(key)}"
                why = (
                    "as the case of a name does not count"
                    if isinstance(key, str)
                    else "as text and as number"
                )
                raise UsageError(f"{both} are one parameter, {why}: give one")
            once[folded] = key
        return dict(zip(keys, parameters.values(), strict=True))
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, (Sequence, NoneType)):
        kind = type(parameters).__name__
        raise UsageError(
            f"parameters are a list or a tuple for ?, a dict for $name, got {kind} {parameters!r:.40}"
        )
    return dict(enumerate(parameters or ()))


def refuse_no_numbers(places: Sequence[Place], values: Mapping[int | str, Any], sql: str) -> None:
    """Raise if NaN is used in a shorthand: DuckDB sorts it above all numbers.

    Raises:
        QueryError: a parameter is NaN or a list with one; with the position.
    """
    for place in places:
        value = values[place.key]
        listed = isinstance(value, (list, tuple))
        verb = "holds" if listed else "is"
        for item in value if listed else [value]:
            if isinstance(item, (float, decimal.Decimal)) and math.isnan(item):
                raise QueryError(
                    f"parameter {called(place.key)} {verb} {item}, which nothing can be compared with; give"
                    " a number, or float('inf') for no bound",
                    sql,
                    place.start,
                )


def _refuse_pictures(given: Mapping[int | str, Any]) -> None:
    for key, value in given.items():
        if isinstance(value, GivenPicture):
            raise UsageError(f"parameter {called(key)} is {value!r}; {PICTURES_GO}")


def _refuse_unused(places: list[Place], given: dict[int | str, Any]) -> None:
    used = {_folded(place.key) for place in places}
    unused = [called(key) for key in given if _folded(key) not in used]
    if unused:
        known = ", ".join(dict.fromkeys(called(place.key) for place in places)) or "none"
        raise UsageError(f"the statement has no parameter {', '.join(unused)}; it has {known}")


def _key(name: str) -> int | str:
    """The key of a parameter's place: its index if the name is a number, else the name."""
    return int(name) - 1 if name.isascii() and name.isdigit() else name


def _folded(key: int | str) -> int | str:
    """A parameter as DuckDB knows it: it ignores the case of names."""
    return key.lower() if isinstance(key, str) else key


def called(key: int | str) -> str:
    """A parameter for people: `$name`, or its number from 1."""
    return f"${key}" if isinstance(key, str) else f"number {key + 1}"


def with_constants(
    tokens: list[Token],
    places: list[Place],
    values: dict[int | str, Any],
    others: TokenType = TokenType.STRING,
) -> list[Token]:
    """The tokens with every parameter replaced by its constant.

    Args:
        others: the kind of token for values that are not text, number or NULL.
    """
    changed = list(tokens)
    for place in places:
        value, old = values[place.key], tokens[place.token]
        changed[place.token] = Token(_kind(value, others), str(value), old.line, old.col, old.start, old.end)
    return changed


def spelled_out(tokens: list[Token], places: list[Place], values: dict[int | str, Any]) -> list[Token]:
    """As `with_constants`, but a list becomes its values in square brackets, as a user would type it."""
    changed = with_constants(tokens, places, values)
    for place in reversed(places):
        value = values[place.key]
        if isinstance(value, (list, tuple)):
            changed[place.token : place.token + 1] = _listed(value, tokens[place.token])
    return changed


MOST_NUMBERS = 1000
"""So many numbers of a list are spelled out. What is looked up by name is text, and each counts."""


def _listed(values: Sequence[Any], old: Token) -> list[Token]:
    typed = [(_kind(value, TokenType.STRING), value) for value in values]
    if len(typed) > MOST_NUMBERS:
        texts = [item for item in typed if item[0] == TokenType.STRING]
        typed = [*texts, *[item for item in typed if item[0] != TokenType.STRING][:MOST_NUMBERS]]
    once = dict.fromkeys((kind, str(value)) for kind, value in typed)
    made = [token for item in once for token in (item, (TokenType.COMMA, ","))]
    around = [(TokenType.L_BRACKET, "["), *made[:-1], (TokenType.R_BRACKET, "]")]
    return [Token(kind, text, old.line, old.col, old.start, old.end) for kind, text in around]


def _kind(value: Any, others: TokenType) -> TokenType:
    number = isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
    # Infinity is a number, as in `time < ?` without a bound; `literal` knows how SQL writes it.
    if number and not math.isnan(value):
        return TokenType.NUMBER
    if value is None:
        return TokenType.NULL
    return TokenType.STRING if isinstance(value, str) else others


def literal(value: Any, sql: str, position: int) -> str:
    """A Python value as SQL text.

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
        return f"({quote_number(value)})"
    if isinstance(value, str):
        if "\x00" in value:
            raise QueryError("a text parameter holds a NUL character", sql, position)
        if LONE_SURROGATE.search(value):
            raise QueryError("a text parameter holds a character that is not UTF-8 text", sql, position)
        return quote_text(value)
    if isinstance(value, decimal.Decimal):
        return f"({value:f})" if value.is_finite() else f"({quote_number(float(value))})"
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
    if isinstance(value, GivenPicture):
        raise QueryError(f"the parameter is {value!r}; {PICTURES_GO}", sql, position)
    raise QueryError(f"a parameter of type {type(value).__name__} cannot stand in a shorthand", sql, position)
