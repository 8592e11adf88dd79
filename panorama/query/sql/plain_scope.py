"""A call of similarity in plain SQL comes in; the tracks that it may be needed for go out.

Conditions in WHERE on one relation, alone or through equal videos or tracks of another, are checked before
anything is compared. Only rows that can be in no answer are excluded this way. Everything uncertain is left
to DuckDB, which checks all conditions again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from panorama.query.handed.relations import MATCHED_COLUMNS
from panorama.query.shorthands.shorthand import constant
from panorama.query.sql.plain_tree import (
    Source,
    Statement,
    conditions_of,
    owners,
    sources_of,
)
from panorama.query.text.quoting import quote_name

_KEYS = frozenset(("video", "track_id", "crop_id", "segment"))
_TRACKED = frozenset(("video", "track_id"))
_SAFE = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Placeholder, exp.Paren, exp.Tuple),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is, exp.Not, exp.And),
    *(exp.Or, exp.Like, exp.ILike, exp.RegexpLike, exp.StartsWith, exp.Neg, exp.Add, exp.Sub, exp.Mul),
    *(exp.Div, exp.IntDiv, exp.Mod, exp.Abs, exp.Lower, exp.Upper, exp.Coalesce, exp.Greatest, exp.Least),
    *(exp.Cast, exp.TryCast, exp.DataType, exp.Interval, exp.Var, exp.Dayname, exp.Extract, exp.Hour),
)
"""Nodes that an early condition may consist of: their value does not depend on when they are evaluated."""

Render = Callable[[int, int], str]
"""Returns the text of [start, stop) of the statement for DuckDB."""


@dataclass(frozen=True, slots=True)
class Need:
    """What one call of similarity needs.

    Attributes:
        videos: a FROM item over `videos` with the condition that videos must meet to matter; None for all.
        tracks: SQL of the track_ids that can matter; None if all tracks of these videos can.
        told: the conditions that were pushed down, as typed.
        least: rows with a lower similarity are in no answer; None for no bound.
        first: number of best tracks that are enough; None for all.
    """

    videos: str | None = None
    tracks: str | None = None
    told: tuple[str, ...] = ()
    least: float | None = None
    first: int | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """A condition that can safely be checked early.

    Attributes:
        typed, text: as typed, and for DuckDB.
        of: the sources it concerns: one, or several that share its columns.
        columns: the columns it reads.
    """

    typed: str
    text: str
    of: tuple[Source, ...]
    columns: frozenset[str]


class Select:
    """One SELECT of plain SQL, with what its conditions exclude early.

    Args:
        node: the SELECT.
        statement: that contains it.
        sql: text of the statement.
        render: see Render.
    """

    def __init__(self, node: exp.Expr, statement: Statement, sql: str, render: Render) -> None:
        self._node = node
        self._sql = sql
        self._sources = sources_of(node, statement)
        self._parts = [] if self._sources is None else list(self._safe_parts(render))

    @property
    def is_known(self) -> bool:
        """Whether the columns of all visible sources are known."""
        return self._sources is not None and all(s.columns is not None for s in self._visible)

    @property
    def is_outermost(self) -> bool:
        """Whether no other SELECT, whose columns it could read, is around it."""
        return self._node.find_ancestor(exp.Select) is None

    def is_one(self, column: str) -> bool:
        """Whether all sources with a column share it."""
        return bool(owners(column, "", self._visible))

    def called(self, table: str) -> Source | None:
        """The source with a name; None if it is not exactly one."""
        found = [source for source in self._visible if source.name == table.lower()]
        return found[0] if len(found) == 1 else None

    def having(self, column: str) -> list[Source]:
        """The sources that have a column."""
        return [source for source in self._visible if column in (source.columns or ())]

    def meant(self, column: str) -> Source | None:
        """The source that an unqualified column means; the first if several share it, None if uncertain."""
        found = owners(column, "", self._visible)
        return next((source for source in found if source.filtered and source.relation), None)

    @property
    def _visible(self) -> list[Source]:
        """The sources whose columns can be named outside their own ON."""
        hidden = ("SEMI", "ANTI")
        return [s for s in self._sources or () if s.join is None or s.join.args.get("kind") not in hidden]

    def need(self, source: Source, same: Callable[[exp.Expr], bool]) -> Need:
        """What a call needs that computes the similarity of the rows of a source.

        Args:
            same: whether a node is a call with the same arguments.
        """
        if source.relation is None or not source.filtered or "track_id" not in (source.columns or ()):
            return Need()
        found, of_videos = self._reduced(source), self._reduced(source, only=frozenset(("video",)))
        told = tuple(dict.fromkeys(part.typed for part in found))
        videos = _over("videos", source, of_videos) if of_videos else None
        tracks = None
        # `moments` and `sightings` have only matched tracks; the best tracks of a video may be others.
        if source.relation in MATCHED_COLUMNS or any(part.columns != {"video"} for part in found):
            tracks = f"SELECT track_id FROM {_over(source.relation, source, found)}"
        return Need(videos, tracks, told, self._least(same), self._first(source, same))

    def videos(self, source: Source) -> Need:
        """The videos whose rows of a source are needed."""
        found = self._reduced(source, only=frozenset(("video",))) if source.filtered else []
        told = tuple(dict.fromkeys(part.typed for part in found))
        return Need(_over("videos", source, found), told=told) if found else Need()

    def _safe_parts(self, render: Render) -> Iterator[_Part]:
        for node in conditions_of(self._node):
            span = node.meta.get("span")
            if span is None:
                continue
            read = list(_reads(node))
            if not read or any(one is None for one in read):
                continue
            pairs = [one for one in read if one is not None]
            candidates = [owners(column, table, self._visible) for column, table in pairs]
            of = [
                source
                for source in self._visible
                if source.filtered and all(source in some for some in candidates)
            ]
            if of:
                columns = frozenset(column for column, _ in pairs)
                yield _Part(self._sql[slice(*span)].strip(), render(*span), tuple(of), columns)

    def _reduced(
        self, source: Source, visited: frozenset[str] = frozenset(), only: frozenset[str] | None = None
    ) -> list[_Part]:
        """Conditions on a source: its own, and those of other sources in which its rows need a counterpart.

        Args:
            visited: names of sources that have been looked at.
            only: the columns that the conditions may name; None for any.
        """
        visited |= {source.name}
        found = [p for p in self._parts if source in p.of and (only is None or p.columns <= only)]
        for other, keys in self._neighbours(source):
            if other.name in visited or other.relation in (None, "moments"):
                continue
            keys = [key for key in keys if only is None or key[0] in only]
            if not keys:
                continue
            below = [part for part in self._reduced(other, visited) if part not in found]
            if below:
                mine, theirs = (_row(names) for names in zip(*keys, strict=True))
                text = f"{mine} IN (SELECT {theirs} FROM {_over(other.relation, other, below)})"
                typed = " and ".join(dict.fromkeys(part.typed for part in below))
                found.append(_Part(typed, text, (source,), frozenset(mine for mine, _ in keys)))
        return found

    def _neighbours(self, source: Source) -> Iterator[tuple[Source, list[tuple[str, str]]]]:
        """Other sources joined to a source by equal key columns, each with the pairs of these columns."""
        for other in self._sources or ():
            if other is source or not other.filtered:
                continue
            keys = [
                (name, name)
                for name in sorted(_KEYS)
                if name in (source.columns or ()) and name in (other.columns or ())
                and (other.shares(name) or source.shares(name))
                and {source, other} <= set(owners(name, "", self._visible))
            ]  # fmt: skip
            for node in conditions_of(self._node):
                if isinstance(node, exp.EQ) and (pair := _equal(node, source, other, self._visible)):
                    keys.append(pair)
            if keys:
                yield other, list(dict.fromkeys(keys))

    def _least(self, same: Callable[[exp.Expr], bool]) -> float | None:
        """The number s in a condition similarity(...) > s or >= s, on either side; None if there is none."""
        for node in conditions_of(self._node):
            sides = None
            if isinstance(node, (exp.GT, exp.GTE)):
                sides = node.this, node.expression
            elif isinstance(node, (exp.LT, exp.LTE)):
                sides = node.expression, node.this
            if sides is not None and (same(sides[0]) or self._names_call(sides[0], same, False)):
                value = constant(sides[1])
                if isinstance(value, (int, float)):
                    return float(value)
        return None

    def _first(self, source: Source, same: Callable[[exp.Expr], bool]) -> int | None:
        """Number of tracks that give the rows of ORDER BY similarity(...) DESC LIMIT n; None for all."""
        node = self._node
        order, limit = node.args.get("order"), node.args.get("limit")
        others = ("distinct", "group", "having", "qualify", "windows", "sample", "laterals")
        if order is None or limit is None or any(node.args.get(name) for name in others):
            return None
        if len(self._sources or ()) != 1 or any(node.find_all(exp.AggFunc, exp.Window, exp.Explode)):
            return None
        first = order.expressions[0]
        if not (
            isinstance(first, exp.Ordered) and first.args.get("desc") and not first.args.get("nulls_first")
        ):
            return None
        if not (same(first.this) or self._names_call(first.this, same)):
            return None
        offset = node.args.get("offset")
        counts = [constant(part.expression) for part in (limit, offset) if part is not None]
        if (
            not isinstance(limit, exp.Limit)
            or limit.args.get("limit_options")
            or not all(isinstance(n, int) and n >= 0 for n in counts)
        ):
            return None
        # All of WHERE must be checked early; for crops, it must concern only their tracks.
        asked = [n for n in conditions_of(node) if n is not None]
        mine = [part for part in self._parts if source in part.of]
        if len(mine) != len(asked) or (
            source.relation == "crops" and not all(part.columns <= _TRACKED for part in mine)
        ):
            return None
        return sum(int(n) for n in counts if n is not None)

    def _names_call(
        self, node: exp.Expr, same: Callable[[exp.Expr], bool], before_columns: bool = True
    ) -> bool:
        """Whether a node is the alias of a SELECT item which is the call.

        Args:
            before_columns: whether aliases take precedence over columns, as in ORDER BY; in WHERE it is the
                reverse.
        """
        if not isinstance(node, exp.Column) or node.table:
            return False
        if not before_columns and (not self.is_known or self.having(node.name.lower())):
            return False
        named = [item for item in self._node.expressions if item.alias_or_name.lower() == node.name.lower()]
        return len(named) == 1 and isinstance(named[0], exp.Alias) and same(named[0].this)


def _reads(node: exp.Expr) -> Iterator[tuple[str, str] | None]:
    """The columns that a condition reads, as (name, qualifier); None for what must not be evaluated early."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "inside":
        last = node.expressions[-1] if node.expressions else None
        table = last.name if isinstance(last, exp.Column) else ""
        yield from ((column, table) for column in ("video", "x1", "x2", "y1", "y2"))
        return
    if not isinstance(node, _SAFE):
        yield None
        return
    if isinstance(node, exp.Column):
        yield (node.name.lower(), node.table) if not node.args.get("db") else None
        return
    if isinstance(node, exp.In) and (
        node.args.get("query") or node.args.get("unnest") or node.args.get("field")
    ):
        yield None
        return
    for child in node.iter_expressions():
        yield from _reads(child)


def _equal(
    node: exp.Expr, source: Source, other: Source, sources: Sequence[Source]
) -> tuple[str, str] | None:
    """The key columns of two sources that an equality compares; None if it compares others."""
    sides = (node.this, node.expression)
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    names = [side.name.lower() for side in sides]
    means = [owners(side.name, side.table, list(sources)) for side in sides]
    if names[0] not in _KEYS or names[1] not in _KEYS:
        return None
    if means == [[source], [other]]:
        return names[0], names[1]
    return (names[1], names[0]) if means == [[other], [source]] else None


def _over(relation: str | None, source: Source, parts: Sequence[_Part]) -> str:
    """A FROM item: a relation with the alias of a source, and the conditions on its rows."""
    where = f" WHERE {' AND '.join(f'({part.text})' for part in parts)}" if parts else ""
    return f"{relation} AS {quote_name(source.node.alias_or_name)}{where}"


def _row(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if len(names) > 1 else names[0]
