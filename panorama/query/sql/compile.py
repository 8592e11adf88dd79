"""A planned Query comes in; one SELECT of plain DuckDB SQL over stored tables goes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from panorama.query.handed.relations import SCHEMA
from panorama.query.shorthands.clock_sql import with_clock, with_span
from panorama.query.shorthands.plan import KEY, ORDER, OUTPUT, OVERLAP_TARGETS, Branch, Query, Seen
from panorama.query.sql.moments_sql import COLUMNS, SHAPE, Tables, moments_intervals, moments_of_branches
from panorama.query.sql.places_sql import every_place, follows_known, places_in
from panorama.query.sql.space_sql import frame_by_frame, space_rows
from panorama.query.sql.tracks_sql import (
    BOX,
    CROP_BOX,
    OWN_VIDEO,
    Names,
    Step,
    late_conditions,
    track_steps,
    where_all,
    with_steps,
)

_VIDEO = "video, camera, uri, duration, video_clock"
_MATCH = "entity, score, band"
_ROWS = {
    "frames": f"{_VIDEO}, frame, time, {_MATCH}, track_id, {BOX}",
    "tracks": f"{_VIDEO}, track_id, start_time, end_time, start_frame, end_frame, samples, {_MATCH}",
    "crops": f"{_VIDEO}, crop_id, track_id, frame, time, quality, {BOX}, {_MATCH}",
}
_NULLS = {
    "entity": "VARCHAR",
    "score": "DOUBLE",
    "band": "VARCHAR",
    "track_id": "BIGINT",
    "x1": "DOUBLE",
    "y1": "DOUBLE",
    "x2": "DOUBLE",
    "y2": "DOUBLE",
}


def compile_query(query: Query) -> str:
    """The SELECT that replaces a shorthand."""
    names = Names(query.number)
    seen = query.every_seen()
    given = replace(query, first_rows=None) if _first_are_given(query) else query
    steps = track_steps(given, names)
    if any(frame_by_frame(query, item) for item in seen) and not follows_known(query):
        steps.append(Step(names.places, every_place(query, seen, names)))
    rows_of = {item: names.rows(j) for j, item in enumerate(seen)}
    views_of = {item: names.views(j) for j, item in enumerate(seen) if query.may_cut(item)}
    for j, item in enumerate(seen):
        late = late_conditions(query, item)
        more = partial(_with_more, query, texts=[leaf.text for leaf in late])
        placed = space_rows(query, item, names.tracks(j), places_in(query), more, late)
        if query.target == "moments":
            intervals = f"({placed})" if placed else names.tracks(j)
            if item in views_of:
                steps.append(Step(names.views(j), f"SELECT {COLUMNS} FROM {intervals}", kept=True))
                intervals = names.views(j)
            rows = moments_intervals(intervals, item)
        else:
            tracks = names.tracks(j)
            rows = f"SELECT {_ROWS[query.target]} FROM ({placed})" if placed else _rows(query, item, tracks)
        steps.append(Step(rows_of[item], rows))
    if query.target == "moments":
        tables = Tables(rows_of, views_of, places_in(query), names.videos)
        body = moments_of_branches(query.branches, tables)
    else:
        body = _pointwise(query, rows_of, names.videos)
    if any(leaf.by_chance for leaf in query.every_leaf()):
        steps = [replace(step, kept=True) for step in steps]  # computed twice, a step would differ
    elif query.target != "crops" and all(item.source == "known" for item in seen):
        # A step that is used once and joins only tables handed over is planned inline.
        steps = [replace(step, kept=step.kept and _uses(step.name, steps, body) > 1) for step in steps]
    return _outer(query, with_steps(steps, body))


def _uses(name: str, steps: Sequence[Step], body: str) -> int:
    """Number of times a step is named in the steps and in the body."""
    return sum(len(re.findall(rf"\b{name}\b", sql)) for sql in (*(step.sql for step in steps), body))


def _first_are_given(query: Query) -> bool:
    """Whether the boxes handed over cover only the first tracks; see `worth_following`."""
    conditions = any(item.conditions for item in query.every_seen())
    return query.target == "frames" and follows_known(query) and not conditions


def output_columns(query: Query) -> tuple[str, ...]:
    """The columns that the shorthand returns, in order, each once."""
    columns = OUTPUT[query.target]
    if query.target in ("tracks", "crops"):
        if any(item.source != "any" for branch in query.branches for item in branch.seen):
            columns = (*columns, "entity", "score")
        if query.similarity is not None:
            columns = (*columns, "similarity")
    return tuple(dict.fromkeys((*columns, *(name for name, _ in query.columns))))


def _outer(query: Query, inner: str) -> str:
    """Columns, order and limit around the rows."""
    order, source = query.order, f"({inner})"
    if query.similarity is not None and query.target in ("tracks", "crops"):
        source = f"(SELECT *, {query.similarity} AS similarity FROM ({inner}))"
        order = order.replace(query.similarity, "similarity") if order is not None else None
    named = (order or "", *(name for name, _ in query.columns))
    if any(map(_asks_more, named)):
        source = f"({_with_more(query, f'SELECT * FROM {source}', named)})"
    sql = f"SELECT {', '.join(output_columns(query))} FROM {source}"
    if query.grouped:
        return sql
    limited = query.limit is not None or query.offset is not None
    default = ", ".join(ORDER[query.target])
    if order is not None and order.strip().upper().split()[:1] == ["ALL"]:
        sql += f" ORDER BY {order}"
    elif order is not None:
        sql += f" ORDER BY {order}, {default}"
    elif query.alone or limited:
        sql += f" ORDER BY {default}"
    if query.limit is not None:
        sql += f" LIMIT {query.limit}"
    if query.offset is not None:
        sql += f" OFFSET {query.offset}"
    return sql


def _rows(query: Query, seen: Seen, tracks: str) -> str:
    """Rows of one thing looked for, in the form of the target; `tracks` is the table of its tracks."""
    if query.target == "tracks":
        return f"SELECT {_ROWS['tracks']} FROM {tracks}"
    if query.target == "frames":
        own = f"{OWN_VIDEO.format('t')}, p.frame, p.time, {_MATCH}, t.track_id, {BOX}"
        source = f"SELECT {own} FROM {tracks} t JOIN {places_in(query)} p ON p.track_id = t.track_id"
    else:
        source = (
            f"SELECT {OWN_VIDEO.format('t')}, c.crop_id, t.track_id, c.frame, c.time,"
            f" c.quality::DOUBLE AS quality, {CROP_BOX}, {_MATCH} FROM {tracks} t"
            f" JOIN {SCHEMA}.crops c ON c.track_id = t.track_id AND c.segment = t.segment"
        )
    late = late_conditions(query, seen)
    if not late:
        return source
    more = _with_more(query, source, [leaf.text for leaf in late])
    return f"SELECT {_ROWS[query.target]} FROM ({more}){where_all(late)}"


def _universe(query: Query, videos: str) -> str:
    """Every row of the target, without entities, in the table `videos`."""
    nothing = {column: f"NULL::{kind} AS {column}" for column, kind in _NULLS.items()}
    match = ", ".join(nothing[column] for column in ("entity", "score", "band"))
    video = OWN_VIDEO.format("v")
    if query.target == "frames":
        places = ", ".join(nothing[column] for column in ("track_id", "x1", "y1", "x2", "y2"))
        return (
            f"SELECT {video}, f.frame, f.time, {match}, {places}"
            f" FROM {videos} v JOIN {SCHEMA}.frames f ON f.segment = v.segment"
        )
    if query.target == "tracks":
        track = "t.track_id, t.start_time, t.end_time, t.start_frame, t.end_frame, t.samples"
        return (
            f"SELECT {video}, {track}, {match}"
            f" FROM {videos} v JOIN {SCHEMA}.tracks t ON t.segment = v.segment"
        )
    return (
        f"SELECT {video}, c.crop_id, c.track_id, c.frame, c.time, c.quality::DOUBLE AS quality,"
        f" {CROP_BOX}, {match} FROM {videos} v JOIN {SCHEMA}.crops c ON c.segment = v.segment"
    )


def _pointwise(query: Query, rows_of: Mapping[Seen, str], videos: str) -> str:
    """All branches of frames, tracks or crops; rows without entities only if no other branch has the row.

    What all branches leave to chance is asked at the end: a row that several of them have is one row.

    Args:
        rows_of: name of the table of rows of each thing looked for.
        videos: name of the table of videos that can hold an answer.
    """
    last = [leaf for leaf in query.branches[0].where if leaf.by_chance]
    last = [leaf for leaf in last if all(leaf in branch.where for branch in query.branches)]
    if last:
        rest = (tuple(leaf for leaf in branch.where if leaf not in last) for branch in query.branches)
        before = tuple(replace(b, where=where) for b, where in zip(query.branches, rest, strict=True))
        rows = f"SELECT * FROM ({_pointwise(replace(query, branches=before), rows_of, videos)})"
        filled = _with_more(query, rows, [leaf.text for leaf in last])
        return f"SELECT {_ROWS[query.target]} FROM ({filled}){where_all(tuple(last))}"
    key = ", ".join(KEY[query.target])
    # A row may occur twice if the names of two conditions overlap or two branches hold. Use one operator for
    # all: DuckDB evaluates from left to right, and does not compare rows after a UNION ALL with those before
    # it.
    union = " UNION ALL " if len(query.branches) == 1 and _disjoint(query.branches[0].seen) else " UNION "
    seeing = [_branch(query, branch, rows_of, videos, union) for branch in query.branches if branch.seen]
    lacking = [_branch(query, branch, rows_of, videos, union) for branch in query.branches if not branch.seen]
    if not lacking:
        return union.join(seeing)
    empty = " UNION ".join(lacking)
    if not seeing:
        return empty
    rows = union.join(seeing)
    if any(leaf.by_chance for branch in query.branches for leaf in branch.where):
        seen = f"SELECT * FROM _seen UNION ALL SELECT * FROM ({empty}) ANTI JOIN _seen USING ({key})"
        return f"SELECT * FROM (WITH _seen AS MATERIALIZED ({rows}) {seen})"
    return f"{rows} UNION ALL SELECT * FROM ({empty}) ANTI JOIN (SELECT {key} FROM ({rows})) USING ({key})"


def _disjoint(seen: tuple[Seen, ...]) -> bool:
    names = [name for item in seen for name in item.names]
    return len(set(names)) == len(names) and (len(seen) == 1 or all(item.names for item in seen))


_ON_DEMAND = re.compile(r"width|height|area|aspect|clock|picture|columns|[*\\\"]", re.IGNORECASE)
_NAMES_PICTURE = re.compile(r"picture|columns|[*\\\"]", re.IGNORECASE)


def _asks_more(text: str) -> bool:
    """Whether SQL text may name a column that a row has only on demand."""
    return _ON_DEMAND.search(text) is not None


def _with_more(query: Query, rows: str, texts: Sequence[str]) -> str:
    """SQL of rows with the columns that they have on demand, as far as some SQL texts may name them."""
    if query.target in OVERLAP_TARGETS:
        return with_span(rows, SHAPE if query.target == "moments" else "")
    rows = with_clock(rows, SHAPE)
    if not any(map(_NAMES_PICTURE.search, texts)):
        return rows
    names = f"LEFT JOIN {SCHEMA}.named_pictures n ON n._video = s.video AND n._frame = s.frame"
    return f"SELECT s.*, n._picture AS picture FROM ({rows}) s {names}"


def _branch(query: Query, branch: Branch, rows_of: Mapping[Seen, str], videos: str, union: str) -> str:
    """Rows of one branch, if everything in `seen` is present in them and nothing in `unseen`.

    Args:
        union: the operator that joins the rows of different things.
    """
    key = ", ".join(KEY[query.target])
    columns = _ROWS[query.target]
    asked = [leaf.text for leaf in branch.where]

    def filled(rows: str) -> str:
        return _with_more(query, rows, asked) if any(map(_asks_more, asked)) else rows

    absent = "".join(
        f" ANTI JOIN {rows_of[item]} absent{i} USING ({key})" for i, item in enumerate(branch.unseen)
    )
    where = where_all(branch.where)
    if not branch.seen:
        every = filled(f"SELECT * FROM ({_universe(query, videos)}) {absent}")
        return f"SELECT {columns} FROM ({every}){where}"
    parts = []
    for item in branch.seen:
        others = [other for other in branch.seen if other != item]
        present = "".join(
            f" SEMI JOIN {rows_of[other]} present{i} USING ({key})" for i, other in enumerate(others)
        )
        rows = rows_of[item]
        if present or absent or where:
            rows = f"({filled(f'SELECT * FROM {rows} own{present}{absent}')})"
        parts.append(f"SELECT {columns} FROM {rows}{where}")
    return union.join(parts)
