"""Files, folders, patterns and pictures in memory come in; RGB pictures go out, and remarks on them."""

from __future__ import annotations

import contextlib
import glob
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.album.left_out import is_picture_file, left_out
from panorama.album.margins import inside_margin
from panorama.commands import command
from panorama.crops import shrunk
from panorama.errors import BadImage, UsageError
from panorama.folders import spelled
from panorama.lines import counted
from panorama.pictures.pixels import (
    MID_GREY,
    PICTURE_SUFFIXES,
    given_pixels,
    laid_flat,
    read_pixels,
    seen_box,
    transparent_share,
)
from panorama.pictures.several import Several, several_in
from panorama.store import SeenAt
from panorama.values import is_path, is_pixels, is_text, shown, told
from panorama.video import VIDEO_SUFFIXES

MIN_SIDE = 8
"""A picture with a shorter side in pixels cannot show what it is of."""

BLANK_SPREAD = 3.0
"""A picture whose brightness and colours vary less than this (of 255) shows nothing."""

GROUNDS = {"": MID_GREY, " on white": 255, " on black": 0}
"""Grounds that a picture with transparent parts is seen on, and what its name says of them (decision 220)."""

TRANSPARENT = 0.1
"""From this share of a picture on, what its transparent parts are laid over changes how it looks."""

Image = Any
"""A file, an RGB or RGBA array, a torch tensor or a PIL picture; see `panorama.pictures.pixels`."""
Images = Any
"""One or several files, folders, globs or pictures in memory."""

MOST_BYTES = 1 << 30
"""OpenCV reads no larger picture; without a limit, a device (/dev/zero) would fill the memory."""

_FILMS = VIDEO_SUFFIXES - PICTURE_SUFFIXES


