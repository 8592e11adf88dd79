"""What commands share: opening the library, and printing rows as a table or as JSON."""

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


def opened(ctx: click.Context, *, may_be_new: bool = False) -> Library:
    """The library that the options name, closed when the command ends.

    Raises:
        LibraryNotFound: there is none; unless it `may_be_new`, and is made when something is to be kept.
    """
    library = open_library(ctx.find_root().obj["library"], create=None if may_be_new else False)
    ctx.call_on_close(library.close)
    return library


def stands_alone(ctx: click.Context, name: str, why: str) -> None:
    """UsageError where another option of the command stands beside the one of that name.

    Args:
        why: what the option does, for which the others mean nothing.
    """
    options = [
        taken for taken in ctx.command.params if isinstance(taken, click.Option) and taken.expose_value
    ]
    for other in options:
        is_given = ctx.get_parameter_source(str(other.name)) == ParameterSource.COMMANDLINE
        if is_given and other.name != name:
            raise click.UsageError(f"--{name} {why}; leave out {other.opts[0]}")


def uris_of(library: Library) -> set[str]:
    """Where the videos of a library lie, that nothing is written over them."""
    return set(library.videos().column("uri").to_pylist())


def say(text: str) -> None:
    """A line for people, on stderr."""
    click.echo(one_line(text), err=True)


def confirmed(question: str, otherwise: str, does: str) -> bool:
    """Whether somebody says yes; where not, it is said what that leaves.

    Args:
        otherwise: as 'nothing was erased'; does: what --yes does without asking, as 'erases'.

    Raises:
        click.Abort: Ctrl-C, or nobody is there who could answer.
    """
    try:
        yes = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # the line of the question ends
        say(f"{otherwise}; --yes {does} without asking")
        raise
    if not yes:
        say(otherwise)
    return yes


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def print_data(text: str, nl: bool = True) -> None:
    """CSV or JSON on stdout: for programs, so in UTF-8 as in files, whatever a terminal is set to."""
    # What stands in for stdout within Python, as StringIO, has no encoding and takes text alone.
    is_utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    click.echo(text if is_utf8 else text.encode(), nl=nl)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool) -> None:
    """Rows on stdout: an array of objects, or aligned columns."""
    if as_json:
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        print_data(json.dumps(objects, indent=1, ensure_ascii=False))
        return
    text = [[one_line(str(cell)) if cell is not None else "" for cell in row] for row in rows]
    widths = [max([cells(name), *(cells(row[i]) for row in text)]) for i, name in enumerate(columns)]
    for line in [list(columns), *text]:
        click.echo("  ".join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip())


json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else.")
