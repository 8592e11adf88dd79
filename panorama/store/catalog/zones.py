"""Zones and lines, named shapes in a camera's picture, come in; checked and stored shapes go out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from panorama.commands import command
from panorama.errors import UsageError, unknown
from panorama.lines import composed
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import Column

EVERY_CAMERA = ""
"""The camera of a shape that holds for every camera without an own shape of the same name."""

LEAST_POINTS = {"zone": 3, "line": 2}
MOST_POINTS = 200

_PUT = """
INSERT INTO zones (camera, name, kind, points) VALUES (:camera, :name, :kind, :points)
ON CONFLICT (camera, name) DO UPDATE SET kind = excluded.kind, points = excluded.points
"""
_ZONES = "SELECT camera, name, kind, points FROM zones ORDER BY camera, name"
_NAMES = "SELECT camera, name, kind FROM zones ORDER BY camera, name"
_COMPOSE = "UPDATE zones SET camera = :to, name = :new WHERE camera = :camera AND name = :name"
_DROP = "DELETE FROM zones WHERE camera = :camera AND name = :name"
_MOVE = "UPDATE zones SET camera = :to WHERE camera = :camera AND name = :name"
_RENAME = "UPDATE zones SET name = :new WHERE camera = :camera AND name = :name"

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Zone:
    """A named shape in the picture of one camera.

    Attributes:
        camera: its name, composed (Unicode NFC) as videos have it; EVERY_CAMERA for a shape of all cameras.
        name: of the shape, composed as the texts of statements are.
        kind: 'zone', a polygon, or 'line', one or several segments from the first point to the last.
        points_xy: as fractions of the width and height of the displayed frame, so that a shape fits videos
            of any size.

    Raises:
        UsageError: unknown kind, empty name or blanks around it, too few or too many points, a point outside
            the frame or twice in a row; for a zone also crossing edges or no area.
    """

    camera: str
    name: str
    kind: str
    points_xy: tuple[Point, ...]

    def __post_init__(self) -> None:
        for field in ("camera", "name"):
            object.__setattr__(self, field, composed(getattr(self, field)))
        what = f"{self.kind} {self.name!r}"
        least = LEAST_POINTS.get(self.kind)
        if least is None:
            raise UsageError(f"a shape is a zone or a line, got {self.kind!r}")
        _check_name(self.kind, self.name)
        if not least <= len(self.points_xy) <= MOST_POINTS:
            points = f"{len(self.points_xy)} point{'s' * (len(self.points_xy) != 1)}"
            raise UsageError(f"{what} has {points}; a {self.kind} has {least} to {MOST_POINTS}")
        for number, (x, y) in enumerate(self.points_xy, 1):
            if not (0 <= x <= 1 and 0 <= y <= 1):
                where = f"{x:.0%}, {y:.0%}" if math.isfinite(x) and math.isfinite(y) else f"{x}, {y}"
                raise UsageError(f"point {number} of {what} lies outside the frame, at {where} of its size")
        edges = self.edges()
        for number, (a, b) in enumerate(edges, 1):
            if a == b:
                raise UsageError(
                    f"points {number} and {number % len(self.points_xy) + 1} of {what} are the same"
                )
        if self.kind == "zone":
            _check_simple(edges, what)

    def edges(self) -> list[tuple[Point, Point]]:
        """The edges from point to point; the last edge of a zone leads back to the first point."""
        following = self.points_xy[1:] + (self.points_xy[:1] if self.kind == "zone" else ())
        return list(zip(self.points_xy, following, strict=False))


def _check_name(kind: str, name: str) -> None:
    if not name.strip() or name != name.strip():
        raise UsageError(f"a {kind} needs a name without spaces around it, got {name!r}")


def _check_simple(edges: Sequence[tuple[Point, Point]], what: str) -> None:
    """Raise UsageError if edges of a polygon touch other than where neighbours meet, or it has no area."""
    if not any(abs(_turn(*edges[0], b)) > 1e-12 for _, b in edges):
        raise UsageError(f"the points of {what} lie on one straight line; a zone needs an area")
    count = len(edges)
    for i in range(count):
        for j in range(i + 1, count):
            neighbours = j == i + 1 or (i == 0 and j == count - 1)
            if _back_over(edges[i], edges[j], j == i + 1) if neighbours else _touch(*edges[i], *edges[j]):
                raise UsageError(
                    f"edges of {what} cross: {_edge(i, count)} and {_edge(j, count)}; "
                    "give the points in order around the shape"
                )


def _edge(i: int, count: int) -> str:
    return f"{i + 1}-{(i + 1) % count + 1}"


def _turn(a: Point, b: Point, c: Point) -> float:
    """Twice the signed area of the triangle; 0 if the points lie on one line."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _between(a: Point, b: Point, c: Point) -> bool:
    """Whether c lies between a and b, given that it is on the line through them."""
    return min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])


def _touch(a: Point, b: Point, c: Point, d: Point) -> bool:
    turns = (_turn(a, b, c), _turn(a, b, d), _turn(c, d, a), _turn(c, d, b))
    if (turns[0] > 0) != (turns[1] > 0) and (turns[2] > 0) != (turns[3] > 0) and all(turns):
        return True
    on = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
    return any(turn == 0 and _between(*three) for turn, three in zip(turns, on, strict=True))


def _back_over(first: tuple[Point, Point], second: tuple[Point, Point], follows: bool) -> bool:
    """Whether one of two neighbouring edges runs back over the other."""
    (a, b), (c, d) = (first, second) if follows else (second, first)
    if _turn(a, b, d) != 0:
        return False
    return (b[0] - a[0]) * (d[0] - c[0]) + (b[1] - a[1]) * (d[1] - c[1]) < 0


