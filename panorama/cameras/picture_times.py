"""A folder of pictures and a rule for times come in; when each of its pictures was taken goes out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.cameras.naming import BY_HAND, METADATA, NamePattern, Told, told_by
from panorama.cameras.unread import usable
from panorama.store import Recorded, RecordedRow, Store
from panorama.store.catalog.picture_offsets import UNREAD, are_known, has_unread, offsets_of, stored_offsets
from panorama.store.catalog.recorded import zone_named
from panorama.video import picture_names, picture_taken, pictures_in

if TYPE_CHECKING:
    from panorama.cameras.recording import RecordingRule


@dataclass(frozen=True, slots=True)
class PictureTimes:
    """When the pictures of a folder were taken.

    Attributes:
        start_unix: of the first picture, by name, whose time is known, in seconds since 1970; None if none
            is.
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
    by_name: PictureTimes | None,
) -> tuple[Recorded, bool] | None:
    """When a rule says that a folder's pictures were taken, and whether its source could be read.

    Args:
        known: the video with its camera.
        by_name: the result of `named_pictures`.

    Returns:
        None if the pictures have no times of their own by the rule, and for films.
    """
    if rule.time_from == METADATA:
        return _dated_by_exif(store, row, known, rule.zone)
    if by_name is None or by_name.start_unix is None:
        return None
    return known.begun(by_name.start_unix, rule.zone, rule.time_from, by_name.offsets), True


def with_offsets(
    store: Store, row: RecordedRow, known: Recorded, by_name: PictureTimes | None = None
) -> Recorded:
    """A folder of pictures whose start is known, with what its pictures tell of the time between them.

    So one start by hand puts the clock of a camera right: it is that of the first picture, by name, whose
    time is known. Anything else is returned as it is.

    Args:
        known: the video with its camera and start.
        by_name: the result of `named_pictures`; without a time in it, EXIF counts.
    """
    is_first = known.picture_offsets is None
    asks = row.has_pictures and known.time_from in (BY_HAND, METADATA)
    if not asks or not (is_first or has_unread(known.picture_offsets)) or not _has_pictures(Path(row.uri)):
        return known
    if is_first and by_name is not None and by_name.start_unix is not None:
        return replace(known, picture_offsets=by_name.offsets)
    zone = zone_named(known.time_zone or "UTC")
    found = _exif_times(store, row, zone) if is_first else _completed(store, row, known, zone)
    if found is None:
        return known
    start = known.start_time_unix if is_first or found.start_unix is None else found.start_unix
    return replace(known, start_time_unix=start, picture_offsets=found.offsets)


def first_dated(store: Store, row: RecordedRow, now: Recorded) -> str | None:
    """The picture that a folder's start is of, if pictures of unknown time come before it; else None."""
    known = are_known(offsets_of(now.picture_offsets or b""))
    if not known.any() or known[0]:
        return None
    return next((name for name in store.picture_names(row.segment)[int(known.argmax()) :] if name), None)


def _dated_by_exif(
    store: Store, row: RecordedRow, known: Recorded, zone: str
) -> tuple[Recorded, bool] | None:
    """As `dated_pictures`, by EXIF.

    Args:
        zone: name of the time zone of the camera's clock.
    """
    if not row.has_pictures or not _has_pictures(Path(row.uri)):
        return None
    is_known = _is_known(known, zone)
    if is_known and not has_unread(known.picture_offsets):
        return (known if known.picture_offsets else known.begun(picture_offsets=b"")), True
    by = zone_named(zone)
    found = _completed(store, row, known, by) if is_known else _exif_times(store, row, by)
    if found is None:
        return known, is_known
    if found.start_unix is None:
        return known.begun(picture_offsets=found.offsets), True
    return known.begun(found.start_unix, zone, METADATA, found.offsets), True


def _has_pictures(folder: Path) -> bool:
    """Whether a folder is there and still holds pictures."""
    try:
        return bool(picture_names(folder))
    except OSError:
        return False


def _answers(folder: Path) -> bool:
    """Whether a folder's drive answers, so that an error is that of one picture."""
    try:
        with os.scandir(folder) as inside:
            next(inside, None)
    except OSError:
        return False
    return True


def _is_known(known: Recorded, zone: str) -> bool:
    """Whether the EXIF times of a folder's pictures are known; reading them again takes a while."""
    if known.picture_offsets is None:
        return False
    tells_none = not are_known(offsets_of(known.picture_offsets)).any()
    return tells_none or (known.time_from, known.time_zone) == (METADATA, zone)


