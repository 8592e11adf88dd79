"""A recipe and data folders come in; a folder with checked weights, cohort, log and plot goes out."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from panorama.errors import ModelError
from panorama.models.device import choose_device
from panorama.models.interrupts import CHECKPOINT
from panorama.models.network import Trunk
from panorama.models.training.bank import BankPlan, bank_facts, build_bank, read_shards
from panorama.models.training.begun import UNKNOWN, effective, facts_of, read_metadata, refuse_another
from panorama.models.training.cohort import cohort_pictures
from panorama.models.training.export import color_axes, whiten_heads, write_model
from panorama.models.training.heldout import held_out_pictures, make_measure
from panorama.models.training.loop import LOG, Lessons, Run, Settings, run_training
from panorama.models.training.plot import plot_log
from panorama.models.training.recipe import check_recipe, table_of
from panorama.models.training.sources import Item, ReadFrames, gather
from panorama.models.training.teacher import make_teacher, teacher_digest
from panorama.models.weights import RESULT, open_model, read_recipe
from panorama.whole_files import write_whole

SAMPLE = 2048


class _FlushedDenormals(ContextDecorator):
    """Treat denormal numbers as zero inside this block: they would make training many times slower."""

    def __enter__(self) -> None:
        torch.set_flush_denormal(True)

    def __exit__(self, *_: object) -> None:
        # The setting holds for the whole process: later code needs its small numbers.
        torch.set_flush_denormal(False)


@_FlushedDenormals()
def train(
    recipe: Path,
    data: Mapping[str, Path],
    out: Path,
    *,
    read_frames: ReadFrames | None = None,
    resume: bool = False,
    device: str | None = None,
    steps: int | None = None,
    seed: int | None = None,
    minutes: float | None = None,
    threads: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, float]:
    """Train an embedder by its recipe and write it to `out`, ready for `load_embedder(str(out))`.

    Args:
        recipe: a recipe.toml; with `[start] model = NAME` it fine-tunes that model.
        data: folders by the names that the recipe's sources use.
        read_frames: yields the frames of a clip at a gap in seconds; needed by sources of kind 'clips'.
        resume: continue from the checkpoint in `out`.
        device: as in `choose_device`.
        steps, seed: replace the recipe's.
        minutes: stop after this time and save a checkpoint; `resume` continues.
        threads: CPU threads, and views made at the same time. On a busy computer 1 is the fastest for
            learning, since waiting threads spin.

    Returns:
        What was measured: seconds, steps, and retrieval scores on held-out classes, before_ (at the first
        step, also if resumed) and after_.

    Raises:
        UsageError: the recipe and the data do not go together, or `out` was begun with others.
        ModelError: the recipe is malformed, there is no such device, or `resume` finds no checkpoint that
            fits.
    """
    began = time.monotonic()
    _use_threads(threads)
    plan = read_recipe(recipe)
    check_recipe(plan, recipe)
    settings = Settings.of(plan["training"], steps=steps, seed=seed)
    given = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
    text = effective(recipe, given)
    place = choose_device(device)
    out.mkdir(parents=True, exist_ok=True)

    views = out / "bank"
    items = gather(plan.get("source", []), data, read_frames)
    bank_plan, taught_by = table_of(BankPlan, plan.get("bank", {}), "bank"), teacher_digest(plan, data)
    facts = _training_facts(plan, settings) | bank_facts(items, bank_plan, taught_by)
    if resume:
        _refuse_another(out / CHECKPOINT, facts, say)
    say(f"{len(items)} pictures; views go to {views}")
    build_bank(items, partial(make_teacher, plan, data), views, bank_plan, threads or 2, taught_by)
    run = _begin(plan, views, settings, place, facts)
    mean, std, side = _preprocessing(plan)
    held = held_out_pictures(plan["source"], data)
    if held.copies:
        say(f"left out of what judges, as copies of its other pictures: {held.copies}")
    measure = make_measure(held, mean, std, side)
    if resume:
        run.resume(out)
    else:
        (out / LOG).unlink(missing_ok=True)  # not before: all that may refuse this training has had its say
        if measure is not None:
            run.before = _told("before", measure(run.average))
    count = len(run.lessons.places)
    say(f"{count} views of {run.lessons.count} identities; step {run.step} of {settings.steps}")
    if not run_training(run, out, mean, std, measure, None if minutes is None else began + minutes * 60):
        say(f"stopped at step {run.step}; continue with --resume")
    result = run.before | export(run, text, items, views, out, measure)
    result |= {"seconds": time.monotonic() - began, "steps": run.step}
    return _written(result, out)


def _use_threads(threads: int | None) -> None:
    """Set the threads of torch and OpenCV; None leaves them unchanged."""
    if threads is not None:
        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)


def _training_facts(plan: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """What weights depend on besides the bank; length, saving and measuring may change on resuming."""
    start = plan.get("start", {}).get("model")
    return {
        **facts_of(asdict(settings), "training", without=("steps", "checkpoint_minutes", "measure_every")),
        **facts_of(plan["preprocess"], "preprocess"),
        "learned_dim in [network]": plan["network"]["learned_dim"],
        "shrinkage in [teacher]": _shrinkage(plan),
        "the digest of [start]": "" if start is None else open_model(str(start), "embedder").sha256()[:12],
    }


def _refuse_another(checkpoint: Path, begun: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Refuse to resume from a checkpoint of another training, before any view is made.

    Raises:
        UsageError: it belongs to another training.
    """
    if not checkpoint.is_file():
        return  # `Run.resume` reports it
    made, _ = read_metadata(checkpoint)
    if made is None:
        bank = "a bank/ of the same time must be deleted; it is made again"
        say(f"{UNKNOWN.format(path=checkpoint)}; {bank}")
    else:
        refuse_another(made, begun, str(checkpoint))


