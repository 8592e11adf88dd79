"""Rows of videos come in; cameras that differ only in a day go out, and a pattern that makes one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath

from panorama.cameras.naming import NamePattern
from panorama.store import RecordedRow

_DAY = re.compile(r"(?:19|20)\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])")


def daily_cameras(
    known: Sequence[RecordedRow], fresh: Collection[str] | None
) -> tuple[tuple[str, ...], str] | None:
    """Cameras named by folders that differ only in a day, one of which has only fresh videos.

    Returns:
        These cameras, and the pattern that gives most of them, by their first videos, a camera without a
        day. None if there are no such cameras, or no pattern fits.
    """
    videos: dict[str, list[RecordedRow]] = {}
    for row in known:
        videos.setdefault(row.recorded.camera, []).append(row)
    alike: dict[tuple[str, ...], list[str]] = {}
    for camera in sorted(videos):
        parts = camera.split("/")
        if any(map(_DAY.fullmatch, parts)):
            alike.setdefault(tuple("" if _DAY.fullmatch(part) else part for part in parts), []).append(camera)
    found: list[str] = []
    for cameras in alike.values():
        new = (fresh is None or all(row.name in fresh for row in videos[camera]) for camera in cameras)
        if len(cameras) > 1 and any(new):
            found += cameras
    fitting = Counter(pattern for camera in found for pattern in _patterns(videos[camera][0]))
    return (tuple(found), fitting.most_common(1)[0][0]) if fitting else None


def _patterns(row: RecordedRow) -> Iterator[str]:
    """The pattern by which the camera of a video is the folder beside that of the day; none if none fits."""
    parts = PurePath(row.uri).parts
    days = [at for at, part in enumerate(parts) if _DAY.fullmatch(part)]
    if not days:
        return
    at, named = days[-1], row.recorded.camera.split("/")
    separator = _DAY.fullmatch(parts[at])[1]  # type: ignore[index]  # it is a day, see above
    day = f"%Y{separator}%m{separator}%d"
    is_below = parts[at] == named[0] and at + 1 < len(parts) - (not row.has_pictures)
    pattern = f"{day}/{{camera}}/**" if is_below else f"{{camera}}/{day}/**"
    told = NamePattern(pattern, wants_time=False).read(row.uri, row.has_pictures)
    if told is not None and told.camera:
        yield pattern
