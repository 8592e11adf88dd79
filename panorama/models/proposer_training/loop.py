"""A recipe and the data folder enter; a trained proposer leaves, with its log and checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from panorama.errors import ModelError
from panorama.models.interrupts import CHECKPOINT, interrupts_ignored
from panorama.models.precision import mixed
from panorama.models.proposer_net import ProposerNet, grid, prepare
from panorama.models.proposer_training.compose import compose
from panorama.models.proposer_training.parts import CLAMP, Translation, alone, difference, match_loss
from panorama.models.proposer_training.sources import open_store
from panorama.models.proposer_training.targets import assign, detection_loss, silence
from panorama.models.proposer_training.teachers import TAP_WIDTHS, Teacher
from panorama.models.training.begun import UNKNOWN, facts_of, metadata, read_metadata, refuse_another
from panorama.models.training.optimise import make_optimisers, rate_at, restore_state, state_tensors
from panorama.models.weights import open_model

LOG = "log.jsonl"
FREE = ("cycles", "threads", "log_every", "save_every")
"""Of [training]: a training may be made longer, run and saved in another way."""
START = "the digest of --start"

PLAN: dict[str, tuple[str, ...]] = {
    "network": ("widths", "depths", "pyramid"),
    "store": (),
    "phase": (),
    "training": (
        *("seed", "cycles", "parts", "batch", "rate", "matrix_rate", "warm_up", "weight_decay"),
        *("clip", "average", "threads", "log_every", "save_every"),
    ),
}
"""Tables of a recipe that a training needs, and what each must say."""


def check_plan(plan: Mapping[str, Any], what: str) -> None:
    """Raise, before any work, where a recipe, or the part of one that `what` names, does not say enough.

    Raises:
        ModelError: a table or an entry is not there.
    """
    for table, names in PLAN.items():
        held = plan.get(table)
        missing = [name for name in names if not isinstance(held, dict) or name not in held]
        if not held or missing:
            lacks = f"{', '.join(missing)} in its table {table}" if held and missing else f"the table {table}"
            raise ModelError(f"{what} lacks {lacks}; see embeddings/proposer/recipe.toml")


class Batches(Dataset[dict[str, Any]]):
    """Batch number i, drawn from (seed, i) alone, so that a resumed run sees what an unbroken one would."""

    def __init__(self, recipe: dict[str, Any], data: Path, cache: Path, first: int, stop: int) -> None:
        self.recipe, self.data, self.cache, self.first, self.stop = recipe, data, cache, first, stop
        self.ready = False

    def __len__(self) -> int:
        return self.stop - self.first

    def _open(self) -> None:
        """Maps the store and loads the teacher inside the loader's own process."""
        cv2.setNumThreads(1)
        self.store = open_store(self.data, self.cache, self.recipe["store"], print)
        self.teacher = Teacher(self.data / "teachers" / "yolox_nano.onnx")
        self.ready = True

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= len(self):
            raise IndexError(index)
        if not self.ready:
            self._open()
        training = self.recipe["training"]
        number = self.first + index
        phase = phase_at(self.recipe, number)
        sizes = phase["canvases"]
        height, width = sizes[number % len(sizes)]
        rngs = [np.random.default_rng((training["seed"], number, i)) for i in range(training["batch"])]
        samples = [compose(rng, self.store, height, width, phase) for rng in rngs]
        images = np.stack([sample.image for sample in samples])
        answer = self.teacher(images)
        boxes, real = padded([sample.boxes for sample in samples])
        silent, _ = padded([sample.silent for sample in samples])
        return {
            "images": torch.from_numpy(images),
            "boxes": boxes,
            "real": real,
            "silent": silent,
            "teacher_scores": torch.from_numpy(answer.scores),
            "teacher_boxes": torch.from_numpy(answer.boxes),
            "features": [torch.from_numpy(f) for f in answer.features],
        }


def phase_at(recipe: dict[str, Any], step: int) -> dict[str, Any]:
    """What samples are made of at a step: the last phase that has begun."""
    begun: list[dict[str, Any]] = [phase for phase in recipe["phase"] if phase["from_step"] <= step]
    return begun[-1]


def last_step(training: Mapping[str, Any]) -> int:
    """How many steps a training has."""
    return int(training["cycles"][-1]["to_step"])


def share_at(training: Mapping[str, Any], step: int) -> float:
    """Share of the highest rate at a step: in each cycle a rise, a plateau and a fall to 0.

    A cycle that begins at a rate again after the one before it has ended at 0 goes on with what that one has
    learnt (warm restarts, Loshchilov and Hutter 2017): a training that has ended can be made longer.
    """
    first = 0
    for cycle in training["cycles"]:
        if step < cycle["to_step"]:
            along = rate_at(step - first, cycle["to_step"] - first, training["warm_up"], cycle["fall"])
            return float(cycle["rate"]) * along
        first = cycle["to_step"]
    return 0.0


