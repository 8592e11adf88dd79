"""Presence of processes: a path enters, a lock that the system drops when its holder dies leaves."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileLock:
    """An exclusive `flock` on a file of its own; ends with `release` or with the process, however it ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._owner = os.getpid()
        # A lock that is merely forgotten is released too.
        self._close = weakref.finalize(self, _let_go, path, descriptor, self._owner)

    @classmethod
    def take(cls, path: Path) -> FileLock:
        """The lock, after waiting for whoever has it.

        Raises:
            OSError: the file cannot be created.
        """
        return cls(path, _locked(path, fcntl.LOCK_EX))

    @classmethod
    def take_if_free(cls, path: Path) -> FileLock | None:
        """The lock, or None where somebody has it; OSError as `take`."""
        try:
            return cls(path, _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            return None

    def write(self, content: str) -> None:
        """Replace the file's content, for others to read while the lock is held."""
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content.encode(), 0)

    def renew(self) -> None:
        """Set the file's time, for others to see that somebody still works behind the lock."""
        os.utime(self._descriptor)

    def release(self, keep_file: bool = False) -> None:
        """Drop the lock, and its file with it."""
        if keep_file:
            if self._close.detach() is not None:
                if os.getpid() == self._owner:  # who was forked meanwhile has it open, too
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                os.close(self._descriptor)
        else:
            self._close()


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock at `path`; a missing file is held by nobody."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that ask do not see each other
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_dead(path: Path) -> bool:
    """Delete a lock file whose holder is gone; whether it was."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _same_file(path, descriptor):
            return False  # its holder went meanwhile, with its file, and another one may hold the next
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock at `path` for a block, waiting for whoever has it; the file stays."""
    lock = FileLock.take(path)
    try:
        yield
    finally:
        lock.release(keep_file=True)


def _locked(path: Path, how: int) -> int:
    """The descriptor of the file at `path`, made if need be and locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, how)
        except BaseException:
            os.close(descriptor)
            raise
        if _same_file(path, descriptor):
            return descriptor
        os.close(descriptor)  # a sweep removed the file between open and lock: try again on a new one


def _let_go(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must not remove what its parent still holds
        with contextlib.suppress(OSError):
            path.unlink()
    os.close(descriptor)


def _same_file(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)
