"""A bank of views and a recipe's settings come in; a trained trunk goes out, with checkpoints and a log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from panorama.errors import ModelError, UsageError
from panorama.models.device import CPU, send
from panorama.models.interrupts import CHECKPOINT
from panorama.models.late import EXITS, MOST_SIDE
from panorama.models.network import STAGE_CHANNELS, Trunk
from panorama.models.precision import mixed
from panorama.models.training.bank import Shard, read_basis, read_items, read_shards
from panorama.models.training.begun import metadata, read_metadata
from panorama.models.training.checkpoint import read_checkpoint, write_checkpoint
from panorama.models.training.entries import short
from panorama.models.training.losses import LossWeights, Rivals, Scaffold, total_loss
from panorama.models.training.optimise import (
    make_optimisers,
    move_average,
    rate_at,
    refuse_lost,
    restore_state,
    set_share,
    state_tensors,
)
from panorama.models.training.plot import end_last_line
from panorama.models.training.recipe import table_of

LOG = "log.jsonl"
LOG_EVERY = 25
RATES = "learning_rate or matrix_rate"
"""What to lower when the loss is infinite or NaN; part of that error message."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The recipe's [training] table.

    Attributes:
        steps: number of batches.
        warmup, decay: steps of the rise and the fall of the rate; only the decay depends on `steps`.
        sides: (first step, input side in pixels) pairs; small pictures come first since they cost less.
        average: decay of the running average of the weights, which is what ships.
        checkpoint_minutes, measure_every: how often to save (in minutes) and to measure (in steps).
    """

    steps: int = 3000
    batch: int = 128
    learning_rate: float = 2e-3
    matrix_rate: float = 0.02
    weight_decay: float = 0.05
    warmup: int = 200
    decay: int = 1000
    sides: tuple[tuple[int, int], ...] = ((0, 128),)
    average: float = 0.998
    seed: int = 0
    checkpoint_minutes: float = 3.0
    measure_every: int = 500
    loss: LossWeights = field(default_factory=LossWeights)

    @classmethod
    def of(cls, table: dict[str, Any], **changes: Any) -> Settings:
        """The settings in the recipe's table, with those `changes` that are not None.

        Raises:
            UsageError: a setting is unknown or has an invalid value.
        """
        values = {**table, **{key: value for key, value in changes.items() if value is not None}}
        if "sides" in values:
            values["sides"] = _sides(values["sides"])
        if "loss" in values:
            values["loss"] = table_of(LossWeights, values["loss"], "training.loss")
        settings = table_of(cls, values, "training")
        for name in ("steps", "batch", "measure_every"):
            if not getattr(settings, name):
                raise UsageError(f"{name} in [training] is a whole number from 1 on, got 0")
        return settings

    def side_at(self, step: int) -> int:
        """The input side at a step."""
        return [side for first, side in self.sides if first <= step][-1]


def _sides(value: Any) -> tuple[tuple[int, int], ...]:
    """The entry `sides` of [training], checked.

    Raises:
        UsageError: it is not a list of such pairs, or the first pair is not for step 0.
    """
    try:
        sides = tuple((int(a), int(b)) for a, b in value)
    except (TypeError, ValueError, OverflowError):
        sides = ()
    if not sides or sides[0][0] != 0 or not all(1 <= side <= MOST_SIDE for _, side in sides):
        raise UsageError(
            f"sides in [training] are pairs of a step and a side up to {MOST_SIDE}, the first of step 0;"
            f" got {short(value)}"
        )
    return sides


@dataclass(frozen=True, slots=True)
class Lessons:
    """All views of a bank with their targets.

    Attributes:
        shards: views and teacher maps, on disk.
        places: (V, 2) shard, and row in it, of every view.
        targets: (V, dim) float32 of unit length: the teacher's features, whitened with shrinkage.
        identities: (V,) a number per class, or per instance if the class is not known.
        count: number of identities in the bank.
    """

    shards: list[Shard]
    places: NDArray[np.int64]
    targets: NDArray[np.float32]
    identities: NDArray[np.int64]
    count: int

    @classmethod
    def read(cls, bank: Path, dim: int, shrinkage: float) -> Lessons:
        """The lessons in the complete shards of a bank.

        Raises:
            UsageError: there is none.
        """
        shards = read_shards(bank)
        if not shards:
            raise UsageError(f"{bank} holds no complete shard of views; build the bank first")
        basis = read_basis(bank)
        names = [item["label"] or f"{item['source']}#{item['instance']}" for item in read_items(bank)]
        _, numbers = np.unique(names, return_inverse=True)
        places = [
            np.stack([np.full(len(s.rows), i), np.arange(len(s.rows))], axis=1) for i, s in enumerate(shards)
        ]
        targets = np.concatenate([basis.whiten(s.pooled, dim, shrinkage) for s in shards])
        targets /= np.maximum(np.linalg.norm(targets, axis=1, keepdims=True), 1e-6)
        identities = numbers[np.concatenate([s.rows for s in shards])].astype(np.int64)
        return cls(shards, np.concatenate(places), targets, identities, int(numbers.max()) + 1)

    def proxies(self, seed: int) -> Tensor:
        """(count, dim): start values of the proxies, the mean target of each identity; random if unseen."""
        sums = (
            np.random.default_rng(seed)
            .normal(0, 0.01, (self.count, self.targets.shape[1]))
            .astype(np.float32)
        )
        np.add.at(sums, self.identities, self.targets)
        return F.normalize(torch.from_numpy(sums), dim=1)

    def batch(
        self, step: int, size: int, seed: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        """Views, targets, maps and identities of a step; in an epoch each view comes at most once."""
        steps_an_epoch = max(1, len(self.places) // size)
        epoch, place = divmod(step, steps_an_epoch)
        chosen = _order(len(self.places), seed, epoch)[place * size : (place + 1) * size]
        places = self.places[chosen].tolist()
        pictures = np.stack([self.shards[s].views[i] for s, i in places])
        grids = np.stack([self.shards[s].grid[i] for s, i in places]).astype(np.float32)
        return pictures, self.targets[chosen], grids, self.identities[chosen]


@lru_cache(maxsize=2)
def _order(views: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of the views in one epoch."""
    return np.random.default_rng((seed, epoch)).permutation(views)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step learns from, on the device or on its way there.

    Attributes:
        views: (B, H, W, 3) uint8.
        target, grid: (B, dim) and (B, 16, axes) float32, the targets of the vectors and of the maps.
        rivals: the identities that the views must be told apart from.
    """

    views: Tensor
    target: Tensor
    grid: Tensor
    rivals: Rivals

    @classmethod
    def at(cls, step: int, lessons: Lessons, settings: Settings, device: str) -> Batch:
        """The batch of a step; it depends on the step and the seed only, so a resumed run gets the same."""
        pictures, target, grid, identities = lessons.batch(step, settings.batch, settings.seed)
        if np.random.default_rng((settings.seed, 7, step)).random() < 0.5:
            pictures = pictures[:, :, ::-1]
            grid = grid.reshape(len(grid), 4, 4, -1)[:, :, ::-1].reshape(grid.shape)
        drawn = torch.Generator().manual_seed(settings.seed * 1_000_003 + step)
        rivals = Rivals.draw(identities, lessons.count, EXITS, drawn)

        def sent(values: NDArray[Any]) -> Tensor:
            return send(torch.from_numpy(np.ascontiguousarray(values)), device)

        chosen = tuple(send(some, device) for some in rivals.chosen)
        return cls(sent(pictures), sent(target), sent(grid), Rivals(chosen, send(rivals.right, device)))


class Ahead:
    """Makes batches in threads while earlier ones are learned from, so that a GPU never waits for the disk.

    One thread takes 5 ms for a batch of 128, about as long as a GPU needs to learn from it.
    """

    def __init__(self, make: Callable[[int], Batch], threads: int = 2, ahead: int = 4) -> None:
        self._make, self._ahead = make, ahead
        self._pool = ThreadPoolExecutor(threads, "views")
        self._begun: dict[int, Future[Batch]] = {}

    def at(self, step: int) -> Batch:
        """The batch of a step; also starts making the ones after it."""
        wanted = range(step, step + 1 + self._ahead)
        self._begun = {i: self._begun.get(i) or self._pool.submit(self._make, i) for i in wanted}
        return self._begun[step].result()


def to_input(
    pictures: NDArray[np.uint8] | Tensor, mean: Tensor, std: Tensor, side: int | None = None
) -> Tensor:
    """(B, H, W, 3) uint8 to a normalised (B, 3, side, side) float32 on the same device, channels last."""
    given = pictures if isinstance(pictures, Tensor) else torch.from_numpy(np.ascontiguousarray(pictures))
    mean, std = mean.to(given.device), std.to(given.device)
    x = given.permute(0, 3, 1, 2).to(torch.float32) / 255
    if side is not None and side != x.shape[-1]:
        whole = x.shape[-1] % side == 0  # averaging blocks is several times faster
        if whole:
            x = F.avg_pool2d(x, x.shape[-1] // side)
        else:
            x = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
    x = (x - mean.reshape(-1, 1, 1)) / std.reshape(-1, 1, 1)
    return x.contiguous(memory_format=torch.channels_last)


class Run:
    """One training: everything that a checkpoint holds.

    Attributes:
        begun, before: the facts it was begun with, and what was measured before the first step.
    """

    def __init__(
        self,
        lessons: Lessons,
        dim: int,
        settings: Settings,
        device: str,
        begun: Mapping[str, Any] | None = None,
    ) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.lessons = lessons
        self.device = torch.device(device)
        trunk = Trunk(dim).to(self.device).to(memory_format=torch.channels_last)
        self.trunk = trunk
        self.average = Trunk(dim).to(self.device).to(memory_format=torch.channels_last)
        self.average.load_state_dict(trunk.state_dict())
        axes = lessons.shards[0].grid.shape[2]
        self.scaffold = Scaffold(lessons.proxies(settings.seed), STAGE_CHANNELS, axes).to(self.device)
        self.optimisers = make_optimisers(
            trunk, self.scaffold, settings.learning_rate, settings.matrix_rate, settings.weight_decay
        )
        self._batches = Ahead(partial(Batch.at, lessons=lessons, settings=settings, device=device))
        self.step = 0
        self.begun, self.before = dict(begun or {}), dict[str, float]()

    def save(self, out: Path) -> None:
        """Write the checkpoint.

        Raises:
            ModelError: a value is infinite or NaN; the last checkpoint stays.
        """
        tensors = {f"trunk.{k}": v for k, v in self.trunk.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in self.average.state_dict().items()}
        tensors |= {f"scaffold.{k}": v for k, v in self.scaffold.state_dict().items()}
        tensors |= state_tensors(self.optimisers)
        write_checkpoint(out / CHECKPOINT, tensors, self.step, RATES, metadata(self.begun, self.before))

    def resume(self, out: Path) -> None:
        """Restore the checkpoint.

        Raises:
            ModelError: there is none, it is damaged, or it belongs to another network or other data.
        """
        path = out / CHECKPOINT
        if not path.is_file():
            raise ModelError(f"there is no checkpoint at {path} to resume from; start without --resume")
        tensors = read_checkpoint(path)
        try:
            for name, module in (
                ("trunk", self.trunk),
                ("average", self.average),
                ("scaffold", self.scaffold),
            ):
                found = {k[len(name) + 1 :]: v for k, v in tensors.items() if k.startswith(f"{name}.")}
                module.load_state_dict(found)
            restore_state(self.optimisers, tensors)
        except (RuntimeError, ValueError) as exc:
            raise ModelError(f"{path} does not fit this recipe and data: {exc}") from exc
        self.step = int(tensors["step"])
        _, self.before = read_metadata(path)

    def train_step(self, mean: Tensor, std: Tensor) -> dict[str, Tensor | float]:
        """Learn from one batch; losses stay on the device, and reading them waits until it is done."""
        settings = self.settings
        rate = rate_at(self.step, settings.steps, settings.warmup, settings.decay)
        set_share(self.optimisers, rate)
        batch = self._batches.at(self.step)
        x = to_input(batch.views, mean, std, settings.side_at(self.step))
        with mixed(self.device.type):
            exits = list(self.trunk.stages_out(x))
        total, parts = total_loss(exits, self.scaffold, batch.target, batch.grid, batch.rivals, settings.loss)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        total.backward()
        for optimiser in self.optimisers:
            optimiser.step()
        move_average(self.average, self.trunk, settings.average, self.step)
        self.step += 1
        return {"loss": total.detach(), **parts, "rate": rate}


Measure = Callable[[Trunk], dict[str, float]]


def run_training(
    run: Run, out: Path, mean: Tensor, std: Tensor, measure: Measure | None, stop_at: float | None = None
) -> bool:
    """Train to the last step; False if `stop_at` (time.monotonic) passed first. Logs to `out`/log.jsonl."""
    settings = run.settings
    saved = time.monotonic()
    end_last_line(out / LOG)
    with (out / LOG).open("a", encoding="utf-8") as log:

        def note(row: dict[str, Any]) -> None:
            log.write(
                json.dumps({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}) + "\n"
            )
            log.flush()

        began = time.monotonic()
        mean, std = mean.to(run.device), std.to(run.device)
        while run.step < settings.steps:
            parts = run.train_step(mean, std)
            last, now = run.step == settings.steps, time.monotonic()
            logged = run.step % LOG_EVERY == 0 or last
            measured = measure is not None and (run.step % settings.measure_every == 0 or last)
            stopped = stop_at is not None and now > stop_at and not last
            saving = stopped or now - saved > settings.checkpoint_minutes * 60
            # Wait for a GPU only if a loss that is NaN would be logged, measured or saved.
            if logged or measured or saving or run.device.type == CPU:
                told = {name: float(value) for name, value in parts.items()}
                refuse_lost(run.step, RATES, loss=told["loss"])
            if logged:
                note({"step": run.step, "seconds": time.monotonic() - began, **told})
            if measure is not None and measured:
                note({"step": run.step, "seconds": time.monotonic() - began, **measure(run.average)})
            if saving:
                run.save(out)
                saved = time.monotonic()
            if stopped:
                return False
    run.save(out)
    return True
