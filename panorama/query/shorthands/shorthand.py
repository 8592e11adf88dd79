"""The sqlglot tree of one shorthand comes in; a Query with its condition as typed goes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from panorama.errors import QueryError
from panorama.query.shorthands.conditions import And, Condition, Leaf, Not, Or, Reach, Sequence
from panorama.query.shorthands.nested import Named, Nested, has_own_name, is_inside, nested
from panorama.query.shorthands.plan import Query, Target
from panorama.query.shorthands.space import columns_read
from panorama.query.shorthands.terms import Contract
from panorama.query.text.chance import depends_on_chance
from panorama.query.text.dialect import Sequenced
from panorama.query.text.extensions import Extension
from panorama.query.text.meant_texts import meant_text

UNIT_SECONDS = {
    "": 1.0,
    "MILLISECOND": 0.001,
    "SECOND": 1.0,
    "SEC": 1.0,
    "MINUTE": 60.0,
    "MIN": 60.0,
    "HOUR": 3600.0,
    "DAY": 86400.0,
    "WEEK": 604800.0,
}
"""The units of an interval without their plural; sqlglot spells out ms, s, m, h and d. None: seconds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the reader of a shorthand needs to know about the statement around it.

    Attributes:
        sql: the statement as typed.
        render: returns the text of [start, stop) for DuckDB, with inner extensions rewritten and parameters
            filled in.
        entities: all names in the album.
        names_where: see `Query`.
        target: of the shorthand.
        named: returns the CTEs of the statement; it is asked only if a condition has a SELECT inside.
    """

    sql: str
    render: Callable[[int, int], str]
    entities: tuple[str, ...]
    names_where: Callable[[str], tuple[str, ...]]
    target: Target
    named: Callable[[], Named]


def read_shorthand(node: exp.Expr, extension: Extension, reading: Reading) -> Query:
    """The Query of a parsed shorthand, without a number of its own.

    Raises:
        QueryError: a part of the condition cannot be used here.
    """
    where = node.args.get("where")
    clauses = {
        name: reading.render(*node.meta[name]) if name in node.meta else None
        for name in ("ORDER_BY", "LIMIT", "OFFSET")
    }
    typed = {name: reading.sql[slice(*node.meta[name])] for name in clauses if name in node.meta}
    begins = {name: node.meta[name][0] + len(text) - len(text.lstrip()) for name, text in typed.items()}
    return Query(
        target=reading.target,
        number=0,
        sql=reading.sql,
        start=extension.start,
        columns=node.meta["columns"],
        condition=_condition(where, reading) if where is not None else None,
        order=clauses["ORDER_BY"],
        limit=clauses["LIMIT"],
        offset=clauses["OFFSET"],
        clause_at=tuple((clauses[name] or "", start) for name, start in begins.items()),
        alone=extension.alone,
        grouped=extension.grouped,
        entities=reading.entities,
        names_where=reading.names_where,
        contract=Contract(*node.meta["contract"]) if "contract" in node.meta else None,
        budget_seconds=node.meta.get("budget"),
    )


def _condition(node: exp.Expr, reading: Reading) -> Condition:
    """The condition tree; everything except AND, OR, NOT, sequences and parentheses becomes a leaf."""
    if isinstance(node, exp.Paren):
        inner = node.this
        # Parentheses around a condition do not change it; around a value they belong to a leaf.
        if isinstance(inner, (exp.And, exp.Or, exp.Not, exp.Paren, Sequenced)) or "span" in inner.meta:
            return _condition(inner, reading)
    if isinstance(node, exp.And):
        return And(tuple(_condition(part, reading) for part in _operands(node, exp.And)))
    if isinstance(node, exp.Or):
        return Or(tuple(_condition(part, reading) for part in _operands(node, exp.Or)))
    # `entity NOT IN (...)` is parsed as NOT too, but its operand was not parsed as a separate condition.
    if isinstance(node, exp.Not) and "span" in node.this.meta:
        return Not(_condition(node.this, reading))
    if isinstance(node, Sequenced):
        return _sequence(node, reading)
    return _leaf(node, reading)


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain a AND b AND c, from left to right, without recursion."""
    parts: list[exp.Expr] = []
    while isinstance(node, kind):
        parts.append(node.expression)
        node = node.this
    parts.append(node)
    return parts[::-1]


