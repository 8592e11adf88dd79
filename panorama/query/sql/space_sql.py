"""Tracks and their boxes come in; SQL goes out for the frames, stays or tracks that satisfy predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from panorama.query.shorthands.clock_sql import with_span
from panorama.query.shorthands.conditions import Leaf
from panorama.query.shorthands.plan import Pair, Query, Seen
from panorama.query.shorthands.space import steps_in
from panorama.query.text.quoting import quote_text

_TRACK = (
    "t.video, t.camera, t.uri, t.duration, t.video_clock, t.entity, t.score, t.band, t.track_id,"
    " t.start_time, t.end_time, t.start_frame, t.end_frame, t.samples"
)
_SPAN = frozenset(("start_clock", "end_clock"))
_BOX = ("x1", "y1", "x2", "y2")
_SEEN = "PARTITION BY video, entity, track_id ORDER BY frame"


def frame_by_frame(query: Query, seen: Seen) -> bool:
    """Whether a thing looked for must be followed through every frame."""
    if query.target == "frames":
        return True
    placed = query.target in ("moments", "tracks") and bool(seen.placed or seen.pair)
    return placed or query.may_cut(seen)


def space_rows(
    query: Query, seen: Seen, tracks: str, places: str, more: Callable[[str], str], late: Sequence[Leaf]
) -> str | None:
    """Rows of one thing looked for, in the form of the target; None if no predicate of space decides.

    Args:
        tracks: name of the table of its tracks.
        places: name of the table of interpolated boxes.
        more: adds to SQL of frames the columns that their rows have on demand.
        late: the conditions on a frame's row, including those of space.

    Returns:
        For frames, a row per frame; for moments, the stays of each track, not merged; for tracks, tracks.
    """
    if query.target == "crops" or not (seen.pair or seen.placed):
        return None
    if query.target == "frames" and not seen.pair and not steps_in(seen.placed):
        return None
    track = _TRACK
    if query.target == "tracks" and any(leaf.columns & _SPAN for leaf in seen.placed):
        tracks = f"({with_span(f'SELECT {_TRACK} FROM {tracks} t')})"
        track += ", t.start_clock, t.end_clock"
    points = _points(query, seen, track, tracks, places)
    where = " AND ".join(f"({leaf.text})" for leaf in seen.placed)
    if query.target == "tracks":
        return _whole_tracks(seen.pair, track.replace("t.", ""), points, where)
    if query.target == "frames" and late:
        where = " AND ".join(f"({leaf.text})" for leaf in late)
        points = more(points)
    if where:
        points = f"SELECT * FROM ({points}) WHERE {where}"
    points = _paired(seen.pair, points) if seen.pair is not None else points
    return points if query.target == "frames" else _stays(points)


def _whole_tracks(pair: Pair | None, columns: str, points: str, where: str) -> str:
    """The tracks that satisfy conditions over all their frames; of a pair, those that meet in some frame."""
    grouped = f" GROUP BY {columns}"
    having = f"{grouped} HAVING {where}" if where else grouped
    if pair is None:
        return f"SELECT {columns} FROM ({points}){having}"
    if not where:
        return f"SELECT {columns} FROM {_paired(pair, points)}{grouped}"
    # Outside of the frames in which two are together, their tracks may be somewhere else.
    kept = f"FROM followed SEMI JOIN (SELECT {columns} FROM followed{having}) USING (video, entity, track_id)"
    return f"WITH followed AS MATERIALIZED ({points}) SELECT {columns} FROM {_paired(pair, kept)}{grouped}"


def _points(query: Query, seen: Seen, track: str, tracks: str, places: str) -> str:
    """A row per frame and track, with its box and, if needed, the box of the previous frame."""
    best = ", t.frame AS best_frame" if query.target == "moments" else ""
    box = ", ".join(f"p.{side}" for side in _BOX)
    sql = f"SELECT {track}{best}, p.frame, p.time, {box} FROM {tracks} t JOIN {places} p USING (track_id)"
    more = ["coalesce(lead(time) OVER w, end_time) AS until"] if query.target == "moments" else []
    if steps_in(seen.placed):
        more += [f"lag({side}) OVER w AS from_{side}" for side in _BOX]
    return f"SELECT *, {', '.join(more)} FROM ({sql}) WINDOW w AS ({_SEEN})" if more else sql


def _paired(pair: Pair, points: str) -> str:
    """The rows of both entities that have a counterpart in the same frame."""
    both = (
        f"a.entity = {quote_text(pair.left)} AND b.entity = {quote_text(pair.right)} AND a.video = b.video"
        f" AND a.frame = b.frame AND a.track_id <> b.track_id AND {pair.text}"
    )
    return (
        f"(WITH points AS MATERIALIZED ({points})"
        f" SELECT a.* FROM points a WHERE EXISTS (FROM points b WHERE {both})"
        f" UNION SELECT b.* FROM points b WHERE EXISTS (FROM points a WHERE {both}))"
    )


def _stays(points: str) -> str:
    """Consecutive frames of a track as one interval, with the view nearest to the track's best view."""
    view = ", ".join(f"'{column}': {column}" for column in ("frame", *_BOX))
    opened = ", ".join(f"view.{column} AS {column}" for column in ("frame", *_BOX))
    same = "video, camera, uri, duration, video_clock, entity, score, band, track_id"
    numbered = f"SELECT *, frame - row_number() OVER ({_SEEN}) AS run FROM ({points})"
    return (
        f"SELECT * EXCLUDE (view), {opened} FROM (SELECT {same}, min(time) AS start_time,"
        f" max(until) AS end_time, first({{{view}}} ORDER BY abs(frame - best_frame), frame) AS view"
        f" FROM ({numbered}) GROUP BY {same}, run)"
    )
