"""A folder of pictures and a rule for times come in; when each of its pictures was taken goes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.cameras.naming import BY_HAND, METADATA, NamePattern, Told, told_by
from panorama.cameras.unread import usable
from panorama.store import Recorded, RecordedRow, Store
from panorama.store.catalog.picture_clocks import UNKNOWN, offsets_of, stored_offsets
from panorama.store.catalog.recorded import zone_named
from panorama.video import picture_taken, pictures_in

if TYPE_CHECKING:
    from panorama.cameras.recording_rule import RecordingRule


@dataclass(frozen=True, slots=True)
class PictureTimes:
    """When the pictures of a folder were taken.

    Attributes:
        start_unix: of the first picture whose time is known, in seconds since 1970; None if none is.
        offsets: as `Recorded.picture_offsets`.
        camera: the camera in the pictures' paths; None if they name none.
    """

    start_unix: float | None
    offsets: bytes
    camera: str | None = None


def named_pictures(store: Store, row: RecordedRow, rule: RecordingRule, zone: tzinfo) -> PictureTimes | None:
    """What the names of a folder's pictures say by a rule; None if it asks no names, and for films."""
    if not row.has_pictures or not rule.reads_names:
        return None
    return _named_times(store, row, rule.time_pattern(), zone)


def dated_pictures(
    store: Store,
    row: RecordedRow,
    known: Recorded,
    rule: RecordingRule,
    zone: tzinfo,
    by_name: PictureTimes | None,
) -> tuple[Recorded, bool] | None:
    """When a rule says that a folder's pictures were taken, and whether its source could be read.

    Args:
        known: the video with its camera.
        by_name: the result of `named_pictures`.

    Returns:
        None if the pictures have no times of their own by the rule, and for films.
    """
    if rule.time_from != METADATA:
        found = by_name
    elif not row.has_pictures or not _has_pictures(Path(row.uri)):
        found = None
    elif _is_known(known, rule.zone):
        return (known if known.picture_offsets else known.begun(picture_offsets=b"")), True
    else:
        read = _exif_times(store, row, zone)
        if read is None:
            return known, False
        found = read
        if found.start_unix is None:
            return known.begun(picture_offsets=b""), True
    if found is None or found.start_unix is None:
        return None
    return known.begun(found.start_unix, rule.zone, rule.time_from, found.offsets), True


def with_offsets(
    store: Store, row: RecordedRow, known: Recorded, by_name: PictureTimes | None = None
) -> Recorded:
    """A folder of pictures whose start is known, with what its pictures tell of the time between them.

    So one start by hand puts the clock of a camera right. Anything else is returned as it is.

    Args:
        known: the video with its camera and start.
        by_name: the result of `named_pictures`; without a time in it, EXIF counts.
    """
    asks = row.has_pictures and known.picture_offsets is None and known.time_from in (BY_HAND, METADATA)
    if not asks or not _has_pictures(Path(row.uri)):
        return known
    if by_name is None or by_name.start_unix is None:
        by_name = _exif_times(store, row, zone_named(known.time_zone or "UTC"))
    return known if by_name is None else replace(known, picture_offsets=by_name.offsets)


def _has_pictures(folder: Path) -> bool:
    """Whether a folder is there and still holds pictures."""
    try:
        return bool(pictures_in(folder))
    except OSError:
        return False


def _is_known(known: Recorded, zone: str) -> bool:
    """Whether the EXIF times of a folder's pictures are known; reading them again takes a while."""
    if known.picture_offsets is None:
        return False
    return not known.picture_offsets or (known.time_from, known.time_zone) == (METADATA, zone)


