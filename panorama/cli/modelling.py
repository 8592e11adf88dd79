"""Commands about models: models, calibrate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from panorama.calibrate import PRECISION, calibrate, reset_calibration
from panorama.calibration import check_calibration, write_calibration
from panorama.cli.common import json_option, opened, print_rows, say, uris_of
from panorama.content import DEFAULT_EMBEDDER, DEFAULT_PROPOSER
from panorama.errors import ModelError
from panorama.models.base import Embedder, Proposer, network_facts
from panorama.models.registry import embedder_names, late_embedder, late_proposer

FACTS = ("precision", "device", "why")
"""What `models` tells of a network."""


@click.command("models")
@json_option
def models_command(as_json: bool) -> None:
    """List the models: embedders that `panorama index --model` takes, and what proposes regions.

    Each is loaded, to tell the number format and the device that its network runs in here, and why not int8.
    """
    found: list[tuple[str, Callable[[], Embedder | Proposer]]] = [
        ("embedder", partial(late_embedder, name)) for name in embedder_names()
    ]
    rows = []
    for kind, load in [*found, ("proposer", late_proposer)]:
        model = load()
        try:
            facts = network_facts(model) or {}
        except ModelError as exc:
            facts = {"why": str(exc)}  # the others are listed all the same
        default = "yes" if model.name in (DEFAULT_EMBEDDER, DEFAULT_PROPOSER) else ""
        rows.append([model.name, kind, default, *(facts.get(name, "") for name in FACTS)])
    print_rows(["model", "kind", "default", *FACTS], rows, as_json)


@click.command("calibrate")
@click.option("--precision", type=float, default=PRECISION, show_default=True, help="What to aim at.")
@click.option(
    "--recall", type=float, help="Aim at this share of a thing's tracks instead, by examples of it."
)
@click.option("--slack", type=float, default=0.0, show_default=True, help="Widen the uncertain band by this.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write it here as well, as models ship it.")
@click.option("--reset", is_flag=True, help="Go back to the calibration that the model ships with.")
@json_option
@click.pass_context
def calibrate_command(
    ctx: click.Context,
    precision: float,
    recall: float | None,
    slack: float,
    out: str | None,
    reset: bool,
    as_json: bool,
) -> None:
    """Set the bands of accept, uncertain and reject from the library's own tracks."""
    library = opened(ctx)
    if reset:
        given = [
            name
            for name in ("precision", "recall", "slack", "out")
            if ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE
        ]
        if given:
            raise click.UsageError(f"--reset goes back to the model's calibration; leave out --{given[0]}")
        reset_calibration(library)
        say("the model's own calibration applies again")
        return
    if recall is not None and ctx.get_parameter_source("precision") == ParameterSource.COMMANDLINE:
        raise click.UsageError("one target sets the border: --precision or --recall")
    if out is not None:
        check_calibration(Path(out), uris_of(library))
    reports = calibrate(library, precision, slack, recall)
    for line in dict.fromkeys(line for r in reports for line in r.warnings):
        say(line)
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
