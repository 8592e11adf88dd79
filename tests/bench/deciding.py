"""Compare ways of scoring, aggregating and pooling on stored vectors: average precision, F1, silence.

    python tests/bench/deciding.py --footage FOLDER --work WORK

Archives are indexed once, into WORK. `deciding_sets.py` and `deciding_several.py` describe what is asked for,
and where. Every rule gets the floor at which it is silent about 95 % (`--silent`) of absent things, the mean
over the judges except `eval`. Then the rules are compared by what they find. The rules within a video are the
product's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from deciding_judges import Sets, make_sets, only_detected
from deciding_sets import WAYS, Archive, Thing, some_places
from numpy.typing import NDArray

from panorama.album.examples import GEOMETRY, VIEWS
from panorama.content import content_dir
from panorama.judging.evaluate import average_precision
from panorama.models.base import Cohort
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.weights import read_recipe
from panorama.query.matching.decide import COHORT_NEIGHBOURS, POOL_QUANTILE, Calibration, bands, crop_scores
from panorama.query.matching.kinship import settle
from panorama.query.matching.looks import Looks, LookUp
from panorama.query.matching.matches import ACCEPTED
from panorama.query.matching.meeting import Places
from panorama.query.matching.track_rows import TrackGroups

EVAL = "eval"
CHOOSING = ("sample", "clips", "pictures")
"""Judges that choices are made by."""

EIGHT = tuple(GEOMETRY)
"""The views of an example by geometry alone."""

SEVERAL = ("moments", "classes", "sides")
"""Judges of real things registered by several examples each."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way from vectors to the value of a track.

    Attributes:
        query: 'example' compares with the example itself; 'lda' with what tells it from the cohort by their
            shared covariance (exemplar-LDA, Hariharan, Malik and Ramanan 2012); 'ridge' with the plane of
            least squares between examples and the cohort.
        shrinkage: added to the covariance of lda and ridge, in mean eigenvalues.
        whiten: shrinkage of a whitening by the cohort's covariance; None for none.
        views: 'one' takes examples as they are, 'mean' the mean over `WAYS`, 'max' each view as an example.
        seen: the views that there are of an example.
        several: of several examples the largest value ('max'), their mean vector ('mean'), the largest value
            of them and their mean ('both'), or, for ridge, one plane for all of them ('plane').
        together: of several, 0 is where strangers come in the largest value; else in each value by itself.
        rivals: what look-alikes do: their lead is taken away twice ('lead'), they count as so much of the
            cohort in the plane of least squares (a number), or nothing (0).
        strangers: nearest ones of the cohort that set the scale; 0: no scale.
        pool: over the crops of a track, a quantile, or 'mean'.
        split: tracks are cut where two following crops are less alike; None: never.
        exit: where it is all taken.
        part: which of the numbers of a vector are compared, scaled to unit length anew: 'all', those that
            were 'learned', or those of 'colour'.
    """

    name: str
    query: str = "example"
    shrinkage: float = 1.0
    whiten: float | None = None
    views: str = "max"
    seen: tuple[str, ...] = tuple(VIEWS)
    several: str = "both"
    together: bool = True
    rivals: float | str = "lead"
    strangers: int = COHORT_NEIGHBOURS
    pool: float | str = POOL_QUANTILE
    split: float | None = None
    exit: int = 3
    part: str = "all"
    near_in_video: float = 0.89
    near_best: float = 0.65
    carried: float = 0.65
    near_on_site: float = 0.75
    alike: float = 0.55
    distance_ratio: float = 0.85


SHIPPED = Rule("as shipped")


def unit(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9), np.float32)


def part_of(vectors: Vectors, part: str) -> Vectors:
    """Vectors (..., dim) of the shipped embedder, whole or the numbers of one part at unit length."""
    if part == "all":
        return vectors
    recipe = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
    learned = int(recipe["network"]["learned_dim"])
    return unit({"learned": vectors[..., :learned], "colour": vectors[..., learned:]}[part])


class Space:
    """Where a rule compares: the cohort's mean and covariance at one exit, and what follows from them."""

    def __init__(self, rule: Rule, cohort: Vectors) -> None:
        self.rule = rule
        self.whitening: tuple[Vectors, Vectors] | None = None
        if rule.whiten is not None:
            mean, values, axes = _spectrum(part_of(cohort, rule.part))
            scale = 1 / np.sqrt(values + rule.whiten * values.mean())
            self.whitening = mean, np.asarray((axes * scale) @ axes.T, np.float32)
        self.cohort = self.seen(cohort)
        self.mean, values, axes = _spectrum(self.cohort)
        self.inverse = np.asarray((axes / (values + rule.shrinkage * values.mean())) @ axes.T, np.float32)

    def seen(self, vectors: Vectors) -> Vectors:
        """Vectors (..., dim) as the rule compares them."""
        vectors = part_of(vectors, self.rule.part)
        if self.whitening is None:
            return vectors
        mean, matrix = self.whitening
        return unit((vectors - mean) @ matrix)

    def planes(self, examples: Vectors, rivals: Vectors) -> list[tuple[Vectors, float]]:
        """From examples (P, V, dim), functions w x + b, 1 at an example and the larger the more alike.

        Args:
            rivals: (Q, V, dim) look-alikes, for a plane of least squares.
        """
        if not len(examples):
            return []
        seen = self._aggregated(examples)
        flat = seen.reshape(-1, seen.shape[-1])
        middle = unit(flat.mean(axis=0, keepdims=True))
        sets = {"max": flat, "mean": middle, "both": np.concatenate([flat, middle])}
        if self.rule.query == "ridge":
            bad = self._aggregated(rivals).reshape(-1, flat.shape[-1])
            if self.rule.several == "plane":
                return [self._ridge(flat, bad)]
            return [self._ridge(one[None], bad) for one in sets[self.rule.several]]
        if self.rule.query == "example":
            return [(one, 0.0) for one in sets[self.rule.several]]
        found = []
        for one in sets[self.rule.several]:
            w = self.inverse @ (one - self.mean)
            w /= float(w @ (one - self.mean))
            found.append((w, -float(w @ self.mean)))
        return found

    def _aggregated(self, examples: Vectors) -> Vectors:
        """Examples (P, V, dim) as the rule compares them, with the views that it keeps of them."""
        if self.rule.views == "one":
            return self.seen(examples[:, :1])
        examples = self.seen(examples[:, [list(WAYS).index(way) for way in self.rule.seen]])
        return unit(examples.mean(axis=1, keepdims=True)) if self.rule.views == "mean" else examples

    def _ridge(self, examples: Vectors, rivals: Vectors) -> tuple[Vectors, float]:
        """Least squares between examples at 1 and the cohort at 0, both kinds of equal weight.

        Look-alikes are at 0 as well, with the weight that the rule gives them.
        """
        share = 0.0 if isinstance(self.rule.rivals, str) or not len(rivals) else float(self.rule.rivals)
        kinds = [(examples, 1.0), (self.cohort, 1.0), *([(rivals, share)] if share else [])]
        total = sum(weight for _, weight in kinds)
        middle = np.sum([weight * some.mean(axis=0) for some, weight in kinds], axis=0) / total
        gram = sum(weight * (some - middle).T @ (some - middle) / len(some) for some, weight in kinds)
        away = self.cohort - (examples.mean(axis=0) + self.mean) / 2
        gram = gram + self.rule.shrinkage * float((away**2).sum()) / len(away) / len(gram) * np.eye(len(gram))
        w = np.linalg.solve(gram, examples.mean(axis=0) - middle).astype(np.float32)
        w /= float((examples.mean(axis=0) - self.mean) @ w)
        return w, 1 - float(examples.mean(axis=0) @ w)

    def values(self, examples: Vectors, crops: Vectors, rivals: Vectors | None = None) -> Vectors:
        """(P, N) of crops (N, dim), as `seen` has them: 1 at an example, 0 at the nearest strangers."""
        nearest = self.rule.strangers
        rows, strangers = [], []
        for w, b in self.planes(examples, examples[:0] if rivals is None else rivals):
            among = self.cohort @ w + b
            level = min(float(np.sort(among)[-nearest:].mean()), 0.95) if nearest else 0.0
            rows.append((crops @ w + b - level) / (1 - level))
            strangers.append((among - level) / (1 - level))
        found = np.asarray(rows, np.float32).reshape(len(rows), len(crops))
        if self.rule.together and nearest and len(rows) > 1:
            excess = float(np.sort(np.max(strangers, axis=0))[-nearest:].mean())
            found = np.asarray((found - excess) / (1 - excess), np.float32)
        return found


