"""Writes a planned shorthand as plain DuckDB SQL: a Query enters, one SELECT over stored tables leaves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from panorama.query.clock import clock_seconds
from panorama.query.conditions import Leaf
from panorama.query.handing import found_of, places_of, views_of
from panorama.query.moments_sql import first_moments, moments_branch, moments_intervals, moments_union
from panorama.query.plan import KEY, ORDER, OUTPUT, VIDEO_COLUMNS, Branch, Query, Seen
from panorama.query.relations import SCHEMA, quote_text
from panorama.query.shapes import touching
from panorama.query.space import PLACE
from panorama.query.space_sql import frame_by_frame, space_rows

_VIDEO = "video, camera, uri, duration, video_clock"
_OWN_VIDEO = "{0}.video, {0}.camera, {0}.uri, {0}.duration, {0}.video_clock"
_MATCH = "entity, score, band"
_BOX = "x1, y1, x2, y2"
_CROP_BOX = ", ".join(f"c.{column}::DOUBLE AS {column}" for column in ("x1", "y1", "x2", "y2"))
_SHAPE = (
    "x2 - x1 AS width, y2 - y1 AS height, (x2 - x1) * (y2 - y1) AS area,"
    " (x2 - x1) / nullif(y2 - y1, 0) AS aspect"
)
_CLOCK = f"{clock_seconds('video_clock', 'time')} AS clock"
_SPAN = (
    f"{clock_seconds('video_clock', 'start_time')} AS start_clock,"
    f" {clock_seconds('video_clock', 'end_time')} AS end_clock"
)
_MORE = {
    "frames": f"{_SHAPE}, {_CLOCK}",
    "moments": f"{_SHAPE}, {_SPAN}",
    "tracks": _SPAN,
    "crops": f"{_SHAPE}, {_CLOCK}",
}
"""Columns that a row has on demand."""
_ROWS = {
    "frames": f"{_VIDEO}, frame, time, {_MATCH}, track_id, {_BOX}",
    "tracks": f"{_VIDEO}, track_id, start_time, end_time, start_frame, end_frame, samples, {_MATCH}",
    "crops": f"{_VIDEO}, crop_id, track_id, frame, time, quality, {_BOX}, {_MATCH}",
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
# What a row of matched tracks has before it is spread over frames or crops.
_BEFORE_ROWS = dict.fromkeys(("frames", "crops"), VIDEO_COLUMNS | {"entity", "score", "band", "track_id"})
_BOUND_MARGIN_SECONDS = 1.0
"""Bounds only leave out work: tracks that begin or end this near are kept, however they were rounded."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the pieces of one shorthand; `_p1_` and so on, which nobody's own tables have."""

    number: int

    @property
    def matches(self) -> str:
        """The table of matches that the engine registers."""
        return f"_p{self.number}_matches"

    @property
    def videos(self) -> str:
        """The videos that can hold an answer."""
        return f"_p{self.number}_videos"

    @property
    def places(self) -> str:
        """Interpolated boxes of every track looked for."""
        return f"_p{self.number}_places"

    def tracks(self, j: int) -> str:
        """Tracks of the j-th thing looked for."""
        return f"_p{self.number}_tracks{j}"

    def rows(self, j: int) -> str:
        """Rows (or intervals) of the j-th thing looked for."""
        return f"_p{self.number}_rows{j}"


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of one shorthand, by its name in WITH; `kept` where it is computed once, however often used."""

    name: str
    sql: str
    kept: bool = False


def compile_query(query: Query) -> str:
    """The SELECT that answers a shorthand, to stand where it stood."""
    names = Names(query.number)
    seen = query.every_seen()
    given = replace(query, first_rows=None) if _first_are_given(query) else query
    steps = _track_steps(given, names)
    if any(frame_by_frame(query, item) for item in seen) and not follows_known(query):
        steps.append(Step(names.places, _places(query, seen, names)))
    for j, item in enumerate(seen):
        more = _MORE[query.target]
        placed = space_rows(query, item, names.tracks(j), _places_in(query), more, _late(query, item))
        if query.target == "moments":
            rows = moments_intervals(f"({placed})" if placed else names.tracks(j), item)
        else:
            rows = f"SELECT {_ROWS[query.target]} FROM ({placed})" if placed else _rows(query, item, j)
        steps.append(Step(names.rows(j), rows))
    index = {item: j for j, item in enumerate(seen)}
    if query.target == "moments":
        branches = [
            moments_branch(branch, {s: names.rows(j) for s, j in index.items()}, names.videos)
            for branch in query.branches
        ]
        body = moments_union(branches)
    else:
        body = _pointwise(query, index, names)
    if query.target != "crops" and all(item.source == "known" for item in seen):
        # What is used once and joins only what is given is planned in its place.
        steps = [replace(step, kept=step.kept and _uses(step.name, steps, body) > 1) for step in steps]
    return _outer(query, _with(steps, body))


def _with(steps: Sequence[Step], body: str) -> str:
    """A SELECT and the steps before it."""
    kept = {True: " MATERIALIZED", False: ""}
    return f"WITH {', '.join(f'{step.name} AS{kept[step.kept]} ({step.sql})' for step in steps)} {body}"


def _uses(name: str, steps: Sequence[Step], body: str) -> int:
    """How often a step is named in the others and in what follows them."""
    return sum(len(re.findall(rf"\b{name}\b", sql)) for sql in (*(step.sql for step in steps), body))


def _track_steps(query: Query, names: Names) -> list[Step]:
    """The videos that can hold an answer, and the tracks of everything looked for."""
    videos = (
        f"SELECT *, start_clock AS video_clock FROM {SCHEMA}.videos"
        f"{_where(query.shared, _bracketed(query.video_clock_sql()))}"
    )
    steps = [Step(names.videos, videos, kept=True)]
    for j, item in enumerate(query.every_seen()):
        steps.append(Step(names.tracks(j), _tracks(query, item, names), kept=True))
    return steps


def tracks_to_follow(query: Query) -> str:
    """SQL of the ids of the tracks that a shorthand follows through every frame."""
    names = Names(query.number)
    picks = " UNION ".join(
        f"SELECT track_id FROM {names.tracks(j)}"
        for j, item in enumerate(query.every_seen())
        if frame_by_frame(query, item)
    )
    return _with(_track_steps(query, names), picks)


def places_from_files(query: Query) -> str:
    """SQL of the table of places of a shorthand that follows known tracks, where they are too many."""
    names = Names(query.number)
    return _with(_track_steps(query, names), _places(query, query.every_seen(), names))


def _first_are_given(query: Query) -> bool:
    """Whether what is handed over leaves a box for the frames of the first tracks only: `worth_following`."""
    conditions = any(item.conditions for item in query.every_seen())
    return query.target == "frames" and follows_known(query) and not conditions


def _places_in(query: Query) -> str:
    """The name of what holds a box for every frame: where the tracks are known, a table that is given."""
    names = Names(query.number)
    return places_of(names.matches) if follows_known(query) else names.places


def follows_known(query: Query) -> bool:
    """Whether tracks that matched, and no others, are followed through every frame."""
    followed = [item for item in query.every_seen() if frame_by_frame(query, item)]
    return bool(followed) and all(item.source == "known" for item in followed)


def output_columns(query: Query) -> tuple[str, ...]:
    """The columns that the shorthand returns, in order; one that is named and returned anyway stays there."""
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
    if any(_asks_more(text) for text in (order or "", *(name for name, _ in query.columns))):
        source = f"(SELECT *, {_MORE[query.target]} FROM {source})"
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


def _bracketed(text: str) -> str:
    return f"({text})" if text else ""


def _where(conditions: tuple[Leaf, ...], *more: str) -> str:
    texts = [f"({leaf.text})" for leaf in conditions] + [text for text in more if text]
    return f" WHERE {' AND '.join(texts)}" if texts else ""


def _tracks(query: Query, seen: Seen, names: Names) -> str:
    """Tracks of one thing looked for, with their video and match."""
    video = f"{_OWN_VIDEO.format('v')}, v.frames AS video_frames"
    of_video = f"JOIN {names.videos} v ON v.segment = t.segment"
    unmatched = "NULL::VARCHAR AS entity, NULL::DOUBLE AS score, NULL::VARCHAR AS band"
    if seen.source == "known":
        source = f"SELECT t.*, {video} FROM {found_of(names.matches)} t {of_video}"
    else:
        source = (
            f"SELECT t.*, {video}, {unmatched}, NULL::BIGINT AS best_crop FROM {SCHEMA}.tracks t {of_video}"
        )
    if seen.source == "unknown":
        source += f" WHERE t.track_id NOT IN (SELECT track_id FROM {names.matches} WHERE band <> 'rejected')"
    filters = [_known_filter(seen), *_bound_filters(query)]
    if query.shapes and seen.source != "known":  # of the others, matching has left out what is far from them
        filters.append(f"track_id IN ({touching(query.shapes, query.crossed, names.videos)})")
    early = _BEFORE_ROWS.get(query.target)
    conditions = tuple(
        leaf
        for leaf in seen.conditions
        if PLACE not in leaf.columns and (early is None or leaf.columns <= early)
    )
    if query.target == "tracks" and conditions:
        source = f"SELECT *, {_SPAN} FROM ({source})"
    # A query of its own around what people wrote: they see no names of ours, not even in errors.
    plain = seen.source == "known" and not conditions
    sql = (source if plain else f"SELECT * FROM ({source})") + _where(conditions, *filters)
    if query.first_rows is not None and query.target == "moments":
        sql = first_moments(sql, query.first_rows, query.best_first)
    elif query.first_rows is not None:
        sql = (_best_tracks if query.best_first else _first_tracks)(sql, query.first_rows)
    if query.target != "moments":
        return sql
    return _with_best_view(sql, views_of(names.matches) if seen.source == "known" else None)


def _known_filter(seen: Seen) -> str:
    if seen.source != "known":
        return ""
    if not seen.names:
        return "false"
    listed = f"entity IN ({', '.join(quote_text(name) for name in seen.names)})"
    return f"band = 'accepted' AND {listed}" if seen.calibrated else listed


def _bound_filters(query: Query) -> list[str]:
    filters = []
    if query.bounds.low is not None:
        filters.append(f"end_time > {query.bounds.low - _BOUND_MARGIN_SECONDS!r}")
    if query.bounds.high is not None:
        filters.append(f"start_time <= {query.bounds.high + _BOUND_MARGIN_SECONDS!r}")
    return [*filters, _bracketed(query.track_clock_sql())]


def _first_tracks(tracks: str, rows: int) -> str:
    """Only the tracks that the first rows in the default order can come from.

    Tracks in order of video and start are taken until their frames are enough; a later track of the same
    video matters only if it starts before the last of those ends.
    """
    taken = _counted(tracks, "video, start_frame, track_id, entity")
    return (
        f"SELECT * EXCLUDE (rows_before, last_video, last_frame) FROM (SELECT *, max(video) FILTER"
        f" (rows_before < {rows}) OVER () AS last_video, max({{'video': video, 'frame': end_frame}}) FILTER"
        f" (rows_before < {rows}) OVER () AS last_frame FROM ({taken})) WHERE video < last_video"
        " OR (video = last_video AND start_frame < last_frame.frame)"
    )


def _best_tracks(tracks: str, rows: int) -> str:
    """Only the tracks that the rows of the best scores can come from: rows of a track share its score."""
    taken = _counted(tracks, "score DESC, video, start_frame, track_id, entity")
    return (
        f"SELECT * EXCLUDE (rows_before, last_score) FROM (SELECT *, min(score) FILTER (rows_before < {rows})"
        f" OVER () AS last_score FROM ({taken})) WHERE score >= last_score"
    )


def _counted(tracks: str, order: str) -> str:
    """Tracks with the number of rows that those before them give."""
    length = "greatest(least(end_frame, video_frames) - start_frame, 0)"
    return (
        f"SELECT *, sum({length}) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) - {length} AS rows_before"
        f" FROM ({tracks})"
    )


def _with_best_view(tracks: str, views: str | None) -> str:
    """Frame and box of the crop that matched best, or of the clearest crop of tracks without a match."""
    if views is not None:
        crops = f"{views} c ON c.crop_id = t.best_crop"
    else:
        clearest = "row_number() OVER (PARTITION BY track_id ORDER BY quality DESC, crop_id)"
        crops = (
            f"(SELECT track_id, frame, {_BOX} FROM {SCHEMA}.crops QUALIFY {clearest} = 1) c"
            " ON c.track_id = t.track_id"
        )
    return f"SELECT t.*, c.frame, {_CROP_BOX} FROM ({tracks}) t LEFT JOIN {crops}"


def _places(query: Query, seen: tuple[Seen, ...], names: Names) -> str:
    """Boxes of every frame of the tracks looked for: each sample reaches to the next one.

    Between two samples the box moves linearly in time; before the first and after the last it stands still.
    """
    picks = " UNION ".join(
        f"SELECT segment, track_id, start_frame, least(end_frame, video_frames) AS end_frame"
        f" FROM {names.tracks(j)} t{_beside(query, seen, j, names)}"
        for j, item in enumerate(seen)
        if frame_by_frame(query, item)
    )
    following = ", ".join(
        f"lead(b.{c}) OVER w AS next_{c}" for c in ("frame", "time", "x1", "y1", "x2", "y2")
    )
    samples = (
        f"SELECT b.segment, b.track_id, b.frame, b.time, b.x1, b.y1, b.x2, b.y2, {following},"
        " lag(b.frame) OVER w IS NULL AS is_first, p.start_frame, p.end_frame"
        f" FROM {SCHEMA}.boxes b JOIN ({picks}) p ON p.track_id = b.track_id AND p.segment = b.segment"
        " WINDOW w AS (PARTITION BY b.track_id ORDER BY b.frame)"
    )
    spread = (
        "SELECT *, unnest(range(CASE WHEN is_first THEN least(start_frame, frame) ELSE frame END,"
        f" coalesce(next_frame, greatest(end_frame, frame + 1)))) AS at_frame FROM ({samples})"
    )
    moved = ", ".join(
        f"(s.{c} + share * (coalesce(s.next_{c}, s.{c}) - s.{c}))::DOUBLE AS {c}"
        for c in ("x1", "y1", "x2", "y2")
    )
    share = (
        "CASE WHEN s.next_time IS NULL OR f.time <= s.time THEN 0.0::DOUBLE"
        " ELSE least(1.0, (f.time - s.time) / (s.next_time - s.time)) END AS share"
    )
    return (
        f"SELECT track_id, at_frame AS frame, at_time AS time, {moved} FROM (SELECT s.*, f.time AS at_time,"
        f" {share} FROM ({spread}) s JOIN {SCHEMA}.frames f"
        " ON f.segment = s.segment AND f.frame = s.at_frame) s"
    )


def _beside(query: Query, seen: tuple[Seen, ...], j: int, names: Names) -> str:
    """Leaves out tracks that overlap no track of what must be seen beside them: they decide nothing."""
    if len(query.branches) != 1 or query.target != "frames":
        return ""
    others = [seen.index(item) for item in query.branches[0].seen if item != seen[j]]
    tests = [
        f"EXISTS (FROM {names.tracks(k)} o WHERE o.segment = t.segment"
        " AND o.start_frame < t.end_frame AND t.start_frame < o.end_frame)"
        for k in others
    ]
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _late(query: Query, seen: Seen) -> tuple[Leaf, ...]:
    """The conditions that tracks cannot be asked before they are spread over frames or crops."""
    early = _BEFORE_ROWS.get(query.target)
    return tuple(leaf for leaf in seen.conditions if early is not None and not leaf.columns <= early)


def _rows(query: Query, seen: Seen, j: int) -> str:
    """Rows of one thing looked for, as the target has them."""
    names = Names(query.number)
    tracks = names.tracks(j)
    if query.target == "tracks":
        return f"SELECT {_ROWS['tracks']} FROM {tracks}"
    if query.target == "frames":
        own = f"{_OWN_VIDEO.format('t')}, p.frame, p.time, {_MATCH}, t.track_id, {_BOX}"
        source = f"SELECT {own} FROM {tracks} t JOIN {_places_in(query)} p ON p.track_id = t.track_id"
    else:
        source = (
            f"SELECT {_OWN_VIDEO.format('t')}, c.crop_id, t.track_id, c.frame, c.time,"
            f" c.quality::DOUBLE AS quality, {_CROP_BOX}, {_MATCH} FROM {tracks} t"
            f" JOIN {SCHEMA}.crops c ON c.track_id = t.track_id AND c.segment = t.segment"
        )
    late = _late(query, seen)
    if not late:
        return source
    more = _MORE[query.target]
    return f"SELECT {_ROWS[query.target]} FROM (SELECT *, {more} FROM ({source})){_where(late)}"


def _universe(query: Query, names: Names) -> str:
    """Every row that the target has, without entities."""
    nothing = {column: f"NULL::{kind} AS {column}" for column, kind in _NULLS.items()}
    match = ", ".join(nothing[column] for column in ("entity", "score", "band"))
    video = _OWN_VIDEO.format("v")
    if query.target == "frames":
        places = ", ".join(nothing[column] for column in ("track_id", "x1", "y1", "x2", "y2"))
        return (
            f"SELECT {video}, f.frame, f.time, {match}, {places}"
            f" FROM {names.videos} v JOIN {SCHEMA}.frames f ON f.segment = v.segment"
        )
    if query.target == "tracks":
        track = "t.track_id, t.start_time, t.end_time, t.start_frame, t.end_frame, t.samples"
        return (
            f"SELECT {video}, {track}, {match}"
            f" FROM {names.videos} v JOIN {SCHEMA}.tracks t ON t.segment = v.segment"
        )
    return (
        f"SELECT {video}, c.crop_id, c.track_id, c.frame, c.time, c.quality::DOUBLE AS quality,"
        f" {_CROP_BOX}, {match} FROM {names.videos} v JOIN {SCHEMA}.crops c ON c.segment = v.segment"
    )


def _pointwise(query: Query, index: dict[Seen, int], names: Names) -> str:
    """All branches of frames, tracks or crops; rows without entities only where no other branch has any."""
    key = ", ".join(KEY[query.target])
    seeing = [_branch(query, branch, index, names) for branch in query.branches if branch.seen]
    lacking = [_branch(query, branch, index, names) for branch in query.branches if not branch.seen]
    # The same row comes twice where names of two conditions overlap, or two branches hold.
    union = " UNION ALL " if len(query.branches) == 1 and _disjoint(query.branches[0].seen) else " UNION "
    if not lacking:
        return union.join(seeing)
    empty = " UNION ".join(lacking)
    if not seeing:
        return empty
    rows = union.join(seeing)
    return f"{rows} UNION ALL SELECT * FROM ({empty}) ANTI JOIN (SELECT {key} FROM ({rows})) USING ({key})"


def _disjoint(seen: tuple[Seen, ...]) -> bool:
    names = [name for item in seen for name in item.names]
    return len(set(names)) == len(names) and (len(seen) == 1 or all(item.names for item in seen))


_ON_DEMAND = re.compile(r"width|height|area|aspect|clock|columns|[*\\\"]", re.IGNORECASE)


def _asks_more(text: str) -> bool:
    """Whether a text of SQL may name a column that a row has on demand only."""
    return _ON_DEMAND.search(text) is not None


def _branch(query: Query, branch: Branch, index: dict[Seen, int], names: Names) -> str:
    """Rows of one branch: those of everything seen in it, where all of it is seen and nothing unseen is."""
    key = ", ".join(KEY[query.target])
    columns = _ROWS[query.target]
    shape = f", {_MORE[query.target]}" if any(_asks_more(leaf.text) for leaf in branch.where) else ""
    absent = "".join(
        f" ANTI JOIN {names.rows(index[item])} absent{i} USING ({key})"
        for i, item in enumerate(branch.unseen)
    )
    where = _where(branch.where)
    if not branch.seen:
        return f"SELECT {columns} FROM (SELECT *{shape} FROM ({_universe(query, names)}) {absent}){where}"
    parts = []
    for item in branch.seen:
        others = [other for other in branch.seen if other != item]
        present = "".join(
            f" SEMI JOIN {names.rows(index[other])} present{i} USING ({key})"
            for i, other in enumerate(others)
        )
        rows = f"(SELECT *{shape} FROM {names.rows(index[item])} own{present}{absent})"
        if not (present or absent or where):
            rows = names.rows(index[item])
        parts.append(f"SELECT {columns} FROM {rows}{where}")
    return (" UNION ALL " if _disjoint(branch.seen) else " UNION ").join(parts)
