"""Intervals and instants of videos come in; SQL of when they were by the wall clock goes out.

The clock of a film runs on from its start. Pictures of a folder may have times of their own, which are joined
by one number; see `panorama.query.handed.clocks`.
"""

from __future__ import annotations

from panorama.frames import PICTURES_PER_SECOND

VIDEO_CLOCK = "{'start': start_clock, 'key': clock_key} AS video_clock"
"""SQL over the stored videos of what their rows need to tell the clock."""
PICTURE_CLOCKS = "_panorama.picture_clocks"
"""The table of pictures that have times of their own, see `panorama.query.handed.clocks`."""
PICTURE_SPANS = "_panorama.picture_spans"
"""The table of the times of several such pictures that are not in order of time; see there."""
PICTURE_ALARMS = "_panorama.picture_alarms"
"""The table of the first and last picture of each alarm; see there."""
_FRAME = f"INTERVAL {1_000_000 // PICTURES_PER_SECOND} MICROSECONDS"
_STEP = f"{1 / PICTURES_PER_SECOND!r}::DOUBLE"
"""Seconds between two pictures; readers multiply with it, and other arithmetic gives other last bits."""


def clock_seconds(base: str, seconds: str) -> str:
    """SQL of the wall-clock time that lies `seconds` after `base`."""
    return f"{base} + to_microseconds(CAST(round({seconds} * 1e6) AS BIGINT))"


def _instant_of(base: str, seconds: str) -> str:
    """SQL of the clock of the picture `p`, see `joined_picture`; for films, `seconds` after `base`."""
    return f"CASE WHEN p._key IS NULL THEN {clock_seconds(base, seconds)} ELSE p._clock END"


def joined_picture(key: str, seconds: str) -> str:
    """SQL that joins rows with the picture `p` that is shown at an instant of their video, if it has a clock.

    Args:
        key: of the video's pictures in the table `picture_clocks`, NULL for films.
        seconds: the instant.
    """
    return f"LEFT JOIN {PICTURE_CLOCKS} p ON p._key = {key} + {_number(seconds)}"


def joined_ends(key: str, start: str, end: str) -> str:
    """The same for intervals: with the first picture `p` of each, and the last one `q`."""
    last = f"LEFT JOIN {PICTURE_CLOCKS} q ON q._key = {key} + {_number(end)} - 1"
    return f"{joined_picture(key, start)} {last}"


def joined_pictures(key: str, start: str, end: str) -> str:
    """The same, and with the spans `l` and `r` that begin and end with these two and cover the interval.

    If the pictures are in order of time, `p` and `q` tell all, and there are no such spans. They are found by
    the keys of these two: DuckDB takes three times as long to plan for expressions over the interval.
    """
    level = "length(bin(q._key - p._key + 1)) - 1"
    return (
        f"{joined_ends(key, start, end)}"
        f" LEFT JOIN {PICTURE_SPANS} l ON l._key = p._key AND l._level = {level}"
        f" LEFT JOIN {PICTURE_SPANS} r ON r._last_key = q._key AND r._level = {level}"
    )


def _earliest(column: str) -> str:
    """SQL of the first time of an interval, over `joined_pictures`; NULL if none of its pictures has one."""
    return f"least(p.{column}, q.{column}, l.{column}, r.{column})"


def _latest(column: str) -> str:
    """SQL of the last time."""
    return f"greatest(p.{column}, q.{column}, l._last{column}, r._last{column})"


def span_of(column: str, base: str, start: str, end: str) -> tuple[str, str]:
    """SQL of the times at which intervals begin and end, over `joined_pictures`.

    They are the earliest and the latest time of all pictures in them; pictures of unknown time do not count.
    A picture lasts as long as it does in its video.
    """
    return (
        f"CASE WHEN p._key IS NULL THEN {clock_seconds(base, start)} ELSE {_earliest(column)} END",
        f"CASE WHEN p._key IS NULL THEN {clock_seconds(base, end)} ELSE {_latest(column)} + {_FRAME} END",
    )


def instants_of_films(columns: str, source: str, seconds: str) -> str:
    """SQL of rows that are instants of videos `v`, with their `clock`, if no picture has a time of its own.

    Args:
        columns, source: SQL of the other columns, and of the tables behind FROM.
        seconds: the instant.
    """
    return f"SELECT {columns}, {clock_seconds('v.start_clock', seconds)} AS clock FROM {source}"


