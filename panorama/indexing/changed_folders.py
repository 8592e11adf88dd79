"""A folder of pictures that has changed comes in; what users said of its pictures goes out, as it holds now.

If the first pictures are those that were there, the folder goes on (`panorama.video.goes_on`), and all holds.
One of which pictures were deleted, or that got some in between, is another content. But what was said of a
picture still holds for that picture: camera traps take many that are empty, and people delete these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.crops import cut, decode_picture, shrunk
from panorama.errors import BadImage, PanoramaError, UnknownEntity
from panorama.frames import PICTURES_PER_SECOND
from panorama.lines import counted
from panorama.store import KnownFile, MovedPlace, Recorded, Reviewed, Store
from panorama.store.catalog.picture_offsets import are_known, offsets_of
from panorama.video import FileMark, open_video

SAME_LEVELS = 4.0
"""A part of a picture is what an example was cut from if it differs from it by no more than this mean of 255:
both were compressed, an example of a crop twice.
"""

SAME_PIXELS = 2
"""By so much the sides of a part and of its example may differ: boxes are rounded."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """An answer about a place in a picture, until the picture is found again.

    Attributes:
        name: of the picture; None if it is not known.
        place: of the answer, in the folder as it was.
        example: file of the picture that was made from it.
    """

    name: str | None
    place: Reviewed
    example: Path


@dataclass(frozen=True, slots=True)
class Moved:
    """The answers about a folder, for how it is now.

    Attributes:
        places: those whose pictures were found again.
        lost: number of the others.
    """

    places: tuple[MovedPlace, ...] = ()
    lost: int = 0


def former_names(store: Store, known: KnownFile) -> Sequence[str | None]:
    """The names of a folder's pictures as it was indexed, by number; [] if they are not stored."""
    with suppress(PanoramaError):  # a data file is lost
        return store.picture_names(known.segment) if known.names_pictures else []
    return []


def awaited(store: Store, known: KnownFile, names: Sequence[str | None]) -> tuple[Awaited, ...]:
    """The answers about a folder as it was.

    Args:
        names: see `former_names`.
    """
    places = store.reviewed(known.content_hash)
    examples: dict[int, Path] = {}
    for entity in {place.entity for place in places}:
        with suppress(UnknownEntity):  # dropped meanwhile
            examples |= {exemplar.exemplar_id: exemplar.picture for exemplar in store.exemplars(entity)}
    numbers = [round(place.seconds * PICTURES_PER_SECOND) for place in places]
    return tuple(
        Awaited(names[number] if number < len(names) else None, place, examples[place.exemplar_id])
        for place, number in zip(places, numbers, strict=True)
        if place.exemplar_id in examples  # not removed meanwhile
    )


def moved(folder: Path, waiting: Iterable[Awaited], now: Mapping[str, tuple[int, int, float]]) -> Moved:
    """Where the pictures of some answers are now, if these still show what was said to be there.

    Args:
        now: frame, pts and seconds of pictures, by name.
    """
    found: list[MovedPlace] = []
    several = list(waiting)
    with suppress(PanoramaError):  # what cannot be read again is lost
        for one, frame, seconds, rgb in _pictures(folder, several, now):
            if _shows(rgb, one):
                found.append(MovedPlace(one.place.exemplar_id, one.place.frame, frame, seconds))
    return Moved(tuple(found), len(several) - len(found))


def _pictures(
    folder: Path, waiting: Iterable[Awaited], now: Mapping[str, tuple[int, int, float]]
) -> Iterator[tuple[Awaited, int, float, NDArray[np.uint8]]]:
    """Each answer whose picture is there, with the frame that this is now: number, seconds, (H, W, 3) RGB."""
    there = [(now[one.name], one) for one in waiting if one.name is not None and one.name in now]
    if not there:
        return
    with open_video(folder) as reader:
        for (frame, pts, seconds), one in there:
            # By its pts: numbers of frames do not count pictures that cannot be read, as the scan does.
            found = next(reader.frames_from(pts), None)
            if found is not None and found.pts == pts:
                yield one, frame, seconds, found.rgb()


def _shows(rgb: NDArray[np.uint8], one: Awaited) -> bool:
    """Whether a frame shows at an answer's box what its example shows."""
    try:
        example = decode_picture(one.example.read_bytes())
    except (OSError, BadImage):
        return False
    part = shrunk(cut(rgb, np.array(one.place.box_xyxy, np.float32)))
    height, width = example.shape[:2]
    if max(abs(part.shape[0] - height), abs(part.shape[1] - width)) > SAME_PIXELS:
        return False
    same_size = cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA)
    return float(cv2.absdiff(np.asarray(same_size, np.uint8), example).mean()) <= SAME_LEVELS


def lost_places(lost: Mapping[str, int]) -> tuple[str, ...]:
    """A line for each folder in which the pictures of some answers were not found again.

    Args:
        lost: number of answers, by the folder's name.
    """
    return tuple(
        f"{name}: {counted(count, 'answer')} of yours {_gone(count)} not found again; what is there now is"
        " decided by its looks"
        for name, count in lost.items()
        if count
    )


def _gone(count: int) -> str:
    one = "no longer holds, because its picture was"
    return one if count == 1 else "no longer hold, because their pictures were"


@dataclass(frozen=True, slots=True)
class LostTime:
    """A time set by hand that no longer holds, because the file holds something else.

    Attributes:
        recorded: the time, of the first picture of a folder that tells one if that picture is known.
        picture: of a folder, the picture whose time it is, if another may be the first now; else ''.
    """

    recorded: Recorded
    picture: str = ""


def time_now(recorded: Recorded, names: Sequence[str | None], mark: FileMark) -> LostTime:
    """A time that was set by hand for a file that holds something else now, as it would be set today.

    `clock --at` sets the time of the first picture that tells one; the others keep their distance from it.

    Args:
        names: see `former_names`.
    """
    if not mark.is_folder or not names or recorded.start_time_unix is None:
        return LostTime(recorded)
    offsets = offsets_of(recorded.picture_offsets or b"")
    # Without times of their own, all that is known is the time of the first.
    if not len(offsets):
        offsets = np.array([0], np.int64)
    read = [(name, offset) for name, offset in zip(names, offsets.tolist(), strict=False) if name is not None]
    known = are_known(np.array([offset for _, offset in read], np.int64))
    apart = {name: offset for (name, offset), tells in zip(read, known, strict=True) if tells}
    silent = {name for (name, _), tells in zip(read, known, strict=True) if not tells}
    for name in (path.name for path in mark.in_order()):
        if name in apart:
            begins = recorded.start_time_unix + apart[name] / 1e6
            return LostTime(replace(recorded, start_time_unix=begins))
        if name not in silent:
            break  # it may tell a time
    return LostTime(recorded, next(iter(apart), ""))
