"""Output where the terminal has another encoding than UTF-8, by the command line in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran
from fakes import thing_picture, write_picture

NAME = "Väter → 日本"
SQL = f"SELECT '{NAME}' AS x"


@pytest.fixture
def library(run: Callable[..., Ran], asked: Path) -> Path:
    """A library with an entity whose name Latin-1 has no letters for."""
    write_picture(asked / "red.png", thing_picture("red"))
    assert run("register", NAME, "red.png").status == 0
    return asked / "panorama-library"


def said(library: Path, *words: object, encoding: str = "latin-1") -> bytes:
    """What a command prints where the terminal has that encoding; it must say nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "panorama", "--library", *map(str, (library, *words))],
        env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_tables_tell_by_number_what_the_terminal_has_no_letter_for(library: Path) -> None:
    """They ended in a UnicodeEncodeError, as by a defect."""
    named = b"V\xe4ter \\u2192 \\u65e5\\u672c"
    assert named in said(library, "entities")
    assert named in said(library, "query", SQL)
    assert NAME.encode() in said(library, "entities", encoding="utf-8")
    assert NAME.encode("latin-1", "replace") in said(library, "entities", encoding="latin-1:replace")


def test_csv_and_json_are_in_utf_8_whatever_the_terminal_has(library: Path, tmp_path: Path) -> None:
    """The header of a CSV was out when the error came."""
    for form in ("csv", "json"):
        file = tmp_path / f"rows.{form}"
        subprocess.run(
            [sys.executable, "-m", "panorama", "--library", library, "query", SQL, "--out", file],
            check=True, capture_output=True,
        )  # fmt: skip
        assert NAME in file.read_text(encoding="utf-8")
        assert said(library, "query", SQL, "--format", form) == file.read_bytes()
    assert [row["entity"] for row in json.loads(said(library, "entities", "--json"))].count(NAME) == 1
