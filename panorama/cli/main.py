"""The command line's words come in; one command runs, and its exit status or one error message goes out."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from panorama import waits
from panorama.cli.given import FilePath
from panorama.cli.memory import want_of_memory
from panorama.commands import command, using
from panorama.errors import PanoramaError, near, paths_told
from panorama.lines import one_line
from panorama.stopping import stopping_unwinds

INTERRUPTED = 130
FAILED = 1
UNREAD = 141
"""The exit status after SIGPIPE: the reader of stdout left before it had everything."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_COMMANDS = {
    "index": ("indexing", "Index videos: files, folders or globs."),
    "register": ("album", "Register an entity by example images."),
    "query": ("asking", "Answer a question in SQL: rows, contact sheets, clips, review pages."),
    "entities": ("album", "List the registered entities."),
    "exemplars": ("album", "List or remove the example pictures of an entity."),
    "rename": ("album", "Rename an entity."),
    "drop": ("album", "Unregister entities."),
    "forget": ("album", "Erase an entity for good."),
    "zones": ("zones", "Zones and lines of cameras: add, list, show, rename, move, drop, import, export."),
    "tune": ("tuning", "Choose settings for indexing on a sample of your footage."),
    "videos": ("videos", "List the videos of the library."),
    "clock": ("videos", "Show or set when videos were recorded, and by which camera."),
    "remove": ("videos", "Take videos out of the library."),
    "info": ("indexing", "Show what the library holds."),
    "compact": ("indexing", "Merge many small data files into few large ones."),
    "verify": ("asking", "Compare two pictures: do they show the same entity?"),
    "why": ("why", "Explain why a track was accepted or not, with a picture."),
    "models": ("modelling", "List the models and their number formats."),
    "calibrate": (
        "modelling",
        "Set the accept, uncertain and reject bands from the library's own tracks.",
    ),
    "evaluate": ("evaluating", "Measure answers against ground truth, or models on labelled pictures."),
    "train": ("training", "Train a model from a recipe, or fine-tune the embedder on your own data."),
    "demo": ("demo", "Index, register and query a sample archive, or a video of yours."),
}
"""Command -> its module in this folder and its summary, so that `--help` need not load every module."""

OF_ITS_OWN = "demo"
"""The command that creates its own library and accepts none."""


_ELSEWHERE = {
    "list": ("videos", "entities"),
    "ls": ("videos", "entities"),
    "show": ("info", "videos", "entities"),
    "status": ("info",),
    "search": ("query",),
    "find": ("query",),
    "select": ("query",),
    "export": ("query --out FILE",),
    "add": ("index", "register"),
    "delete": ("remove", "drop", "forget"),
    "rm": ("remove", "drop", "forget"),
}
"""Words of other programs -> the commands that do that here."""

_TAKE_AWAY = ("drop", "forget", "remove")
"""Commands that delete something; they are suggested only for what is nearly their name."""

_WORDS = "panorama.words"
"""Key of the command line's words in the context: click tells only the first letter of an unknown option."""


class ReaderGoneError(Exception):
    """The reader of our output (head, less) has left; this is not an error."""


