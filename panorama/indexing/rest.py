"""Work pauses between small pieces; the time of pauses is kept apart from that of work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Rest:
    """Call it between pieces of work that take milliseconds, from any thread: a query waits for one piece.

    Args:
        wait: returns at once, or when the pause ends, as `PauseGate.wait` does.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait
        self._own = threading.local()

    def __call__(self) -> None:
        """Pause if work is to pause now."""
        before = time.perf_counter()
        self._wait()
        self._own.seconds = self.seconds + time.perf_counter() - before

    @property
    def seconds(self) -> float:
        """How long this thread has paused so far."""
        return getattr(self._own, "seconds", 0.0)

    def clock(self) -> float:
        """A clock in seconds that stands still while this thread pauses."""
        return time.perf_counter() - self.seconds
