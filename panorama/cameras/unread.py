"""Videos without a recording time come in; those whose names look like one go out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

from panorama.cameras.naming import usual_stamp
from panorama.store import RecordedRow
from panorama.store.catalog.recorded import has_date
from panorama.video import was_set


def usable(unix: float | None, zone: tzinfo) -> float | None:
    """The moment; None if there is none, it has no date, or it comes from a clock that was never set."""
    if unix is None or not has_date(unix) or not was_set(datetime.fromtimestamp(unix, zone)):
        return None
    return unix


def unread(rows: Sequence[RecordedRow], zone: tzinfo) -> tuple[str, ...]:
    """The names of the videos whose time is unknown, and whose files' names look like one."""
    undated = (row for row in rows if row.recorded.start_time_unix is None)
    return tuple(row.name for row in undated if usable(usual_stamp(row.uri).unix(zone), zone) is not None)


def of_different_days(uris: Iterable[str]) -> bool:
    """Whether the names of files look like recording times, and not all of one day."""
    stamps = [usual_stamp(uri).unix(UTC) for uri in uris]
    days = {None if unix is None else datetime.fromtimestamp(unix, UTC).date() for unix in stamps}
    return None not in days and len(days) > 1
