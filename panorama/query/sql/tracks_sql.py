"""A Query comes in; SQL goes out for the videos that may hold answers and for the tracks looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from panorama.query.handed.handing import found_of, views_of
from panorama.query.handed.relations import SCHEMA
from panorama.query.handed.shapes import touching
from panorama.query.shorthands.clock import MARGIN_SECONDS
from panorama.query.shorthands.clock_sql import VIDEO_CLOCK, with_span
from panorama.query.shorthands.conditions import Leaf
from panorama.query.shorthands.plan import VIDEO_COLUMNS, Query, Seen
from panorama.query.shorthands.space import PLACE
from panorama.query.sql.moments_sql import first_moments
from panorama.query.text.quoting import quote_text
from panorama.store.files.schema import BEST_FIRST

OWN_VIDEO = "{0}.video, {0}.camera, {0}.uri, {0}.duration, {0}.video_clock"
BOX = "x1, y1, x2, y2"
CROP_BOX = ", ".join(f"c.{column}::DOUBLE AS {column}" for column in ("x1", "y1", "x2", "y2"))
# Columns of matched tracks that exist before the tracks are spread over frames or crops.
_BEFORE_ROWS = dict.fromkeys(("frames", "crops"), VIDEO_COLUMNS | {"entity", "score", "band", "track_id"})


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the tables of one shorthand: `_p1_...` and so on, which no user's tables have."""

    number: int

    @property
    def matches(self) -> str:
        """The table of matches that the engine registers."""
        return f"_p{self.number}_matches"

    @property
    def videos(self) -> str:
        """The table of videos that can hold an answer."""
        return f"_p{self.number}_videos"

    @property
    def places(self) -> str:
        """The table of interpolated boxes of every track looked for."""
        return f"_p{self.number}_places"

    def tracks(self, j: int) -> str:
        """The table of tracks of the j-th thing looked for."""
        return f"_p{self.number}_tracks{j}"

    def views(self, j: int) -> str:
        """The table of intervals of the j-th thing looked for, with the best view of each."""
        return f"_p{self.number}_views{j}"

    def rows(self, j: int) -> str:
        """The table of rows (or intervals) of the j-th thing looked for."""
        return f"_p{self.number}_rows{j}"


@dataclass(frozen=True, slots=True)
class Step:
    """One WITH item of a shorthand; `kept` if it is materialized, so that it is computed only once."""

    name: str
    sql: str
    kept: bool = False


def with_steps(steps: Sequence[Step], body: str) -> str:
    """A SELECT with its steps in a WITH before it."""
    kept = {True: " MATERIALIZED", False: ""}
    return f"WITH {', '.join(f'{step.name} AS{kept[step.kept]} ({step.sql})' for step in steps)} {body}"


def track_steps(query: Query, names: Names, *, apart: bool = False) -> list[Step]:
    """The videos that can hold an answer, and the tracks of everything looked for.

    Args:
        apart: whether they are for a statement of their own. It has no condition that only the user's
            statement can ask, so it may find more videos and tracks.
    """
    shared, seen = query.shared, query.every_seen()
    if apart and not all(leaf.asked_apart for leaf in (*shared, *_conditions(seen))):
        shared = _asked_apart(shared)
        query = replace(query, first_rows=None)  # the first of more tracks may be others
    videos = (
        f"SELECT *, {VIDEO_CLOCK} FROM {SCHEMA}.videos"
        f"{where_all(shared, _bracketed(query.video_clock_sql()))}"
    )
    steps = [Step(names.videos, videos, kept=True)]
    for j, item in enumerate(seen):
        steps.append(Step(names.tracks(j), _tracks(query, item, names, apart), kept=True))
    return steps


def _conditions(seen: Sequence[Seen]) -> Iterator[Leaf]:
    return (leaf for item in seen for leaf in item.conditions)


