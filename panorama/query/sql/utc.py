"""A statement and its parameters come in; what is beside columns in UTC goes out in UTC too, or an error.

These columns are TIMESTAMPs without a zone. Beside an instant that has one, such as now() or an aware
datetime, DuckDB reads them in the zone of this computer: the answer would be off by its offset from UTC.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from panorama.errors import PanoramaError, QueryError
from panorama.query.sql.plain_tree import read_statement
from panorama.query.text.dialect import parse_shorthand
from panorama.query.text.extensions import find_extensions
from panorama.query.text.parameters import (
    Parameters,
    called,
    parameter_places,
    parameter_values,
    with_constants,
    with_values,
)

UTC_COLUMNS = frozenset(("start_utc", "end_utc", "indexed_at"))

_UTC, _ZONED = "utc", "zoned"
"""What an expression is: an instant in UTC without a zone, or one that has a zone."""

_IN_UTC = frozenset(("utc", "etc/utc", "gmt", "etc/gmt", "z", "zulu"))
_NOW = frozenset(("now", "get_current_timestamp", "transaction_timestamp", "make_timestamptz"))
_ALIKE = frozenset(("date_sub", "datesub", "date_diff", "datediff", "age", "list_contains", "list_has"))
"""Functions whose arguments DuckDB brings to one type, as far as sqlglot has no class for them."""

_SAY_ZONE = _NOW | {"current_timestamp", "to_timestamp", "timestamptz", "timezone", "zone"}
"""Words without one of which no instant has a zone, unless it is a parameter."""

_PAIRS = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Sub, exp.Nullif, exp.DateDiff, exp.ArrayContains),
)
_SAME = (
    *(exp.Paren, exp.Alias, exp.Any, exp.Window, exp.Filter, exp.Distinct, exp.TimestampTrunc, exp.Max),
    *(exp.Min, exp.AnyValue, exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.Lag, exp.Lead),
    *(exp.ArgMax, exp.ArgMin),
)
"""An expression that is what its first part is."""

_PLACE = "\x00"
"""Begins the text that stands for an aware parameter while the statement is parsed; no statement holds it."""


def in_utc(sql: str, tokens: list[Token], parameters: Parameters) -> Parameters:
    """The parameters, with aware datetimes beside columns in UTC as naive ones in UTC.

    Args:
        tokens: of the statement.
        parameters: as `plain_parameters` gives them.

    Raises:
        QueryError: another instant with a zone is beside such a column; with the position.
    """
    words = {token.text.lower() for token in tokens if token.token_type != TokenType.STRING}
    if not words & UTC_COLUMNS:
        return parameters
    places = parameter_places(tokens)
    try:
        values = parameter_values(places, parameters, sql)
    except PanoramaError:
        return parameters  # reported where the statement is rewritten, or by DuckDB
    aware = [place for place in places if _is_aware(values[place.key])]
    if not aware and not words & _SAY_ZONE:
        return parameters
    marked = with_constants(tokens, places, values, TokenType.PLACEHOLDER)
    for place in aware:
        old = tokens[place.token]
        text = f"{_PLACE}{place.token}"
        marked[place.token] = Token(TokenType.STRING, text, old.line, old.col, old.start, old.end)
    beside: set[str] = set()
    tested: set[str] = set()
    for tree in _trees(sql, marked):
        beside |= _beside(tree, sql)
        tested |= _tested(tree)
    changed: dict[int | str, Any] = {}
    for place in aware:
        if f"{_PLACE}{place.token}" in beside:
            changed[place.key] = _naive(values[place.key])
    for place in aware:
        if place.key in changed and f"{_PLACE}{place.token}" not in beside | tested:
            raise QueryError(
                f"parameter {called(place.key)} is compared with a column in UTC, and used elsewhere too:"
                " give it as two parameters",
                sql,
                place.start,
            )
    return with_values(parameters, changed) if changed else parameters


def _tested(tree: exp.Expr) -> set[str]:
    """The texts of parameters of which it is only asked whether they are NULL, as of a filter left open."""
    found: set[str] = set()
    for test in tree.find_all(exp.Is):
        asked = test.this
        while isinstance(asked, (exp.Paren, exp.Cast)):
            asked = asked.this
        if isinstance(asked, exp.Literal):
            found.add(asked.name)
    return found


def _is_aware(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_aware, value))
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _naive(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_naive(item) for item in value]
    return value.astimezone(datetime.UTC).replace(tzinfo=None) if _is_aware(value) else value


def _trees(sql: str, tokens: list[Token]) -> list[exp.Expr]:
    """The statement as a tree, or its shorthands if only these can be parsed."""
    statement = read_statement(sql, tokens)
    if statement is not None:
        return [statement.tree]
    found = []
    for extension in find_extensions(tokens):
        if extension.kind == "shorthand":
            try:
                found.append(parse_shorthand(tokens, extension, sql))
            except QueryError:
                continue  # reported where it is rewritten
    return found


def _beside(tree: exp.Expr, sql: str) -> set[str]:
    """The texts of the aware parameters beside columns in UTC; QueryError for other instants with a zone."""
    kinds = _settled(tree)
    found: set[str] = set()
    for node in tree.walk():
        if isinstance(node, exp.Cast) and _casts_to(node, "TIMESTAMPTZ") and kinds.get(id(node.this)) == _UTC:
            column = _shown(node.this)
            raise QueryError(
                f"{column} is in UTC, and a cast would read it in the zone of this computer: write"
                f" {_in_brackets(node.this)} AT TIME ZONE 'UTC'",
                sql,
                _start(node),
            )
        parts = _parts(node)
        utc = next((part for part in parts if kinds.get(id(part)) == _UTC), None)
        if utc is None:
            continue
        for part in parts:
            if kinds.get(id(part)) == _ZONED:
                found |= _parameters_of(part, utc, kinds, sql)
    return found


def _parameters_of(part: exp.Expr, utc: exp.Expr, kinds: Mapping[int, str], sql: str) -> set[str]:
    """The aware parameters that give an instant its zone; QueryError if something else does."""
    while isinstance(part, (exp.Paren, exp.Cast, exp.TimestampTrunc)) and kinds.get(id(part.this)) == _ZONED:
        part = part.this
    leaves = [node for node in part.walk() if kinds.get(id(node)) == _ZONED and _is_source(node)]
    if leaves and all(isinstance(leaf, exp.Literal) for leaf in leaves):
        return {leaf.name for leaf in leaves}
    told = _shown(part)
    raise QueryError(
        f"{_shown(utc)} is in UTC without a zone, and {told} has one, so DuckDB would read the column in the"
        f" zone of this computer: write {_in_brackets(part)} AT TIME ZONE 'UTC'",
        sql,
        _start(utc),
    )


def _is_source(node: exp.Expr) -> bool:
    """Whether a node has a zone by itself, not from its parts."""
    return isinstance(node, (exp.Literal, exp.Column, exp.Cast, exp.AtTimeZone)) or not _inner(node)


def _settled(tree: exp.Expr) -> dict[int, str]:
    """What the nodes of a tree are, by id(), with names that the statement itself gives to instants."""
    aliases = list(tree.find_all(exp.Alias))
    renamed = {column.name.lower() for alias in tree.find_all(exp.TableAlias) for column in alias.columns}
    nodes = list(tree.walk())[::-1]  # the parts of a node come before it: trees may be too deep to recurse
    names = dict.fromkeys(UTC_COLUMNS - renamed, _UTC)
    kinds: dict[int, str] = {}
    for _ in range(4):  # a name of a name of a name
        kinds = {}
        for node in nodes:
            if kind := _kind(node, kinds, names):
                kinds[id(node)] = kind
        given: dict[str, set[str | None]] = {name: {_UTC} for name in UTC_COLUMNS}
        for alias in aliases:
            given.setdefault(alias.alias.lower(), set()).add(kinds.get(id(alias)))
        for name in renamed:  # what it names is not followed
            given.setdefault(name, set()).add(None)
        settled = {name: kind for name, (kind, *more) in given.items() if kind is not None and not more}
        if settled == names:
            break
        names = settled
    return kinds


def _kind(node: exp.Expr, kinds: Mapping[int, str], names: Mapping[str, str]) -> str | None:
    """What a node is, given what its parts are; None for anything but an instant."""
    if isinstance(node, exp.Column):
        return names.get(node.name.lower())
    if isinstance(node, exp.Literal):
        return _ZONED if node.is_string and node.name.startswith(_PLACE) else None
    if isinstance(node, (exp.CurrentTimestamp, exp.UnixToTime)) or _called(node) in _NOW:
        return _ZONED
    if isinstance(node, exp.Cast):
        return _ZONED if _casts_to(node, "TIMESTAMPTZ") else _kept(node, kinds)
    if isinstance(node, exp.AtTimeZone) or _called(node) == "timezone":
        zone, moved = _moved(node)
        before = kinds.get(id(moved))
        if before == _ZONED:
            return _UTC if zone.lower() in _IN_UTC else None
        return _ZONED if before == _UTC else None
    inner = [kinds.get(id(part)) for part in _inner(node)]
    if isinstance(node, exp.Sub) and None not in inner:
        return None  # the time between two instants
    return next((kind for kind in inner if kind), None)


def _kept(cast: exp.Expr, kinds: Mapping[int, str]) -> str | None:
    """What a cast to something other than TIMESTAMPTZ is: a TIMESTAMP is still that of a clock elsewhere."""
    naive = any(_casts_to(cast, name) for name in ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"))
    return kinds.get(id(cast.this)) if naive else None


def _inner(node: exp.Expr) -> list[exp.Expr]:
    """The parts that make a node an instant."""
    if isinstance(node, _SAME):
        return [node.this]
    if isinstance(node, exp.Subquery):
        shown = node.this.expressions if isinstance(node.this, exp.Select) else []
        return list(shown) if len(shown) == 1 else []
    if isinstance(node, exp.DateBin):
        return [node.expression]
    if isinstance(node, (exp.Add, exp.Sub)):
        return [node.this, node.expression]
    mixed = (exp.Coalesce, exp.Greatest, exp.Least, exp.Case, exp.If, exp.Array, exp.Nullif)
    return _parts(node) if isinstance(node, mixed) else []


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that DuckDB brings to one type."""
    found: list[Any] = []
    if isinstance(node, _PAIRS):
        found = [node.this, node.expression]
    elif isinstance(node, exp.Between):
        found = [node.this, node.args.get("low"), node.args.get("high")]
    elif isinstance(node, exp.In):
        found = [node.this, *node.expressions, node.args.get("query"), node.args.get("field")]
    elif isinstance(node, exp.Case):
        found = [*(branch.args.get("true") for branch in node.args["ifs"]), node.args.get("default")]
    elif isinstance(node, exp.If):
        found = [node.args.get("true"), node.args.get("false")]
    elif isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)):
        found = [node.this, *node.expressions]
    elif isinstance(node, exp.Array) or _called(node) in _ALIKE:
        found = node.expressions
    return [part for part in found if isinstance(part, exp.Expr)]


def _called(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _moved(node: exp.Expr) -> tuple[str, exp.Expr | None]:
    """The zone of AT TIME ZONE or of timezone(...), and what is moved there."""
    if isinstance(node, exp.AtTimeZone):
        zone, moved = node.args["zone"], node.this
    else:
        zone, moved = [*node.expressions, None, None][:2]
    return (zone.name if isinstance(zone, exp.Literal) else ""), moved


def _casts_to(cast: exp.Expr, name: str) -> bool:
    kind = cast.args["to"]
    return isinstance(kind, exp.DataType) and getattr(kind.this, "value", "") == name


def _shown(node: exp.Expr) -> str:
    text = node.sql("duckdb", normalize_functions=False)
    return "a parameter" if _PLACE in text else f"{text:.80}"


def _in_brackets(node: exp.Expr) -> str:
    text = _shown(node)
    return f"({text})" if isinstance(node, exp.Binary) else text


def _start(node: exp.Expr) -> int | None:
    """The first position that the parser has kept for a node."""
    places = [name.meta["start"] for name in node.find_all(exp.Identifier) if "start" in name.meta]
    return min(places) if places else None
