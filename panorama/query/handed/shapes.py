"""Named zones and lines come in; the relation `zones` and macros over boxes go out, in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import duckdb
import pyarrow as pa

from panorama.query.handed.lending import lent
from panorama.query.text.quoting import quote_text


class Shape(Protocol):
    """A named shape of a camera, see panorama.store.Zone."""

    @property
    def camera(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def points_xy(self) -> tuple[tuple[float, float], ...]: ...
    def edges(self) -> list[tuple[tuple[float, float], tuple[float, float]]]: ...


_POINTS = pa.list_(pa.struct([("x", pa.float64()), ("y", pa.float64())]))
_EDGES = pa.list_(pa.struct([(end, pa.float64()) for end in ("ax", "ay", "bx", "by")]))
_TABLE = pa.schema(
    [
        *[("zone", pa.string()), ("camera", pa.string()), ("kind", pa.string())],
        *[("points", _POINTS), ("edges", _EDGES)],
    ]
)

_STATEMENTS = (
    "CREATE TABLE _panorama.zones AS SELECT * FROM _panorama_zones",
    "CREATE VIEW zones AS SELECT zone, camera, kind, points FROM _panorama.zones",
    # The shapes that hold for each video, in its pixels: a camera's own shape replaces one for all cameras.
    # Column names begin with an underscore, so that names in a condition still refer to the surrounding rows.
    """
    CREATE VIEW _panorama.shapes AS SELECT v.video AS _video, z.zone AS _zone, z.kind AS _kind,
        list_min(list_transform(z.points, lambda p: p.x)) * v.width AS _left,
        list_max(list_transform(z.points, lambda p: p.x)) * v.width AS _right,
        list_min(list_transform(z.points, lambda p: p.y)) * v.height AS _top,
        list_max(list_transform(z.points, lambda p: p.y)) * v.height AS _bottom,
        list_transform(z.edges, lambda e: {'ax': e.ax * v.width, 'ay': e.ay * v.height,
                                           'bx': e.bx * v.width, 'by': e.by * v.height}) AS _edges
    FROM _panorama.videos v JOIN _panorama.zones z ON z.camera = v.camera OR z.camera = ''
    QUALIFY row_number() OVER (PARTITION BY v.video, z.zone ORDER BY z.camera = '') = 1
    """,
    # A point lies inside if a ray to its right crosses the edges an odd number of times.
    """
    CREATE MACRO _panorama.within(edges, x, y) AS len(list_filter(edges, lambda e:
        ((e.ay > y) != (e.by > y)) AND x < (e.bx - e.ax) * (y - e.ay) / (e.by - e.ay) + e.ax)) % 2 = 1
    """,
    """
    CREATE MACRO _panorama.inside(zone, video, x, y) AS _panorama.within((SELECT s._edges
        FROM _panorama.shapes s WHERE s._video = video AND s._zone = zone AND s._kind = 'zone'), x, y)
    """,
    # Whether (x, y) lies to the right of the direction from 1 to 2; y grows downwards.
    """
    CREATE MACRO _panorama.is_right(x1, y1, x2, y2, x, y) AS
        (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0
    """,
    # Whether the step from p to q crosses an edge. way: 0 for in, 1 for out, 2 for any.
    """
    CREATE MACRO _panorama.passed(edges, way, px, py, qx, qy) AS len(list_filter(edges, lambda e:
        (_panorama.is_right(e.ax, e.ay, e.bx, e.by, px, py)
            != _panorama.is_right(e.ax, e.ay, e.bx, e.by, qx, qy))
        AND (way = 2 OR _panorama.is_right(e.ax, e.ay, e.bx, e.by, qx, qy) = (way = 0))
        AND (_panorama.is_right(px, py, qx, qy, e.ax, e.ay)
            != _panorama.is_right(px, py, qx, qy, e.bx, e.by)))) > 0
    """,
    # Whether the step from p to q may cross an edge: false only if all of it is more than a pixel away.
    """
    CREATE MACRO _panorama.off(e, x, y) AS ((e.bx - e.ax) * (y - e.ay) - (e.by - e.ay) * (x - e.ax))
        / greatest(abs(e.bx - e.ax) + abs(e.by - e.ay), 1e-9)
    """,
    """
    CREATE MACRO _panorama.may_cross(edges, px, py, qx, qy) AS len(list_filter(edges, lambda e:
        greatest(px, qx) >= least(e.ax, e.bx) - 1 AND least(px, qx) <= greatest(e.ax, e.bx) + 1
        AND greatest(py, qy) >= least(e.ay, e.by) - 1 AND least(py, qy) <= greatest(e.ay, e.by) + 1
        AND least(_panorama.off(e, px, py), _panorama.off(e, qx, qy)) <= 1
        AND greatest(_panorama.off(e, px, py), _panorama.off(e, qx, qy)) >= -1)) > 0
    """,
    """
    CREATE MACRO _panorama.shape(zone, video) AS (SELECT {'kind': s._kind, 'edges': s._edges,
        'left': s._left, 'right': s._right, 'top': s._top, 'bottom': s._bottom}
        FROM _panorama.shapes s WHERE s._video = video AND s._zone = zone)
    """,
    # Crossing a zone inwards means: p is outside and q is inside. A track's first box, without a p, crosses
    # nothing. Most steps are far away: test bounds first.
    """
    CREATE MACRO _panorama.shape_crossed(s, way, px, py, qx, qy) AS CASE
        WHEN s IS NULL THEN NULL
        WHEN px IS NULL THEN false
        WHEN greatest(px, qx) < s.left OR least(px, qx) > s.right THEN false
        WHEN greatest(py, qy) < s.top OR least(py, qy) > s.bottom THEN false
        WHEN s.kind = 'line' THEN _panorama.passed(s.edges, way, px, py, qx, qy)
        ELSE _panorama.within(s.edges, px, py) != _panorama.within(s.edges, qx, qy)
            AND (way = 2 OR _panorama.within(s.edges, qx, qy) = (way = 0)) END
    """,
    """
    CREATE MACRO _panorama.crosses(zone, way, video, px, py, qx, qy) AS
        _panorama.shape_crossed(_panorama.shape(zone, video), way, px, py, qx, qy)
    """,
    """
    CREATE MACRO _panorama.has_shape(zone, video) AS video IN
        (SELECT s._video FROM _panorama.shapes s WHERE s._zone = zone)
    """,
)


def _one_line(sql: str) -> str:
    """SQL without its layout. Apply it before names are filled in: their spaces must stay."""
    return " ".join(sql.split())


_TOUCHING = _one_line("""
SELECT b.track_id FROM (
    SELECT segment, track_id, min(x1) AS x1, min(y1) AS y1, max(x2) AS x2, max(y2) AS y2
    FROM _panorama.boxes WHERE segment IN (SELECT v.segment FROM {videos} v
        JOIN _panorama.shapes s ON s._video = v.video AND s._zone IN ({zones})){among}
    GROUP BY segment, track_id) b
JOIN {videos} v ON v.segment = b.segment
JOIN _panorama.shapes s ON s._video = v.video AND s._zone IN ({zones})
WHERE b.x2 >= s._left AND b.x1 <= s._right AND b.y2 >= s._top AND b.y1 <= s._bottom
""")
_STEPS = _one_line("""
SELECT v.video, b.* EXCLUDE (segment)
FROM (SELECT segment, track_id, frame, x1, y1, x2, y2, lag(x1) OVER w AS from_x1,
      lag(y1) OVER w AS from_y1, lag(x2) OVER w AS from_x2, lag(y2) OVER w AS from_y2
      FROM _panorama.boxes WHERE track_id IN ({tracks})
      WINDOW w AS (PARTITION BY segment, track_id ORDER BY frame)) b
JOIN {videos} v ON v.segment = b.segment
""")
# Between samples a box moves in a straight line, so every crossing lies between two samples.
_CROSSING = _one_line("""
SELECT b.track_id FROM ({steps}) b JOIN _panorama.shapes s ON s._video = b.video AND s._zone IN ({zones})
WHERE b.from_y2 IS NOT NULL AND _panorama.may_cross(s._edges,
    (b.from_x1 + b.from_x2) / 2, b.from_y2 - 0.5, (b.x1 + b.x2) / 2, b.y2 - 0.5)
""")
_KINDS = "SELECT zone, kind FROM _panorama.zones"


def add_shapes(connection: duckdb.DuckDBPyConnection, shapes: Sequence[Shape]) -> None:
    """Create the relation `zones` and the macros for predicates of space, once videos and boxes exist."""
    rows = [
        {
            **{"zone": shape.name, "camera": shape.camera, "kind": shape.kind},
            "points": [{"x": x, "y": y} for x, y in shape.points_xy],
            "edges": [{"ax": a[0], "ay": a[1], "bx": b[0], "by": b[1]} for a, b in shape.edges()],
        }
        for shape in shapes
    ]
    with lent(connection, "_panorama_zones", pa.Table.from_pylist(rows, schema=_TABLE)):
        for statement in _STATEMENTS:
            connection.execute(statement)


def shape_kinds(connection: duckdb.DuckDBPyConnection) -> Mapping[str, frozenset[str]]:
    """The names of all shapes, each with the kinds that it has at the cameras."""
    found: dict[str, set[str]] = {}
    for name, kind in connection.execute(_KINDS).fetchall():
        found.setdefault(name, set()).add(kind)
    return {name: frozenset(kinds) for name, kinds in found.items()}


def touching(zones: Sequence[str], crossed: Sequence[str], videos: str, tracks: str | None = None) -> str:
    """SQL of the tracks that come near a shape: all that can be inside or cross it, and some more.

    Args:
        zones: the shapes.
        crossed: those of them that must be crossed, which excludes more tracks.
        videos: name of the relation of the videos that matter; boxes of others are not read.
        tracks: name of a relation of the tracks that matter; None for all.
    """
    beside = [name for name in zones if name not in crossed]
    parts = [_near(beside, videos, tracks)] if beside else []
    if crossed:
        steps = _STEPS.format(tracks=_near(crossed, videos, tracks), videos=videos)
        parts.append(_CROSSING.format(steps=steps, zones=_listed(crossed)))
    return " UNION ALL ".join(parts)


def _listed(zones: Sequence[str]) -> str:
    return ", ".join(map(quote_text, zones))


def _near(zones: Sequence[str], videos: str, tracks: str | None) -> str:
    """SQL of the tracks whose boxes, over all samples, reach the bounding box of a shape."""
    among = f" AND track_id IN (SELECT track_id FROM {tracks})" if tracks is not None else ""
    return _TOUCHING.format(zones=_listed(zones), videos=videos, among=among)


def steps(zone: str, videos: str | None = None, tracks: str | None = None) -> str:
    """SQL of the boxes of tracks near a shape, each with the previous box as from_x1 to from_y2.

    Args:
        videos: SQL of the names of the videos that matter; None for all.
        tracks: SQL of the track_ids that matter; None for all.
    """
    of = "_panorama.videos" if videos is None else f"(FROM _panorama.videos WHERE video IN ({videos}))"
    near = _near((zone,), of, None if tracks is None else f"({tracks})")
    return _STEPS.format(tracks=near, videos=of)
