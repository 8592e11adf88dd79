"""A condition tree over leaves comes in; alternatives go out, each with what must and must not be seen."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import TypeAlias, TypeVar

from sqlglot import exp

from panorama.errors import QueryError
from panorama.query.shorthands.conditions import (
    And,
    Condition,
    Leaf,
    Not,
    Or,
    Reach,
    Sequence,
    conjuncts,
    leaves,
    names_entity,
    times_of,
)
from panorama.query.shorthands.plan import (
    MATCH_COLUMNS,
    ROW_COLUMNS,
    SEEN_COLUMNS,
    VIDEO_COLUMNS,
    VIEW_COLUMNS,
    Branch,
    Pair,
    PlannedSequence,
    Query,
    Seen,
)
from panorama.query.shorthands.space import PLACE, pair_of

_Item = TypeVar("_Item", bound=Hashable)

MAX_BRANCHES = 64
"""No person writes conditions with more alternatives than this; each becomes a piece of SQL."""


@dataclass(frozen=True, slots=True)
class All:
    """All of the bound parts hold."""

    items: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one of the bound parts holds."""

    items: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Opposite:
    """The bound part does not hold."""

    item: Bound


@dataclass(frozen=True, slots=True)
class Rest:
    """A condition on the row that stands in NOT with an entity: alone it gives time, not moments."""

    leaf: Leaf


Bound: TypeAlias = Seen | Leaf | Rest | PlannedSequence | All | Any | Opposite
"""A condition whose predicates on score and box are bound to their entities."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The context of a part of a condition.

    Attributes:
        conditions: on the match or its box, to bind to the entities in the part.
        finals: on the merged moment, to bind likewise; used inside NOT, and for the view inside parentheses.
        required: whether the conditions must be used even if the part has no entity.
        negated: whether the part is inside NOT.
        accompanied: whether something else must be present at the same time.
    """

    conditions: tuple[Leaf, ...] = ()
    finals: tuple[Leaf, ...] = ()
    required: bool = True
    negated: bool = False
    accompanied: bool = False


_TEXT = r"'(?:[^']|'')*'"
_LISTED = re.compile(
    rf"\s*entity\s*(?:=\s*{_TEXT}|IN\s*\(\s*{_TEXT}(?:\s*,\s*{_TEXT})*\s*\))\s*", re.IGNORECASE
)


def _listed(condition: str) -> frozenset[str] | None:
    """The names in a plain condition `entity = ...` or `entity IN (...)`; None if only DuckDB can tell."""
    if not _LISTED.fullmatch(condition):
        return None
    return frozenset(text[1:-1].replace("''", "'") for text in re.findall(_TEXT, condition))


