"""Files take the place of others as a whole, on the disk where that is asked for; nothing else is left."""

from __future__ import annotations

import ast
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_proposer_training import tiny_recipe

from panorama import whole_files
from panorama.errors import ModelError
from panorama.models.interrupts import CHECKPOINT
from panorama.models.proposer_training.run import Run, load_checkpoint, save_checkpoint, start
from panorama.models.training.checkpoint import write_checkpoint
from panorama.whole_files import replaced, sync_folder, write_whole

PACKAGE = Path(__file__).resolve().parent.parent / "panorama"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was brought to the disk, and what took another's place, in order."""
    seen: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        seen.append("folder" if is_folder else "file")
        sync(descriptor)

    def moved(path: Path, target: Path) -> Path:
        seen.append(target.name)
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", moved)
    return seen


def test_a_durable_file_is_on_the_disk_before_it_takes_a_place_and_its_name_afterwards(
    tmp_path: Path, told: list[str]
) -> None:
    write_whole(tmp_path / "x", b"new ", memoryview(b"content"))
    assert (tmp_path / "x").read_bytes() == b"new content"
    assert told == ["file", "x", "folder"]
    told.clear()
    write_whole(tmp_path / "x", b"other", durable=False)
    assert told == ["x"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("wrong", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_where_writing_fails_the_old_file_stays_and_nothing_else(
    tmp_path: Path, wrong: BaseException
) -> None:
    (tmp_path / "x").write_text("old")

    def pieces() -> Any:
        yield b"half of it"
        raise wrong

    with pytest.raises(type(wrong)), replaced(tmp_path / "x") as part, part.open("wb") as file:
        for piece in pieces():
            file.write(piece)
    assert (tmp_path / "x").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_where_the_part_lies_already_it_stays(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "part").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "x", b"other", part=tmp_path / "part")
    assert (tmp_path / "victim").read_text() == "mine" and (tmp_path / "part").is_symlink()


@pytest.mark.parametrize(("number", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced_does_not_lose_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool
) -> None:
    """Some network drives cannot sync folders; a disk that fails must be told."""

    def refused(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refused)
    if raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)


def test_no_other_module_puts_a_file_into_the_place_of_another() -> None:
    """There were five ways, and three of them waited for no disk or left files for their owner alone."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # Text is replaced by two arguments and times by named ones; a path moves to one.
            moves = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if (
                moves
                and node.func.attr in ("replace", "rename")
                and len(node.args) == 1
                and not node.keywords
            ):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"whole_files.py", "store/files/tablefile.py", "models/training/bank.py"}


# The checkpoints of trainings


@pytest.fixture
def run() -> Run:
    return start(tiny_recipe())


def test_a_checkpoint_is_on_the_disk_before_the_last_one_goes(
    tmp_path: Path, told: list[str], run: Run
) -> None:
    """After a power cut hours of work could be an empty file; and a model was for its owner's eyes only."""
    save_checkpoint(run, tmp_path / CHECKPOINT)
    assert told == ["file", CHECKPOINT, "folder"]
    (tmp_path / "any").touch()
    assert (tmp_path / CHECKPOINT).stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_full_disk_keeps_the_last_checkpoint_and_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """It was called a defect in Panorama."""
    save_checkpoint(run, tmp_path / CHECKPOINT)
    run.step = 7

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(whole_files, "sync_file", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(run, tmp_path / CHECKPOINT)
    assert load_file(tmp_path / CHECKPOINT)["step"] == 0
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_spoilt_weights_of_a_proposer_do_not_replace_a_checkpoint(tmp_path: Path, run: Run) -> None:
    """A variance that overflows leaves the loss finite: the model was saved, and found nothing."""
    save_checkpoint(run, tmp_path / CHECKPOINT)
    kept = (tmp_path / CHECKPOINT).read_bytes()
    variance = next(value for name, value in run.average.named_buffers() if name.endswith("running_var"))
    variance.fill_(float("inf"))
    run.step = 7
    with pytest.raises(
        ModelError, match=r"average\.\S+ has values that are not numbers at step 7; lower rate"
    ):
        save_checkpoint(run, tmp_path / CHECKPOINT)
    assert (tmp_path / CHECKPOINT).read_bytes() == kept


@pytest.mark.parametrize("left", [0, 5, 2000])
def test_a_checkpoint_that_is_cut_off_is_told(tmp_path: Path, run: Run, left: int) -> None:
    save_checkpoint(run, tmp_path / CHECKPOINT)
    (tmp_path / CHECKPOINT).write_bytes((tmp_path / CHECKPOINT).read_bytes()[:left])
    with pytest.raises(
        ModelError, match=r"checkpoint\.safetensors cannot be read: .*; put a copy in its place"
    ):
        load_checkpoint(run, tmp_path / CHECKPOINT)
    assert torch.isfinite(next(run.net.parameters())).all()


def test_what_a_killed_training_was_writing_is_taken_away_by_the_next_checkpoint(tmp_path: Path) -> None:
    """Each kill left a file as large as the checkpoint, under another name."""
    killed = """
import os, sys, torch
from pathlib import Path
from panorama import whole_files
from panorama.models.training.checkpoint import write_checkpoint
whole_files.sync_file = lambda path: os._exit(9)
write_checkpoint(Path(sys.argv[1]), {"values": torch.ones(9)}, 1, "rates", None)
"""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", killed, tmp_path / "checkpoint.safetensors"], check=False
        )
        assert done.returncode == 9
        assert [path.name for path in tmp_path.iterdir()] == [".checkpoint.safetensors.part"]
    write_checkpoint(tmp_path / "checkpoint.safetensors", {"values": torch.ones(9)}, 2, "rates", None)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]
