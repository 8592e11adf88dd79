"""Training: the views it learns from, resuming, and a model that comes out whole."""

from __future__ import annotations

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from panorama.errors import ModelError, UsageError
from panorama.models.embedder import PanoramaNet
from panorama.models.interrupts import CHECKPOINT
from panorama.models.registry import load_embedder
from panorama.models.training.__main__ import main, parse_data
from panorama.models.training.bank import BankPlan, Basis, build_bank, read_shards, shard_rows
from panorama.models.training.loop import LOG, Lessons, Run, Settings, run_training, to_input
from panorama.models.training.losses import LossWeights, identity, imitation, relation
from panorama.models.training.optimise import orthogonal, rate_at
from panorama.models.training.plot import plot_log, plot_shares, read_log
from panorama.models.training.sources import Item
from panorama.models.training.teacher import grid_weights
from panorama.models.training.train import train
from panorama.models.training.views import degrade, make_view, on_background
from panorama.models.weights import open_model
from panorama.training import TrainingOptions, train_recipe

MEAN, STD = torch.tensor([0.5, 0.5, 0.5]), torch.tensor([0.25, 0.25, 0.25])


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


class MeanColorTeacher:
    """Eight numbers that a person can compute: mean colour of the picture, of its left and of its top."""

    dim = 8

    def features(self, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = picture.astype(np.float32) / 255
        half = picture.shape[0] // 2
        parts = [x.mean((0, 1)), x[:, :half].mean((0, 1)), x[:half].mean((0, 1))[:2]]
        cells = cv2.resize(x, (4, 4), interpolation=cv2.INTER_AREA)
        return np.concatenate(parts), np.tile(cells, (1, 1, 3))[..., :8]


def solid(seed: int) -> np.ndarray:
    return cv2.resize(np.random.default_rng(seed).integers(0, 256, (3, 3, 3)).astype(np.uint8), (40, 30))


def items(count: int = 24) -> list[Item]:
    return [Item("test", f"test/{i % 4}", f"{i}", pixels=solid(i % 4 + 10 * (i // 12))) for i in range(count)]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bank")
    build_bank(items(), MeanColorTeacher, folder, BankPlan(side=64, rounds=2, shard=20, axes=6), threads=1)
    return folder


def write_labelled(folder: Path, classes: list[str], each: int = 5) -> None:
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as lines:
        table = csv.writer(lines)
        table.writerow(["file", "source", "class", "identity"])
        for name in classes:
            for i in range(each):
                cv2.imwrite(str(folder / f"{name}-{i}.jpg"), solid(hash_of(name)) // 2 + 9 * i)
                table.writerow([f"{name}-{i}.jpg", "zoo", name, "class"])


def hash_of(name: str) -> int:
    return sum(map(ord, name))


def quick(**changes: object) -> Settings:
    values = {"steps": 6, "batch": 8, "warmup": 1, "decay": 2, "sides": [(0, 32)], "checkpoint_minutes": 99.0}
    return Settings.of({**values, **changes})


# ---- views and the bank


def test_a_view_is_the_same_for_the_same_seed_and_differs_for_another() -> None:
    def view(seed: int) -> np.ndarray:
        return make_view(solid(1), [solid(2)], np.random.default_rng(seed), 32)[1]

    np.testing.assert_array_equal(view(5), view(5))
    assert (view(5) != view(6)).any()


def test_degrading_keeps_hue() -> None:
    red = np.full((32, 32, 3), (200, 20, 20), np.uint8)
    for seed in range(30):
        mean = degrade(red, np.random.default_rng(seed)).mean((0, 1))
        assert mean[0] > 1.5 * mean[1]
        assert mean[0] > 1.5 * mean[2]


def test_a_transparent_logo_shows_its_background_only_where_it_is_transparent() -> None:
    sprite = np.zeros((20, 20, 4), np.uint8)
    sprite[5:15, 5:15] = (255, 0, 0, 255)
    white = np.full((50, 50, 3), 255, np.uint8)
    rng = np.random.default_rng(1)
    composed = on_background(sprite, white, rng)
    assert composed.shape[2] == 3
    red = (composed == (255, 0, 0)).all(axis=2)
    assert red.sum() == 100


def test_every_round_views_every_picture_once(bank: Path) -> None:
    shards = read_shards(bank)
    rows = np.concatenate([s.rows for s in shards])
    assert [len(s.rows) for s in shards] == [20, 20, 8]
    assert np.bincount(rows[:24]).tolist() == [1] * 24
    assert np.bincount(rows).tolist() == [2] * 24


def test_an_interrupted_bank_goes_on_and_ends_the_same(bank: Path, tmp_path: Path) -> None:
    plan = BankPlan(side=64, rounds=2, shard=20, axes=6)
    build_bank(items(), MeanColorTeacher, tmp_path, plan, threads=1)
    middle = tmp_path / "shard-00001"
    for file in middle.iterdir():
        file.unlink()
    middle.rmdir()
    build_bank(items(), MeanColorTeacher, tmp_path, plan, threads=1)
    for mine, whole in zip(read_shards(tmp_path), read_shards(bank), strict=True):
        np.testing.assert_array_equal(mine.views, whole.views)
        np.testing.assert_array_equal(mine.pooled, whole.pooled)


def test_a_bank_of_other_pictures_is_refused(bank: Path) -> None:
    with pytest.raises(UsageError, match="other pictures"):
        build_bank(items(5), MeanColorTeacher, bank, BankPlan(side=64, rounds=1), threads=1)


def test_shards_cover_all_views_without_overlap() -> None:
    plan = BankPlan(rounds=3, shard=7)
    pairs = [pair for number in range(5) for pair in shard_rows(number, 10, plan)]
    assert len(pairs) == len(set(pairs)) == 30


def test_whitening_gives_equal_spread_without_shrinkage_and_the_plain_basis_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(0, 1, (400, 5)) * (10, 3, 1, 0.5, 0.1) + 4
    white = Basis.fit(features).whiten(features, 5, 0.0)
    np.testing.assert_allclose(white.std(axis=0), 1, atol=0.05)
    shrunk = Basis.fit(features).whiten(features, 5, 1.0).std(axis=0)
    assert shrunk[0] > 3 * shrunk[4]
    np.testing.assert_allclose(Basis.plain(5).whiten(features, 5, 0.0), features, rtol=1e-5)


def test_grid_weights_share_seven_cells_among_four_places() -> None:
    weights = grid_weights(7)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(weights[0], [4 / 7, 3 / 7, 0, 0, 0, 0, 0], atol=1e-6)


# ---- losses, rates, updates


def test_losses_are_lowest_for_the_right_answer() -> None:
    target = torch.nn.functional.normalize(
        torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), dim=1
    )
    assert float(imitation(target, target)) == pytest.approx(0, abs=1e-6)
    assert float(relation(target, target)) == pytest.approx(0, abs=1e-5)
    assert float(relation(target.flip(0), target)) > 0.01
    proxies, who = torch.eye(4), torch.arange(4)
    assert (
        float(identity(torch.eye(4), proxies, who, who))
        < 0.01
        < float(identity(torch.eye(4).flip(0), proxies, who, who))
    )


def test_orthogonal_brings_singular_values_together() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(16, 40), steps=6))
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.5


def test_the_rate_rises_stays_and_falls_and_its_plateau_does_not_depend_on_the_end() -> None:
    assert [rate_at(s, 100, 10, 20) for s in (0, 9, 50, 90, 100)] == [0.1, 1.0, 1.0, 0.5, 0.0]
    assert rate_at(50, 100, 10, 20) == rate_at(50, 1000, 10, 20)


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'learnign_rate'.*learning_rate"):
        Settings.of({"learnign_rate": 1})


def test_input_is_normalised_and_scaled_down() -> None:
    x = to_input(np.full((2, 64, 64, 3), 255, np.uint8), MEAN, STD, 32)
    assert x.shape == (2, 3, 32, 32)
    torch.testing.assert_close(x, torch.full_like(x, 2.0))


# ---- the loop


def test_training_lowers_the_loss_and_logs_it(bank: Path, tmp_path: Path) -> None:
    lessons = Lessons.read(bank, 6, 1.0)
    run = Run(lessons, 6, quick(steps=26, matrix_rate=0.005), "cpu")
    losses = [run.train_step(MEAN, STD)["loss"] for _ in range(25)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:3])
    assert run_training(run, tmp_path, MEAN, STD, lambda trunk: {"map_exit_1": 0.5})
    assert read_log(tmp_path / LOG)[-1] == {
        "step": 26,
        "seconds": pytest.approx(0, abs=60),
        "map_exit_1": 0.5,
    }


def test_a_resumed_run_ends_with_the_same_weights_as_one_that_was_not_stopped(
    bank: Path, tmp_path: Path
) -> None:
    lessons = Lessons.read(bank, 6, 1.0)
    whole = Run(lessons, 6, quick(), "cpu")
    assert run_training(whole, tmp_path, MEAN, STD, None)
    part = Run(lessons, 6, quick(), "cpu")
    for _ in range(3):
        part.train_step(MEAN, STD)
    part.save(tmp_path)
    again = Run(lessons, 6, quick(seed=0), "cpu")
    again.resume(tmp_path)
    assert again.step == 3
    run_training(again, tmp_path, MEAN, STD, None)
    for name, value in whole.average.state_dict().items():
        torch.testing.assert_close(again.average.state_dict()[name], value, atol=1e-4, rtol=1e-3)


def test_resuming_without_a_checkpoint_or_with_another_networks_is_refused(
    bank: Path, tmp_path: Path
) -> None:
    run = Run(Lessons.read(bank, 6, 1.0), 6, quick(), "cpu")
    with pytest.raises(ModelError, match="no checkpoint"):
        run.resume(tmp_path)
    run.save(tmp_path)
    with pytest.raises(ModelError, match="does not fit"):
        Run(Lessons.read(bank, 4, 1.0), 4, quick(), "cpu").resume(tmp_path)


def test_every_view_comes_once_in_an_epoch(bank: Path) -> None:
    lessons = Lessons.read(bank, 6, 1.0)
    epoch = np.concatenate([lessons.batch(step, 8, seed=0)[3] for step in range(6)])
    assert np.bincount(epoch).tolist() == [12, 12, 12, 12]


def test_the_plot_is_a_picture_and_a_cut_off_log_is_read_up_to_there(tmp_path: Path) -> None:
    log = tmp_path / LOG
    log.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0, "map_exit_1": 0.4}\n{"step": 3, "lo')
    assert len(read_log(log)) == 2
    plot_log(log, tmp_path / "plot.png")
    assert cv2.imread(str(tmp_path / "plot.png")).shape[2] == 3


def test_a_plot_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """On a full disk half a picture was left, and nothing said."""
    rows = [{"share": 0.5, "map_exit_1": 0.5, "r_at_1_exit_1": 0.5}]
    plot_shares(rows, tmp_path / "training.png")
    with pytest.raises(FileNotFoundError):
        plot_shares(rows, tmp_path / "none" / "training.png")


def test_loss_weights_come_from_the_recipe() -> None:
    assert Settings.of({"loss": {"identify": 0.0}}).loss == LossWeights(identify=0.0)


# ---- the whole way, for a user's own folders


FINE_TUNING = """
name = "mine"
kind = "embedder"

[preprocess]
side = 128
mean = [0.485, 0.456, 0.406]
std = [0.25, 0.25, 0.25]

[network]
learned_dim = 192
color_dim = 64
color_weight = 0.25

[start]
model = "panoramanet"

[teacher]
shrinkage = 0.0

[bank]
side = 128
rounds = 1
shard = 64
axes = 8
basis_pictures = 0

[training]
steps = 2
batch = 4
warmup = 1
decay = 1
learning_rate = 1e-5
matrix_rate = 1e-5
sides = [[0, 64]]
loss = { local = 0.0 }

[[source]]
name = "zoo"
kind = "labelled-csv"
data = "zoo"
csv = "labels.csv"
"""


def test_fine_tuning_on_a_folder_writes_a_model_that_loads_and_remembers(tmp_path: Path) -> None:
    zoo = tmp_path / "zoo"
    zoo.mkdir()
    write_labelled(zoo, [f"animal{i}" for i in range(10)], each=3)
    (tmp_path / "recipe.toml").write_text(FINE_TUNING)
    out = tmp_path / "out"
    result = train(
        tmp_path / "recipe.toml", {"zoo": zoo}, out, device="cpu", threads=1, say=lambda line: None
    )
    assert {"before_map_exit_3", "after_map_exit_3", "seconds", "steps"} <= set(result)
    mine = load_embedder(str(out))
    assert isinstance(mine, PanoramaNet)
    assert mine.name == "mine"
    assert mine.cohort().shape[0] == 3
    old = PanoramaNet(open_model("panoramanet", "embedder"))
    some = [solid(seed) for seed in range(6)]
    assert (mine.learned(some) * old.learned(some)).sum(axis=1).min() > 0.8
    assert (out / CHECKPOINT).is_file()
    more = train(
        tmp_path / "recipe.toml",
        {"zoo": zoo},
        out,
        device="cpu",
        threads=1,
        resume=True,
        steps=3,
        say=lambda line: None,
    )
    assert more["steps"] == 3


def test_who_interrupts_a_training_is_told_what_is_kept_and_how_to_go_on(tmp_path: Path, monkeypatch) -> None:
    """It said "interrupted", and not whether hours of work were lost."""
    (tmp_path / "zoo").mkdir()
    write_labelled(tmp_path / "zoo", [f"animal{i}" for i in range(10)], each=3)
    (tmp_path / "recipe.toml").write_text(
        FINE_TUNING.replace("steps = 2", "steps = 3\ncheckpoint_minutes = 0")
    )
    out, said, whole = tmp_path / "out", [], Run.train_step

    def trained(stop: int | None = None, **options: bool) -> dict[str, object]:
        def step(run: Run, *values: torch.Tensor) -> dict[str, float]:
            if run.step == stop:
                raise KeyboardInterrupt
            return whole(run, *values)

        monkeypatch.setattr(Run, "train_step", step)
        chosen = TrainingOptions(device="cpu", threads=1, **options)
        return train_recipe(tmp_path / "recipe.toml", {"zoo": tmp_path / "zoo"}, out, chosen, said.append)

    for stop, told in ((0, "no checkpoint yet; the same command starts again"), (2, "checkpoint of step 2")):
        with pytest.raises(KeyboardInterrupt):
            trained(stop)
        assert told in said[-1] and str(out) in said[-1]
    assert "to continue, add --resume to the same command" in said[-1]
    assert trained(resume=True)["steps"] == 3 and "step 2 of 3" in said[-1]


def test_the_command_line_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for pair in ("nonsense", "footage="):
        with pytest.raises(UsageError, match="NAME=FOLDER"):
            parse_data([pair])
    status = main([str(tmp_path / "absent.toml"), "--out", str(tmp_path / "out")])
    assert status == 1
    assert "ModelError" in capsys.readouterr().err
