"""Commands about models: models, evaluate, calibrate."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from panorama.calibrate import calibrate
from panorama.calibration import SETTING, write_calibration
from panorama.cli.common import json_option, opened, print_rows, say
from panorama.errors import UsageError
from panorama.evaluate import read_truth, score_entities
from panorama.library import Library
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


@click.command("evaluate")
@click.option(
    "--truth", type=click.Path(), help="Truth of the library's album: JSON, entity -> visible, ignore."
)
@click.option("--data", type=click.Path(), help="A folder with images/labels.csv and boxes/boxes.csv.")
@click.option("--seed", type=int, default=0, show_default=True)
@json_option
@click.pass_context
def evaluate_command(
    ctx: click.Context, truth: str | None, data: str | None, seed: int, as_json: bool
) -> None:
    """Measure: F1 and AP of the library's entities, retrieval over unseen classes, recall of proposals."""
    if truth is None and data is None:
        raise click.UsageError("say what to measure: --truth FILE for the answers, --data DIR for the models")
    library = opened(ctx)
    report: dict[str, Any] = {"model": library.embedder.name, "hash": library.embedder.hash[:12]}
    if truth is not None:
        report["entities"] = [asdict(s) for s in score_entities(library, read_truth(Path(truth)))]
    if data is not None:
        report.update(_model_scores(library, Path(data), seed))
    if as_json:
        click.echo(json.dumps(report, indent=1))
    else:
        _print_report(report)


def _model_scores(library: Library, data: Path, seed: int) -> dict[str, Any]:
    from panorama.model_scores import proposals, retrieval

    if not data.is_dir():
        raise UsageError(f"no folder {data}: expected one with images/labels.csv and boxes/boxes.csv")
    found = proposals(library.proposer, data)
    return {
        "retrieval": [asdict(s) for s in retrieval(library.embedder, data, seed)],
        "proposals": {
            "pictures": found.pictures,
            "recall": found.recall.overall,
            "recall_large": found.recall.of_large,
            "milliseconds": found.milliseconds,
        },
    }


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _print_report(report: dict[str, Any]) -> None:
    click.echo(f"model {report['model']} {report['hash']}")
    if entities := report.get("entities"):
        columns = ["entity", "average_precision", "f1", "precision", "recall", "false_rate", "false_frames"]
        rows = [
            [e["entity"], *(_share(e[c]) for c in columns[1:5]), f"{e['false_rate']:.3%}", e["false_frames"]]
            for e in entities
        ]
        known = [[e[c] for e in entities if e[c] is not None] for c in columns[1:5]]
        means = [float(np.mean(values)) if values else None for values in known]
        rate = float(np.mean([e["false_rate"] for e in entities]))
        silent = sum(e["false_frames"] == 0 for e in entities)
        rows.append(["mean", *map(_share, means), f"{rate:.3%}", ""])
        print_rows(columns, rows, False)
        click.echo(f"silent where absent: {silent} of {len(entities)} entities")
    if scores := report.get("retrieval"):
        click.echo(f"retrieval, {scores[0]['pictures']} pictures of {scores[0]['classes']} unseen classes")
        rows = [[s["exit"], f"{s['mean_average_precision']:.3f}", f"{s['recall_at_1']:.3f}",
                 f"{s['pictures_per_second']:.0f}"] for s in scores]  # fmt: skip
        print_rows(["exit", "mAP", "R@1", "pictures/s"], rows, False)
    if found := report.get("proposals"):
        click.echo(
            f"proposals on {found['pictures']} pictures: recall {found['recall']:.3f}, of boxes from 1 % of "
            f"the picture {found['recall_large']:.3f}, {found['milliseconds']:.1f} ms a picture"
        )