class Binder:
    """Binds predicates on score, band, track and box to the entities beside them in an AND.

    Attributes:
        vain: the conditions met so far on the name of an entity that no entity satisfies, in order.
    """

    def __init__(self, query: Query) -> None:
        self.vain: dict[Leaf, None] = {}
        self._query = query
        self._bound_alone = SEEN_COLUMNS[query.target] | MATCH_COLUMNS | {PLACE}

    def bind(self, condition: Condition, scope: Scope | None = None) -> Bound:
        """The condition with its predicates bound to entities."""
        scope = scope or Scope()
        if isinstance(condition, Sequence):
            return self._sequence(condition, scope)
        if not names_entity(condition):
            return self._plain(condition, scope)
        if isinstance(condition, Leaf):
            return self._entity(condition, scope)
        if isinstance(condition, And):
            return self._and(condition, scope)
        if isinstance(condition, Or):
            return _either([self.bind(item, scope) for item in condition.items])
        if isinstance(condition.item, Not):  # NOT (NOT ...) is what stands in it
            inside = self.bind(condition.item.item, Scope(negated=scope.negated))
        else:
            inside = Opposite(self.bind(condition.item, Scope(negated=True)))
        return All((inside, self._implied(scope))) if scope.conditions and scope.required else inside

    def _and(self, condition: And, scope: Scope) -> Bound:
        own: list[Leaf] = []
        rows: list[Leaf] = []
        loose: list[Condition] = []
        others: list[Condition] = []
        for item in condition.items:
            if names_entity(item):
                others.append(item)
                continue
            # Parentheses around an AND with an entity are a scope of their own; without an entity they mean
            # nothing.
            for part in conjuncts(self._opened(item)):
                if self._holds_alone(part):
                    loose.append(part)
                    continue
                leaf = self._joined(part)
                (own if self._asks_for_a_track(leaf) else rows).append(leaf)
        self._check_brackets(others)
        finals = tuple(leaf for leaf in rows if self._is_of_the_moment(leaf, scope))
        positive = [part for part in others if not isinstance(part, Not)]
        if positive or own or scope.conditions:  # a track is present, whichever alternative holds
            own += [leaf for leaf in map(self._joined, loose) if self._asks_for_a_track(leaf)]
            loose = []
        direct = any(not isinstance(part, Or) for part in positive)
        inner = Scope(
            (*scope.conditions, *own),
            (*scope.finals, *finals),
            required=not direct,
            negated=scope.negated,
            accompanied=scope.accompanied or len(others) > 1,
        )
        parts = [self._of_row(leaf, scope) for leaf in rows if leaf not in finals or not positive]
        parts += [self.bind(part, Scope(negated=scope.negated)) for part in loose]
        parts += [self.bind(part, inner) for part in positive]
        parts += [self.bind(part, Scope(negated=scope.negated)) for part in others if isinstance(part, Not)]
        if not positive and inner.conditions and (own or scope.required):
            parts.append(self._implied(inner))
        return All(tuple(parts))

    def _is_of_the_moment(self, leaf: Leaf, scope: Scope) -> bool:
        """Whether a condition on the row concerns the moments beside it, not the resulting row.

        In parentheses with an entity, and beside other parts, it concerns the view of that entity.
        """
        if self._query.target != "moments" or (leaf.columns <= VIDEO_COLUMNS and not leaf.by_chance):
            return False
        of_view = leaf.columns <= VIEW_COLUMNS | VIDEO_COLUMNS
        return scope.negated or (scope.accompanied and of_view)

    def _plain(self, condition: Condition, scope: Scope) -> Bound:
        """Bind a part without an entity: to the row, or to a track that it implies."""
        condition = self._opened(condition)
        if isinstance(condition, And):
            return self._and(condition, scope)
        if isinstance(condition, Or) and self._holds_alone(condition):
            # Alternatives that need no track also hold without one.
            return _either([self.bind(item, scope) for item in condition.items])
        leaf = self._joined(condition)
        if self._asks_for_a_track(leaf):
            return self._implied(replace(scope, conditions=(*scope.conditions, leaf)))
        if scope.conditions and scope.required:
            return All((leaf, self._implied(scope)))
        return self._of_row(leaf, scope)

    def _of_row(self, leaf: Leaf, scope: Scope) -> Bound:
        """A condition on the row; of moments, what is left of it by a NOT with an entity is time."""
        return Rest(leaf) if scope.negated and self._query.target == "moments" else leaf

    def _implied(self, scope: Scope) -> Seen:
        """What a predicate on a score (some entity) or on a box (some track) requires by itself."""
        scored = any(leaf.columns & MATCH_COLUMNS for leaf in scope.conditions)
        if scored or self._query.target == "moments":
            return Seen("known", self._query.entities, scope.conditions, scope.finals)
        return Seen("any", (), scope.conditions, scope.finals)

    def _entity(self, leaf: Leaf, scope: Scope) -> Seen:
        if (names := pair_of(leaf)) is not None:
            pair = Pair(*names, leaf.text)
            return Seen("known", tuple(sorted(set(names))), scope.conditions, scope.finals, pair)
        if leaf.columns != {"entity"} or leaf.reach > Reach.LIBRARY:
            conditions = (*scope.conditions, leaf)
            return Seen("known", self._query.entities, conditions, scope.finals)
        node = leaf.node
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Seen("unknown", (), scope.conditions, scope.finals)
        listed = _listed(leaf.text)
        if listed is None:
            found = self._query.names_where(leaf.text)
        else:
            found = tuple(name for name in self._query.entities if name in listed)
        if not found:
            self.vain[leaf] = None
        return Seen("known", found, scope.conditions, scope.finals)

    def _sequence(self, sequence: Sequence, scope: Scope) -> PlannedSequence:
        sides = tuple(self._side(side, sequence, scope) for side in sequence.sides)
        return PlannedSequence(sequence.kinds, sides, sequence.within_seconds, scope.finals)

    def _side(self, side: Condition, sequence: Sequence, scope: Scope) -> tuple[Branch, ...]:
        """One side of FOLLOWED BY and the like: any condition that has moments."""
        branches = spread(self.bind(side, Scope(scope.conditions)), self._query)
        if not all(branch.looks_for_something for branch in branches):
            raise QueryError(
                f"each side of {' and '.join(sequence.kinds)} must be a condition on an entity, in brackets "
                "with what belongs to it: (entity = 'X' AND score >= 0.8)",
                self._query.sql,
                sequence.start,
            )
        return branches

    def _check_brackets(self, others: list[Condition]) -> None:
        """Refuse entity = 'X' AND inside('gate') FOLLOWED BY ..., which does not mean what it seems to."""
        for item in others:
            if isinstance(item, Sequence) and len(others) > 1 and not all(map(names_entity, item.sides)):
                kind = item.kinds[0]
                raise QueryError(
                    f"{kind} binds tighter than AND: put brackets around what belongs together, as in "
                    f"(entity = 'X' AND inside('gate')) {kind} entity = 'Y'",
                    self._query.sql,
                    item.start,
                )

    def _asks_for_a_track(self, leaf: Leaf) -> bool:
        """Whether a leaf can be evaluated only with a track."""
        if leaf.columns & self._bound_alone:
            self._check_mixture(leaf)
        return self._names_a_track(leaf)

    def _names_a_track(self, leaf: Leaf) -> bool:
        if leaf.columns & self._bound_alone:
            return True
        return "similarity" in leaf.calls and self._query.target in ("frames", "moments")

    def _opened(self, condition: Condition) -> Condition:
        """Push NOT down to the leaves if some of them need a track and others do not."""
        if {self._names_a_track(leaf) for leaf in leaves(condition)} != {True, False}:
            return condition
        return _pushed(condition, False)

    def _holds_alone(self, condition: Condition) -> bool:
        """Whether a part with both kinds of leaves can hold without a track."""
        mixed = len({self._names_a_track(leaf) for leaf in leaves(condition)}) == 2
        return mixed and not self._needs_a_track(condition)

    def _needs_a_track(self, condition: Condition) -> bool:
        if isinstance(condition, And):
            return any(map(self._needs_a_track, condition.items))
        if isinstance(condition, Or):
            return all(map(self._needs_a_track, condition.items))
        return any(map(self._names_a_track, leaves(condition)))

    def _check_mixture(self, leaf: Leaf) -> None:
        """Refuse mixtures: a moment's score is decided before tracks are merged, its times and box after."""
        mixed = leaf.columns & (ROW_COLUMNS["moments"] - {"track_id"})
        if self._query.target == "moments" and mixed:
            names = ", ".join(sorted(mixed))
            raise QueryError(
                f"in SELECT moments, put score, band and places in separate conditions, not with {names}",
                self._query.sql,
                leaf.start,
            )

    def _joined(self, condition: Condition) -> Leaf:
        """Join a part without entities into one leaf."""
        if isinstance(condition, Leaf):
            return condition
        found = list(leaves(condition))
        columns = frozenset(name for leaf in found for name in leaf.columns)
        calls = frozenset(name for leaf in found for name in leaf.calls)
        times, others = times_of(condition), times_of(condition, opposite=True)
        text, reach = as_text(condition), max(leaf.reach for leaf in found)
        place = found[0].start, found[-1].stop
        return Leaf(*place, text, columns, None, calls, None, times, others, reach=reach)