def _asked_apart(conditions: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    return tuple(leaf for leaf in conditions if leaf.asked_apart)


def where_all(conditions: tuple[Leaf, ...], *more: str) -> str:
    """A WHERE with all conditions and further SQL; '' if there are none."""
    texts = [f"({leaf.text})" for leaf in conditions] + [text for text in more if text]
    return f" WHERE {' AND '.join(texts)}" if texts else ""


def late_conditions(query: Query, seen: Seen) -> tuple[Leaf, ...]:
    """The conditions that can be checked only after tracks are spread over frames or crops."""
    return tuple(leaf for leaf in seen.conditions if not _is_early(query, leaf))


def _is_early(query: Query, leaf: Leaf) -> bool:
    """Whether a condition can be checked on tracks; chance is asked anew for each row of the target."""
    early = _BEFORE_ROWS.get(query.target)
    return early is None or (leaf.columns <= early and not leaf.by_chance)


def _bracketed(text: str) -> str:
    return f"({text})" if text else ""


def _tracks(query: Query, seen: Seen, names: Names, apart: bool) -> str:
    """SQL of the tracks of one thing looked for, with their video and match; see `track_steps`."""
    video = f"{OWN_VIDEO.format('v')}, v.frames AS video_frames"
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
    if query.shapes and seen.source != "known":  # matching has removed the far ones of the others
        filters.append(f"track_id IN ({touching(query.shapes, query.crossed, names.videos)})")
    conditions = tuple(
        leaf for leaf in seen.conditions if PLACE not in leaf.columns and _is_early(query, leaf)
    )
    conditions = _asked_apart(conditions) if apart else conditions
    if query.target == "tracks" and conditions:
        source = with_span(source)
    # The users' conditions get a query of their own: they see none of our names, not even in errors.
    plain = seen.source == "known" and not conditions
    sql = (source if plain else f"SELECT * FROM ({source})") + where_all(conditions, *filters)
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
        filters.append(f"end_time > {query.bounds.low - MARGIN_SECONDS!r}")
    if query.bounds.high is not None:
        filters.append(f"start_time <= {query.bounds.high + MARGIN_SECONDS!r}")
    return [*filters, _bracketed(query.track_clock_sql())]


def _first_tracks(tracks: str, rows: int) -> str:
    """Only the tracks that the first rows in the default order can come from.

    Tracks are taken in the order of video and start until their frames are enough. A later track of the same
    video matters only if it starts before the last of these ends.
    """
    taken = _counted(tracks, "video, start_frame, track_id, entity")
    return (
        f"SELECT * EXCLUDE (rows_before, last_video, last_frame) FROM (SELECT *, max(video) FILTER"
        f" (rows_before < {rows}) OVER () AS last_video, max({{'video': video, 'frame': end_frame}}) FILTER"
        f" (rows_before < {rows}) OVER () AS last_frame FROM ({taken})) WHERE video < last_video"
        " OR (video = last_video AND start_frame < last_frame.frame)"
    )


def _best_tracks(tracks: str, rows: int) -> str:
    """Only the tracks that the best-scored rows can come from; all rows of a track have its score."""
    taken = _counted(tracks, "score DESC, video, start_frame, track_id, entity")
    return (
        f"SELECT * EXCLUDE (rows_before, last_score) FROM (SELECT *, min(score) FILTER (rows_before < {rows})"
        f" OVER () AS last_score FROM ({taken})) WHERE score >= last_score"
    )


def _counted(tracks: str, order: str) -> str:
    """Tracks, each with the number of rows that the tracks before it give."""
    length = "greatest(least(end_frame, video_frames) - start_frame, 0)"
    return (
        f"SELECT *, sum({length}) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) - {length} AS rows_before"
        f" FROM ({tracks})"
    )


def _with_best_view(tracks: str, views: str | None) -> str:
    """Add frame and box of the best-matching crop or, for tracks without a match, of the clearest crop."""
    if views is not None:
        crops = f"{views} c ON c.crop_id = t.best_crop"
    else:
        clearest = f"row_number() OVER (PARTITION BY track_id ORDER BY {BEST_FIRST})"
        crops = (
            f"(SELECT track_id, frame, {BOX} FROM {SCHEMA}.crops QUALIFY {clearest} = 1) c"
            " ON c.track_id = t.track_id"
        )
    return f"SELECT t.*, c.frame, {CROP_BOX} FROM ({tracks}) t LEFT JOIN {crops}"
