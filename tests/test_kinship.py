"""Tracks of one video compared with each other: who stands back, and who is accepted with another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.kinship import SceneBests, Settled, settle
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN
from panorama.query.matching.meeting import Places, continues, takes_over
from panorama.regions import shared

RULE = Calibration(0.5, 10.0, 0.1, 0.5, near_best=0.6, near_in_video=0.95, carried=0.65)
HERE, ELSEWHERE = (0, 0, 10, 10), (50, 50, 60, 60)


@dataclass(frozen=True)
class Seen:
    """A track: its value, its video, and where it stands still from start to end."""

    value: float
    video: int = 1
    start: float = 0.0
    end: float = 1.0
    box: tuple[int, int, int, int] = HERE


def places_of(tracks: Sequence[Seen], ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> Places:
    rows = [int(np.flatnonzero(ids == one)[0]) for one in wanted]
    mine = [tracks[row] for row in rows]
    return Places(
        wanted,
        np.array([t.start for t in mine]),
        np.array([t.end for t in mine]),
        np.array([[(t.start + t.end) / 2] for t in mine]).reshape(len(mine), 1),
        np.array([[t.box] for t in mine], np.float32).reshape(len(mine), 1, 4),
    )


@dataclass(frozen=True)
class Where:
    """Tells where some tracks were, and their shots, which are whole videos but for `cuts`.

    Videos are scenes of their own, but for those of `one_scene`; those of `one_site` are of one.
    """

    tracks: Sequence[Seen]
    ids: NDArray[np.int64]
    cuts: tuple[float, ...] = ()
    one_scene: tuple[int, ...] = ()
    one_site: tuple[int, ...] = ()

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        return places_of(self.tracks, self.ids, track_ids)

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.cuts:
            return track_ids >> 32
        starts = self.places(track_ids).start_seconds
        return (track_ids >> 32) * 1000 + np.searchsorted(self.cuts, starts, side="right")

    def scenes(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(np.isin(track_ids >> 32, self.one_scene), -1, self.shots(track_ids))

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(np.isin(scenes, self.one_site), -1, scenes)

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        return segments[:0]


def settled(
    *tracks: Seen,
    rule: Calibration = RULE,
    cuts: tuple[float, ...] = (),
    one_scene: tuple[int, ...] = (),
    one_site: tuple[int, ...] = (),
) -> tuple[list[int], list[float]]:
    ids = np.array([(t.video << 32) + number for number, t in enumerate(tracks, start=1)], np.int64)
    value = np.array([t.value for t in tracks], np.float32)
    where = Where(tracks, ids, cuts, one_scene, one_site)
    found = settle(ids, rule.score(value), bands(value, rule), rule, where)
    return found.band.tolist(), found.score.tolist()


def test_the_next_one_at_the_door_stands_back() -> None:
    band, score = settled(Seen(0.9), Seen(0.8, start=10, end=12), Seen(0.5, start=20, end=22))
    assert band == [ACCEPTED, UNCERTAIN, UNCERTAIN]
    assert score[2] < score[1] < RULE.high == RULE.score(np.array(0.5))


def test_behind_a_cut_the_same_likeness_is_enough() -> None:
    seen = Seen(0.9), Seen(0.8, start=10, end=12), Seen(0.7, start=13, end=14)
    band, _ = settled(*seen, cuts=(5.0,))
    assert band == [ACCEPTED, ACCEPTED, UNCERTAIN]


def test_in_another_video_the_same_likeness_is_enough() -> None:
    assert settled(Seen(0.9), Seen(0.8, video=2))[0] == [ACCEPTED, ACCEPTED]


def test_in_another_video_of_its_scene_the_next_one_stands_back() -> None:
    seen = Seen(0.9), Seen(0.8, video=2), Seen(0.8, video=3)
    assert settled(*seen, one_scene=(1, 2))[0] == [ACCEPTED, UNCERTAIN, ACCEPTED]


ON_SITE = replace(RULE, near_on_site=0.8)


@pytest.mark.parametrize(
    ("best", "next_one", "wanted"),
    [
        (0.74, 0.71, [ACCEPTED, ACCEPTED]),  # in another light all are less alike
        (0.74, 0.69, [ACCEPTED, UNCERTAIN]),  # and the next one at the door is so then, too
        (0.71, 0.70, [UNCERTAIN, UNCERTAIN]),  # so little alike is somebody else, on a day without the thing
        (0.88, 0.80, [ACCEPTED, UNCERTAIN]),
    ],
)
def test_on_another_day_of_its_site_a_scene_is_measured_by_its_own_best_if_that_comes_near(
    best: float, next_one: float, wanted: list[int]
) -> None:
    """Of ten moments of a dull day one was left when a bright day of the same camera was indexed, too."""
    seen = Seen(0.9), Seen(best, video=2), Seen(next_one, video=2, start=10, end=12)
    assert settled(*seen, rule=ON_SITE, one_site=(1, 2))[0] == [ACCEPTED, *wanted]
    assert settled(*seen, rule=RULE, one_site=(1, 2))[0][1] == (ACCEPTED if best > 0.86 else UNCERTAIN)
    assert settled(*seen, rule=ON_SITE)[0][1] == ACCEPTED


def test_a_better_track_of_the_site_changes_what_is_known_of_other_days() -> None:
    tracks = Seen(0.9), Seen(0.74, video=2), Seen(0.7, video=3)
    ids = np.array([(t.video << 32) + 1 for t in tracks], np.int64)
    value = np.array([t.value for t in tracks], np.float32)
    where = Where(tracks, ids, one_site=(1, 2))

    def found(rows: slice, known: SceneBests | None = None) -> Settled:
        score = ON_SITE.score(value[rows])
        return settle(
            ids[rows], score, bands(value[rows], ON_SITE, 0.9), ON_SITE, where, best=0.9, known=known
        )

    one, two, three = (found(slice(n, n + 1)).bests for n in range(3))
    assert one.unchanged_by(two, where, 1.0) and two.unchanged_by(three, where, 1.0)
    assert not two.unchanged_by(one, where, 1.0)
    unshown = replace(one, shown=np.zeros(len(one.shown), bool))
    assert one.unchanged_by(unshown, where, 1.0)
    assert not unshown.unchanged_by(one, where, 1.0), (
        "beside the thing itself, the score of what is open drops"
    )
    assert found(slice(1, 2), one).band.tolist() == [ACCEPTED]
    value[1] = 0.7
    assert found(slice(1, 2)).band.tolist() == [ACCEPTED]
    assert found(slice(1, 2), one).band.tolist() == [UNCERTAIN]


def test_what_is_known_of_scenes_from_two_sides_is_the_better_of_both() -> None:
    none, pair = [0, 0], [7, 8]
    one = SceneBests(np.array([1, 2]), np.array([0.5, 0.6]), np.array([True, False]), np.array([none, pair]))
    two = SceneBests(np.array([2, 3]), np.array([0.7, 0.1]), np.array([True, False]), np.array([none, pair]))
    for both in (one.with_others(two), two.with_others(one)):
        assert (both.scenes.tolist(), both.best.tolist()) == ([1, 2, 3], [0.5, 0.7, 0.1])
        assert both.shown.tolist() == [True, True, False]
        assert both.contest.tolist() == [none, pair, pair]


def test_nothing_goes_on_in_another_video_of_its_scene() -> None:
    seen = Seen(0.7), Seen(0.47, video=2)
    assert settled(*seen, one_scene=(1, 2))[0] == [ACCEPTED, UNCERTAIN]


def test_tracks_of_a_scene_are_told_of_one_by_one_as_all_together() -> None:
    """What is known of a scene stands for its tracks: score and band of another one are the same."""
    tracks = Seen(0.9), Seen(0.47, video=2), Seen(0.8, video=2, start=3, end=4)
    ids = np.array([1 << 32, (2 << 32) + 1, (2 << 32) + 2], np.int64)
    value = np.array([t.value for t in tracks], np.float32)
    where = Where(tracks, ids, one_scene=(1, 2))

    def found(rows: slice, known: SceneBests | None = None) -> Settled:
        score = FADING.score(value[rows])
        return settle(ids[rows], score, bands(value[rows], FADING, 0.9), FADING, where, best=0.9, known=known)

    whole, first = found(slice(None)), found(slice(1))
    rest = found(slice(1, 3), first.bests)
    assert [*first.score, *rest.score] == whole.score.tolist()
    assert [*first.band, *rest.band] == whole.band.tolist() == [ACCEPTED, UNCERTAIN, UNCERTAIN]
    both = first.bests.with_others(rest.bests)
    assert (both.scenes.tolist(), both.best.tolist(), both.shown.tolist()) == (
        whole.bests.scenes.tolist(), whole.bests.best.tolist(), whole.bests.shown.tolist(),
    )  # fmt: skip
    assert first.bests.unchanged_by(rest.bests, where, 1.0)
    assert not rest.bests.unchanged_by(replace(first.bests, best=np.array([0.95])), where, 1.0)


def test_what_continues_an_accepted_track_is_accepted_with_it() -> None:
    band, score = settled(Seen(0.7), Seen(0.47, start=1.3, end=2))
    assert band == [ACCEPTED, ACCEPTED]
    assert score[1] >= RULE.high


def test_what_is_carried_keeps_its_order_and_no_score_is_above_one() -> None:
    rule = replace(RULE, carried=0.1)
    band, score = settled(Seen(0.9), Seen(0.3), Seen(0.47), Seen(0.49), rule=rule)
    assert band == [ACCEPTED] * 4
    assert RULE.high <= score[1] < score[2] < score[3] < score[0] <= 1


@pytest.mark.parametrize(
    "other",
    [Seen(0.47, box=ELSEWHERE), Seen(0.47, start=1.6, end=2), Seen(0.4), Seen(0.47, video=2)],
    ids=["elsewhere", "later", "too little alike", "another video"],
)
def test_nothing_else_is(other: Seen) -> None:
    assert settled(Seen(0.7), other)[0][1] != ACCEPTED


def test_nothing_goes_on_over_a_cut() -> None:
    seen = Seen(0.7), Seen(0.47, start=1.3, end=2)
    assert settled(*seen, cuts=(1.2,))[0] == [ACCEPTED, UNCERTAIN]


MOVED_ON = (12, 0, 22, 10)
"""Not at the place of HERE, but less than a diagonal of it away."""


@pytest.mark.parametrize("start", [0.6, 1.0, 1.4])
def test_a_track_that_takes_over_from_an_accepted_one_is_accepted_with_it(start: float) -> None:
    taken = Seen(0.47, start=start, end=start + 1, box=MOVED_ON)
    assert settled(Seen(0.7), taken)[0] == [ACCEPTED, ACCEPTED]
    assert settled(Seen(0.47, box=MOVED_ON), Seen(0.7, start=start, end=start + 1))[0] == [ACCEPTED, ACCEPTED]


@pytest.mark.parametrize(
    "other",
    [
        Seen(0.47, start=1.6, end=2, box=MOVED_ON),
        Seen(0.47, start=0.4, end=2, box=MOVED_ON),
        Seen(0.47, start=0.3, end=0.6, box=MOVED_ON),
        Seen(0.47, start=0.6, end=0.9, box=MOVED_ON),
        Seen(0.47, start=1, end=2, box=(16, 0, 26, 10)),
    ],
    ids=["too late", "too long beside it", "while it lasts", "near its end", "more than a diagonal away"],
)
def test_no_other_track_takes_over(other: Seen) -> None:
    assert settled(Seen(0.7), other)[0] == [ACCEPTED, UNCERTAIN]


def test_nothing_takes_over_that_is_beside_the_thing_itself() -> None:
    """A thing is at one place at a time, but two boxes of it may overlap."""
    first, taking_over = Seen(0.7), Seen(0.47, start=1, end=3, box=MOVED_ON)
    beside = Seen(0.71, start=2, end=3, box=ELSEWHERE)
    assert settled(first, taking_over, beside)[0] == [ACCEPTED, UNCERTAIN, ACCEPTED]
    assert settled(first, taking_over, replace(beside, box=MOVED_ON))[0] == [ACCEPTED] * 3
    assert settled(first, replace(taking_over, box=HERE), beside)[0] == [ACCEPTED] * 3


def test_a_takeover_is_judged_where_one_ends_and_the_other_begins() -> None:
    boxes = [[[0, 0, 10, 10], [40, 0, 50, 10]], [[42, 0, 52, 10], [90, 0, 100, 10]]]
    places = Places(
        np.array([1, 2]), np.array([0.0, 2.0]), np.array([2.0, 4.0]),
        np.array([[0.0, 2.0], [2.0, 4.0]]), np.array(boxes, np.float32),
    )  # fmt: skip
    assert takes_over(places, np.array([0, 1]), np.array([1, 0])).tolist() == [True, True]


def test_nothing_takes_over_beside_what_was_not_seen_deep_enough() -> None:
    """Rows came with WITHIN n SECONDS that the complete answer does not have."""
    tracks = Seen(0.7), Seen(0.45, start=1, end=3, box=MOVED_ON), Seen(0.7, start=2, end=3, box=ELSEWHERE)
    rule = replace(RULE, carried=0.4)
    ids = np.array([(1 << 32) + number for number in (1, 2, 3)], np.int64)
    said, unseen = np.array([True, False, False]), np.array([False, False, True])
    where = Where(tracks, ids)

    def found(last: float, band: int, **more: NDArray[np.bool_]) -> list[int]:
        values = np.array([0.7, 0.45, last], np.float32)
        before = bands(values, rule)
        before[2] = band
        return settle(ids, rule.score(values), before, rule, where, said=said, **more).band.tolist()

    assert found(0.7, ACCEPTED) == [ACCEPTED, UNCERTAIN, ACCEPTED]
    assert found(0.45, UNCERTAIN, unseen=unseen) == [ACCEPTED, UNCERTAIN, UNCERTAIN]


def test_nothing_takes_over_beside_what_only_an_unseen_best_track_holds_back() -> None:
    """What comes late may be the best there is, or nothing; then the third track is sure."""
    beside, late = Seen(0.7, start=2, end=3, box=ELSEWHERE), Seen(0.45, start=20, end=21)
    tracks = Seen(0.7), Seen(0.45, start=1, end=3, box=MOVED_ON), beside, late
    rule = replace(RULE, carried=0.4)
    ids = np.array([(1 << 32) + number for number in (1, 2, 3, 4)], np.int64)
    values = np.array([t.value for t in tracks], np.float32)
    said, unseen = np.eye(4, dtype=bool)[[0, 3]]
    given = ids, rule.score(values), bands(values, rule), rule, Where(tracks, ids)
    assert settle(*given, said=said).band.tolist() == [ACCEPTED, UNCERTAIN, ACCEPTED, UNCERTAIN]
    assert settle(*given, said=said, unseen=unseen).band.tolist() == [ACCEPTED, *[UNCERTAIN] * 3]


def test_tracks_without_a_place_carry_nothing() -> None:
    ids = np.array([(1 << 32) + 1, (1 << 32) + 2], np.int64)
    values = np.array([0.7, 0.47], np.float32)

    class Nowhere(Where):
        def places(self, track_ids: NDArray[np.int64]) -> Places:
            return places_of((), self.ids, self.ids)

    nowhere = Nowhere((), ids[:0])
    band = settle(ids, RULE.score(values), bands(values, RULE), RULE, nowhere).band
    assert band.tolist() == [ACCEPTED, UNCERTAIN]


def test_diagonals_are_those_of_the_larger_box() -> None:
    small = Seen(0.47, start=1, end=2, box=(13, 3, 17, 7))
    assert settled(Seen(0.7), small)[0] == [ACCEPTED, ACCEPTED]


def test_it_goes_on_from_track_to_track() -> None:
    band, _ = settled(Seen(0.7), Seen(0.49, start=1.3, end=2), Seen(0.48, start=2.3, end=3))
    assert band == [ACCEPTED] * 3


@pytest.mark.parametrize(
    ("value", "video", "wanted"),
    [
        (0.96, 1, [ACCEPTED, UNCERTAIN]),  # it may be 1 at most, and 0.95 of that is enough
        (0.94, 1, [UNCERTAIN, UNCERTAIN]),
        (0.94, 2, [ACCEPTED, UNCERTAIN]),
    ],
)
def test_what_was_not_seen_deep_enough_may_be_anything(value: float, video: int, wanted: list[int]) -> None:
    """It is not carried where one that was seen is, nor accepted by a word."""
    rule = replace(RULE, carried=0.4)
    tracks = Seen(value, video=video), Seen(0.47)
    ids = np.array([(t.video << 32) + number for number, t in enumerate(tracks, start=1)], np.int64)
    values = np.array([t.value for t in tracks], np.float32)

    def found(**more: NDArray[np.bool_]) -> list[int]:
        given = ids, rule.score(values), bands(values, rule), rule, Where(tracks, ids)
        return settle(*given, **more).band.tolist()

    second = np.array([False, True])
    assert found(said=second) == [ACCEPTED, ACCEPTED]
    assert found() == [ACCEPTED, ACCEPTED if video == 1 else UNCERTAIN]
    assert found(unseen=second) == found(unseen=second, said=second) == wanted


def test_a_rejected_track_stays_rejected() -> None:
    rule = Calibration(0.5, 10.0, 0.45, 0.5, near_best=0.6, near_in_video=0.95, carried=0.65)
    assert settled(Seen(0.7), Seen(0.47), rule=rule)[0] == [ACCEPTED, REJECTED]


def test_without_the_rule_nothing_changes() -> None:
    plain = Calibration(0.5, 10.0, 0.1, 0.5, near_best=0.6)
    assert settled(Seen(0.9), Seen(0.8), Seen(0.45), rule=plain)[0] == [ACCEPTED, ACCEPTED, UNCERTAIN]


FADING = replace(RULE, fade=2.0, beside=0.1)


def test_the_further_behind_the_best_the_lower_the_score_of_what_is_open() -> None:
    values = (0.8, 0.48, 0.4)
    plain = settled(*(Seen(v, video=n) for n, v in enumerate(values)))[1]
    band, score = settled(*(Seen(v, video=n) for n, v in enumerate(values)), rule=FADING)
    assert band == [ACCEPTED, UNCERTAIN, UNCERTAIN]
    assert score[0] == plain[0]
    for number in (1, 2):
        lead = (plain[number] - RULE.low) * (values[number] / values[0]) ** 2
        assert score[number] == pytest.approx(RULE.low + lead)


def test_beside_the_thing_itself_hardly_anything_is_left_of_it() -> None:
    apart = settled(Seen(0.8), Seen(0.48, video=2), rule=FADING)[1][1]
    beside = settled(Seen(0.8), Seen(0.48, start=10, end=11), rule=FADING)[1][1]
    assert beside - RULE.low == pytest.approx(0.1 * (apart - RULE.low))


def test_some_of_the_tracks_are_judged_by_the_best_of_all() -> None:
    ids, value = np.array([2 << 32], np.int64), np.array([0.48], np.float32)
    whole = settled(Seen(0.8), Seen(0.48, video=2), rule=FADING)[1][1]
    where = Where([], ids)  # nobody asks for places
    found = settle(ids, FADING.score(value), bands(value, FADING, best=0.8), FADING, where, best=0.8)
    assert found.score[0] == pytest.approx(whole, abs=1e-6)


def test_boxes_between_views_lie_on_a_line_and_outside_stand_still() -> None:
    boxes = np.array([[[0, 0, 10, 10], [10, 0, 20, 10]], [[5, 5, 6, 6], [0, 0, 0, 0]]], np.float32)
    places = Places(
        np.array([1, 2]), np.zeros(2), np.full(2, 4.0), np.array([[1.0, 3.0], [2.0, np.inf]]), boxes
    )
    assert places.boxes_at(np.full(2, 2.0))[0].tolist() == [5, 0, 15, 10]
    assert places.boxes_at(np.zeros(2))[0].tolist() == [0, 0, 10, 10]
    assert places.boxes_at(np.full(2, 9.0)).tolist() == [[10, 0, 20, 10], [5, 5, 6, 6]]


def test_a_part_shares_all_of_itself() -> None:
    boxes = np.array([[2, 2, 4, 4], [8, 8, 12, 12], [20, 20, 30, 30]], np.float32)
    assert shared(np.tile(np.float32(HERE), (3, 1)), boxes).tolist() == [1, 0.25, 0]


def test_continuing_is_mutual_whoever_has_the_view() -> None:
    """The long track was pictured only at its start; the short one says where it was meanwhile."""
    boxes = np.array([[[0, 0, 10, 10], [40, 0, 50, 10]], [[20, 0, 30, 10], [20, 0, 30, 10]]], np.float32)
    places = Places(
        np.array([1, 2]), np.array([0.0, 5]), np.array([10.0, 5.2]), np.array([[0.0, 10], [5, np.inf]]), boxes
    )
    assert continues(places, np.array([0, 1]), np.array([1, 0])).all()


TRACKS = st.builds(
    Seen,
    value=st.floats(-0.5, 1, width=32),
    video=st.integers(1, 2),
    start=st.floats(0, 3),
    end=st.floats(3.5, 6),
    box=st.sampled_from([HERE, ELSEWHERE, (4, 4, 14, 14)]),
)


@given(st.lists(TRACKS, min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_bands_follow_from_scores_and_not_from_the_order(tracks: list[Seen]) -> None:
    band, score = settled(*tracks)
    before = bands(np.array([t.value for t in tracks], np.float32), RULE)
    for old, new, value in zip(before, band, score, strict=True):
        assert (new == REJECTED) == (old == REJECTED)
        assert (new == ACCEPTED) == (value >= RULE.high and old != REJECTED)
    ids = np.array([(t.video << 32) + number for number, t in enumerate(tracks, start=1)], np.int64)
    value = np.array([t.value for t in tracks], np.float32)
    turned = np.arange(len(ids))[::-1]
    again = settle(ids[turned], RULE.score(value[turned]), before[turned], RULE, Where(tracks, ids))
    assert again.score[turned].tolist() == score


def at_same_place(one: Seen, other: Seen) -> bool:
    return bool(shared(np.array([one.box], np.float32), np.array([other.box], np.float32))[0] >= 0.5)


def takes_over_by_words(one: Seen, other: Seen) -> bool:
    earlier, later = sorted((one, other), key=lambda seen: (seen.start, seen.end))
    across = np.subtract(earlier.box, later.box)
    moved = np.hypot(across[0] + across[2], across[1] + across[3]) / 2
    sizes = [np.hypot(x2 - x1, y2 - y1) for x1, y1, x2, y2 in (one.box, other.box)]
    follows = abs(later.start - earlier.end) < 0.5 and later.end > earlier.end
    return follows and bool(moved <= max(sizes))


def is_elsewhere(real: Seen, other: Seen) -> bool:
    both = min(real.end, other.end) - max(real.start, other.start)
    return real.video == other.video and both > 0.5 and not at_same_place(real, other)


def carried_one_by_one(tracks: Sequence[Seen], band: list[int]) -> list[int]:
    """The third rule by its words: from each accepted track to what continues it, and on from there."""
    best = {t.video: max(o.value for o in tracks if o.video == t.video) for t in tracks}
    sure = [
        number
        for number, t in enumerate(tracks)
        if band[number] == ACCEPTED and t.value >= RULE.near_in_video * best[t.video]
    ]
    found = list(sure)
    for number in found:
        one = tracks[number]
        for other, t in enumerate(tracks):
            near = max(one.start, t.start) < min(one.end, t.end) + 0.5 and t.video == one.video
            may = band[other] != REJECTED and t.value >= RULE.carried * best[t.video]
            taken = takes_over_by_words(one, t) and not any(is_elsewhere(tracks[real], t) for real in sure)
            if other not in found and near and may and (at_same_place(one, t) or taken):
                found.append(other)
    return [number for number in found if number not in sure]


CHAINS = st.builds(
    Seen,
    value=st.sampled_from([0.45, 0.5, 0.55, 0.7, 0.72]),
    video=st.integers(1, 3),
    start=st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0]),
    end=st.sampled_from([4.25, 4.75, 5.5]),
    box=st.sampled_from([HERE, ELSEWHERE, (4, 0, 14, 10), (8, 0, 18, 10)]),
).map(lambda t: Seen(t.value, t.video, t.start, t.start + t.end - 4, t.box))


@given(st.lists(CHAINS, min_size=1, max_size=24), st.integers(1, 40), st.sampled_from([0, 1, 600]))
@settings(max_examples=300, deadline=None)
def test_many_videos_at_once_carry_what_one_track_after_the_other_does(
    tracks: list[Seen], pairs: int, since: int
) -> None:
    tracks = [replace(t, start=t.start + since, end=t.end + since) for t in tracks]
    before = bands(np.array([t.value for t in tracks], np.float32), RULE).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("panorama.query.matching.meeting.PAIRS", pairs)
        band, _ = settled(*tracks)
    for number in carried_one_by_one(tracks, before):
        assert band[number] == ACCEPTED
    accepted = {number for number, one in enumerate(band) if one == ACCEPTED}
    assert accepted <= {number for number, one in enumerate(before) if one == ACCEPTED} | set(
        carried_one_by_one(tracks, before)
    )
