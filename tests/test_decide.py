"""The decision rule: cohort scale, look-alikes, pooling, bands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panorama.models.base import Cohort
from panorama.query.matching.decide import (
    COHORT_NEIGHBOURS,
    POOL_QUANTILE,
    Calibration,
    bands,
    cohort_level,
    crop_scores,
    least_similarity,
    levels_together,
    normalise,
    pool,
)
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN

PLAIN = Calibration(centre=0.5, slope=10.0, low=0.3, high=0.7, near_best=0.0)


def test_the_same_picture_is_one_and_the_nearest_stranger_zero() -> None:
    cohort = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
    exemplar = np.array([[0.6, 0.8, 0]], np.float32)
    level = cohort_level(exemplar, Cohort.plain(cohort))
    assert level == pytest.approx([0.7])
    assert normalise(np.array([[1.0, 0.7, 0.4]], np.float32), level)[0] == pytest.approx([1, 0, -1], abs=1e-6)


def test_without_a_cohort_similarity_stands_for_itself() -> None:
    level = cohort_level(np.eye(2, dtype=np.float32), Cohort.plain(np.zeros((0, 2), np.float32)))
    assert normalise(np.array([[0.4], [0.2]], np.float32), level)[:, 0] == pytest.approx([0.4, 0.2], abs=1e-6)


def test_several_exemplars_come_no_nearer_to_strangers_than_one() -> None:
    """Their largest value is 0 in the mean of the nearest strangers, as a single exemplar's is."""
    rng = np.random.default_rng(5)
    cohort, exemplars = (rng.normal(size=(n, 8)).astype(np.float32) for n in (200, 4))
    cohort, exemplars = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (cohort, exemplars))

    def nearest(level: np.ndarray) -> float:
        largest = normalise(exemplars @ cohort.T, level).max(axis=0)
        return float(np.sort(largest)[-COHORT_NEIGHBOURS:].mean())

    strangers = Cohort.plain(cohort)
    assert nearest(cohort_level(exemplars, strangers)) > 0.05
    assert nearest(levels_together(exemplars, strangers)) == pytest.approx(0, abs=1e-5)
    same = normalise(np.ones((4, 1), np.float32), levels_together(exemplars, strangers))
    assert same[:, 0] == pytest.approx(np.ones(4))  # the same picture stays at 1
    assert levels_together(exemplars[:1], Cohort.plain(cohort)) == pytest.approx(
        cohort_level(exemplars[:1], Cohort.plain(cohort))
    )
    assert levels_together(exemplars, Cohort.plain(cohort[:0])) == pytest.approx(np.zeros(4))
    assert len(levels_together(np.zeros((0, 0), np.float32), strangers)) == 0  # an entity without an example


def test_an_exemplar_given_twice_changes_no_level() -> None:
    cohort = np.array([[1, 0, 0], [0, 1, 0], [0, 0.6, 0.8]], np.float32)
    exemplar = np.array([[0.6, 0.8, 0]], np.float32)
    twice = levels_together(np.repeat(exemplar, 2, axis=0), Cohort.plain(cohort))
    assert twice == pytest.approx(np.repeat(cohort_level(exemplar, Cohort.plain(cohort)), 2), abs=1e-6)


def test_the_best_exemplar_counts() -> None:
    values = crop_scores(np.array([[0.2, 0.9], [0.5, 0.1]], np.float32), np.zeros((0, 2), np.float32))
    assert values == pytest.approx([0.5, 0.9])


def test_a_look_alike_that_fits_better_takes_the_lead_away() -> None:
    positive = np.array([[0.6, 0.6]], np.float32)
    values = crop_scores(positive, np.array([[0.9, 0.5]], np.float32))
    assert values == pytest.approx([0.0, 0.6], abs=1e-6)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=6), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_pooling_is_a_quantile_of_what_is_there(values: list[float], missing: int) -> None:
    row = np.array([values + [-np.inf] * missing], np.float32)
    assert pool(row)[0] == pytest.approx(float(np.quantile(values, POOL_QUANTILE)), abs=1e-5)


def test_bands_accept_reject_and_leave_open() -> None:
    normalised = np.array([0.9, 0.5, 0.1], np.float32)
    assert list(bands(normalised, PLAIN)) == [ACCEPTED, UNCERTAIN, REJECTED]


def test_a_border_belongs_to_what_lies_above_it() -> None:
    """Accepted from `high` on, and rejected below `low`."""
    rule = Calibration(centre=0.5, slope=10.0, low=0.5, high=0.5, near_best=0.0)
    assert bands(np.array([0.5, 0.499], np.float32), rule).tolist() == [ACCEPTED, REJECTED]


def test_an_example_that_is_among_the_strangers_itself_has_a_level_below_one() -> None:
    exemplar = np.array([[1, 0]], np.float32)
    level = cohort_level(exemplar, Cohort.plain(np.repeat(exemplar, 3, axis=0)))
    assert level == pytest.approx([0.95])
    values = normalise(np.array([[1.0, 0.95, 0.9]], np.float32), level)
    assert values[0] == pytest.approx([1, 0, -1], abs=1e-4)


def test_what_stands_far_behind_the_best_is_not_accepted() -> None:
    strict = Calibration(0.5, 10.0, 0.3, 0.7, near_best=0.9)
    assert list(bands(np.array([1.0, 0.7], np.float32), strict)) == [ACCEPTED, UNCERTAIN]
    assert list(bands(np.array([0.7], np.float32), strict)) == [ACCEPTED]
    assert list(bands(np.array([0.7], np.float32), strict, best=1.0)) == [UNCERTAIN]


@given(st.floats(0.01, 0.99), st.floats(-1, 1), st.floats(1, 40))
def test_score_and_its_inverse_agree(score: float, centre: float, slope: float) -> None:
    calibration = Calibration(centre, slope, 0.1, 0.9, 0.0)
    normalised = calibration.normalised(score)
    assert float(calibration.score(np.array([normalised]))[0]) == pytest.approx(score, abs=1e-6)


@given(st.floats(-0.5, 1), st.floats(0, 0.9), st.floats(-1, 1))
def test_no_crop_below_the_bound_reaches_the_value(wanted: float, level: float, similarity: float) -> None:
    levels = np.array([level], np.float32)
    bound = least_similarity(wanted, levels)[0]
    if similarity < bound - 1e-5:
        assert normalise(np.array([[similarity]], np.float32), levels)[0, 0] < wanted + 1e-4


def test_slack_widens_the_uncertain_band_and_never_closes_the_others() -> None:
    wide = PLAIN.widened(0.2)
    assert 0 < wide.low < PLAIN.low and PLAIN.high < wide.high < 1
    assert PLAIN.widened(0.0).low == pytest.approx(PLAIN.low)
    # The border is a similarity, which ends at 1, long before the scores do.
    flat = Calibration(0.664, 4.0, 0.1, 0.5, 0.0).widened(0.4)
    assert flat.normalised(flat.high) == pytest.approx(0.99) and flat.high > 0.5
    beyond = Calibration(1.2, 4.0, 0.1, 0.5, 0.0)
    assert beyond.widened(0.4).high == beyond.high
    all_or_none = Calibration(0.5, 10.0, 0.0, 1.0, 0.0)  # what rejects nothing and accepts nothing stays so
    assert (all_or_none.widened(0.2).low, all_or_none.widened(0.2).high) == (0, 1)


@pytest.mark.parametrize("low, high", [(0.8, 0.2), (-0.1, 0.5), (0.2, 1.2)])
def test_an_impossible_band_is_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="low"):
        Calibration(0.5, 10.0, low, high, 0.0)
