"""The group of all commands, and what becomes of an error: one message on stderr and an exit status."""

from __future__ import annotations

import importlib
import sys
import traceback

import click

from panorama.errors import PanoramaError

INTERRUPTED = 130
FAILED = 1

_COMMANDS = {
    "index": ("indexing", "Index videos: files, folders or globs."),
    "register": ("album", "Register an entity by example images."),
    "query": ("asking", "Answer SQL; contact sheets and clips of the hits."),
    "entities": ("album", "List the vocabulary."),
    "exemplars": ("album", "List or remove the pictures of an entity."),
    "rename": ("album", "Give an entity another name."),
    "drop": ("album", "Unregister entities."),
    "forget": ("album", "Erase an entity for good."),
    "videos": ("indexing", "List the videos of the library."),
    "remove": ("indexing", "Take videos out of the library."),
    "info": ("indexing", "Say what the library holds."),
    "compact": ("indexing", "Merge many small data files into few large ones."),
    "verify": ("asking", "Say whether two pictures show the same entity."),
    "demo": ("demo", "Index, register and query a sample archive, or a video of yours."),
}
"""Command -> the file of this folder that holds it, and what it does: `--help` must not load them all."""


class Commands(click.Group):
    """Loads a command's file when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"panorama.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--library",
    type=click.Path(file_okay=False),
    help="The library's directory. Default: $PANORAMA_LIBRARY, else ./panorama-library.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
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


def main() -> None:
    """Run the command line and leave with its exit status."""
    try:
        status = cli.main(standalone_mode=False, prog_name="panorama")
    except click.exceptions.Abort:
        click.echo("panorama: interrupted", err=True)
        status = INTERRUPTED
    except KeyboardInterrupt:
        click.echo("panorama: interrupted", err=True)
        status = INTERRUPTED
    except click.ClickException as exc:
        exc.show()
        status = exc.exit_code
    except PanoramaError as exc:
        status = _report(exc, exc.exit_status)
    except BrokenPipeError:
        # The reader of our output has left (head, less): not an error of ours.
        sys.stderr.close()
        status = 0
    except Exception as exc:
        status = _report(exc, FAILED)
    sys.exit(status if isinstance(status, int) else 0)


def _report(exc: Exception, status: int) -> int:
    if "--debug" in sys.argv:
        traceback.print_exception(exc)
        return status
    click.echo(f"{type(exc).__name__}: {exc}", err=True)
    if not isinstance(exc, PanoramaError):
        click.echo(
            "This is a defect in Panorama. Run again with `panorama --debug ...` and report it.", err=True
        )
    return status