def instants(columns: str, source: str, seconds: str) -> str:
    """The same if pictures may have times of their own.

    Films come first, in a SELECT of their own: most rows are of films, and with the join it takes up to three
    times the work to count them.
    """
    clock = _instant_of("v.start_clock", seconds)
    return (
        f"{instants_of_films(columns, source, seconds)} WHERE v.clock_key IS NULL"
        f" UNION ALL SELECT {columns}, {clock} AS clock FROM {source}"
        f" {joined_picture('v.clock_key', seconds)} WHERE v.clock_key IS NOT NULL"
    )


def spans_of_films(columns: str, source: str, start: str, end: str) -> str:
    """SQL of rows that are intervals, with `start_clock` and `end_clock`; see `instants_of_films`."""
    begun, ended = (clock_seconds("v.start_clock", edge) for edge in (start, end))
    return f"SELECT {columns}, {begun} AS start_clock, {ended} AS end_clock FROM {source}"


def spans(columns: str, source: str, start: str, end: str) -> str:
    """The same if pictures may have times of their own; see `instants`."""
    begun, ended = span_of("_clock", "v.start_clock", start, end)
    return (
        f"{spans_of_films(columns, source, start, end)} WHERE v.clock_key IS NULL"
        f" UNION ALL SELECT {columns}, {begun} AS start_clock, {ended} AS end_clock FROM {source}"
        f" {joined_pictures('v.clock_key', start, end)} WHERE v.clock_key IS NOT NULL"
    )


def with_clock(rows: str, more: str = "") -> str:
    """SQL of rows that are instants, with their `clock`.

    Args:
        rows: SQL with `time` and `video_clock`.
        more: SQL of further columns, with a comma behind them.
    """
    clock = _instant_of("s.video_clock.start", "s.time")
    joined = joined_picture("s.video_clock.key", "s.time")
    return f"SELECT s.*, {more}{clock} AS clock FROM ({rows}) s {joined}"


def with_span(rows: str, more: str = "") -> str:
    """The same for intervals, with `start_clock` and `end_clock`; they have `start_time` and `end_time`."""
    start, end = span_of("_clock", "s.video_clock.start", "s.start_time", "s.end_time")
    joined = joined_pictures("s.video_clock.key", "s.start_time", "s.end_time")
    return f"SELECT s.*, {more}{start} AS start_clock, {end} AS end_clock FROM ({rows}) s {joined}"


def with_order(rows: str) -> str:
    """Intervals with when they began and ended, in seconds of their video or, for pictures, of UTC."""
    began = f"CASE WHEN p._key IS NULL THEN s.start_time ELSE epoch({_earliest('_utc')}) END AS began"
    ended = f"CASE WHEN p._key IS NULL THEN s.end_time ELSE epoch({_latest('_utc')}) END AS ended"
    joined = joined_pictures("s.video_clock.key", "s.start_time", "s.end_time")
    return f"SELECT s.*, {began}, {ended} FROM ({rows}) s {joined}"


def within_alarms(rows: str) -> str:
    """Intervals, cut where another alarm begins: nothing is known of the time between two alarms.

    Args:
        rows: SQL with `start_time`, `end_time` and `video_clock`.
    """
    key = "s.video_clock.key"
    first, last = (f"{key} + {_number(edge)}" for edge in ("s.start_time", "s.end_time"))
    # An end that is no cut stays what it is, to the last bit: the sweep compares it with those of others.
    begin = f"CASE WHEN a._first > {first} THEN (a._first - {key}) * {_STEP} ELSE s.start_time END"
    end = f"CASE WHEN a._last + 1 < {last} THEN (a._last + 1 - {key}) * {_STEP} ELSE s.end_time END"
    return (
        f"SELECT s.* REPLACE ({begin} AS start_time, {end} AS end_time) FROM ({rows}) s"
        f" LEFT JOIN {PICTURE_ALARMS} a ON a._first < {last} AND a._last >= {first}"
    )


def with_alarms(rows: str) -> str:
    """Intervals with `is_apart`: whether they begin in another alarm than what ended at their `before`."""
    joined = joined_ends("s.video_clock.key", "s.start_time", "s.before")
    return f"SELECT s.*, coalesce(p._alarm <> q._alarm, false) AS is_apart FROM ({rows}) s {joined}"


def _number(seconds: str) -> str:
    """SQL of the number of the picture that begins at a time."""
    return f"CAST(round({seconds} * {PICTURES_PER_SECOND}) AS BIGINT)"