def _begin(
    plan: dict[str, Any], views: Path, settings: Settings, place: str, begun: Mapping[str, Any]
) -> Run:
    """A training at its first step, with random weights or those of the model that the recipe starts from."""
    learned = int(plan["network"]["learned_dim"])
    run = Run(Lessons.read(views, learned, _shrinkage(plan)), learned, settings, place, begun)
    if start := plan.get("start"):
        _load_start(run, str(start["model"]))
    return run


def _shrinkage(plan: Mapping[str, Any]) -> float:
    return float(plan.get("teacher", {}).get("shrinkage", 2.0))


def _told(when: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Scores under names that say when they were measured."""
    return {f"{when}_{key}": value for key, value in scores.items()}


def _written(result: dict[str, float], out: Path) -> dict[str, float]:
    """Write what was measured beside the model, and a plot of the log; return it."""
    write_whole(out / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    if (out / LOG).is_file() and (out / LOG).stat().st_size:
        plot_log(out / LOG, out / "training.png")
    return result


def export(
    run: Run,
    recipe: str,
    items: list[Item],
    views: Path,
    out: Path,
    measure: Callable[[Trunk], dict[str, float]] | None,
) -> dict[str, float]:
    """Write the averaged weights as a model folder with its recipe's text; returns the after_ scores."""
    plan = tomllib.loads(recipe)
    mean, std, _ = _preprocessing(plan)
    trunk = Trunk(run.average.dim)
    trunk.load_state_dict({key: value.cpu() for key, value in run.average.state_dict().items()})
    sample = np.concatenate([shard.views for shard in read_shards(views)[:4]])[:SAMPLE]
    network = plan["network"]
    if not plan.get("start"):
        whiten_heads(trunk, sample, mean, std, float(network.get("whiten_shrinkage", 1.0)))
    axes = color_axes(list(sample), int(network["color_dim"]))
    write_model(out, recipe, trunk, mean, std, axes, cohort_pictures(items))
    return {} if measure is None else _told("after", measure(trunk.to(run.device)))


def _preprocessing(plan: dict[str, Any]) -> tuple[Tensor, Tensor, int]:
    """Channel means, channel deviations and the input side in pixels."""
    table = plan["preprocess"]
    return torch.tensor(table["mean"]), torch.tensor(table["std"]), int(table["side"])


def _load_start(run: Run, name: str) -> None:
    """Load a model's weights; its preprocessing must be that of the recipe, which is not checked here."""
    tensors = open_model(name, "embedder").tensors()
    wanted = {
        key: value.float() for key, value in tensors.items() if not key.startswith(("input.", "color."))
    }
    try:
        for module in (run.trunk, run.average):
            module.load_state_dict(wanted, strict=False)
    except RuntimeError as exc:
        raise ModelError(f"{name!r} is of another shape than this recipe: {exc}") from exc
