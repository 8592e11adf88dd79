"""A recipe or a checkpoint comes in; the networks and optimisers go out, and into checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from panorama.errors import ModelError
from panorama.models.proposer_net import ProposerNet
from panorama.models.proposer_training.parts import CLAMP, Translation, difference
from panorama.models.proposer_training.plan import cycle_facts, cycles_until
from panorama.models.proposer_training.teachers import TAP_WIDTHS
from panorama.models.training.begun import (
    UNKNOWN,
    facts_of,
    metadata,
    read_metadata,
    refuse_another,
    step_of,
)
from panorama.models.training.checkpoint import read_checkpoint, write_checkpoint
from panorama.models.training.optimise import make_optimisers, restore_state, state_tensors
from panorama.models.weights import open_model

FREE = ("cycles", "threads", "log_every", "save_every")
"""Entries of [training] that may change on resuming; of the cycles, those parts that had not begun."""
CYCLES = "training.cycles"
"""What a cycle is called in facts, before its number."""

START = "the digest of --start"
RATES = "rate or matrix_rate in the recipe"
"""What to lower when a loss or a weight is infinite or NaN; part of that error message."""


class Hints(nn.Module):
    """Linear maps from the network's features to the teacher's, for training only (FitNets, Romero 2015)."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(widths, TAP_WIDTHS, strict=True))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b, affine=False, momentum=0.01) for b in TAP_WIDTHS)

    def forward(self, mine: list[Tensor], theirs: list[Tensor], attention: list[Tensor]) -> Tensor:
        """Mean squared difference from the teacher's standardised features, weighted by `attention`."""
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


def start(recipe: dict[str, Any], device: str = "cpu") -> Run:
    """A new run from the recipe's seed, with the same weights on every device."""
    training, shape = recipe["training"], recipe["network"]
    torch.manual_seed(training["seed"])
    net = ProposerNet(shape["widths"], shape["depths"], shape["pyramid"]).to(
        memory_format=torch.channels_last
    )
    average = ProposerNet(shape["widths"], shape["depths"], shape["pyramid"])
    average.load_state_dict(net.state_dict())
    hints = Hints([*shape["widths"][2:], *net.shape.pyramid]).to(memory_format=torch.channels_last)
    translation = Translation(shape["widths"][2:]).to(memory_format=torch.channels_last)
    for module in (net, average, hints, translation):
        module.to(device)
    scaffold = nn.ModuleList([hints, translation])
    optimisers = make_optimisers(
        net, scaffold, training["rate"], training["matrix_rate"], weight_decay=training["weight_decay"]
    )
    return Run(net, average, hints, translation, optimisers)


def begin_from(run: Run, name: str) -> str:
    """Load the weights of a proposer of the same shape into a new run; returns that proposer's digest.

    Raises:
        ModelError: there is no such proposer, or its network has another shape.
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


def _modules(run: Run) -> list[tuple[str, nn.Module]]:
    """The modules whose weights a checkpoint holds, by name."""
    return [(name, getattr(run, name)) for name in ("net", "average", "hints", "translation")]


def facts_at(recipe: Mapping[str, Any], step: int, start_digest: str) -> dict[str, Any]:
    """What the weights depend on after this many steps; phases and cycles not begun yet are left out."""
    facts = {START: start_digest, **facts_of(recipe["training"], "training", without=FREE)}
    for table in ("network", "store"):
        facts |= facts_of(recipe[table], table)
    for number, phase in enumerate(recipe["phase"], 1):
        if phase["from_step"] < step:
            facts |= facts_of(phase, f"phase {number}")
    return facts | _cycles(cycles_until(recipe["training"], step))


def _cycles(cycles: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Cycles as facts."""
    facts: dict[str, Any] = {}
    for number, cycle in enumerate(cycles, 1):
        facts |= facts_of(cycle, f"{CYCLES} {number}")
    return facts


def save_checkpoint(run: Run, path: Path, begun: Mapping[str, Any] | None = None) -> None:
    """Write everything needed to resume.

    Args:
        begun: from `facts_at`; None omits what the training was begun with.

    Raises:
        ModelError: a value is infinite or NaN; the last checkpoint stays.
    """
    tensors: dict[str, Tensor] = {}
    for name, module in _modules(run):
        tensors |= {f"{name}.{key}": value for key, value in module.state_dict().items()}
    tensors |= state_tensors(run.optimisers)
    write_checkpoint(path, tensors, run.step, RATES, None if begun is None else metadata(begun, {}))


def load_checkpoint(run: Run, path: Path) -> None:
    """Restore what `save_checkpoint` wrote.

    Raises:
        ModelError: it is damaged, or belongs to a network of another shape.
    """
    tensors = read_checkpoint(path)
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


def go_on(
    run: Run, path: Path, recipe: Mapping[str, Any], start_digest: str, say: Callable[[str], None]
) -> str:
    """Restore a checkpoint of the same training; returns the digest of the model that it began with.

    Args:
        start_digest: of the model named now; "" if none is named, which takes the checkpoint's.

    Raises:
        UsageError: the checkpoint's training was begun with something else.
        ModelError: it belongs to a network of another shape.
    """
    made, _ = read_metadata(path)
    if made is None:
        say(UNKNOWN.format(path=path))
    else:
        start_digest = start_digest or made[START]
        asked = facts_at(recipe, step_of(path), start_digest)
        # A cycle that had begun to fall is compared as a whole, also if it now falls later.
        cycles = _cycles([cycle_facts(recipe["training"], c) for c in recipe["training"]["cycles"]])
        asked |= {name: cycles[name] for name in made if name in cycles}
        if not any(map(_is_of_cycle, made)):
            say(f"{path}, of an earlier version, does not say by which cycles it was trained")
            asked = {name: fact for name, fact in asked.items() if not _is_of_cycle(name)}
        refuse_another(made, asked, str(path))
    load_checkpoint(run, path)
    return start_digest


def _is_of_cycle(fact: str) -> bool:
    return f"[{CYCLES} " in fact
