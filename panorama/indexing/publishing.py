"""Finished segments come in; their videos appear in the library, several at once while queries run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from panorama.errors import PanoramaError
from panorama.indexing.outcomes import FileOutcome, removed
from panorama.store import (
    ABORT_WAIT_SECONDS,
    Claims,
    SegmentWriter,
    VideoRow,
    abort_together,
    commit_together,
    lacks_room,
)

PUBLISH_SECONDS = 10.0
"""While queries run, videos appear at least this long after those before them."""
MOST_HELD = 16
"""So many finished videos appear at once, since each keeps two files open until then."""
QUIET_SECONDS = 2.0
"""If no query has run for so long, videos appear when they are finished."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A video that only has to be committed.

    Attributes:
        writer: of its segment, with complete files.
        outcome: what will be told of it, still without its name in the library.
    """

    writer: SegmentWriter
    row: VideoRow
    outcome: FileOutcome


class Asked(Protocol):
    """What a Publisher needs of `PauseGate`."""

    def is_quiet(self, seconds: float) -> bool: ...


class Publisher:
    """Holds finished videos back from an open library that is being queried.

    After each commit the next query reads what is new, which takes it two to three times as long as others.
    Where queries follow each other and videos are short, every fortieth query was such a one.

    Args:
        gate: says when a query last ran.
        claims: on the videos' contents; dropped when these are in the library.

    Attributes:
        removed: contents that were not committed, because their videos were removed from the library.
    """

    def __init__(self, gate: Asked, claims: Claims, clock: Callable[[], float] = time.monotonic) -> None:
        self._gate = gate
        self._claims = claims
        self._clock = clock
        self._published = clock() - PUBLISH_SECONDS
        self._finished: list[Finished] = []
        self.removed: set[str] = set()
        self._wait_seconds: float | None = None

    def add(self, finished: Finished) -> None:
        """Take a finished video."""
        self._finished.append(finished)

    def is_due(self) -> bool:
        """Whether there is something to publish, and now is the time."""
        if not self._finished:
            return False
        since = self._clock() - self._published
        many = len(self._finished) >= MOST_HELD
        return many or since >= PUBLISH_SECONDS or self._gate.is_quiet(QUIET_SECONDS)

    def publish(self) -> list[FileOutcome]:
        """Commit all videos that were added, in one step; their outcomes, in order.

        Raises:
            LibraryWriteError, LibraryDamaged: for example a full disk; none of them is in the library, and
                `end` tries again.
        """
        finished = self._finished
        if not finished:
            return []
        began = time.perf_counter()
        try:
            names = commit_together([(one.writer, one.row) for one in finished], self._wait_seconds)
        except PanoramaError:
            self._wait_seconds = ABORT_WAIT_SECONDS  # the next attempt is the last
            raise
        self._finished, self._published = [], self._clock()
        for one, name in zip(finished, names, strict=True):
            self._claims.drop(one.row.content_hash)
            if name is None:
                self.removed.add(one.row.content_hash)
        share = (time.perf_counter() - began) / len(finished)
        return [_named(one.outcome, name, share) for one, name in zip(finished, names, strict=True)]

    def end(self) -> tuple[list[FileOutcome], PanoramaError | None]:
        """Commit what can be, one by one if not together, and give up the rest; outcomes, and what failed."""
        try:
            return self.publish(), None
        except PanoramaError as exc:
            error = exc
        held, told = self._finished, list[FileOutcome]()
        while held:
            self._finished = held[:1]
            try:
                told += self.publish()
            except PanoramaError as exc:
                error = exc
                if not lacks_room(exc):
                    break
                abort_together([held.pop().writer])  # which makes room for those before it
            else:
                held = held[1:]
        abort_together([one.writer for one in held])
        self._finished = []
        return told, error


def _named(outcome: FileOutcome, name: str | None, write_seconds: float) -> FileOutcome:
    if name is None:
        return removed(outcome.path, outcome.seconds)
    stages = outcome.stage_seconds
    stages = {**stages, "write": stages.get("write", 0.0) + write_seconds}
    return replace(outcome, video=name, stage_seconds=stages)
