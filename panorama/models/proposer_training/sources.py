"""The data folders come in; cached pictures with their boxes, and cut-outs to paste, go out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import ModelError
from panorama.folders import files_below
from panorama.json_text import parsed_json
from panorama.models.proposer_training.cutouts import from_plain_background, from_polygon, from_segmentation
from panorama.models.training.sources import shrink
from panorama.models.training.tables import boxes_of, rows_of
from panorama.whole_files import write_whole

PERMITTED_CLIPS = ("bottles", "bunny", "chaplin", "flies", "flower", "friday", "highway", "nasa", "robot")
"""Clips without an entity of the evaluation; every other .mp4 is for judging and never trained on."""

WHO = "a proposer's training"
"""What needs the tables of the data folder, in errors."""

INDEX, SCENES, CUTOUTS = "index.json", "scenes", "cutouts"
"""Files of a cache: what is in it, written last, and the names of its packed pictures."""

DRAWN = "drawn"
"""A kind of scene and of thing that needs no picture."""

BOXES = Path("boxes") / "boxes.csv"
"""The table of labelled pictures, below the data folder."""

LABELLED, SILENT, BACKDROP = 0, 1, 2
"""What is known of a picture: all its things have boxes; nothing; it shows no thing in particular."""

Picture = NDArray[Any]
"""Pixels, uint8; OpenCV's stubs promise no element type."""


def may_train_on(file: str) -> bool:
    """Whether a file, named relative to the data folder, may be trained on.

    Pictures of COCO's val2017 judge proposals; clips that are not in PERMITTED_CLIPS judge identities.
    """
    path = Path(file)
    top = path.parts[0] if path.parts else ""
    if top == "images":
        return True
    if top == "boxes":
        return "val2017" not in path.name
    if top == "video":
        return path.suffix == ".gif" or (path.suffix == ".mp4" and path.stem in PERMITTED_CLIPS)
    return False


def permitted(files: Iterable[str]) -> list[str]:
    """The files that may be trained on, sorted so that the order is the same everywhere."""
    return sorted(file for file in files if may_train_on(file))


@dataclass(frozen=True, slots=True)
class Packed:
    """Pictures of any size in one flat file, mapped into memory.

    Attributes:
        flat: all bytes, one picture after another.
        offsets: (N,) int64, the start of each picture.
        shapes: (N, 3) int32, height, width, channels.
    """

    flat: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    shapes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: int) -> Picture:
        start, shape = int(self.offsets[index]), tuple(int(n) for n in self.shapes[index])
        return self.flat[start : start + int(np.prod(shape))].reshape(shape)

    @classmethod
    def write(cls, pictures: Sequence[Picture], path: Path) -> None:
        """Store pictures as `path`.bin and `path`.npz."""
        sizes = np.array([p.size for p in pictures], np.int64)
        with path.with_suffix(".bin").open("wb") as file:
            for picture in pictures:
                file.write(np.ascontiguousarray(picture).tobytes())
        shapes = np.array([p.shape for p in pictures], np.int32).reshape(-1, 3)
        np.savez(path.with_suffix(".npz"), offsets=np.cumsum(sizes) - sizes, shapes=shapes)

    @classmethod
    def open(cls, path: Path) -> Packed:
        """Map the pictures that `write` stored.

        Raises:
            OSError, ValueError, KeyError, BadZipFile: a file is missing, cut off or of other content.
        """
        with np.load(path.with_suffix(".npz")) as index:
            offsets, shapes = index["offsets"], index["shapes"]
        bytes_of = path.with_suffix(".bin").stat().st_size
        if bytes_of != (wanted := int(shapes.astype(np.int64).prod(axis=1).sum())):
            raise ValueError(f"{path.name}.bin has {bytes_of} bytes, and its pictures {wanted}")
        if not bytes_of:  # nothing to map
            return cls(np.empty(0, np.uint8), offsets, shapes)
        return cls(np.memmap(path.with_suffix(".bin"), np.uint8, "r"), offsets, shapes)


@dataclass(frozen=True, slots=True)
class Store:
    """Everything that training pictures are made of.

    Attributes:
        scenes: RGB pictures.
        boxes: per scene (G, 4) float32, in pixels of the cached picture.
        groups: kind of scene -> the indices of its scenes, and what is known of them.
        cutouts: RGBA things.
        cutout_groups: kind of cut-out -> indices.
    """

    scenes: Packed
    boxes: list[NDArray[np.float32]]
    groups: dict[str, tuple[list[int], int]]
    cutouts: Packed
    cutout_groups: dict[str, list[int]]


