"""A recipe's `[[source]]` tables and data folders come in; training pictures go out, no held-out ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage, UsageError
from panorama.folders import files_below
from panorama.models.base import Image
from panorama.models.training.split import check_clips, held_out, row_held_out
from panorama.models.training.tables import BOX, box_of, rows_of
from panorama.pictures.pixels import PICTURE_SUFFIXES, read_pixels

ReadFrames = Callable[[Path, float], Iterator[Image]]
"""Yields one RGB frame of a clip per gap in seconds; `panorama.video` provides it."""

LONGEST_SIDE = 320


@dataclass(frozen=True, slots=True)
class Item:
    """One training picture, or a part of one.

    Attributes:
        source: name of its source in the recipe.
        label: its class, or '' if unknown.
        instance: what it shows; pictures of one thing share it.
        path: the file; None if `pixels` holds the picture.
        box_xyxy: the part to use, in pixels; None for the whole picture.
        pixels: (H, W, 3 or 4) uint8; None if `path` names a file.
    """

    source: str
    label: str
    instance: str
    path: Path | None = None
    box_xyxy: tuple[float, float, float, float] | None = None
    pixels: NDArray[np.uint8] | None = None

    def load(self) -> NDArray[np.uint8]:
        """The picture, (H, W, 3) RGB or (H, W, 4) RGBA; from a file, its longer side is at most LONGEST_SIDE.

        Raises:
            BadImage: the file is missing, or cannot be read as a picture.
        """
        if self.pixels is not None:
            return self.pixels
        return shrink_seen(crop_with_margin(read_picture(Path(str(self.path))), self.box_xyxy))


def read_picture(path: Path) -> NDArray[np.uint8]:
    """(H, W, 3) RGB, or (H, W, 4) RGBA if the file has transparency; upright.

    Raises:
        BadImage: the file is missing, or cannot be read as a picture.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise BadImage(f"{path} is not there; put it back, or remove it from the training data") from exc
    except (OSError, ValueError) as exc:  # ValueError: what no file can be called
        why = getattr(exc, "strerror", None) or exc
        raise BadImage(f"{path} cannot be read: {why}; remove it from the training data") from exc
    try:
        return read_pixels(data, str(path))
    except BadImage as exc:
        raise BadImage(f"{path} cannot be read as a picture; remove it from the training data") from exc


def crop_with_margin(
    picture: NDArray[np.uint8], box_xyxy: tuple[float, float, float, float] | None, margin: float = 0.12
) -> NDArray[np.uint8]:
    """The box with a margin, a share of its sides, within the picture; without a box the whole picture."""
    if box_xyxy is None:
        return picture
    x1, y1, x2, y2 = box_xyxy
    dx, dy = (x2 - x1) * margin, (y2 - y1) * margin
    height, width = picture.shape[:2]
    left, top = max(0, int(x1 - dx)), max(0, int(y1 - dy))
    return picture[
        top : max(top + 1, min(height, int(y2 + dy))), left : max(left + 1, min(width, int(x2 + dx)))
    ]


