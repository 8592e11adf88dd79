"""A folder of pictures that has changed comes in; what users said of its pictures goes out, as it holds now.

If the first pictures are those that were there, the folder goes on (`panorama.video.goes_on`), and all holds.
One of which pictures were deleted, or that got some in between, is another content. But what was said of a
picture still holds for that picture: camera traps take many that are empty, and people delete these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.crops import cut, decode_picture, shrunk
from panorama.errors import BadImage, PanoramaError
from panorama.frames import PICTURES_PER_SECOND
from panorama.lines import counted
from panorama.store import KnownFile, MovedPicture, Recorded, Reviewed, Store
from panorama.store.catalog.picture_offsets import are_known, offsets_of
from panorama.video import FileMark, open_video

SAME_LEVELS = 4.0
"""A part of a picture is what an example was cut from if it differs from it by no more than this mean of 255:
both were compressed, an example of a crop twice.
"""

SAME_CORRELATION = 0.9
"""And if its brightness goes along with the example's: in dark pictures all differs by a few levels."""

SAME_PIXELS = 2
"""By so much the sides of a part and of its example may differ: boxes are rounded."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The pictures of a folder about which there are answers, for how the folder is now.

    Attributes:
        pictures: those that were found again.
        lost: number of answers about the others.
    """

    pictures: tuple[MovedPicture, ...] = ()
    lost: int = 0


def former_names(store: Store, known: KnownFile) -> Sequence[str | None]:
    """The names of a folder's pictures as it was indexed, by number; [] if they are not stored."""
    with suppress(PanoramaError):  # a data file is lost
        return store.picture_names(known.segment) if known.names_pictures else []
    return []


def places_of(names: Sequence[str | None]) -> dict[str, tuple[int, float]]:
    """Frame and seconds of a folder's pictures, by name.

    Args:
        names: by number, see `former_names`.
    """
    there = [(number, name) for number, name in enumerate(names) if name is not None]
    return {name: (frame, number / PICTURES_PER_SECOND) for frame, (number, name) in enumerate(there)}


def moved(store: Store, was: KnownFile, folder: Path, now: Mapping[str, tuple[int, float]]) -> Moved:
    """The pictures about which there were answers, if they still show what was said to be there.

    Args:
        was: the folder before.
        now: frame and seconds of its pictures, by name.
    """
    about: dict[int, list[Reviewed]] = defaultdict(list)
    for answer in store.reviewed(was.content_hash):
        about[answer.frame].append(answer)
    names = former_names(store, was) if about else []
    found: list[MovedPicture] = []
    with suppress(PanoramaError):  # what cannot be read again is lost
        for frame, name, rgb in _pictures(folder, about, names, now):
            if all(_shows(rgb, answer) for answer in about[frame]):
                found.append(MovedPicture(frame, *now[name]))
    again = {picture.was for picture in found}
    return Moved(tuple(found), sum(len(answers) for frame, answers in about.items() if frame not in again))


def _pictures(
    folder: Path,
    about: Mapping[int, Sequence[Reviewed]],
    names: Sequence[str | None],
    now: Mapping[str, tuple[int, float]],
) -> Iterator[tuple[int, str, NDArray[np.uint8]]]:
    """The pictures that are there: frame before, name, (H, W, 3) RGB as in the frame."""
    numbers = {frame: round(answers[0].seconds * PICTURES_PER_SECOND) for frame, answers in about.items()}
    named = {frame: names[number] for frame, number in numbers.items() if number < len(names)}
    there = {frame: name for frame, name in named.items() if name is not None and name in now}
    if not there:
        return
    with open_video(folder) as reader:
        # By name: since the folder was decoded, pictures may have been deleted, which changes the numbers.
        pts_of = {name: pts for pts, name in enumerate(reader.pictures)}
        for frame, name in there.items():
            pts = pts_of.get(name)
            found = None if pts is None else next(reader.frames_from(pts), None)
            if found is not None and found.pts == pts:
                yield frame, name, found.rgb()


def _shows(rgb: NDArray[np.uint8], answer: Reviewed) -> bool:
    """Whether a frame shows at an answer's box what its example shows."""
    try:
        example = decode_picture(answer.picture.read_bytes())
    except (OSError, BadImage):
        return False
    part = shrunk(cut(rgb, np.array(answer.box_xyxy, np.float32)))
    height, width = example.shape[:2]
    if max(abs(part.shape[0] - height), abs(part.shape[1] - width)) > SAME_PIXELS:
        return False
    same_size = np.asarray(cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    differs = float(cv2.absdiff(same_size, example).mean())
    return differs <= SAME_LEVELS and _correlation(same_size, example) >= SAME_CORRELATION


def _correlation(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Of the brightness of two pictures (H, W, 3)."""
    a, b = (cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float64).ravel() for rgb in (one, other))
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / max(np.sqrt((a @ a) * (b @ b)), 1e-9))


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
