"""Text of reports: numbers and what they count."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import panorama
from panorama.lines import cells, clock, counted, padded, shell_line, shell_word


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("clip",), "0 clips"),
        (1, ("clip",), "1 clip"),
        (2, ("clip",), "2 clips"),
        (1, ("entity",), "1 entity"),
        (3, ("entity",), "3 entities"),
        (1, ("video has", "videos have"), "1 video has"),
        (2, ("video has", "videos have"), "2 videos have"),
    ],
)
def test_one_thing_is_not_several(number: int, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0:00.0"),
        (-0.04, "0:00.0"),
        (59.94, "0:59.9"),
        (59.96, "1:00.0"),
        (119.97, "2:00.0"),
        (3599.94, "59:59.9"),
        (3599.97, "1:00:00"),
        (7199.0, "1:59:59"),
    ],
)
def test_no_minute_has_sixty_seconds(seconds: float, told: str) -> None:
    assert clock(seconds) == told


def test_columns_stand_below_each_other_whatever_the_script() -> None:
    # 监控 takes four cells of a terminal, and a decomposed é one.
    assert [cells(text) for text in ("gate", "监控", "cafe\u0301", "ﾃﾞ")] == [4, 4, 4, 2]
    assert (padded("监控", 6), padded("监控", 6, right=True)) == ("监控  ", "  监控")


@pytest.mark.parametrize(
    "word",
    [
        "",
        "a b",
        "it's",
        "it's $x",
        "it's \\ or `x`",
        'it\'s "x"',
        "it's!",
        "$(touch x)",
        "`x`",
        "~",
        "a;b",
        "!!",
        "=ls",
        "é",
        "-x",
    ],
)
def test_a_word_comes_out_of_a_shell_as_it_was(word: str) -> None:
    assert shlex.split(shell_line(["panorama", word, "x"])) == ["panorama", word, "x"]
    assert shell_word(word) == word or shell_word(word)[0] in "'\""


def test_sql_with_texts_stays_readable_as_a_word() -> None:
    """Each quote of the SQL that commands advised was five characters."""
    sql = "SELECT tracks WHERE entity = 'dog' AND band = 'uncertain'"
    assert shell_word(sql) == f'"{sql}"'


def test_what_zsh_expands_is_quoted_and_what_it_does_not_is_left() -> None:
    """`=ls` is the path of ls in zsh, and an error where there is no such command."""
    assert (shell_word("=ls"), shell_word("a=b"), shell_word("a/b.mp4")) == ("'=ls'", "a=b", "a/b.mp4")


def test_words_are_quoted_in_one_place() -> None:
    package = Path(panorama.__file__).parent
    found = [path.name for path in package.rglob("*.py") if re.search(r"\bshlex\b", path.read_text("utf-8"))]
    assert found == ["lines.py"]
    assert "/^(?!=)" in (package / "page" / "page.js").read_text("utf-8")
