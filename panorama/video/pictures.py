"""A folder of pictures comes in; its pictures go out as the frames of one video."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage, VideoOpenError
from panorama.folders import IMAGE_SUFFIXES
from panorama.frames import (
    ALARM_SECONDS,
    PICTURES,
    PICTURES_PER_SECOND,
    DecodeReport,
    FrameTimes,
    VideoInfo,
    alarm_seconds,
)
from panorama.lines import natural_key
from panorama.pictures.exif import read_head, taken_at
from panorama.pictures.levels import Levels
from panorama.pictures.picture_size import upright_size
from panorama.pictures.pixels import laid_flat, unscaled_pixels
from panorama.video.faults import Faults, about
from panorama.video.planes import thinned
from panorama.video.reader import (
    Box,
    Fit,
    FrameTable,
    Picture,
    VideoFrame,
    VideoReader,
    at_most,
    fit_size,
    seconds_between,
)

COPY_SUFFIXES = frozenset({".heic", ".heif", ".hif", ".avif"})
"""Beside another picture with the same name, such a file is a second copy, saved by a phone or program. It is
left out, so that the picture is not seen twice.
"""
_SHOT_SUFFIXES = IMAGE_SUFFIXES - COPY_SUFFIXES

Some = TypeVar("Some")

TIMED_STEPS = 64
"""Steps from picture to picture, or up to twice as many, whose times tell whether a folder is a timelapse."""

SIZED_PICTURES = 100
"""Number of pictures of a folder, or up to twice as many, whose size and depth are examined."""

LEVELS_PIXELS = 1 << 26
LEAST_LEVELLED = 8
"""About how many pixels, and at least how many pictures, to read to find the levels of deep pictures."""


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder in natural order, without hidden files; of 1.jpg and 01.jpg, 01.jpg is first.

    A dead link is included, so that it is reported as a picture that cannot be read.
    """
    names = sorted(picture_names(folder), key=lambda name: (natural_key(name), os.fsencode(name)))
    return [folder / name for name in names]


def picture_states(folder: Path) -> list[tuple[bytes, int, int]]:
    """Name, size and modification time in ns of the same pictures, by name; fast even for 100,000 of them.

    A dead link has size and time 0.
    """
    return sorted((os.fsencode(name), size, mtime_ns) for name, size, mtime_ns in _states(folder))


def picture_names(folder: Path) -> list[str]:
    """The names of the same pictures, in the order in which the folder lists them."""
    return [entry.name for entry in _entries(folder)]


def _states(folder: Path) -> Iterator[tuple[str, int, int]]:
    for entry in _entries(folder):
        if not _is_file(entry):
            yield entry.name, 0, 0
            continue
        try:
            state = entry.stat()
        except FileNotFoundError:
            continue  # deleted after it was listed
        yield entry.name, state.st_size, state.st_mtime_ns


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder that are its pictures, each shot once, and dead links with such names."""
    with os.scandir(folder) as inside:
        parts = [(entry, *_parted(entry.name)) for entry in inside if not entry.name.startswith(".")]
    parts = [(entry, stem, suffix) for entry, stem, suffix in parts if suffix in IMAGE_SUFFIXES]
    # A picture is a copy only of a file, not of a folder or a dead link with its name.
    shots = {stem for entry, stem, suffix in parts if suffix in _SHOT_SUFFIXES and _is_file(entry)}
    return [
        entry
        for entry, stem, suffix in parts
        if not (suffix in COPY_SUFFIXES and stem in shots) and (_is_file(entry) or _leads_nowhere(entry))
    ]


def _parted(name: str) -> tuple[str, str]:
    """A name without its suffix, and the suffix, both in lower case."""
    stem, dot, suffix = name.lower().rpartition(".")
    return stem, dot + suffix


def _is_file(entry: os.DirEntry[str]) -> bool:
    return not _leads_nowhere(entry) and entry.is_file()


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a link to nowhere, to itself, or to a place that may not be looked at."""
    if not entry.is_symlink():
        return False
    try:
        entry.stat()
    except OSError:
        return True
    return False


