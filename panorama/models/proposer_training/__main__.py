"""A command line with the data folder comes in; a folder with a newly trained proposer goes out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from panorama.content import content_dir
from panorama.errors import PanoramaError
from panorama.models.interrupts import INTERRUPTED, refuse_trained, training_in
from panorama.models.proposer import load_proposer
from panorama.models.proposer_training.evaluate import report
from panorama.models.proposer_training.export import export_model, measure_ranges
from panorama.models.proposer_training.loop import train
from panorama.models.training.own_process import keep_freed_memory
from panorama.models.weights import MODEL, RECIPE, read_recipe


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Train by a recipe, write the model folder OUT/model and judge it; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m panorama.models.proposer_training", description="Train the region proposer."
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with boxes/, images/, video/, teachers/"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="log, cache, checkpoints and the model folder"
    )
    parser.add_argument("--recipe", type=Path, help="default: that of the shipped model")
    parser.add_argument("--start", help="a proposer of the same shape to begin with; default: random weights")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: CUDA where there is one")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    parser.add_argument(
        "--judge", action="store_true", help="only judge: --out/model, or the shipped one without it"
    )
    parser.add_argument("--quiet", action="store_true", help="do not judge what was trained")
    asked = parser.parse_args(arguments)
    recipe = asked.recipe or content_dir("embeddings") / "proposer" / RECIPE
    folder = asked.out / MODEL
    try:
        if not asked.judge:
            if not asked.resume:
                refuse_trained(asked.out)
            keep_freed_memory()
            plan, text = read_recipe(recipe), recipe.read_text(encoding="utf-8")
            with training_in(asked.out, _say):
                train(plan, asked.data, asked.out, asked.resume, asked.start, asked.device, _say)
                measure_ranges(export_model(asked.out, text), asked.data, asked.device, _say)
            if asked.quiet:
                return 0
        proposer = load_proposer(str(folder) if folder.is_dir() else None)
        print(json.dumps(report(asked.data, proposer.propose), indent=2))
    except PanoramaError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
