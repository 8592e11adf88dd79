"""The group of all commands, and what becomes of an error: one message on stderr and an exit status."""

from __future__ import annotations

import sys
import traceback

import click

from panorama.errors import PanoramaError

INTERRUPTED = 130
FAILED = 1

_MODULES = {
    "index": "indexing",
    "videos": "indexing",
    "remove": "indexing",
    "info": "indexing",
    "compact": "indexing",
    "register": "album",
    "entities": "album",
    "exemplars": "album",
    "rename": "album",
    "drop": "album",
    "forget": "album",
    "query": "asking",
    "verify": "asking",
    "demo": "demo",
    "evaluate": "modelling",
    "calibrate": "modelling",
    "train": "modelling",
    "models": "modelling",
}
"""Which file of this folder holds which command: `panorama --help` must not wait for torch to load."""


class Commands(click.Group):
    """Loads a command's file when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _MODULES:
            return None
        module = __import__(f"panorama.cli.{_MODULES[name]}", fromlist=[name])
        command: click.Command = getattr(module, f"{name}_command")
        return command


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