def _exif_times(store: Store, row: RecordedRow, zone: tzinfo) -> PictureTimes | None:
    """When the pictures of a folder were taken according to their EXIF; no picture is decoded.

    A picture that is no longer there keeps the time that EXIF gave it before.

    Args:
        zone: time zone of the camera's clock, for times without an offset.

    Returns:
        None if it cannot be told now: a picture is there and cannot be read, or all are gone.
    """
    names = store.picture_names(row.segment)
    by_exif = row.recorded.time_from in (METADATA, BY_HAND)
    taken = _known(row.recorded, len(names)) if by_exif else np.full(len(names), np.nan)
    are_gone = True
    for number, name in enumerate(names):
        if name is not None:
            try:
                found = picture_taken(Path(row.uri) / name, zone)
            except FileNotFoundError:
                continue
            except OSError:
                return None  # such as a network drive that does not answer: asked again next time
            are_gone = False
            taken[number] = np.nan if found is None else found
    return None if are_gone and any(names) else _times(taken, names, zone)


def _named_times(store: Store, row: RecordedRow, pattern: NamePattern | None, zone: tzinfo) -> PictureTimes:
    """When the pictures of a folder were taken according to their own names.

    Args:
        pattern: of their paths; None for the usual timestamps in names.
        zone: time zone of the camera's clock.
    """
    names = store.picture_names(row.segment)
    taken, cameras = np.full(len(names), np.nan), []
    for number, name in enumerate(names):
        told = Told() if name is None else told_by(f"{row.uri}/{name}", pattern)
        found = told.unix(zone)
        if found is not None:
            taken[number] = found
            cameras.append(told.camera)
    return _times(taken, names, zone, next((camera for camera in cameras if camera), None))


def names_in(path: Path) -> Iterator[str]:
    """The paths that may tell when a video was recorded: its own, and those of a folder's pictures."""
    found = path.resolve()
    yield str(found)
    if found.is_dir():
        yield from (str(picture) for picture in pictures_in(found))


def have_exif(store: Store, rows: Sequence[RecordedRow], zone: tzinfo) -> tuple[str, ...]:
    """The names of folders of pictures without a time whose first picture says in its EXIF when it was taken.

    Args:
        zone: time zone of the camera's clock, for times without an offset.
    """
    return tuple(
        row.name for row in rows if row.recorded.start_time_unix is None and _has_exif(store, row, zone)
    )


def _has_exif(store: Store, row: RecordedRow, zone: tzinfo) -> bool:
    first = next(filter(None, store.picture_names(row.segment)), None) if row.has_pictures else None
    try:
        taken = None if first is None else picture_taken(Path(row.uri) / first, zone)
    except OSError:
        return False
    return usable(taken, zone) is not None


def is_backwards(offsets: bytes | None) -> bool:
    """Whether the last picture of known time was taken before the first: names are not in order of time."""
    known = [] if not offsets else [offset for offset in offsets_of(offsets).tolist() if offset != UNKNOWN]
    return bool(known) and known[-1] < known[0]


def has_gaps(offsets: bytes | None) -> bool:
    """Whether some pictures have times of their own, and others have none."""
    return bool(offsets) and UNKNOWN in offsets_of(offsets or b"")


def _known(recorded: Recorded, count: int) -> NDArray[np.float64]:
    """(count,) the known times in seconds since 1970; NaN where there is none."""
    taken = np.full(count, np.nan)
    if recorded.picture_offsets and recorded.start_time_unix is not None:
        offsets = offsets_of(recorded.picture_offsets)[:count]
        there = np.flatnonzero(offsets != UNKNOWN)
        taken[there] = recorded.start_time_unix + offsets[there] / 1e6
    return taken


def _times(
    taken: NDArray[np.float64], names: Sequence[str | None], zone: tzinfo, camera: str | None = None
) -> PictureTimes:
    last = np.nan
    for number, unix in enumerate(taken.tolist()):
        if names[number] is None:
            # No frame is there; but a track that ends before it, ends with the last picture of known time.
            taken[number] = last
        elif usable(None if np.isnan(unix) else unix, zone) is None:
            taken[number] = np.nan
        else:
            last = unix
    known = np.flatnonzero(~np.isnan(taken))
    if not len(known):
        return PictureTimes(None, b"", camera)
    start = float(taken[known[0]])
    return PictureTimes(start, stored_offsets(taken, start), camera)
