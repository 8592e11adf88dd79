"""Regions linked into tracks: motion, appearance, gaps, holds and shot changes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.machinery import PathFinder

import numpy as np
import pytest

from panorama.regions import DETECTOR, Regions
from panorama.tracking.tracker import Track, Tracker, _assignment

RED = np.array([1, 0, 0], np.float32)
BLUE = np.array([0, 0, 1], np.float32)


def regions(*boxes: tuple[float, float, float, float]) -> Regions:
    return Regions.of(
        np.array(boxes, np.float32).reshape(-1, 4), np.full(len(boxes), 0.9, np.float32), DETECTOR
    )


def looks(*vectors: np.ndarray) -> np.ndarray:
    return np.stack(vectors) if vectors else np.zeros((0, 3), np.float32)


def test_a_slowly_moving_box_is_one_track() -> None:
    tracker = Tracker()
    ids = set()
    for i in range(5):
        owners, _ = tracker.update(i * 5, i * 0.2, regions((10 + 4 * i, 10, 60 + 4 * i, 90)), looks(RED))
        ids.add(owners[0].local_id)
    assert ids == {1}
    (track,) = tracker.finish()
    assert track.frames.tolist() == [0, 5, 10, 15, 20]


def test_a_thing_is_expected_where_its_velocity_takes_it_within_a_second() -> None:
    track = Track(1)
    for i in range(4):  # 20 pixels a second across, 10 up
        track.add(5 * i, 0.2 * i, [10 + 4.0 * i, 90 - 2.0 * i, 60 + 4.0 * i, 170 - 2.0 * i], 0.9)
    assert track.velocity == pytest.approx((20, -10))
    assert track.shift(1.1) == pytest.approx((10, -5))
    assert track.shift(9.0) == pytest.approx((20, -10))
    track.add(20, 0.8, [42, 82, 92, 162], 0.9)  # 100 pixels a second across: half of that is believed
    assert track.velocity == pytest.approx((60, -10))
    track.hold(40, 1.6)
    assert track.shift(2.1) == (0, 0)
    track.add(45, 1.8, [43, 82, 93, 162], 0.9)  # it stood still until then
    assert track.velocity == pytest.approx((2.5, 0))
    assert track.frames.tolist() == [0, 5, 10, 15, 20, 40, 45]


def test_a_fast_box_without_overlap_is_followed_by_its_velocity_and_looks() -> None:
    tracker = Tracker()
    ids = [
        tracker.update(i * 5, i * 0.2, regions((100 * i, 10, 100 * i + 90, 60)), looks(RED))[0][0].local_id
        for i in range(4)
    ]
    assert ids == [1, 1, 1, 1]


def test_what_gets_faster_is_looked_for_where_it_is_going() -> None:
    """The last step is longer than its boxes reach; where it was expected is near."""
    tracker = Tracker()
    for i, left in enumerate((0, 100, 250)):
        owners, _ = tracker.update(5 * i, 0.2 * i, regions((left, 10, left + 90, 60)), looks(RED))
        assert owners[0].local_id == 1
    assert owners[0].velocity == pytest.approx((625, 0)), "of its first two steps"


def test_another_thing_at_the_same_place_is_another_track() -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((10, 10, 60, 90)), looks(RED))
    owners, _ = tracker.update(5, 0.2, regions((10, 10, 60, 90)), looks(BLUE))
    assert owners[0].local_id == 2


@pytest.mark.parametrize(
    ("scores", "same"),
    [
        ((0.9, 0.31), True),
        ((0.9, 0.29), False),  # a thing has left, and the ground that it stood on is a faint region
        ((0.15, 0.44), True),
        ((0.15, 0.46), False),  # a thing has come before a faint region
        ((0.9, 0.4, 0.26), True),  # it fades: 0.75 is the running mean
        ((0.9, 0.4, 0.24), False),
    ],
)
def test_what_is_much_fainter_or_clearer_is_another_track(scores: tuple[float, ...], same: bool) -> None:
    tracker = Tracker()
    for number, score in enumerate(scores):
        box = replace(regions((10, 10, 60, 90)), scores=np.array([score], np.float32))
        owners, _ = tracker.update(number, number * 0.2, box, looks(RED))
    assert (owners[0].local_id == 1) == same


def test_one_look_that_differs_does_not_change_what_a_thing_looks_like() -> None:
    """It turns by 37 degrees, and then to 25 on the other side: near to the first look, not to the second."""
    tracker = Tracker()
    for number, degrees in enumerate((0, 37, -25)):
        turned = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)
        owners, _ = tracker.update(number, number * 0.2, regions((10, 10, 60, 90)), looks(turned))
        assert owners[0].local_id == 1


def test_a_thing_that_turns_to_and_fro_keeps_its_looks() -> None:
    """The mean of looks that differ is shorter than they are: no sign that the next differs more."""
    tracker = Tracker()
    for number, degrees in enumerate((0, 41, -27)):
        turned = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)
        owners, _ = tracker.update(number, number * 0.2, regions((10, 10, 60, 90)), looks(turned))
        assert owners[0].local_id == 1, number


@pytest.mark.parametrize(
    ("moved", "cosine", "same"),
    [
        (25, 0.77, True),  # 60 % of both boxes are the same place
        (25, 0.73, False),
        (40, 0.82, True),  # 43 %
        (40, 0.77, False),
    ],
)
def test_the_less_sure_the_place_the_more_alike_it_must_look(moved: int, cosine: float, same: bool) -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((0, 10, 100, 90)), looks(RED))
    turned = np.array([cosine, 0, np.sqrt(1 - cosine**2)], np.float32)
    owners, _ = tracker.update(5, 0.2, regions((moved, 10, 100 + moved, 90)), looks(turned))
    assert (owners[0].local_id == 1) == same


@pytest.mark.parametrize(
    ("box", "same"),
    [
        ((118, 10, 198, 70), True),  # 98 pixels away, and its diagonal is 100
        ((142, 10, 222, 70), False),  # 122
        ((10, 100, 130, 190), True),  # 2.25 times as large
        ((10, 100, 146, 202), False),  # 2.9 times
        ((10, 80, 60, 120), True),  # by 2.4 smaller
        ((10, 80, 55, 120), False),  # by 2.7
    ],
)
def test_where_boxes_do_not_overlap_place_and_size_decide(
    box: tuple[float, float, float, float], same: bool
) -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((20, 10, 100, 70)), looks(RED))
    owners, _ = tracker.update(5, 0.2, regions(box), looks(RED))
    assert (owners[0].local_id == 1) == same


def test_crossing_things_keep_their_own_tracks() -> None:
    tracker = Tracker()
    for i in range(9):
        left, right = (10 + 10 * i, 10, 60 + 10 * i, 90), (90 - 10 * i, 10, 140 - 10 * i, 90)
        owners, _ = tracker.update(i * 5, i * 0.2, regions(left, right), looks(RED, BLUE))
        assert [t.local_id for t in owners] == [1, 2]


def test_a_track_survives_a_short_gap_and_ends_after_a_long_one() -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((10, 10, 60, 90)), looks(RED))
    _, ended = tracker.update(5, 0.8, regions(), looks())
    assert not ended
    owners, ended = tracker.update(10, 0.9, regions((10, 10, 60, 90)), looks(RED))
    assert owners[0].local_id == 1 and not ended
    _, ended = tracker.update(20, 1.5, regions(), looks())
    assert not ended
    _, ended = tracker.update(30, 2.0, regions(), looks())
    assert [t.local_id for t in ended] == [1]


def test_a_hold_keeps_a_track_alive_and_its_box_still() -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((10, 10, 60, 90)), looks(RED))
    for frame in (30, 60, 90):
        tracker.hold(frame, frame / 10)
    owners, ended = tracker.update(100, 10.0, regions((30, 10, 80, 90)), looks(RED))
    assert not ended and owners[0].local_id == 1
    assert owners[0].frames.tolist() == [0, 90, 100]
    assert owners[0].corners[:4] == owners[0].corners[4:8] != owners[0].corners[8:]
    tracker.update(105, 10.5, regions((30, 10, 80, 90)), looks(RED))
    (track,) = tracker.finish()
    assert track.frames.tolist() == [0, 90, 100, 105], "the hold is over"


def test_what_stopped_is_not_expected_to_move_on() -> None:
    """Its velocity of before the hold took its track to what came by ahead of it and looked the same."""
    tracker = Tracker()
    for i in range(3):
        tracker.update(6 * i, 0.2 * i, regions((10 + 20 * i, 10, 60 + 20 * i, 90)), looks(RED))
    tracker.hold(60, 2.0)
    stands, comes = (52, 10, 102, 90), (70, 10, 120, 90)
    owners, _ = tracker.update(66, 2.2, regions(stands, comes), looks(RED, RED))
    assert [t.local_id for t in owners] == [1, 2]


def test_a_hold_does_not_revive_what_was_not_in_the_last_sample() -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((10, 10, 60, 90)), looks(RED))
    tracker.update(5, 0.2, regions(), looks())
    tracker.hold(10, 0.4)
    assert tracker.finish()[0].last_seen_seconds == 0.0


def test_a_cut_ends_every_track() -> None:
    tracker = Tracker()
    tracker.update(0, 0.0, regions((10, 10, 60, 90), (100, 10, 160, 90)), looks(RED, BLUE))
    assert {t.local_id for t in tracker.cut()} == {1, 2}
    owners, _ = tracker.update(5, 0.2, regions((10, 10, 60, 90)), looks(RED))
    assert owners[0].local_id == 3


@pytest.mark.parametrize("count", [0, 1, 7])
def test_every_region_gets_exactly_one_track(count: int) -> None:
    tracker = Tracker()
    boxes = [(20.0 * i, 0.0, 20.0 * i + 15, 30.0) for i in range(count)]
    for frame in range(3):
        owners, _ = tracker.update(frame, frame * 0.1, regions(*boxes), looks(*[RED] * count))
        assert len(owners) == len({t.local_id for t in owners}) == count


def test_a_rare_look_still_links_what_stands_still() -> None:
    tracker = Tracker()
    for i in range(6):
        owners, ended = tracker.update(60 * i, 2.0 * i, regions((10, 10, 60, 90)), looks(RED))
        assert not ended and owners[0].local_id == 1


def test_looks_more_than_ten_seconds_apart_link_nothing() -> None:
    """At one look a quarter of a minute, what stands where something stood is mostly another thing."""
    tracker = Tracker()
    for seconds, local_id in ((0, 1), (10, 1), (21, 2)):
        owners, _ = tracker.update(25 * seconds, seconds, regions((10, 10, 60, 90)), looks(RED))
        assert owners[0].local_id == local_id


def test_a_perfect_match_is_not_given_up_for_a_pair_that_is_impossible() -> None:
    # A stays, B on its right leaves, C appears on its left, out of reach of B: the solver once matched A to
    # B's track and C to A's.
    tracker = Tracker()
    a, b, c = (100, 10, 150, 90), (170, 10, 220, 90), (30, 10, 80, 90)
    tracker.update(0, 0.0, regions(a, b), looks(RED, RED))
    owners, _ = tracker.update(6, 0.2, regions(a, c), looks(RED, RED))
    assert [t.local_id for t in owners] == [1, 3]


def test_of_two_things_side_by_side_looks_decide_where_places_hardly_do() -> None:
    """Each is a little nearer to where the other one was."""
    tracker = Tracker()
    one, other = np.array([1, 0], np.float32), np.array([0.8, 0.6], np.float32)
    tracker.update(0, 0.0, regions((0, 10, 100, 90), (20, 10, 120, 90)), looks(one, other))
    owners, _ = tracker.update(6, 0.2, regions((12, 10, 112, 90), (8, 10, 108, 90)), looks(one, other))
    assert [t.local_id for t in owners] == [1, 2]


@pytest.mark.parametrize(
    ("left", "cosine"),
    [
        (200, 0.77),  # it turns as well: its last place is sure, where its looks alone would not do
        (140, 1.0),  # it steps back: near its last place, and far from where it was going
    ],
)
def test_what_ran_and_stops_is_still_near_its_last_place(left: float, cosine: float) -> None:
    tracker = Tracker()
    for i in range(3):  # 500 pixels a second
        tracker.update(6 * i, 0.2 * i, regions((100 * i, 10, 100 * i + 90, 70)), looks(RED))
    turned = np.array([cosine, 0, np.sqrt(1 - cosine**2)], np.float32)
    owners, _ = tracker.update(30, 1.0, regions((left, 10, left + 90, 70)), looks(turned))
    assert owners[0].local_id == 1


def test_what_comes_by_does_not_take_over_a_track_that_stood_still() -> None:
    tracker = Tracker()
    grey, similar = np.array([1, 0], np.float32), np.array([0.8, 0.6], np.float32)
    tracker.update(0, 0.0, regions((10, 10, 60, 90)), looks(grey))
    tracker.hold(10, 1.0)
    owners, _ = tracker.update(12, 1.2, regions((12, 10, 62, 90)), looks(similar))
    assert owners[0].local_id == 2
    # While it is watched, a thing may turn and look so different.
    tracker = Tracker()
    tracker.update(0, 0.0, regions((10, 10, 60, 90)), looks(grey))
    owners, _ = tracker.update(12, 0.2, regions((12, 10, 62, 90)), looks(similar))
    assert owners[0].local_id == 1


def test_the_assignment_without_its_package_is_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from panorama.tracking.tracker import _assignment; _assignment(); "
        "sys.exit('scipy.optimize' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(0)
    for _ in range(20):
        cost = rng.random(rng.integers(1, 9, 2)).round(1)
        for found, documented in zip(_assignment()(cost), linear_sum_assignment(cost), strict=True):
            np.testing.assert_array_equal(found, documented)
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)  # a scipy that has it elsewhere
    assert _assignment.__wrapped__() is linear_sum_assignment
