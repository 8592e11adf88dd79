"""Videos without a recording time come in; names of theirs that look like one go out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, tzinfo

from panorama.cameras.naming import usual_stamp
from panorama.store import RecordedRow, Store
from panorama.store.catalog.recorded import has_date
from panorama.video import spread, was_set

MOST_FOLDERS = MOST_PICTURES = 100
"""How many new folders, and how many pictures of each, are looked at; at most twice as many."""


def usable(unix: float | None, zone: tzinfo) -> float | None:
    """The moment; None if there is none, it has no date, or it comes from a clock that was never set."""
    if unix is None or not has_date(unix) or not was_set(datetime.fromtimestamp(unix, zone)):
        return None
    return unix


def unread(
    store: Store, rows: Sequence[RecordedRow], fresh: Collection[str] | None, zone: tzinfo
) -> tuple[str, ...]:
    """Names that look like a time, of videos whose time is unknown; none unless one of them is new.

    For a file it is the video's name. For a folder of pictures it is the name of the folder or of a picture
    in it, which stands behind the folder's; only pictures of new folders are looked at.

    Args:
        fresh: the names of the new videos, None for all.
    """
    undated = [row for row in rows if row.recorded.start_time_unix is None]
    found = {row.name: row.name for row in undated if _looks_like_time(row.uri, zone)}
    new = [row for row in undated if fresh is None or row.name in fresh]
    folders = [row for row in new if row.has_pictures and row.name not in found]
    for row in spread(folders, MOST_FOLDERS):
        names = [name for name in store.picture_names(row.segment) if name is not None]
        stamped = (name for name in spread(names, MOST_PICTURES) if _looks_like_time(name, zone))
        if (first := next(stamped, None)) is not None:
            found[row.name] = f"{row.name}/{first}"
    if found.keys().isdisjoint(row.name for row in new):
        return ()
    return tuple(found[row.name] for row in undated if row.name in found)


def _looks_like_time(path: str, zone: tzinfo) -> bool:
    return usable(usual_stamp(path).unix(zone), zone) is not None


def of_different_days(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether the names of two videos look like recording times, of days of which they share none.

    Args:
        first, second: the path of each, or those of its pictures.
    """
    days = [{_day(path) for path in paths} for paths in (first, second)]
    return None not in days[0] | days[1] and days[0].isdisjoint(days[1])


def _day(path: str) -> date | None:
    unix = usual_stamp(path).unix(UTC)
    return None if unix is None else datetime.fromtimestamp(unix, UTC).date()
