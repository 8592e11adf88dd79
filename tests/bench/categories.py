"""Categories of pictures that training did not see: found as individuals are, and as categories; silence.

    python tests/bench/categories.py --footage FOLDER --work WORK

A category is registered by some of its pictures, chosen by a seed, and asked for among degraded views of all
other held-out pictures (each a track of its own), and in archives of video that do not show it. WORK is that
of `deciding.py`: what is indexed there is not indexed again. Printed by the number of examples: the border,
as a value of an individual, from which the archives that choose are silent about 95 % of the categories; the
reach (`CATEGORY_REACH`) that puts it at the floor that ships; then, with the reach that ships and without,
how often archives are silent, and what is found.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from deciding import SHIPPED, Space, pooled
from deciding_judges import clips_of, libraries
from deciding_sets import WAYS, Archive, clip_things, embed_views, eval_things, sample_things
from numpy.typing import NDArray

from panorama.content import content_dir
from panorama.evaluate import average_precision
from panorama.models.base import Embedder
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.heldout import held_out_pictures
from panorama.models.training.views import degrade
from panorama.models.weights import read_recipe
from panorama.query.decide import CATEGORY_REACH

EXAMPLES = (1, 2, 3, 5, 10)
LEAST_LEFT = 6
"""Pictures of a category that must be left to be found."""

SEEDS = (0, 1)
SILENT = 0.95
EVAL = "eval"
"""The judged clips: reported, never chosen by."""

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """One category, asked for by some of its pictures.

    Attributes:
        loudest: by archive, the largest value of a track.
        values: (N,) of the other pictures; shown: (N,) those of the category.
    """

    loudest: dict[str, float]
    values: Vectors
    shown: Mask


@dataclass(frozen=True, slots=True)
class Pictures:
    """Held-out pictures at the deepest exit: (N,) labels, views (N, V, dim), and degraded (N, dim)."""

    labels: NDArray[np.str_]
    views: Vectors
    degraded: Vectors

    @classmethod
    def embedded(cls, footage: Path, embedder: Embedder) -> Pictures:
        recipe = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
        held = held_out_pictures(recipe["source"], {"footage": footage})
        pictures = held.load()
        kept = [list(WAYS).index(way) for way in SHIPPED.seen]
        worse = [degrade(picture, np.random.default_rng((9, i))) for i, picture in enumerate(pictures)]
        views = embed_views(pictures, embedder)[:, kept, -1]
        return cls(np.array(held.labels), np.asarray(views, np.float32), embedder.embed_all(worse)[-1])


def archives(footage: Path, work: Path) -> dict[str, Archive]:
    """What `deciding.py` indexed, by name."""
    opened = libraries(footage, work)
    things = (
        eval_things(opened["eval"], footage),
        sample_things(opened["sample"], work / "drawn"),
        clip_things(opened["clips"], clips_of(footage)),
    )
    return {name: some[0].archive for name, some in zip(opened, things, strict=True)}


def asked(examples: int, pictures: Pictures, where: dict[str, Archive], space: Space) -> Iterator[Asked]:
    """Every category that has enough pictures, once for each seed."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        for label in np.unique(pictures.labels):
            mine = rng.permutation(np.flatnonzero(pictures.labels == label))
            if len(mine) < examples + LEAST_LEFT:
                continue
            known, rest = mine[:examples], np.ones(len(pictures.labels), np.bool_)
            rest[known] = False
            views = pictures.views[known]
            loudest = {}
            for name, archive in where.items():
                values = space.values(views, archive.vectors[-1]).max(axis=0)
                tracks = archive.groups.spread(values, np.arange(len(archive.spans)))
                loudest[name] = float(pooled(tracks, SHIPPED).max())
            values = space.values(views, pictures.degraded[rest]).max(axis=0)
            yield Asked(loudest, values, pictures.labels[rest] == label)


def found(one: Asked, floor: float, near_best: float) -> tuple[float, float, float]:
    """F1, recall and precision (NaN where nothing is accepted) from a border on."""
    taken = (one.values >= floor) & (one.values >= near_best * one.values.max())
    hits, right = int((taken & one.shown).sum()), int(one.shown.sum())
    precision = hits / int(taken.sum()) if taken.any() else np.nan
    return 2 * hits / (int(taken.sum()) + right), hits / right, precision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where indexed archives are kept")
    given = parser.parse_args()
    where = archives(given.footage, given.work)
    import panorama

    embedder = panorama.open(given.work / EVAL).embedder
    floor = panorama.open(given.work / EVAL).calibrations[-1].centre
    pictures = Pictures.embedded(given.footage, embedder)
    space = Space(SHIPPED, embedder.cohort()[-1])
    reached = 1 - CATEGORY_REACH * (1 - floor)
    print("| examples | border | reach | asked as | silent | silent, eval | AP | F1 | recall | precision |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for count in EXAMPLES:
        some = list(asked(count, pictures, where, space))
        loud = np.array([value for one in some for name, value in one.loudest.items() if name != EVAL])
        judged = np.array([one.loudest[EVAL] for one in some])
        border = float(np.quantile(loud, SILENT))
        precision = np.mean([average_precision(one.values, one.shown) for one in some])
        for way, least, near in (("individual", floor, SHIPPED.near_best), ("category", reached, -np.inf)):
            means = np.nanmean([found(one, least, near) for one in some], axis=0)
            print(
                f"| {count} | {border:.3f} | {(1 - border) / (1 - floor):.3f} | {way} |"
                f" {(loud < least).mean():.3f} | {(judged < least).mean():.3f} | {precision:.3f} |"
                + "".join(f" {value:.3f} |" for value in means),
                flush=True,
            )


if __name__ == "__main__":
    main()
