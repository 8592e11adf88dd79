"""What commands share: opening the library, asking for confirmation, and printing lines, tables and JSON."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from panorama.library import Library
from panorama.lines import cells, one_line, padded
from panorama.opening import open_library

STDOUT = "-"
"""The name of standard output, for options and arguments that name a file to write."""

INCOMPLETE = 3
"""Exit status of a command that could not do a part of what was asked for, and did the rest."""


def opened(ctx: click.Context, *, may_be_new: bool = False) -> Library:
    """The library that the options name; it is closed when the command ends.

    Raises:
        LibraryNotFound: it does not exist, unless it `may_be_new`: then the first write creates it.
    """
    library = open_library(ctx.find_root().obj["library"], create=None if may_be_new else False)
    ctx.call_on_close(library.close)
    return library


def stands_alone(ctx: click.Context, name: str, why: str) -> None:
    """Raise UsageError if any other option is given beside the option `name`.

    Args:
        why: what that option does, so that the others make no sense; part of the message.
    """
    options = [
        taken for taken in ctx.command.params if isinstance(taken, click.Option) and taken.expose_value
    ]
    for other in options:
        is_given = ctx.get_parameter_source(str(other.name)) == ParameterSource.COMMANDLINE
        if is_given and other.name != name:
            raise click.UsageError(f"--{name} {why}; leave out {other.opts[0]}")


def uris_of(library: Library) -> set[str]:
    """The URIs of a library's videos, which no output may overwrite."""
    return set(library.videos().column("uri").to_pylist())


def say(text: str) -> None:
    """Print a line for people, on stderr."""
    click.echo(one_line(text), err=True)


def confirmed(question: str, otherwise: str, does: str) -> bool:
    """Whether the user says yes; otherwise print what that means.

    Args:
        question: to ask, on stderr.
        otherwise: what a no means, such as 'nothing was erased'.
        does: what --yes does without asking, such as 'erases'.

    Raises:
        click.Abort: Ctrl-C, or there is no terminal to answer on.
    """
    try:
        yes = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # end the line of the question
        say(f"{otherwise}; --yes {does} without asking")
        raise
    if not yes:
        say(otherwise)
    return yes


def size(count: float) -> str:
    """A number of bytes, for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def print_data(text: str, nl: bool = True) -> None:
    """Print CSV or JSON on stdout; programs read it, so it is UTF-8, whatever the terminal is set to."""
    # Replacements of stdout within Python, such as StringIO, have no encoding and accept only text.
    is_utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    click.echo(text if is_utf8 else text.encode(), nl=nl)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Print rows on stdout, as an array of objects or as aligned columns."""
    if as_json:
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        print_data(json.dumps(objects, indent=1, ensure_ascii=False))
        return
    text = [[one_line(str(cell)) if cell is not None else "" for cell in row] for row in rows]
    widths = [max([cells(name), *(cells(row[i]) for row in text)]) for i, name in enumerate(columns)]
    for line in [list(columns), *text]:
        click.echo("  ".join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip())


json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else.")
