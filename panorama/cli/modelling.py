"""Commands about models: models, calibrate."""

from __future__ import annotations

from pathlib import Path

import click

from panorama.calibrate import calibrate
from panorama.calibration import SETTING, write_calibration
from panorama.cli.common import json_option, opened, print_rows, say
from panorama.models.registry import DEFAULT_EMBEDDER, embedder_names
from panorama.promises import SETTING as EVIDENCE


@click.command("models")
@json_option
def models_command(as_json: bool) -> None:
    """List the embedders that `panorama index --model` takes."""
    rows = [[name, "default" if name == DEFAULT_EMBEDDER else ""] for name in embedder_names()]
    print_rows(["model", ""], rows, as_json)


@click.command("calibrate")
@click.option("--precision", type=float, default=0.95, show_default=True, help="What to aim at.")
@click.option("--slack", type=float, default=0.0, show_default=True, help="Widen the uncertain band by this.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write it here as well, as models ship it.")
@click.option("--reset", is_flag=True, help="Go back to the calibration that the model ships with.")
@json_option
@click.pass_context
def calibrate_command(
    ctx: click.Context, precision: float, slack: float, out: str | None, reset: bool, as_json: bool
) -> None:
    """Set the bands of accept, uncertain and reject from the library's own tracks."""
    library = opened(ctx)
    if reset:
        library.put_setting(SETTING + library.embedder.hash, None)
        library.put_setting(EVIDENCE + library.embedder.hash, None)
        say("the model's own calibration applies again")
        return
    reports = calibrate(library, precision, slack)
    if out is not None:
        write_calibration(Path(out), [r.calibration for r in reports])
        say(f"written to {out}")
    columns = ["exit", "low", "high", "examples", "recurrences", "same", "stranger", "accepted", "false"]
    rows = [
        [r.exit, *(round(x, 3) for x in (r.calibration.low, r.calibration.high)), r.examples, r.recurrences,
         *(round(x, 3) for x in (r.same, r.stranger, r.accepted, r.false_accepted))]
        for r in reports
    ]  # fmt: skip
    print_rows(columns, rows, as_json)
