"""The command that finds settings for indexing: tune."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from panorama.cli.common import json_option, opened, print_rows, say
from panorama.library import open_library
from panorama.profile import SETTING
from panorama.tune import Trial, TuneReport, tune

COLUMNS = ["looks/s", "side", "crops", "predicted frames/s", "measured frames/s", "agreement"]


def _row(trial: Trial) -> list[object]:
    s = trial.settings
    speeds = [round(trial.predicted), round(trial.measured)]
    return [s.samples_per_second, s.proposal_side, s.crops_per_track, *speeds, round(trial.agreement, 3)]


def _print(report: TuneReport, as_json: bool) -> None:
    if as_json:
        facts = asdict(report)
        facts["profile"] = report.profile.as_json()
        click.echo(json.dumps(facts, indent=1))
        return
    rows = [_row(trial) for trial in (report.densest, *report.trials)]
    print_rows(COLUMNS, rows, as_json=False)
    total = sum(report.stage_seconds.values())
    shares = ", ".join(f"{name} {spent / total:.0%}" for name, spent in report.stage_seconds.items())
    click.echo(f"predicted shares of the chosen setting: {shares}")
    click.echo(f"chosen: {report.profile.describe()}")


@click.command("tune")
@click.argument("paths", nargs=-1)
@click.option("--agreement", type=float, default=0.9, show_default=True, help="Least F1 against the densest.")
@click.option("--seconds", type=float, default=20.0, show_default=True, help="Length of each excerpt.")
@click.option("--videos", type=int, default=3, show_default=True, help="How many videos the sample is of.")
@click.option("--dry-run", is_flag=True, help="Print, and keep nothing.")
@click.option("--reset", is_flag=True, help="Forget the library's profile.")
@json_option
@click.pass_context
def tune_command(
    ctx: click.Context,
    paths: tuple[str, ...],
    agreement: float,
    seconds: float,
    videos: int,
    dry_run: bool,
    reset: bool,
    as_json: bool,
) -> None:
    """Measure a sample of footage on this machine, and set how `panorama index` looks at videos.

    The library keeps what was found: `index` uses it from then on where none of --fps, --every and --quick is
    given. Frames a second are those of the sample, models loaded.
    """
    if reset == bool(paths):
        raise click.UsageError("name videos or folders to take a sample of, or give --reset alone")
    library = opened(ctx, may_be_new=True)
    if reset:
        if library.exists:
            library.put_setting(SETTING, None)
        say("index uses its defaults again")
        return

    def tell(trial: Trial) -> None:
        say(
            f"tried    {trial.settings.samples_per_second:g} looks a second, "
            f"{trial.settings.proposal_side} pixels, {trial.settings.crops_per_track} crops: "
            f"{trial.measured:.0f} frames/s, "
            f"agreement {trial.agreement:.2f}"
        )

    report = tune(library, list(paths), least=agreement, seconds=seconds, videos=videos, on_trial=tell)
    _print(report, as_json)
    if not dry_run:
        open_library(library.path, create=True).put_setting(SETTING, report.profile.as_json())
        say("the library keeps this profile; `panorama index` uses it")
