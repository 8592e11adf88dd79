"""What is grey is compared with grey strangers: there all things look more alike than in colour."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from panorama.content import content_dir
from panorama.models.base import Cohort, Image
from panorama.models.embedder import PanoramaNet
from panorama.models.late import cohorts_of
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.cohort import in_grey, write_cohort
from panorama.models.weights import COHORT, RECIPE, open_model, record_hashes
from panorama.query.matching.decide import cohort_level, levels_together

HUES = np.array([[0, 0], [0, 0], [1, 0], [0, 1]], np.float32)
ONE = Cohort(np.eye(4, dtype=np.float32)[:1], np.array([[0, 1, 0, 0]], np.float32), HUES)


def unit(*values: float) -> np.ndarray:
    vector = np.array([values], np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture(scope="module")
def net() -> PanoramaNet:
    return PanoramaNet(open_model("panoramanet", "embedder"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped model."""
    copy = tmp_path / DEFAULT_EMBEDDER
    shutil.copytree(content_dir("embeddings") / DEFAULT_EMBEDDER, copy)
    return copy


def drawn(count: int) -> list[Image]:
    """Pictures of large patches in strong colours."""
    rng = np.random.default_rng(3)
    return [
        np.kron(rng.integers(0, 256, (4, 4, 3)), np.ones((16, 16, 1))).astype(np.uint8) for _ in range(count)
    ]


def test_grey_strangers_count_for_what_is_grey_alone() -> None:
    grey, coloured = unit(0.6, 0.8, 0.05, 0), unit(0.6, 0.8, 0.5, 0)
    both = np.concatenate([grey, coloured])
    assert ONE.is_grey(both).tolist() == [True, False]
    assert ONE.similarity(coloured).shape == (1, 1)
    assert ONE.similarity(both)[:, 1] == pytest.approx([float(grey[0, 1]), -1])
    assert cohort_level(grey, ONE) > cohort_level(grey, Cohort.plain(ONE.vectors))
    assert cohort_level(coloured, ONE) == cohort_level(coloured, Cohort.plain(ONE.vectors))
    assert (len(ONE.beside(grey)), len(ONE.beside(both)), len(ONE.beside(both[:0]))) == (2, 1, 1)


def test_without_grey_strangers_nothing_is_grey() -> None:
    plain = Cohort.plain(ONE.vectors)
    assert not plain.is_grey(unit(1, 0, 0, 0)).any()
    assert len(plain) == 1 and plain.similarity(unit(1, 0, 0, 0)).shape == (1, 1)


def test_pictures_without_colours_are_grey_and_others_are_not(net: PanoramaNet) -> None:
    pictures = drawn(40)
    faint = [np.uint8(0.9 * in_grey(one) + 0.1 * one) for one in pictures]
    for exit, cohort in enumerate(net.cohorts(), start=1):
        assert len(cohort.grey) == len(cohort) > 256
        assert cohort.is_grey(net.embed([in_grey(one) for one in pictures], exit)).all()
        assert not cohort.is_grey(net.embed([*pictures, *faint], exit)).any()


def test_grey_things_are_held_to_be_more_alike_and_coloured_ones_as_before(net: PanoramaNet) -> None:
    pictures, cohort = drawn(40), net.cohorts()[-1]
    before = Cohort.plain(cohort.vectors)
    coloured, grey = net.embed(pictures), net.embed([in_grey(one) for one in pictures])
    for level in (cohort_level, levels_together):
        assert np.array_equal(level(coloured, cohort), level(coloured, before))
        assert (level(grey, cohort) - level(grey, before)).mean() > 0.05


def test_a_model_without_colours_has_no_grey_strangers(folder: Path) -> None:
    recipe = folder / RECIPE
    assert "color_weight = 0.15" in recipe.read_text()
    recipe.write_text(recipe.read_text().replace("color_weight = 0.15", "color_weight = 0.0"))
    write_cohort(folder, drawn(4))
    blind = PanoramaNet(open_model(str(folder), "embedder"), precision="float32")
    cohort = blind.cohorts()[-1]
    assert (len(cohort), len(cohort.grey)) == (4, 0)
    assert not cohort.is_grey(blind.embed([in_grey(one) for one in drawn(3)])).any()


def test_a_cohort_of_an_earlier_version_has_no_grey_strangers(folder: Path, net: PanoramaNet) -> None:
    parts = load_file(folder / COHORT)
    save_file({"vectors": parts["vectors"]}, folder / COHORT)
    record_hashes(folder)
    earlier = PanoramaNet(open_model(str(folder), "embedder"))
    assert [len(cohort.grey) for cohort in cohorts_of(open_model(str(folder), "embedder"))] == [0, 0, 0]
    assert np.array_equal(earlier.cohort(), net.cohort())
    assert earlier.cohort_digest != net.cohort_digest
