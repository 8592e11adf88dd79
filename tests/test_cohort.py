"""The strangers of a model: pictures of things, unclear parts of them, and marks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fakes import shapes_on_noise
from numpy.typing import NDArray

from panorama.models.base import Cohort
from panorama.models.embedder import PanoramaNet
from panorama.models.training import sources
from panorama.models.training.cohort import (
    COHORT_SIZE,
    PART_SIDE,
    cohort_items,
    cohort_pictures,
    unclear_part,
)
from panorama.models.training.marks import LEAST_SIDE, SEEN_SIDE, mark
from panorama.models.training.sources import Item
from panorama.models.weights import open_model
from panorama.query.matching.decide import cohort_level

PARTS = slice(COHORT_SIZE, COHORT_SIZE * 3 // 2)
MARKS = slice(COHORT_SIZE * 3 // 2, COHORT_SIZE * 2)
"""Where these strangers are in the shipped cohort."""


def drawn(count: int, size: tuple[int, int] = (160, 200)) -> list[NDArray[np.uint8]]:
    return [shapes_on_noise(seed, *size)[0] for seed in range(count)]


def test_half_as_many_unclear_parts_and_as_many_marks_stand_behind_the_pictures() -> None:
    pictures = drawn(6)
    items = [Item("drawn", "", str(number), pixels=picture) for number, picture in enumerate(pictures)]
    found = cohort_pictures(items)
    assert len(found) == 12
    assert all(any(np.array_equal(one, picture) for picture in pictures) for one in found[:6])
    assert all(part.shape == (PART_SIDE, PART_SIDE, 3) and part.dtype == np.uint8 for part in found[6:9])
    assert all(max(drawing.shape[:2]) == SEEN_SIDE and drawing.dtype == np.uint8 for drawing in found[9:])
    again = cohort_pictures(items)
    assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))
    assert cohort_pictures([]) == []


def eagerly(items: list[Item], transparent: set[Path], size: int, seed: int) -> list[Item]:
    """The choice as it was made when every picture was read."""
    queues: dict[str, list[Item]] = {}
    seen: set[str] = set()
    for i in np.random.default_rng(seed).permutation(len(items)):
        item = items[i]
        identity = item.label or f"{item.source}#{item.instance}"
        if identity not in seen and item.path not in transparent:
            seen.add(identity)
            queues.setdefault(item.source, []).append(item)
    chosen: list[Item] = []
    while len(chosen) < size and any(queues.values()):
        chosen.extend(queue.pop() for queue in queues.values() if queue)
    return chosen[:size]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The pictures that were read; those whose names begin with t are transparent."""
    paths: list[Path] = []

    def picture(path: Path) -> NDArray[np.uint8]:
        paths.append(path)
        return np.zeros((8, 8, 4 if path.name.startswith("t") else 3), np.uint8)

    monkeypatch.setattr(sources, "read_picture", picture)
    return paths


def test_the_choice_is_the_same_as_if_all_pictures_were_read(read: list[Path]) -> None:
    rng = np.random.default_rng(3)
    for seed in range(60):
        items = []
        for number in range(int(rng.integers(60))):
            source = f"s{rng.integers(4)}"
            named = rng.random() < 0.6  # some names are of several sources
            label = f"{source if rng.random() < 0.9 else 'any'}/{rng.integers(5)}" if named else ""
            path = Path(f"{'t' if rng.random() < 0.5 else 'o'}{rng.integers(40)}")
            if rng.random() < 0.1:
                items.append(Item(source, label, str(number), pixels=np.zeros((8, 8, 4), np.uint8)))
            else:
                items.append(Item(source, label, str(number), path))
        transparent = {item.path for item in items if item.path and item.path.name.startswith("t")}
        for size in (0, 1, 3, 10, 100):
            expected = eagerly(items, transparent, size, seed)
            assert [id(item) for item in cohort_items(items, size, seed)] == [id(item) for item in expected]


def test_of_many_pictures_only_a_few_are_read_to_choose_a_few(read: list[Path]) -> None:
    """Thousands were, to choose eight of them."""
    items = [Item("s", "", str(number), Path(f"{number}.jpg")) for number in range(3000)]
    assert len(cohort_items(items * 2, size=8)) == 8
    assert len(read) <= 9


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (40, 40)])
def test_a_part_is_cut_from_pictures_of_any_size(size: tuple[int, int]) -> None:
    picture = np.full((*size, 3), 200, np.uint8)
    for seed in range(20):
        part = unclear_part(picture, np.random.default_rng(seed))
        assert part.shape == (PART_SIDE, PART_SIDE, 3)
        assert np.ptp(part) <= 1  # of one colour before, of one colour after


def test_the_parts_tell_that_unclear_views_are_alike_and_nothing_of_clear_ones() -> None:
    net = PanoramaNet(open_model("panoramanet", "embedder"))
    net.cohort()[-1]
    rng, pictures = np.random.default_rng(7), drawn(60)
    assert raised(net, [unclear_part(picture, rng) for picture in pictures], PARTS) > 0.1
    assert raised(net, pictures, PARTS) < 0.02


def test_the_marks_tell_that_prints_are_alike_and_little_of_unclear_views() -> None:
    """Of 74 things in public clips, words and markers passed for others of their kind."""
    net = PanoramaNet(open_model("panoramanet", "embedder"))
    assert len(net.cohort()[-1]) == MARKS.stop
    rng = np.random.default_rng(7)
    prints = raised(net, [mark(rng) for _ in range(60)], MARKS)
    assert prints > 0.2
    assert raised(net, [unclear_part(picture, rng) for picture in drawn(60)], MARKS) < prints / 2


def raised(net: PanoramaNet, views: list[NDArray[np.uint8]], strangers: slice) -> float:
    """By how much more the views are held to be alike, if these strangers stand beside the things."""
    vectors, cohort = net.embed(views), net.cohort()[-1]
    things = cohort[:COHORT_SIZE]
    beside = np.concatenate([things, cohort[strangers]])
    return float(
        (cohort_level(vectors, Cohort.plain(beside)) - cohort_level(vectors, Cohort.plain(things))).mean()
    )


def test_marks_are_of_one_size_and_differ() -> None:
    rng = np.random.default_rng(3)
    marks = [mark(rng) for _ in range(200)]
    for one in marks:
        assert one.dtype == np.uint8 and one.shape[2] == 3
        assert min(one.shape[:2]) >= LEAST_SIDE and max(one.shape[:2]) == SEEN_SIDE
    assert len({one.tobytes() for one in marks}) == 200
    assert np.mean([np.ptp(one) > 30 for one in marks]) > 0.9  # ink can be told from paper
