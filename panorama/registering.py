"""Pictures as a user has them enter; exemplars leave, cut, stored as JPEG and embedded from that JPEG."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.arguments import is_path, is_pixels, told
from panorama.crops import cut, decode_picture, encode_jpeg
from panorama.errors import BadImage, UsageError
from panorama.examples import embed_examples
from panorama.left_out import is_picture_file, left_out
from panorama.lines import counted
from panorama.margins import margin_remark
from panorama.models.base import Embedder, Proposer
from panorama.pixels import PICTURE_SUFFIXES, given_pixels, laid_flat, moves, read_pixels, seen_box
from panorama.regions import parse_box
from panorama.store import NewExemplar
from panorama.video import VIDEO_SUFFIXES, open_video

if TYPE_CHECKING:
    from panorama.library import Library

NEGATIVE_FOLDER = "not"
"""In an album, the subfolder of an entity's folder that holds its look-alikes."""

MIN_SIDE = 8
"""A picture with a shorter side, in pixels, says nothing about what it shows."""

BLANK_SPREAD = 3.0
"""A picture whose brightness and colours spread less than this (of 255) has nothing in it."""


_BEST_OF_TRACK = """
SELECT crop_id, video, time FROM crops WHERE track_id = ? ORDER BY quality DESC, crop_id, video LIMIT 1
"""
_CROP = "SELECT crop_id, video, time FROM crops WHERE crop_id = ? ORDER BY video LIMIT 1"

SHOWN_CUTS = 5
"""Of so many pictures it is said what was cut out of them."""

Image = Any
"""A file, an RGB or RGBA array, a tensor of torch or a picture of PIL; see `panorama.pixels`."""
Images = Any
"""One or several files, folders, globs or pictures in memory."""


_FILMS = VIDEO_SUFFIXES - PICTURE_SUFFIXES


@dataclass(frozen=True, slots=True)
class Picture:
    """One RGB picture (H, W, 3) and where it came from.

    Attributes:
        first: whether it is the first of several, in a file that moves.
        corner_xy: its corner in the picture as given, of which transparent margins were cut off. Boxes count
            in pixels of that.
    """

    rgb: NDArray[np.uint8]
    source: str
    first: bool = False
    corner_xy: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Given:
    """What was given to register one entity by.

    Attributes:
        pictures, rivals: examples, and look-alikes that it is not.
        told: remarks for people on them.
    """

    pictures: Sequence[Picture]
    rivals: Sequence[Picture]
    told: tuple[str, ...] = ()

    @classmethod
    def of(cls, pictures: Sequence[Picture], look_alike: bool) -> Given:
        """Pictures that are all examples, or all look-alikes."""
        return cls((), pictures) if look_alike else cls(pictures, ())


def given(
    images: Images,
    unlike: Images,
    box: str | Sequence[float] | None,
    find: bool,
    finder: Callable[[], Proposer],
) -> Given:
    """Examples and look-alikes as the user named them, read and cut.

    Args:
        images, unlike, box, find: see `Library.register`.
        finder: gives what finds things, where `find` asks for it.

    Raises:
        UsageError: a box for several pictures, or something that is no picture.
        BadImage, BadBox: a picture cannot serve.
    """
    images, unlike = listed(images), listed(unlike)
    pictures, rivals = read_pictures(images, trim=box is None), read_pictures(unlike)
    told = first_only([*pictures, *rivals]) + passed_over([*images, *unlike])
    if box is not None:
        if find or len(pictures) != 1:
            raise UsageError(f"--box cuts one image and stands without --find; {len(pictures)} were given")
        return Given([cut_box(pictures[0], box)], rivals, told)
    if find:
        found = [find_region(picture, finder()) for picture in pictures]
        return Given(found, rivals, told + cut_out(pictures, found))
    return Given(pictures, rivals, told + wide_margins(pictures))


def given_album(folder: Path) -> dict[str, Given]:
    """The same of an album, by the names of its subfolders.

    Raises:
        BadImage: no such folder, one without pictures, or a picture that cannot serve.
    """
    album = {}
    for name, images, unlike in album_folders(folder):
        pictures, rivals = read_pictures(images), read_pictures(unlike)
        told = first_only([*pictures, *rivals]) + passed_over_in_album(folder, name)
        album[name] = Given(pictures, rivals, told + wide_margins(pictures))
    return album


