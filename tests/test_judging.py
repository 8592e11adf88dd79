"""What the figures about decisions mean, on cases that a person can compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_matching import SHALLOW, FakeSource, TwoExits, by_track, source

from panorama.judging.deciding import (
    CascadeCost,
    Silence,
    calibration_error,
    cascade_cost,
    expected_error,
    own_clips_out,
    own_times_out,
    strangers,
)
from panorama.judging.evaluate import RANKED_FRAMES, Truth
from panorama.judging.partly import Partly, Strangers
from panorama.query.matching.decide import Calibration
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, UNCERTAIN, MatchRequest

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
    both = expected_error(np.array([1.0, 0.85, 0.9]), np.array([False, True, True]))
    assert both.bins == ((0.85, 1.0, 1), (pytest.approx(0.95), 0.5, 2))
    assert both.error == pytest.approx((0.15 + 0.45 * 2) / 3)


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


@dataclass
class Asked:
    """What a question gave, row by row; those of frames with the columns of RANKED_FRAMES."""

    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def arrow(self) -> pa.Table:
        return pa.table(dict(zip(("video", "frame", "score"), zip(*self.rows, strict=True), strict=True)))


class Watched:
    """A library of two videos of 40 frames; each crop is a track, in ten frames of its video by its number.

    Ranked frames are given by entity.
    """

    embedder, calibrations, segments = TwoExits(), (SHALLOW, PLAIN), {"a": 1, "b": 2}

    def __init__(
        self, held: FakeSource, ranked: dict[str, list[tuple[str, int, float]]] | None = None
    ) -> None:
        self.held, self.ranked = held, ranked or {}

    def videos(self) -> pa.Table:
        return pa.table({"video": [*self.segments], "frames": [40, 40], "segment": [*self.segments.values()]})

    def matcher(self) -> AlbumMatcher:
        return AlbumMatcher(self.held, self.embedder, self.calibrations)

    def query(self, sql: str, names: tuple[str, ...] | list[str] = ()) -> Asked:
        if sql == RANKED_FRAMES:
            return Asked(self.ranked[names[0]])
        owners = self.held.owners.tolist()
        shown = [
            (track, video) for track in owners for video, at in self.segments.items() if track >> 32 == at
        ]
        return Asked([(track, video, 10 * (track % 8), 10 * (track % 8) + 10) for track, video in shown])


def test_the_cascade_is_told_beside_the_deepest_exit_with_what_each_had_to_see() -> None:
    """The third thing is lost at the first exit; the second is sent on; the fourth is nothing."""
    tracks = [(1 << 32) + number for number in range(4)]
    library: Any = Watched(source([0.9, 0.5, 0.1, 0.1], [0.9, 0.8, 0.9, 0.1], tracks))
    truth = {"thing": Truth({"a": [(0, 29)]}, {"a": [(0, 4)]})}
    # Of frames 5 to 29 the cascade returns 5 to 19. Each crop costs 1 at the first exit, one of them 2 more.
    assert cascade_cost(library, truth) == CascadeCost(0.75, 1.0, (1.0, 0.25), (4 * 1 + 1 * 2) / (4 * 2))
    assert cascade_cost(library, {"thing": Truth({})}).f1 is None


def test_what_only_the_clips_taken_out_kept_from_being_accepted_is_heard() -> None:
    """Beside the thing itself the second track is uncertain; without it, it is the best there is."""
    near = Calibration(0.5, 20.0, 0.2, 0.6, near_best=0.95)
    library: Any = Watched(source([0.99, 0.8], [0.99, 0.8], [1 << 32, 2 << 32]))
    library.calibrations = (near, near)
    assert by_track(library.matcher().match(MatchRequest()))[2 << 32] == UNCERTAIN
    assert own_clips_out(library, {"thing": Truth({"a": [(0, 9)]})}) == Silence(1, 0.0)


def test_what_comes_by_at_another_time_is_asked_about_alone() -> None:
    """Track 0 of video 1 is in its frames 0 to 9, track 1 in 10 to 19; another video is not asked."""
    tracks = [1 << 32, (1 << 32) + 1, 2 << 32]
    library: Any = Watched(source([0.99, 0.8, 0.9], [0.99, 0.8, 0.9], tracks))
    near = Calibration(0.5, 20.0, 0.2, 0.6, near_best=0.95)
    library.calibrations = (near, near)
    truth = {"thing": Truth({"a": [(0, 5)]})}
    assert own_times_out(library, truth) == Silence(1, 0.0), "without the best one it is near enough"
    library.calibrations = (replace(near, centre=0.9),) * 2
    assert own_times_out(library, truth) == Silence(1, 1.0), "the other video would be accepted"
    assert own_times_out(library, {"thing": Truth({"a": [(9, 10)]})}) == Silence(0, None)
    assert own_times_out(library, {"thing": Truth({"a": [(0, 5)]}, {"a": [(19, 30)]})}) == Silence(0, None)
    assert own_times_out(library, {"thing": Truth({"elsewhere": [(0, 5)]})}) == Silence(0, None)
    assert own_times_out(library, {"thing": Truth({})}) == Silence(0, None)


def test_a_copy_of_a_clip_that_shows_it_is_taken_out_with_the_clip() -> None:
    """The copy has the same tracks, and the truth names one of the two."""
    library: Any = Watched(source([0.9], [0.9], [1 << 32]))
    truth = {"thing": Truth({"a": [(0, 9)], "elsewhere": [(0, 9)]})}
    assert own_clips_out(library, truth) == Silence(1, 1.0)
    library.segments = {"a": 1, "copy of a": 1}
    assert own_clips_out(library, truth) == Silence(0, None)


def test_scores_are_judged_by_frames_that_count_and_are_a_prediction() -> None:
    ranked = {
        "van": [("a", 0, 0.9), ("a", 1, 0.9), ("b", 3, 0.25), ("b", 4, 0.9), ("b", 5, 0.04)],
        "cat": [("b", 3, 0.25), ("b", 39, 0.05)],
    }
    library: Any = Watched(source([0.9], [0.9], [1 << 32]), ranked)
    truth = {"van": Truth({"a": [(0, 0)]}, {"b": [(4, 4)]}), "cat": Truth({"b": [(3, 3)]})}
    found = calibration_error(library, truth)
    assert found.bins == ((0.05, 0.0, 1), (0.25, 0.5, 2), (pytest.approx(0.9), 0.5, 2))
    assert found.error == pytest.approx((0.05 * 1 + 0.25 * 2 + 0.4 * 2) / 5)


def test_a_stranger_is_silent_where_no_track_of_the_library_is_accepted_for_it() -> None:
    red, blue = (np.full((32, 32, 3), color, np.uint8) for color in ((255, 0, 0), (0, 0, 255)))
    embedder = TwoExits()
    held = FakeSource(embedder.embed_all([red]), np.array([1 << 32]), np.zeros((2, 1, 3), np.float32))
    library: Any = Watched(held)
    assert strangers(library, [red, red, blue, blue, blue]) == Silence(5, pytest.approx(0.6))
    assert strangers(library, [red]) == Silence(1, 0.0)
    library.calibrations = (Calibration(0.9, 20.0, 0.4, 0.6, 0.0),) * 2
    yellow = np.full((32, 32, 3), (255, 255, 0), np.uint8)  # the same at the first exit, not at the second
    assert strangers(library, [red, yellow]) == Silence(2, 0.5)
