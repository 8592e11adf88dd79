"""What the figures about decisions mean, on cases that a person can compute."""

from __future__ import annotations

import numpy as np
import pytest
from test_matching import SHALLOW, TwoExits, by_track, source

from panorama.judging import expected_error
from panorama.partly import Partly, Strangers
from panorama.query.decide import Calibration
from panorama.query.matches import ACCEPTED, UNCERTAIN, MatchRequest
from panorama.query.matching import AlbumMatcher

PLAIN = Calibration(0.5, 20.0, 0.4, 0.6, 0.0)
ONLY_SENDS_ON = Calibration(0.5, 20.0, 0.4, 1.0, 0.0)


def test_scores_that_are_as_often_right_as_they_say_have_no_error() -> None:
    score = np.array([0.25, 0.25, 0.25, 0.25, 0.95, 0.95])
    true = np.array([True, False, False, False, True, True])
    found = expected_error(score, true)
    assert found.error == pytest.approx(0.05 * 2 / 6)
    assert found.bins == ((0.25, 0.25, 4), (pytest.approx(0.95), 1.0, 2))


def test_a_score_of_one_counts_in_the_last_bin() -> None:
    assert expected_error(np.array([1.0]), np.array([False])).error == 1


def test_hidden_videos_are_neither_found_nor_the_best() -> None:
    near = Calibration(0.5, 20.0, 0.2, 0.6, near_best=0.95)
    values = [0.99, 0.8]
    whole = source(values, values, [1 << 32, 2 << 32])
    assert by_track(AlbumMatcher(whole, TwoExits(), (near, near)).match(MatchRequest())) == {
        1 << 32: ACCEPTED,
        2 << 32: UNCERTAIN,
    }
    rest = AlbumMatcher(Partly(whole, 2, without=np.array([1])), TwoExits(), (near, near))
    assert by_track(rest.match(MatchRequest())) == {2 << 32: ACCEPTED}


def test_hidden_exits_are_asked_for_crop_by_crop_and_counted() -> None:
    whole = source([0.9, 0.5, 0.1], [0.9, 0.8, 0.1], [7, 8, 9])
    partly = Partly(whole, 2, exits=frozenset({1}))
    matches = AlbumMatcher(partly, TwoExits(), (SHALLOW, PLAIN)).match(MatchRequest())
    assert by_track(matches) == {7: ACCEPTED, 8: ACCEPTED}
    assert partly.deepened == {2: {1}}


def test_an_exit_that_accepts_nothing_sends_all_on() -> None:
    partly = Partly(source([0.9, 0.5, 0.1], [0.9, 0.8, 0.1], [7, 8, 9]), 2, exits=frozenset({1}))
    matcher = AlbumMatcher(partly, TwoExits(), (ONLY_SENDS_ON, PLAIN))
    assert by_track(matcher.match(MatchRequest())) == {7: ACCEPTED, 8: ACCEPTED}
    assert partly.deepened == {2: {0, 1}}


def test_strangers_stand_in_for_the_album() -> None:
    whole = source([0.9], [0.9], [7])
    mine = Strangers(("like it", "unlike it"), np.array([[[1, 0, 0]], [[0, 0, 1]]], np.float32))
    partly = Partly(whole, 2, strangers={1: mine, 2: mine})
    found = AlbumMatcher(partly, TwoExits(), (SHALLOW, PLAIN)).match(MatchRequest())
    assert [found.entities[i] for i in found.entity_index] == ["like it"]
