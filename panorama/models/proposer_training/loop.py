"""A recipe and the data folder come in; a trained proposer goes out, with its log and checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from panorama.errors import ModelError
from panorama.models.device import CPU, choose_device
from panorama.models.interrupts import CHECKPOINT
from panorama.models.precision import mixed
from panorama.models.proposer_net import grid, prepare
from panorama.models.proposer_training.batches import load
from panorama.models.proposer_training.parts import alone, match_loss
from panorama.models.proposer_training.plan import batch_at, check_plan, last_step, phase_at, share_at
from panorama.models.proposer_training.replay import Replayed, Update
from panorama.models.proposer_training.run import (
    RATES,
    Run,
    begin_from,
    facts_at,
    go_on,
    save_checkpoint,
    start,
)
from panorama.models.proposer_training.sources import open_store, refuse_absent
from panorama.models.proposer_training.targets import assign, detection_loss, silence
from panorama.models.training.optimise import move_average, refuse_lost, set_share
from panorama.models.training.plot import end_last_line

LOG = "log.jsonl"


def train_step(
    run: Run, batch: dict[str, Any], recipe: dict[str, Any], update: Update | None = None
) -> dict[str, Tensor]:
    """One step; returns the losses for the log, still on the batch's device: reading them waits for it.

    Args:
        update: changes the weights; None takes `update_weights` as it is. If it is `Replayed`, the losses
            hold until the next step.
    """
    training, weights = recipe["training"], phase_at(recipe, run.step)["weights"]
    set_share(run.optimisers, share_at(training, run.step))
    apart = run.step < training["parts"]
    losses = (update or update_weights)(run, batch, apart, weights, training["clip"])
    run.step += 1
    move_average(run.average, run.net, training["average"], run.step)
    return losses


def update_weights(
    run: Run, batch: dict[str, Any], apart: bool, weights: Mapping[str, float], clip: float
) -> dict[str, Tensor]:
    """Change the weights of the network once, on its device alone: nothing of the device is read here.

    Args:
        apart: whether each part of the network learns alone.
        weights: of the losses, by name.
        clip: highest norm of the gradients.
    """
    images = prepare(batch["images"])
    with mixed(images.device.type):
        if apart:
            trunk = run.translation(batch["features"])
            made, pyramid = alone(run.net, images, trunk)
        else:
            trunk, pyramid = run.net.features(images)
        logits, boxes = run.net.decode(pyramid)
        shapes = [(p.shape[2], p.shape[3]) for p in pyramid]
        centres, strides = grid(shapes, images.device)
        scores = batch["teacher_scores"].split([h * w for h, w in shapes], 1)
        attention = [1 + 8 * s.reshape(-1, 1, h, w) for s, (h, w) in zip(scores, shapes, strict=True)]
        hint = run.hints([*trunk, *pyramid], batch["features"], attention * 2)
        match = match_loss(made, trunk, attention) if apart else images.new_zeros(())
    found = assign(logits.detach().sigmoid(), boxes.detach(), centres, strides, batch["boxes"], batch["real"])
    score_loss, box_loss = detection_loss(
        logits.float(),
        boxes.float(),
        found,
        batch["teacher_scores"],
        batch["teacher_boxes"],
        silence(centres, batch["silent"]),
        weights["silent"],
    )
    loss = weights["score"] * score_loss + weights["box"] * box_loss + weights["hint"] * hint + match
    loss.backward()
    learning = [p for module in (run.net, run.hints, run.translation) for p in module.parameters()]
    norm = nn.utils.clip_grad_norm_(learning, clip)
    for optimiser in run.optimisers:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    losses = {"loss": loss, "score": score_loss, "box": box_loss, "hint": hint, "match": match, "norm": norm}
    return {name: value.detach() for name, value in losses.items()}


def train(
    recipe: dict[str, Any],
    data: Path,
    out: Path,
    resume: bool = False,
    start_from: str | None = None,
    device: str | None = None,
    say: Callable[[str], None] = print,
) -> Run:
    """Train by a recipe; `out` gets the log, the cache of decoded sources and the checkpoints.

    Args:
        start_from: name or folder of a proposer whose weights to start from; None for random ones.
        device: as in `choose_device`. On a GPU, two trainings with one seed see the same pictures and start
            alike, but differ later, since sums are added in varying order.

    Raises:
        ModelError: the recipe or the data folder is incomplete, there is no such device, or `resume` finds
            nothing to resume; or the loss is infinite or NaN, which is never saved in a checkpoint.
        MissingExtra: the packages that run the teacher are not installed.
        UsageError: the training in `out` was begun with another recipe or model.
    """
    check_plan(recipe, "the recipe")
    training, place = recipe["training"], choose_device(device)
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(training["threads"])
    if resume and not (out / CHECKPOINT).is_file():
        raise ModelError(f"nothing to resume: {out} holds no {CHECKPOINT}")
    run = start(recipe, place)
    start_digest = "" if start_from is None else begin_from(run, start_from)
    if resume:
        start_digest = go_on(run, out / CHECKPOINT, recipe, start_digest, say)
    batches = load(recipe, data, out / "cache", run.step, place)
    store = open_store(data, out / "cache", recipe["store"], lambda line: write_log(out, {"note": line}))
    refuse_absent(store, recipe["phase"], data)
    run.net.train()
    told = Told(out, recipe)
    update = Replayed(update_weights) if place.startswith("cuda") else None
    for batch in batches:
        losses = train_step(run, batch, recipe, update)
        due = run.step % training["save_every"] == 0 or run.step == last_step(training)
        # Wait for a GPU only if a loss that is NaN would be logged or saved.
        if due or run.step % training["log_every"] == 0 or place == CPU:
            refuse_lost(run.step, RATES, loss=losses["loss"], norm=losses["norm"])
        told.add(run.step, losses)
        if due:
            save_checkpoint(run, out / CHECKPOINT, facts_at(recipe, run.step, start_digest))
    return run


class Told:
    """Writes the log of a training: mean losses over some steps, the rate, and the pace since the start."""

    def __init__(self, out: Path, recipe: dict[str, Any]) -> None:
        self._out, self._training = out, recipe["training"]
        self._began, self._pictures = time.perf_counter(), 0
        self._sums: dict[str, Tensor] = {}

    def add(self, step: int, losses: dict[str, Tensor]) -> None:
        """Add the losses of a step, counted from 1; they are read, which waits for a GPU, once per line."""
        every = self._training["log_every"]
        self._pictures += batch_at(self._training, step - 1)
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value / every
        if step % every:
            return
        line = {name: round(float(value), 4) for name, value in self._sums.items()}
        pace = self._pictures / (time.perf_counter() - self._began)
        rate = share_at(self._training, step)
        write_log(self._out, {"step": step, "rate": rate, **line, "pictures_a_second": round(pace, 1)})
        self._sums = {}


def write_log(out: Path, line: dict[str, Any]) -> None:
    """Append one JSON line to the log."""
    end_last_line(out / LOG)
    with (out / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
