"""A folder of pictures and a rule for times come in; when each of its pictures was taken goes out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.cameras.naming import BY_HAND, METADATA, NAME, NamePattern, Told, told_by
from panorama.cameras.unread import MOST_FOLDERS, usable
from panorama.store import Recorded, RecordedRow, Store
from panorama.store.catalog.picture_offsets import UNREAD, are_known, has_unread, offsets_of, stored_offsets
from panorama.store.catalog.recorded import zone_named
from panorama.video import picture_names, picture_taken, pictures_in, spread

if TYPE_CHECKING:
    from panorama.cameras.recording_rule import RecordingRule


MOST_COMPARED = 50
"""About how many pictures are asked by how much a clock set by hand is ahead of theirs, until one tells."""

REPLACED = "\ufffd"
"""Stands in a stored name for bytes of the file's name that are no UTF-8."""


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
    """A folder of pictures whose start stays, with what its pictures tell of the time between them.

    So one start by hand puts the clock of a camera right: it is that of the first picture, by name, whose
    time is known. Times of a rule that no longer holds go on by that rule in a folder that grows. Anything
    else is returned as it is.

    Args:
        known: the video with its camera and start.
        by_name: the result of `named_pictures`; for a start by hand, EXIF counts without a time in it.
    """
    held, source = known.picture_offsets, known.time_from or ""
    if not row.has_pictures or not (held is None or has_unread(held)):
        return known
    zone = zone_named(known.time_zone or "UTC")
    if source == NAME or "%" in source:
        found = _named_times(store, row, None if source == NAME else NamePattern(source), zone)
        is_told = found.start_unix is not None
        return known.begun(found.start_unix, known.time_zone, source, found.offsets) if is_told else known
    if source not in (BY_HAND, METADATA) or not _has_pictures(Path(row.uri)):
        return known
    if by_name is not None and by_name.start_unix is None:
        by_name = None
    if held is not None:
        return _begun(known, _completed(store, row, known, zone, by_name))
    exif_or_names = _exif_times(store, row, zone) if by_name is None else by_name
    return known if exif_or_names is None else replace(known, picture_offsets=exif_or_names.offsets)


def _begun(known: Recorded, found: PictureTimes | None) -> Recorded:
    """A video with the times of its pictures; as it is if nothing is new."""
    if found is None:
        return known
    start = known.start_time_unix if found.start_unix is None else found.start_unix
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


