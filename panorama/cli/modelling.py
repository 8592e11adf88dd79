"""Commands about models: models, calibrate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import click
from click.core import ParameterSource

from panorama.answering.calibration import calibration_text
from panorama.cli.common import STDOUT, json_option, opened, print_data, print_rows, say, stands_alone
from panorama.cli.given import FilePath
from panorama.content import DEFAULT_EMBEDDER, DEFAULT_PROPOSER
from panorama.errors import ModelError
from panorama.judging.calibrate import PRECISION, Calibrated, calibrate, reset_calibration
from panorama.lines import counted
from panorama.models.base import Embedder, Proposer, network_facts
from panorama.models.registry import embedder_names, late_embedder, late_proposer, proposer_names

FACTS = ("precision", "device", "why")
"""The facts that `models` prints about a network."""


TOLD_ENTITIES = 20
"""Most entities printed with the change of their accepted tracks; those that change most come first."""

CALIBRATION_COLUMNS = (
    *("exit", "low", "high", "border", "examples", "recurring"),
    *("same", "stranger", "accepted", "false"),
)

NOT_TAKEN = 3
"""The exit status if bands were measured but not applied."""


@click.command("models")
@json_option
def models_command(as_json: bool) -> None:
    """List the models: embedders that `panorama index --model` takes, and what `--proposer` takes.

    Each is loaded, to tell the number format and the device that its network runs in here, and why not int8.
    """
    found: list[tuple[str, Callable[[], Embedder | Proposer]]] = [
        ("embedder", partial(late_embedder, name)) for name in embedder_names()
    ]
    rows = []
    found += [("proposer", partial(late_proposer, name)) for name in proposer_names()]
    for kind, load in found:
        model = load()
        try:
            facts = network_facts(model) or {}
        except ModelError as exc:
            facts = {"why": str(exc)}  # still list the other models
        default = model.name in (DEFAULT_EMBEDDER, DEFAULT_PROPOSER)
        shown = default if as_json else "yes" if default else None
        rows.append([model.name, kind, shown, *(facts.get(name) or None for name in FACTS)])
    print_rows(["model", "kind", "default", *FACTS], rows, as_json)


@click.command("calibrate")
@click.option("--precision", type=float, default=PRECISION, show_default=True, help="Precision to aim at.")
@click.option("--recall", type=float, help="Aim at this recall instead.")
@click.option(
    "--slack",
    type=float,
    default=0.0,
    show_default=True,
    help="Widen the uncertain band on both sides by this much (0 to 0.5): less is accepted, and rejected.",
)
@click.option(
    "--out",
    type=FilePath(dir_okay=False),
    help="Also write the bands to this file, in the form that models ship; with - only they go to stdout.",
)
@click.option("--anyway", is_flag=True, help="Apply the bands even if the checks speak against them.")
@click.option("--reset", is_flag=True, help="Go back to the bands that the model ships with.")
@json_option
@click.pass_context
def calibrate_command(
    ctx: click.Context,
    precision: float,
    recall: float | None,
    slack: float,
    out: str | None,
    anyway: bool,
    reset: bool,
    as_json: bool,
) -> None:
    """Set the accept, uncertain and reject bands from the library's own tracks.

    The new bands are not applied, and the exit status is 3, if they would rest on things that return (which
    the tracks cannot tell apart from strangers), if no example's own track would be accepted (or, by --slack,
    few of them), or if most of what the model's bands accept for the registered entities would be lost.
    """
    if reset:
        stands_alone(ctx, "reset", "goes back to the model's calibration")
        reset_calibration(opened(ctx))
        say("the model's own calibration applies again")
        return
    if recall is not None and ctx.get_parameter_source("precision") == ParameterSource.COMMANDLINE:
        raise click.UsageError("give one target: --precision or --recall")
    if out == STDOUT and as_json:
        raise click.UsageError("--json and --out - would both write to stdout; give one of them")
    library = opened(ctx)
    found = calibrate(library, precision, slack, recall, anyway, None if out == STDOUT else out)
    for line in dict.fromkeys(line for r in found.exits for line in r.warnings):
        say(line)
    _tell_changes(found)
    if out == STDOUT:
        if found.taken:
            print_data(calibration_text([r.calibration for r in found.exits]))
    else:
        if out is not None and found.taken:
            say(f"written to {out}")
        _print_exits(found, as_json)
    if not found.taken:
        ctx.exit(NOT_TAKEN)


def _print_exits(found: Calibrated, as_json: bool) -> None:
    rows = [
        [r.exit, *(round(x, 3) for x in (r.calibration.low, r.calibration.high)),
         _rounded(r.border), r.examples, r.recurring,
         *(_rounded(x) for x in (r.same, r.stranger, r.accepted, r.false_accepted))]
        for r in found.exits
    ]  # fmt: skip
    print_rows(CALIBRATION_COLUMNS, rows, as_json)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _tell_changes(found: Calibrated) -> None:
    """Print how the bands change the entities' accepted tracks, and what speaks against applying them."""
    now = "now" if found.taken else "it would be"
    changed = [c for c in found.changes if c.before != c.after]
    changed.sort(key=lambda c: -abs(c.after - c.before))
    for one in changed[:TOLD_ENTITIES]:
        say(f"{one.entity}: {counted(one.before, 'track')} accepted before, {now} {one.after}")
    if len(changed) > TOLD_ENTITIES:
        say(f"and so on, for {counted(len(changed) - TOLD_ENTITIES, 'more entity', 'more entities')}")
    if found.changes:
        before, after = (sum(getattr(c, when) for c in found.changes) for when in ("before", "after"))
        entities = counted(len(found.changes), "registered entity", "registered entities")
        say(f"{entities}: {counted(before, 'track')} accepted before, {now} {after}")
    for line in found.doubts:
        say(line)
    if not found.taken:
        say("the bands are unchanged; choose another target, or apply these bands with --anyway")
