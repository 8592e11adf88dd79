"""New recording times and cameras of videos come in; rows of `videos` are updated and their number goes out.

The same values are read here, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.commands import alone, command_of
from panorama.errors import LibraryDamaged, UsageError, unknown
from panorama.lines import shell_word
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import Column
from panorama.store.catalog.picture_offsets import offsets_of

LISTED = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("video", "uri", "camera")])
_COLUMNS = """
SELECT name, uri, root, camera, start_time_unix, time_zone, time_from, camera_from, picture_offsets,
       own_time_from, own_time_zone, own_camera_from, segment_id,
       EXISTS (SELECT 1 FROM file_segments fs JOIN files f ON f.file_id = fs.file_id
               WHERE fs.segment_id = v.segment_id AND f.table_name = 'pictures') AS has_pictures
FROM videos v
"""
_ROWS = f"{_COLUMNS} ORDER BY name"
_NAMED = f"{_COLUMNS} WHERE name IN :names ORDER BY name"
_LISTED = "SELECT name, uri, camera FROM videos ORDER BY name"
_WITHOUT_CAMERA = "SELECT name, uri FROM videos WHERE camera = '' ORDER BY name"
_HOLDS_OTHERS = """
SELECT EXISTS (SELECT 1 FROM videos v JOIN videos o
               ON instr(o.name, v.name || '/') = 1 OR instr(o.uri, v.uri || '/') = 1 WHERE v.name = :name)
"""
_FIRST, _LAST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2, 9998))
_CLEAR = """
UPDATE videos SET start_time_unix = NULL, time_zone = NULL, time_from = NULL, picture_offsets = NULL
WHERE name IN :names AND coalesce(start_time_unix, time_zone, time_from, picture_offsets) IS NOT NULL
"""
_SET = """
UPDATE videos SET camera = :camera, start_time_unix = :unix, time_zone = :zone, time_from = :source,
       camera_from = :camera_from, picture_offsets = :picture_offsets, own_time_from = :own_time_from,
       own_time_zone = :own_time_zone, own_camera_from = :own_camera_from
WHERE name = :name
"""


@dataclass(frozen=True, slots=True)
class OwnRule:
    """What somebody named for one video, in place of the library's rule; None where that one holds.

    Attributes:
        time_from, time_zone, camera_from: as in `panorama.cameras.recording_rule.RecordingRule`.
    """

    time_from: str | None = None
    time_zone: str | None = None
    camera_from: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """When and by which camera one video was recorded.

    Attributes:
        camera: its name, '' if unknown.
        start_time_unix: time of the first frame in seconds since 1970, None if unknown.
        time_zone: IANA name of the time zone of the camera's clock.
        time_from: source of the time; it, the zone and the time are None together.
        camera_from: the patterns that gave the camera, '' if none did.
        picture_offsets: for a folder of pictures, the microseconds from its start to when each was taken, as
            little-endian int64 (see `picture_offsets`); b"" if they were asked and tell no time. None if they
            were not asked, and for films: then the clock runs on from the start.
        own: what was named for this video alone.
    """

    camera: str = ""
    start_time_unix: float | None = None
    time_zone: str | None = None
    time_from: str | None = None
    camera_from: str = ""
    picture_offsets: bytes | None = None
    own: OwnRule = OwnRule()

    def __post_init__(self) -> None:
        times = (self.start_time_unix, self.time_zone, self.time_from)
        if None in times and times != (None, None, None):
            raise ValueError(f"a time has a zone and a source, got {times}")

    def begun(
        self,
        unix: float | None = None,
        zone: str | None = None,
        source: str | None = None,
        picture_offsets: bytes | None = None,
    ) -> Recorded:
        """The same camera with another time; without arguments, with an unknown time."""
        return replace(
            self,
            start_time_unix=unix,
            time_zone=zone,
            time_from=source,
            picture_offsets=picture_offsets,
        )


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """How one video of the library was recorded; `uri` and `root` as in VideoRow.

    Attributes:
        segment: its segment.
        has_pictures: whether it is a folder of pictures whose names are stored.
    """

    name: str
    uri: str
    root: str
    recorded: Recorded
    segment: int = 0
    has_pictures: bool = False


def zone_named(name: str) -> tzinfo:
    """The time zone of an IANA name; 'UTC' works even without time zone data.

    Raises:
        UsageError: this machine knows no such time zone; the message suggests similar names.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = available_timezones()
        names = "the names of the IANA time zones"
        see = names if known else f"{names}; none is known here: pip install tzdata"
        raise UsageError(unknown("time zone", name, known, see)) from None


def has_date(unix: float) -> bool:
    """Whether a time can be shown as a date in every time zone, even after a video's length."""
    return _FIRST <= unix < _LAST


