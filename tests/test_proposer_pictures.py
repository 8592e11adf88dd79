"""What the proposer learns from: packed pictures, composites, and what is done to both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from panorama.models.proposer_training.compose import Sample, areas, compose, crop_to, flip
from panorama.models.proposer_training.cutouts import from_plain_background
from panorama.models.proposer_training.sources import Packed, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two grey scenes, one with a labelled box, and one red square as the only cut-out."""
    scenes = [np.full((200, 300, 3), 90, np.uint8), np.full((150, 150, 3), 160, np.uint8)]
    red = np.dstack([np.full((40, 40, 3), (255, 0, 0), np.uint8), np.full((40, 40), 255, np.uint8)])
    Packed.write(scenes, tmp_path / "scenes")
    Packed.write([red], tmp_path / "cutouts")
    boxes = [np.array([[50, 50, 120, 150]], np.float32), np.zeros((0, 4), np.float32)]
    groups = {"labelled": ([0], 0), "silent": ([1], 1)}
    return Store(
        Packed.open(tmp_path / "scenes"), boxes, groups, Packed.open(tmp_path / "cutouts"), {"red": [0]}
    )


def test_packed_pictures_come_back_as_they_were(store: Store) -> None:
    assert store.scenes[0].shape == (200, 300, 3)
    assert int(store.scenes[1][0, 0, 0]) == 160
    assert store.cutouts[0].shape == (40, 40, 4)


def test_composites_depend_on_their_seed_alone(store: Store) -> None:
    mix = {
        "mosaic": 0.5,
        "paste": 1.0,
        "warp": 0.3,
        "blend": 0.3,
        "scenes": {"labelled": 1, "silent": 1, "drawn": 1},
        "things": {"red": 1, "drawn": 1},
    }
    first, second, other = (compose(np.random.default_rng(s), store, 96, 128, mix) for s in (5, 5, 6))
    np.testing.assert_array_equal(first.image, second.image)
    np.testing.assert_array_equal(first.boxes, second.boxes)
    assert not np.array_equal(first.image, other.image)


def test_composite_boxes_lie_inside_and_hold_the_pasted_thing(store: Store) -> None:
    mix = {
        "mosaic": 0.0,
        "paste": 1.0,
        "warp": 0.0,
        "blend": 0.0,
        "scenes": {"silent": 1},
        "things": {"red": 1},
    }
    held = 0
    for seed in range(12):
        sample = compose(np.random.default_rng(seed), store, 128, 160, mix)
        assert sample.image.shape == (128, 160, 3)
        for x1, y1, x2, y2 in sample.boxes.astype(int):
            assert 0 <= x1 < x2 <= 160
            assert 0 <= y1 < y2 <= 128
            inside = sample.image[y1:y2, x1:x2].reshape(-1, 3).astype(int)
            held += int(np.median(inside[:, 0] - inside[:, 1:].max(1)) > 20)
    assert held >= 12


def test_crops_move_boxes_with_the_picture_and_silence_what_is_cut_off() -> None:
    image = np.zeros((100, 100, 3), np.uint8)
    image[20:40, 30:60] = 255
    whole = Sample(image, np.array([[30, 20, 60, 40]], np.float32), np.zeros((0, 4), np.float32))
    for seed in range(20):
        part = crop_to(np.random.default_rng(seed), whole, 100, 100, 0.4)
        for box in part.boxes:
            x1, y1, x2, y2 = (int(v) for v in np.rint(box))
            assert part.image[y1:y2, x1:x2].mean() > 200
        assert len(part.boxes) + len(part.silent) <= 1


def test_warped_and_blended_pictures_leave_all_to_the_teacher(store: Store) -> None:
    mix = {"mosaic": 0.0, "paste": 0.0, "warp": 1.0, "blend": 0.0, "scenes": {"labelled": 1}, "things": {}}
    for more in ({}, {"warp": 0.0, "blend": 1.0}):
        sample = compose(np.random.default_rng(0), store, 96, 128, {**mix, **more})
        assert sample.image.shape == (96, 128, 3)
        assert len(sample.boxes) == 0
        assert sample.silent.tolist() == [[0, 0, 128, 96]]


def test_flipping_twice_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (20, 30, 3), np.uint8)
    sample = Sample(image, np.array([[1, 2, 10, 12]], np.float32), np.zeros((0, 4), np.float32))
    back = flip(flip(sample))
    np.testing.assert_array_equal(back.image, sample.image)
    np.testing.assert_array_equal(back.boxes, sample.boxes)
    assert float(areas(flip(sample).boxes)[0]) == 90.0


def test_a_thing_on_a_plain_ground_is_cut_out_and_a_patterned_ground_is_refused() -> None:
    image = np.full((100, 120, 3), 250, np.uint8)
    image[30:80, 40:90] = (10, 120, 60)
    cut = from_plain_background(image)
    assert cut is not None
    assert abs(cut.shape[0] - 50) <= 2
    assert abs(cut.shape[1] - 50) <= 2
    assert cut[25, 25, 3] == 255
    noise = np.random.default_rng(0).integers(0, 255, (100, 120, 3), np.uint8)
    assert from_plain_background(noise) is None
