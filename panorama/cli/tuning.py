"""The command `tune`: try settings on a sample of footage, and keep the best for `index`."""

from __future__ import annotations

import json

import click

from panorama.cli.common import json_option, opened, print_data, say, stands_alone
from panorama.commands import command
from panorama.indexing.profile import remember
from panorama.indexing.settings import IngestSettings
from panorama.opening import open_library
from panorama.tune import SAMPLE_SECONDS, tune


@click.command("tune")
@click.argument("paths", nargs=-1)
@click.option(
    "--loss",
    type=float,
    default=None,
    help="Largest share of the densest setting's answers to lose. Default: what the default settings lose.",
)
@click.option(
    "--speed", type=float, default=None, help="Reach this many times real time, losing as little as possible."
)
@click.option("--seconds", default=SAMPLE_SECONDS, show_default=True, help="Length of the sample of footage.")
@click.option("--dry-run", is_flag=True, help="Show the choice without keeping it.")
@click.option("--reset", is_flag=True, help="Forget the choice and index with the defaults again.")
@json_option
@click.pass_context
def tune_command(
    ctx: click.Context,
    paths: tuple[str, ...],
    loss: float | None,
    speed: float | None,
    seconds: float,
    dry_run: bool,
    reset: bool,
    as_json: bool,
) -> None:
    """Try settings on a sample of your footage and keep the cheapest that answer as well as the defaults.

    \b
    panorama tune archive/
    panorama tune archive/ --loss 0.02
    panorama tune archive/ --speed 30
    panorama tune --reset

    `panorama index` uses the choice for new videos. Videos that are already indexed stay as they are until
    `panorama index --redo`.
    """
    if reset == bool(paths):
        raise click.UsageError("give PATHS to try settings on, or --reset")
    if reset:
        stands_alone(ctx, "reset", "forgets the profile")
    library = opened(ctx, may_be_new=not reset)
    if reset:
        told = "the profile is removed" if remember(library, None) else "there is no profile"
        say(f"{told}; new videos are indexed with the default settings")
        return
    if library.exists and not dry_run:
        library.check_writable()  # now, not after the minutes that tuning takes
    report = tune(library, list(paths), seconds=seconds, most_loss=loss, least_speed=speed, tell=say)
    if as_json:
        print_data(json.dumps(report.as_dict(), indent=1, ensure_ascii=False))
        if report.doubt is not None:
            say(report.doubt)
    else:
        for line in report.lines():
            click.echo(line)
    if not dry_run:
        with open_library(library.path, create=True) as kept:
            remember(kept, report.profile)
        chosen = "the default" if report.profile.settings == IngestSettings() else "the choice"
        say(f"kept: `{command('index')}` uses {chosen} for new videos, with --redo also for indexed ones")
