"""A training in steps goes on with what it was begun with, and its recipe tells what made the weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from test_training import FINE_TUNING, MeanColorTeacher, items, write_labelled

from panorama.errors import ModelError, UsageError
from panorama.models import weights
from panorama.models.interrupts import CHECKPOINT
from panorama.models.proposer_training.loop import write_log
from panorama.models.training.bank import BASIS, BankPlan, build_bank, read_basis, read_shards
from panorama.models.training.begun import effective
from panorama.models.training.loop import LOG
from panorama.models.training.plot import read_log
from panorama.models.training.train import train
from panorama.models.weights import RECIPE, RESULT, read_recipe

TINY = FINE_TUNING.replace("side = 128\nrounds", "side = 64\nrounds").replace(
    "sides = [[0, 64]]", "sides = [[0, 32]]"
)


def zoo(folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_labelled(folder, [f"animal{i}" for i in range(10)], each=3)
    return folder


def trained(text: str, work: Path, **options: Any) -> list[str]:
    """Train what a recipe says in `work`/out, and what was said of it."""
    (work / "recipe.toml").write_text(text)
    told: list[str] = []
    data = {"zoo": work / "zoo"}
    train(work / "recipe.toml", data, work / "out", device="cpu", threads=1, say=told.append, **options)
    return told


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("begun")
    zoo(work / "zoo")
    trained(TINY, work, seed=7)
    return work


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", r"checkpoint\.safetensors was made with seed in \[training\] = 7, and 0 is asked for now"),
        (
            "learning_rate = 1e-5",
            "learning_rate = 1e-4",
            r"learning_rate in \[training\] = 1e-05, and 0.0001",
        ),
        ("loss = { local = 0.0 }", "loss = { local = 0.5 }", r"local in \[training.loss\] = 0.0, and 0.5"),
        ("rounds = 1", "rounds = 2", r"rounds in \[bank\] = 1, and 2 is asked for"),
        ("shrinkage = 0.0", "shrinkage = 0.5", r"shrinkage in \[teacher\] = 0.0, and 0.5"),
    ],
)
def test_another_recipe_is_refused_with_resume(old: str, new: str, told: str, begun: Path) -> None:
    """The weights were of two recipes, and recipe.toml told of one that had made none of them."""
    before = (begun / "out" / CHECKPOINT).read_bytes()
    with pytest.raises(UsageError, match=told):
        trained(TINY.replace(old, new), begun, resume=True, **({"seed": 7} if old else {}))
    assert (begun / "out" / CHECKPOINT).read_bytes() == before


def test_views_that_were_made_in_another_way_are_refused(begun: Path, tmp_path: Path) -> None:
    """Killed before its first checkpoint, a training went on with the views of the recipe of before."""
    zoo(tmp_path / "zoo")
    trained(TINY, tmp_path)
    (tmp_path / "out" / CHECKPOINT).unlink()
    with pytest.raises(
        UsageError, match=r"bank was made with side in \[bank\] = 64, and 32 is asked for now"
    ):
        trained(TINY.replace("side = 64\nrounds", "side = 32\nrounds"), tmp_path)
    made = json.loads((tmp_path / "out" / "bank" / "made.json").read_text())
    assert made["rounds in [bank]"] == 1 and len(made["the digest of the teacher"]) == 12
    for path in (tmp_path / "zoo").glob("*.jpg"):  # those that are held out are no part of it
        path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(UsageError, match="digest of the sizes of its pictures"):
        trained(TINY, tmp_path)
    (tmp_path / "out" / "bank" / "made.json").unlink()
    with pytest.raises(
        UsageError, match=r", of an earlier version, does not say how its views were made: delete it"
    ):
        trained(TINY, tmp_path)


def test_the_recipe_beside_the_weights_tells_what_made_them(begun: Path, tmp_path: Path) -> None:
    """`--seed 7` left seed = 0 in it, and stood nowhere."""
    first = json.loads((begun / "out" / RESULT).read_text())
    made = read_recipe(begun / "out" / RECIPE)
    assert (made["training"]["seed"], made["training"]["steps"]) == (7, 2)
    told = trained(TINY, begun, resume=True, seed=7, steps=3)
    assert "step 2 of 3" in told[-1]
    made = read_recipe(begun / "out" / RECIPE)
    assert (made["training"]["seed"], made["training"]["steps"]) == (7, 3)
    del made["sha256"]
    assert made | {"training": 0} == read_recipe(begun / "recipe.toml") | {"training": 0}
    # What was measured before the first step is told again, also where no result was written yet.
    again = json.loads((begun / "out" / RESULT).read_text())
    before = {key: value for key, value in first.items() if key.startswith("before_")}
    assert before and before.items() <= again.items()
    assert "loss" in read_log(begun / "out" / LOG)[-2], "the last step is logged, and so drawn"
    # As it was begun: with the recipe of the weights, nothing has to be said again.
    text = (begun / "out" / RECIPE).read_text()
    assert trained(text, begun, resume=True)[-1].endswith("step 3 of 3")


def test_a_checkpoint_of_before_goes_on_and_says_so(begun: Path, tmp_path: Path) -> None:
    zoo(tmp_path / "zoo")
    trained(TINY, tmp_path)
    checkpoint = tmp_path / "out" / CHECKPOINT
    save_file(load_file(checkpoint), checkpoint)
    told = trained(TINY, tmp_path, resume=True)
    assert told[0].startswith(
        f"{checkpoint}, of an earlier version, does not say what its training began with"
    )


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ("[training]\nsteps = 12  # few\nseed=0\n", "[training]\nsteps = 14  # few\nseed= 7\n"),
        ("[training]\nbatch = 4", "[training]\nseed = 7\nsteps = 14\nbatch = 4\n"),
        ("[training]\nsteps = 14\nseed = 7\n", "[training]\nsteps = 14\nseed = 7\n"),
        (
            "seed = 1\n[training]\n[bank]\nsteps = 1",
            "seed = 1\n[training]\nseed = 7\nsteps = 14\n[bank]\nsteps = 1\n",
        ),
    ],
)
def test_whole_numbers_of_a_recipe_are_replaced_and_all_else_stays(
    table: str, wanted: str, tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_text(table)
    assert effective(tmp_path / "recipe.toml", {"steps": 14, "seed": 7}) == wanted
    assert effective(tmp_path / "recipe.toml", {}) == table
    (tmp_path / "recipe.toml").write_text("training = { steps = 1 }")
    with pytest.raises(ModelError, match="steps and seed cannot be replaced"):
        effective(tmp_path / "recipe.toml", {"steps": 14, "seed": 7})


def test_rows_behind_one_that_a_crash_cut_off_are_read(begun: Path, tmp_path: Path) -> None:
    """The row written after --resume was joined to the broken one, and the plot ended there."""
    shutil.copytree(begun, tmp_path / "work")
    log = tmp_path / "work" / "out" / LOG
    steps = [row["step"] for row in read_log(log)]
    log.write_text(log.read_text() + '{"step": 50, "lo')
    trained(TINY, tmp_path / "work", resume=True, seed=7, steps=4)
    again = [row["step"] for row in read_log(log)]
    assert steps and again[: len(steps)] == steps and set(again[len(steps) :]) == {4}
    write_log(log.parent, {"note": "cut off here"})
    log.write_text(log.read_text()[:-9])
    write_log(log.parent, {"step": 100})
    assert read_log(log)[-1] == {"step": 100} and "note" not in read_log(log)[-2]


@pytest.mark.parametrize("name", ["items.json", "made.json"])
def test_lists_of_a_bank_are_written_whole_and_damaged_ones_are_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill while items.json was written over ended each later training in a JSONDecodeError."""
    plan = BankPlan(side=64, rounds=1, basis_pictures=0)

    def build() -> None:
        build_bank(items(4), MeanColorTeacher, tmp_path / "bank", plan, threads=1)

    build()
    path = tmp_path / "bank" / name
    whole = path.read_text()

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as writing, pytest.raises(KeyboardInterrupt):
        writing.setattr(weights.os, "fsync", killed)
        build()
    assert path.read_text() == whole
    path.write_text(whole[:20])  # as an earlier version left it
    with pytest.raises(
        UsageError, match=rf"{name} cannot be read: .*; delete .*bank, and its views are made"
    ):
        build()


