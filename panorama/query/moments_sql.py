"""Writes the SQL of moments: tracks or intervals enter, merged, intersected and ordered intervals leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from panorama.query.clock import clock_seconds
from panorama.query.conditions import Leaf
from panorama.query.plan import GAP_SECONDS, Branch, PlannedSequence, Seen

_OPENED = "video, camera, uri, duration, video_clock, start_time, end_time, entity"
COLUMNS = f"{_OPENED}, score, band, track_id, frame, x1, y1, x2, y2"
_SHAPE = (
    "*, x2 - x1 AS width, y2 - y1 AS height, (x2 - x1) * (y2 - y1) AS area,"
    " (x2 - x1) / nullif(y2 - y1, 0) AS aspect,"
    f" {clock_seconds('video_clock', 'start_time')} AS start_clock,"
    f" {clock_seconds('video_clock', 'end_time')} AS end_clock"
)
_BEST = ("score", "band", "track_id", "frame", "x1", "y1", "x2", "y2")
# Tracks of nothing known stay apart: two strangers are not one entity.
_PART = "video, entity, CASE WHEN entity IS NULL THEN track_id END"

# a and b are moments of the left and the right side, in the same video.
_RELATIONS = {
    "FOLLOWED BY": "b.start_time > a.start_time",
    "BEFORE": "b.start_time >= a.end_time",
    "DURING": "a.start_time >= b.start_time AND a.end_time <= b.end_time",
    "OVERLAPS": "a.start_time < b.end_time AND b.start_time < a.end_time",
}


def merged(source: str, gap_seconds: float) -> str:
    """Intervals of one entity in one video no further apart than the gap, as one; the best view stays.

    Args:
        source: SQL with the columns of `COLUMNS`.
        gap_seconds: intervals whose distance is at most this are joined.
    """
    best = ", ".join(f"'{column}': {column}" for column in _BEST)
    marked = (
        f"SELECT *, start_time > max(end_time) OVER (PARTITION BY {_PART}"
        f" ORDER BY start_time, end_time, track_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        f" + {gap_seconds!r} AS is_new FROM ({source})"
    )
    numbered = (
        f"SELECT *, sum(CASE WHEN is_new THEN 1 ELSE 0 END) OVER (PARTITION BY {_PART}"
        " ORDER BY start_time, end_time, track_id ROWS UNBOUNDED PRECEDING) AS island"
        f" FROM ({marked})"
    )
    grouped = (
        "SELECT video, any_value(camera) AS camera, any_value(uri) AS uri, any_value(duration) AS duration,"
        " any_value(video_clock) AS video_clock,"
        " min(start_time) AS start_time, max(end_time) AS end_time, entity,"
        f" first({{{best}}} ORDER BY score DESC NULLS LAST, start_time, track_id) AS best"
        f" FROM ({numbered}) GROUP BY {_PART}, island"
    )
    picks = ", ".join(f"best.{column} AS {column}" for column in _BEST)
    opened = f"SELECT {_OPENED}, {picks} FROM ({grouped})"
    return f"SELECT {COLUMNS} FROM ({opened})"


def moments_intervals(tracks: str, seen: Seen) -> str:
    """Merged moments of one thing looked for."""
    intervals = merged(f"SELECT {COLUMNS} FROM {tracks}", GAP_SECONDS)
    return _filtered(intervals, seen.finals)


def moments_branch(branch: Branch, rows: Mapping[Seen, str], videos: str) -> str:
    """Moments of one branch.

    Args:
        rows: name of the intervals of each thing looked for.
        videos: name of the videos that can hold an answer.
    """
    if branch.sequences:
        sql = _sequence(branch.sequences[0], rows)
    elif len(branch.seen) == 1 and not branch.unseen:
        sql = f"SELECT {COLUMNS} FROM {rows[branch.seen[0]]}"
    else:
        sql = _swept(branch, rows, videos)
    return _filtered(sql, branch.where)


def moments_union(branches: Sequence[str]) -> str:
    """All branches; a moment that several have is one."""
    if len(branches) == 1:
        return branches[0]
    return merged(" UNION ALL ".join(f"SELECT {COLUMNS} FROM ({sql})" for sql in branches), 0.0)


def _filtered(sql: str, conditions: Sequence[Leaf]) -> str:
    if not conditions:
        return sql
    where = " AND ".join(f"({leaf.text})" for leaf in conditions)
    return f"SELECT {COLUMNS} FROM (SELECT {_SHAPE} FROM ({sql})) WHERE {where}"


def _sequence(sequence: PlannedSequence, rows: Mapping[Seen, str]) -> str:
    """Moments of both sides that have their counterpart."""
    relation = _RELATIONS[sequence.kind]
    if sequence.within_seconds is not None:
        relation += f" AND b.start_time - a.end_time <= {sequence.within_seconds!r}"
    # A moment is not its own counterpart where both sides name one entity.
    other = "(a.entity, a.start_time, a.track_id) IS DISTINCT FROM (b.entity, b.start_time, b.track_id)"
    left, right = rows[sequence.left], rows[sequence.right]
    on = f"a.video = b.video AND {relation} AND {other}"
    columns = ", ".join(f"{{side}}.{column.strip()} AS {column.strip()}" for column in COLUMNS.split(","))
    first = f"SELECT {columns.format(side='a')} FROM {left} a WHERE EXISTS (FROM {right} b WHERE {on})"
    second = f"SELECT {columns.format(side='b')} FROM {right} b WHERE EXISTS (FROM {left} a WHERE {on})"
    return f"{first} UNION {second}"


def _swept(branch: Branch, rows: Mapping[Seen, str], videos: str) -> str:
    """Cuts time where an interval begins or ends, keeps the pieces where the branch holds, joins them."""
    every = (*branch.seen, *branch.unseen)
    edges = " UNION ".join(
        f"SELECT video, {edge} AS t FROM {rows[item]}"
        for item in every
        for edge in ("start_time", "end_time")
    )
    if not branch.seen:
        edges += f" UNION SELECT video, 0.0 FROM {videos} UNION SELECT video, duration FROM {videos}"
    pieces = (
        "SELECT * FROM (SELECT video, t AS a, lead(t) OVER (PARTITION BY video ORDER BY t) AS b"
        f" FROM ({edges})) WHERE b IS NOT NULL"
    )
    inside = "EXISTS (FROM {row} i WHERE i.video = p.video AND i.start_time <= p.a AND i.end_time >= p.b)"
    tests = [inside.format(row=rows[item]) for item in branch.seen]
    tests += [f"NOT {inside.format(row=rows[item])}" for item in branch.unseen]
    held = f"SELECT * FROM ({pieces}) p WHERE {' AND '.join(tests)}"
    if not branch.seen:
        # Intervals may reach past the duration that the container claims; time outside is no moment.
        empty = (
            "SELECT v.video, v.camera, v.uri, v.duration, v.video_clock, p.a AS start_time, p.b AS end_time,"
            " NULL::VARCHAR AS entity, NULL::DOUBLE AS score, NULL::VARCHAR AS band,"
            " NULL::BIGINT AS track_id, NULL::BIGINT AS frame,"
            " NULL::DOUBLE AS x1, NULL::DOUBLE AS y1, NULL::DOUBLE AS x2,"
            f" NULL::DOUBLE AS y2 FROM ({held}) p JOIN {videos} v ON v.video = p.video"
            " WHERE p.a >= 0 AND p.b <= v.duration"
        )
        return merged(empty, 0.0)
    parts = []
    for item in branch.seen:
        clipped = (
            "SELECT i.* REPLACE (p.a AS start_time, p.b AS end_time)"
            f" FROM {rows[item]} i JOIN ({held}) p"
            " ON p.video = i.video AND p.a >= i.start_time AND p.b <= i.end_time"
        )
        parts.append(merged(f"SELECT {COLUMNS} FROM ({clipped})", 0.0))
    return " UNION ".join(f"SELECT {COLUMNS} FROM ({part})" for part in parts)
