"""Find categories of pictures that training did not see, asked for as individuals and as categories; silence.

    python tests/bench/categories.py --footage FOLDER --work WORK

A category is registered with some of its pictures, drawn by a seed. It is searched among degraded views of
all other held-out pictures (each a track of its own), and in video archives that do not show it. WORK is that
of `deciding.py`; what is indexed there is used again. The first table has, by number of examples and for each
way to ask: the value from which on the choosing archives are silent about 95 % of the categories; then, with
the shipped floor, how often archives are silent, and what is found. The second table is about categories that
another class is mistaken for: what is found, and how many of that class, without and with as many of its
pictures as look-alikes; these pictures are then left out of the search. The third is about several classes as
one category, which have little in common.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from deciding_judges import libraries
from numpy.typing import NDArray

from panorama.album.examples import embed_examples
from panorama.answering.source import PickedVectors
from panorama.content import content_dir
from panorama.judging.evaluate import average_precision
from panorama.library import Library
from panorama.models.base import Cohort, Embedder
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.heldout import held_out_pictures
from panorama.models.training.views import degrade
from panorama.models.weights import read_recipe
from panorama.query.matching.category import CATEGORY_REACH
from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.matches import ACCEPTED
from panorama.query.matching.scoring import Sought, Vectors, score_tracks
from panorama.query.matching.track_rows import TrackRows
from panorama.store import Album

EXAMPLES = (1, 2, 3, 5, 10)
LEAST_LEFT = 6
"""Pictures of a category that must be left to be found."""

CLASSES, OF_EACH = (2, 4, 8), 5
"""As one category: so many classes, each by so many pictures."""

SEEDS = (0, 1)
SILENT = 0.95
EVAL = "eval"
"""The judged clips: reported, never chosen by."""

Values = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pictures:
    """Held-out pictures at the deepest exit: (N,) labels, views (N, V, dim), and degraded (N, dim)."""

    labels: NDArray[np.str_]
    views: Values
    degraded: Values

    @classmethod
    def embedded(cls, footage: Path, embedder: Embedder) -> Pictures:
        recipe = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
        held = held_out_pictures(recipe["source"], {"footage": footage})
        pictures = list(held.load())
        worse = [degrade(picture, np.random.default_rng((9, i))) for i, picture in enumerate(pictures)]
        views = embed_examples(pictures, embedder)[-1]
        return cls(np.array(held.labels), views, embedder.embed_all(worse)[-1])


@dataclass(frozen=True, slots=True)
class Archive:
    """What is looked through: crops with vectors, and which of them belong together."""

    table: Vectors
    groups: TrackRows

    @classmethod
    def of(cls, library: Library) -> Archive:
        table = library.matcher().source.stored(library.embedder.exits)
        return cls(table, TrackRows.of(table.track_ids))

    @classmethod
    def of_pictures(cls, vectors: Values) -> Archive:
        ids = np.arange(len(vectors), dtype=np.int64)
        return cls(PickedVectors(ids, ids, vectors), TrackRows.of(ids))

    def values(self, one: Sought) -> Values:
        """The normalised value (T,) of every track."""
        tracks = np.arange(len(self.groups))
        return score_tracks([one], self.table, self.groups, tracks, None)[0].normalised


@dataclass(frozen=True, slots=True)
class Asked:
    """One category, asked for by some of its pictures.

    Attributes:
        loudest: by archive, the largest value of a track.
        values: (N,) of the other pictures; shown: (N,) those of the category.
    """

    loudest: dict[str, float]
    values: Values
    shown: Mask

    def found(self, rule: Calibration) -> tuple[float, float, float]:
        """F1, recall and precision (NaN where nothing is accepted) among the pictures."""
        taken = bands(self.values, rule) == ACCEPTED
        hits, right = int((taken & self.shown).sum()), int(self.shown.sum())
        precision = hits / int(taken.sum()) if taken.any() else np.nan
        return 2 * hits / (int(taken.sum()) + right), hits / right, precision


def album_of(views: Values, category: bool, rivals: Values | None = None) -> Album:
    """One entity with the views (P, V, dim) of its examples, and (Q, V, dim) of look-alikes."""
    unlike = views[:0] if rivals is None else rivals
    both = np.concatenate([views, unlike])
    count, width = len(both), both.shape[1]
    negative = np.repeat(np.arange(count) >= len(views), width)
    ids, index = np.repeat(np.arange(count), width), np.zeros(count * width, np.int32)
    names = ("asked",)
    flat, denied = both.reshape(count * width, -1), np.zeros(count * width, np.bool_)
    return Album(names, index, ids, negative, denied, flat, frozenset(names) if category else frozenset())


def drawn(pictures: Pictures, examples: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Every class that has enough pictures, its own in the order of a draw, once for each seed."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        for label in np.unique(pictures.labels):
            mine = rng.permutation(np.flatnonzero(pictures.labels == label))
            if len(mine) >= examples + LEAST_LEFT:
                yield str(label), mine


def asked(
    examples: int, pictures: Pictures, where: dict[str, Archive], cohort: Cohort, category: bool
) -> Iterator[Asked]:
    """Every category that has enough pictures, once for each seed."""
    for label, mine in drawn(pictures, examples):
        one = Sought.of(album_of(pictures.views[mine[:examples]], category), "asked", cohort)
        yield sought(one, mine[:examples], pictures.labels == label, pictures, where)


def sought(
    one: Sought, known: NDArray[np.intp], right: Mask, pictures: Pictures, where: dict[str, Archive]
) -> Asked:
    """What is found of an entity: in archives, and among the pictures that are not `known`, its examples."""
    rest = np.ones(len(right), np.bool_)
    rest[known] = False
    loudest = {name: float(archive.values(one).max()) for name, archive in where.items()}
    return Asked(loudest, Archive.of_pictures(pictures.degraded).values(one)[rest], right[rest])


def with_look_alikes(
    examples: int, pictures: Pictures, cohort: Cohort, rule: Calibration
) -> Iterator[NDArray[np.float64]]:
    """(2, 4) of each category that is taken for another: F1, recall, precision and wrong ones of that class.

    Without look-alikes, then with them.
    """
    shown, rng = Archive.of_pictures(pictures.degraded), np.random.default_rng(0)
    for label, mine in drawn(pictures, examples):
        views = pictures.views[mine[:examples]]
        values = shown.values(Sought.of(album_of(views, True), "asked", cohort))
        wrong = pictures.labels[(bands(values, rule) == ACCEPTED) & (pictures.labels != label)]
        if not len(wrong):
            continue
        names, counts = np.unique(wrong, return_counts=True)
        other = names[counts.argmax()]
        unlike = rng.permutation(np.flatnonzero(pictures.labels == other))[:examples]
        rest = np.ones(len(values), np.bool_)
        rest[mine[:examples]] = rest[unlike] = False
        told = Sought.of(album_of(views, True, pictures.views[unlike]), "asked", cohort)
        rows = []
        for some in (values, shown.values(told)):
            one = Asked({}, some[rest], pictures.labels[rest] == label)
            taken = bands(some[rest], rule) == ACCEPTED
            rows.append([*one.found(rule), float((taken & (pictures.labels[rest] == other)).sum())])
        yield np.array(rows)


def several(
    classes: int, pictures: Pictures, where: dict[str, Archive], cohort: Cohort, category: bool
) -> Iterator[Asked]:
    """So many classes at once as one category, each by OF_EACH pictures: they have little in common."""
    every = list(drawn(pictures, OF_EACH))
    own, rng = every[: len(every) // len(SEEDS)], np.random.default_rng(0)
    for _ in range(len(every)):
        some = [own[i] for i in rng.permutation(len(own))[:classes]]
        known = np.concatenate([mine[:OF_EACH] for _, mine in some])
        one = Sought.of(album_of(pictures.views[known], category), "asked", cohort)
        theirs = np.isin(pictures.labels, [label for label, _ in some])
        yield sought(one, known, theirs, pictures, where)


def row(some: list[Asked], rule: Calibration) -> str:
    """Cells of the table."""
    loud = np.array([value for one in some for name, value in one.loudest.items() if name != EVAL])
    judged = np.array([one.loudest[EVAL] for one in some])
    precision = np.mean([average_precision(one.values, one.shown) for one in some])
    silent = [float((values < rule.centre).mean()) for values in (loud, judged)]
    means = np.nanmean([one.found(rule) for one in some], axis=0)
    return " | ".join(f"{v:.3f}" for v in (np.quantile(loud, SILENT), *silent, precision, *means))


def compare(
    counted: str, counts: Iterable[int], ask: Callable[[int, bool], Iterable[Asked]], rule: Calibration
) -> None:
    """Print a table: a row for each count, asked as an individual and as a category."""
    print(f"| {counted} | asked as | silent from | silent | silent, eval | AP | F1 | recall | precision |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count in counts:
        for way, border in (("individual", rule), ("category", rule.alone())):
            print(f"| {count} | {way} | {row(list(ask(count, way == 'category')), border)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where indexed archives are kept")
    given = parser.parse_args()
    opened = libraries(given.footage, given.work)
    embedder, rule = opened[EVAL].embedder, opened[EVAL].calibrations[-1]
    where = {name: Archive.of(library) for name, library in opened.items()}
    pictures = Pictures.embedded(given.footage, embedder)
    print(f"reach {CATEGORY_REACH}, floor {rule.centre}\n")
    cohort = embedder.cohorts()[-1]
    compare("examples", EXAMPLES, lambda count, any_: asked(count, pictures, where, cohort, any_), rule)
    print("\n| examples | look-alikes | F1 | recall | precision | of that class |")
    print("|---|---|---|---|---|---|")
    for count in EXAMPLES[2:]:
        both = np.nanmean(list(with_look_alikes(count, pictures, cohort, rule.alone())), axis=0)
        for told, cells in zip((0, count), both, strict=True):
            print(f"| {count} | {told} | {' | '.join(f'{v:.3f}' for v in cells)} |", flush=True)
    print()
    compare("classes", CLASSES, lambda count, any_: several(count, pictures, where, cohort, any_), rule)


if __name__ == "__main__":
    main()