@dataclass(frozen=True, slots=True)
class Picture:
    """One RGB picture (H, W, 3) and its origin.

    Attributes:
        rgb: its pixels, or after `kept` those that are stored.
        source: the file and part, or the name of a picture in memory.
        several: if its file holds several pictures, how; it is the first of these.
        left_top: its corner in the picture as given, of which margins may have been cut off.
        inside_xyxy: its box in the picture as given, if a margin of one colour was cut off.
        seen: its place in a video of the library, if it is a crop of one.
        told: remarks on it for users.
        whole_size: its height and width before `kept`.
        trimmed: for a picture with its margins, what it is without them; None if it has none.
        grounds: for a picture with transparent parts, the same laid over other grounds.
    """

    rgb: NDArray[np.uint8]
    source: str
    several: Several | None = None
    left_top: tuple[int, int] = (0, 0)
    inside_xyxy: tuple[int, int, int, int] | None = None
    seen: SeenAt | None = None
    told: tuple[str, ...] = ()
    whole_size: tuple[int, int] | None = None
    trimmed: Picture | None = None
    grounds: tuple[Picture, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the picture as given, in pixels."""
        height, width = self.whole_size or self.rgb.shape[:2]
        return height, width

    def kept(self) -> Picture:
        """The same with no more pixels than are stored.

        A hundred whole photographs are gigabytes. What needs all pixels, such as cutting or the proposer,
        looks at one picture after the other and keeps these.
        """
        grounds = tuple(other.kept() for other in self.grounds)
        return replace(self, rgb=shrunk(self.rgb), whole_size=self.size, grounds=grounds)


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures that were given, those in memory last; each is read when its turn comes.

    Raises:
        BadImage: in its turn, one that cannot be used.
    """

    files: Sequence[Path]
    arrays: Sequence[Any]
    trim: bool

    def __len__(self) -> int:
        return len(self.files) + len(self.arrays)

    def __iter__(self) -> Iterator[Picture]:
        for path in self.files:
            yield read_picture(path, self.trim)
        for number, array in enumerate(self.arrays, start=1):
            # A PIL picture knows the file that it was opened from.
            source = str(getattr(array, "filename", "") or f"array {number}")
            yield array_picture(array, source, self.trim)


def given_pictures(given: Images, trim: bool = True) -> Pictures:
    """The pictures in files, folders, globs and memory.

    Args:
        trim: whether to cut off transparent or single-coloured margins. Pass False if a box refers to pixels
            of the whole picture.

    Raises:
        UsageError: something else was given.
        BadImage: there is no such file.
    """
    several = listed(given)
    files = picture_files(item for item in several if not is_pixels(item))
    return Pictures(files, [item for item in several if is_pixels(item)], trim)


def listed(given: Images) -> list[Any]:
    """What was given as a list of paths and pictures in memory, which are not read.

    Raises:
        UsageError: something else was given.
    """
    one = isinstance(given, (str, bytes, os.PathLike)) or is_pixels(given)
    # An array with four dimensions is a batch: iterating over it gives its pictures.
    several = list(given) if isinstance(given, Iterable) and not one else [given]
    for item in several:
        if not (is_path(item) or is_pixels(item)):
            raise UsageError(
                "a picture is a file, folder, pattern or RGB array (height, width, 3), or a picture of PIL, "
                f"got {(shown if is_text(item) else told)(item)}"
            )
    return several


def one_picture(given: Image, source: str) -> Picture:
    """A picture from a file or from memory; messages call the latter `source`.

    Raises:
        BadImage: it cannot be used.
    """
    return read_picture(Path(given)) if is_path(given) else array_picture(given, source)


def read_picture(path: Path, trim: bool = True) -> Picture:
    """One picture from a file, with or without its margins; see `given_pictures`.

    Raises:
        BadImage: missing, no permission, empty, not a picture, too small, or blank.
    """
    if path.suffix.lower() in _FILMS and path.is_file():  # do not read it: it may be larger than the memory
        raise BadImage(f"{path} is not a picture but a video; {_from_video(path)}")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as exc:
        raise BadImage(f"{path} cannot be read: {exc.strerror or exc}") from exc
    if len(data) > MOST_BYTES:
        raise BadImage(f"{path} is larger than {MOST_BYTES >> 20} MiB, the limit for a picture")
    return _flat(read_pixels(data, str(path)), str(path), trim, several_in(data))


def array_picture(given: Any, source: str, trim: bool = True) -> Picture:
    """A picture in memory, with or without its margins; see `given_pictures`, `given_pixels`.

    Raises:
        BadImage: another shape or type, too small, or blank.
    """
    return _flat(given_pixels(given, source), source, trim)


def picture_files(paths: Iterable[Path | str], root: Path | None = None) -> list[Path]:
    """The image files that files, folders (without subfolders) and globs mean, each once, in order.

    Args:
        root: what relative paths are relative to, default the working directory; no part of any pattern.

    Raises:
        BadImage: a path or pattern matches nothing, a folder has no image, or access is denied.
    """
    try:
        return list(_picture_files(paths, Path() if root is None else root))
    except OSError as exc:
        raise BadImage(f"{exc.filename} cannot be read: {exc.strerror or exc}") from exc


def _picture_files(paths: Iterable[Path | str], root: Path) -> dict[Path, None]:
    found: dict[Path, None] = {}
    for given in paths:
        path = spelled(root / given)
        if path.is_dir():
            inside = images_in(path)
            if not inside:
                raise BadImage(f"the folder {path} holds no image{_instead(path)}")
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        elif matches := _matching(str(given), root):
            found.update(dict.fromkeys(matches))
        else:
            raise BadImage(f"no image at {path}, and no file matches it as a pattern")
    return found


def _matching(pattern: str, root: Path) -> list[Path]:
    """The files that match a pattern in a folder, whose own name is no part of the pattern."""
    found: list[str] = []
    for words in (pattern, unicodedata.normalize("NFD", pattern)):  # as in names from a Mac
        found = found or glob.glob(words, root_dir=root, recursive=True)  # noqa: PTH207
    return sorted(root / one for one in found)


def images_in(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.iterdir()) if is_picture_file(p)]