def _spectrum(vectors: Vectors) -> tuple[Vectors, NDArray[np.float64], NDArray[np.float64]]:
    mean = vectors.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov((vectors - mean).astype(np.float64).T))
    return mean, np.maximum(values, 0), axes


def pooled(values: Vectors, rule: Rule) -> Vectors:
    """(T, C), -inf where there is no crop, to (T,)."""
    out = np.full(len(values), -np.inf, np.float32)
    some = np.flatnonzero(np.isfinite(values).any(axis=1))
    cells = np.sort(values[some], axis=1)  # ascending: the missing ones first
    count = np.isfinite(cells).sum(axis=1)
    if rule.pool == "mean":
        out[some] = np.where(np.isfinite(cells), cells, 0).sum(axis=1) / count
        return out
    first = cells.shape[1] - count
    position = (count - 1) * float(rule.pool)
    below = np.floor(position).astype(np.intp)
    above, rows = np.minimum(below + 1, count - 1), np.arange(len(some))
    share = position - below
    out[some] = cells[rows, first + below] * (1 - share) + cells[rows, first + above] * share
    return out


def split_tracks(archive: Archive, alike: float) -> Archive:
    """Tracks cut between two following crops that are less alike, half-way in time."""
    groups, places, vectors = archive.groups, archive.places, archive.vectors[-1]
    rows, parents, spans = [], [], []
    for track, slots in enumerate(groups.slots):
        mine = slots[slots >= 0]
        mine = mine[np.argsort(archive.seconds[mine], kind="stable")]
        near = (vectors[mine[1:]] * vectors[mine[:-1]]).sum(axis=1)
        middles = (archive.seconds[mine[1:]] + archive.seconds[mine[:-1]]) / 2
        cuts = np.flatnonzero(near < alike) + 1
        first, last = places.start_seconds[track], places.end_seconds[track]
        shares = (middles[cuts - 1] - first) / max(last - first, 1e-9)
        a, b = archive.spans[track]
        # A unit that is the track itself is not cut.
        edges = [a, *(a + np.round(shares * (b - a)).astype(int) if b - a > 1 else [a] * len(cuts)), b]
        for number, part in enumerate(np.split(mine, cuts)):
            rows.append(part)
            parents.append(track)
            spans.append((edges[number], edges[number + 1]) if b - a > 1 else (a, b))
    slots = np.full((len(rows), groups.slots.shape[1]), -1, np.intp)
    for number, part in enumerate(rows):
        slots[number, : len(part)] = part
    keep = np.array(parents)
    segments = archive.segments[keep]
    ids = segments << 32 | np.arange(len(rows))
    where = some_places(places, keep)
    where = Places(ids, where.start_seconds, where.end_seconds, where.view_seconds, where.view_boxes_xyxy)
    whole = TrackGroups(ids, slots)
    archive = replace(
        archive, shots=archive.shots[keep], scenes=archive.scenes[keep], sites=archive.sites[keep]
    )
    return replace(archive, groups=whole, spans=np.array(spans), places=where)


