"""What a query requires of its answer besides rows comes in: an accuracy or a time; values go out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Contract:
    """WITH PRECISION >= 0.95 or WITH RECALL >= 0.9.

    Attributes:
        start: its position in the statement.
    """

    kind: Literal["precision", "recall"]
    at_least: float
    start: int = 0

    def __str__(self) -> str:
        return f"WITH {self.kind.upper()} >= {self.at_least:g}"


class Budget:
    """WITHIN n SECONDS, counted from the start of the statement.

    Attributes:
        seconds: the limit.
        cut: what was left undone when the time was up, as text for users; [] if nothing was.
    """

    def __init__(self, seconds: float, started: float) -> None:
        self.seconds = seconds
        self.cut: list[str] = []
        self._deadline = started + seconds

    @property
    def left(self) -> float:
        """Seconds left; 0 if the time is up."""
        return max(self._deadline - time.perf_counter(), 0.0)