def _instead(folder: Path) -> str:
    """What to expect in a folder without images, or what to do with its videos or subfolders."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    films = [p for p in files if p.suffix.lower() in _FILMS]
    others = "".join(f"; {line}" for line in left_out(folder, [p for p in files if p not in films]))
    if albums := [p for p in sorted(folder.iterdir()) if p.is_dir() and images_in(p)]:
        many = counted(len(albums), "subfolder has", "subfolders have")
        album = command("register", "--album", str(folder))
        return f", but {many}; to register an entity for each: {album}{others}"
    if films:
        return f" but {counted(len(films), 'video')}; {_from_video(films[0])}{others}"
    return f"; expected files ending in {' '.join(sorted(PICTURE_SUFFIXES))}{others}"


def _from_video(path: Path) -> str:
    return "cut an example out of a frame: " + command(
        "register", "NAME", "--video", str(path), "--at", "SECONDS", "--box", "x1,y1,x2,y2"
    )


def _flat(pixels: NDArray[np.uint8], source: str, trim: bool, several: Several | None = None) -> Picture:
    """The picture of pixels (H, W, 3) or (H, W, 4), checked."""
    if trim:
        return _trimmed(pixels, source, several)
    whole = checked(Picture(np.ascontiguousarray(laid_flat(pixels)), source, several))
    with contextlib.suppress(BadImage):  # it is registered with its margins or not at all
        trimmed = _trimmed(pixels, source, several)
        if trimmed.size != whole.size:
            return replace(whole, trimmed=trimmed.kept())
    return whole


def _trimmed(pixels: NDArray[np.uint8], source: str, several: Several | None) -> Picture:
    x1, y1, x2, y2 = seen_box(pixels)
    seen = pixels[y1:y2, x1:x2]
    grounds = GROUNDS if transparent_share(seen) >= TRANSPARENT else {"": MID_GREY}
    laid = [
        Picture(np.ascontiguousarray(laid_flat(seen, level)), source + name, several, (x1, y1))
        for name, level in grounds.items()
    ]
    # What is white cannot be seen on white.
    whole, *others = [one for one in laid if not _is_blank(one)] or laid[:1]
    whole = checked(replace(whole, source=source))
    inside = inside_margin(whole.rgb)
    if inside is not None:
        # If a line, a speck or a stripe would be left, the picture itself is what was meant.
        with contextlib.suppress(BadImage):
            part = checked(_inside(whole, inside))
            return replace(part, grounds=tuple(_inside(other, inside) for other in others))
    return replace(whole, grounds=tuple(others))


def _inside(picture: Picture, box_xyxy: tuple[int, int, int, int]) -> Picture:
    """The part of a picture inside its margin of one colour."""
    (x1, y1, x2, y2), (x, y) = box_xyxy, picture.left_top
    own = (x + x1, y + y1, x + x2, y + y2)
    part = np.ascontiguousarray(picture.rgb[y1:y2, x1:x2])
    return replace(picture, rgb=part, left_top=own[:2], inside_xyxy=own)


def with_grounds(pictures: Sequence[Picture]) -> list[Picture]:
    """All pictures, then those with transparent parts once more on each of their other grounds."""
    return [*pictures, *(other for picture in pictures for other in picture.grounds)]


def _is_blank(picture: Picture) -> bool:
    # numpy's deviation takes 24 times the picture's memory
    return float(cv2.meanStdDev(picture.rgb)[1].max()) < BLANK_SPREAD


def checked(picture: Picture) -> Picture:
    """Return the picture if it can be used as an example.

    Raises:
        BadImage: it is too small or blank.
    """
    height, width = picture.rgb.shape[:2]
    if min(height, width) < MIN_SIDE:
        raise BadImage(
            f"{picture.source} is {width}x{height} pixels; an example needs at least {MIN_SIDE} on each side"
        )
    if _is_blank(picture):
        raise BadImage(
            f"{picture.source} shows nothing: it is all one colour. Use a picture that shows the entity"
        )
    return picture


def passed_over(paths: Iterable[Any], known: Iterable[str] = ()) -> tuple[str, ...]:
    """A line for each folder among the paths that contains more than the pictures used from it.

    Args:
        known: names of subfolders that are searched elsewhere.
    """
    told_of: dict[str, None] = {}
    for path in (Path(given) for given in paths if is_path(given)):
        if path.is_dir():
            there = [p for p in sorted(path.iterdir()) if not p.name.startswith(".")]
            folders = [p for p in there if p.is_dir()]
            files = [p for p in there if not p.is_dir()]
            others = [p for p in folders if p.name not in known]
            told_of.update(dict.fromkeys(left_out(path, files, len(others))))
    return tuple(told_of)