def padded(lists: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Box lists of any length as (B, G, 4) and a mask (B, G) of what is real; G is at least 1."""
    most = max(1, *(len(boxes) for boxes in lists))
    full, real = torch.zeros(len(lists), most, 4), torch.zeros(len(lists), most, dtype=torch.bool)
    for i, boxes in enumerate(lists):
        full[i, : len(boxes)] = torch.from_numpy(boxes)
        real[i, : len(boxes)] = True
    return full, real


class Hints(nn.Module):
    """Linear maps from the network's features to the teacher's, for training only (FitNets, Romero 2015)."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(widths, TAP_WIDTHS, strict=True))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b, affine=False, momentum=0.01) for b in TAP_WIDTHS)

    def forward(self, mine: list[Tensor], theirs: list[Tensor], attention: list[Tensor]) -> Tensor:
        """Mean squared difference from the teacher's standardised features, more where it sees a thing."""
        losses = []
        for change, norm, a, b, weight in zip(self.maps, self.norms, mine, theirs, attention, strict=True):
            wanted = norm(b.float()).clamp(-CLAMP, CLAMP)
            losses.append(difference(change(a), wanted, weight))
        return torch.stack(losses).mean()


@dataclass(slots=True)
class Run:
    """Everything that a checkpoint restores."""

    net: ProposerNet
    average: ProposerNet
    hints: Hints
    translation: Translation
    optimisers: list[torch.optim.Optimizer]
    step: int = 0


def start(recipe: dict[str, Any]) -> Run:
    """A fresh run from the recipe's seed."""
    training, shape = recipe["training"], recipe["network"]
    torch.manual_seed(training["seed"])
    net = ProposerNet(shape["widths"], shape["depths"], shape["pyramid"]).to(
        memory_format=torch.channels_last
    )
    average = ProposerNet(shape["widths"], shape["depths"], shape["pyramid"])
    average.load_state_dict(net.state_dict())
    hints = Hints([*shape["widths"][2:], *net.shape.pyramid]).to(memory_format=torch.channels_last)
    translation = Translation(shape["widths"][2:]).to(memory_format=torch.channels_last)
    scaffold = nn.ModuleList([hints, translation])
    optimisers = make_optimisers(
        net, scaffold, training["rate"], training["matrix_rate"], weight_decay=training["weight_decay"]
    )
    return Run(net, average, hints, translation, optimisers)


def train_step(run: Run, batch: dict[str, Any], recipe: dict[str, Any]) -> dict[str, float]:
    """One update; the losses for the log."""
    training, weights = recipe["training"], phase_at(recipe, run.step)["weights"]
    share = share_at(training, run.step)
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * share
    images = prepare(batch["images"])
    apart = run.step < training["parts"]
    with mixed("cpu"):
        if apart:
            trunk = run.translation(batch["features"])
            made, pyramid = alone(run.net, images, trunk)
        else:
            trunk, pyramid = run.net.features(images)
        logits, boxes = run.net.decode(pyramid)
        shapes = [(p.shape[2], p.shape[3]) for p in pyramid]
        centres, strides = grid(shapes)
        scores = batch["teacher_scores"].split([h * w for h, w in shapes], 1)
        attention = [1 + 8 * s.reshape(-1, 1, h, w) for s, (h, w) in zip(scores, shapes, strict=True)]
        hint = run.hints([*trunk, *pyramid], batch["features"], attention * 2)
        match = match_loss(made, trunk, attention) if apart else torch.zeros(())
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
    norm = nn.utils.clip_grad_norm_(learning, training["clip"])
    for optimiser in run.optimisers:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    run.step += 1
    update_average(run.average, run.net, min(training["average"], (1 + run.step) / (10 + run.step)))
    losses = {"loss": loss, "score": score_loss, "box": box_loss, "hint": hint, "match": match, "norm": norm}
    return {name: float(value.detach()) for name, value in losses.items()}


@torch.no_grad()
def update_average(average: nn.Module, net: nn.Module, keep: float) -> None:
    """Move the running average of all weights and statistics towards the network's."""
    for mine, new in zip(average.state_dict().values(), net.state_dict().values(), strict=True):
        if mine.is_floating_point():
            mine.lerp_(new, 1 - keep)
        else:
            mine.copy_(new)


def _modules(run: Run) -> list[tuple[str, nn.Module]]:
    """What a checkpoint holds weights of."""
    return [(name, getattr(run, name)) for name in ("net", "average", "hints", "translation")]


def facts_at(recipe: Mapping[str, Any], step: int, start_digest: str) -> dict[str, Any]:
    """What weights depend on after so many steps: no phase that had not begun is among it."""
    facts = {START: start_digest, **facts_of(recipe["training"], "training", without=FREE)}
    for table in ("network", "store"):
        facts |= facts_of(recipe[table], table)
    for number, phase in enumerate(recipe["phase"], 1):
        if phase["from_step"] < step:
            facts |= facts_of(phase, f"phase {number}")
    return facts


def save_checkpoint(run: Run, path: Path, begun: Mapping[str, Any] | None = None) -> None:
    """Everything needed to go on, as safetensors, written beside and renamed.

    Args:
        begun: as of `facts_at`; None leaves out with what it was begun.
    """
    tensors = {"step": torch.tensor(run.step)}
    for name, module in _modules(run):
        tensors |= {f"{name}.{key}": value.contiguous() for key, value in module.state_dict().items()}
    tensors |= state_tensors(run.optimisers)
    beside = path.with_suffix(".partial")
    facts = None if begun is None else metadata(begun, {})
    save_file({name: value.clone() for name, value in tensors.items()}, beside, facts)
    beside.replace(path)


def load_checkpoint(run: Run, path: Path) -> None:
    """Restore what `save_checkpoint` wrote.

    Raises:
        ModelError: it belongs to a network of another shape.
    """
    tensors = load_file(path)
    try:
        for name, module in _modules(run):
            prefix = f"{name}."
            module.load_state_dict(
                {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            )
    except RuntimeError as exc:
        raise ModelError(
            f"the checkpoint {path} is of another network than the recipe's; use another --out"
        ) from exc
    restore_state(run.optimisers, tensors)
    run.step = int(tensors["step"])


def _go_on(
    run: Run, path: Path, recipe: Mapping[str, Any], start_digest: str, say: Callable[[str], None]
) -> str:
    """Restore a checkpoint of the same training; the digest of the model that it began with.

    Args:
        start_digest: of the model that is named now, "" where none is: nobody has to name it again.

    Raises:
        UsageError: it was begun with something else.
        ModelError: it belongs to a network of another shape.
    """
    made, _ = read_metadata(path)
    if made is None:
        say(UNKNOWN.format(path=path))
    else:
        start_digest = start_digest or made[START]
        with safe_open(path, framework="numpy") as tensors:
            step = int(tensors.get_tensor("step"))
        refuse_another(made, facts_at(recipe, step, start_digest), str(path))
    load_checkpoint(run, path)
    return start_digest


def begin_from(run: Run, name: str) -> str:
    """Give a fresh run the weights of a proposer of the same shape; the digest of that one.

    Raises:
        ModelError: there is no such proposer, or its network is of another shape.
    """
    folder = open_model(name, "proposer")
    weights = {key: value.float() for key, value in folder.tensors().items()}
    counters = {k: v for k, v in run.net.state_dict().items() if k.endswith("num_batches_tracked")}
    try:
        run.net.load_state_dict({**counters, **weights})
    except RuntimeError as exc:
        raise ModelError(f"{folder.path} is of another network than the recipe's: {exc}") from exc
    run.average.load_state_dict(run.net.state_dict())
    return folder.sha256()[:12]


def train(
    recipe: dict[str, Any],
    data: Path,
    out: Path,
    resume: bool = False,
    start_from: str | None = None,
    say: Callable[[str], None] = print,
) -> Run:
    """Train by a recipe; `out` gets the log, the cache of decoded sources, checkpoints.

    Args:
        start_from: a proposer's name or folder whose weights to begin with; None for random ones.

    Raises:
        ModelError: the recipe or the data folder is incomplete, or `resume` finds nothing to resume.
        UsageError: what lies in `out` was begun with another recipe or model.
    """
    check_plan(recipe, "the recipe")
    training = recipe["training"]
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(training["threads"])
    if resume and not (out / CHECKPOINT).is_file():
        raise ModelError(f"nothing to resume: {out} holds no {CHECKPOINT}")
    run = start(recipe)
    start_digest = "" if start_from is None else begin_from(run, start_from)
    if resume:
        start_digest = _go_on(run, out / CHECKPOINT, recipe, start_digest, say)
    open_store(data, out / "cache", recipe["store"], lambda line: write_log(out, {"note": line}))
    run.net.train()
    began, first = time.perf_counter(), run.step
    sums: dict[str, float] = {}
    for batch in _load(recipe, data, out / "cache", run.step):
        for name, value in train_step(run, batch, recipe).items():
            sums[name] = sums.get(name, 0.0) + value / training["log_every"]
        if run.step % training["log_every"] == 0:
            pace = (run.step - first) * training["batch"] / (time.perf_counter() - began)
            share = share_at(training, run.step)
            line = {name: round(value, 4) for name, value in sums.items()}
            write_log(
                out,
                {
                    "step": run.step,
                    "rate": share,
                    **line,
                    "pictures_a_second": round(pace, 1),
                },
            )
            sums = {}
        if run.step % training["save_every"] == 0 or run.step == last_step(training):
            save_checkpoint(run, out / CHECKPOINT, facts_at(recipe, run.step, start_digest))
    return run


def _load(recipe: dict[str, Any], data: Path, cache: Path, first: int) -> Iterator[dict[str, Any]]:
    """Batches from `first` to the recipe's last, made in one process beside this one."""
    batches = Batches(recipe, data, cache, first, last_step(recipe["training"]))
    # A fresh process, not a fork: the OpenCV threads that built the cache do not survive one; it would hang.
    loader = DataLoader(
        batches, batch_size=None, num_workers=1, prefetch_factor=4, multiprocessing_context="spawn"
    )
    with interrupts_ignored():
        made = iter(loader)
    yield from made


def write_log(out: Path, line: dict[str, Any]) -> None:
    """Append one JSON line to the log."""
    with (out / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
