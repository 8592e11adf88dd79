"""Parts of a parsed condition come in; a tree of AND, OR and NOT goes out, over leaves with their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal, TypeAlias

from sqlglot import exp

from panorama.query.shorthands.clock import ClockTest

SequenceKind = Literal[
    "FOLLOWED BY", "BEFORE", "DURING", "OVERLAPS",
    "NOT FOLLOWED BY", "NOT BEFORE", "NOT DURING", "NOT OVERLAPS",
]  # fmt: skip

MAX_TIMES = 64
"""With more alternative times than this, a condition counts as possible at any time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds between which every answer lies; None for an open end. Used only to save work."""

    low: float | None = None
    high: float | None = None

    @property
    def empty(self) -> bool:
        """Whether no instant lies between them."""
        return self.low is not None and self.high is not None and self.low > self.high

    def within(self, other: Bounds) -> Bounds:
        """The intersection of both."""
        lows = [value for value in (self.low, other.low) if value is not None]
        highs = [value for value in (self.high, other.high) if value is not None]
        return Bounds(max(lows, default=None), min(highs, default=None))


ANY_TIME = Bounds()

Times: TypeAlias = tuple[Bounds, ...]
"""Alternatives; a row lies in one of them or overlaps it. () if it may be at any time."""


class Reach(IntEnum):
    """How far a condition looks beyond the row that it is checked on, which tells where it may be asked."""

    ROW = 0
    """Not at all: it has no SELECT of its own."""
    LIBRARY = 1
    """Only at what is stored, so it may be asked at any time."""
    MATCHES = 2
    """Also at what is handed over for this statement, so it may be asked by itself once that is done."""
    STATEMENT = 3
    """Also at CTEs, or at what is not certain: elsewhere, its names may mean something else or nothing."""
    CHANCE = 4
    """At what each asking makes anew, such as random(): it is asked once of each row, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One predicate, whose text goes to DuckDB as typed. Leaves compare equal regardless of their position.

    Attributes:
        start, stop: its characters in the statement, [start, stop).
        text: the SQL for DuckDB.
        columns: the columns of the shorthand that it names, in lower case.
        node: the parsed predicate; None for text made by a rule.
        calls: functions that it calls, in lower case.
        clock: its wall-clock test; None if it has none, or none that a rule understands.
        times: when it can hold; () for any time.
        other_times: when its opposite can hold; () for any time.
        told: text for users instead of `text`; '' for none.
        reach: how far it looks beyond the row.
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
    reach: Reach = Reach.ROW

    @property
    def may_select(self) -> bool:
        """Whether it may contain a SELECT of its own, or chance: more than the row it is checked on."""
        return self.reach > Reach.ROW

    @property
    def by_chance(self) -> bool:
        """Whether it may say something else each time that it is asked."""
        return self.reach is Reach.CHANCE

    @property
    def asked_apart(self) -> bool:
        """Whether a statement of its own gives the same answer, once all that it reads is handed over."""
        return self.reach < Reach.STATEMENT


@dataclass(frozen=True, slots=True)
class And:
    """All of the items hold."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of the items holds."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The item does not hold."""

    item: Condition


@dataclass(frozen=True, slots=True)
class Sequence:
    """Conditions on moments, and how the intervals of each side must lie relative to those of the next.

    Attributes:
        kinds: the operators between the sides, one fewer than sides; only the last may begin with NOT.
        within_seconds: the longest gap at each operator; None for any.
        start: position of the first operator in the statement.
    """

    kinds: tuple[SequenceKind, ...]
    sides: tuple[Condition, ...]
    within_seconds: tuple[float | None, ...]
    start: int


Condition: TypeAlias = Leaf | And | Or | Not | Sequence
"""A parsed WHERE."""


def leaves(condition: Condition) -> Iterator[Leaf]:
    """All leaves, in the order of the text."""
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


def names_entity(condition: Condition) -> bool:
    """Whether a condition asks for an entity, as a sequence always does."""
    if isinstance(condition, Sequence):
        return True
    if isinstance(condition, Leaf):
        return "entity" in condition.columns
    if isinstance(condition, Not):
        return names_entity(condition.item)
    return any(names_entity(item) for item in condition.items)


def times_of(condition: Condition, opposite: bool = False) -> Times:
    """When a condition, or its opposite, can hold; () for any time."""
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
    """When at least one of several conditions can hold; () for any time."""
    found = list(parts)
    return tuple(dict.fromkeys(bounds for part in found for bounds in part)) if all(found) else ()


def hull(times: Times) -> Bounds:
    """The shortest bounds that contain all alternatives."""
    lows = [bounds.low for bounds in times if bounds.low is not None]
    highs = [bounds.high for bounds in times if bounds.high is not None]
    low = min(lows) if lows and len(lows) == len(times) else None
    return Bounds(low, max(highs) if highs and len(highs) == len(times) else None)


def with_leaves(condition: Condition, changed: Callable[[Leaf], Condition]) -> Condition:
    """The condition with `changed` applied to every leaf."""
    if isinstance(condition, Leaf):
        return changed(condition)
    if isinstance(condition, Not):
        return Not(with_leaves(condition.item, changed))
    if isinstance(condition, Sequence):
        return replace(condition, sides=tuple(with_leaves(side, changed) for side in condition.sides))
    return type(condition)(tuple(with_leaves(item, changed) for item in condition.items))


def conjuncts(condition: Condition | None) -> tuple[Condition, ...]:
    """The parts that must all hold, with nested ANDs flattened."""
    if condition is None:
        return ()
    if isinstance(condition, And):
        return tuple(part for item in condition.items for part in conjuncts(item))
    return (condition,)
