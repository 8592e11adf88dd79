"""Pieces of work enter, by name; whether this process is to do them leaves, so that no other does as well."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from panorama.store.catalog.database import write_errors
from panorama.store.files.joining import join
from panorama.store.files.locks import FileLock

BEAT_SECONDS = 5.0
"""How often a holder gives a sign of life."""

PATIENCE_SECONDS = 120.0
"""A holder without a sign of life for so long is not waited for any more."""

LOOK_SECONDS = 0.2
"""How often who waits looks whether a piece of work is free."""

TELL_SECONDS = 1.0
"""Waiting that takes longer is told of: most is for somebody who only sees that nothing is to be done."""


class Claims:
    """What one run of this process does, of the work that any process may do on a library.

    A claim is a lock on a file of its own: the system drops it with the process, however that ends and
    whatever process numbers mean there. Where it does not (a machine that went while a network drive kept its
    lock, a process that was stopped), the file's time is no longer renewed, and who has watched that for
    PATIENCE_SECONDS of its own clock does the work all the same. Work that is done twice is only lost time.

    Args:
        locks: the folder for the files.
    """

    def __init__(self, locks: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._locks = locks
        self._clock = clock
        self._guard = threading.Lock()  # one thread takes what another drops
        self._held: dict[str, FileLock | None] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._over = threading.Event()
        self._beating: threading.Thread | None = None

    def __enter__(self) -> Claims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take(self, work: str) -> bool:
        """Whether this process is to do a piece of work; without waiting.

        Args:
            work: its name, which can be part of a file's. What is held already is not taken again.

        Raises:
            LibraryWriteError: there is no room or no right for the file.
        """
        with self._guard:
            if work in self._held:
                raise ValueError(f"{work} is claimed already")
            with write_errors(self._locks):
                lock = FileLock.take_if_free(self._path(work))
            if lock is None and not self._is_silent(work):
                return False
            self._held[work] = lock
            if lock is not None:  # of one that is silent we know: who waited for it takes it again
                self._seen.pop(work, None)
            if self._beating is None:
                self._beating = threading.Thread(target=self._beat, name="panorama claims", daemon=True)
                self._beating.start()
            return True

    def drop(self, work: str) -> None:
        """Say that a piece of work is done, or is not done after all; nothing where it was not taken."""
        with self._guard:
            lock = self._held.pop(work, None)
            if lock is not None:
                lock.release()

    @contextmanager
    def alone(self, work: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Do a piece of work in a block, after whoever is at it; `on_wait` is called if that takes long."""
        self._take_waiting(work, on_wait)
        try:
            yield
        finally:
            self.drop(work)

    def wait_for(self, works: Sequence[str], on_wait: Callable[[], None] = lambda: None) -> None:
        """Return when all these pieces of work have been free; `on_wait` is called once if that takes long.

        Hold nothing meanwhile: two that wait for each other would do so until they lose patience.
        """
        tell = [on_wait]
        for work in works:
            self._take_waiting(work, lambda: tell.pop()() if tell else None)
            self.drop(work)

    def _take_waiting(self, work: str, on_wait: Callable[[], None]) -> None:
        began, told = time.monotonic(), False
        while not self.take(work):
            if not told and time.monotonic() - began >= TELL_SECONDS:
                told = True
                on_wait()
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Drop all that is still held."""
        self._over.set()
        for work in list(self._held):
            self.drop(work)
        if self._beating is not None:
            join(self._beating)

    def _path(self, work: str) -> Path:
        return self._locks / f"claim-{work}.lock"

    def _is_silent(self, work: str) -> bool:
        """Whether the holder has not renewed its file for as long as we have watched it, and long enough."""
        try:
            renewed = self._path(work).stat().st_mtime_ns
        except FileNotFoundError:
            return False  # dropped a moment ago: the next look takes it
        now = self._clock()
        before, since = self._seen.get(work, (None, now))
        if renewed != before:
            since = now
        self._seen[work] = renewed, since
        return now - since >= PATIENCE_SECONDS

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            with self._guard:
                for lock in self._held.values():
                    if lock is not None:
                        with contextlib.suppress(OSError):  # a full or lost disk is told by the work itself
                            lock.renew()
