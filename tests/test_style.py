"""The linters as tests, so that one command says whether a change can be merged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "ruff check": ["ruff", "check", "--quiet", "."],
    "ruff format": ["ruff", "format", "--check", "--quiet", "."],
    "mypy": ["mypy", "--no-error-summary"],
}
MOST_LINES = 500


@pytest.mark.parametrize("name", CHECKS)
def test_the_linters_have_nothing_to_say(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *CHECKS[name]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{name}; see also: make format\n{done.stdout}{done.stderr}"


def test_no_file_is_too_long_to_read() -> None:
    folders = ("panorama", "data")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    }
    assert lengths and not {path: n for path, n in lengths.items() if n > MOST_LINES}
