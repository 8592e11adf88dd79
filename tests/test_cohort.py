"""The strangers of a model: pictures of things, and unclear parts of them."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import shapes_on_noise
from numpy.typing import NDArray

from panorama.models.embedder import PanoramaNet
from panorama.models.training.cohort import COHORT_SIZE, PART_SIDE, cohort_pictures, unclear_part
from panorama.models.training.sources import Item
from panorama.models.weights import open_model
from panorama.query.matching.decide import cohort_level


def drawn(count: int, size: tuple[int, int] = (160, 200)) -> list[NDArray[np.uint8]]:
    return [shapes_on_noise(seed, *size)[0] for seed in range(count)]


def test_half_as_many_unclear_parts_stand_behind_the_pictures() -> None:
    pictures = drawn(6)
    items = [Item("drawn", "", str(number), pixels=picture) for number, picture in enumerate(pictures)]
    found = cohort_pictures(items)
    assert len(found) == 9
    assert all(any(np.array_equal(one, picture) for picture in pictures) for one in found[:6])
    assert all(part.shape == (PART_SIDE, PART_SIDE, 3) and part.dtype == np.uint8 for part in found[6:])
    again = cohort_pictures(items)
    assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))
    assert cohort_pictures([]) == []


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (40, 40)])
def test_a_part_is_cut_from_pictures_of_any_size(size: tuple[int, int]) -> None:
    picture = np.full((*size, 3), 200, np.uint8)
    for seed in range(20):
        part = unclear_part(picture, np.random.default_rng(seed))
        assert part.shape == (PART_SIDE, PART_SIDE, 3)
        assert np.ptp(part) <= 1  # of one colour before, of one colour after


def test_the_parts_tell_that_unclear_views_are_alike_and_nothing_of_clear_ones() -> None:
    net = PanoramaNet(open_model("panoramanet", "embedder"))
    cohort = net.cohort()[-1]
    assert len(cohort) == COHORT_SIZE * 3 // 2
    rng, pictures = np.random.default_rng(7), drawn(60)

    def raised(views: list[NDArray[np.uint8]]) -> float:
        """By how much more they are held to be alike for the parts."""
        vectors = net.embed(views)
        return float((cohort_level(vectors, cohort) - cohort_level(vectors, cohort[:COHORT_SIZE])).mean())

    assert raised([unclear_part(picture, rng) for picture in pictures]) > 0.1
    assert raised(pictures) < 0.02
