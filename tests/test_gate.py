"""The change gate sees what matters, and neither noise nor light, on pictures that a person can compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from places import FOOTAGE, NO_FOOTAGE

from panorama.errors import UsageError
from panorama.video import ChangeGate, open_video
from panorama.video.gate import lasts, motion_residual
from panorama.video.motion import MotionProposer

RNG = np.random.default_rng(7)


def scene(height: int = 720, width: int = 1280, seed: int = 0) -> np.ndarray:
    """A smooth gray landscape around 120, different for every seed."""
    coarse = np.random.default_rng(seed).uniform(40, 200, (9, 16)).astype(np.float32)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def seen(picture: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """A picture as a sensor with noise delivers it."""
    noisy = picture + noise * RNG.standard_normal(picture.shape, dtype=np.float32) if noise else picture
    return np.clip(np.round(noisy), 0, 255).astype(np.uint8)


def test_first_frame_is_a_change_but_no_cut() -> None:
    result = ChangeGate().update(seen(scene()))
    assert result.changed and not result.cut


@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
def test_static_picture_is_unchanged_under_sensor_noise(noise: float) -> None:
    gate = ChangeGate()
    gate.update(seen(scene(), noise))
    results = [gate.update(seen(scene(), noise)) for _ in range(25)]
    assert not any(r.changed for r in results), max(r.difference for r in results)


@pytest.mark.parametrize("noise", [0.0, 4.0])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (5, 11), (640, 360), (1003, 517), (1256, 696)])
def test_small_object_is_seen_wherever_it_stands(noise: float, x: int, y: int) -> None:
    gate = ChangeGate()
    for _ in range(6):
        gate.update(seen(scene(), noise))
    with_object = scene()
    with_object[y : y + 24, x : x + 24] += 40
    assert gate.update(seen(with_object, noise)).changed


def test_flicker_of_a_single_cell_is_no_change_and_a_strong_spot_is() -> None:
    for strength, changed in ((8, False), (60, True)):
        gate = ChangeGate()
        for _ in range(6):
            gate.update(seen(scene(720, 1280)))
        picture = scene(720, 1280)
        picture[320:336, 640:656] += strength  # exactly one cell of 16 x 16 pixels
        assert gate.update(seen(picture)).changed is changed


def test_a_change_is_two_cells_that_touch_or_one_by_twice_as_much() -> None:
    def strength(*cells: tuple[int, int, float]) -> np.ndarray:
        grid = np.zeros((5, 7), np.float32)
        for row, column, value in cells:
            grid[row, column] = value
        return grid

    assert not lasts(strength(), 6.0)
    assert not lasts(strength((2, 2, 5.9), (2, 3, 5.9)), 6.0)
    assert not lasts(strength((2, 2, 11.9)), 6.0)
    assert not lasts(strength((2, 2, 7.0), (2, 4, 7.0)), 6.0)
    assert not lasts(strength((2, 2, 7.0), (2, 3, 5.9)), 6.0)
    assert lasts(strength((0, 0, 6.0), (1, 1, 6.0)), 6.0)
    assert lasts(strength((0, 0, 6.0), (1, 1, 6.0), (4, 5, 7.0)), 6.0)  # a spot elsewhere hides nothing
    assert lasts(strength((4, 6, 12.0)), 6.0)


def test_slow_light_change_is_not_lost() -> None:
    gate = ChangeGate()
    changes = sum(gate.update(seen(scene(360, 640) * 0.6 + 0.2 * n, 1.0)).changed for n in range(100))
    assert 5 <= changes <= 60  # twenty gray levels in all: neither once nor every frame


def test_light_is_another_from_two_grey_levels_on() -> None:
    for levels, changed in ((1.5, False), (2.5, True)):
        gate = ChangeGate()
        gate.update(seen(scene()))
        assert gate.update(seen(scene() + levels)).changed is changed


def test_where_something_flickers_the_bar_is_higher_until_it_is_over() -> None:
    gate, place = ChangeGate(), (slice(160, 192), slice(320, 352))

    def changed(levels: float) -> bool:
        picture = scene(360, 640)
        picture[place] += levels
        return gate.update(seen(picture, 1.0)).changed

    for _ in range(6):
        changed(0)
    assert changed(8)
    for number in range(60):
        changed(8 * (number % 2))
    assert not changed(0) and not changed(8)
    for _ in range(200):
        changed(0)
    assert changed(8)


def test_unchanged_frames_do_not_move_the_reference() -> None:
    gate = ChangeGate()
    changed_at = []
    for n in range(40):
        picture = scene()
        picture[300:340, 600:640] += n * 0.8  # an object fading in, below the threshold from frame to frame
        if gate.update(seen(picture)).changed:
            changed_at.append(n)
    assert len(changed_at) > 2


def test_another_shot_is_a_cut() -> None:
    gate = ChangeGate()
    for _ in range(4):
        assert not gate.update(seen(scene(seed=1), 2.0)).cut
    result = gate.update(seen(scene(seed=2), 2.0))
    assert result.cut and result.changed
    assert not gate.update(seen(scene(seed=2), 2.0)).cut


@pytest.mark.parametrize(("top", "side"), [(0, 160), (130, 0), (100, 240)])
def test_cuts_are_seen_between_black_bars_as_without(top: int, side: int) -> None:
    between = (slice(top, 720 - top), slice(side, 1280 - side))
    cuts = []
    for seed in range(12):
        bare, barred = ChangeGate(), ChangeGate()
        for shot in (seed, seed, seed + 20):
            picture = np.full((720, 1280), 16, np.float32)
            picture[between] = scene(720 - 2 * top, 1280 - 2 * side, seed=shot)
            luma = seen(picture, 2.0)
            cuts.append((bare.update(luma[between]).cut, barred.update(luma).cut))
    found, wanted = (sum(side) for side in zip(*((barred, bare) for bare, barred in cuts), strict=True))
    assert found >= wanted - 1 and wanted >= 7, (found, wanted)
    assert not any(with_bars for n, (_, with_bars) in enumerate(cuts) if n % 3 == 1)


def test_a_lamp_that_is_switched_on_in_the_dark_is_no_cut() -> None:
    dark = np.full((720, 1280), 12, np.float32)
    dark[200:500, 300:900] += 0.3 * scene(300, 600)
    gate = ChangeGate()
    for _ in range(3):
        gate.update(seen(dark, 1.0))
    lit = dark.copy()
    lit[200:500, 300:900] += 0.3 * scene(300, 600)
    result = gate.update(seen(lit, 1.0))
    assert result.changed and not result.cut


def test_light_switched_on_is_a_change_but_no_cut() -> None:
    gate = ChangeGate()
    gate.update(seen(scene() * 0.4, 1.0))
    result = gate.update(seen(scene() * 0.8 + 10, 1.0))
    assert result.changed and not result.cut


def test_panning_camera_is_a_change_but_no_cut() -> None:
    wide = scene(360, 1280, seed=3)
    gate = ChangeGate()
    results = [gate.update(seen(wide[:, x : x + 640], 1.0)) for x in range(0, 600, 30)]
    assert all(r.changed for r in results)
    assert not any(r.cut for r in results)


def test_large_passing_object_is_no_cut() -> None:
    gate = ChangeGate()
    results = []
    for x in range(-250, 640, 22):
        picture = scene(360, 640, seed=4)
        picture[50:310, max(0, x) : max(0, x + 250)] = 20
        results.append(gate.update(seen(picture, 1.0)))
    assert not any(r.cut for r in results)


def test_change_of_picture_size_begins_another_shot() -> None:
    gate = ChangeGate()
    gate.update(seen(scene(720, 1280)))
    assert gate.update(seen(scene(480, 640))).cut


def test_tiny_picture_is_compared_too() -> None:
    gate = ChangeGate()
    assert gate.update(np.zeros((3, 2), np.uint8)).changed
    assert not gate.update(np.zeros((3, 2), np.uint8)).changed
    assert gate.update(np.full((3, 2), 90, np.uint8)).changed


@pytest.mark.parametrize("shape", [(2, 4096), (2000, 2), (1, 3000), (1, 1)])
def test_a_picture_of_extreme_shape_is_compared_too(shape: tuple[int, int]) -> None:
    dark, light = np.zeros(shape, np.uint8), np.full(shape, 200, np.uint8)
    gate, motion = ChangeGate(), MotionProposer(*shape[::-1])
    assert [gate.update(luma).changed for luma in (dark, dark, light)] == [True, False, True]
    for luma in (dark, dark, light):
        motion.update(luma)


def test_higher_threshold_sees_less() -> None:
    faint = scene()
    faint[200:240, 200:240] += 6
    results = {}
    for threshold in (4.0, 20.0):
        gate = ChangeGate(threshold=threshold)
        gate.update(seen(scene()))
        results[threshold] = gate.update(seen(faint)).changed
    assert results == {4.0: True, 20.0: False}


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="threshold"):
        ChangeGate(threshold=0)
    with pytest.raises(UsageError, match="grid"):
        ChangeGate(grid=1)


def test_cost_of_a_full_hd_frame_is_small() -> None:
    frames = [seen(scene(1080, 1920), 2.0) for _ in range(3)]
    gate = ChangeGate()
    best = min(timed(lambda luma: gate.update(luma), frames[n % 3]) for n in range(30))
    copied = min(timed(lambda luma: luma.copy(), frames[n % 3]) for n in range(30))
    assert best < 10 * copied  # measured: three


def timed(work: Callable[[np.ndarray], object], luma: np.ndarray) -> float:
    start = time.perf_counter()
    work(luma)
    return time.perf_counter() - start


def footage(name: str) -> Path:
    path = FOOTAGE / "video" / name
    if not path.exists():
        pytest.skip(f"{name}: {NO_FOOTAGE}")
    return path


@pytest.mark.footage
@pytest.mark.parametrize(
    ("name", "cuts"),
    [
        ("bunny.mp4", [285, 378, 553]),
        ("nasa.mp4", [240]),
        ("chaplin.mp4", []),
        ("people-one-by-one.mp4", []),
        ("cars-from-above.mp4", []),
        ("dog.mp4", []),
        ("toy-elf.mp4", []),
        ("toy-rabbit-small.mp4", []),
    ],
)
def test_cuts_of_real_footage(name: str, cuts: list[int]) -> None:
    gate = ChangeGate()
    with open_video(footage(name)) as reader:
        found = [f.index for f in reader.frames() if gate.update(f.luma()).cut]
    assert found == cuts


@pytest.mark.parametrize("least", [0.5, 6.0, 20.0])
def test_a_search_that_stops_early_decides_as_the_whole_one_does(least: float) -> None:
    rng = np.random.default_rng(11)
    before = cv2.GaussianBlur(rng.uniform(0, 255, (54, 96)).astype(np.float32), (0, 0), 2)
    for now in (np.roll(before, (3, -4), (0, 1)), before[::-1].copy(), before + 3):
        whole, early = motion_residual(now, before), motion_residual(now, before, least)
        if whole.mean() >= least:
            assert np.array_equal(early, whole)
        else:
            assert early.mean() < least