def _exif_times(store: Store, row: RecordedRow, zone: tzinfo) -> PictureTimes | None:
    """When the pictures of a folder were taken according to their EXIF; no picture is decoded.

    A picture that is no longer there keeps the time that EXIF gave it before.

    Args:
        zone: time zone of the camera's clock, for times without an offset.

    Returns:
        None if it cannot be told now: no picture can be read, or the drive does not answer.
    """
    names = store.picture_names(row.segment)
    read = _read(Path(row.uri), names, range(len(names)), zone)
    if read is None:
        return None
    held = _known(row.recorded, len(names))
    stays = read.gone & ~np.isnan(held) & (row.recorded.time_from == METADATA)
    taken = np.where(stays, held, read.taken)
    return _times(taken, names, zone, unread=(read.gone | read.unreadable) & ~stays)


def _completed(store: Store, row: RecordedRow, known: Recorded, zone: tzinfo) -> PictureTimes | None:
    """The known times of a folder's pictures, with those of pictures that could not be read before.

    Args:
        zone: time zone of the camera's clock, for times without an offset.

    Returns:
        None if there is nothing new.
    """
    names, folder = store.picture_names(row.segment), Path(row.uri)
    offsets = offsets_of(known.picture_offsets or b"")[: len(names)]
    read = _read(folder, names, np.flatnonzero(offsets == UNREAD).tolist(), zone)
    if read is None:
        return None
    taken = _known(known, len(names))
    ahead = 0.0 if known.time_from != BY_HAND else _ahead(folder, names, taken, zone)
    if ahead is None:
        return None
    taken = np.where(np.isnan(read.taken), taken - ahead, read.taken)
    found = _times(taken, names, zone, unread=read.gone | read.unreadable)
    if known.time_from == BY_HAND and found.start_unix is not None:
        is_first = not are_known(offsets).any() and known.start_time_unix is not None
        start = known.start_time_unix if is_first else found.start_unix + ahead
        return replace(found, start_unix=start)
    return found


def _ahead(
    folder: Path, names: Sequence[str | None], taken: NDArray[np.float64], zone: tzinfo
) -> float | None:
    """By how many seconds the clock set by hand is ahead of the pictures' own.

    Args:
        taken: (N,) the times by the clock set by hand; NaN if unknown.

    Returns:
        0 if no time is known; None if no picture of known time can be read.
    """
    known = np.flatnonzero(~np.isnan(taken)).tolist()
    for number in known:
        read = _read(folder, names, [number], zone)
        if read is not None and not np.isnan(read.taken[number]):
            return float(taken[number] - read.taken[number])
    return None if known else 0.0


@dataclass(frozen=True, slots=True)
class _Read:
    """What the EXIF of some of a folder's pictures says.

    Attributes:
        taken: (N,) in seconds since 1970; NaN if one says nothing, or was not to be read.
        gone: (N,) whether one of them is not there.
        unreadable: (N,) whether one of them is there and cannot be read.
    """

    taken: NDArray[np.float64]
    gone: NDArray[np.bool_]
    unreadable: NDArray[np.bool_]


def _read(folder: Path, names: Sequence[str | None], wanted: Iterable[int], zone: tzinfo) -> _Read | None:
    """Read some pictures by number; None if none of them can be read, or the drive does not answer."""
    count, is_any = len(names), False
    found = _Read(np.full(count, np.nan), np.zeros(count, np.bool_), np.zeros(count, np.bool_))
    for number in wanted:
        name = names[number]
        if name is None:
            continue
        try:
            unix = picture_taken(folder / name, zone)
        except FileNotFoundError:
            found.gone[number] = True
        except OSError:
            if not _answers(folder):
                return None  # each other picture may take a minute to fail, too
            found.unreadable[number] = True
        else:
            is_any = True
            if unix is not None:
                found.taken[number] = unix
    return found if is_any else None


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


def _known(recorded: Recorded, count: int) -> NDArray[np.float64]:
    """(count,) the known times in seconds since 1970; NaN where there is none."""
    taken = np.full(count, np.nan)
    if recorded.picture_offsets and recorded.start_time_unix is not None:
        offsets = offsets_of(recorded.picture_offsets)[:count]
        there = np.flatnonzero(are_known(offsets))
        taken[there] = recorded.start_time_unix + offsets[there] / 1e6
    return taken


def _times(
    taken: NDArray[np.float64],
    names: Sequence[str | None],
    zone: tzinfo,
    camera: str | None = None,
    unread: NDArray[np.bool_] | None = None,
) -> PictureTimes:
    """Times of pictures as they are stored; those of clocks that were never set count as unknown."""
    taken, last = taken.copy(), np.nan
    for number, unix in enumerate(taken.tolist()):
        if names[number] is None:
            # No frame is there; but a track that ends before it, ends with the last picture of known time.
            taken[number] = last
        elif usable(None if np.isnan(unix) else unix, zone) is None:
            taken[number] = np.nan
        else:
            last = unix
    known = np.flatnonzero(~np.isnan(taken))
    start = float(taken[known[0]]) if len(known) else None
    return PictureTimes(start, stored_offsets(taken, start or 0.0, unread), camera)
