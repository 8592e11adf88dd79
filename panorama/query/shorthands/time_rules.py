"""Conditions on `time` come in; conditions on the instants or intervals of rows go out."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

from sqlglot import exp

from panorama.errors import QueryError
from panorama.query.shorthands.clock import (
    MIRRORED,
    SIGNS,
    ClockError,
    ClockTest,
    clock_test,
    is_time,
    names_clock,
    names_moment,
)
from panorama.query.shorthands.conditions import (
    And,
    Bounds,
    Condition,
    Leaf,
    Not,
    Or,
    Sequence,
    Times,
    names_entity,
    with_leaves,
)
from panorama.query.shorthands.plan import CLOCK_COLUMNS, OVERLAP_TARGETS, Query
from panorama.query.shorthands.shorthand import column_position, constant
from panorama.query.text.quoting import quote_number

_FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "<>", "<>": "="}
# For example: some t of [start_time, end_time) satisfies t < v.
_OVERLAPS = {
    "<": "start_time < {v}",
    "<=": "start_time <= {v}",
    ">": "end_time > {v}",
    ">=": "end_time > {v}",
    "=": "start_time <= {v} AND end_time > {v}",
    "<>": "NOT (start_time = {v} AND end_time = {v})",
}
_LATEST = sys.float_info.max


def find_clock(query: Query) -> Query:
    """Record the position of the first condition on the wall clock, which needs videos that have one."""
    found = [leaf.start for leaf in query.every_leaf() if _asks_clock(leaf) or leaf.columns & CLOCK_COLUMNS]
    return replace(query, clock_at=min(found)) if found else query


def _asks_clock(leaf: Leaf) -> bool:
    return "time" in leaf.columns and leaf.node is not None and names_clock(leaf.node)


def _clock_test(leaf: Leaf, query: Query) -> ClockTest:
    """The wall-clock test of a leaf that compares `time` with wall-clock text.

    Raises:
        QueryError: the comparison cannot be understood.
    """
    assert leaf.node is not None
    try:
        return clock_test(leaf.node, query.target in OVERLAP_TARGETS)
    except ClockError as exc:
        raise QueryError(str(exc), query.sql, leaf.start) from None


def check_moments(query: Query) -> Query:
    """Refuse to compare `time` with a computed date: it is unclear whether that means the whole day."""
    column, takes = "clock", "clock"
    if query.target in OVERLAP_TARGETS:
        column, takes = "start_clock", "start_clock and end_clock"
    for leaf in query.every_leaf():
        if "time" in leaf.columns and leaf.node is not None and names_moment(leaf.node):
            if _asks_clock(leaf):
                continue
            raise QueryError(
                "compare time only with numbers and wall-clock text; computed dates and times are for"
                f" {takes}: {column} >= today() - 7, {column} > now() - INTERVAL 1 DAY",
                query.sql,
                column_position(leaf, "time"),
            )
    return query


def split_negated(query: Query) -> Query:
    """Make `time NOT BETWEEN a AND b` a NOT of a condition, as if NOT stood before it."""
    if query.target not in OVERLAP_TARGETS or query.condition is None:
        return query

    def changed(leaf: Leaf) -> Condition:
        node = leaf.node.unnest() if leaf.node is not None else None
        if not isinstance(node, exp.Not) or not isinstance(node.this, exp.Between):
            return leaf
        if "time" not in leaf.columns or _asks_clock(leaf):
            return leaf  # `entity NOT BETWEEN` asks for another entity, as NOT IN does
        return Not(replace(leaf, text=f"NOT ({leaf.text})", node=node.this))

    return replace(query, condition=with_leaves(query.condition, changed))


def clock_rows(query: Query) -> Query:
    """For rows that are instants: compare wall-clock text with the row's own `clock`."""
    if query.target in OVERLAP_TARGETS or query.condition is None:
        return query

    def changed(leaf: Leaf) -> Leaf:
        if not _asks_clock(leaf):
            return leaf
        test = _clock_test(leaf, query)
        columns = (leaf.columns - {"time"}) | {"clock"}
        return Leaf(leaf.start, leaf.stop, test.row_sql(), columns, None, clock=test)

    return replace(query, condition=with_leaves(query.condition, changed))


def note_times(query: Query) -> Query:
    """Record in each condition on `time` the seconds at which it can hold; its text stays as typed."""
    if query.condition is None:
        return query

    def noted(leaf: Leaf) -> Leaf:
        asked = time_comparisons(leaf) if leaf.columns == {"time"} else None
        if asked is None:
            return leaf
        others = tuple(bounds for sign, value in asked for bounds in _seconds([(_FLIPPED[sign], value)]))
        return replace(leaf, times=_seconds(asked), other_times=others if len(others) == len(asked) else ())

    return replace(query, condition=with_leaves(query.condition, noted))