class Commands(click.Group):
    """Loads a command's module when the command is used."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise ReaderGoneError from exc  # click itself would exit with status 1

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"panorama.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_command")
        for taking in (command, *getattr(command, "commands", {}).values()):
            own = {parameter.name for parameter in taking.params}
            taking.params += [option for option in _shared_options() if option.name not in own]
        if name == OF_ITS_OWN:
            for option in command.params:
                if isinstance(option, click.Option) and option.name == "library":
                    option.hidden = True
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            raise click.UsageError(_no_command(name), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


def _no_command(name: str) -> str:
    """The message for a word that is no command: commands of its meaning, else of a similar name."""
    see = "See: panorama --help"
    if meant := _ELSEWHERE.get(name.lower()):
        commands = [f"panorama {words}: {_COMMANDS[words.split()[0]][1]}" for words in meant]
        return "\n  ".join([f"No command {name!r}. For that there is:", *commands]) + f"\n{see}"
    nearly = difflib.get_close_matches(name.lower(), _TAKE_AWAY, cutoff=0.8)
    choices = [known for known in _COMMANDS if known not in _TAKE_AWAY or known in nearly]
    return f"No command {name!r}.{near(name, choices, 0.7)} {see}"


LIBRARY_HELP = "The library's directory. Default: $PANORAMA_LIBRARY, else ./panorama-library."
DEBUG_HELP = "Show the traceback of an error."


def _shared_options() -> list[click.Option]:
    """Options accepted before and after the command; after it takes precedence."""

    def keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            ctx.find_root().ensure_object(dict)[str(option.name)] = value
            if option.name == "library":
                ctx.find_root().with_resource(using(str(value)))

    return [
        click.Option(["--library"], type=FilePath(), help=LIBRARY_HELP, callback=keep, expose_value=False),
        click.Option(["--debug"], is_flag=True, help=DEBUG_HELP, callback=keep, expose_value=False),
    ]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--library", type=FilePath(), help=LIBRARY_HELP)
@click.option("--debug", is_flag=True, help=DEBUG_HELP)
@click.version_option(package_name="panorama-video", prog_name="panorama")
@click.pass_context
def cli(ctx: click.Context, library: str | None, debug: bool) -> None:
    """Ask SQL questions of video archives, for things that no model was trained on.

    \b
    panorama index archive/
    panorama register blue-van van1.jpg van2.jpg
    panorama query "SELECT frames WHERE entity = 'blue-van'"
    """
    ctx.ensure_object(dict)
    ctx.obj["library"] = library
    ctx.obj["debug"] = debug
    ctx.with_resource(using(library))  # also for messages between calls of the API


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(run({}))


def _tell_wait(what: str) -> None:
    click.echo(one_line(f"{what}; waiting for it"), err=True)


def run(state: dict[str, Any]) -> int:
    """Run the command line; returns its exit status.

    Args:
        state: an empty dict; it receives the values of the options before the command.
    """
    # OpenCV's own remarks on a damaged picture are not messages of ours.
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")
    try:
        with _interrupts_raised(), stopping_unwinds(), paths_told(), waits.told_to(_tell_wait):
            status = cli.main(standalone_mode=False, prog_name="panorama", obj=state)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("panorama: interrupted", err=True)
        status = INTERRUPTED
    except click.ClickException as exc:
        (_of_a_name(exc) or exc).show()
        status = exc.exit_code
    except PanoramaError as exc:
        status = _report(exc, exc.exit_status, state)
    except (BrokenPipeError, ReaderGoneError):
        _drop_output()
        status = UNREAD
    except OSError as exc:
        if exc.errno in NO_ROOM and exc.filename is None:
            # Errors in the library's own files have classes of their own, so this is stdout going to a file.
            _drop_output()
            told = f"the output cannot be written: {exc.strerror}; free some space and try again"
            click.echo(f"OSError: {told}", err=True)
            status = FAILED
        else:
            status = _report(exc, FAILED, state)
    except Exception as exc:
        status = _report(exc, FAILED, state)
    return status if isinstance(status, int) else 0


def _of_a_name(exc: click.ClickException) -> click.UsageError | None:
    """A clearer error if click took a name for options: how to write such a name. None for other errors."""
    if not isinstance(exc, click.NoSuchOption) or exc.ctx is None:
        return None
    ctx, option = exc.ctx, exc.option_name
    words = [word for word in ctx.meta.get(_WORDS, ()) if _is_of(option, word)]
    takes_names = any(isinstance(taken, click.Argument) for taken in ctx.command.params)
    if not words or not takes_names:
        return None
    with using(_library_of(ctx.meta[_WORDS])):
        example = command(*ctx.command_path.split()[1:], "--", words[0])
    told = f"{exc.format_message().rstrip('.')}. Put a name that begins with a dash after --, as in:"
    return click.UsageError(one_line(f"{told} {example}"), ctx)


def _library_of(words: Sequence[str]) -> str | None:
    """The last library in the command line: click reports an unknown option before it handles --library."""
    options = words[: words.index("--")] if "--" in words else words
    found = None
    for word, behind in zip(options, [*options[1:], None], strict=True):
        name, sign, value = word.partition("=")
        if name == "--library":
            found = value if sign else behind
    return found


def _is_of(option: str, word: str) -> bool:
    """Whether the unknown option comes from a word that may be a name."""
    if not option.startswith("--"):
        return re.match("-[^-]", word) is not None and option[1:] in word
    # With two dashes it is a misspelled option, unless it looks like a file or is one.
    return word.startswith(option) and ("." in word or os.path.lexists(word))


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Make Ctrl-C raise KeyboardInterrupt, so that commands clean up; before, it ends the process at once.

    By a function of ours: the process ends, so it waits for no import.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _drop_output() -> None:
    """Discard what Python still buffers for stdout, so that flushing at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(exc: Exception, status: int, state: dict[str, Any]) -> int:
    exc = want_of_memory(exc) or exc
    if state.get("debug"):
        traceback.print_exception(exc)
        return status
    told = f"{type(exc).__name__}: {exc}"
    click.echo("\n".join(map(one_line, told.split("\n"))), err=True)
    if not isinstance(exc, PanoramaError):
        click.echo(
            "This is a defect in Panorama. Run again with `panorama --debug ...` and report it.", err=True
        )
    return status