def _either(items: list[Bound]) -> Bound:
    """At least one of the parts; neighbours that look for entities in the same way are merged."""
    kept: list[Bound] = []
    for item in items:
        last = kept[-1] if kept else None
        if isinstance(item, Seen) and isinstance(last, Seen) and item.source == last.source == "known":
            names = tuple(sorted({*last.names, *item.names}))
            if replace(last, names=names) == replace(item, names=names):
                kept[-1] = replace(last, names=names)
                continue
        kept.append(item)
    return kept[0] if len(kept) == 1 else Any(tuple(kept))


def as_text(condition: Condition) -> str:
    """A condition without entities, as SQL."""
    if isinstance(condition, Leaf):
        return condition.text
    if isinstance(condition, Not):
        return f"NOT ({as_text(condition.item)})"
    if isinstance(condition, Sequence):
        raise ValueError("a sequence has no text of its own")
    word = " AND " if isinstance(condition, And) else " OR "
    return word.join(f"({as_text(item)})" for item in condition.items)


def negated(leaf: Leaf) -> Leaf:
    """The opposite of a leaf; NULL stays NULL, as in SQL."""
    text = f"NOT ({leaf.text})"
    times, others = leaf.other_times, leaf.times
    place = leaf.start, leaf.stop
    return Leaf(*place, text, leaf.columns, None, leaf.calls, None, times, others, reach=leaf.reach)