def _rows(tx: Transaction, sql: str) -> dict[tuple[str, str], Any]:
    """The rows of all shapes by composed camera and name, in order.

    Names were once stored as they were typed. Of two that are one now, the one that is stored composed is
    meant: only that one could be asked for.
    """
    held: dict[tuple[str, str], Any] = {}
    for row in tx.rows(sql):
        key = (composed(row.camera), composed(row.name))
        if key not in held or key == (row.camera, row.name):
            held[key] = row
    return {key: held[key] for key in sorted(held)}


def _compose(tx: Transaction) -> None:
    """Store all names composed, so that a statement of this module finds each shape by its name."""
    held = _rows(tx, _NAMES)
    for row in tx.rows(_NAMES):
        to, new = key = composed(row.camera), composed(row.name)
        if key == (row.camera, row.name):
            continue
        if held[key] == row:
            tx.run(_COMPOSE, camera=row.camera, name=row.name, to=to, new=new)
        else:
            tx.run(_DROP, camera=row.camera, name=row.name)


def put_zones(tx: Transaction, shapes: Sequence[Zone]) -> None:
    """Store shapes; replace those of the same camera and name."""
    _compose(tx)
    for zone in shapes:
        points = json.dumps([[float(x), float(y)] for x, y in zone.points_xy])
        tx.run(_PUT, camera=zone.camera, name=zone.name, kind=zone.kind, points=points)
    tx.bump("settings")


def zones(tx: Transaction) -> tuple[Zone, ...]:
    """All shapes, by camera and name.

    Raises:
        LibraryDamaged: the stored points of a shape are invalid.
    """
    return tuple(_POINTS.of(tx, ((row, row.points) for row in _rows(tx, _ZONES).values())))


def zone_names(tx: Transaction) -> list[tuple[str, str, str]]:
    """Camera, name and kind of all shapes, including those with invalid points."""
    return [(camera, name, row.kind) for (camera, name), row in _rows(tx, _NAMES).items()]


def _read(row: Any, points: str) -> Zone:
    pairs = tuple((float(x), float(y)) for x, y in json.loads(points))
    return Zone(row.camera, row.name, row.kind, pairs)


def _drop_it(_: Transaction, row: Any) -> str:
    # Name the camera even if it is EVERY_CAMERA: without, the command would drop other cameras' shapes too.
    return f"drop it: {command('zones', 'drop', f'--camera={row.camera}', '--', row.name)}"


_POINTS = Column(
    "zones.points", _read, lambda row: f"the {row.kind} {row.name!r} of {of_camera(row.camera)}", _drop_it
)


def drop_zone(tx: Transaction, camera: str, name: str) -> None:
    """Remove a shape.

    Raises:
        UsageError: the camera has no shape of that name.
    """
    _compose(tx)
    if not tx.run(_DROP, camera=camera, name=name):
        _refuse_unknown(tx, camera, name)
    tx.bump("settings")


def rename_zone(tx: Transaction, camera: str, name: str, new: str) -> None:
    """Give a shape another name.

    Raises:
        UsageError: the camera has no shape of that name, or already one of the new name, or that is invalid.
    """
    _compose(tx)
    known = {held: kind for where, held, kind in zone_names(tx) if where == camera}
    if name not in known:
        _refuse_unknown(tx, camera, name)
    if new in known:
        raise UsageError(f"{of_camera(camera)} has a {known[new]} {new!r} already; drop it first")
    _check_name(known[name], new)
    tx.run(_RENAME, camera=camera, name=name, new=new)
    tx.bump("settings")


def move_zone(tx: Transaction, camera: str, name: str, to: str) -> None:
    """Give a shape to another camera.

    Raises:
        UsageError: the camera has no shape of that name, or the other camera already has one.
    """
    _compose(tx)
    kinds = {(where, held): kind for where, held, kind in zone_names(tx)}
    if (camera, name) not in kinds:
        _refuse_unknown(tx, camera, name)
    if (to, name) in kinds:
        kind = kinds[to, name]
        raise UsageError(f"{of_camera(to)} has a {kind} {name!r} already; rename or drop one of them first")
    tx.run(_MOVE, camera=camera, name=name, to=to)
    tx.bump("settings")


def of_camera(camera: str) -> str:
    """The camera as named in messages."""
    return "every camera" if camera == EVERY_CAMERA else f"camera {camera!r}"


def lost_shape(kind: str, name: str, cameras: Sequence[str], known: Sequence[str]) -> str:
    """The message about a shape whose cameras have no videos; `known`: the cameras that have some."""
    whose = ", ".join(map(repr, cameras))
    of = "camera" if len(cameras) == 1 else "cameras"
    others = ", ".join(known) or "none"
    return (
        f"{kind} {name!r} belongs to {of} {whose}, but no video is left there; cameras: {others};"
        f" to move it to another: {command('zones', 'move', '--help')}"
    )


def _refuse_unknown(tx: Transaction, camera: str, name: str) -> None:
    known = zone_names(tx)
    elsewhere = sorted({of_camera(where) for where, held, _ in known if held == name})
    if elsewhere:
        raise UsageError(
            f"no zone or line {name!r} of {of_camera(camera)}; one belongs to {', '.join(elsewhere)}"
        )
    raise UsageError(unknown("zone or line", name, sorted({held for _, held, _ in known}), command("zones")))
