"""Ctrl-C during a training: one line that says what is kept, and nothing goes on beside it."""

from __future__ import annotations

import errno
import importlib
import os
import re
import select
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from test_training import MeanColorTeacher, items

from panorama.content import content_dir
from panorama.errors import LibraryWriteError, ModelError, UsageError
from panorama.models.base import Image
from panorama.models.interrupts import CHECKPOINT, interrupts_delayed, training_in
from panorama.models.training.bank import BankPlan, build_bank, read_shards
from panorama.models.training.loop import LOG
from panorama.models.training.teacher import SelfTeacher
from panorama.models.training.train import train
from panorama.models.weights import MODEL, WEIGHTS, open_model


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
    for resumed in ([], ["--resume"]):
        assert command.main([*words, "--out", str(tmp_path), *resumed]) == 130
        told.append(capsys.readouterr().err)
        save_file({"step": np.array(7)}, tmp_path / CHECKPOINT)
    assert told[0] == "no checkpoint yet; the same command starts again\n"
    assert told[1] == (
        f"{tmp_path} keeps the checkpoint of step 7; to continue, add --resume to the same command\n"
    )


@pytest.mark.parametrize("module", ["training", "proposer_training"])
@pytest.mark.parametrize("name", [CHECKPOINT, WEIGHTS, f"{MODEL}/{WEIGHTS}"])
def test_a_module_refuses_a_folder_that_holds_a_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str, name: str
) -> None:
    """A forgotten --resume deleted the log of hours, even where the command then lacked its data.

    And who had deleted the checkpoint of a proposer lost its model, which lies in a folder inside.
    """
    command = importlib.import_module(f"panorama.models.{module}.__main__")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"hours of work")
    (tmp_path / LOG).write_text("hours of work\n")
    embedder = [str(content_dir("embeddings") / "panoramanet" / "recipe.toml")]
    words = embedder if module == "training" else ["--data", str(tmp_path)]
    assert command.main([*words, "--out", str(tmp_path)]) == UsageError.exit_status
    assert "continue it with --resume, or name a new folder" in capsys.readouterr().err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path).as_posix(): path.read_text().strip() for path in files} == {
        name: "hours of work",
        LOG: "hours of work",
    }


def test_a_training_that_is_refused_leaves_the_log_that_was_there(tmp_path: Path) -> None:
    """It was deleted before the recipe and the data had been looked at."""
    (tmp_path / LOG).write_text("some work\n")
    with pytest.raises(UsageError, match="needs the data folder"):
        train(content_dir("embeddings") / "panoramanet" / "recipe.toml", {}, tmp_path)
    assert (tmp_path / LOG).read_text() == "some work\n"


class InterruptedTeacher(MeanColorTeacher):
    """Ctrl-C reaches the training while it looks at its third view; it takes its time for each."""

    def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        looked.append(threading.current_thread().name)
        if len(looked) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)
        return super().features(picture)


looked: list[str] = []


def test_an_interrupt_stops_all_threads_that_view_pictures_and_what_is_done_is_kept(tmp_path: Path) -> None:
    plan = BankPlan(side=64, rounds=4, shard=6, axes=6, basis_pictures=0)
    looked.clear()
    with pytest.raises(KeyboardInterrupt):
        build_bank(items(), InterruptedTeacher, tmp_path, plan, threads=2)
    stopped_at = len(looked)
    assert len(set(looked)) == 2 and stopped_at < 4 * len(items()) / 2
    kept = len(read_shards(tmp_path))
    time.sleep(0.1)
    assert len(looked) == stopped_at
    build_bank(items(), MeanColorTeacher, tmp_path, plan, threads=2)
    assert sum(len(shard.rows) for shard in read_shards(tmp_path)) == 4 * len(items()) > 6 * kept