def _pushed(condition: Condition, opposite: bool) -> Condition:
    """A condition without entities whose NOTs stand before leaves only, by De Morgan's laws."""
    if isinstance(condition, Leaf):
        return negated(condition) if opposite else condition
    if isinstance(condition, Not):
        return _pushed(condition.item, not opposite)
    if isinstance(condition, Sequence):
        raise ValueError("a sequence names entities")
    items = tuple(_pushed(item, opposite) for item in condition.items)
    return And(items) if isinstance(condition, And) != opposite else Or(items)


def spread(bound: Bound, query: Query) -> tuple[Branch, ...]:
    """The alternatives of a bound condition, with NOT pushed down to the parts.

    Raises:
        QueryError: there are more than MAX_BRANCHES.
    """
    branches = _spread(bound, False, query)
    return tuple(dict.fromkeys(branches))


def _spread(bound: Bound, opposite: bool, query: Query) -> list[Branch]:
    if isinstance(bound, Seen):
        return [Branch(unseen=(bound,))] if opposite else [Branch(seen=(bound,))]
    if isinstance(bound, Leaf):
        return [Branch(where=(negated(bound) if opposite else bound,))]
    if isinstance(bound, Rest):
        return [Branch(where=(negated(bound.leaf) if opposite else bound.leaf,), rest=True)]
    if isinstance(bound, PlannedSequence):
        return [Branch(unsequenced=(bound,)) if opposite else Branch(sequences=(bound,))]
    if isinstance(bound, Opposite):
        return _spread(bound.item, not opposite, query)
    parts = [_spread(item, opposite, query) for item in bound.items]
    if isinstance(bound, All) == opposite:
        return _checked([branch for part in parts for branch in part], query)
    product = [Branch()]
    for part in _joined(parts):
        product = _checked([_all_of((left, right)) for left in product for right in part], query)
    return product


def _joined(parts: list[list[Branch]]) -> Iterator[list[Branch]]:
    """The parts of an AND, neighbours without alternatives as one: to take in each alone is quadratic."""
    for alone, run in groupby(parts, lambda part: len(part) == 1):
        if alone:
            yield [_all_of([branch for (branch,) in run])]
        else:
            yield from run


def _all_of(branches: Collection[Branch]) -> Branch:
    return Branch(
        _each_once(branch.seen for branch in branches),
        _each_once(branch.unseen for branch in branches),
        _each_once(branch.where for branch in branches),
        _each_once(branch.sequences for branch in branches),
        _each_once(branch.unsequenced for branch in branches),
        any(branch.rest for branch in branches),
    )


def _each_once(groups: Iterable[tuple[_Item, ...]]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _checked(branches: list[Branch], query: Query) -> list[Branch]:
    if len(branches) > MAX_BRANCHES:
        raise QueryError(
            f"the condition has more than {MAX_BRANCHES} alternatives; split it with UNION",
            query.sql,
            query.start,
        )
    return branches
