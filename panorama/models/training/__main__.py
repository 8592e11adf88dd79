"""A command line comes in; a trained model's folder goes out.

    python -m panorama.models.training RECIPE.toml --data NAME=FOLDER --out FOLDER

`panorama train` does the same and also reads clips; this command refuses sources of kind 'clips'.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from panorama.errors import PanoramaError, UsageError
from panorama.models.interrupts import INTERRUPTED, refuse_trained, training_in
from panorama.models.training.train import train


def parse_data(pairs: list[str]) -> dict[str, Path]:
    """NAME=FOLDER pairs as a mapping.

    Raises:
        UsageError: a pair is incomplete, or its folder does not exist.
    """
    folders = {}
    for pair in pairs:
        name, sign, folder = pair.partition("=")
        if not (sign and name and folder):
            raise UsageError(f"--data is NAME=FOLDER, got {pair!r}")
        if not Path(folder).is_dir():
            raise UsageError(f"--data {name}: there is no folder {folder!r}")
        folders[name] = Path(folder)
    return folders


def main(arguments: list[str] | None = None) -> int:
    """Train; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m panorama.models.training", description="Train an embedder."
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args(arguments)
    try:
        if not given.resume:
            refuse_trained(given.out)
        with training_in(given.out, lambda line: print(line, file=sys.stderr)):
            result = train(
                given.recipe,
                parse_data(given.data),
                given.out,
                resume=given.resume,
                device=given.device,
                steps=given.steps,
                seed=given.seed,
                minutes=given.minutes,
                threads=given.threads,
            )
    except PanoramaError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
