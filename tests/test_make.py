"""The Makefile and .ci/run, short of downloading: a wrong interpreter is named, nothing is redone."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FAKE_PYTHON = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in
  -V) echo "Python {version}" ;;
  -c*) exit {too_old} ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What make needs of a checkout."""
    for name in ("Makefile", "pyproject.toml", ".ci/run"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def fake_python(clone: Path, version: str, too_old: int) -> Path:
    """An interpreter that writes down its arguments; a copy of itself stands for that of the environment."""
    path = clone / "fake-python"
    path.write_text(FAKE_PYTHON.format(log=clone / "log", version=version, too_old=too_old))
    path.chmod(0o755)
    return path


def run(clone: Path, *command: str, python: str | Path) -> subprocess.CompletedProcess[str]:
    # make hands its own flags on to a make below it; this one is not meant to be below anything.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTEST"))}
    return subprocess.run(
        command, cwd=clone, env={**clean, "PYTHON": str(python)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_interpreter_that_is_too_old_is_named_with_its_version(clone: Path) -> None:
    python = fake_python(clone, "3.9.2", too_old=1)
    done = run(clone, "make", "install", python=python)
    assert done.returncode != 0
    assert f"Panorama needs Python 3.11 or newer, '{python}' is 3.9.2" in done.stderr
    assert not (clone / ".venv").exists()


def test_an_interpreter_that_is_not_there_is_named(clone: Path) -> None:
    done = run(clone, "make", "install", python="python-of-nowhere")
    assert done.returncode != 0
    assert "no interpreter 'python-of-nowhere'" in done.stderr


def test_installing_twice_installs_once(clone: Path) -> None:
    python = fake_python(clone, "3.11.0", too_old=0)
    for _ in range(2):
        assert run(clone, "make", "install", python=python).returncode == 0
    calls = (clone / "log").read_text().splitlines()
    assert sum("pip" in call and "install" in call for call in calls) == 1
    later = time.time() + 5  # file times are coarse: a touch at once could be no later than the stamp
    os.utime(clone / "pyproject.toml", (later, later))
    assert run(clone, "make", "install", python=python).returncode == 0
    calls = (clone / "log").read_text().splitlines()
    assert sum("pip" in call and "install" in call for call in calls) == 2


def test_an_installation_that_failed_is_tried_again(clone: Path) -> None:
    python = fake_python(clone, "3.11.0", too_old=0)
    text = python.read_text()
    python.write_text(text.replace("esac", '  *"pip"*) exit 7 ;;\nesac'))
    assert run(clone, "make", "install", python=python).returncode != 0
    assert not (clone / ".venv" / ".installed").exists()
    python.write_text(text)
    assert run(clone, "make", "install", python=python).returncode == 0


def test_the_check_ends_with_the_status_and_the_last_line_of_pytest(clone: Path) -> None:
    python = fake_python(clone, "3.11.0", too_old=0)
    python.write_text(python.read_text().replace("esac", '  "-m pytest") echo "1 failed"; exit 5 ;;\nesac'))
    done = run(clone, ".ci/run", python=python)
    assert done.returncode != 0
    assert (done.stdout + done.stderr).splitlines()[-1] == "1 failed"
