"""Command `evaluate`: a library, ground truth and data folders come in; tables of measurements go out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from panorama.cli.common import json_option, opened, print_data, print_rows, say
from panorama.cli.given import FilePath
from panorama.errors import UsageError
from panorama.judging.evaluate import read_truth, score_entities, unjudged
from panorama.library import Library
from panorama.lines import counted


@click.command("evaluate")
@click.option("--truth", type=FilePath(), help="JSON file that says where each entity is visible.")
@click.option(
    "--data",
    type=FilePath(),
    help="Folder with images/labels.csv (file, class), boxes/boxes.csv (file, x1, y1, x2, y2), or both.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The first random seed.")
@click.option(
    "--seeds", type=click.IntRange(1), default=3, show_default=True, help="How many seeds to average over."
)
@json_option
@click.pass_context
def evaluate_command(
    ctx: click.Context, truth: str | None, data: str | None, seed: int, seeds: int, as_json: bool
) -> None:
    """Measure how good the library's answers are, or how good the models are on labelled pictures.

    --truth prints F1 and average precision of each entity, false positive frames, how often the library stays
    silent when an entity's own videos are left out, the calibration error, and the cost and accuracy of the
    cascade.

    --data prints retrieval (mAP, R@1) and open-set rejection from labelled pictures, and the proposer's
    recall from boxes. Random draws are repeated with several seeds; mean and spread are printed. Where all
    pictures are taken, nothing is drawn, and there is no spread.
    """
    if truth is None and data is None:
        raise click.UsageError("say what to measure: --truth FILE for the answers, --data DIR for the models")
    library = opened(ctx)
    report: dict[str, Any] = {"model": library.embedder.name, "hash": library.embedder.hash[:12]}
    if truth is not None:
        report.update(_answers(library, Path(truth)))
    if data is not None:
        report.update(_models(library, Path(data), range(seed, seed + seeds)))
    print_data(json.dumps(report, indent=1)) if as_json else _print(report)


def _answers(library: Library, path: Path) -> dict[str, Any]:
    from panorama.judging import deciding

    truths = read_truth(path)
    for line in unjudged(library, truths):
        say(line)
    scores = score_entities(library, truths)
    for line in dict.fromkeys(line for score in scores for line in score.answer_warnings):
        say(line)
    return {
        "entities": [asdict(s) for s in scores],
        "absent": asdict(deciding.own_clips_out(library, truths)),
        "absent_then": asdict(deciding.own_times_out(library, truths)),
        "calibration": asdict(deciding.calibration_error(library, truths)),
        "cascade": asdict(deciding.cascade_cost(library, truths)),
    }


def _models(library: Library, data: Path, seeds: Sequence[int]) -> dict[str, Any]:
    from panorama.judging import deciding
    from panorama.judging import model_scores as scores

    if not data.is_dir():
        raise UsageError(f"no folder {data}: expected one with {scores.FORMS}")
    labels, boxes = (data / name for name in (scores.LABELS, scores.BOXES))
    if not labels.is_file() and not boxes.is_file():
        raise UsageError(f"{data} has nothing to measure with: expected {scores.FORMS}")
    report: dict[str, Any] = {"seeds": list(seeds)}
    if labels.is_file():
        judged = scores.judged_pictures(library.embedder, data)
        for line in judged.remarks:
            say(line)
        # Where every seed takes all pictures, a spread of zero would look like certainty.
        drawn = seeds if judged.retrieval_is_drawn else seeds[:1]
        asked_by = seeds if judged.strangers_are_drawn else seeds[:1]
        asked = (scores.stranger_pictures(judged, seed) for seed in asked_by)
        report |= {
            "unseen": judged.unseen,
            "retrieval": [[asdict(s) for s in scores.retrieval(library.embedder, judged, n)] for n in drawn],
            "strangers": [asdict(deciding.strangers(library, pictures)) for pictures in asked],
        }
    if boxes.is_file():
        found = scores.proposals(library.proposer, data)
        report["proposals"] = {
            "pictures": found.pictures,
            "recall": found.recall.overall,
            "recall_large": found.recall.of_large,
            "milliseconds": found.milliseconds,
        }
    return report


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.3%}"


def _spread(values: Sequence[float]) -> str:
    """The mean and, for several values, the standard deviation."""
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values):.3f}" if len(values) > 1 else "")


def _print(report: dict[str, Any]) -> None:
    click.echo(f"model {report['model']} {report['hash']}")
    if entities := report.get("entities"):
        _print_entities(entities)
        _print_decisions(report)
    if draws := report.get("retrieval"):
        first = draws[0][0]
        unseen = "unseen classes" if report["unseen"] else "classes"
        click.echo(f"retrieval, {first['pictures']} pictures of {first['classes']} {unseen}")
        rows = []
        for at_exit in zip(*draws, strict=True):
            columns = ("mean_average_precision", "recall_at_1")
            spreads = [_spread([one[column] for one in at_exit]) for column in columns]
            speed = np.mean([one["pictures_per_second"] for one in at_exit])
            rows.append([at_exit[0]["exit"], *spreads, f"{speed:.0f}"])
        print_rows(["exit", "mAP", "R@1", "pictures/s"], rows, False)
        asked = report["strangers"]
        click.echo(
            f"silent about strangers: {_spread([one['silent'] for one in asked])} as a share of"
            f" {asked[0]['pairs']} labelled pictures, each registered alone"
        )
    if found := report.get("proposals"):
        pictures = counted(found["pictures"], "picture")
        click.echo(
            f"proposals on {pictures}: recall {found['recall']:.3f}, "
            f"{found['recall_large']:.3f} for boxes of at least 1 % of the picture, "
            f"{found['milliseconds']:.1f} ms a picture"
        )


def _print_entities(entities: list[dict[str, Any]]) -> None:
    columns = ["entity", "average_precision", "f1", "precision", "recall", "false_rate", "false_frames"]
    rows = [
        [e["entity"], *(_share(e[c]) for c in columns[1:5]), _percent(e["false_rate"]), e["false_frames"]]
        for e in entities
    ]
    known = [[e[c] for e in entities if e[c] is not None] for c in columns[1:6]]
    means = [float(np.mean(values)) if values else None for values in known]
    rows.append(["mean", *map(_share, means[:4]), _percent(means[4]), ""])
    print_rows(columns, rows, False)
    silent = sum(rate == 0 for rate in known[4])
    click.echo(f"silent in videos without the entity: {silent} of {len(known[4])} entities")


def _print_decisions(report: dict[str, Any]) -> None:
    cascade, calibration = report["cascade"], report["calibration"]
    silences = {"absent": "with its own clips taken out", "absent_then": "in these at other times"}
    for kind, told in silences.items():
        asked, share = report[kind]["pairs"], report[kind]["silent"]
        silent = "-" if share is None else round(share * asked)
        click.echo(f"silent {told}: {silent} of {asked} entities")
    click.echo(f"expected calibration error of frame scores: {_share(calibration['error'])}")
    seen = ", ".join(f"exit {i} {share:.1%}" for i, share in enumerate(cascade["survivors"], start=1))
    found = f"F1 {_share(cascade['f1'])}, always deepest {_share(cascade['deepest_f1'])}"
    click.echo(f"cascade: {found}; crops seen: {seen}; {cascade['share']:.1%} of the multiply-adds")
