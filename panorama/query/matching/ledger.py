"""Matching records here what it does, if anyone listens; EXPLAIN ANALYZE reads it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class ExitNote:
    """What one exit received and decided.

    Attributes:
        entered: pairs of entity and track that it decided on.
        bands: number of these by band: rejected, uncertain, accepted.
        seconds: time of comparing, including reading and computing vectors.
        read, computed: vectors read from disk or memory for a second look, and computed from stored pictures.
    """

    entered: int = 0
    bands: list[int] = field(default_factory=lambda: [0, 0, 0])
    seconds: float = 0.0
    read: int = 0
    computed: int = 0


@dataclass(slots=True)
class Ledger:
    """What one matching pass did.

    Attributes:
        ways: number of entities found in each way: 'memory', 'cache', 'index', 'exact'.
        exits: notes by exit.
    """

    ways: Counter[str] = field(default_factory=Counter)
    exits: dict[int, ExitNote] = field(default_factory=dict)

    def exit(self, number: int) -> ExitNote:
        """The note of an exit."""
        return self.exits.setdefault(number, ExitNote())


_open: ContextVar[Ledger | None] = ContextVar("panorama_ledger", default=None)


@contextmanager
def noting() -> Iterator[Ledger]:
    """Context manager: a ledger that records all matching inside the block."""
    ledger = Ledger()
    token = _open.set(ledger)
    try:
        yield ledger
    finally:
        _open.reset(token)


def note_ways(way: str, entities: int) -> None:
    """Record that this many entities were found in this way."""
    ledger = _open.get()
    if ledger is not None and entities:
        ledger.ways[way] += entities


def note_bands(exit: int, bands: NDArray[np.uint8]) -> None:
    """Record what an exit decided about some tracks (T,)."""
    ledger = _open.get()
    if ledger is not None:
        note = ledger.exit(exit)
        note.entered += len(bands)
        for band, count in enumerate(np.bincount(bands, minlength=3).tolist()):
            note.bands[band] += count


def note_dropped(exit: int, count: int) -> None:
    """Record tracks that an exit compared and rejected for good."""
    ledger = _open.get()
    if ledger is not None:
        note = ledger.exit(exit)
        note.entered += count
        note.bands[0] += count


def note_vectors(exit: int, read: int, computed: int) -> None:
    """Record how many vectors were read and how many computed."""
    ledger = _open.get()
    if ledger is not None:
        note = ledger.exit(exit)
        note.read += read
        note.computed += computed


@contextmanager
def timed(exit: int) -> Iterator[None]:
    """Context manager: count the time of the block for an exit."""
    started = time.perf_counter()
    try:
        yield
    finally:
        ledger = _open.get()
        if ledger is not None:
            ledger.exit(exit).seconds += time.perf_counter() - started
