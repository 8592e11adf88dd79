"""A clock in the picture is no change once it is known, and hides nothing that comes."""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import pytest

from panorama.video import ChangeGate
from panorama.video.ticking import BEATS, Ticking

SECOND = 5
"""Samples; as many as are taken at the default rate."""

LEARNT = 2 * BEATS * SECOND
"""Samples by which a clock of this size is known for certain: not every digit differs enough."""


def picture(second: int, rng: np.random.Generator, *, shown: bool = True) -> np.ndarray:
    """360 x 640, uint8: a smooth wall under sensor noise, with the time in a corner."""
    coarse = np.random.default_rng(3).uniform(60, 180, (9, 16)).astype(np.float32)
    wall = cv2.resize(coarse, (640, 360), interpolation=cv2.INTER_CUBIC)
    wall += 2.0 * rng.standard_normal(wall.shape, dtype=np.float32)
    luma = np.clip(np.round(wall), 0, 255).astype(np.uint8)
    if shown:
        words = f"2026-11-29 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        for colour, width in ((0, 6), (255, 2)):
            cv2.putText(luma, words, (12, 26), cv2.FONT_HERSHEY_SIMPLEX, 0.7, colour, width)
    return luma


def changes(gate: ChangeGate, lumas: Iterable[np.ndarray]) -> list[bool]:
    return [gate.update(luma).changed for luma in lumas]


def idle(samples: range, rng: np.random.Generator, *, shown: bool = True) -> list[np.ndarray]:
    return [picture(36_000 + n // SECOND, rng, shown=shown) for n in samples]


def test_a_clock_is_a_change_until_it_is_known_and_then_none() -> None:
    gate, rng = ChangeGate(), np.random.default_rng(0)
    changed = changes(gate, idle(range(LEARNT + 300 * SECOND), rng))
    assert 10 <= sum(changed[:LEARNT]) <= 2 * BEATS + 2
    # The ten minutes and the hour change other places of the line; they are beside it, at the same moments.
    assert sum(changed[LEARNT:]) <= 2


def test_without_a_clock_nothing_is_learnt() -> None:
    gate, rng = ChangeGate(), np.random.default_rng(0)
    assert sum(changes(gate, idle(range(200), rng, shown=False))) == 1


@pytest.mark.parametrize(("x", "y"), [(300, 200), (12, 40), (600, 4), (100, 6)])
@pytest.mark.parametrize("late", range(SECOND))
def test_what_comes_beside_or_onto_a_known_clock_is_seen_within_a_second(x: int, y: int, late: int) -> None:
    gate, rng = ChangeGate(), np.random.default_rng(late)
    changes(gate, idle(range(LEARNT + late), rng))
    coming = idle(range(LEARNT + late, LEARNT + late + SECOND), rng)
    for n, luma in enumerate(coming):
        luma[y : y + 24, x + 8 * n : x + 8 * n + 24] = 20  # it moves on, by a third of itself
    seen = changes(gate, coming)
    assert any(seen)
    if y > 100:
        assert seen[0]


def test_what_passes_over_the_clock_again_and_again_is_no_clock() -> None:
    ticking, rng = Ticking(), np.random.default_rng(0)
    for _ in range(40 * SECOND):
        over = np.zeros((45, 80), bool)
        over[2, 10 + rng.integers(5)] = rng.random() < 0.6
        ticking.update(over)
        assert ticking.place() is None


def test_a_place_is_a_line_and_never_more() -> None:
    ticking = Ticking()
    for n in range(60 * SECOND):
        over = np.zeros((45, 80), bool)
        if n % SECOND == 0:
            over[2:4, 20:24] = True
            over[30:44, 60:79] = n % (3 * SECOND) == 0  # at the same beat, far too large for a line
        ticking.update(over)
    place = None
    for n in range(SECOND):
        over = np.zeros((45, 80), bool)
        over[2:4, 20:24] = n == 0
        ticking.update(over)
        place = place or ticking.place()
    assert place == (slice(1, 5), slice(19, 25))


@pytest.mark.parametrize("period", [1, 2, 3])
def test_at_rates_at_which_every_interval_would_fit_nothing_is_a_clock(period: int) -> None:
    ticking = Ticking()
    for n in range(60 * period):
        over = np.zeros((45, 80), bool)
        over[2:4, 20:24] = n % period == 0
        ticking.update(over)
        assert ticking.place() is None


def test_a_clock_that_stopped_is_forgotten_and_learnt_again() -> None:
    gate, rng = ChangeGate(), np.random.default_rng(0)
    changes(gate, idle(range(LEARNT), rng))
    frozen = [picture(36_000 + LEARNT // SECOND, rng) for _ in range(60 * SECOND)]
    assert sum(changes(gate, frozen)) <= 1
    # Nobody knows any more when it ticks: that it goes on is a change, and then it is known again.
    assert sum(changes(gate, idle(range(LEARNT + 60 * SECOND, 2 * LEARNT + 60 * SECOND), rng))) <= 3


def test_a_picture_of_another_size_has_no_clock_yet() -> None:
    gate, rng = ChangeGate(), np.random.default_rng(0)
    changes(gate, idle(range(LEARNT), rng))
    longer = [np.vstack([luma, luma[:60]]) for luma in idle(range(LEARNT, 2 * LEARNT), rng)]
    assert gate.update(longer[0]).cut
    assert sum(changes(gate, longer[1:])) >= 10


def test_a_clock_that_is_gone_gives_way_to_one_elsewhere() -> None:
    ticking = Ticking()

    def tick(row: int, n: int) -> None:
        over = np.zeros((45, 80), bool)
        over[row, 20:24] = n % SECOND == 0
        ticking.update(over)

    for n in range(60 * SECOND):
        tick(2, n)
    for _ in range(61 * SECOND):
        ticking.update(np.zeros((45, 80), bool))
    for n in range(60 * SECOND + 1):
        tick(40, n)
    assert ticking.place() == (slice(39, 42), slice(19, 25))
