"""What matching does is noted here while it is done, if anyone asked; EXPLAIN ANALYZE reads it."""

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
    """What one exit was given and made of it.

    Attributes:
        entered: pairs of entity and track that it decided on.
        bands: of those, by band: rejected, uncertain, accepted.
        seconds: that comparing took, with reading and computing vectors.
        read, computed: vectors taken from disk or memory for a second look, and made from stored pictures.
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
        ways: how many entities were found in which way: 'memory', 'cache', 'index', 'exact'.
        exits: by number.
    """

    ways: Counter[str] = field(default_factory=Counter)
    exits: dict[int, ExitNote] = field(default_factory=dict)

    def exit(self, number: int) -> ExitNote:
        """The note of an exit."""
        return self.exits.setdefault(number, ExitNote())


_open: ContextVar[Ledger | None] = ContextVar("panorama_ledger", default=None)


@contextmanager
def noting() -> Iterator[Ledger]:
    """A ledger that everything done within it is noted in."""
    ledger = Ledger()
    token = _open.set(ledger)
    try:
        yield ledger
    finally:
        _open.reset(token)


def note_ways(way: str, entities: int) -> None:
    """So many entities were found in that way."""
    ledger = _open.get()
    if ledger is not None and entities:
        ledger.ways[way] += entities


def note_bands(exit: int, bands: NDArray[np.uint8]) -> None:
    """What an exit decided of some tracks (T,)."""
    ledger = _open.get()
    if ledger is not None:
        note = ledger.exit(exit)
        note.entered += len(bands)
        for band, count in enumerate(np.bincount(bands, minlength=3).tolist()):
            note.bands[band] += count


def note_dropped(exit: int, count: int) -> None:
    """So many tracks were compared at an exit and lay too low to be looked at again."""
    ledger = _open.get()
    if ledger is not None:
        note = ledger.exit(exit)
        note.entered += count
        note.bands[0] += count


def note_vectors(exit: int, read: int, computed: int) -> None:
    """So many vectors were there, and so many had to be made."""
    ledger = _open.get()
    if ledger is not None:
        note = ledger.exit(exit)
        note.read += read
        note.computed += computed


@contextmanager
def timed(exit: int) -> Iterator[None]:
    """The time spent within it is that exit's."""
    started = time.perf_counter()
    try:
        yield
    finally:
        ledger = _open.get()
        if ledger is not None:
            ledger.exit(exit).seconds += time.perf_counter() - started
