"""Examples embedded in several ways: what the mean of them is."""

from __future__ import annotations

import numpy as np
import pytest

from panorama.examples import VIEWS, embed_examples
from panorama.models.base import Embedder

RED, BLUE = (255, 0, 0), (0, 0, 255)


class MeanColor(Embedder):
    """A red picture has the vector 1, 0, 0."""

    name, hash, dim, exits, macs = "mean-color", "mean-color", 3, 1, (1,)

    def embed_all(self, images):
        means = np.array([image.reshape(-1, 3).mean(axis=0) for image in images], np.float32).reshape(-1, 3)
        return (means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9))[None]


def plain(color: tuple[int, int, int]) -> np.ndarray:
    return np.tile(np.array(color, np.uint8), (40, 30, 1))


def test_a_picture_of_one_colour_has_the_vector_of_that_colour() -> None:
    vectors = embed_examples([plain(RED), plain(BLUE)], MeanColor())
    assert vectors[0] == pytest.approx(np.array([[1, 0, 0], [0, 0, 1]]), abs=1e-6)


def test_a_picture_and_its_mirror_image_are_one_example() -> None:
    half = np.concatenate([plain(RED), plain(BLUE)], axis=1)
    one, other = embed_examples([half, half[:, ::-1]], MeanColor())[0]
    assert one == pytest.approx(other, abs=1e-6)


def test_what_lies_in_the_middle_counts_more_than_the_edge() -> None:
    framed = plain(RED)
    framed[:2], framed[-2:], framed[:, :2], framed[:, -2:] = BLUE, BLUE, BLUE, BLUE
    alone = MeanColor().embed([framed])[0]
    assert embed_examples([framed], MeanColor())[0, 0, 0] > alone[0]


def test_every_view_is_a_picture_even_of_the_smallest() -> None:
    for view in VIEWS.values():
        assert min(view(np.zeros((1, 1, 3), np.uint8)).shape[:2]) >= 1


def test_no_example_has_no_vector() -> None:
    assert embed_examples([], MeanColor()).shape == (MeanColor().exits, 0, MeanColor().dim)
