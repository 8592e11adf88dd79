"""A recipe and a store come in; batches of composed pictures go out, made in separate processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from panorama.models.device import CPU, send
from panorama.models.interrupts import interrupts_delayed
from panorama.models.proposer_training.compose import compose
from panorama.models.proposer_training.plan import batch_at, last_step, phase_at
from panorama.models.proposer_training.sources import open_store
from panorama.models.proposer_training.teacher_graph import GraphTeacher
from panorama.models.proposer_training.teachers import Teacher, read_teacher
from panorama.models.training.own_process import keep_freed_memory
from panorama.threads import cores_here

TEACHER = Path("teachers") / "yolox_nano.onnx"
"""Path below the data folder."""

MOST_MAKERS = 24
"""Most processes that make batches for a GPU; each keeps some ready in shared memory."""


class Batches(Dataset[dict[str, Any]]):
    """Batch number i, drawn from (seed, i) alone, so that a resumed training sees the same batches.

    Args:
        first, stop: range of batch numbers.
        answered: whether the teacher runs here; for training on a GPU it runs on that GPU instead.
    """

    def __init__(
        self, recipe: dict[str, Any], data: Path, cache: Path, first: int, stop: int, answered: bool = True
    ) -> None:
        self.recipe, self.data, self.cache, self.first, self.stop = recipe, data, cache, first, stop
        self.answered, self.ready = answered, False

    def __len__(self) -> int:
        return self.stop - self.first

    def _open(self) -> None:
        """Map the store and load the teacher, in the loader's own process."""
        cv2.setNumThreads(1)
        keep_freed_memory()
        self.store = open_store(self.data, self.cache, self.recipe["store"], print)
        if self.answered:
            self.teacher = Teacher(self.data / TEACHER)
        self.ready = True

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= len(self):
            raise IndexError(index)
        if not self.ready:
            self._open()
        number = self.first + index
        phase = phase_at(self.recipe, number)
        sizes = phase["canvases"]
        height, width = sizes[number % len(sizes)]
        seed, size = self.recipe["training"]["seed"], batch_at(self.recipe["training"], number)
        rngs = [np.random.default_rng((seed, number, i)) for i in range(size)]
        samples = [compose(rng, self.store, height, width, phase) for rng in rngs]
        images = np.stack([sample.image for sample in samples])
        boxes, real = padded([sample.boxes for sample in samples])
        silent, _ = padded([sample.silent for sample in samples])
        batch = {"images": torch.from_numpy(images), "boxes": boxes, "real": real, "silent": silent}
        return batch | (self._answer(images) if self.answered else {})

    def _answer(self, images: np.ndarray) -> dict[str, Any]:
        answer = self.teacher(images)
        return {
            "teacher_scores": torch.from_numpy(answer.scores),
            "teacher_boxes": torch.from_numpy(answer.boxes),
            "features": [torch.from_numpy(f) for f in answer.features],
        }


def padded(lists: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Box lists of any length as (B, G, 4), and a mask (B, G) that is False for padding; G is at least 1."""
    most = max(1, *(len(boxes) for boxes in lists))
    full, real = torch.zeros(len(lists), most, 4), torch.zeros(len(lists), most, dtype=torch.bool)
    for i, boxes in enumerate(lists):
        full[i, : len(boxes)] = torch.from_numpy(boxes)
        real[i, : len(boxes)] = True
    return full, real


def load(
    recipe: dict[str, Any], data: Path, cache: Path, first: int, device: str = CPU
) -> Iterator[dict[str, Any]]:
    """Batches from `first` to the recipe's last, on the device, with the teacher's answers.

    Nothing is made before the first one is asked for, so `cache` may be filled until then.

    Raises:
        MissingExtra: the packages that run the teacher are not installed; raised here, by the call.
        ModelError: there is no such teacher; raised here as well.
    """
    # Filling the cache takes minutes, and an error in a loader's process comes with that process's traceback.
    read_teacher(data / TEACHER)
    return _loaded(recipe, data, cache, first, device)


def _loaded(
    recipe: dict[str, Any], data: Path, cache: Path, first: int, device: str
) -> Iterator[dict[str, Any]]:
    """What `load` promises.

    On the CPU, one separate process composes them and runs the teacher. A GPU learns from thousands of
    pictures per second; so all other cores compose pictures, and the teacher runs on the GPU, too.
    """
    if device == CPU:
        yield from _made(Batches(recipe, data, cache, first, last_step(recipe["training"])), 1, 4)
        return
    batches = Batches(recipe, data, cache, first, last_step(recipe["training"]), answered=False)
    teacher = GraphTeacher(data / TEACHER, device)
    makers = min(MOST_MAKERS, max(1, cores_here() - 1))
    # The loader's own thread pins the memory; `send` would hold up the training while it does.
    for made in _made(batches, makers, 2, pinned=device.startswith("cuda")):
        batch = {name: send(part, device) for name, part in made.items()}
        scores, boxes, features = teacher(batch["images"])
        yield batch | {"teacher_scores": scores, "teacher_boxes": boxes, "features": features}


def _made(
    batches: Dataset[dict[str, Any]], makers: int, ahead: int, pinned: bool = False
) -> Iterator[dict[str, Any]]:
    """Batches in order, from `makers` processes that each keep `ahead` batches ready."""
    # Spawn, not fork: OpenCV threads from building the cache do not survive a fork, and it would hang.
    loader = DataLoader(
        batches,
        batch_size=None,
        num_workers=makers,
        prefetch_factor=ahead,
        multiprocessing_context="spawn",
        pin_memory=pinned,
    )
    with interrupts_delayed():
        made = iter(loader)
    yield from made
