"""Motion regions on synthetic squares over a noisy background, and silence when the camera moves."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from panorama.errors import UsageError
from panorama.regions import MOTION, Regions, iou
from panorama.video import MotionProposer

WIDTH, HEIGHT = 960, 540
RNG = np.random.default_rng(3)


def background(width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """A room with edges all over: rectangles of different gray."""
    rng = np.random.default_rng(1)
    picture = np.full((height, width), 110, np.float32)
    for _ in range(60):
        x, y = int(rng.integers(0, width)), int(rng.integers(0, height))
        picture[y : y + int(rng.integers(30, 120)), x : x + int(rng.integers(30, 160))] = rng.uniform(50, 190)
    return picture


def seen(picture: np.ndarray, noise: float = 2.0) -> np.ndarray:
    return np.clip(picture + noise * RNG.standard_normal(picture.shape, dtype=np.float32), 0, 255).astype(
        np.uint8
    )


def with_square(picture: np.ndarray, x: int, y: int, side: int, gray: float = 235) -> np.ndarray:
    painted = picture.copy()
    painted[max(0, y) : y + side, max(0, x) : x + side] = gray
    return painted


def warmed_up(proposer: MotionProposer, picture: np.ndarray, updates: int = 8) -> MotionProposer:
    for _ in range(updates):
        assert len(proposer.update(seen(picture))) == 0
    return proposer


def best_iou(regions: Regions, box: tuple[float, float, float, float]) -> float:
    return float(iou(regions.boxes_xyxy, np.array([box])).max()) if len(regions) else 0.0


def test_still_picture_proposes_nothing() -> None:
    warmed_up(MotionProposer(WIDTH, HEIGHT), background(), updates=20)


@pytest.mark.parametrize("side", [28, 60, 180])
def test_moving_square_is_boxed_in_every_frame(side: int) -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    for n in range(12):
        x, y = 60 + n * 55, 80 + n * 20
        regions = proposer.update(seen(with_square(background(), x, y, side)))
        assert best_iou(regions, (x, y, x + side, y + side)) >= 0.5, (n, regions.boxes_xyxy)
        assert set(regions.sources.tolist()) == {MOTION}
        assert ((regions.scores >= 0) & (regions.scores <= 1)).all()


def test_two_squares_are_two_regions() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    picture = with_square(with_square(background(), 100, 100, 80), 600, 300, 120, gray=10)
    regions = proposer.update(seen(picture))
    assert len(regions) == 2
    assert best_iou(regions, (100, 100, 180, 180)) > 0.5
    assert best_iou(regions, (600, 300, 720, 420)) > 0.5


def test_fragments_of_one_object_are_merged() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    picture = with_square(with_square(background(), 300, 200, 60), 300, 264, 60)
    regions = proposer.update(seen(picture))
    assert len(regions) == 1
    assert best_iou(regions, (300, 200, 360, 324)) > 0.7


def test_shaking_camera_proposes_nothing() -> None:
    wide = background(WIDTH + 80, HEIGHT + 80)
    proposer = MotionProposer(WIDTH, HEIGHT)
    for n in range(30):
        dx, dy = (n * 17) % 41 + 10, (n * 29) % 37 + 10
        moved = with_square(wide[dy : dy + HEIGHT, dx : dx + WIDTH], 200 + 20 * n, 200, 60)
        assert len(proposer.update(seen(moved))) == 0


def test_object_is_found_again_after_the_camera_came_to_rest() -> None:
    wide = background(WIDTH + 200, HEIGHT)
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), wide[:, :WIDTH])
    rested = warmed_up(proposer, wide[:, 150 : 150 + WIDTH])
    regions = rested.update(seen(with_square(wide[:, 150 : 150 + WIDTH], 400, 200, 90)))
    assert best_iou(regions, (400, 200, 490, 290)) >= 0.5


def test_change_of_exposure_is_not_motion() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    for gain in (0.95, 0.9, 0.8, 0.75, 0.9, 1.0):
        regions = proposer.update(seen(with_square(background() * gain, 500, 200, 100)))
        assert len(regions) == 1
        assert best_iou(regions, (500, 200, 600, 300)) >= 0.5


def test_light_switch_starts_over_silently() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    warmed_up(proposer, 255 - background())


def test_what_stays_becomes_background_and_leaves_no_ghost() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT, memory=10), background())
    standing = with_square(background(), 400, 200, 90)
    counts = [len(proposer.update(seen(standing))) for _ in range(60)]
    assert counts[0] == 1 and counts[-1] == 0
    left = [len(proposer.update(seen(background()))) for _ in range(4)]
    assert left[-1] == 0


def grass() -> np.ndarray:
    """Ground with more edges than anything that stands on it."""
    coarse = np.random.default_rng(2).uniform(70, 170, (HEIGHT // 12, WIDTH // 12)).astype(np.float32)
    return cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)


@pytest.mark.parametrize("pause", [15, 60, 300])
def test_ground_that_what_paused_uncovers_is_no_motion_however_rough_it_is(pause: int) -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), grass(), updates=20)
    for _ in range(pause):
        proposer.update(seen(with_square(grass(), 400, 200, 90, 40)))
    for _ in range(3):
        assert len(proposer.update(seen(grass()))) == 0


def test_what_comes_back_to_where_it_stood_at_first_is_seen_on_its_way() -> None:
    proposer = MotionProposer(WIDTH, HEIGHT)
    for _ in range(20):
        proposer.update(seen(with_square(grass(), 400, 200, 90, 40)))
    for _ in range(200):
        proposer.update(seen(grass()))
    for x in range(100, 300, 40):
        regions = proposer.update(seen(with_square(grass(), x, 200, 90, 40)))
        assert best_iou(regions, (x, 200, x + 90, 290)) >= 0.5, x


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_boxes_are_in_the_frame_as_displayed(rotation: int, mirrored: bool) -> None:
    displayed = (HEIGHT, WIDTH) if rotation in (90, 270) else (WIDTH, HEIGHT)
    upright = background(*displayed)

    def stored(shown: np.ndarray) -> np.ndarray:
        return np.rot90(shown[:, :: -1 if mirrored else 1], rotation // 90)

    proposer = warmed_up(MotionProposer(*displayed, rotation, mirrored), stored(upright))
    regions = proposer.update(seen(stored(with_square(upright, 320, 90, 110))))
    assert best_iou(regions, (320, 90, 430, 200)) >= 0.5


def test_stronger_contrast_scores_higher() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), np.full((HEIGHT, WIDTH), 100, np.float32))
    picture = with_square(np.full((HEIGHT, WIDTH), 100, np.float32), 100, 100, 80, gray=120)
    regions = proposer.update(seen(with_square(picture, 600, 300, 80, gray=250)))
    assert len(regions) == 2
    assert regions.scores[0] > regions.scores[1]
    assert regions.boxes_xyxy[0, 0] > 500  # best first


def test_another_picture_size_starts_over() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    small = cv2.resize(background(), (320, 240))
    assert len(proposer.update(seen(small))) == 0


def test_reset_forgets_the_background() -> None:
    proposer = warmed_up(MotionProposer(WIDTH, HEIGHT), background())
    proposer.reset()
    assert len(proposer.update(seen(with_square(background(), 100, 100, 80)))) == 0


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="rotation"):
        MotionProposer(10, 10, 45)
    with pytest.raises(UsageError, match="warm_up"):
        MotionProposer(10, 10, warm_up=0)
