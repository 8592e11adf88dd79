"""Tracks or intervals come in; SQL of moments goes out: intervals merged, intersected and ordered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from panorama.query.shorthands.clock_sql import with_alarms, with_order, with_span, within_alarms
from panorama.query.shorthands.conditions import Leaf
from panorama.query.shorthands.plan import (
    GAP_SECONDS,
    MATCH_COLUMNS,
    VIEW_COLUMNS,
    Branch,
    PlannedSequence,
    Seen,
)

_OPENED = "video, camera, uri, duration, video_clock, start_time, end_time, entity"
COLUMNS = f"{_OPENED}, score, band, track_id, frame, x1, y1, x2, y2"
SHAPE = (
    "x2 - x1 AS width, y2 - y1 AS height, (x2 - x1) * (y2 - y1) AS area,"
    " (x2 - x1) / nullif(y2 - y1, 0) AS aspect, "
)
_BEST = ("score", "band", "track_id", "frame", "x1", "y1", "x2", "y2")
_VIEW = VIEW_COLUMNS | MATCH_COLUMNS
# Unknown tracks stay separate: two strangers are not one entity.
_PART = "video, entity, CASE WHEN entity IS NULL THEN track_id END"

_IDENTITY = ("entity", "start_time", "end_time", "track_id")
# a and b are moments of the left and the right side in the same video. What came later is told by the clock
# of pictures; within a second, which is all that many cameras store, by their order.
_RELATIONS = {
    "FOLLOWED BY": "(b.began > a.began OR (b.began = a.began AND b.start_time > a.start_time))",
    "BEFORE": "(b.began > a.ended OR (b.began = a.ended AND b.start_time >= a.end_time))",
    "DURING": "a.start_time >= b.start_time AND a.end_time <= b.end_time",
    "OVERLAPS": "a.start_time < b.end_time AND b.start_time < a.end_time",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """Names of the tables that the moments of a shorthand are made of.

    Attributes:
        rows: of the moments of each thing looked for.
        views: of the intervals that these were merged from, with the best view of each; of entities whose
            moments may be cut.
        places: of the boxes of these intervals in every frame.
        videos: of the videos that can hold an answer.
    """

    rows: Mapping[Seen, str]
    views: Mapping[Seen, str]
    places: str
    videos: str


def merged(source: str, gap_seconds: float) -> str:
    """Merge intervals of an entity in a video that are no further apart than the gap; keep the best view.

    Args:
        source: SQL with the columns of `COLUMNS`; each of the intervals is of one alarm of pictures.
        gap_seconds: intervals whose distance is at most this are joined, if they are of one alarm.
    """
    best = ", ".join(f"'{column}': {column}" for column in _BEST)
    marked = _marked(source, _PART, f"start_time > before + {gap_seconds!r}")
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


def _marked(source: str, part: str, is_later: str) -> str:
    """Intervals, with `is_new` for those that do not go on with any before them.

    Args:
        is_later: SQL that tells it by the latest end `before`. Another alarm of a camera trap tells it, too.
    """
    before = (
        f"SELECT *, max(end_time) OVER (PARTITION BY {part} ORDER BY start_time, end_time, track_id"
        f" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM ({source})"
    )
    apart = with_alarms(before)
    return f"SELECT * EXCLUDE (before, is_apart), ({is_later} OR is_apart) AS is_new FROM ({apart})"


def first_moments(tracks: str, rows: int, best_first: bool) -> str:
    """Only the tracks that the first rows can be merged from, before their boxes are looked up.

    Args:
        tracks: SQL of matched tracks; each merges only with tracks of its entity in its video.
        best_first: whether rows are ordered by score; otherwise in the default order, by video first.
    """
    is_later = f"coalesce(start_time > before + {GAP_SECONDS!r}, true)"
    marked = _marked(tracks, "video, entity", is_later)
    if not best_first:
        before = (
            "(SELECT video, sum(count(*) FILTER (is_new)) OVER (ORDER BY video) - count(*) FILTER (is_new)"
            " AS before FROM marked GROUP BY video)"
        )
        return (
            f"(WITH marked AS MATERIALIZED ({marked}) SELECT * EXCLUDE (is_new) FROM marked WHERE video IN"
            f" (SELECT video FROM {before} WHERE before < {rows}))"
        )
    numbered = (
        "SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY video, entity"
        f" ORDER BY start_time, end_time, track_id ROWS UNBOUNDED PRECEDING) AS island FROM ({marked})"
    )
    scored = f"SELECT *, max(score) OVER (PARTITION BY video, entity, island) AS best FROM ({numbered})"
    least = f"SELECT min(best) FROM (SELECT best FROM scored WHERE is_new ORDER BY best DESC LIMIT {rows})"
    return (
        f"(WITH scored AS MATERIALIZED ({scored}) SELECT * EXCLUDE (is_new, island, best) FROM scored"
        f" WHERE best >= ({least}))"
    )


def moments_intervals(tracks: str, seen: Seen) -> str:
    """Merged moments of one thing looked for."""
    intervals = merged(within_alarms(f"SELECT {COLUMNS} FROM {tracks}"), GAP_SECONDS)
    return _filtered(intervals, seen.finals)


def moments_of_branches(branches: Sequence[Branch], tables: Tables) -> str:
    """Moments of all branches; a moment that several branches have becomes one.

    If several branches share a condition from one place in the statement, it is checked on their merged
    moments: the part of a moment in one branch may be shorter than the moment.
    """
    return _with_own_view(_of_branches(branches, tables), tables)


def _of_branches(branches: Sequence[Branch], tables: Tables) -> str:
    """The same, but a piece of a moment has the view of the whole unless a condition asks for it."""
    return _together([(_branch(branch, tables), branch.where) for branch in branches], tables)


def _together(parts: Sequence[tuple[str, tuple[Leaf, ...]]], tables: Tables) -> str:
    """The moments of several parts, each given with the conditions that it still has to satisfy."""
    if len(parts) == 1:
        return _asked_of_pieces(*parts[0], tables)
    having = Counter(_place(leaf) for _, conditions in parts for leaf in conditions)
    shared = [leaf for leaf in parts[0][1] if having[_place(leaf)] == len(parts)]
    rest = [(sql, tuple(leaf for leaf in conditions if leaf not in shared)) for sql, conditions in parts]
    groups = [[part] for part in rest]
    some = [place for place, count in having.most_common() if 1 < count < len(parts)]
    if some:
        asked = [part for part in rest if some[0] in map(_place, part[1])]
        groups = [asked, [part for part in rest if part not in asked]]
    union = " UNION ALL ".join(f"SELECT {COLUMNS} FROM ({_together(group, tables)})" for group in groups)
    return _asked_of_pieces(merged(union, 0.0), shared, tables)


def _place(leaf: Leaf) -> tuple[int, int, str]:
    """Identifies a condition by its position, apart from equal ones elsewhere in the statement."""
    return leaf.start, leaf.stop, leaf.text


def _branch(branch: Branch, tables: Tables) -> str:
    """Moments of one branch, before its conditions on rows are checked."""
    present = [tables.rows[item] for item in branch.seen]
    absent = [tables.rows[item] for item in branch.unseen]
    steps: list[str] = []
    for group, chains in ((present, branch.sequences), (absent, branch.unsequenced)):
        for chain in chains:
            group.append(f"_sequence{len(steps)}")
            steps.append(f"{group[-1]} AS MATERIALIZED ({_sequence(chain, tables)})")
    if len(present) == 1 and not absent:
        sql = f"SELECT {COLUMNS} FROM {present[0]}"
    else:
        sql = _swept(present, absent, tables.videos)
    return f"SELECT {COLUMNS} FROM (WITH {', '.join(steps)} {sql})" if steps else sql


def _asked_of_pieces(sql: str, conditions: Sequence[Leaf], tables: Tables) -> str:
    """Rows that satisfy conditions; those on the view are asked of that which the row will have."""
    if any(leaf.columns & _VIEW for leaf in conditions):
        sql = _with_own_view(sql, tables)
    return _filtered(sql, conditions)


def _filtered(sql: str, conditions: Sequence[Leaf]) -> str:
    if not conditions:
        return sql
    where = " AND ".join(f"({leaf.text})" for leaf in conditions)
    return f"SELECT {COLUMNS} FROM ({with_span(sql, SHAPE)}) WHERE {where}"


def _sequence(chain: PlannedSequence, tables: Tables) -> str:
    """Moments of all sides that are part of a complete chain.

    A pass from first to last keeps moments with a counterpart in the previous side; a pass back keeps those
    with one in the next side. If the last side is negated, it returns no moments: moments of the side before
    it are kept only without a counterpart.
    """
    sides = [_of_branches(side, tables) for side in chain.sides]
    steps = [f"_side{i} AS MATERIALIZED ({with_order(sql)})" for i, sql in enumerate(sides)]
    ahead, last = ["_side0"], len(sides) - 1 - chain.lacks_last
    for i in range(1, last + 1):
        ahead.append(f"_ahead{i}")
        found = (
            f"SELECT b.* FROM _side{i} b WHERE EXISTS (FROM {ahead[i - 1]} a WHERE {_relation(chain, i - 1)})"
        )
        steps.append(f"_ahead{i} AS MATERIALIZED ({found})")
    kept = [ahead[last]]
    if chain.lacks_last:
        lacking = f"NOT EXISTS (FROM _side{last + 1} b WHERE {_relation(chain, last)})"
        steps.append(f"_lacking AS MATERIALIZED (SELECT a.* FROM {ahead[last]} a WHERE {lacking})")
        kept = ["_lacking"]
    for i in range(last - 1, -1, -1):
        found = f"SELECT a.* FROM {ahead[i]} a WHERE EXISTS (FROM {kept[0]} b WHERE {_relation(chain, i)})"
        kept.insert(0, f"_kept{i}")
        steps.append(f"_kept{i} AS MATERIALIZED ({found})")
    union = " UNION ".join(f"SELECT {COLUMNS} FROM {name}" for name in kept)
    return _asked_of_pieces(f"WITH {', '.join(steps)} {union}", chain.finals, tables)


def _relation(chain: PlannedSequence, i: int) -> str:
    """The condition that a moment a of side i and a moment b of the next side satisfy."""
    relation, within = _RELATIONS[chain.kinds[i].removeprefix("NOT ")], chain.within_seconds[i]
    if within is not None:
        relation += f" AND b.began - a.ended <= {within!r}"
    # If both sides name one entity, a moment is not its own counterpart; but a part of it can be.
    own, found = (", ".join(f"{side}.{column}" for column in _IDENTITY) for side in "ab")
    other = f"({own}) IS DISTINCT FROM ({found})"
    return f"a.video = b.video AND {relation} AND {other}"


def _swept(present: Sequence[str], absent: Sequence[str], videos: str) -> str:
    """Cut time at the ends of all intervals, keep the pieces where the branch holds, and join these.

    Args:
        present, absent: names of the tables of intervals that must, and must not, contain a piece.
        videos: name of the table of videos that can hold an answer.
    """
    ends = [
        f"SELECT video, {edge} AS t FROM {name}"
        for name in (*present, *absent)
        for edge in ("start_time", "end_time")
    ]
    if not present:
        ends += [f"SELECT video, {edge} AS t FROM {videos}" for edge in ("0.0", "duration")]
    edges = " UNION ".join(ends)
    pieces = (
        "SELECT * FROM (SELECT video, t AS a, lead(t) OVER (PARTITION BY video ORDER BY t) AS b"
        f" FROM ({edges})) WHERE b IS NOT NULL"
    )
    inside = "EXISTS (FROM {row} i WHERE i.video = p.video AND i.start_time <= p.a AND i.end_time >= p.b)"
    tests = [inside.format(row=name) for name in present]
    tests += [f"NOT {inside.format(row=name)}" for name in absent]
    held = f"SELECT * FROM ({pieces}) p WHERE {' AND '.join(tests) or 'true'}"
    if not present:
        return _empty(held, videos)
    parts = []
    for name in present:
        clipped = (
            "SELECT i.* REPLACE (p.a AS start_time, p.b AS end_time)"
            f" FROM {name} i JOIN ({held}) p"
            " ON p.video = i.video AND p.a >= i.start_time AND p.b <= i.end_time"
        )
        parts.append(merged(f"SELECT {COLUMNS} FROM ({clipped})", 0.0))
    return " UNION ".join(f"SELECT {COLUMNS} FROM ({part})" for part in parts)


def _empty(held: str, videos: str) -> str:
    """Moments in which nothing is seen, of pieces of time."""
    # Intervals may exceed the duration in the container; time outside of it is no moment.
    empty = (
        "SELECT v.video, v.camera, v.uri, v.duration, v.video_clock, p.a AS start_time, p.b AS end_time,"
        " NULL::VARCHAR AS entity, NULL::DOUBLE AS score, NULL::VARCHAR AS band,"
        " NULL::BIGINT AS track_id, NULL::BIGINT AS frame,"
        " NULL::DOUBLE AS x1, NULL::DOUBLE AS y1, NULL::DOUBLE AS x2,"
        f" NULL::DOUBLE AS y2 FROM ({held}) p JOIN {videos} v ON v.video = p.video"
        " WHERE p.a >= 0 AND p.b <= v.duration"
    )
    return merged(within_alarms(empty), 0.0)


def _with_own_view(moments: str, tables: Tables) -> str:
    """Moments, of which those that were cut have score, track, frame and box of the best view left in them.

    This is of the track that looks most like the entity among those in the piece, in the frame nearest to the
    best view of that track. A piece between two tracks, which are one moment, has no track, frame or box. All
    pieces are looked at together: to join them for each branch takes DuckDB far longer.
    """
    if not tables.views:
        return moments
    same = " AND ".join(
        f"p.{column} IS NOT DISTINCT FROM i.{column}"
        for column in ("video", "entity", "track_id", "start_time", "end_time")
    )
    whole = " UNION ALL ".join(f"SELECT {COLUMNS} FROM {tables.rows[item]}" for item in tables.views)
    every = " UNION ".join(f"SELECT {COLUMNS} FROM {name}" for name in tables.views.values())
    overlapping = (
        "s.video = p.video AND s.entity = p.entity"
        " AND s.start_time < p.end_time AND s.end_time > p.start_time"
    )
    view = ", ".join(f"'{column}': {'sl'[column not in _BEST[:3]]}.{column}" for column in _BEST)
    best = (
        "l.frame IS NULL, s.score DESC NULLS LAST, s.start_time, s.track_id, abs(l.frame - s.frame), l.frame"
    )
    found = (
        f"SELECT p.*, first({{{view}}} ORDER BY {best}) AS best FROM _cut p"
        f" LEFT JOIN ({every}) s ON {overlapping}"
        f" LEFT JOIN {tables.places} l"
        " ON l.track_id = s.track_id AND l.time >= p.start_time AND l.time < p.end_time"
        " GROUP BY ALL"
    )
    picks = ", ".join(
        f"coalesce(best.{column}, {column}) AS {column}" if column in ("score", "band") else f"best.{column}"
        for column in _BEST
    )
    is_cut = f"p.entity IS NOT NULL AND NOT EXISTS (FROM _whole i WHERE {same})"
    return (
        f"SELECT {COLUMNS} FROM (WITH _pieces AS MATERIALIZED ({moments}), _whole AS MATERIALIZED ({whole}),"
        f" _marked AS MATERIALIZED (SELECT p.*, {is_cut} AS is_cut FROM _pieces p),"
        " _cut AS (SELECT * EXCLUDE (is_cut) FROM _marked WHERE is_cut)"
        f" SELECT {COLUMNS} FROM _marked WHERE NOT is_cut UNION ALL SELECT {_OPENED}, {picks} FROM ({found}))"
    )