def shrink(picture: NDArray[np.uint8], longest: int = LONGEST_SIDE) -> NDArray[np.uint8]:
    """The picture, scaled down if a side is longer than `longest`."""
    factor = longest / max(picture.shape[:2])
    if factor >= 1:
        return np.ascontiguousarray(picture)
    size = (max(1, round(picture.shape[1] * factor)), max(1, round(picture.shape[0] * factor)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)


def shrink_seen(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Like `shrink`, but a colour counts by its opacity: hidden ones do not come out at the edges."""
    small = shrink(picture)
    if picture.shape[2] == 3 or small.shape == picture.shape:
        return small
    size, opacity = small.shape[1::-1], picture[..., 3:].astype(np.float32)
    colors = cv2.resize(picture[..., :3] * opacity, size, interpolation=cv2.INTER_AREA)
    weights = cv2.resize(opacity, size, interpolation=cv2.INTER_AREA)[..., None]
    small[..., :3] = np.rint(colors / np.maximum(weights, 1e-6)).clip(0, 255)
    return small


def labelled_csv(table: Mapping[str, Any], root: Path) -> list[Item]:
    """Pictures listed in a CSV with file, source, class and identity; held-out classes are left out.

    Raises:
        UsageError: the table cannot be read, or lacks a column.
    """
    items = []
    for row in labelled_rows(table, root):
        if row["source"] != table["name"]:
            continue
        by_class = row["identity"] in ("class", "iconic")
        if by_class and row_held_out(row):
            continue
        label = f"{row['source']}/{row['class']}" if by_class else ""
        items.append(Item(row["source"], label, row["file"], root / row["file"]))
    return items


def folders(table: Mapping[str, Any], root: Path) -> list[Item]:
    """Pictures below a folder. With `labels`, the first folder is the class; held-out ones are omitted."""
    base = root / table.get("path", ".")
    items = []
    for path in (p for p in files_below(base) if p.suffix.lower() in PICTURE_SUFFIXES):
        inside = path.relative_to(base)
        label = inside.parts[0] if table.get("labels") and len(inside.parts) > 1 else ""
        if label and table.get("hold_out", True) and held_out(table["name"], label):
            continue
        full = f"{table['name']}/{label}" if label else ""
        items.append(Item(table["name"], full, f"{table['name']}/{inside}", path))
    return items


def boxes_csv(table: Mapping[str, Any], root: Path) -> list[Item]:
    """Boxes of a CSV with file, x1, y1, x2, y2, class, as pictures.

    Left out are files whose path contains `without`, and classes in `without_classes`.

    Raises:
        UsageError: the table cannot be read, lacks a column or value, or has a box that is none.
        BadImage: a file is missing, or cannot be read as a picture.
    """
    items: list[Item] = []
    loaded: dict[str, NDArray[np.uint8]] = {}
    path = root / table["csv"]
    for number, row in enumerate(rows_of(path, ("file", "class", *BOX), f"source {table['name']!r}")):
        if table.get("without") and table["without"] in row["file"]:
            continue
        if row["class"] in table.get("without_classes", ()):
            continue
        box = box_of(row, path)
        if min(box[2] - box[0], box[3] - box[1]) < table.get("min_side", 16):
            continue
        if row["file"] not in loaded:
            loaded.clear()
            loaded[row["file"]] = read_picture(root / row["file"])
        crop = shrink_seen(crop_with_margin(loaded[row["file"]], box))
        items.append(Item(table["name"], "", f"{row['file']}#{number}", pixels=crop.copy()))
    return items


def clips(table: Mapping[str, Any], root: Path, read_frames: ReadFrames | None) -> list[Item]:
    """Random windows of clips, each at up to three successive frames: one thing, or one place.

    Raises:
        UsageError: `files` has a clip that is in `judged`, or `read_frames` is None.
    """
    check_clips(table["files"], table.get("judged", ()))
    if read_frames is None:
        raise UsageError(f"source {table['name']!r} is video: train with `panorama train`, which reads video")
    rng = np.random.default_rng(table.get("seed", 0))
    gap_seconds = float(table.get("gap_seconds", 0.4))
    items = []
    for file in table["files"]:
        frames = [shrink(f, 960) for f in read_frames(root / table.get("path", ".") / file, gap_seconds)]
        for window in range(table.get("windows", 60) if frames else 0):
            start = int(rng.integers(len(frames)))
            height, width = frames[start].shape[:2]
            side = float(np.exp(rng.uniform(np.log(0.12), np.log(0.9)))) * min(height, width)
            aspect = float(np.exp(rng.uniform(np.log(0.4), np.log(1.8))))
            w, h = min(width - 1, int(side * aspect**0.5) + 2), min(height - 1, int(side / aspect**0.5) + 2)
            left, top = int(rng.integers(width - w)), int(rng.integers(height - h))
            for frame in frames[start : start + 3]:
                crop = shrink(frame[top : top + h, left : left + w]).copy()
                items.append(Item(table["name"], "", f"{file}#{window}", pixels=crop))
    return items


def labelled_rows(table: Mapping[str, Any], root: Path) -> Iterator[dict[str, str]]:
    """The rows of a labelled table, those of other sources, too; UsageError where it lacks a column."""
    columns = ("file", "source", "class", "identity")
    yield from rows_of(root / table["csv"], columns, f"source {table['name']!r}")


def _named(table: Mapping[str, Any], root: Path) -> str:
    """For the error of a labelled-csv source without pictures: the sources its table names; else ''."""
    if table["kind"] != "labelled-csv":
        return ""
    names = sorted({row["source"] for row in labelled_rows(table, root)})
    return f": {table['csv']} has pictures of {', '.join(names) or 'nothing'}"


def data_folder(data: Mapping[str, Path], name: str, who: str) -> Path:
    """The data folder with this name; if it was not given, UsageError tells that `who` needs it."""
    if name not in data:
        given = ", ".join(data) or "none"
        raise UsageError(
            f"{who} needs the data folder {name!r} (given: {given}); name it: --data {name}=FOLDER"
        )
    return data[name]


def gather(
    tables: Sequence[Mapping[str, Any]], data: Mapping[str, Path], read_frames: ReadFrames | None = None
) -> list[Item]:
    """All training pictures of a recipe's `[[source]]` tables, in order.

    Raises:
        UsageError: a table names a data folder that was not given or an unknown kind, or finds no picture.
    """
    items: list[Item] = []
    for table in tables:
        root = data_folder(data, table["data"], f"source {table['name']!r}")
        match table["kind"]:
            case "labelled-csv":
                found = labelled_csv(table, root)
            case "folders":
                found = folders(table, root)
            case "boxes-csv":
                found = boxes_csv(table, root)
            case "clips":
                found = clips(table, root, read_frames)
            case kind:
                raise UsageError(
                    f"a source's kind is labelled-csv, folders, boxes-csv or clips, got {kind!r}"
                )
        if not found:
            raise UsageError(
                f"source {table['name']!r} finds no pictures to learn from in {root}{_named(table, root)}"
            )
        items.extend(found * int(table.get("repeat", 1)))
    return items