def _seconds(comparisons: list[tuple[str, float]]) -> Times:
    """The one interval that several comparisons leave together; () if that is any time."""
    bounds = Bounds()
    for sign, value in comparisons:
        low = value if sign in (">", ">=", "=") and value > -math.inf else None
        high = value if sign in ("<", "<=", "=") and value < math.inf else None
        bounds = bounds.within(Bounds(_finite(low), _finite(high)))
    return () if bounds == Bounds() else (bounds,)


def _finite(value: float | None) -> float | None:
    """A bound as a finite number, which SQL and matching can compute with."""
    return None if value is None else max(-_LATEST, min(value, _LATEST))


def overlap_times(query: Query) -> Query:
    """For rows that are intervals: make a condition on `time` test whether the interval overlaps."""
    if query.target not in OVERLAP_TARGETS or query.condition is None:
        return query
    return replace(query, condition=_overlap(query.condition, query, False))


def _overlap(condition: Condition, query: Query, negated: bool) -> Condition:
    """The condition with its times as tests of intervals.

    NOT of a time means the other times. NOT of an entity at a time means that it was not there then, and NOT
    of that, that it was: a time beside an entity keeps its meaning within any number of NOTs.

    Args:
        negated: whether a time means the other times.
    """
    if isinstance(condition, Leaf):
        return _overlap_leaf(condition, query, negated) if "time" in condition.columns else condition
    if isinstance(condition, Not):
        return Not(_overlap(condition.item, query, not negated))
    if isinstance(condition, Sequence):
        return replace(condition, sides=tuple(_overlap(side, query, False) for side in condition.sides))
    if isinstance(condition, Or):
        return Or(tuple(_overlap(item, query, negated) for item in condition.items))
    named = [names_entity(item) for item in condition.items]
    beside = [sum(named) > own for own in named]
    return And(
        tuple(
            _overlap(item, query, negated and not with_entity)
            for item, with_entity in zip(condition.items, beside, strict=True)
        )
    )


def _overlap_clock(leaf: Leaf, query: Query, negated: bool) -> Leaf:
    test = _clock_test(leaf, query)
    columns = (leaf.columns - {"time"}) | {"start_clock", "end_clock"}
    if negated:
        text = f"NOT ({test.opposite().overlap_sql('start_clock', 'end_clock')})"
        return Leaf(leaf.start, leaf.stop, text, columns, None)
    text = test.overlap_sql("start_clock", "end_clock")
    return Leaf(leaf.start, leaf.stop, text, columns, None, clock=test)


def _overlap_leaf(leaf: Leaf, query: Query, negated: bool) -> Leaf:
    if _asks_clock(leaf):
        return _overlap_clock(leaf, query, negated)
    comparisons = time_comparisons(leaf)
    if comparisons is None:
        raise QueryError(
            f"in SELECT {query.target}, compare time only with numbers: time BETWEEN 60 AND 90, time < 5; "
            "start_time, end_time, start_clock and end_clock (wall clock) take any condition",
            query.sql,
            column_position(leaf, "time"),
        )
    times = leaf.times
    if negated:
        flipped = [_OVERLAPS[_FLIPPED[sign]].format(v=quote_number(value)) for sign, value in comparisons]
        text = f"NOT ({' OR '.join(f'({part})' for part in flipped)})"
    elif any(bounds.empty for bounds in times):
        text, times = "FALSE", (Bounds(math.inf, -math.inf),)  # BETWEEN 3 AND 2 holds at no instant
    else:
        text = " AND ".join(
            f"({_OVERLAPS[sign].format(v=quote_number(value))})" for sign, value in comparisons
        )
    columns = (leaf.columns - {"time"}) | {"start_time", "end_time"}
    return Leaf(leaf.start, leaf.stop, text, columns, None, times=times, other_times=leaf.other_times)


def time_comparisons(leaf: Leaf) -> list[tuple[str, float]] | None:
    """The comparisons of `time` in a leaf, (operator, seconds), all of which hold; None for anything else."""
    node = leaf.node
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Between) and is_time(node.this):
        low, high = (_number(constant(node.args[side])) for side in ("low", "high"))
        return None if low is None or high is None else [(">=", low), ("<=", high)]
    sign = SIGNS.get(type(node)) if node is not None else None
    if node is None or sign is None:
        return None
    if is_time(node.this):
        value = _number(constant(node.expression))
    elif is_time(node.expression):
        value, sign = _number(constant(node.this)), MIRRORED[sign]
    else:
        return None
    return None if value is None else [(sign, value)]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
