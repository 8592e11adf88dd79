"""Footage comes in; everything that decision rules are judged on goes out: things present, and absent ones.

These are the archives of `deciding_sets.py` and the things of `deciding_several.py`, indexed once into a
folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from deciding_sets import (
    Archive,
    Thing,
    absent_from,
    clip_things,
    eval_things,
    own_videos_out,
    picture_things,
    sample_things,
)
from deciding_several import several_things
from numpy.typing import NDArray

import panorama
from panorama.cli.demo import renderer
from panorama.content import content_dir
from panorama.library import Library
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.heldout import held_out_pictures
from panorama.models.weights import read_recipe
from panorama.regions import Regions
from panorama.video import MotionProposer

ASKED_ELSEWHERE = 3
"""One of so many pictures is also asked for in the archives of video."""


@dataclass(frozen=True, slots=True)
class Sets:
    """All things, where they are to be seen and where they are not.

    Attributes:
        present: shown by their archive; absent: not.
        several: shown, real things by several examples each; reported beside the judges.
        cohort: (exits, N, dim) of the model.
    """

    present: tuple[Thing, ...]
    absent: tuple[Thing, ...]
    several: tuple[Thing, ...]
    cohort: NDArray[np.float32]


def clips_of(footage: Path) -> dict[str, Path]:
    """The videos that the shipped embedder was trained on windows of: none shows what is judged."""
    tables = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")["source"]
    table = next(one for one in tables if one["kind"] == "clips")
    return {name: footage / table["path"] / name for name in table["files"]}


@contextmanager
def only_detected() -> Iterator[None]:
    """Within, indexing proposes nothing because it moves."""
    learn = MotionProposer.update

    def update(self: MotionProposer, luma: NDArray[np.uint8]) -> Regions:
        return learn(self, luma)[:0]

    MotionProposer.update = update  # type: ignore[method-assign]
    try:
        yield
    finally:
        MotionProposer.update = learn  # type: ignore[method-assign]


def libraries(footage: Path, work: Path) -> dict[str, Library]:
    """The three archives, indexed into folders of `work` where they are not yet."""
    sample = renderer().render(work / "drawn")
    videos = {
        "eval": sorted((footage / "video").glob("*.mp4")),
        "sample": [sample.archive],
        "clips": list(clips_of(footage).values()),
    }
    found = {}
    for name, paths in videos.items():
        found[name] = panorama.open(work / name, create=True)
        found[name].index(paths)
    return found


def make_sets(footage: Path, work: Path) -> Sets:
    """Everything that rules are judged on; archives are indexed once."""
    opened = libraries(footage, work)
    embedder = opened["eval"].embedder
    recipe = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
    held = held_out_pictures(recipe["source"], {"footage": footage})
    asked = {
        "eval": eval_things(opened["eval"], footage),
        "sample": sample_things(opened["sample"], work / "drawn"),
        "clips": clip_things(opened["clips"], clips_of(footage)),
        "pictures": picture_things(list(held.load())[::4], held.labels[::4], embedder),
    }
    where = {name: things[0].archive for name, things in asked.items()}
    single = [one for one in asked["sample"] if one.judge in ("sample one", "sample box")]
    some = asked["pictures"][::ASKED_ELSEWHERE]
    absent = [
        *own_videos_out(asked["eval"], "eval out"),
        *own_videos_out(single, "sample out"),
        *own_videos_out(asked["clips"], "clips out"),
        *absent_from(where["sample"], asked["clips"], "clips in sample"),
        *absent_from(where["clips"], single, "sample in clips"),
    ]
    for name in ("sample", "clips", "eval"):
        absent += absent_from(where[name], some, f"pictures in {name}")
    absent += absent_from(where["eval"], single, "sample in eval")
    several = several_things(
        opened["clips"], clips_of(footage), asked["clips"], list(held.load())[::4], held.labels[::4]
    )
    album = [one for one in asked["sample"] if one.judge in ("sample album", "sample plain")]
    absent += silent_of_several(album, several, where)
    present = [thing for things in asked.values() for thing in things]
    return Sets(tuple(present), tuple(absent), tuple(several), embedder.cohort())


def silent_of_several(
    album: Sequence[Thing], several: Sequence[Thing], where: Mapping[str, Archive]
) -> list[Thing]:
    """Things registered by several examples, asked for where they are not.

    The largest of several values comes nearer to strangers than one: a floor must be heard for both.
    """
    moments, classes, sides = (
        [one for one in several if one.judge == judge] for judge in ("moments", "classes", "sides")
    )
    found = [
        *own_videos_out(album, "album out"),
        *absent_from(where["clips"], album, "album in clips"),
        *absent_from(where["eval"], album, "album in eval"),
        *own_videos_out(moments, "moments out"),
        *absent_from(where["sample"], moments, "moments in sample"),
    ]
    for name in ("sample", "clips"):
        found += absent_from(where[name], classes, f"classes in {name}")
        found += absent_from(where[name], sides[::ASKED_ELSEWHERE], f"sides in {name}")
    return found