def read_pictures(given: Images, trim: bool = True) -> list[Picture]:
    """The pictures that files, folders, globs and pictures in memory stand for, those in memory last.

    Args:
        trim: whether transparent margins are cut off; not where a box is told in pixels of the picture.

    Raises:
        UsageError: something else was given.
        BadImage: one of them cannot serve.
    """
    several = listed(given)
    files = [item for item in several if not is_pixels(item)]
    arrays = [item for item in several if is_pixels(item)]
    return [read_picture(path, trim) for path in picture_files(files)] + [
        # A picture of PIL knows the file that it was opened from.
        array_picture(array, str(getattr(array, "filename", "") or f"array {number}"), trim)
        for number, array in enumerate(arrays, start=1)
    ]


def listed(given: Images) -> list[Any]:
    """What was given as a list: paths and pictures in memory, not looked into.

    Raises:
        UsageError: something else was given.
    """
    one = isinstance(given, (str, bytes, os.PathLike)) or is_pixels(given)
    # An array of four dimensions is a batch: iterating gives its pictures.
    several = list(given) if isinstance(given, Iterable) and not one else [given]
    for item in several:
        if not (is_path(item) or is_pixels(item)):
            raise UsageError(
                "a picture is a file, folder, pattern or RGB array (height, width, 3), or a picture of PIL, "
                f"got {told(item)}"
            )
    return several


def one_picture(given: Image, source: str) -> Picture:
    """A picture from a file, or from one in memory that `source` names in messages.

    Raises:
        BadImage: it cannot serve.
    """
    return array_picture(given, source) if is_pixels(given) else read_picture(Path(given))


def array_picture(given: Any, source: str, trim: bool = True) -> Picture:
    """A picture from one in memory, without its transparent margins or with them; see `given_pixels`.

    Raises:
        BadImage: another shape or type, too small, or blank.
    """
    return _flat(given_pixels(given, source), source, trim)


def picture_files(paths: Iterable[Path | str]) -> list[Path]:
    """The image files that files, folders (not their subfolders) and globs stand for, each once, in order.

    Raises:
        BadImage: a path or pattern matches nothing, a folder holds no image, or something may not be read.
    """
    try:
        return list(_picture_files(paths))
    except OSError as exc:
        raise BadImage(f"{exc.filename} cannot be read: {exc.strerror or exc}") from exc


def _images_in(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.iterdir()) if is_picture_file(p)]


def passed_over(paths: Iterable[Any], known: Iterable[str] = ()) -> tuple[str, ...]:
    """A line for each folder among the paths that holds more than the pictures which are taken from it.

    Args:
        known: names of subfolders that are looked into.
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


def first_only(pictures: Iterable[Picture]) -> tuple[str, ...]:
    """A line for each picture that moves, of which only the first is an example."""
    return tuple(
        f"{picture.source} moves: its first picture is the example; another is taken with --video FILE "
        "--at SECONDS --box x1,y1,x2,y2"
        for picture in pictures
        if picture.first
    )


def wide_margins(pictures: Iterable[Picture]) -> tuple[str, ...]:
    """A line for each picture most of which is one colour around what it shows."""
    remarks = (margin_remark(picture.rgb, picture.source, picture.corner_xy) for picture in pictures)
    return tuple(remark for remark in remarks if remark is not None)


def cut_out(pictures: Sequence[Picture], found: Sequence[Picture]) -> tuple[str, ...]:
    """A line for each of the first pictures that says what was cut out of it: it may be something else."""
    lines = []
    for whole, part in zip(pictures[:SHOWN_CUTS], found, strict=False):
        (height, width), (tall, wide) = part.rgb.shape[:2], whole.rgb.shape[:2]
        lines.append(
            f"found and cut out: {part.source}, {width}x{height} of {wide}x{tall} pixels; "
            "if that is another thing, say where it is: --box x1,y1,x2,y2"
        )
    more = len(found) - len(lines)
    return (*lines, f"and of {more} more: panorama exemplars NAME") if more else tuple(lines)


def passed_over_in_album(album: Path, entity: str) -> tuple[str, ...]:
    """The same of an entity's folder in an album."""
    folder = album / entity
    return passed_over([folder], (NEGATIVE_FOLDER,)) + passed_over([folder / NEGATIVE_FOLDER])


