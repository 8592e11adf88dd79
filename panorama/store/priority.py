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

from panorama.store.opened import Opened

MARK = "asking.lock"
POLL_SECONDS = 0.01
TOLD_POLL_SECONDS = 0.05
"""Where the system tells of queries: this often it is looked at all the same."""
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
        # Who watches the file was told of its opening, before there was a lock to see: now there is.
        with contextlib.suppress(OSError):
            os.close(os.open(locks / MARK, os.O_RDONLY | os.O_CLOEXEC))
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a close alone tells of itself while there is a lock still
        os.close(descriptor)


class Marks:
    """Sees the marks of one library for as long as it likes; makes no mark and opens nothing meanwhile."""

    def __init__(self, locks: Path) -> None:
        self._descriptor = os.open(locks / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._opened = Opened(locks / MARK)

    def is_asked(self) -> bool:
        """Whether a query runs now, in any process."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    @property
    def patience_seconds(self) -> float:
        """How often to look at least."""
        return TOLD_POLL_SECONDS if self._opened.tells else POLL_SECONDS

    def wait(self, seconds: float) -> None:
        """Return when a query begins or ends, where the system can tell, and after so long in any case."""
        self._opened.wait(seconds)

    def close(self) -> None:
        """Look no more."""
        self._opened.close()
        os.close(self._descriptor)


class PauseGate:
    """Holds the threads of indexing back while queries run; one thread of its own looks for them.

    Pauses of LONGEST_PAUSE_SECONDS in all, less the work between them that made up for them, are followed by
    work until it has had WORK_SHARE of the time, so that a library under constant questions is still indexed.

    Args:
        asked: tells whether a query runs.
        until_changed: waits until that may have changed, at most for the seconds given.
        hold: told when a pause begins (True) and ends, for what runs elsewhere.
        patience_seconds: those that `until_changed` is given.

    Attributes:
        paused_seconds: how long work was held back in all.
    """

    def __init__(
        self,
        asked: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        until_changed: Callable[[float], None] = time.sleep,
        hold: Callable[[bool], None] = lambda _: None,
        patience_seconds: float = POLL_SECONDS,
    ) -> None:
        self._patience_seconds = patience_seconds
        self.paused_seconds = 0.0
        self._asked = asked
        self._clock = clock
        self._until_changed = until_changed
        self._hold = hold
        self._open = threading.Event()
        self._open.set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._paused_since: float | None = None
        self._looked = clock()
        self._owed = 0.0
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
        passed, self._looked = now - self._looked, now
        if self._paused_since is None:
            self._owed = max(0.0, self._owed - passed * (1 - WORK_SHARE) / WORK_SHARE)
            if asked:
                self._paused_since = now
                self._hold(True)
                self._open.clear()
            return
        self._owed += passed
        if self._owed >= LONGEST_PAUSE_SECONDS:
            self._free_until = now + self._owed * WORK_SHARE / (1 - WORK_SHARE)
            self._work(now)
        elif not asked:
            self._work(now)

    def _work(self, now: float) -> None:
        if self._paused_since is not None:
            self.paused_seconds += now - self._paused_since
            self._paused_since = None
            self._open.set()
            self._hold(False)

    def _watch(self) -> None:
        try:
            while not self._over.is_set():
                self.look()
                self._until_changed(self._patience_seconds)
        finally:
            self._work(self._clock())  # nobody opens it any more, even where looking failed