def _sequence(node: exp.Expr, reading: Reading) -> Sequence:
    """A chain a FOLLOWED BY b FOLLOWED BY c; a chain in parentheses is one side."""
    links: list[exp.Expr] = [node]
    while isinstance(links[0].this, Sequenced):
        links.insert(0, links[0].this)
    withins = [link.args.get("within") for link in links]
    return Sequence(
        kinds=tuple(link.meta["kind"] for link in links),
        sides=tuple(_condition(s, reading) for s in (links[0].this, *(link.expression for link in links))),
        within_seconds=tuple(_seconds(within, reading) if within else None for within in withins),
        start=links[0].meta["at"],
    )


def _seconds(interval: exp.Expr, reading: Reading) -> float:
    """Length of INTERVAL 30 SECONDS or INTERVAL '30 seconds', in seconds; without a unit as in DuckDB."""
    amount = interval.this
    unit = interval.args.get("unit")
    name = unit.name.upper().rstrip("S") if unit is not None else ""
    value = constant(amount) if amount is not None else None
    start = interval.meta["span"][0]
    try:
        number = math.nan if value is None else float(value)
    except ValueError:
        raise QueryError(
            "an interval is a number and a unit: INTERVAL 30 SECONDS", reading.sql, start
        ) from None
    if name not in UNIT_SECONDS:
        units = "SECONDS, MINUTES, HOURS or DAYS"
        raise QueryError(f"an interval here is in {units}, got {name}", reading.sql, start)
    if not 0 <= number < float("inf"):
        raise QueryError(f"an interval here is finite and not negative, got {number:g}", reading.sql, start)
    return number * UNIT_SECONDS[name]


def _leaf(node: exp.Expr, reading: Reading) -> Leaf:
    if "span" not in node.meta:
        raise QueryError("this part of the condition cannot be read; put it in brackets", reading.sql, None)
    start, stop = node.meta["span"]
    columns: set[str] = set()
    parts = list(node.find_all(exp.Column, exp.Anonymous, exp.Query))  # at once: lists may be long
    for column in parts:
        if not isinstance(column, exp.Column) or is_inside(column, node) or has_own_name(column, node):
            continue
        if column.table:
            where = column.meta.get("start", column.this.meta.get("start", start))
            raise QueryError(
                f"write columns of the shorthand without a table: {column.name}, not"
                f" {column.table}.{column.name}"
                f"{meant_text(reading.sql, where, column.name)}",
                reading.sql,
                where,
            )
        columns.add(column.name.lower())
    calls = frozenset(
        part.name.lower() for part in parts if isinstance(part, exp.Anonymous) and not is_inside(part, node)
    )
    selected = Nested(reach=Reach.MATCHES if "similarity" in calls else Reach.ROW)
    if any(isinstance(part, exp.Query) for part in parts):
        selected = nested(node, reading.target, reading.named())
    read = frozenset(columns) | columns_read(calls) | selected.columns
    reach = Reach.CHANCE if depends_on_chance(node) else selected.reach
    return Leaf(start, stop, reading.render(start, stop), read, node, calls, reach=reach)


def column_position(leaf: Leaf, name: str) -> int:
    """The position at which a leaf names a column; the leaf's own position if it is unknown."""
    if leaf.node is not None:
        for column in leaf.node.find_all(exp.Column):
            if column.name.lower() == name:
                position = column.this.meta.get("start", column.meta.get("start"))
                if isinstance(position, int):
                    return position
    return leaf.start


def constant(node: exp.Expr) -> str | int | float | None:
    """The text or number in a constant node; None if the node is anything else."""
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Neg):
        value = constant(node.this)
        return -value if isinstance(value, (int, float)) else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    try:
        number = float(node.this)
    except ValueError:
        return None
    return int(node.this) if node.this.isdigit() else number
