"""Ctrl-C during a training: one line that says what is kept, and none by the processes beside it."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from test_training import MeanColorTeacher, items

from panorama.content import content_dir
from panorama.models.interrupts import CHECKPOINT
from panorama.models.training.bank import BankPlan, build_bank, read_shards


@pytest.mark.parametrize("module", ["training", "proposer_training"])
def test_an_interrupted_module_ends_in_a_line_that_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    """`python -m panorama.models.training` and its like ended in a traceback."""
    command = importlib.import_module(f"panorama.models.{module}.__main__")

    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "train", interrupted)
    recipe = content_dir("embeddings") / "proposer" / "recipe.toml"
    words = [str(recipe)] if module == "training" else ["--data", str(tmp_path), "--recipe", str(recipe)]
    told = []
    for _ in range(2):
        assert command.main([*words, "--out", str(tmp_path)]) == 130
        told.append(capsys.readouterr().err)
        save_file({"step": np.array(7)}, tmp_path / CHECKPOINT)
    assert told[0] == "no checkpoint yet; the same command begins anew\n"
    assert told[1] == (
        f"{tmp_path} keeps the checkpoint of step 7; the same command with --resume goes on there\n"
    )


def ignores_interrupts() -> MeanColorTeacher:
    """In the place of a teacher: made in the processes that view pictures, and in the first alone."""
    if multiprocessing.parent_process() is not None and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        raise AssertionError("this process would answer Ctrl-C with a traceback of its own")
    return MeanColorTeacher()


def test_processes_that_view_pictures_leave_an_interrupt_to_the_training(tmp_path: Path) -> None:
    """Ctrl-C reaches all of them, and each printed where it was."""
    mine = signal.getsignal(signal.SIGINT)
    plan = BankPlan(side=64, rounds=1, shard=6, axes=6)
    build_bank(items(), ignores_interrupts, tmp_path, plan, processes=2)
    assert sum(len(shard.rows) for shard in read_shards(tmp_path)) == len(items())
    assert signal.getsignal(signal.SIGINT) == mine != signal.SIG_IGN