def _picture_files(paths: Iterable[Path | str]) -> dict[Path, None]:
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = _images_in(path)
            if not inside:
                raise BadImage(f"the folder {path} holds no image{_instead(path)}")
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        elif matches := sorted(Path(p) for p in glob.glob(str(path), recursive=True)):  # noqa: PTH207
            found.update(dict.fromkeys(matches))
        else:
            raise BadImage(f"no image at {path}, and no file matches it as a pattern")
    return found


def _instead(folder: Path) -> str:
    """What a folder without an image should hold, or what to do with the videos that it holds."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    films = [p for p in files if p.suffix.lower() in _FILMS]
    others = "".join(f"; {line}" for line in left_out(folder, [p for p in files if p not in films]))
    if films:
        return f" but {counted(len(films), 'video')}; {_from_video(films[0])}{others}"
    return f"; expected files ending in {' '.join(sorted(PICTURE_SUFFIXES))}{others}"


def _from_video(path: Path) -> str:
    return (
        "an example is cut out of a frame: "
        f"panorama register NAME --video {path} --at SECONDS --box x1,y1,x2,y2"
    )


def read_picture(path: Path, trim: bool = True) -> Picture:
    """One picture from a file, without its transparent margins or with them.

    Raises:
        BadImage: missing, no permission, empty, not a picture, too small, or blank.
    """
    if path.suffix.lower() in _FILMS and path.is_file():  # not read: it may be larger than the memory
        raise BadImage(f"{path} is not a picture but a video; {_from_video(path)}")
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise BadImage(f"{path} cannot be read: {exc.strerror or exc}") from exc
    return _flat(read_pixels(data, str(path)), str(path), trim, moves(data))


def _flat(pixels: NDArray[np.uint8], source: str, trim: bool, first: bool = False) -> Picture:
    """The picture of pixels (H, W, 3) or (H, W, 4), checked."""
    corner = seen_box(pixels)[:2] if trim else (0, 0)
    return checked(Picture(np.ascontiguousarray(laid_flat(pixels, trim)), source, first, corner))


def checked(picture: Picture) -> Picture:
    """The picture itself.

    Raises:
        BadImage: it is too small or blank.
    """
    height, width = picture.rgb.shape[:2]
    if min(height, width) < MIN_SIDE:
        raise BadImage(
            f"{picture.source} is {width}x{height} pixels; an example needs at least {MIN_SIDE} on each side"
        )
    spread = float(cv2.meanStdDev(picture.rgb)[1].max())  # numpy's takes 24 times the picture's memory
    if spread < BLANK_SPREAD:
        raise BadImage(
            f"{picture.source} has nothing in it: it is all one colour. Use a picture that shows the entity"
        )
    return picture


def cut_box(picture: Picture, box: str | Sequence[float]) -> Picture:
    """The part inside `x1,y1,x2,y2`, as text or four numbers, in pixels of the picture.

    Raises:
        BadBox: malformed or outside the picture.
    """
    height, width = picture.rgb.shape[:2]
    box = box if isinstance(box, str) else ",".join(str(corner) for corner in box)
    corners = parse_box(box, width, height)
    rgb = np.ascontiguousarray(cut(picture.rgb, np.array(corners, np.float32)))
    return checked(Picture(rgb, f"{picture.source} [{','.join(map(str, corners))}]"))


def find_region(picture: Picture, proposer: Proposer) -> Picture:
    """The part that is most surely a thing.

    Raises:
        BadImage: the proposer finds nothing.
    """
    regions = proposer.propose([picture.rgb])[0]
    if not len(regions):
        raise BadImage(f"nothing was found in {picture.source}; give --box x1,y1,x2,y2 or the whole picture")
    # Of several the surest: preferring large ones as well was seen to take the table for the mug on it.
    best = int(np.argmax(regions.scores))
    box = ",".join(str(round(float(c))) for c in regions.boxes_xyxy[best])
    return checked(
        Picture(np.ascontiguousarray(cut(picture.rgb, regions.boxes_xyxy[best])), f"{picture.source} [{box}]")
    )


def video_picture(video: Path, seconds: float, box: str | Sequence[float] | None) -> Picture:
    """The frame of a video shown at a time, cut to a box.

    Raises:
        UsageError: no box (a whole frame is hardly ever one entity), or a time outside the video.
        VideoError: the video cannot be read there.
    """
    if box is None:
        raise UsageError("with --video, say where the entity is in the frame: --box x1,y1,x2,y2")
    with open_video(video) as reader:
        times = reader.times().seconds
        # Half a second of grace: the last frame is shown for a while, and players round.
        if not len(times) or not 0 <= seconds <= times[-1] + 0.5:
            end = f"{times[-1]:.3f}" if len(times) else "no frame"
            raise UsageError(f"--at is between 0 and the last frame of {video} at {end} s, got {seconds:g}")
        frame = reader.frame_at(seconds)
        whole = Picture(frame.rgb(), f"{video} at {frame.time_seconds:.3f} s")
    return cut_box(whole, box)


def seen_pictures(library: Library, track_ids: Sequence[int], crop_ids: Sequence[int]) -> list[Picture]:
    """The best stored crop of each track, and stored crops, in the order given.

    Raises:
        UsageError: none is named, or the library has not one of them, or no crop of a track.
    """
    if not len(track_ids) and not len(crop_ids):
        raise UsageError("name what was seen: a track_id or a crop_id, as a query returns them")
    chosen = []
    for kind, ids, sql in (("track", track_ids, _BEST_OF_TRACK), ("crop", crop_ids, _CROP)):
        for number in ids:
            row = library.query(sql, [int(number)]).fetchall()
            if not row:
                stored = " with a stored crop" if kind == "track" else ""  # forgotten ones leave their track
                raise UsageError(f"no {kind} {number}{stored}; a query over crops lists them")
            chosen += row
    return [
        Picture(library.crop(crop_id), f"{video} at {seconds:.3f} s, crop {crop_id}")
        for crop_id, video, seconds in chosen
    ]


def exemplars(pictures: Sequence[Picture], embedder: Embedder, negative: bool = False) -> list[NewExemplar]:
    """Exemplars ready for the store; embedded from the JPEG that is kept, like every crop."""
    if not pictures:
        return []
    jpegs = [encode_jpeg(p.rgb) for p in pictures]
    vectors = embed_examples([decode_picture(j) for j in jpegs], embedder)  # (exits, B, V, dim)
    return [
        NewExemplar(
            picture=jpeg,
            suffix=".jpg",
            source=picture.source,
            negative=negative,
            vectors={(embedder.hash, e + 1): vectors[e, i] for e in range(embedder.exits)},
            width=picture.rgb.shape[1],
            height=picture.rgb.shape[0],
        )
        for i, (picture, jpeg) in enumerate(zip(pictures, jpegs, strict=True))
    ]


def album_folders(folder: Path) -> list[tuple[str, list[Path], list[Path]]]:
    """Entities of an album: name, images, look-alikes (from a subfolder `not`), one per subfolder.

    Raises:
        BadImage: there is no such folder, no subfolder, or one without images.
    """
    if not folder.is_dir():
        raise BadImage(f"no album at {folder}: expected a folder with one subfolder of images per entity")
    found = []
    try:
        for sub in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            images = _images_in(sub)
            if not images:
                inside = any(_images_in(p) for p in sub.iterdir() if p.is_dir())
                meant = f"is {sub} the album?" if inside else "add one or take the folder away"
                others = "".join(f"; {line}" for line in passed_over([sub], (NEGATIVE_FOLDER,)))
                raise BadImage(
                    f"the album's folder {sub} holds no image; {meant}{others if not inside else ''}"
                )
            unlike = sub / NEGATIVE_FOLDER
            found.append((sub.name, images, _images_in(unlike) if unlike.is_dir() else []))
    except OSError as exc:
        raise BadImage(f"{exc.filename} cannot be read: {exc.strerror or exc}") from exc
    if not found:
        raise BadImage(f"{folder} holds no subfolder; an album has one subfolder of images per entity")
    return found
