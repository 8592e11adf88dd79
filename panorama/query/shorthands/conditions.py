"""The values of a condition: trees of AND, OR, NOT over leaves that keep their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from sqlglot import exp

from panorama.query.shorthands.clock import ClockTest

SequenceKind = Literal[
    "FOLLOWED BY", "BEFORE", "DURING", "OVERLAPS",
    "NOT FOLLOWED BY", "NOT BEFORE", "NOT DURING", "NOT OVERLAPS",
]  # fmt: skip

MAX_TIMES = 64
"""More alternatives of time than this count as any time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds that every answer lies in; None is open. Only ever used to leave out work."""

    low: float | None = None
    high: float | None = None

    @property
    def empty(self) -> bool:
        """Whether no instant lies in it."""
        return self.low is not None and self.high is not None and self.low > self.high

    def within(self, other: Bounds) -> Bounds:
        """What both leave."""
        lows = [value for value in (self.low, other.low) if value is not None]
        highs = [value for value in (self.high, other.high) if value is not None]
        return Bounds(max(lows, default=None), min(highs, default=None))


ANY_TIME = Bounds()

Times: TypeAlias = tuple[Bounds, ...]
"""Alternatives, one of which a row lies in or overlaps; none where it may be at any time."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One predicate, whose text goes to DuckDB as typed; two are equal wherever they stand.

    Attributes:
        start, stop: its place in the statement, in characters.
        text: what DuckDB gets for it.
        columns: the columns of the shorthand that it names, lower case.
        node: as parsed, None for text made by a rule.
        calls: functions that it calls, lower case.
        clock: what it asks of the wall clock, None where that is nothing, or nothing that a rule understands.
        times: when it holds; none where it asks for no seconds.
        other_times: when its opposite holds.
        told: what people read for it, '' for its text.
    """

    start: int = field(compare=False)
    stop: int = field(compare=False)
    text: str
    columns: frozenset[str]
    node: exp.Expr | None = field(default=None, compare=False, repr=False)
    calls: frozenset[str] = frozenset()
    clock: ClockTest | None = None
    times: Times = field(default=(), compare=False)
    other_times: Times = field(default=(), compare=False)
    told: str = field(default="", compare=False)

    @property
    def may_select(self) -> bool:
        """Whether it may hold a SELECT of its own, which may read more than the row that it is asked of."""
        return "select" in self.text.lower()


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Its opposite."""

    item: Condition


@dataclass(frozen=True, slots=True)
class Sequence:
    """Conditions on moments and how the intervals of each must lie to those of the next.

    Attributes:
        kinds: the operators between the sides, one fewer than these; only the last may begin with NOT.
        within_seconds: the longest gap at each operator, None for any.
        start: place of the first operator in the statement.
    """

    kinds: tuple[SequenceKind, ...]
    sides: tuple[Condition, ...]
    within_seconds: tuple[float | None, ...]
    start: int


Condition: TypeAlias = Leaf | And | Or | Not | Sequence
"""What WHERE says."""


def leaves(condition: Condition) -> Iterator[Leaf]:
    """All leaves, in the order written."""
    if isinstance(condition, Leaf):
        yield condition
    elif isinstance(condition, Not):
        yield from leaves(condition.item)
    elif isinstance(condition, Sequence):
        for side in condition.sides:
            yield from leaves(side)
    else:
        for item in condition.items:
            yield from leaves(item)


def times_of(condition: Condition, opposite: bool = False) -> Times:
    """When a condition, or its opposite, can hold."""
    if isinstance(condition, Leaf):
        return condition.other_times if opposite else condition.times
    if isinstance(condition, Not):
        return times_of(condition.item, not opposite)
    if isinstance(condition, Sequence):
        return ()
    parts = [times_of(item, opposite) for item in condition.items]
    if isinstance(condition, Or) != opposite:
        return any_of(parts)
    both: Times = ()
    for part in filter(None, parts):
        both = tuple(dict.fromkeys(a.within(b) for a in both for b in part)) if both else part
        if len(both) > MAX_TIMES:
            return ()
    return both


def any_of(parts: Iterable[Times]) -> Times:
    """When one of several conditions can hold."""
    found = list(parts)
    return tuple(dict.fromkeys(bounds for part in found for bounds in part)) if all(found) else ()


def with_leaves(condition: Condition, changed: Callable[[Leaf], Condition]) -> Condition:
    """The condition with every leaf changed."""
    if isinstance(condition, Leaf):
        return changed(condition)
    if isinstance(condition, Not):
        return Not(with_leaves(condition.item, changed))
    if isinstance(condition, Sequence):
        return replace(condition, sides=tuple(with_leaves(side, changed) for side in condition.sides))
    return type(condition)(tuple(with_leaves(item, changed) for item in condition.items))


def conjuncts(condition: Condition | None) -> tuple[Condition, ...]:
    """The parts that must all hold, nested ANDs opened."""
    if condition is None:
        return ()
    if isinstance(condition, And):
        return tuple(part for item in condition.items for part in conjuncts(item))
    return (condition,)
