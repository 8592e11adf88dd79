"""The start of a recording as somebody types it comes in; seconds since 1970 go out, or an error."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

from panorama.errors import UsageError
from panorama.store.catalog.recorded import has_date


def typed_unix(text: str, zone: tzinfo) -> float:
    """The moment of a date with a time; without an offset, it is on the clock of the zone.

    Raises:
        UsageError: it is none, lies outside of the years that a library stores, or was never on that clock.
    """
    try:
        moment = None if _is_date(text) else datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None:
        raise UsageError(f"a start is a date with a time, '2026-03-01 10:00:00', got {text!r}")
    unix = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    if not has_date(unix):
        raise UsageError(f"a start lies in the years 2 to 9997, got {text!r}")
    shown = datetime.fromtimestamp(unix, UTC).astimezone(zone).replace(tzinfo=None)
    if moment.tzinfo is None and abs(shown - moment) > timedelta(minutes=1):
        meant = moment.replace(tzinfo=zone).isoformat(sep=" ")
        raise UsageError(
            f"{text!r} does not exist in {zone}: clocks were put forward over it. If the camera's clock was"
            f" not, add its offset from UTC: {meant!r}"
        )
    return unix


def _is_date(text: str) -> bool:
    """Whether a text is a date without a time, which Python would read as midnight."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
