"""What a question asks of its answer besides rows: an accuracy, a time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Contract:
    """WITH PRECISION >= 0.95 or WITH RECALL >= 0.9.

    Attributes:
        start: its place in the statement.
    """

    kind: Literal["precision", "recall"]
    at_least: float
    start: int = 0

    def __str__(self) -> str:
        return f"WITH {self.kind.upper()} >= {self.at_least:g}"


class Budget:
    """WITHIN n SECONDS, once its time runs.

    Attributes:
        seconds: as asked for.
        cut: what was left undone when the time was over, for people; nothing where all was done.
    """

    def __init__(self, seconds: float, started: float) -> None:
        self.seconds = seconds
        self.cut: list[str] = []
        self._deadline = started + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, 0 where the time is over."""
        return max(self._deadline - time.perf_counter(), 0.0)
