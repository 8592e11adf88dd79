"""A call of a predicate of space comes in, with its arguments; SQL over boxes goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from sqlglot import exp

from panorama.commands import command
from panorama.errors import QueryError, unknown
from panorama.query.handed.relations import SCHEMA
from panorama.query.handed.shapes import steps
from panorama.query.shorthands.conditions import Leaf
from panorama.query.text.quoting import quote_name, quote_number, quote_text

PLACE = "a place"
"""Pseudo-column that a leaf with a predicate on a shape reads: the box of a track at a frame."""

_ANCHORS = {"foot": "{p}y2 - 0.5", "centre": "({p}y1 + {p}y2) / 2", "center": "({p}y1 + {p}y2) / 2"}
"""Names of the point of a box that counts -> its y; x is the middle. The foot is in the lowest pixel row."""
_WAYS = ("in", "out", "any")


@dataclass(frozen=True, slots=True)
class Predicate:
    """One predicate of space.

    Attributes:
        kind: 'shape' for a box and a named shape; 'step' for a box, the previous box and a named shape;
            'pair' for boxes a and b.
        usage: as error messages show it.
        sql: for a pair: the condition, with {0}, {1}, ... for the numbers after the names.
        numbers: how many numbers follow the names.
    """

    kind: Literal["shape", "step", "pair"]
    usage: str
    sql: str = ""
    numbers: int = 0


PREDICATES: dict[str, Predicate] = {
    "inside": Predicate("shape", "inside('zone'), inside('zone', 'centre')"),
    "crosses": Predicate("step", "crosses('line'), crosses('line', 'in'), crosses('line', 'out')"),
    "left_of": Predicate("pair", "left_of('A', 'B')", "a.x1 + a.x2 < b.x1 + b.x2"),
    "above": Predicate("pair", "above('A', 'B')", "a.y1 + a.y2 < b.y1 + b.y2"),
    "near": Predicate(
        "pair",
        "near('A', 'B', pixels)",
        "greatest(a.x1 - b.x2, b.x1 - a.x2, 0) ** 2 + greatest(a.y1 - b.y2, b.y1 - a.y2, 0) ** 2 <= {0} ** 2",
        numbers=1,
    ),
}
"""Every predicate of space by name; add one entry for a new predicate of boxes a and b."""


@dataclass(frozen=True, slots=True)
class Name:
    """An argument without quotes: the name of a relation."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A predicate of space in a statement.

    Attributes:
        name: of the predicate.
        arguments: constants and names of relations.
        target: of the shorthand whose condition contains the call; None in plain SQL.
        shapes: returns the named shapes of the library -> their kinds.
        sql, start: the statement and the position of the call in it, for errors.
        videos, tracks: in plain SQL, SQL of the names and ids of those that can matter; None for all.
    """

    name: str
    arguments: Sequence[Any]
    target: str | None
    shapes: Callable[[], Mapping[str, frozenset[str]]]
    sql: str
    start: int
    videos: str | None = None
    tracks: str | None = None

    def refuse(self, message: str) -> NoReturn:
        """Raise a QueryError at the position of the call."""
        raise QueryError(message, self.sql, self.start)

    def refuse_usage(self) -> NoReturn:
        """Raise a QueryError that shows the usage."""
        self.refuse(f"expected {PREDICATES[self.name].usage}")


def call_sql(call: Call) -> str:
    """The SQL that replaces a call.

    In a condition on frames, moments and crops it tests one box; on tracks, it holds if any box of the track
    passes.

    Raises:
        QueryError: the arguments do not fit the predicate, or name a shape that does not exist.
    """
    predicate = PREDICATES[call.name]
    if predicate.kind == "pair":
        return _pair(call, predicate)
    arguments = list(call.arguments)
    of = ""
    if arguments and isinstance(arguments[-1], Name):
        if call.target is not None:
            call.refuse_usage()
        of = f"{quote_name(arguments.pop().text)}."
    if not 1 <= len(arguments) <= 2 or not all(isinstance(value, str) for value in arguments):
        call.refuse_usage()
    shape, option = arguments[0], (arguments[1].lower() if len(arguments) == 2 else "")
    _check_shape(call, shape)
    if predicate.kind == "shape":
        if option and option not in _ANCHORS:
            call.refuse(f"inside tests a box's 'foot' or 'centre', got {option!r}")
        sql = f"{SCHEMA}.inside({quote_text(shape)}, {of}video, {_point(of, option or 'foot')})"
    else:
        sql = _crossing(call, shape, option or "any", of)
    return f"bool_or({sql})" if call.target == "tracks" else sql


def _point(prefix: str, anchor: str = "foot") -> str:
    """x and y of the point of a box that counts; the box's columns have the prefix."""
    return f"({prefix}x1 + {prefix}x2) / 2, {_ANCHORS[anchor].format(p=prefix)}"


