"""How the command line is left: by Ctrl-C while it is being loaded, and with which outputs and status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import TESTS, Thing, street, write_film, write_picture

import panorama

ROOT = Path(__file__).resolve().parent.parent

INTERRUPTED_HERE = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(20)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent to oneself")


def run_with(module: str, text: str, folder: Path, *words: str, ignored: bool = False) -> tuple[int, str]:
    """Exit status and stderr of a command that finds a module of ours in the place of an installed one."""
    (folder / f"{module}.py").write_text(text)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);" if ignored else ""
    code += "from panorama.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def test_an_interrupt_while_the_command_line_is_loaded_is_one_line(tmp_path: Path) -> None:
    status, err = run_with("click", INTERRUPTED_HERE, tmp_path, "--help")
    assert (status, err) == (130, "panorama: interrupted\n")


def test_an_interrupt_while_a_command_is_loaded_is_one_line(tmp_path: Path) -> None:
    status, err = run_with("pyarrow", INTERRUPTED_HERE, tmp_path, "index", "nothing.mp4")
    assert (status, err.strip()) == (130, "panorama: interrupted")
    assert not (tmp_path / "panorama-library").exists()


def test_an_interrupt_while_a_call_of_a_command_loads_a_package_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is cut short harms nobody where the process ends."""
    panorama.open(tmp_path / "panorama-library", create=True).close()
    write_picture(tmp_path / "a.png", street(1))
    monkeypatch.setenv("PANORAMA_PRECISION", "float32")
    waited = f"{INTERRUPTED_HERE}open('waited', 'w').close()\n"
    status, err = run_with("torch", waited, tmp_path, "register", "a", "a.png")
    assert (status, err.strip()) == (130, "panorama: interrupted")
    assert not (tmp_path / "waited").exists()


def test_a_command_that_is_run_in_a_process_leaves_its_interrupts_as_they_were(run: Any) -> None:
    assert run("videos").status == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_the_caller_ignores_interrupts_so_does_the_command(tmp_path: Path) -> None:
    harmless = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError('went on')\n"
    status, err = run_with("pyarrow", harmless, tmp_path, "index", "nothing.mp4", ignored=True)
    assert status == 1 and "went on" in err


def test_a_defect_while_a_command_is_loaded_leaves_with_its_status(tmp_path: Path) -> None:
    status, err = run_with("pyarrow", "raise ImportError('no pyarrow')\n", tmp_path, "index", "nothing.mp4")
    assert status == 1 and err.startswith("ImportError: no pyarrow")


def test_all_that_was_said_is_written_though_python_is_left_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "panorama", "--help"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("Usage: panorama") and "demo" in done.stdout


@pytest.mark.parametrize("cores", ["1", "2"])
def test_an_interrupt_while_the_networks_are_loaded_does_not_wait_for_them(
    tmp_path: Path, cores: str
) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    loading = tmp_path / "loading"
    (tmp_path / "sitecustomize.py").write_text(
        f"import pathlib, sys, time\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from panorama.models.late_proposer import LateProposer\n"
        "def load(self):\n"
        f"    pathlib.Path({str(loading)!r}).touch()\n"
        "    time.sleep(30)\n"
        "LateProposer.load = load\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "panorama", "index", "a.mp4"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
            "PANORAMA_THREADS": cores,
        },
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # The networks' process may be at its networks before the command line has loaded what indexes.
        for _ in range(600):
            if loading.exists() and any((tmp_path / "panorama-library" / "locks").glob("claim-*")):
                break
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=10)
    finally:
        child.kill()
    assert (child.returncode, err.strip().splitlines()[-1]) == (130, "panorama: interrupted")
    assert "0 videos are done and kept" in err
    assert list((tmp_path / "panorama-library" / "data").glob("*/*")) == []


@pytest.mark.parametrize("closed", [1, 2])
def test_an_output_that_the_caller_closed_changes_no_exit_status(tmp_path: Path, closed: int) -> None:
    code = f"import os; os.close({closed}); os.execv({sys.executable!r}, [{sys.executable!r}, *{{words}}])"
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    words = [str(TESTS / "fakes.py"), "index", "a.mp4", "--model", "color-bands"]
    done = subprocess.run(
        [sys.executable, "-c", code.format(words=words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert ("1 indexed, 0 skipped, 0 failed" in done.stderr) == (closed == 1)
    assert (tmp_path / "panorama-library" / "catalog.sqlite").exists()


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)], ids=str)
def test_streams_that_the_caller_closed_keep_no_number_free_for_other_files(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    words = [sys.executable, "-m", "panorama", "index", "--json", "a.mp4"]
    code = f"import os; [os.close(number) for number in {closed}]; os.execv({words[0]!r}, {words})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PANORAMA_THREADS": "2"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert ('"status": "indexed"' in done.stdout) == (1 not in closed)
    assert ("1 indexed, 0 skipped, 0 failed" in done.stderr) == (2 not in closed)
