"""A step's work and its batches come in; the same work goes out, replayed as one CUDA graph per shape.

A step launches some four thousand small pieces of work, which takes Python ten times as long as it takes the
GPU to do them. Recorded once, they are launched together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from panorama.models.proposer_training.run import Run

Losses = dict[str, Tensor]

Update = Callable[[Run, dict[str, Any], bool, Mapping[str, float], float], Losses]
"""What `loop.update_weights` is."""

LISTS = ("boxes", "real", "silent")
"""Parts of a batch whose second dimension differs from batch to batch."""

LEAST_ROOM = 16
"""Boxes a picture for which there is always room; otherwise every number of boxes would need a graph."""


@dataclass(slots=True)
class Recorded:
    """A graph, the tensors that it reads a batch from, and those that it leaves the losses in."""

    graph: torch.cuda.CUDAGraph
    batch: dict[str, Any]
    losses: Losses


class Replayed:
    """An update that is recorded as a CUDA graph when a shape of batch comes for the second time.

    The first time it runs as it is, which also makes what a graph cannot: the state of optimisers, workspaces
    of libraries, tensors copied from the CPU. The losses hold until the next call.
    """

    def __init__(self, update: Update) -> None:
        self._update = update
        self._recorded: dict[tuple[Any, ...], Recorded | None] = {}
        self._stream = torch.cuda.Stream()
        # One for all: what a graph leaves there, but for the losses, is of no use to the next.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(
        self, run: Run, batch: dict[str, Any], apart: bool, weights: Mapping[str, float], clip: float
    ) -> Losses:
        batch = with_room(batch)
        kind = (apart, tuple(weights.items()), clip, *(part.shape for part in _tensors(batch)))
        if kind not in self._recorded:
            self._recorded[kind] = None
            with self._beside():
                return self._update(run, batch, apart, weights, clip)
        recorded = self._recorded[kind]
        if recorded is None:
            graph, kept = torch.cuda.CUDAGraph(), _copied(batch)
            # Recorded is what this thread does: the one that pins the memory of the next batches goes on.
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                losses = self._update(run, kept, apart, weights, clip)
            recorded = self._recorded[kind] = Recorded(graph, kept, losses)
        for mine, new in zip(_tensors(recorded.batch), _tensors(batch), strict=True):
            mine.copy_(new)
        recorded.graph.replay()
        return recorded.losses

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Work on the stream that records, after what was asked for so far and before what comes."""
        main = torch.cuda.current_stream()
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            yield
        main.wait_stream(self._stream)


def with_room(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch with its lists of boxes padded to a power of two; padding is as in `batches.padded`."""
    most = max(batch[name].shape[1] for name in LISTS)
    room = max(LEAST_ROOM, 1 << (most - 1).bit_length())
    return batch | {name: _lengthened(batch[name], room) for name in LISTS}


def _lengthened(lists: Tensor, room: int) -> Tensor:
    """Lists (B, n) or (B, n, 4) as (B, room, ...), zeros behind."""
    return F.pad(lists, [0, 0] * (lists.ndim - 2) + [0, room - lists.shape[1]])


def _tensors(batch: Mapping[str, Any]) -> list[Tensor]:
    """All tensors of a batch, in the order of its entries."""
    return [part for value in batch.values() for part in (value if isinstance(value, list) else [value])]


def _copied(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [part.clone() for part in value] if isinstance(value, list) else value.clone()
        for name, value in batch.items()
    }
