"""Names of pieces of work come in; whether this process is to do each goes out, so that only one does it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

from panorama import waits
from panorama.joining import join
from panorama.store.catalog.database import write_errors
from panorama.store.files.locks import FileLock, remove_dead
from panorama.store.files.permissions import may

BEAT_SECONDS = 5.0
"""How often a holder renews its claims."""

PATIENCE_SECONDS = 120.0
"""Nobody waits any longer for a holder that has renewed nothing for this time."""

LOOK_SECONDS = 0.2
"""How often a waiting process checks whether the work is free."""


class Claims:
    """Work on a library that one run of this process has claimed, so that no other process does it as well.

    A claim is a lock on its own file. The system drops it when the process ends, however that happens, and
    even across containers with their own process numbers. It does not if a network drive keeps the lock of a
    machine that is gone, or if the process is merely stopped. Then nobody renews the file's time, and a
    process that has watched this for PATIENCE_SECONDS of its own clock does the work anyway. Work that is
    done twice only costs time.

    Args:
        locks: the folder for the lock files.
    """

    def __init__(self, locks: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._locks = locks
        self._clock = clock
        self._guard = threading.Lock()  # several threads take and drop claims
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
        """Claim a piece of work without waiting; return whether this process is to do it.

        Args:
            work: its name, which must be usable in a file name.

        Raises:
            ValueError: it is claimed here already.
            LibraryWriteError: no room or no permission for the lock file.
        """
        with self._guard:
            if work in self._held:
                raise ValueError(f"{work} is claimed already")
            with write_errors(self._locks):
                lock = _taken(self._path(work))
            if lock is None and not self._is_silent(work):
                return False
            self._held[work] = lock
            if lock is not None:  # remember silent holders: their claims are taken again without a wait
                self._seen.pop(work, None)
            if self._beating is None:
                self._beating = threading.Thread(target=self._beat, name="panorama claims", daemon=True)
                self._beating.start()
            return True

    def drop(self, work: str) -> None:
        """Release a claim, whether the work is done or not; do nothing if it is not held."""
        with self._guard:
            lock = self._held.pop(work, None)
            if lock is not None:
                lock.release()

    @contextmanager
    def alone(self, work: str, holder: str, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold a claim for a block, after its current holder.

        Args:
            holder: what the holder does, told if waiting takes long; see `waits.tell`.
            check: called while waiting; what it raises ends that.
        """
        self._take_waiting(work, partial(waits.tell, holder), check)
        try:
            yield
        finally:
            self.drop(work)

    def wait_for(self, works: Sequence[str], holder: str) -> None:
        """Return when each of these pieces of work has been free; tell once if that takes long, see `alone`.

        Hold no claim while waiting: two processes that wait for each other's claims never stop.
        """
        tell = [partial(waits.tell, holder)]
        for work in works:
            self._take_waiting(work, lambda: tell.pop()() if tell else None)
            self.drop(work)

    def _take_waiting(
        self, work: str, on_wait: Callable[[], None], check: Callable[[], None] = lambda: None
    ) -> None:
        began, told = time.monotonic(), False
        while not self.take(work):
            check()
            if not told and time.monotonic() - began >= waits.TELL_SECONDS:
                told = True
                on_wait()
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Release all claims that are still held."""
        self._over.set()
        for work in list(self._held):
            self.drop(work)
        if self._beating is not None:
            join(self._beating)

    def _path(self, work: str) -> Path:
        return self._locks / f"claim-{work}.lock"

    def _is_silent(self, work: str) -> bool:
        """Whether the holder has not renewed its file while we have watched it for PATIENCE_SECONDS."""
        try:
            renewed = self._path(work).stat().st_mtime_ns
        except FileNotFoundError:
            return False  # released a moment ago: the next attempt gets it
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
                        with contextlib.suppress(OSError):  # the work itself reports a full or lost disk
                            lock.renew()


def _taken(path: Path) -> FileLock | None:
    """The lock at `path`, None if somebody holds it."""
    if path.exists() and not may(path, os.W_OK):
        # Left by a killed process of another user: its time could not be renewed.
        with contextlib.suppress(PermissionError):
            remove_dead(path)
    return FileLock.take_if_free(path)
