"""Stored times of the pictures of folders come in; their clocks go out as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.frames import alarm_seconds
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.picture_offsets import are_known
from panorama.store.catalog.recorded import OFFSETS, STARTS, have_dates, time_zones

PICTURE_CLOCKS = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("clock", pa.timestamp("us")),
        pa.field("utc", pa.timestamp("us")),
        pa.field("alarm", pa.int64(), nullable=False),
    ]
)
"""A row per picture of the folders whose pictures have times of their own.

`key` is that of the video's first picture (`clock_key` of the videos) plus the picture's time in frames.
`clock` is local time; it and `utc` are null if unknown. Pictures of one alarm have one number in `alarm`.
"""

PICTURE_SPANS = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("level", pa.int64(), nullable=False),
        pa.field("clock", pa.timestamp("us"), nullable=False),
        pa.field("last_clock", pa.timestamp("us"), nullable=False),
        pa.field("utc", pa.timestamp("us"), nullable=False),
        pa.field("last_utc", pa.timestamp("us"), nullable=False),
    ]
)
"""The earliest and the latest time of 2 ** `level` pictures in a row, the first of which has `key`.

Two of them cover any interval. There are rows only for pictures that are not in order of time, or of which
the first or the last has no time: otherwise these two tell.
"""

KEY_BITS = 32
"""The upper half of a key is the number of the video among these, the lower half that of the picture."""

_ROWS = """
SELECT name, start_time_unix, time_zone, picture_offsets FROM videos
WHERE length(picture_offsets) > 0 AND start_time_unix IS NOT NULL ORDER BY name
"""
_NEVER = np.iinfo(np.int64).max
_QUARTER = 900_000_000
"""Microseconds; no time zone changes its offset from UTC but at a full quarter of an hour."""


@dataclass(frozen=True, slots=True)
class PictureClocks:
    """The clocks of all pictures that have times of their own.

    Attributes:
        held: the rows of the catalog that it was made from.
        table: see PICTURE_CLOCKS.
        unordered: see PICTURE_SPANS.
        spans: by name of each such video, the key of its first picture, the first and the last time on its
            clock, and the number of its pictures whose time is unknown.
    """

    held: Sequence[tuple[str, float, str | None, bytes]]
    table: pa.Table
    unordered: pa.Table
    spans: dict[str, tuple[int, datetime, datetime, int]]


NONE = PictureClocks((), PICTURE_CLOCKS.empty_table(), PICTURE_SPANS.empty_table(), {})


def read_clocks(tx: Transaction, last: PictureClocks) -> PictureClocks:
    """The clocks as the catalog holds them now; `last` itself if nothing has changed.

    Raises:
        LibraryDamaged: a stored value is invalid.
    """
    held = tx.tuples(_ROWS)
    if held == last.held:
        return last
    names = [row[0] for row in held]
    starts = [start or 0.0 for start in STARTS.of(tx, ((row[0], row[1]) for row in held))]
    keyed = list(zip(names, starts, strict=True))
    zones = time_zones(tx, [(key, row[2]) for key, row in zip(keyed, held, strict=True)])
    offsets = OFFSETS.of(tx, ((row[0], row[3]) for row in held))
    parts, spans = [], {}
    for number, ((name, start), zone, apart) in enumerate(zip(keyed, zones, offsets, strict=True)):
        known = are_known(apart) & have_dates(start + apart / 1e6)  # a clock set by hand may be far off
        if not known.any():
            continue
        utc = np.where(known, apart, 0) + round(start * 1e6)
        local = utc + _ahead(utc, zone)
        key = number << KEY_BITS
        begin, end = (_moment(edge) for edge in (local[known].min(), local[known].max()))
        spans[name] = key, begin, end, int((~known).sum())
        parts.append(clocks_of(key, local, utc, known))
    if not parts:
        return PictureClocks(held, NONE.table, NONE.unordered, {})
    table, unordered = (pa.concat_tables(column) for column in zip(*parts, strict=True))
    return PictureClocks(held, table.combine_chunks(), unordered.combine_chunks(), spans)


def clocks_of(
    key: int, local: NDArray[np.int64], utc: NDArray[np.int64], known: NDArray[np.bool_]
) -> tuple[pa.Table, pa.Table]:
    """The rows of one folder's pictures, by PICTURE_CLOCKS and by PICTURE_SPANS.

    Args:
        key: of the first picture.
        local, utc: (N,) when each was taken, in microseconds.
        known: (N,) whether that is known.
    """
    keys = key + np.arange(len(utc))
    clocks = [
        pa.array(keys, pa.int64()),
        pa.array(local, pa.timestamp("us"), mask=~known),
        pa.array(utc, pa.timestamp("us"), mask=~known),
        pa.array(_alarms(utc, known), pa.int64()),
    ]
    parts = [PICTURE_SPANS.empty_table()]
    for level, times, needed in _unordered(local, utc, known):
        columns = keys[: len(needed)], np.full(len(needed), level), *times
        typed = (pa.array(c[needed], field.type) for c, field in zip(columns, PICTURE_SPANS, strict=True))
        parts.append(pa.table(list(typed), schema=PICTURE_SPANS))
    return pa.table(clocks, schema=PICTURE_CLOCKS), pa.concat_tables(parts)


def _unordered(
    local: NDArray[np.int64], utc: NDArray[np.int64], known: NDArray[np.bool_]
) -> Iterator[tuple[int, list[NDArray[np.int64]], NDArray[np.bool_]]]:
    """The level of spans, their four times as in PICTURE_SPANS, and which of these spans need a row."""
    places = np.flatnonzero(known)
    steps_back = np.zeros(len(utc), np.int64)
    steps_back[places[1:]] = (np.diff(local[places]) < 0) | (np.diff(utc[places]) < 0)
    if known.all() and not steps_back.any():
        return
    back = np.cumsum(steps_back)
    times = [np.where(known, time, none) for time in (local, utc) for none in (_NEVER, -_NEVER)]
    for level in range(1, len(utc).bit_length()):
        half = 1 << (level - 1)
        ends = np.minimum, np.maximum, np.minimum, np.maximum
        times = [of(time[:-half], time[half:]) for of, time in zip(ends, times, strict=True)]
        count = len(times[0])
        is_ordered = known[:count] & known[-count:] & (back[:count] == back[-count:])
        yield level, times, ~is_ordered & (times[0] < _NEVER)


def _ahead(utc: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
    """(N,) microseconds by which a zone's clock is ahead of UTC at each of some moments."""
    quarters, which = np.unique(utc // _QUARTER, return_inverse=True)
    ahead = []
    for quarter in quarters.tolist():
        offset = datetime.fromtimestamp(quarter * _QUARTER / 1e6, UTC).astimezone(zone).utcoffset()
        ahead.append(0 if offset is None else round(offset.total_seconds() * 1e6))
    return np.array(ahead, np.int64)[which]


def _alarms(utc: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(N,) numbers of the alarms: a picture of unknown time belongs to that of the one before it."""
    steps = np.abs(np.diff(utc[known])) / 1e6
    apart = steps > alarm_seconds(steps)
    begins = np.zeros(len(utc), np.int64)
    begins[np.flatnonzero(known)[1:]] = apart
    return np.cumsum(begins)


def _moment(microseconds: np.int64) -> datetime:
    """The moment of a clock as Python has it, without a zone."""
    return np.datetime64(int(microseconds), "us").astype(datetime)
