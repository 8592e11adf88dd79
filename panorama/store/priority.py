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
from typing import Protocol

from panorama.store.files.joining import join
from panorama.store.files.opened import Opened

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

    def wait(self) -> None:
        """Return when a query begins or ends, where the system can tell, and soon in any case."""
        self._opened.wait(TOLD_POLL_SECONDS if self._opened.tells else POLL_SECONDS)

    def end(self) -> None:
        """Have `wait` return, from another thread, now and from now on."""
        self._opened.end()

    def close(self) -> None:
        """Look no more."""
        self._opened.close()
        os.close(self._descriptor)


class Watched(Protocol):
    """What a gate goes by: see `Marks`."""

    def is_asked(self) -> bool: ...

    def wait(self) -> None: ...

    def end(self) -> None: ...


class PauseGate:
    """Holds the threads of indexing back while queries run; one thread of its own looks for them.

    Pauses of LONGEST_PAUSE_SECONDS in all, less the work between them that made up for them, are followed by
    work until it has had WORK_SHARE of the time, so that a library under constant questions is still indexed.

    Args:
        marks: tells whether a query runs, and when that may have changed.
        hold: told when a pause begins (True) and ends, for what runs elsewhere.

    Attributes:
        paused_seconds: how long work was held back in all.
    """

    def __init__(
        self,
        marks: Watched,
        clock: Callable[[], float] = time.monotonic,
        hold: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.paused_seconds = 0.0
        self._marks = marks
        self._clock = clock
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
        try:
            self._thread.start()
        except BaseException:  # an interrupt: it may have begun
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._marks.end()
        if self._thread is not None:
            join(self._thread)
        self._work(self._clock())

    def wait(self) -> None:
        """Return at once, or when the queries are done; call it between small pieces of work."""
        self._open.wait()

    def look(self) -> None:
        """See whether a query runs, and close or open accordingly."""
        now = self._clock()
        asked = now >= self._free_until and self._marks.is_asked()
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
                self._marks.wait()
        finally:
            self._work(self._clock())  # nobody opens it any more, even where looking failed
