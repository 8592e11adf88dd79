"""Queries mark that they run; indexing, in any process, sees the marks and waits, but not for ever."""

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

from panorama.joining import join
from panorama.store.files.locks import open_lock
from panorama.store.files.opened import Opened

MARK = "asking.lock"
POLL_SECONDS = 0.01
TOLD_POLL_SECONDS = 0.05
"""Longest time between two looks even if the system reports queries (inotify)."""
LONGEST_PAUSE_SECONDS = 2.0
WORK_SHARE = 0.2
"""Indexing gets at least this share of the time, however many queries run."""


@contextmanager
def asking(locks: Path) -> Iterator[None]:
    """Mark that a query runs, for a block; the system drops the mark of a process that dies."""
    try:
        descriptor = open_lock(locks / MARK, fcntl.LOCK_SH)
    except OSError:  # read-only library: the query runs without a mark
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Watchers were notified of the first opening before the lock was there; notify them again.
        with contextlib.suppress(OSError):
            os.close(os.open(locks / MARK, os.O_RDONLY | os.O_CLOEXEC))
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # before the close, whose notification must find no lock
        os.close(descriptor)


class Marks:
    """Sees the marks of one library until `close`; sets no mark itself."""

    def __init__(self, locks: Path) -> None:
        self._descriptor = open_lock(locks / MARK, fcntl.LOCK_EX)
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
        """Return when a query begins or ends, if the system can report it, and after a short time anyway."""
        self._opened.wait(TOLD_POLL_SECONDS if self._opened.tells else POLL_SECONDS)

    def end(self) -> None:
        """Make `wait` return now and from now on; may be called by another thread."""
        self._opened.end()

    def close(self) -> None:
        """Stop watching; call it once nobody waits."""
        self._opened.close()
        os.close(self._descriptor)


class Watched(Protocol):
    """What a PauseGate needs of `Marks`."""

    def is_asked(self) -> bool: ...

    def wait(self) -> None: ...

    def end(self) -> None: ...


class PauseGate:
    """Pauses the threads of indexing while queries run; its own thread watches for queries.

    Pause time adds up; work in between pays it back, in the proportion of WORK_SHARE. When the sum reaches
    LONGEST_PAUSE_SECONDS, work runs despite queries until it has had WORK_SHARE of the time. So a library
    under constant queries is still indexed.

    Args:
        marks: says whether a query runs, and when that may have changed.
        hold: called with True when a pause begins and False when it ends, for work outside these threads.

    Attributes:
        paused_seconds: total time of the pauses that have ended.
        asked_at: when a query was last seen running, by `clock`; None for never.
    """

    def __init__(
        self,
        marks: Watched,
        clock: Callable[[], float] = time.monotonic,
        hold: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.paused_seconds = 0.0
        self.asked_at: float | None = None
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
        except BaseException:  # an interrupt: the thread may have started
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
        """Return at once, or when the pause ends; call it between small pieces of work."""
        self._open.wait()

    def is_quiet(self, seconds: float) -> bool:
        """Whether no query was seen running for so long."""
        return self.asked_at is None or self._clock() - self.asked_at >= seconds

    def look(self) -> None:
        """Check whether a query runs, and pause or resume the work accordingly."""
        now = self._clock()
        asked = now >= self._free_until and self._marks.is_asked()
        passed, self._looked = now - self._looked, now
        if asked:
            self.asked_at = now
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
            self._work(self._clock())  # nobody else would end the pause, even if `look` failed
