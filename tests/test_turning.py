"""Maps under which things differ less from themselves, the share of them, and the model that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from panorama.content import content_dir
from panorama.errors import ModelError, UsageError
from panorama.models import cores
from panorama.models.embedder import PanoramaNet
from panorama.models.late import cohorts_of
from panorama.models.ranges import read_ranges
from panorama.models.retrieval import Answers
from panorama.models.training import adapt as adapt_module
from panorama.models.training.adapt import adapt, check_plan, together, turned_vectors, write_turned
from panorama.models.training.turning import (
    SURE,
    SURE_OF_FEW,
    Held,
    Seen,
    at_share,
    choose_share,
    own_parts,
    quieting_maps,
    summed,
    turned,
    unit,
)
from panorama.models.weights import WEIGHTS, ModelFolder, open_model, read_recipe, record_hashes
from panorama.own_training import recipe_text
from panorama.training import TrainingOptions, train_recipe

SHARES = (0.25, 0.5, 0.75, 1.0)


def near_exits(seed: int, count: int = 5, dim: int = 16) -> np.ndarray:
    """Own vectors (3, count, dim) of exits that agree more or less, as trained ones do."""
    rng = np.random.default_rng(seed)
    return unit(rng.normal(size=(1, count, dim)) + 0.2 * rng.normal(size=(3, count, dim)))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_the_exits_own_vectors_are_recovered_from_their_sums(seed: int) -> None:
    own = near_exits(seed)
    np.testing.assert_allclose(own_parts(3.0 * summed(own)), own, atol=1e-6)


def noisy_things(seed: int, things: int, noise: float = 3.0, dim: int = 8, each: int = 6) -> Seen:
    """Things that differ from themselves along the first two axes, from others along the rest."""
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(things, 1, dim)) * np.r_[0, 0, np.ones(dim - 2)]
    views = rng.normal(size=(things, each, dim)) * np.r_[noise, noise, 0.2 * np.ones(dim - 2)]
    own = unit((middle + views).reshape(1, -1, dim))
    return Seen(
        own, np.zeros((1, things * each, 1), np.float32), [str(i) for i in range(things) for _ in range(each)]
    )


def test_directions_in_which_things_differ_from_themselves_are_made_to_count_for_less() -> None:
    learned = noisy_things(0, 20)
    (found,) = quieting_maps(learned.own, learned.labels, 0.1)
    assert np.diag(found)[:2].max() < 0.6 < 1.0 < np.diag(found)[2:].min()
    assert np.trace(found) == pytest.approx(8)
    unseen = Held(noisy_things(1, 20))
    assert unseen.answers(1, found[None]).precisions.mean() > unseen.answers(1).precisions.mean() + 0.1


def test_things_with_one_picture_teach_nothing() -> None:
    learned = noisy_things(0, 6)
    alone = unit(np.random.default_rng(5).normal(size=(1, 4, 8)))
    both = quieting_maps(
        np.concatenate([learned.own, alone], axis=1), [*learned.labels, "w", "x", "y", "z"], 1.0
    )
    np.testing.assert_allclose(both, quieting_maps(learned.own, learned.labels, 1.0))


def test_the_share_is_all_where_it_helps_and_none_where_nothing_is_gained() -> None:
    learned = noisy_things(0, 20)
    maps = quieting_maps(learned.own, learned.labels, 0.1)
    helped = choose_share(Held(noisy_things(2, 12)), maps, SHARES)
    assert helped.share == 1.0 and helped.tried[-1]["gain"] > helped.tried[-1]["error"] > 0
    assert choose_share(Held(noisy_things(2, 12, noise=0.0)), maps, SHARES).share == 0.0


def test_maps_that_harm_get_no_share() -> None:
    # Learned where the other axes are the ones that vary: what tells these things apart is made quiet.
    rng = np.random.default_rng(3)
    wrong = unit(rng.normal(size=(1, 40, 8)) * np.r_[0.1, 0.1, np.ones(6)])
    maps = quieting_maps(wrong, [str(i % 2) for i in range(40)], 0.1)
    chosen = choose_share(Held(noisy_things(4, 12)), maps, SHARES)
    assert chosen.share == 0.0 and chosen.tried[-1]["gain"] < 0


def test_answers_count_only_what_takes_part_and_strangers_are_wrong() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.2], [0, 1]], np.float32)
    labels = ["a", "b", "a", "b"]
    assert Answers.of(vectors, labels).precisions[0] == 0.5  # b is nearer than the other a
    counts = np.ones((4, 4), bool)
    counts[0, 1] = False
    assert Answers.of(vectors, labels, counts).precisions[0] == 1.0
    strangers = np.array([[1, 0], [0, -1]], np.float32)
    assert Answers.of(vectors, labels, counts, strangers).precisions[0] == 0.5


def row(label: str, moment: str = "", clip: str = "", start: float = 0, end: float = 0) -> dict[str, str]:
    times = {"start": str(start), "end": str(end)} if clip else {"start": "", "end": ""}
    return {"class": label, "moment": moment, "clip": clip, **times}


def test_tracks_meet_their_own_pictures_and_what_was_beside_them() -> None:
    rows = [
        row("one", "one", "c", 0, 5), row("one", "one", "c", 0, 5), row("beside", "beside", "c", 4, 9),
        row("after", "after", "c", 5, 9), row("elsewhere", "elsewhere", "d", 0, 5),
    ]  # fmt: skip
    assert together(rows)[0].tolist() == [True, True, True, False, False]


def test_known_things_meet_all_but_their_own_moment() -> None:
    rows = [row("a", "m1"), row("a", "m1"), row("a", "m2"), row("b"), row("b")]
    assert together(rows)[0].tolist() == [False, False, True, True, True]
    assert together(rows)[3].tolist() == [True, True, True, False, True]


@pytest.fixture(scope="module")
def start() -> ModelFolder:
    return open_model("panoramanet", "embedder")


@pytest.fixture
def written(start: ModelFolder, tmp_path: Path) -> tuple[Path, np.ndarray]:
    rng = np.random.default_rng(0)
    dim = int(start.recipe["network"]["learned_dim"])
    maps = at_share(np.stack([np.diag(rng.uniform(0.6, 1.4, dim)) for _ in range(3)]), 0.5)
    (tmp_path / "mine").mkdir()
    recipe = tmp_path / "mine" / "fine-tune.toml"
    recipe.write_text(recipe_text("mine", "panoramanet"))
    write_turned(start, tmp_path / "mine", recipe, maps)
    return tmp_path / "mine", maps


def test_the_written_model_gives_the_turned_vectors(
    start: ModelFolder, written: tuple[Path, np.ndarray]
) -> None:
    folder, maps = written
    pictures = [np.random.default_rng(i).integers(0, 256, (40, 50, 3)).astype(np.uint8) for i in range(6)]
    old = PanoramaNet(start, precision="float32").embed_all(pictures)
    new = PanoramaNet(open_model(str(folder), "embedder"), precision="float32")
    np.testing.assert_allclose(new.embed_all(pictures), turned_vectors(old, maps), atol=3e-3)
    assert np.abs(new.embed_all(pictures) - old).max() > 0.01
    moved = turned_vectors(np.asarray(PanoramaNet(start, precision="float32").cohort()), maps)
    np.testing.assert_allclose(new.cohort(), moved, atol=2e-3)
    before, after = cohorts_of(start)[-1], new.cohorts()[-1]
    grey = turned_vectors(np.stack([cohort.grey for cohort in cohorts_of(start)]), maps)[-1]
    np.testing.assert_allclose(after.grey, grey, atol=2e-3)
    assert np.array_equal(after.hues, before.hues), "colours stay"


def test_the_written_model_runs_in_8_bits_as_the_one_that_it_was_made_from(
    start: ModelFolder, written: tuple[Path, np.ndarray]
) -> None:
    assert read_ranges(open_model(str(written[0]), "embedder")) == read_ranges(start)


def test_a_model_that_is_centred_after_its_last_map_is_refused(tmp_path: Path) -> None:
    shipped = content_dir("embeddings") / "panoramanet"
    tensors = open_model("panoramanet", "embedder").tensors()
    tensors["heads.1.center"] = torch.full_like(tensors["heads.1.project.bias"], 0.1)
    save_file(tensors, tmp_path / WEIGHTS)
    (tmp_path / "recipe.toml").write_text((shipped / "recipe.toml").read_text())

    record_hashes(tmp_path)
    with pytest.raises(ModelError, match="exit 2 is centred"):
        write_turned(
            open_model(str(tmp_path), "embedder"),
            tmp_path / "out",
            tmp_path / "recipe.toml",
            np.zeros((3, 192, 192)),
        )


def test_no_maps_change_nothing() -> None:
    own = near_exits(1)
    np.testing.assert_allclose(turned(own, at_share(np.zeros((3, 16, 16)), 0.0)), own, atol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("shrinkage = 1.0", "shrinkage = 0.0", "above 0"),
        ("shares = [0.25", "shares = [1.25", r"\(0, 1\]"),
        ("shares =", "share =", "needs"),
    ],
)
def test_a_malformed_recipe_says_what_it_needs(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fine-tune.toml"
    path.write_text(recipe_text("mine", "panoramanet").replace(old, new))
    with pytest.raises(ModelError, match=said):
        check_plan(read_recipe(path), path)


def test_a_table_that_is_missing_or_lacks_a_part_is_told(tmp_path: Path) -> None:
    recipe = tmp_path / "fine-tune.toml"
    recipe.write_text(recipe_text("mine", "panoramanet"))
    with pytest.raises(UsageError, match="name it: --data"):
        adapt(recipe, {}, tmp_path / "out")
    with pytest.raises(UsageError, match=r"needs .*pictures\.csv, which is not there"):
        adapt(recipe, {"own": tmp_path}, tmp_path / "out")
    (tmp_path / "pictures.csv").write_text("file,source,class,identity,held\n")
    with pytest.raises(UsageError, match="no picture with held = 0"):
        adapt(recipe, {"own": tmp_path}, tmp_path / "out")


def test_pictures_are_embedded_with_the_threads_that_are_asked_for_and_then_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Networks in 8 bits took all cores, whatever `--threads` said."""
    recipe = tmp_path / "fine-tune.toml"
    recipe.write_text(recipe_text("mine", "panoramanet"))
    seen: list[int] = []

    def read(*_: object) -> None:
        seen.append(cores.get_num_threads())
        raise UsageError("seen")

    monkeypatch.setattr(adapt_module, "read_parts", read)
    before = cores.get_num_threads()
    with pytest.raises(UsageError, match="seen"):
        train_recipe(recipe, {"own": tmp_path}, tmp_path / "out", TrainingOptions(threads=before + 3))
    assert seen == [before + 3] and cores.get_num_threads() == before


def test_two_things_have_to_agree_more_than_many() -> None:
    """Of so few the error itself is a guess: chance alone exceeds two of them in one case of seven."""
    learned = noisy_things(0, 20)
    maps = quieting_maps(learned.own, learned.labels, 0.1)
    between = 0
    for seed in range(12):
        chosen = choose_share(Held(noisy_things(seed, 2, each=3)), maps, SHARES)
        best = max(chosen.tried, key=lambda row: row["gain"])
        if SURE * best["error"] < best["gain"] < SURE_OF_FEW[2] * best["error"]:
            assert chosen.share == 0.0
            between += 1
    assert between