def _crossing(call: Call, shape: str, way: str, of: str) -> str:
    if way not in _WAYS:
        call.refuse(f"a line is crossed 'in', 'out' or 'any' way, got {way!r}")
    if call.target == "crops":
        call.refuse("a crop does not move: use crosses with frames, moments or tracks")
    arguments = f"{quote_text(shape)}, {_WAYS.index(way)}, video, {_point('from_')}, {_point('')}"
    if call.target is not None:
        return f"{SCHEMA}.crosses({arguments})"
    key = f"({of}video, {of}track_id, {of}frame)"
    return (
        f"({key} IN (SELECT (video, track_id, frame) FROM ({steps(shape, call.videos, call.tracks)})"
        f" WHERE {SCHEMA}.crosses({arguments})))"
    )


def _pair(call: Call, predicate: Predicate) -> str:
    kind = Name if call.target is None else str
    numbers = call.arguments[2:]
    if len(call.arguments) != 2 + predicate.numbers or not all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in numbers
    ):
        call.refuse_usage()
    if not all(isinstance(value, kind) for value in call.arguments[:2]):
        if call.target is None:
            call.refuse(f"outside of the shorthand {call.name} compares two relations: {call.name}(a, b)")
        call.refuse_usage()
    if call.target == "crops":
        call.refuse(f"crops are not taken at the same time: use {call.name} with frames, moments or tracks")
    if wrong := [value for value in numbers if not value >= 0]:
        call.refuse(f"{call.name} takes a number of pixels, got {wrong[0]}, not 0 or more: {predicate.usage}")
    sql = predicate.sql.format(*(f"({quote_number(value)})" for value in numbers))
    if call.target is None:
        a, b = (f"{quote_name(name.text)}." for name in call.arguments[:2])
        sql = sql.replace("a.", "\0").replace("b.", b).replace("\0", a)
    return f"({sql})"


def _check_shape(call: Call, name: str) -> None:
    shapes = call.shapes()
    if name not in shapes:
        call.refuse(unknown("zone or line", name, sorted(shapes), command("zones")))
    if call.name == "inside" and shapes[name] == {"line"}:
        call.refuse(f"{name!r} is a line: use crosses with lines, and inside with zones")


def columns_read(calls: frozenset[str]) -> frozenset[str]:
    """What a leaf with these calls reads besides the columns that it names."""
    kinds = {PREDICATES[name].kind for name in calls & PREDICATES.keys()}
    return frozenset({"entity"} if "pair" in kinds else ()) | frozenset({PLACE} if kinds - {"pair"} else ())


def steps_in(leaves: Sequence[Leaf]) -> bool:
    """Whether any of the leaves tests a step of a track, from the previous box to this one."""
    return any(PREDICATES[name].kind == "step" for leaf in leaves for name in leaf.calls & PREDICATES.keys())


def pair_of(leaf: Leaf) -> tuple[str, str] | None:
    """The two entities that a leaf compares; None if it is not a predicate of a pair.

    The leaf must be the call alone: `near('A', 'B', 9) = true` is not one.
    """
    node = leaf.node
    if not _is_call(node, ("pair",)) or node is None or len(node.expressions) < 2:
        return None
    first, second = (part.this for part in node.expressions[:2])
    return str(first), str(second)


def shape_of(leaf: Leaf) -> str | None:
    """The shape that a track must touch to satisfy a leaf; None if there is none."""
    node = leaf.node
    if not _is_call(node, ("shape", "step")) or node is None or not node.expressions:
        return None
    return str(node.expressions[0].this)


def _is_call(node: exp.Expr | None, kinds: tuple[str, ...]) -> bool:
    if not isinstance(node, exp.Anonymous):
        return False
    predicate = PREDICATES.get(node.name.lower())
    return predicate is not None and predicate.kind in kinds
