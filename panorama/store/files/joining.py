"""A thread enters, begun or not; who waits for its end goes on."""

from __future__ import annotations

import time
from threading import Thread

BEGIN_SECONDS = 0.1
"""A thread whose start was interrupted begins within this time, or never."""


def join(thread: Thread) -> None:
    """Wait for the end of a thread; not where an interrupt of its start kept it from beginning."""
    until = time.monotonic() + BEGIN_SECONDS
    while True:
        try:
            return thread.join()
        except RuntimeError:  # it has not begun
            if time.monotonic() > until:
                return None
            time.sleep(BEGIN_SECONDS / 100)
