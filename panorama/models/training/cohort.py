"""Training pictures come in; the strangers that a model's scores are normalised against go out.

Besides pictures of things, they include unclear parts of pictures. An archive is full of crops that show
nothing in particular: a dark corner, a blurred edge, a bare wall. These resemble each other. If all strangers
were things, none would be close to such a crop, and two of them would pass for the same thing. The same holds
for what is printed, so they include marks, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from panorama.models.base import Image
from panorama.models.embedder import PanoramaNet
from panorama.models.training.marks import mark
from panorama.models.training.sources import Item
from panorama.models.weights import COHORT, open_model, record_hashes
from panorama.pictures.pixels import laid_flat
from panorama.whole_files import write_whole

COHORT_SIZE = 512
"""Most whole pictures."""

SHARE_OF_SIDE = (0.1, 0.5)
"""Size of an unclear part, as a share of the picture's shorter side."""

LONGER = 0.6
"""Largest logarithm of a part's ratio of width to height, or height to width."""

BLUR = (1.0, 16.0)
"""Standard deviation of the blur, in pixels at PART_SIDE."""

DARKER = (-3.0, 0.3)
"""Logarithm of the factor on brightness."""

PART_SIDE = 128


def cohort_items(items: Sequence[Item], size: int = COHORT_SIZE, seed: int = 0) -> list[Item]:
    """At most `size` items, one per class or instance, taken from the sources in turn.

    Of each, the first opaque one in an order drawn by the seed stands for it, and of a source those that come
    last in this order are taken. Only pictures that may be among them are read: a training has thousands.
    """
    drawn = [items[i] for i in np.random.default_rng(seed).permutation(len(items))]

    @cache
    def opaque(place: int) -> bool:
        return not _transparent(drawn[place])

    queues: dict[str, list[tuple[int, list[int]]]] = {}  # by source; heaps of (-last place, places in order)
    for places in _places(drawn):
        if len({drawn[place].source for place in places}) > 1:
            places = list(islice(filter(opaque, places), 1))
        if places:
            heapq.heappush(queues.setdefault(drawn[places[0]].source, []), (-places[-1], places))

    def first(source: str) -> int:
        """The first place of an opaque item of a source."""
        places = sorted(place for _, some in queues[source] for place in some)
        return next(filter(opaque, places), len(drawn))

    chosen: list[Item] = []
    waiting = [queues[source] for source in sorted(queues, key=first)]
    while waiting and len(chosen) < size:
        taken = (_last(queue, opaque) for queue in waiting)
        chosen += islice((drawn[place] for place in taken if place is not None), size - len(chosen))
        waiting = [queue for queue in waiting if queue]
    return chosen


def _places(drawn: Sequence[Item]) -> Iterator[list[int]]:
    """For each class or instance, the places of its items in order, each file once."""
    found: dict[str, dict[object, int]] = {}
    for place, item in enumerate(drawn):
        identity = item.label or f"{item.source}#{item.instance}"
        found.setdefault(identity, {}).setdefault(place if item.path is None else item.path, place)
    return (list(places.values()) for places in found.values())


def _last(queue: list[tuple[int, list[int]]], opaque: Callable[[int], bool]) -> int | None:
    """Take from a heap the place of what stands for a class or instance, the last of all; None without one.

    Until its pictures are read, any of its places may be the one: the last of them is a bound.
    """
    while queue:
        _, places = heapq.heappop(queue)
        place = next(filter(opaque, places), None)
        if place is not None and place == places[-1]:
            return place
        if place is not None:
            heapq.heappush(queue, (-place, [place]))
    return None


def _transparent(item: Item) -> bool:
    return item.pixels is None and item.path is not None and item.load().shape[2] == 4


def cohort_pictures(items: Sequence[Item], seed: int = 0) -> list[Image]:
    """Pictures of `cohort_items`, then half as many unclear parts of them, then as many marks as parts."""
    chosen = cohort_items(items, seed=seed)
    pictures = [np.ascontiguousarray(laid_flat(item.load())) for item in chosen]
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(pictures))[: len(pictures) // 2]
    parts = [unclear_part(pictures[i], rng) for i in drawn]
    return pictures + parts + [mark(rng) for _ in parts]


def unclear_part(picture: Image, rng: np.random.Generator) -> Image:
    """(PART_SIDE, PART_SIDE, 3): a small part of a picture, sometimes blurred, darkened or grey."""
    height, width = picture.shape[:2]
    size = rng.uniform(*SHARE_OF_SIDE) * min(height, width)
    longer = np.exp(rng.uniform(-LONGER, LONGER) / 2)
    high = int(np.clip(size / longer, 1, height))
    wide = int(np.clip(size * longer, 1, width))
    top, left = int(rng.integers(height - high + 1)), int(rng.integers(width - wide + 1))
    seen = cv2.resize(picture[top : top + high, left : left + wide], (PART_SIDE, PART_SIDE))
    part = np.asarray(seen, np.float32)
    if rng.random() < 0.5:
        part = np.asarray(cv2.GaussianBlur(part, (0, 0), rng.uniform(*BLUR)), np.float32)
    if rng.random() < 0.5:
        part = part * np.float32(np.exp(rng.uniform(*DARKER)))
    if rng.random() < 0.3:
        part = np.repeat(part.mean(axis=2, keepdims=True), 3, axis=2)
    return np.clip(part, 0, 255).astype(np.uint8)


def in_grey(picture: Image) -> Image:
    """The same picture (H, W, 3) without its colours."""
    return np.asarray(cv2.cvtColor(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB))


def cohort_bytes(
    vectors: NDArray[np.floating], grey: NDArray[np.floating], hues: NDArray[np.floating]
) -> bytes:
    """The file of vectors (exits, N, dim), of the same pictures in grey, and of `PanoramaNet.hues`."""
    parts = {"vectors": vectors, "grey": grey, "hues": hues}
    return save({name: np.ascontiguousarray(part, np.float16) for name, part in parts.items()})


def write_cohort(folder: Path, pictures: Sequence[Image]) -> None:
    """Write the pictures' vectors, and those in grey, beside the weights; without pictures, remove the file.

    A model that is not shown colours cannot tell what is grey, and has no grey strangers.

    Raises:
        ModelError: the folder holds no embedder.
    """
    record_hashes(folder)  # opening a model checks them
    if pictures:
        model = PanoramaNet(open_model(str(folder), "embedder"), precision="float32")
        hues = model.hues()
        grey = [in_grey(picture) for picture in pictures] if hues.size else []
        write_whole(folder / COHORT, cohort_bytes(model.embed_all(pictures), model.embed_all(grey), hues))
    else:
        (folder / COHORT).unlink(missing_ok=True)
    record_hashes(folder)
