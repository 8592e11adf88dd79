"""Comparisons of `time` with wall-clock text come in; time windows and SQL that tests them go out.

A wall clock is the camera's own: local time, which runs on from the first frame of a video. Texts mean:

    '10:00', '10:00:30'               a time of day, on any date
    '2026-03-01 10:00', TIMESTAMP     an instant
    '2026-03-01', DATE                a whole day: <= includes all of it, > begins after it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TypeAlias

from sqlglot import exp

from panorama.query.shorthands.clock_sql import clock_seconds

DAY_SECONDS = 86400
MARGIN_SECONDS = 1.0
"""Filters that only save work keep videos and tracks within this margin, so that rounding loses none."""
MARGIN = f"INTERVAL {MARGIN_SECONDS:g} SECOND"

FORMS = "'10:00', '2026-03-01' or '2026-03-01 10:00', in the camera's local time"

_DAYTIME = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d{1,6})?))?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

_MOMENTS = (exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp, exp.TimestampTrunc, exp.DateTrunc)
_NOW = frozenset(("now", "today", "get_current_timestamp", "transaction_timestamp"))


class ClockError(ValueError):
    """A constant is not a wall-clock time, or a comparison with it has no meaning."""


@dataclass(frozen=True, slots=True)
class Instants:
    """From `low` to `high`; None for an open end. Half-open by default."""

    low: datetime | None = None
    high: datetime | None = None
    low_open: bool = False
    high_closed: bool = False


@dataclass(frozen=True, slots=True)
class Daytime:
    """Daily from `low` to `high`, in seconds after midnight; across midnight if `high` is less than `low`."""

    low: float = 0.0
    high: float = DAY_SECONDS
    low_open: bool = False
    high_closed: bool = False


Window: TypeAlias = Instants | Daytime


@dataclass(frozen=True, slots=True)
class ClockTest:
    """Tests whether a time lies in a window, or outside of it."""

    window: Window
    outside: bool = False

    def opposite(self) -> ClockTest:
        """The test for the other side of the same window."""
        return ClockTest(self.window, not self.outside)

    def row_sql(self) -> str:
        """SQL that tests the column `clock`."""
        inside = _row(self.window)
        return f"NOT ({inside})" if self.outside else inside

    def overlap_sql(self, start: str, end: str) -> str:
        """SQL that tells whether any time in the half-open interval from `start` to `end` passes."""
        windows = _around(self.window) if self.outside else (self.window,)
        return " OR ".join(f"({_overlap(window, start, end)})" for window in windows) or "false"

    def video_sql(self) -> str:
        """SQL over the stored videos that tells whether any time of a video can pass."""
        start = "coalesce(first_clock, start_clock)"
        end = f"coalesce(last_clock, {clock_seconds('start_clock', 'duration')})"
        return self.overlap_sql(f"({start} - {MARGIN})", f"({end} + {MARGIN})")

    def track_sql(self) -> str:
        """The same over tracks with `video_clock`; those of pictures with times of their own all pass."""
        start, end = (clock_seconds("video_clock.start", edge) for edge in ("start_time", "end_time"))
        inside = self.overlap_sql(f"({start} - {MARGIN})", f"({end} + {MARGIN})")
        return f"video_clock.key IS NOT NULL OR {inside}"

    def __str__(self) -> str:
        return f"not {_words(self.window)}" if self.outside else _words(self.window)


_NEVER = ClockTest(Daytime(), outside=True)


def is_daytime(text: str) -> bool:
    """Whether a text has the form of a time of day."""
    return _DAYTIME.fullmatch(text) is not None


def names_clock(node: exp.Expr) -> bool:
    """Whether some part of a predicate compares `time` with text, a date or a timestamp."""
    for part in node.find_all(*SIGNS, exp.Between, exp.In):
        operands = [part.this, part.args.get("expression"), part.args.get("low"), part.args.get("high")]
        operands = [item for item in (*operands, *part.expressions) if isinstance(item, exp.Expr)]
        if any(map(is_time, operands)) and any(map(_is_text, operands)):
            return True
    return False


def names_moment(node: exp.Expr) -> bool:
    """Whether some part of a predicate compares `time` with a computed date or timestamp."""
    for part in node.find_all(*SIGNS, exp.Between):
        operands = [part.this, part.args.get("expression"), part.args.get("low"), part.args.get("high")]
        operands = [item for item in operands if isinstance(item, exp.Expr)]
        if any(map(is_time, operands)) and any(map(_is_moment, operands)):
            return True
    return False


def _is_moment(node: exp.Expr) -> bool:
    if isinstance(node, exp.Paren):
        return _is_moment(node.this)
    if isinstance(node, (exp.Add, exp.Sub)):
        return _is_moment(node.this) or _is_moment(node.expression)
    if isinstance(node, exp.Cast):
        return node.to.this in exp.DataType.TEMPORAL_TYPES
    return isinstance(node, _MOMENTS) or (isinstance(node, exp.Anonymous) and node.name.lower() in _NOW)


def clock_test(node: exp.Expr, is_interval: bool) -> ClockTest:
    """The wall-clock test that a predicate on `time` stands for.

    Args:
        is_interval: whether rows are intervals, which can contain an instant.

    Raises:
        ClockError: it is not a comparison with a constant, or no row can satisfy it.
    """
    if isinstance(node, exp.Paren):
        return clock_test(node.this, is_interval)
    if isinstance(node, exp.Not):
        return clock_test(node.this, is_interval).opposite()
    if isinstance(node, exp.Between) and is_time(node.this):
        low, high = _constant(node.args["low"]), _constant(node.args["high"])
        return _NEVER if _is_reversed(low, high) else ClockTest(_between(low, high))
    sign = SIGNS.get(type(node))
    if sign is None:
        raise ClockError("compare time with wall-clock text by <, <=, >, >=, =, <> or BETWEEN")
    if is_time(node.this):
        value = _constant(node.expression)
    elif is_time(node.expression):
        value, sign = _constant(node.this), MIRRORED[sign]
    else:
        raise ClockError("compare wall-clock text with time itself: time >= '10:00'")
    if sign in ("=", "<>"):
        return ClockTest(_exactly(value, is_interval), sign == "<>")
    if (sign in (">", ">=") and value.value == DAY_SECONDS) or (sign == "<" and value.value == 0):
        return _NEVER  # nothing of a day lies after its end or before it
    return ClockTest(_side(sign, value))


SIGNS: dict[type[exp.Expr], str] = {
    exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>",
}  # fmt: skip
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>"}


def is_time(node: exp.Expr) -> bool:
    """Whether a node is the column `time`."""
    return isinstance(node, exp.Column) and node.name.lower() == "time"


def _is_text(node: exp.Expr) -> bool:
    while isinstance(node, (exp.Paren, exp.Cast)):
        if isinstance(node, exp.Cast) and node.to.this in exp.DataType.NUMERIC_TYPES:
            return False  # 'inf'::DOUBLE, a number as text
        node = node.this
    return isinstance(node, exp.Literal) and bool(node.is_string)


@dataclass(frozen=True, slots=True)
class _Constant:
    """The value of a text: a time of day in seconds, or an instant; `is_day` for a date without a time."""

    value: float | datetime
    is_day: bool = False


def _constant(node: exp.Expr) -> _Constant:
    kind = None
    while isinstance(node, (exp.Paren, exp.Cast)):
        kind = node.to.this if isinstance(node, exp.Cast) and kind is None else kind
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise ClockError(f"one side is text and the other is not; a wall-clock time is {FORMS}")
    text = str(node.this).strip()
    daytime = _DAYTIME.fullmatch(text)
    if daytime is not None:
        seconds = int(daytime[1]) * 3600 + int(daytime[2]) * 60 + float(daytime[3] or 0)
        if seconds <= DAY_SECONDS:
            return _Constant(seconds)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None or not _DATE.match(text):
        zoned = moment is not None and moment.tzinfo is not None
        named = "names a zone" if zoned else "is not a wall-clock time"
        raise ClockError(f"{text!r} compared with time {named}: write {FORMS}")
    is_day = _DATE.fullmatch(text) is not None
    return _Constant(moment, is_day and kind in (None, exp.DType.DATE))


def _exactly(constant: _Constant, is_interval: bool) -> Window:
    value = constant.value
    if constant.is_day and isinstance(value, datetime):
        return Instants(value, _day_end(value))
    if not is_interval:
        raise ClockError(
            "hardly any frame has exactly this time; write time BETWEEN ... AND ..., or >= and <"
        )
    return _window(_begin(value), _begin(value), False, True)


def _day_end(day: datetime) -> datetime:
    """The beginning of the next day; the last instant of 9999-12-31, which is written for no end at all."""
    return datetime.max if day.date() == date.max else day + timedelta(days=1)


def _begin(value: float | datetime) -> float | datetime:
    """The beginning of a window; 24:00 is the beginning of the next day."""
    return 0.0 if value == DAY_SECONDS else value


def _side(sign: str, constant: _Constant) -> Window:
    value = constant.value
    if constant.is_day and isinstance(value, datetime) and sign in (">", "<="):
        value, sign = _day_end(value), {">": ">=", "<=": "<"}[sign]
    if sign in (">", ">="):
        return _window(value, None, sign == ">")
    return _window(None, value, False, sign == "<=")


def ends_before(low: str, high: str) -> bool:
    """Whether BETWEEN two texts is never true, since both are instants or days and the second ends first."""
    try:
        return _is_reversed(*(_constant(exp.Literal.string(text)) for text in (low, high)))
    except ClockError:
        return False


def _is_reversed(low: _Constant, high: _Constant) -> bool:
    """The same; of times of day, such a pair means a time over midnight."""
    if not isinstance(low.value, datetime) or not isinstance(high.value, datetime):
        return False
    return low.value >= _day_end(high.value) if high.is_day else low.value > high.value


def _between(low: _Constant, high: _Constant) -> Window:
    if isinstance(low.value, datetime) != isinstance(high.value, datetime):
        raise ClockError("BETWEEN takes two times of day or two dates, not one of each")
    if high.is_day and isinstance(high.value, datetime):
        return _window(low.value, _day_end(high.value))
    if low.value == high.value:
        return _window(_begin(low.value), _begin(low.value), False, True)
    return _window(_begin(low.value), high.value, False, high.value != DAY_SECONDS)


def _window(
    low: float | datetime | None,
    high: float | datetime | None,
    low_open: bool = False,
    high_closed: bool = False,
) -> Window:
    if isinstance(low, datetime) or isinstance(high, datetime):
        assert not isinstance(low, float) and not isinstance(high, float)
        return Instants(low, high, low_open, high_closed)
    first = 0.0 if low is None else low
    last = float(DAY_SECONDS) if high is None else high
    return Daytime(first, last, low_open, high_closed)


def _around(window: Window) -> tuple[Window, ...]:
    """The windows outside of a window."""
    if isinstance(window, Instants):
        before = Instants(None, window.low, False, window.low_open) if window.low else None
        after = Instants(window.high, None, window.high_closed) if window.high else None
        return tuple(part for part in (before, after) if part is not None)
    low = window.high if window.high < DAY_SECONDS else 0.0
    high = window.low if window.low > 0 else float(DAY_SECONDS)
    if window.low == window.high:
        return (Daytime(),)  # all of the day but one instant, and no interval fits into an instant
    if (low, high) == (0.0, DAY_SECONDS):
        return (Daytime(0.0, 0.0, False, True),) if window.low_open else ()
    return (Daytime(low, high, window.high_closed, window.low_open),)


def _row(window: Window) -> str:
    if isinstance(window, Instants):
        low = f"clock {'>' if window.low_open else '>='} {_timestamp(window.low)}" if window.low else ""
        high = f"clock {'<=' if window.high_closed else '<'} {_timestamp(window.high)}" if window.high else ""
        return " AND ".join(part for part in (low, high) if part)
    low = f"CAST(clock AS TIME) {'>' if window.low_open else '>='} {_time(window.low)}"
    if window.high >= DAY_SECONDS:
        return low
    high = f"CAST(clock AS TIME) {'<=' if window.high_closed else '<'} {_time(window.high)}"
    return f"{low} {'OR' if window.high < window.low else 'AND'} {high}"


def _overlap(window: Window, start: str, end: str) -> str:
    """SQL that tells whether some t of [start, end) lies in the window."""
    sign = "<=" if window.high_closed else "<"
    if isinstance(window, Instants):
        low = f"{end} > {_timestamp(window.low)}" if window.low else ""
        high = f"{start} {sign} {_timestamp(window.high)}" if window.high else ""
        return " AND ".join(part for part in (high, low) if part)
    length = window.high - window.low + (DAY_SECONDS if window.high < window.low else 0)
    # The last day on which the window opens before the interval ends; if that one fails, all do.
    opens = f"{DAY_SECONDS} * (ceil((epoch({end}) - {window.low!r}) / {DAY_SECONDS}) - 1) + {window.low!r}"
    return f"epoch({start}) {sign} {opens} + {float(length)!r}"


def _timestamp(moment: datetime | None) -> str:
    return f"TIMESTAMP '{moment}'"


def _time(seconds: float) -> str:
    return f"TIME '{(datetime.min + timedelta(seconds=seconds)).time()}'"


def _words(window: Window) -> str:
    if isinstance(window, Instants):
        low = f"from {window.low}" if window.low else ""
        high = f"to {window.high}" if window.high else ""
        return " ".join(part for part in (low, high) if part)
    low, high = (str(timedelta(seconds=value)) for value in (window.low, window.high))
    return f"daily from {low} to {high}"
