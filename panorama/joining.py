"""A thread comes in, started or not; the caller goes on after its end."""

from __future__ import annotations

import time
from threading import Thread

BEGIN_SECONDS = 0.1
"""A thread whose start was interrupted runs within this time, or never."""


def join(thread: Thread) -> None:
    """Wait for the end of a thread; return soon if an interrupt kept it from starting."""
    until = time.monotonic() + BEGIN_SECONDS
    while True:
        try:
            return thread.join()
        except RuntimeError:  # not started
            if time.monotonic() > until:
                return None
            time.sleep(BEGIN_SECONDS / 100)
