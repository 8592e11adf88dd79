"""The colour baseline: hand-computable vectors, and the registry that serves it."""

from __future__ import annotations

import numpy as np
import pytest

from panorama.errors import ModelError
from panorama.models.color import BINS, COLOR_DIM, ColorEmbedder, color_bands, pixel_bins
from panorama.models.registry import embedder_names, load_embedder


def plain(red: int, green: int, blue: int, height: int = 20, width: int = 30) -> np.ndarray:
    return np.full((height, width, 3), (red, green, blue), np.uint8)


def test_pure_red_fills_hue_0_tone_2_of_every_band() -> None:
    vector = ColorEmbedder().embed([plain(255, 0, 0)])[0]
    assert np.flatnonzero(vector).tolist() == [2, BINS + 2, 2 * BINS + 2, 3 * BINS + 2]
    np.testing.assert_allclose(vector[vector > 0], 0.5, atol=1e-6)


def test_mid_grey_is_shared_by_the_two_nearest_greys() -> None:
    bins = pixel_bins(np.array([[0.5, 0.5, 0.5]]))[0]
    assert np.flatnonzero(bins).tolist() == [26, 27]
    np.testing.assert_allclose(bins[[26, 27]], 0.5, atol=1e-6)


def test_every_pixel_spreads_a_weight_of_one() -> None:
    colors = np.random.default_rng(0).random((500, 3))
    np.testing.assert_allclose(pixel_bins(colors).sum(axis=1), 1, atol=1e-5)


def test_hue_wraps_around_red() -> None:
    a, b, cyan = pixel_bins(np.array([[1.0, 0.0, 0.05], [1.0, 0.05, 0.0], [0.0, 1.0, 1.0]]))
    assert a @ b > 0.5
    assert a @ cyan == 0


def test_red_and_blue_share_nothing_and_a_half_red_picture_shares_half() -> None:
    red, blue = plain(255, 0, 0), plain(0, 0, 255)
    red_over_blue = np.concatenate([red, blue])
    vectors = color_bands([red, blue, red_over_blue])
    assert vectors[0] @ vectors[1] == 0
    assert vectors[0] @ vectors[2] == pytest.approx(0.5, abs=0.02)


def test_a_picture_and_its_upside_down_differ() -> None:
    over = np.concatenate([plain(255, 0, 0), plain(0, 0, 255)])
    vectors = color_bands([over, over[::-1]])
    assert vectors[0] @ vectors[1] < 0.1


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (3, 2), (500, 7)])
def test_any_size_gives_a_unit_vector(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)
    vectors = ColorEmbedder().embed_all([picture])
    assert vectors.shape == (1, 1, COLOR_DIM)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors[0, 0]) == pytest.approx(1, abs=1e-5)


def test_no_pictures_give_no_vectors() -> None:
    embedder = ColorEmbedder()
    assert embedder.embed_all([]).shape == (1, 0, COLOR_DIM)
    assert embedder.embed([]).shape == (0, COLOR_DIM)


def test_an_exit_that_is_not_there_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="exits 1 to 1, got 2"):
        ColorEmbedder().embed([plain(1, 2, 3)], exit=2)


def test_the_cohort_is_the_same_every_time_and_diverse() -> None:
    first, second = ColorEmbedder().cohort(), ColorEmbedder().cohort()
    np.testing.assert_array_equal(first, second)
    similarities = first[0] @ first[0].T
    assert similarities[~np.eye(len(similarities), dtype=bool)].mean() < 0.5


def test_the_registry_knows_the_baseline_and_refuses_near_names_with_a_hint() -> None:
    assert "color-bands" in embedder_names()
    assert load_embedder("color-bands").hash == ColorEmbedder().hash
    with pytest.raises(ModelError, match="panoramanet"):
        load_embedder("panoramnet")
