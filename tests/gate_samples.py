"""What the pause of indexing depends on, as a test sets it: time, and whether somebody asks."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Time that a test moves on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """Marks that a test sets; there is nobody to wait for."""

    def __init__(self, look: Callable[[], bool] = lambda: False) -> None:
        self.is_asked = look

    def wait(self) -> None:
        time.sleep(0.001)

    def end(self) -> None:
        pass
