"""Real things, each registered with several pictures, come in; queries for them go out, for `deciding.py`.

The drawn archive has only seven entities, too few to decide how several examples count. Results for these
things are reported beside the judges of `deciding_sets.py`; searched where they are absent, they set the
floor:

- `moments`: tracks of unlabelled clips, with boxes of two moments a second apart, searched at other moments;
- `classes`: the first pictures of classes that training did not see, searched among degraded views of all
  others: what the pictures have in common counts;
- `sides`: two pictures of different things registered as one, like a front and a back, which have no middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from deciding_sets import (
    APART_SECONDS,
    Archive,
    Mask,
    Thing,
    archive_of_pictures,
    embed_crops,
    embed_views,
    example_rows,
)
from degraded import degraded_pairs
from numpy.typing import NDArray

from panorama.library import Library
from panorama.models.base import Embedder, Image

EXAMPLES = 3
"""Pictures of a class that stand for it."""

MOMENTS = 2
"""Boxes of a track that stand for it: it has few crops, and one has to be left to be found by."""


def several_things(
    library: Library,
    videos: Mapping[str, Path],
    clips: Sequence[Thing],
    pictures: Sequence[Image],
    labels: Sequence[str],
) -> list[Thing]:
    """All three kinds.

    Args:
        library: of the unlabelled clips; videos: their files; clips: what is asked for there.
        pictures: of classes that training did not see; labels: their classes.
    """
    first, second = _degraded(pictures, library.embedder)
    archive = archive_of_pictures(second, "several")
    return [
        *_moments(library, videos, clips),
        *_classes(first, archive, labels),
        *_sides(first, archive, labels),
    ]


def _degraded(
    pictures: Sequence[Image], embedder: Embedder
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Views (N, V, exits, dim) of one degraded picture of each, and vectors (exits, N, dim) of another."""
    views = degraded_pairs(pictures, 128, seed=1)
    return embed_views(views[: len(pictures)], embedder), embedder.embed_all(views[len(pictures) :])


def _moments(library: Library, videos: Mapping[str, Path], clips: Sequence[Thing]) -> list[Thing]:
    found, picked = [], []
    for one, row in zip(clips, example_rows(library, clips[0].archive), strict=True):
        archive = one.archive
        (track,) = [t for t, slots in enumerate(archive.groups.slots) if row in slots]
        mine = archive.groups.slots[track]
        mine = mine[mine >= 0]
        chosen = [row]
        for other in sorted(mine.tolist(), key=lambda r: -abs(archive.seconds[r] - archive.seconds[row])):
            apart = np.abs(archive.seconds[[other]] - archive.seconds[chosen]) >= APART_SECONDS
            left = np.abs(archive.seconds[mine][:, None] - archive.seconds[[*chosen, other]]).min(axis=1)
            if len(chosen) < MOMENTS and apart.all() and (left >= APART_SECONDS).any():
                chosen.append(other)
        if len(chosen) < MOMENTS:
            continue
        near = np.abs(archive.seconds[:, None] - archive.seconds[chosen]).min(axis=1) < APART_SECONDS
        own = np.isin(np.arange(len(near)), mine)
        picked += chosen
        found.append(replace(one, judge="moments", crops=one.crops & ~(near & own)))
    views = embed_crops(library, videos, picked, seed=1)
    return [
        replace(one, views=views[i * MOMENTS : (i + 1) * MOMENTS], negatives=views[:0])
        for i, one in enumerate(found)
    ]


def _asked(
    judge: str, first: NDArray[np.float32], archive: Archive, examples: Sequence[int],
    shown: Mask, counted: Mask,
) -> Thing:  # fmt: skip
    every = np.ones(archive.units, np.bool_)
    name = " ".join(map(str, examples))
    return Thing(judge, name, archive, first[list(examples)], first[:0], shown, counted, every, every)


def _classes(first: NDArray[np.float32], archive: Archive, labels: Sequence[str]) -> list[Thing]:
    of = np.array(labels)
    found = []
    for name in np.unique(of):
        mine = np.flatnonzero(of == name)
        examples, rest = mine[:EXAMPLES], mine[EXAMPLES:]
        if len(rest) >= EXAMPLES:
            shown, asked = (np.isin(np.arange(len(of)), some) for some in (rest, examples))
            found.append(_asked("classes", first, archive, examples.tolist(), shown, ~asked))
    return found


def _sides(first: NDArray[np.float32], archive: Archive, labels: Sequence[str]) -> list[Thing]:
    of = np.array(labels)
    order = np.random.default_rng(0).permutation(len(of))
    found = []
    for a, b in zip(order[0::2].tolist(), order[1::2].tolist(), strict=False):
        if of[a] != of[b]:
            shown = np.isin(np.arange(len(of)), [a, b])
            counted = shown | ~np.isin(of, of[[a, b]])
            found.append(_asked("sides", first, archive, [a, b], shown, counted))
    return found
