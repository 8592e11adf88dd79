"""Print what each part of the embedder's training contributes, by short trainings that leave one part out.

    python tests/bench/ablations.py --footage ../shared/footage --work WORK --steps 400 --threads 1

"All parts" is the shipped recipe in embeddings/, with fewer steps and small pictures. Every variant sees the
same views in the same order and starts from the same random weights; one row has another seed and shows how
much that alone changes. All are judged as in the model's card: retrieval among classes never trained on, with
the learned part alone. So short a training shows which parts help early, not how good the finished network
is. The parts of deciding, such as colour and cohort, need no training: see `deciding.py`. The views are made
once and kept in WORK, and so is every score: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import torch
from measure import say, table
from torch import Tensor
from torch.nn import functional as F

from panorama.content import content_dir
from panorama.models.network import Trunk
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.bank import BankPlan, build_bank
from panorama.models.training.heldout import held_out_pictures, make_measure
from panorama.models.training.loop import Lessons, Run, Settings, run_training
from panorama.models.training.sources import gather
from panorama.models.training.teacher import LiteTeacher
from panorama.models.weights import read_recipe
from panorama.training import frames_of

Measure = Callable[[Trunk], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Variant:
    """What a row changes of the recipe.

    Attributes:
        loss: weights of its [training.loss].
        seed: of first weights and of the order of the views, where it is another one.
        blank_proxies: proxies begin at random, not at the means of the teacher's features.
    """

    loss: dict[str, float] = field(default_factory=dict)
    seed: int | None = None
    blank_proxies: bool = False

    def settings(self, training: dict[str, Any]) -> Settings:
        """The recipe's [training] table with this row's changes."""
        return Settings.of({**training, "loss": {**training["loss"], **self.loss}}, seed=self.seed)


ALONE = {"imitate": 0.0, "relate": 0.0, "local": 0.0, "identify": 1.0}

VARIANTS: dict[str, Variant] = {
    "all parts": Variant(),
    "all parts, another seed": Variant(seed=1),
    "no distillation: proxies alone": Variant(ALONE),
    "no teacher at all: such proxies, begun at random": Variant(ALONE, blank_proxies=True),
    "no proxies": Variant({"identify": 0.0}),
    "no imitation of vectors": Variant({"imitate": 0.0}),
    "no relations within the batch": Variant({"relate": 0.0}),
    "no maps": Variant({"local": 0.0}),
    "the deepest exit alone is trained": Variant({"shallow": 0.0}),
    "shallow exits imitate the deepest exit too": Variant({"deep": 0.3}),
}
"""The last row adds a part that the recipe does without; all others take one away."""


class Deepest(Trunk):
    """A trunk whose exits are not added up: what the deepest one is worth by itself."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return [F.normalize(list(self.stages_out(x))[-1][0], dim=1)]


@dataclass(frozen=True, slots=True)
class Bench:
    """What all variants share."""

    lessons: Lessons
    dim: int
    training: dict[str, Any]
    mean: Tensor
    std: Tensor
    measure: Measure

    def scores(self, variant: Variant, out: Path) -> dict[str, float]:
        """Train one variant and judge it: map_exit_i, r_at_1_exit_i, and own_ of the deepest one alone."""
        settings = variant.settings(self.training)
        run = Run(self.lessons, self.dim, settings, "cpu")
        if variant.blank_proxies:
            proxies = run.scaffold.proxies
            drawn = torch.Generator().manual_seed(settings.seed)
            with torch.no_grad():
                proxies.copy_(F.normalize(torch.randn(proxies.shape, generator=drawn), dim=1))
        out.mkdir(parents=True, exist_ok=True)
        began = time.process_time()
        run_training(run, out, self.mean, self.std, None)
        seconds = time.process_time() - began
        own = Deepest(self.dim)
        own.load_state_dict(run.average.state_dict())
        alone = {f"own_{key}": value for key, value in self.measure(own).items()}
        return {**self.measure(run.average), **alone, "core_seconds": seconds}


def prepare(footage: Path, work: Path, steps: int, side: int, threads: int) -> Bench:
    """The recipe of the shipped network on a short schedule, one view a picture."""
    plan = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
    data = {"footage": footage}
    items = gather(plan["source"], data, frames_of)
    teacher = partial(LiteTeacher, footage / plan["teacher"]["path"])
    say(f"{len(items)} pictures; views go to {work / 'bank'}")
    build_bank(items, teacher, work / "bank", BankPlan(**{**plan["bank"], "rounds": 1}), threads=threads)
    dim = int(plan["network"]["learned_dim"])
    training = {
        **plan["training"],
        "steps": steps,
        "decay": steps // 2,
        "sides": [[0, side]],
    }
    preprocess = plan["preprocess"]
    mean, std = torch.tensor(preprocess["mean"]), torch.tensor(preprocess["std"])
    held = held_out_pictures(plan["source"], data)
    measure = make_measure(held, mean, std, int(preprocess["side"]))
    if measure is None:
        raise SystemExit(f"{footage} holds no class that is kept from training: nothing can be judged")
    lessons = Lessons.read(work / "bank", dim, float(plan["teacher"]["shrinkage"]))
    return Bench(lessons, dim, training, mean, std, measure)


def print_scores(scores: dict[str, dict[str, float]]) -> None:
    """One row a variant: mAP / R@1 by exit, of the deepest alone, and the training's processor time."""

    def pair(row: dict[str, float], prefix: str, exit: int) -> str:
        return f"{row[f'{prefix}map_exit_{exit}']:.3f} / {row[f'{prefix}r_at_1_exit_{exit}']:.3f}"

    table(
        "Retrieval among classes never trained on, mAP / R@1",
        ["", "exit 1", "exit 2", "exit 3", "exit 3, not added up", "core seconds"],
        [
            [
                name,
                *(pair(row, "", exit) for exit in (1, 2, 3)),
                pair(row, "own_", 1),
                f"{row['core_seconds']:.0f}",
            ]
            for name, row in scores.items()
        ],
    )


def main() -> None:
    """Train and judge every variant that WORK holds no score of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="a folder that keeps views and scores")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--side", type=int, default=64, help="of the pictures, in pixels")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    cv2.setNumThreads(given.threads)
    torch.set_flush_denormal(True)
    bench = prepare(given.footage, given.work, given.steps, given.side, given.threads)
    kept = given.work / f"scores-{given.steps}-{given.side}.json"
    scores: dict[str, dict[str, float]] = json.loads(kept.read_text()) if kept.is_file() else {}
    for name in given.only:
        if name not in scores:
            say(name)
            scores[name] = bench.scores(VARIANTS[name], given.work / f"variant-{list(VARIANTS).index(name)}")
            kept.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    print_scores({name: scores[name] for name in given.only})


if __name__ == "__main__":
    main()
