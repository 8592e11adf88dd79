"""The bench of decision rules on made vectors: its shipped rule is the product's, its floors keep silence."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from panorama.models.base import Cohort
from panorama.query.matching.meeting import Places
from panorama.query.matching.scoring import Sought, score_tracks
from panorama.query.matching.track_rows import TrackGroups, TrackRows

RNG = np.random.default_rng(0)
DIM, CROPS, TRACKS = 16, 48, 16


@pytest.fixture(scope="module")
def bench():
    """The modules `deciding`, `deciding_sets` and `calibration` of tests/bench."""
    sys.path.insert(0, str(Path(__file__).parent / "bench"))
    try:
        yield [importlib.import_module(name) for name in ("deciding", "deciding_sets", "calibration")]
    finally:
        sys.path.pop(0)


def unit(*shape: int) -> np.ndarray:
    vectors = RNG.normal(size=(*shape, DIM)) + 0.5
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


VECTORS, COHORT = unit(3, CROPS), unit(3, 64)
OWNERS = np.repeat((np.arange(TRACKS) // 4 + 1 << 32) + np.arange(TRACKS), CROPS // TRACKS)


def archive(sets):
    ids = np.unique(OWNERS)
    start = np.arange(TRACKS, dtype=float) * 10
    seconds = np.repeat(start, CROPS // TRACKS) + np.tile([0.0, 4.0, 8.0], TRACKS)
    views = seconds.reshape(TRACKS, -1)
    boxes = np.tile(np.array([0, 0, 9, 9], np.float32), (*views.shape, 1))
    spans = np.stack([start * 10, start * 10 + 90], axis=1).astype(int)
    places = Places(ids, start, start + 9, views, boxes)
    return sets.Archive(
        "made",
        VECTORS,
        seconds,
        TrackGroups.of(OWNERS),
        spans,
        int(spans.max()),
        places,
        ids >> 32,
        ids >> 32,
        ids >> 32,
    )


def thing(sets, views: np.ndarray):
    where = archive(sets)
    shown = np.zeros(where.units, bool)
    shown[:90] = True
    every = [np.ones(n, bool) for n in (where.units, TRACKS, CROPS)]
    return sets.Thing("made", "one", where, views, unit(2, views.shape[1], 3), shown, *every)


def test_the_shipped_rule_has_the_values_of_the_product(bench) -> None:
    deciding, sets, _ = bench
    one = thing(sets, unit(2, len(sets.WAYS), 3))
    views = len(sets.VIEWS)

    @dataclass
    class Album:
        entities = ("x",)
        entity_index = np.zeros(4 * views, np.int32)
        exemplar_ids = np.repeat(np.arange(4), views)
        negative = exemplar_ids >= 2
        denied = np.zeros(4 * views, bool)
        categories = frozenset()
        vectors = np.concatenate([one.views, one.negatives])[:, :views, 2].reshape(4 * views, -1)

    @dataclass
    class Table:
        crop_ids, track_ids, vectors = np.arange(CROPS), OWNERS, VECTORS[2]

    sought = Sought.of(Album(), "x", Cohort.plain(COHORT[2]))
    groups = TrackRows.of(OWNERS)
    product = score_tracks([sought], Table(), groups, np.arange(TRACKS), None)[0]
    _, values = deciding.Study(deciding.SHIPPED, COHORT).values(one)
    assert values == pytest.approx(product.normalised, abs=1e-5)


@pytest.mark.parametrize("query", ["example", "lda", "ridge"])
def test_every_rule_is_one_at_an_example_and_zero_among_the_nearest_strangers(bench, query: str) -> None:
    deciding, _, _ = bench
    rule = deciding.Rule("any", query=query, views="one", several="max", strangers=1)
    space = deciding.Space(rule, COHORT[0])
    example = unit(1, 1)
    assert space.values(example, example[0])[0] == pytest.approx([1], abs=1e-4)
    assert space.values(example, COHORT[0]).max() == pytest.approx(0, abs=1e-4)


def test_a_rule_of_one_part_looks_at_no_other(bench) -> None:
    """Vectors of the shipped length: two that share what was learned and have other colours."""
    deciding, _, _ = bench
    learned, colour = (deciding.unit(RNG.normal(size=(66, size))) for size in (192, 64))
    vectors = np.concatenate([learned * 0.85**0.5, colour * 0.15**0.5], axis=1).astype(np.float32)
    example, cohort = vectors[:1], vectors[2:]
    other = np.concatenate([example[0, :192], vectors[1, 192:]])[None]

    def value(part: str) -> float:
        space = deciding.Space(deciding.Rule("any", views="one", part=part), cohort)
        return float(space.values(example[:, None], space.seen(other))[0, 0])

    assert value("learned") == pytest.approx(1, abs=1e-4)
    assert value("all") < 0.95
    assert value("colour") < 0.5


def test_several_examples_of_a_rule_reach_zero_at_the_nearest_strangers_together(bench) -> None:
    deciding, _, _ = bench
    examples = unit(3, 1)

    def nearest(together: bool) -> float:
        rule = deciding.Rule("any", views="one", strangers=3, together=together)
        values = deciding.Space(rule, COHORT[0]).values(examples, COHORT[0]).max(axis=0)
        return float(np.sort(values)[-3:].mean())

    assert nearest(False) > 0.02
    assert nearest(True) == pytest.approx(0, abs=1e-4)


def test_things_of_several_examples_are_not_asked_for_in_their_examples(bench) -> None:
    _, sets, _ = bench
    several = importlib.import_module("deciding_several")
    labels = ["a"] * 7 + ["b"] * 2 + ["c"] * 6
    archive = sets.archive_of_pictures(unit(3, len(labels)), "several")
    first = unit(len(labels), len(sets.WAYS), 3)
    found = several._classes(first, archive, labels)
    assert [np.flatnonzero(one.shown).tolist() for one in found] == [[3, 4, 5, 6], [12, 13, 14]]
    assert [np.flatnonzero(~one.counted).tolist() for one in found] == [[0, 1, 2], [9, 10, 11]]
    assert np.array_equal(found[0].views, first[:3])
    for one in several._sides(first, archive, labels):
        a, b = np.flatnonzero(one.shown)
        assert labels[a] != labels[b] and len(one.views) == 2
        of_either = [label in (labels[a], labels[b]) for label in labels]
        assert one.counted.tolist() == [i in (a, b) or not same for i, same in enumerate(of_either)]


def test_a_track_is_cut_half_way_between_crops_that_are_not_alike(bench) -> None:
    deciding, sets, _ = bench
    whole = archive(sets)
    vectors = np.ones_like(VECTORS) / DIM**0.5
    vectors[:, 2] *= -1  # the third crop of the first track
    cut = deciding.split_tracks(replace(whole, vectors=vectors), 0.5)
    assert len(cut.spans) == TRACKS + 1
    assert cut.spans[:2].tolist() == [[0, 60], [60, 90]]
    assert [sorted(slots[slots >= 0]) for slots in cut.groups.slots[:2]] == [[0, 1], [2]]


def test_the_floor_is_the_least_that_keeps_silence_and_eval_has_no_say(bench) -> None:
    deciding, _, _ = bench
    loud = {"a": np.linspace(0, 0.99, 100), "eval out": np.full(10, 5.0)}
    assert deciding.floor_for(loud, 0.95) == pytest.approx(0.941, abs=0.002)
    assert deciding.silence(loud, 0.94, judged=True) == 0


def test_scores_fitted_to_frequencies_say_them(bench) -> None:
    _, _, calibration = bench
    value = RNG.uniform(0.2, 0.9, 20_000)
    true = RNG.random(len(value)) < 1 / (1 + np.exp(-12 * (value - 0.4)))
    accepted = np.full(len(value), 2, np.uint8)
    ones, none = np.ones(len(value)), np.zeros(len(value), bool)
    seen = calibration.Observed(value, ones, np.where(value < 0.4, 1, accepted), none, true, ones)
    found = calibration.fit_scores(seen, 0.4)
    assert found.slope == pytest.approx(12, rel=0.1)
    assert found.normalised(found.low) == pytest.approx(0.65 * 0.4) and found.high == 0.5
