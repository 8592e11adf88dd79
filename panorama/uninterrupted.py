"""A block comes in; a Ctrl-C that comes during it is raised at its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def may_delay() -> bool:
    """Whether this thread can delay Ctrl-C: the main thread, where Python handles the signal."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is not None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block ends, if this thread can; otherwise it never gets a KeyboardInterrupt.

    For blocks of milliseconds, after which the caller knows what it has to take back.
    """
    if not may_delay():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
