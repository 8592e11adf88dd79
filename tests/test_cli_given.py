"""Words of the command line that are empty, as a variable of the shell that is not set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import Ran

from panorama.cli.main import cli

ASKED = ("query", "SELECT moments WHERE entity = 'red'")


@pytest.mark.parametrize(
    "words",
    [
        (*ASKED, "--clips", ""),
        (*ASKED, "--out", ""),
        (*ASKED, "--sheet", ""),
        ("query", "-f", ""),
        ("--library", "", "videos"),
        ("videos", "--library", ""),
        ("demo", ""),
        ("demo", "--folder", ""),
        ("demo", "--sample", ""),
        ("zones", "export", ""),
        ("evaluate", "--data", ""),
        ("calibrate", "--out", ""),
        ("train", "", "--out", "o"),
        ("train", "--folders", "album", "--out", ""),
        ("clock", "--time-from", ""),
        ("clock", "--timezone", ""),
        ("index", "v", "--camera-from", ""),
    ],
    ids=" ".join,
)
def test_what_is_empty_is_told_and_stands_for_nothing_else(
    run: Callable[..., Ran], asked: Path, words: tuple[str, ...]
) -> None:
    """`demo ""` indexed the working directory, `--clips ""` wrote none, `clock --timezone ""` set none."""
    before = sorted(asked.iterdir())
    done = run(*words)
    assert (done.status, done.out) == (2, "")
    assert "it is empty; is it a shell variable that is not set?" in done.err
    assert sorted(asked.iterdir()) == before


def test_every_path_of_the_command_line_is_checked_so() -> None:
    plain = []
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for one in (command, *getattr(command, "commands", {}).values()):
            plain += [f"{one.name} {taken.name}" for taken in one.params if type(taken.type) is click.Path]
    assert plain == []
