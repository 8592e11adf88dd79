"""Pictures as a user has them enter; exemplars leave, cut, stored as JPEG and embedded from that JPEG."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.crops import cut, decode_picture, encode_jpeg
from panorama.errors import BadImage, UsageError
from panorama.models.base import Embedder, Proposer
from panorama.regions import parse_box
from panorama.store import NewExemplar
from panorama.video import IMAGE_SUFFIXES, open_video

NEGATIVE_FOLDER = "not"
"""In an album, the subfolder of an entity's folder that holds its look-alikes."""

MIN_SIDE = 8
"""A picture with a shorter side, in pixels, says nothing about what it shows."""

BLANK_SPREAD = 3.0
"""A picture whose brightness and colours spread less than this (of 255) has nothing in it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One RGB picture (H, W, 3) and where it came from."""

    rgb: NDArray[np.uint8]
    source: str


def picture_files(paths: Iterable[Path | str]) -> list[Path]:
    """The image files that files, folders (not their subfolders) and globs stand for, each once, in order.

    Raises:
        BadImage: a path or pattern matches nothing, or a folder holds no image.
    """
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = [p for p in sorted(path.iterdir()) if p.suffix.lower() in IMAGE_SUFFIXES]
            if not inside:
                known = " ".join(sorted(IMAGE_SUFFIXES))
                raise BadImage(f"the folder {path} holds no image; expected files ending in {known}")
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        elif matches := sorted(Path(p) for p in glob.glob(str(path), recursive=True)):  # noqa: PTH207
            found.update(dict.fromkeys(matches))
        else:
            raise BadImage(f"no image at {path}")
    return list(found)


def read_picture(path: Path) -> Picture:
    """One picture from a file.

    Raises:
        BadImage: missing, no permission, empty, not a picture, too small, or blank.
    """
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise BadImage(f"{path} cannot be read: {exc.strerror or exc}") from exc
    return checked(Picture(decode_picture(data, str(path)), str(path)))


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
    spread = float(picture.rgb.reshape(-1, 3).astype(np.float32).std(axis=0).max())
    if spread < BLANK_SPREAD:
        raise BadImage(
            f"{picture.source} has nothing in it: it is all one colour. Use a picture that shows the entity"
        )
    return picture


def cut_box(picture: Picture, box: str) -> Picture:
    """The part inside `x1,y1,x2,y2`, in pixels of the picture.

    Raises:
        BadBox: malformed or outside the picture.
    """
    height, width = picture.rgb.shape[:2]
    corners = np.array(parse_box(box, width, height), np.float32)
    return checked(Picture(np.ascontiguousarray(cut(picture.rgb, corners)), f"{picture.source} [{box}]"))


def find_region(picture: Picture, proposer: Proposer) -> Picture:
    """The part most likely to be the thing meant: surely a thing, and large.

    Raises:
        BadImage: the proposer finds nothing.
    """
    regions = proposer.propose([picture.rgb])[0]
    if not len(regions):
        raise BadImage(f"nothing was found in {picture.source}; give --box x1,y1,x2,y2 or the whole picture")
    sides = regions.boxes_xyxy[:, 2:] - regions.boxes_xyxy[:, :2]  # (N, 2)
    best = int(np.argmax(regions.scores * np.sqrt(np.prod(sides, axis=1))))
    box = ",".join(str(round(float(c))) for c in regions.boxes_xyxy[best])
    return checked(
        Picture(np.ascontiguousarray(cut(picture.rgb, regions.boxes_xyxy[best])), f"{picture.source} [{box}]")
    )


def video_picture(video: Path, seconds: float, box: str | None) -> Picture:
    """The frame of a video shown at a time, cut to a box.

    Raises:
        UsageError: no box; a whole frame is hardly ever one entity.
        VideoError: the video cannot be read there.
    """
    if box is None:
        raise UsageError("with --video, say where the entity is in the frame: --box x1,y1,x2,y2")
    if seconds < 0:
        raise UsageError(f"--at is seconds from the start of the video, got {seconds}")
    with open_video(video) as reader:
        frame = reader.frame_at(seconds)
        whole = Picture(frame.rgb(), f"{video} at {frame.time_seconds:.3f} s")
    return cut_box(whole, box)


def exemplars(pictures: Sequence[Picture], embedder: Embedder, negative: bool = False) -> list[NewExemplar]:
    """Exemplars ready for the store; embedded from the JPEG that is kept, like every crop."""
    jpegs = [encode_jpeg(p.rgb) for p in pictures]
    vectors = embedder.embed_all([decode_picture(j) for j in jpegs])  # (exits, B, dim)
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
        BadImage: there is no such folder, or no subfolder with images.
    """
    if not folder.is_dir():
        raise BadImage(f"no album at {folder}: expected a folder with one subfolder of images per entity")
    found = []
    for sub in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        images = [p for p in sorted(sub.iterdir()) if p.suffix.lower() in IMAGE_SUFFIXES]
        unlike = sub / NEGATIVE_FOLDER
        rivals = sorted(unlike.iterdir()) if unlike.is_dir() else []
        if images:
            found.append((sub.name, images, [p for p in rivals if p.suffix.lower() in IMAGE_SUFFIXES]))
    if not found:
        raise BadImage(f"{folder} holds no subfolder with images; an album has one subfolder per entity")
    return found
