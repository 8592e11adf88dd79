"""Queries mark that they run; indexing, in whatever process, asks and waits for them, but not for ever."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "asking.lock"
POLL_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 2.0
WORK_SHARE = 0.2
"""Indexing gets at least this share of the time, however many queries there are."""


@contextmanager
def asking(locks: Path) -> Iterator[None]:
    """Mark a library as asked for a block; the system drops the mark of a process that dies."""
    try:
        descriptor = os.open(locks / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:  # a library that may only be read: nobody who could index it shares this machine's disk
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def is_asked(locks: Path) -> bool:
    """Whether a query runs now, in any process."""
    try:
        descriptor = os.open(locks / MARK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class PauseGate:
    """Holds the threads of indexing back while queries run; one thread of its own looks for them.

    A pause ends after LONGEST_PAUSE_SECONDS, and is followed by work for at least WORK_SHARE of the time, so
    that a library under constant questions is still indexed.

    Args:
        asked: tells whether a query runs.

    Attributes:
        paused_seconds: how long work was held back in all.
    """

    def __init__(self, asked: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self.paused_seconds = 0.0
        self._asked = asked
        self._clock = clock
        self._open = threading.Event()
        self._open.set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._paused_since: float | None = None
        self._free_until = 0.0

    def __enter__(self) -> PauseGate:
        self._thread = threading.Thread(target=self._watch, name="panorama pause", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._work(self._clock())

    def wait(self) -> None:
        """Return at once, or when the queries are done; call it between small pieces of work."""
        self._open.wait()

    def look(self) -> None:
        """See whether a query runs, and close or open accordingly."""
        now = self._clock()
        asked = now >= self._free_until and self._asked()
        if self._paused_since is None:
            if asked:
                self._paused_since = now
                self._open.clear()
        elif not asked:
            self._work(now)
        elif now - self._paused_since >= LONGEST_PAUSE_SECONDS:
            paused = now - self._paused_since
            self._work(now)
            self._free_until = now + paused * WORK_SHARE / (1 - WORK_SHARE)

    def _work(self, now: float) -> None:
        if self._paused_since is not None:
            self.paused_seconds += now - self._paused_since
            self._paused_since = None
        self._open.set()

    def _watch(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # the library was deleted: whoever writes will say so
            while not self._over.wait(POLL_SECONDS):
                self.look()
        self._open.set()