@pytest.mark.parametrize("left", [0, 100, None])
@pytest.mark.parametrize("name", ["rows", "views", "pooled", "grid"])
def test_a_shard_that_a_power_cut_damaged_is_told_and_made_again(
    name: str, left: int | None, tmp_path: Path
) -> None:
    """Each later training ended in an EOFError, whose way out nobody could guess."""
    plan = BankPlan(side=64, rounds=1, basis_pictures=0)
    build_bank(items(4), MeanColorTeacher, tmp_path / "bank", plan, threads=1)
    (shard,) = (tmp_path / "bank").glob("shard-*")
    path = shard / f"{name}.npy"
    whole = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(whole[:left])
    with pytest.raises(UsageError, match=r"shard-00000 cannot be read: .*; delete .*shard-00000, and"):
        read_shards(tmp_path / "bank")
    shutil.rmtree(shard)
    build_bank(items(4), MeanColorTeacher, tmp_path / "bank", plan, threads=1)
    assert path.read_bytes() == whole
    (tmp_path / "bank" / BASIS).write_bytes(b"")
    with pytest.raises(UsageError, match=r"basis.safetensors cannot be read: .*; delete .*bank, and"):
        read_basis(tmp_path / "bank")


def test_a_training_whose_time_is_up_at_its_last_step_is_finished(tmp_path: Path) -> None:
    """It said that it had stopped and would go on with resume."""
    zoo(tmp_path / "zoo")
    told = trained(TINY, tmp_path, steps=1, minutes=1e-9)
    assert not [line for line in told if line.startswith("stopped")]
    assert "stopped at step 1; continue with --resume" in trained(TINY, tmp_path, steps=2, minutes=1e-9)