def test_views_are_made_without_a_forked_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked beside torch's threads, processes waited for them for ever."""
    monkeypatch.delattr(os, "fork")
    teacher = partial(SelfTeacher, open_model("panoramanet", "embedder"))
    plan = BankPlan(side=64, rounds=1, shard=6, basis_pictures=4, axes=6)
    build_bank(items(), teacher, tmp_path / "two", plan, threads=2)
    build_bank(items(), teacher, tmp_path / "one", plan, threads=1)
    two, one = (read_shards(tmp_path / name) for name in ("two", "one"))
    assert sum(len(shard.rows) for shard in two) == len(items())
    for left, right in zip(two, one, strict=True):
        assert (left.rows == right.rows).all() and (left.views == right.views).all()


@pytest.fixture
def heard() -> Iterator[int]:
    """A descriptor that can be read from once Python has taken notice of a signal."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)
    yield reading
    signal.set_wakeup_fd(before)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("by_another", [False, True])
def test_an_interrupt_while_processes_start_is_raised_when_they_have(heard: int, by_another: bool) -> None:
    """It was lost: the training went on, and had to be interrupted again."""
    done, leave = [], threading.Event()
    other = threading.Thread(target=leave.wait, args=(60,))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_delayed():
            taken_by = other if by_another else threading.main_thread()
            signal.pthread_kill(taken_by.ident or 0, signal.SIGINT)
            if by_another:
                assert select.select([heard], [], [], 10)[0]
            done.append("started")
        assert done == ["started"]
        with interrupts_delayed():
            done.append("not interrupted")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        leave.set()
        other.join()


def test_what_breaks_a_thread_that_views_pictures_is_raised(tmp_path: Path) -> None:
    class Broken(MeanColorTeacher):
        def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            raise ModelError("the teacher is broken")

    with pytest.raises(ModelError, match="the teacher is broken"):
        build_bank(items(), Broken, tmp_path, BankPlan(side=64, rounds=1, basis_pictures=0), threads=2)


def test_two_trainings_do_not_share_a_folder(tmp_path: Path) -> None:
    """A resumed one wrote its checkpoints in turn with the one that it was thought to go on from."""
    told: list[str] = []
    with training_in(tmp_path / "out", told.append):
        with (
            pytest.raises(ModelError, match=r"another process is training in .*out: wait"),
            training_in(tmp_path / "out", told.append),
        ):
            pass
        with training_in(tmp_path / "other", told.append):
            pass
    with training_in(tmp_path / "out", told.append):
        pass
    assert not told


def test_a_training_that_fails_early_leaves_no_empty_folder(tmp_path: Path) -> None:
    def fail(out: Path, *names: str) -> None:
        with pytest.raises(ModelError, match="nothing to learn"), training_in(out, print):
            for name in names:
                (out / name).touch()
            raise ModelError("nothing to learn")

    fail(tmp_path / "runs" / "out")
    assert not (tmp_path / "runs").exists()
    fail(tmp_path / "kept", "log.csv")
    (tmp_path / "theirs").mkdir()
    fail(tmp_path / "theirs")
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "theirs"}


@pytest.mark.parametrize(
    ("number", "name", "told"),
    [
        (errno.ENOSPC, None, "cannot be written: No space left on device; free some space, and run the same"),
        (errno.EACCES, "out/log.jsonl", "cannot be written: Permission denied; change its permissions"),
        (errno.EROFS, "out/log.jsonl", "Read-only file system; mount its disk for writing, and run the same"),
        (errno.EACCES, "data/1.jpg", None),
        (errno.EIO, None, None),
    ],
)
def test_a_training_that_cannot_write_its_folder_says_so(
    tmp_path: Path, number: int, name: str | None, told: str | None
) -> None:
    """A full disk was said to be that of standard output, and a traceback by the modules."""
    named = None if name is None else str(tmp_path / name)
    wrong = OSError(number, os.strerror(number), named)
    raised, text = (OSError, os.strerror(number)) if told is None else (LibraryWriteError, told)
    with pytest.raises(raised, match=re.escape(text)), training_in(tmp_path / "out", print):
        raise wrong
    assert not (tmp_path / "out").exists()
