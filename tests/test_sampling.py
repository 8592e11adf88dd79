"""Which samples are looked at: what changed, what was cut to, and slow motion every second time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from panorama.frames import VideoInfo
from panorama.sampling import Hold, Rate, Sample, Sampler
from panorama.video.pictures import ArrayPicture
from panorama.video.reader import VideoFrame

WIDTH, HEIGHT, SIDE = 320, 180, 60
INFO = VideoInfo("room", "images", WIDTH, HEIGHT, 0, Fraction(1, 10), None, 10.0)
RNG = np.random.default_rng(5)
ROOM = np.kron(RNG.integers(60, 140, (9, 16)), np.ones((20, 20)))


def frame(number: int, left: int | None) -> VideoFrame:
    """A room with sensor noise, and a bright square where there is one; ten frames a second."""
    picture = ROOM + RNG.normal(0, 1, ROOM.shape)
    if left is not None:
        picture[60 : 60 + SIDE, left : left + SIDE] = 230 + RNG.normal(0, 1, (SIDE, SIDE))
    bgr = np.repeat(np.clip(picture, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
    return VideoFrame(number, number, number / 10, False, ArrayPicture(bgr, WIDTH, HEIGHT))


def seen(rate: Rate, lefts: list[int | None]) -> list[str]:
    """What is made of each frame after ten of the empty room: 'look', 'hold' or nothing."""
    sampler = Sampler(INFO, rate, 416)
    words = {Sample: "look", Hold: "hold"}
    told = []
    for number, left in enumerate([*[None] * 10, *lefts]):
        events = list(sampler.look(frame(number, left)))
        told.append(words[type(events[0])] if events else "")
    return told[10:]


def test_slow_motion_is_looked_at_every_second_time() -> None:
    assert seen(Rate(10.0), [40, 41, 42, 43, 44, 45]) == ["look", "", "look", "", "look", ""]


def test_fast_motion_is_looked_at_every_time() -> None:
    assert seen(Rate(10.0), [20, 60, 100, 140, 180, 220]) == ["look"] * 6


def test_what_comes_in_is_looked_at_at_once() -> None:
    assert seen(Rate(10.0), [None, None, 40, None, 150]) == ["hold", "hold", "look", "look", "look"]


def test_a_change_that_had_to_wait_is_looked_at_next_even_if_nothing_changes_any_more() -> None:
    assert seen(Rate(10.0), [40, 41, 41, 41, 41])[:4] == ["look", "", "look", "hold"]


@pytest.mark.parametrize("rate", [Rate(10.0, every=1), Rate(10.0, all_frames=True)])
def test_frames_that_were_asked_for_by_number_are_all_looked_at(rate: Rate) -> None:
    assert seen(rate, [40, 41, 42, 43]) == ["look"] * 4


def test_looks_that_are_rare_anyway_are_all_taken() -> None:
    told = seen(Rate(2.0), [40, 40, 40, 40, 40, 41, 41, 41, 41, 41, 42])
    assert [word for word in told if word] == ["look", "look", "look"]
