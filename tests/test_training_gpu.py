"""Training on a GPU, where there is none: on a device that holds no values, so that none can be fetched."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_training import MEAN, STD, MeanColorTeacher, items, quick

from panorama.errors import ModelError
from panorama.models.interrupts import CHECKPOINT
from panorama.models.network import Trunk
from panorama.models.training import heldout, loop
from panorama.models.training.bank import BankPlan, build_bank
from panorama.models.training.loop import LOG, Lessons, Run, run_training, to_input
from panorama.models.training.losses import Rivals


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Lessons:
    folder = tmp_path_factory.mktemp("bank")
    build_bank(items(), MeanColorTeacher, folder, BankPlan(side=64, rounds=2, shard=20, axes=6), threads=1)
    return Lessons.read(folder, 6, 1.0)


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the device "meta" have shapes alone: to read one is an error, or to add one of the CPU."""
    for module in (loop, heldout):
        monkeypatch.setattr(module, "mixed", lambda kind: nullcontext())


def test_a_step_waits_for_nothing_on_its_device(lessons: Lessons, meta: None) -> None:
    """Five numbers were fetched in each step, and distinct identities counted: a GPU was idle meanwhile."""
    run = Run(lessons, 6, quick(), "meta")
    for _ in range(3):
        told = run.train_step(MEAN.to("meta"), STD.to("meta"))
    assert run.step == 3
    places = {value.device.type for value in told.values() if isinstance(value, torch.Tensor)}
    assert places == {"meta"} and isinstance(told["rate"], float)
    assert {value.device.type for value in run.average.state_dict().values()} == {"meta"}


def test_a_model_is_measured_where_it_is(tmp_path: Path, meta: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After training it was on the processor, and the pictures that judge went to the GPU."""
    held = heldout.HeldOut([tmp_path] * 4, ["a", "a", "b", "b"])
    pictures = [np.full((8, 8, 3), 60 * i, np.uint8) for i in range(4)]
    monkeypatch.setattr(heldout.HeldOut, "load", lambda self: pictures)
    measure = heldout.make_measure(held, MEAN, STD, 32)
    assert measure is not None
    with pytest.raises(NotImplementedError, match="copy out of meta"):  # the vectors, at the very end
        measure(Trunk(6).to("meta"))
    assert set(measure(Trunk(6))) > {"map_exit_1", "r_at_1_exit_3"}


def test_a_loss_that_is_none_ends_a_training_before_it_is_saved(
    lessons: Lessons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(run: Run, *_: Any) -> dict[str, Any]:
        run.step += 1
        return {"loss": torch.tensor(float("nan") if run.step == 4 else 1.0), "rate": 1.0}

    monkeypatch.setattr(Run, "train_step", step)
    with pytest.raises(ModelError, match="the loss is nan at step 4"):
        run_training(Run(lessons, 6, quick(checkpoint_minutes=0.0), "cpu"), tmp_path, MEAN, STD, None)
    assert (tmp_path / LOG).read_text() == ""


def test_weights_that_are_spoilt_do_not_replace_a_checkpoint(lessons: Lessons, tmp_path: Path) -> None:
    run = Run(lessons, 6, quick(), "cpu")
    run.save(tmp_path)
    kept = (tmp_path / CHECKPOINT).read_bytes()
    next(run.average.parameters()).data.fill_(float("inf"))
    run.step = 7
    with pytest.raises(ModelError, match=r"average\.\S+ has values that are not numbers at step 7; lower"):
        run.save(tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == kept


def test_batches_made_ahead_are_those_of_their_steps(lessons: Lessons) -> None:
    run = Run(lessons, 6, quick(), "cpu")
    for step in (0, 1, 2, 7, 3):  # a resumed run begins anywhere
        ahead, alone = run._batches.at(step), loop.Batch.at(step, lessons, run.settings, "cpu")
        for name in ("views", "target", "grid"):
            assert torch.equal(getattr(ahead, name), getattr(alone, name))
        assert all(map(torch.equal, ahead.rivals.chosen, alone.rivals.chosen))


def test_a_view_that_is_mirrored_has_its_map_mirrored(lessons: Lessons) -> None:
    """Of a mean of colours both sides of a map are known: those of the picture."""
    plain, mirrored = None, None
    for step in range(6):
        pictures, _, grid, _ = lessons.batch(step, 8, 0)
        batch = loop.Batch.at(step, lessons, quick(), "cpu")
        if torch.equal(batch.views, torch.from_numpy(pictures)):
            plain = torch.equal(batch.grid, torch.from_numpy(grid))
        else:
            assert torch.equal(batch.views, torch.from_numpy(pictures).flip(2))
            cells = torch.from_numpy(grid).reshape(8, 4, 4, -1).flip(2).flatten(1, 2)
            mirrored = torch.equal(batch.grid, cells)
    assert plain is True and mirrored is True


def test_rivals_are_the_batch_and_others_none_twice_of_the_batch() -> None:
    drawn = Rivals.draw(np.array([5, 2, 5]), 50, 3, torch.Generator().manual_seed(1), others=20)
    assert drawn.right.tolist() == [1, 0, 1] and len(drawn.chosen) == 3
    for chosen in drawn.chosen:
        assert chosen[:2].tolist() == [2, 5] and not {2, 5} & set(chosen[2:].tolist())
    assert drawn.chosen[0].tolist() != drawn.chosen[1].tolist()


def test_input_is_the_same_from_an_array_and_from_bytes_on_a_device() -> None:
    views = np.random.default_rng(0).integers(0, 256, (2, 60, 60, 3), np.uint8)
    assert torch.equal(to_input(views, MEAN, STD, 32), to_input(torch.from_numpy(views), MEAN, STD, 32))