def _as_spelled(folder: Path) -> dict[str, str]:
    """The names of a folder's pictures that are no UTF-8, by how they are stored; none that two share.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[str, list[str]] = {}
    for name in picture_names(folder):
        found.setdefault(os.fsencode(name).decode(errors="replace"), []).append(name)
    return {stored: names[0] for stored, names in found.items() if REPLACED in stored and len(names) == 1}


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
    read = _read(Path(row.uri), names, zone, range(len(names)))
    if read is None:
        return None
    held = _moments(row.recorded.start_time_unix, row.recorded.picture_offsets, len(names))
    stays = read.gone & ~np.isnan(held) & (row.recorded.time_from == METADATA)
    taken = np.where(stays, held, read.taken)
    return _times(taken, names, zone, unread=(read.gone | read.unreadable) & ~stays)


def _completed(
    store: Store, row: RecordedRow, known: Recorded, zone: tzinfo, by_name: PictureTimes | None = None
) -> PictureTimes | None:
    """The known times of a folder's pictures, with those of pictures that were away or did not exist before.

    Args:
        zone: time zone of the camera's clock, for times without an offset.
        by_name: what the pictures' names say, in place of EXIF.

    Returns:
        None if there is nothing new.
    """
    names, start = store.picture_names(row.segment), known.start_time_unix
    if by_name is None:
        tells: Callable[[Sequence[int]], _Read | None] = partial(_read, Path(row.uri), names, zone)
    else:
        tells = partial(_named, by_name, len(names))
    held = offsets_of(known.picture_offsets or b"")[: len(names)]
    read = tells(np.flatnonzero(held == UNREAD).tolist())
    taken = _moments(start, known.picture_offsets, len(names))
    if read is None:
        return None
    unread = read.gone | read.unreadable
    if np.isnan(read.taken).all():
        return PictureTimes(start, stored_offsets(taken, start or 0.0, unread))
    ahead = _ahead(taken, tells) if known.time_from == BY_HAND else 0.0
    if ahead is None:
        return None
    own = np.where(np.isnan(read.taken), taken - ahead, read.taken)
    found = _times(own, names, zone, unread=unread)
    if known.time_from != BY_HAND or found.start_unix is None:
        return found
    return replace(found, start_unix=start if np.isnan(taken).all() else found.start_unix + ahead)


def _ahead(taken: NDArray[np.float64], tells: Callable[[Sequence[int]], _Read | None]) -> float | None:
    """By how many seconds the clock set by hand is ahead of the pictures' own.

    Args:
        taken: (N,) the times by the clock set by hand; NaN if unknown.
        tells: reads the own times of pictures by number.

    Returns:
        0 if no time is known; None if no picture of known time tells its own, of those that are asked.
    """
    known = np.flatnonzero(~np.isnan(taken)).tolist()
    for number in spread(known, MOST_COMPARED):
        read = tells([number])
        if read is not None and not np.isnan(read.taken[number]):
            return float(taken[number] - read.taken[number])
    return None if known else 0.0


@dataclass(frozen=True, slots=True)
class _Read:
    """What some of a folder's pictures say of their time.

    Attributes:
        taken: (N,) in seconds since 1970; NaN if one says nothing, or was not to be read.
        gone: (N,) whether one of them is not there.
        unreadable: (N,) whether one of them is there and cannot be read.
    """

    taken: NDArray[np.float64]
    gone: NDArray[np.bool_]
    unreadable: NDArray[np.bool_]


def _named(by_name: PictureTimes, count: int, wanted: Sequence[int]) -> _Read:
    """What the names of some pictures say, by number."""
    taken, never = np.full(count, np.nan), np.zeros(count, np.bool_)
    taken[wanted] = _moments(by_name.start_unix, by_name.offsets, count)[wanted]
    return _Read(taken, never, never)


def _read(folder: Path, names: Sequence[str | None], zone: tzinfo, wanted: Sequence[int]) -> _Read | None:
    """What the EXIF of some pictures says, by number; None if none can be read, or no drive answers."""
    count, is_any = len(names), not wanted
    found = _Read(np.full(count, np.nan), np.zeros(count, np.bool_), np.zeros(count, np.bool_))
    spelled: dict[str, str] = {}
    for number in wanted:
        name = names[number]
        if name is None:
            continue
        try:
            if REPLACED in name:
                spelled = spelled or _as_spelled(folder)
            unix = picture_taken(folder / spelled.get(name, name), zone)
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


def stored_names(store: Store, row: RecordedRow) -> Iterator[str]:
    """The same paths of a video of the library; none of them need be there."""
    yield row.uri
    if row.has_pictures:
        yield from (f"{row.uri}/{name}" for name in store.picture_names(row.segment) if name is not None)


def have_exif(store: Store, rows: Sequence[RecordedRow], zone: tzinfo) -> tuple[tuple[str, ...], int]:
    """The names of folders of pictures without a time whose first picture says in its EXIF when it was taken.

    Of many folders only some are looked at, up to twice MOST_FOLDERS: each takes a millisecond, on a network
    drive much more.

    Args:
        zone: time zone of the camera's clock, for times without an offset.

    Returns:
        The names, and how many folders without a time were not looked at.
    """
    undated = [row for row in rows if row.has_pictures and row.recorded.start_time_unix is None]
    looked_at = spread(undated, MOST_FOLDERS)
    names = tuple(row.name for row in looked_at if _has_exif(store, row, zone))
    return names, len(undated) - len(looked_at)


def _has_exif(store: Store, row: RecordedRow, zone: tzinfo) -> bool:
    first = next(filter(None, store.picture_names(row.segment)), None)
    try:
        taken = None if first is None else picture_taken(Path(row.uri) / first, zone)
    except OSError:
        return False
    return usable(taken, zone) is not None


def _moments(start: float | None, offsets: bytes | None, count: int) -> NDArray[np.float64]:
    """(count,) the known times of pictures in seconds since 1970; NaN where there is none."""
    taken = np.full(count, np.nan)
    if offsets and start is not None:
        held = offsets_of(offsets)[:count]
        known = np.flatnonzero(are_known(held))
        taken[known] = start + held[known] / 1e6
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
