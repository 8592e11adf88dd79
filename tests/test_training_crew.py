"""Views of pictures, made in processes: the same as in threads, and none of them goes on by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_training import MeanColorTeacher, items

from panorama.errors import ModelError
from panorama.models.base import Image
from panorama.models.training.bank import BankPlan, build_bank

PLAN = BankPlan(side=64, rounds=2, shard=6, axes=6, basis_pictures=20)
SLOW = BankPlan(side=64, rounds=2, shard=6, axes=6, basis_pictures=0)


class TellingTeacher(MeanColorTeacher):
    """Leaves a file named by its process, where the other teachers do."""

    def __init__(self) -> None:
        (Path(os.environ["TOLD"]) / str(os.getpid())).touch()


class BrokenTeacher(MeanColorTeacher):
    def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        raise ModelError("the teacher is broken")


class EndedTeacher(MeanColorTeacher):
    """As the system ends one that takes too much memory."""

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class SlowTeacher(TellingTeacher):
    def features(self, picture: Image) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        time.sleep(0.2)
        return super().features(picture)


def test_processes_make_the_same_bytes_as_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take turns at what is Python in a view: of many, most would wait."""
    (told := tmp_path / "told").mkdir()
    monkeypatch.setenv("TOLD", str(told))
    monkeypatch.delattr(os, "fork")
    build_bank(items(), MeanColorTeacher, tmp_path / "one", PLAN, threads=1)
    build_bank(items(), TellingTeacher, tmp_path / "many", PLAN, threads=3)
    assert (pids := {path.name for path in told.iterdir()}) and str(os.getpid()) not in pids
    one, many = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*.*"))
        }
        for name in ("one", "many")
    )
    assert one == many and len(one) > 8 * 4


@pytest.mark.parametrize(
    ("teacher", "told"),
    [(BrokenTeacher, "the teacher is broken"), (EndedTeacher, "was killed.*fewer --threads")],
)
def test_what_breaks_a_process_is_raised(teacher: type[MeanColorTeacher], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        build_bank(items(), teacher, tmp_path, PLAN, threads=3)
    assert {path.name for path in tmp_path.iterdir()} == {"items.json", "made.json"}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_training_that_is_ended(by: signal.Signals, tmp_path: Path) -> None:
    (told := tmp_path / "told").mkdir()
    made = (
        "from test_training_crew import *\n"
        "if __name__ == '__main__':\n"
        f"    build_bank(items(), SlowTeacher, Path({str(tmp_path / 'out')!r}), SLOW, threads=3)\n"
    )
    (tmp_path / "command.py").write_text(made)
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    given = {**os.environ, "TOLD": str(told), "PYTHONPATH": paths}
    command = subprocess.Popen(
        [sys.executable, str(tmp_path / "command.py")],
        env=given,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    pids: set[int] = set()
    while len(pids) < 3 and time.monotonic() < until:
        pids = {int(path.name) for path in told.iterdir()} - {command.pid}
        time.sleep(0.05)
    assert len(pids) == 3
    # To all of them, as a terminal does; who kills means one alone.
    if by == signal.SIGINT:
        os.killpg(command.pid, by)
    else:
        command.kill()
    _, said = command.communicate(timeout=60)
    while any(map(_runs, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(_runs, pids))
    assert said.count("Traceback") == (by == signal.SIGINT), said
    build_bank(items(), MeanColorTeacher, tmp_path / "out", SLOW, threads=1)
    assert len(list((tmp_path / "out").glob("shard-*"))) == 8


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