def open_store(data: Path, cache: Path, settings: dict[str, Any], say: Callable[[str], None]) -> Store:
    """The store of a data folder, built below `cache` on the first call.

    Raises:
        ModelError: the folder lacks the tables that list its pictures, or the cache is damaged or has other
            settings.
    """
    index = cache / INDEX
    if not index.exists():
        cache.mkdir(parents=True, exist_ok=True)
        build_store(data, cache, settings, say)
    try:
        known = parsed_json(index.read_text(encoding="utf-8"))
        made, store = known["settings"], _stored(known, cache)
    except (OSError, ValueError, TypeError, KeyError, BadZipFile) as exc:
        raise ModelError(
            f"{cache} cannot be read ({type(exc).__name__}: {exc}); delete it to build it again"
        ) from exc
    if made != settings:
        raise ModelError(f"{cache} was built with other settings {made}; delete it to build it again")
    return store


def refuse_absent(store: Store, phases: Sequence[Mapping[str, Any]], data: Path) -> None:
    """Refuse a data folder without a kind of picture that a phase composes its pictures of.

    Raises:
        ModelError: there is none of a kind.
    """
    for number, phase in enumerate(phases, 1):
        for table, there in (("scenes", store.groups), ("things", store.cutout_groups)):
            shares: Mapping[str, float] = phase.get(table, {})
            if absent := [kind for kind, share in shares.items() if share and kind not in {*there, DRAWN}]:
                raise ModelError(
                    f"phase {number} of the recipe takes {table} of {', '.join(absent)}, and {data} has none:"
                    f" add such pictures and delete the cache, or leave them out there"
                )


def _stored(known: dict[str, Any], cache: Path) -> Store:
    """The store that a cache's index describes.

    Raises:
        OSError, ValueError, TypeError, KeyError, BadZipFile: a file is missing, cut off or of other content.
    """
    store = Store(
        Packed.open(cache / SCENES),
        [np.array(b, np.float32).reshape(-1, 4) for b in known["boxes"]],
        {name: (indices, state) for name, (indices, state) in known["groups"].items()},
        Packed.open(cache / CUTOUTS),
        dict(known["cutout_groups"]),
    )
    if len(store.boxes) != len(store.scenes):
        raise ValueError(f"boxes of {len(store.boxes)} pictures, but {len(store.scenes)} pictures")
    groups = [indices for indices, _ in store.groups.values()]
    for packed, lists in ((store.scenes, groups), (store.cutouts, store.cutout_groups.values())):
        if not all(0 <= index < len(packed) for indices in lists for index in indices):
            raise ValueError(f"it names pictures that are not among its {len(packed)}")
    return store


def build_store(data: Path, cache: Path, settings: dict[str, Any], say: Callable[[str], None]) -> None:
    """Decode, shrink and cut out everything that `open_store` maps into memory."""
    for table in (BOXES.as_posix(), "boxes/polygons.csv", "images/labels.csv"):
        if not (data / table).is_file():
            raise ModelError(
                f"no {table} in the data folder {data}; --data names the one with boxes/, images/ and video/"
            )
    rng = np.random.default_rng(settings["seed"])
    side = settings["scene_side"]
    scenes: list[Picture] = []
    boxes: list[list[list[float]]] = []
    groups: dict[str, tuple[list[int], int]] = {}

    def add(name: str, state: int, picture: Picture | None, true: NDArray[np.float32] | None = None) -> None:
        if picture is None:
            return
        factor = min(1.0, side / max(picture.shape[:2]))
        groups.setdefault(name, ([], state))[0].append(len(scenes))
        scenes.append(shrink(picture, side))
        boxes.append([] if true is None else (true * factor).round(2).tolist())

    for file, true in sorted(read_boxes(data).items()):
        add(Path(file).parts[1], LABELLED, read_rgb(data / file), true)
    images = read_images(data)
    for name, state in (
        ("backdrop", BACKDROP),
        ("caltech101", SILENT),
        ("grocery", SILENT),
        ("clothing", SILENT),
    ):
        for file in pick(rng, images.get(name, []), settings["scenes"][name]):
            add(name, state, read_rgb(data / file))
    for file in permitted(p.relative_to(data).as_posix() for p in (data / "video").iterdir()):
        for frame in read_frames(data / file, settings["frames_a_clip"]):
            add("video", SILENT, frame)
    Packed.write(scenes, cache / SCENES)
    say(f"scenes: { {name: len(found) for name, (found, _) in groups.items()} }")

    cutouts, cutout_groups = build_cutouts(data, images, settings, rng)
    Packed.write(cutouts, cache / CUTOUTS)
    say(f"cut-outs: { {name: len(found) for name, found in cutout_groups.items()} }")
    index = {"settings": settings, "boxes": boxes, "groups": groups, "cutout_groups": cutout_groups}
    write_whole(cache / INDEX, json.dumps(index).encode())