def have_dates(unix: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(N,) the same for many times."""
    return (unix >= _FIRST) & (unix < _LAST)


def _dated(_: str, unix: Any) -> float:
    if not has_date(unix):
        raise ValueError("it is beyond all dates")
    return float(unix)


def _zone(_: tuple[str, float], name: str | None) -> tzinfo:
    try:
        return zone_named(name or "UTC")
    except UsageError as exc:
        raise ValueError(
            "no such time zone is known here; if it is a new one: pip install --upgrade tzdata"
        ) from exc


def word_for(tx: Transaction, name: str) -> str:
    """What a command names one video by, and not what lies in it: pictures and clips may share a folder."""
    return alone(name) if tx.scalar(_HOLDS_OTHERS, name=name) else name


def _same_moment(tx: Transaction, key: tuple[str, float]) -> str:
    video, start = key
    at = shell_word(f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M:%S.%f}")
    moment = command_of("clock", word_for(tx, video), f"--at {at} --timezone UTC")
    return f"set another zone, with the same moment in UTC: {moment}"


def _unknown_again(tx: Transaction, video: str) -> str:
    unknown_again = command_of("clock", word_for(tx, video), "--at ''")
    return f"make the time unknown, after which it can be set or read again: {unknown_again}"


STARTS = Column(
    "videos.start_time_unix",
    lambda video, unix: None if unix is None else _dated(video, unix),
    "the video {!r}".format,
    _unknown_again,
)
"""When videos begin, in seconds since 1970; None if unknown."""
OFFSETS = Column(
    "videos.picture_offsets",
    lambda _, held: offsets_of(b"" if held is None else held),
    "the video {!r}".format,
    _unknown_again,
)
"""When pictures were taken, as by `offsets_of`; empty for videos without such times."""
INDEXED_AT = Column(
    "videos.indexed_at", lambda video, unix: round(_dated(video, unix) * 1e6), "the video {!r}".format
)
"""When videos were last indexed, in microseconds since 1970."""
_ZONES = Column("videos.time_zone", _zone, lambda key: f"the video {key[0]!r}", _same_moment)


def time_zones(tx: Transaction, keyed: Sequence[tuple[tuple[str, float], str | None]]) -> list[tzinfo]:
    """The time zones of the cameras' clocks, one per video; None as stored means UTC.

    Args:
        keyed: ((name, start in seconds since 1970), stored time zone) of each video.

    Raises:
        LibraryDamaged: this machine does not know a stored time zone.
        UsageError: this machine has no time zone data at all, so the library is not to blame.
    """
    try:
        return _ZONES.of(tx, keyed)
    except LibraryDamaged:
        if not available_timezones():
            for _, name in keyed:
                zone_named(name or "UTC")
        raise


def read(tx: Transaction, names: Collection[str] | None = None) -> list[RecordedRow]:
    """Some videos by name, or all with None, in order of name; unknown names are left out.

    Raises:
        LibraryDamaged: a stored start, or the stored times of pictures, are invalid.
    """
    rows = tx.rows(_ROWS) if names is None else tx.rows(_NAMED, names=list(names))
    starts = STARTS.of(tx, ((row.name, row.start_time_unix) for row in rows))
    OFFSETS.of(tx, ((row.name, row.picture_offsets) for row in rows))
    return [
        RecordedRow(
            row.name, row.uri, row.root, _recorded(row, start), row.segment_id, bool(row.has_pictures)
        )
        for row, start in zip(rows, starts, strict=True)
    ]


def listed(tx: Transaction) -> pa.Table:
    """The columns of LISTED for all videos, in order of name; works even if stored times are damaged."""
    rows = tx.tuples(_LISTED)
    columns = zip(*rows, strict=True) if rows else ([] for _ in LISTED)
    return pa.table(list(columns), schema=LISTED)


def without_camera(tx: Transaction) -> list[tuple[str, str]]:
    """Name and uri of every video that has no camera."""
    return [(row.name, row.uri) for row in tx.rows(_WITHOUT_CAMERA)]


def _recorded(row: Any, start: float | None) -> Recorded:
    filmed = Recorded(
        row.camera,
        camera_from=row.camera_from or "",
        picture_offsets=row.picture_offsets,
        own=OwnRule(row.own_time_from, row.own_time_zone, row.own_camera_from),
    )
    if start is None:
        return filmed
    # Catalogs made before time zones were stored have only the time.
    zone, source = row.time_zone or "UTC", row.time_from or "unknown"
    return filmed.begun(start, zone, source, row.picture_offsets)


def put(
    tx: Transaction, changes: Mapping[str, Recorded], known: Mapping[str, Recorded] | None = None
) -> int | None:
    """Store changes of videos by name and return how many rows changed; unknown names are ignored.

    Args:
        known: the values that the changes were made from. If a video has another value now, store nothing and
            return None.
    """
    before = {row.name: row.recorded for row in read(tx, changes)}
    if known is not None and any(known[name] != now for name, now in before.items()):
        return None
    rows = [
        {
            "name": name,
            "camera": now.camera,
            "unix": now.start_time_unix,
            "zone": now.time_zone,
            "source": now.time_from,
            "camera_from": now.camera_from or None,
            "picture_offsets": now.picture_offsets,
            "own_time_from": now.own.time_from,
            "own_time_zone": now.own.time_zone,
            "own_camera_from": now.own.camera_from,
        }
        for name, now in changes.items()
        if name in before and before[name] != now
    ]
    tx.run_many(_SET, rows)
    if rows:
        tx.bump("data")
    return len(rows)


def clear_times(tx: Transaction, names: Collection[str]) -> int:
    """Make the times of videos unknown, even if what is stored is damaged; return how many rows changed."""
    changed = tx.run(_CLEAR, names=list(names))
    if changed:
        tx.bump("data")
    return changed