def _dead_links(folder: Path) -> frozenset[Path]:
    """The pictures of a folder that are dead links."""
    return frozenset(folder / entry.name for entry in _entries(folder) if _leads_nowhere(entry))


def spread(pictures: Sequence[Some], count: int) -> Sequence[Some]:
    """An even selection of `count` pictures, or up to twice as many, that includes the first."""
    return pictures[:: max(1, len(pictures) // count)]


class ArrayPicture(Picture):
    """A picture already in memory, (H, W, 3) uint8 BGR as OpenCV reads it."""

    def __init__(self, bgr: NDArray[np.uint8], displayed_width: int, displayed_height: int) -> None:
        self._bgr = bgr
        self._displayed = (displayed_width, displayed_height)

    @property
    def nbytes(self) -> int:
        return self._bgr.nbytes

    def luma(self) -> NDArray[np.uint8]:
        return np.asarray(cv2.cvtColor(self._bgr, cv2.COLOR_BGR2GRAY), np.uint8)

    def rgb(self, width: int | None, height: int | None) -> NDArray[np.uint8]:
        size = fit_size(width, height, *self._displayed)
        picture = self._bgr
        if (picture.shape[1], picture.shape[0]) != size:
            shrinks = picture.shape[1] * picture.shape[0] > size[0] * size[1]
            how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
            picture = np.asarray(cv2.resize(picture, size, interpolation=how), np.uint8)
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)

    def part(self, box: Box, longest: int) -> NDArray[np.uint8]:
        size = at_most(longest, box[2] - box[0], box[3] - box[1])
        whole = ArrayPicture(self._cut(box), box[2] - box[0], box[3] - box[1])
        return whole.rgb(*size)

    def luma_part(self, box: Box) -> NDArray[np.uint8]:
        return np.asarray(cv2.cvtColor(self._cut(box), cv2.COLOR_BGR2GRAY), np.uint8)

    def thinned_luma(self, rows: int, columns: int) -> NDArray[np.uint8]:
        few = np.ascontiguousarray(thinned(self._bgr, rows, columns))
        return np.asarray(cv2.cvtColor(few, cv2.COLOR_BGR2GRAY), np.uint8)

    def _cut(self, box: Box) -> NDArray[np.uint8]:
        """BGR pixels of a box of the displayed picture; scales a picture of another size first."""
        x1, y1, x2, y2 = box
        picture = self._bgr
        if (picture.shape[1], picture.shape[0]) != self._displayed:
            picture = np.asarray(cv2.resize(picture, self._displayed, interpolation=cv2.INTER_AREA), np.uint8)
        return picture[y1:y2, x1:x2]


def read_unscaled(path: Path) -> NDArray[Any] | None:
    """The picture in its own depth, upright, (H, W) or (H, W, C); None if it cannot be read."""
    try:
        return _decoded(path.read_bytes())
    except OSError:
        return None


def _decoded(data: bytes) -> NDArray[Any] | None:
    try:
        return unscaled_pixels(data)
    except BadImage:
        return None


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads the files of one folder and notes errors of the drive.

    Attributes:
        dead: links that led to no file when the folder was opened; that they do is no error of the drive.
        faults: gets the errors of the drive.
    """

    dead: frozenset[Path]
    faults: Faults

    def read(self, path: Path) -> bytes:
        """The bytes of a picture; b"" if it cannot be read."""
        return self._asked(path, Path.read_bytes) or b""

    def size(self, path: Path) -> tuple[int, int] | None:
        """Width and height by `upright_size`; None also if the file cannot be read."""
        return self._asked(path, upright_size)

    def unscaled(self, path: Path) -> NDArray[Any] | None:
        """The picture as by `read_unscaled`."""
        return _decoded(self.read(path))

    def _asked(self, path: Path, ask: Callable[[Path], Some]) -> Some | None:
        try:
            with about(path):
                return ask(path)
        except OSError as exc:
            if path not in self.dead and not was_deleted(path, exc):
                self.faults.take(exc)
            return None


def was_deleted(path: Path, exc: OSError) -> bool:
    """Whether a picture alone was deleted, for example by a camera that drops its oldest, not its drive lost.

    If a drive is lost, the folder or all of its entries are gone; if a link led to the drive, it remains.
    """
    if not isinstance(exc, FileNotFoundError) or os.path.lexists(path):
        return False
    try:
        with os.scandir(path.parent) as inside:
            return any(_parted(entry.name)[1] in IMAGE_SUFFIXES for entry in inside)
    except OSError:
        return False


class PictureFolderReader(VideoReader):
    """Reads pictures, in natural order of their names, as frames, PICTURES_PER_SECOND of them.

    The frame has the most common size of the pictures. Others are scaled into its upper left corner, keeping
    their shape. A picture's pts is its place in the folder; times count from the first picture that can be
    read. Transparent parts are laid over mid-grey. Pictures of more than 8 bits that share a suffix share
    their black and white levels: with levels of their own, still things would grow lighter and darker.

    Raises:
        VideoOpenError: the folder contains no picture that can be read.
        VideoError: its drive does not respond.
    """

    def __init__(self, path: Path) -> None:
        self._paths = pictures_in(path)
        if not self._paths:
            raise VideoOpenError(
                f"{path} is a folder without pictures; a video is a file or a folder of pictures "
                f"({', '.join(sorted(IMAGE_SUFFIXES))})"
            )
        # Names that are not valid UTF-8 are shown as nearly as possible, and stored so in rows and notes.
        self.pictures = [os.fsencode(path.name).decode(errors="replace") for path in self._paths]
        count, faults = len(self._paths), Faults()
        self._files = _Files(_dead_links(path), faults)
        self._levels: dict[str, Levels] = {}
        found = ((k, raw) for k, raw in enumerate(map(self._files.unscaled, self._paths)) if raw is not None)
        self._first, first = next(found, (count, None))
        if first is None:
            faults.check(path)
            raise VideoOpenError(f"{path}: none of its {count} pictures can be read")
        width, height = _frame_size(self._paths, (first.shape[1], first.shape[0]), self._files)
        super().__init__(
            VideoInfo(
                path=str(path),
                codec=PICTURES,
                width=width,
                height=height,
                rotation=0,
                time_base=Fraction(1, PICTURES_PER_SECOND),
                duration_seconds=(count - self._first) / PICTURES_PER_SECOND,
                average_rate=float(PICTURES_PER_SECOND),
            ),
            faults,
        )

    def _scan(self) -> FrameTable:
        pts = np.arange(self._first, len(self._paths), dtype=np.int64)
        times = FrameTimes(pts, self.info.time_base)
        return FrameTable(times, np.ones(len(pts), np.bool_), seekable=True, stamped=False)

    def _decode(self, start: int, keyframes_only: bool, report: DecodeReport) -> Iterator[VideoFrame]:
        index, before = start, None
        for pts in range(self._first + start if start else 0, len(self._paths)):
            data = self._files.read(self._paths[pts])
            bgr = self._seen(self._paths[pts], data)
            if bgr is None:
                report.lost_packets += 1
                report.note(f"{self.pictures[pts]} cannot be read as a picture")
                continue
            width, height = self.info.width, self.info.height
            fit = _fit((bgr.shape[1], bgr.shape[0]), width, height)
            report.fitted += fit is not None
            seconds = seconds_between(self._first, pts, self.info.time_base)
            picture = ArrayPicture(bgr if fit is None else _fitted(bgr, fit, width, height), width, height)
            taken = taken_at(data)
            yield VideoFrame(index, pts, seconds, True, picture, self._apart(before, taken), fit)
            index, before = index + 1, taken

    def _apart(self, before: datetime | None, taken: datetime | None) -> bool:
        """Whether two consecutive pictures belong to two alarms; False if a time is unknown."""
        step = _step(before, taken)
        return step > ALARM_SECONDS and step > self._alarm_seconds

    @cached_property
    def _alarm_seconds(self) -> float:
        """The step between two pictures that separates alarms, told by an even selection of them."""
        pairs = spread(list(pairwise(self._paths)), TIMED_STEPS)
        steps = np.array([_step(_head_taken(a), _head_taken(b)) for a, b in pairs], np.float64)
        return alarm_seconds(steps[steps >= 0])

    def _seen(self, path: Path, data: bytes) -> NDArray[np.uint8] | None:
        """Decode a picture of the folder to (H, W, 3) uint8 BGR; None if that fails."""
        raw = _decoded(data)
        if raw is None:
            return None
        try:
            even = raw if raw.dtype == np.uint8 else self._levels_of(path).eight_bits(raw, path.name)
        except BadImage:
            return None
        if even.ndim == 2:
            return np.asarray(cv2.cvtColor(even, cv2.COLOR_GRAY2BGR), np.uint8)
        return laid_flat(even)

    def _levels_of(self, path: Path) -> Levels:
        """Black and white of the pictures with this one's suffix: thermal ones may lie beside colour ones."""
        suffix = path.suffix.lower()
        if suffix not in self._levels:
            alike = [other for other in self._paths if other.suffix.lower() == suffix]
            count = LEVELS_PIXELS // (self.info.width * self.info.height)
            some = spread(alike, min(max(count, LEAST_LEVELLED), SIZED_PICTURES))
            read = (raw for path in some if (raw := self._files.unscaled(path)) is not None)
            self._levels[suffix] = Levels.of(raw for raw in read if raw.dtype != np.uint8)
        return self._levels[suffix]


def _step(before: datetime | None, taken: datetime | None) -> float:
    """Seconds between the times of two pictures; -1 if one is unknown or only one has a time zone."""
    if before is None or taken is None or (before.tzinfo is None) != (taken.tzinfo is None):
        return -1.0
    return abs((taken - before).total_seconds())


def _head_taken(path: Path) -> datetime | None:
    """When a picture was taken; None also if its file cannot be read."""
    try:
        return taken_at(read_head(path))
    except OSError:  # whoever decodes it reports that
        return None


def _frame_size(paths: Sequence[Path], first: tuple[int, int], files: _Files) -> tuple[int, int]:
    """The most common width and height of a folder's pictures; the largest if there is a tie.

    The sizes come from file headers, in a large folder those of an even selection. A size counts only if a
    decoded picture really has it.

    Args:
        first: size of the first picture that can be read; the result if no other size counts.
    """
    some = spread(paths, SIZED_PICTURES)
    told = {path: size for path in some if (size := files.size(path)) is not None}
    counts = Counter(told.values())
    for size in sorted(counts, key=lambda size: (-counts[size], -size[0] * size[1], size)):
        alike = (path for path in some if told.get(path) == size)
        if size == first or any(_has_size(files.unscaled(path), size) for path in alike):
            return size
    return first


def _has_size(raw: NDArray[Any] | None, size: tuple[int, int]) -> bool:
    return raw is not None and (raw.shape[1], raw.shape[0]) == size


def _fit(own: tuple[int, int], width: int, height: int) -> Fit | None:
    """How a picture of this width and height lies in a frame, as large as fits; None if it has its size."""
    if own == (width, height):
        return None
    factor = min(width / own[0], height / own[1])
    return Fit(*own, *(max(1, round(side * factor)) for side in own))


def _fitted(bgr: NDArray[np.uint8], fit: Fit, width: int, height: int) -> NDArray[np.uint8]:
    """A frame with a picture scaled into its upper left corner; the rest is black."""
    how = cv2.INTER_AREA if fit.width < fit.own_width or fit.height < fit.own_height else cv2.INTER_LINEAR
    frame = np.zeros((height, width, 3), np.uint8)
    frame[: fit.height, : fit.width] = cv2.resize(bgr, (fit.width, fit.height), interpolation=how)
    return frame