@dataclass
class Study:
    """One rule over all things."""

    rule: Rule
    cohort: NDArray[np.float32]
    _seen: dict[int, tuple[Archive, Vectors, NDArray[np.intp]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cohort = self.cohort[self.rule.exit - 1]
        self.space = Space(self.rule, cohort)
        way = self.rule if self.rule.views == "one" else replace(self.rule, views="mean")
        self.middle = Space(replace(way, several="max"), cohort)

    def values(self, thing: Thing) -> tuple[Archive, Vectors]:
        """The archive, its tracks cut where the rule says so, and their values (T,); -inf where hidden."""
        archive, seen, parent = self._prepared(thing.archive)
        exit = self.rule.exit - 1
        unlike = thing.negatives[:, :, exit]
        good = self.space.values(thing.views[:, :, exit], seen, unlike)
        led = unlike if self.rule.rivals == "lead" else unlike[:0]
        # Each look-alike by itself, they need not show the same thing, and by the mean of what is seen of it.
        bad = [self.middle.values(one[None], seen) for one in led]
        values = crop_scores(good, np.concatenate([*bad, good[:0]]))
        values[~thing.crops] = -np.inf
        tracks = archive.groups.spread(values, np.arange(len(archive.spans)))
        found = pooled(tracks, self.rule)
        found[~thing.tracks[parent]] = -np.inf
        return archive, found

    def looks(self, thing: Thing) -> LookUp:
        """What the tracks of its archive look like to the rule."""
        archive, seen, _ = self._prepared(thing.archive)

        def look(track_ids: NDArray[np.int64]) -> Looks:
            slots = archive.groups.slots[np.searchsorted(archive.groups.track_ids, track_ids)]
            there = slots >= 0
            return Looks.of(
                np.repeat(track_ids, there.sum(axis=1)), seen[slots[there]], Cohort.plain(self.space.cohort)
            )

        return look

    def _prepared(self, archive: Archive) -> tuple[Archive, Vectors, NDArray[np.intp]]:
        known = self._seen.get(id(archive))
        if known is None:
            seen = self.space.seen(archive.vectors[self.rule.exit - 1])
            cut, parent = archive, np.arange(len(archive.spans))
            if self.rule.split is not None:
                cut = split_tracks(archive, self.rule.split)
                owner = np.zeros(len(archive.seconds), np.intp)
                for track, slots in enumerate(archive.groups.slots):
                    owner[slots[slots >= 0]] = track
                parent = owner[cut.groups.slots[:, 0]]
            known = self._seen[id(archive)] = cut, seen, parent
        return known


def calibration(rule: Rule, floor: float, slope: float = 20.0) -> Calibration:
    """Bands with the border of acceptance at a value: scores as they are shipped."""
    low = 1 / (1 + np.exp(slope * 0.35 * floor))
    return Calibration(
        floor,
        slope,
        low,
        0.5,
        rule.near_best,
        rule.near_in_video,
        rule.carried,
        near_on_site=rule.near_on_site,
        alike=rule.alike,
        distance_ratio=rule.distance_ratio,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule says of one thing that is there."""

    average_precision: float
    f1: float


def decide(study: Study, thing: Thing, bands_: Calibration) -> Found:
    """AP of the thing's units by score, and F1 of the accepted ones."""
    archive, values = study.values(thing)
    asked = np.flatnonzero(np.isfinite(values))
    score = bands_.score(values[asked])
    band = bands(values[asked], bands_)
    ids = archive.groups.track_ids[asked]
    settled = settle(ids, score, band, bands_, archive.where, looks=study.looks(thing))
    score, band = settled.score, settled.band
    ranked = np.full(archive.units, -1.0)
    returned = np.zeros(archive.units, np.bool_)
    for place in np.argsort(score, kind="stable"):
        first, last = archive.spans[asked[place]]
        ranked[first:last] = score[place]
        returned[first:last] |= band[place] == ACCEPTED
    counted, shown = thing.counted, thing.shown
    hits = int((returned & shown & counted).sum())
    f1 = 2 * hits / max(int((returned & counted).sum() + (shown & counted).sum()), 1)
    return Found(average_precision(ranked[counted], shown[counted]), f1)


def loudest(study: Study, things: Iterable[Thing]) -> dict[str, NDArray[np.float64]]:
    """By judge, the largest value of each absent thing."""
    found: dict[str, list[float]] = {}
    for thing in things:
        found.setdefault(thing.judge, []).append(float(study.values(thing)[1].max(initial=-np.inf)))
    return {judge: np.array(values) for judge, values in found.items()}


def silence(loud: dict[str, NDArray[np.float64]], floor: float, judged: bool = False) -> float:
    """Share of absent things of which nothing reaches the floor: mean over judges, `eval` or all others."""
    return float(np.mean([(v < floor).mean() for j, v in loud.items() if (EVAL in j) == judged]))


def floor_for(loud: dict[str, NDArray[np.float64]], wanted: float) -> float:
    """The lowest floor that is silent so often, to a thousandth."""
    return next(f for f in np.arange(-1, 2, 0.001) if silence(loud, f) >= wanted)


def judge(things: Sequence[Thing], study: Study, bands_: Calibration) -> dict[str, tuple[float, float]]:
    """By judge, mean AP and mean F1."""
    found: dict[str, list[Found]] = {}
    for thing in things:
        found.setdefault(thing.judge, []).append(decide(study, thing, bands_))
    return {
        name: (float(np.mean([f.average_precision for f in some])), float(np.mean([f.f1 for f in some])))
        for name, some in found.items()
    }


RULES = (
    SHIPPED,
    Rule("no cohort: plain similarity", strangers=0),
    Rule("5 strangers", strangers=5),
    Rule("10 strangers", strangers=10),
    Rule("20 strangers", strangers=20),
    Rule("whitened by the cohort, shrinkage 0.3", whiten=0.3),
    Rule("whitened by the cohort, shrinkage 3", whiten=3.0),
    Rule("exemplar-LDA, shrinkage 1", query="lda", shrinkage=1.0),
    Rule("exemplar-LDA, shrinkage 10", query="lda", shrinkage=10.0),
    *(
        Rule(f"ridge, one plane for all examples, shrinkage {s}", query="ridge", shrinkage=s, several="plane")
        for s in (3, 10, 30)
    ),
    Rule("ridge of the mean alone, shrinkage 10", query="ridge", shrinkage=10, several="mean"),
    Rule("ridge of each and the mean, shrinkage 10", query="ridge", shrinkage=10),
    Rule(
        "ridge, one plane, shrinkage 10, look-alikes at 0.3",
        query="ridge",
        shrinkage=10,
        several="plane",
        rivals=0.3,
    ),
    Rule("several examples: 0 for each by itself", together=False),
    Rule("one view of an example", views="one"),
    Rule("the mean of it and its mirror image", views="mean", seen=("as it is", "mirrored")),
    Rule("the mean of eight views", views="mean", seen=EIGHT),
    Rule("the mean of all views", views="mean"),
    Rule("each of it and its mirror image an example", seen=("as it is", "mirrored")),
    Rule("each of eight views an example, none in other light", seen=EIGHT),
    *(
        Rule(f"each of these and of {', '.join(more)}", seen=(*EIGHT, *more))
        for more in (
            ("little brighter", "little darker"),
            ("much brighter", "much darker"),
            ("turned left", "turned right"),
            ("brighter", "darker", "turned left", "turned right"),
            ("warmer", "cooler"),
            ("flat", "harsh"),
            ("small",),
            ("top", "bottom", "left", "right"),
        )
    ),
    Rule("several examples: the largest value", several="max"),
    Rule("several examples: their mean alone", several="mean"),
    Rule("pool: mean", pool="mean"),
    Rule("pool: median", pool=0.5),
    Rule("pool: upper quartile", pool=0.75),
    Rule("pool: maximum", pool=1.0),
    Rule("tracks cut where crops are less alike than 0.5", split=0.5),
    Rule("near in video from 0.85", near_in_video=0.85),
    Rule("near in video from 0.93", near_in_video=0.93),
    Rule("carried from 0.5", carried=0.5),
    Rule("carried from 0.8", carried=0.8),
    Rule("near the best from 0.5", near_best=0.5),
    Rule("near the best from 0.8", near_best=0.8),
    Rule("exit 1 alone", exit=1),
    Rule("exit 2 alone", exit=2),
    Rule("no colour: what was learned alone", part="learned"),
    Rule("colour alone", part="colour"),
    Rule("as before: one view, largest value, quartile", views="one", several="max", pool=0.75),
)


def means(judged: Mapping[str, tuple[float, float]]) -> dict[str, NDArray[np.float64]]:
    """AP and F1 by judge; the ways of registering the drawn album count as one."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, pair in judged.items():
        found.setdefault(name.split()[0], []).append(pair)
    return {name: np.mean(some, axis=0) for name, some in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where indexed archives are kept")
    parser.add_argument("--silent", type=float, default=0.95, help="share of absent things")
    parser.add_argument("--only", nargs="*", default=(), help="rules whose names begin so")
    parser.add_argument(
        "--without-motion",
        action="store_true",
        help="index without regions that are there because they move, into WORK/without-motion; `clips`\n"
        "then asks for other things, `sample` and `eval` for the same",
    )
    given = parser.parse_args()
    work = given.work / "without-motion" if given.without_motion else given.work
    with only_detected() if given.without_motion else nullcontext():
        sets = make_sets(given.footage, work)
    for rule in RULES:
        if not given.only or rule.name.startswith(tuple(given.only)):
            show(rule, sets, given.silent)


def show(rule: Rule, sets: Sets, silent: float) -> None:
    """Print a line: AP / F1 by judge, their mean but `eval`, silence on `eval`, and of several examples."""
    study = Study(rule, sets.cohort)
    loud = loudest(study, sets.absent)
    floor = floor_for(loud, silent)
    found = means(judge([*sets.present, *sets.several], study, calibration(rule, floor)))
    found["mean"] = np.mean([found[name] for name in CHOOSING], axis=0)
    cells = " | ".join("{:.3f} / {:.3f}".format(*found[name]) for name in ("mean", *CHOOSING, EVAL))
    several = " | ".join("{:.3f} / {:.3f}".format(*found[name]) for name in SEVERAL)
    print(
        f"| {rule.name} | {floor:.3f} | {cells} | {silence(loud, floor, True):.3f} | {several} |", flush=True
    )


if __name__ == "__main__":
    main()