def build_cutouts(
    data: Path, images: dict[str, list[str]], settings: dict[str, Any], rng: np.random.Generator
) -> tuple[list[Picture], dict[str, list[int]]]:
    """Things with an alpha channel: outlined things, garments, things on plain grounds, logos."""
    side = settings["cutout_side"]
    cutouts: list[Picture] = []
    groups: dict[str, list[int]] = {}

    def add(name: str, cutout: Picture | None) -> None:
        if cutout is not None:
            groups.setdefault(name, []).append(len(cutouts))
            cutouts.append(shrink(cutout, side))

    for file, outlines in sorted(read_polygons(data).items()):
        picture = read_rgb(data / file)
        for outline in outlines:
            add("coco", None if picture is None else from_polygon(picture, outline))
    for name, wanted, cut in (
        ("clothing", settings["garments"], from_segmentation),
        ("iconic", settings["objects"], from_plain_background),
        ("caltech101", settings["objects"], from_plain_background),
    ):
        for file in pick(rng, images.get(name, []), wanted):
            picture = read_rgb(data / file)
            add(name, None if picture is None else cut(shrink(picture, side)))
    for file in images["logos"]:
        rgba = cv2.imread(str(data / file), cv2.IMREAD_UNCHANGED)
        if rgba is not None and rgba.ndim == 3 and rgba.shape[2] == 4:
            add("logos", cv2.cvtColor(rgba, cv2.COLOR_BGRA2RGBA))
    return cutouts, groups


def pick(rng: np.random.Generator, files: list[str], most: int) -> list[str]:
    """At most `most` of the files, drawn without replacement, in their own order."""
    if len(files) <= most:
        return files
    return [files[i] for i in sorted(rng.choice(len(files), most, replace=False))]


def read_images(data: Path) -> dict[str, list[str]]:
    """Files of images/ by kind: 'backdrop', 'iconic', 'logos' or the source's name."""
    found: dict[str, list[str]] = {"backdrop": [], "iconic": []}
    for row in rows_of(data / "images" / "labels.csv", ("file", "source", "identity"), WHO):
        kind = {"background": "backdrop", "iconic": "iconic"}.get(row["identity"], row["source"])
        found.setdefault(kind, []).append(row["file"])
    logos = (p for p in files_below(data / "images" / "logos") if p.suffix == ".png")
    found["logos"] = sorted(p.relative_to(data).as_posix() for p in logos)
    return {kind: permitted(files) for kind, files in found.items()}


def read_boxes(data: Path) -> dict[str, NDArray[np.float32]]:
    """The labelled pictures that may be trained on, and their boxes in pixels of the stored file."""
    found = boxes_of(data / BOXES, WHO)
    return {file: np.array(found[file], np.float32) for file in permitted(found)}


def read_polygons(data: Path) -> dict[str, list[NDArray[np.float32]]]:
    """The outlines (V, 2), normalised to the picture, of the pictures that may be trained on."""
    found: dict[str, list[NDArray[np.float32]]] = {}
    for row in rows_of(data / "boxes" / "polygons.csv", ("file", "polygon_xy_normalised"), WHO):
        points = np.array(row["polygon_xy_normalised"].split(), np.float32).reshape(-1, 2)
        found.setdefault(row["file"], []).append(points)
    return {file: found[file] for file in permitted(found)}


def read_rgb(path: Path) -> Picture | None:
    """One picture as RGB, None if it cannot be decoded."""
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    return None if bgr is None else cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def read_frames(path: Path, wanted: int) -> list[Picture]:
    """About `wanted` frames of a clip, evenly spread. Training needs no exact times, so OpenCV reads them."""
    clip = cv2.VideoCapture(str(path))
    frames: list[Picture] = []
    total = max(1, int(clip.get(cv2.CAP_PROP_FRAME_COUNT)))
    step, number = max(1, total // wanted), 0
    while clip.grab():
        if number % step == 0:
            good, bgr = clip.retrieve()
            if good:
                frames.append(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB))
        number += 1
    clip.release()
    return frames


def read_numbered(path: Path, numbers: Iterable[int]) -> dict[int, Picture]:
    """The frames of a clip with these numbers, counted from 0 in presentation order, read in one pass.

    Raises:
        ModelError: the clip has no such frame.
    """
    wanted = sorted(set(numbers))
    found: dict[int, Picture] = {}
    clip = cv2.VideoCapture(str(path))
    for number in range(wanted[-1] + 1 if wanted else 0):
        if not clip.grab():
            break
        if number in wanted:
            good, bgr = clip.retrieve()
            if good:
                found[number] = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    clip.release()
    absent = [number for number in wanted if number not in found]
    if absent:
        raise ModelError(f"{path} has no frame {absent[0]}")
    return found
