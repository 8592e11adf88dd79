"""A video file enters; when it was recorded, as its container says, leaves."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import av

from panorama.video.probing import open_container

_KEYS = ("com.apple.quicktime.creationdate", "creation_time", "date")
"""In order of trust: the first tells its offset, the second is UTC by its standard."""

FIRST_YEAR = 1980
"""Clocks that were never set say 1904, 1970 or the like."""


def recorded_at(path: Path) -> float | None:
    """Seconds since 1970 of the recording's start as the container claims; None where it does not.

    Only the file's head is read. A file that cannot be opened, and a folder of pictures, claim nothing.
    """
    if not path.is_file():
        return None
    try:
        with closing(open_container(path)) as container:
            tags = {key.lower(): value for key, value in container.metadata.items()}
            for stream in container.streams.video:
                for key, value in stream.metadata.items():
                    tags.setdefault(key.lower(), value)
    except (av.FFmpegError, OSError):
        return None
    for key in _KEYS:
        found = _unix(tags.get(key, ""))
        if found is not None:
            return found
    return None


def _unix(text: str) -> float | None:
    """A date without an hour is no start of a recording."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.year < FIRST_YEAR or len(text.strip()) <= len("2026-03-01"):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
