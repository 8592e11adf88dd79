"""The cells that changed since the sample before come in; where a clock ticks goes out.

Recorders write the time into the picture. Without this module, a camera in front of which nothing happens
would have to be looked at with every second.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

MOST_ACROSS = 4
MOST_ALONG = 32
"""Cells; a line of text is that small, and a clock changes nothing but a part of its line."""

BEATS = 20
REGULAR_SHARE = 0.9
"""A clock is known from so many intervals on, of which so many are whole periods, to a sample."""

LEAST_PERIOD = 4
"""Samples; of shorter periods an interval tells nothing, because each is whole to a sample."""

LONGEST_INTERVAL = 30
"""Samples. A 7 that becomes an 8 may be too faint; behind a longer pause nobody knows when it ticks."""

FORGOTTEN = 300
"""Samples without a tick behind which a clock may be sought elsewhere."""

BLEED = 1
"""Cells around the changed ones which compression disturbs, too."""

Place = tuple[slice, slice]
"""Rows and columns of cells."""


class Ticking:
    """Learns the place of one clock, and its beat, from what changes alone.

    A place is one line of cells, along either side, in which something changes at regular intervals. It is
    never ignored for longer than a beat: what moves there also changes it at other times.
    """

    def __init__(self) -> None:
        self._intervals: deque[int] = deque(maxlen=BEATS)
        self._place: Place | None = None
        self._since = 0
        self._period = 0.0
        self._due = False

    def update(self, over: NDArray[np.bool_]) -> None:
        """Take which cells (h, w) of a sample differ from the sample before."""
        self._since += 1
        self._due = (
            self._period > 0 and self._since <= LONGEST_INTERVAL and _is_whole(self._since, self._period)
        )
        ys, xs = np.nonzero(over)
        if not len(ys):
            return
        here = slice(int(ys.min()), int(ys.max()) + 1), slice(int(xs.min()), int(xs.max()) + 1)
        both = _around(self._place, here)
        if _is_line(both) and (self._due or not self._period or self._since > LONGEST_INTERVAL):
            self._place = both
        elif self._place is None or not over[self._place].any():
            if not _is_line(here) or not self._is_given_up():
                return
            self._intervals.clear()
            self._place = here
        if self._since <= LONGEST_INTERVAL:
            self._intervals.append(self._since)
        self._since = 0
        self._period = self._known_period()

    def place(self) -> Place | None:
        """The cells that a clock may just have changed; None if none can have ticked."""
        if not self._due or self._place is None:
            return None
        rows, columns = self._place
        return (
            slice(max(0, rows.start - BLEED), rows.stop + BLEED),
            slice(max(0, columns.start - BLEED), columns.stop + BLEED),
        )

    def _is_given_up(self) -> bool:
        if len(self._intervals) < 3:
            return True
        return self._since > (FORGOTTEN if self._period else LONGEST_INTERVAL)

    def _known_period(self) -> float:
        """The period in samples if intervals are regular; 0 otherwise."""
        if len(self._intervals) < BEATS:
            return 0.0
        short = sorted(self._intervals)[BEATS // 4]
        near = [interval for interval in self._intervals if short / 1.5 <= interval <= short * 1.5]
        period = sum(near) / len(near)
        whole = sum(_is_whole(interval, period) for interval in self._intervals)
        return period if period >= LEAST_PERIOD and whole >= REGULAR_SHARE * BEATS else 0.0


def _is_whole(interval: int, period: float) -> bool:
    """Whether an interval is one period or several, to a sample."""
    return abs(interval - max(1, round(interval / period)) * period) <= 1.0


def _around(a: Place | None, b: Place) -> Place:
    """The least place that holds both; `b` if `a` is None."""
    if a is None:
        return b
    rows, columns = (
        slice(min(one.start, other.start), max(one.stop, other.stop)) for one, other in zip(a, b, strict=True)
    )
    return rows, columns


def _is_line(place: Place) -> bool:
    short, long = sorted(side.stop - side.start for side in place)
    return short <= MOST_ACROSS and long <= MOST_ALONG
