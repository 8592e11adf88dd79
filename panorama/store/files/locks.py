"""A path comes in; a lock on it goes out, which the system drops when the holder dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_SECONDS = 0.02


class FileLock:
    """An exclusive `flock` on its own file; it ends with `release` or with the process, however that ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._owner = os.getpid()
        # Also released when the object is garbage-collected.
        self._close = weakref.finalize(self, _let_go, path, descriptor, self._owner)

    @classmethod
    def take(cls, path: Path) -> FileLock:
        """Take the lock, waiting for the current holder.

        Raises:
            OSError: the file cannot be created.
        """
        return cls(path, _locked(path, fcntl.LOCK_EX))

    @classmethod
    def take_if_free(cls, path: Path) -> FileLock | None:
        """Take the lock, or return None if somebody holds it; OSError as `take`."""
        try:
            return cls(path, _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            return None

    def write(self, content: str) -> None:
        """Replace the file's content, which others may read while the lock is held."""
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content.encode(), 0)

    def renew(self) -> None:
        """Set the file's time, which shows others that the holder is still at work."""
        os.utime(self._descriptor)

    def release(self, keep_file: bool = False) -> None:
        """Drop the lock and, unless `keep_file`, delete its file."""
        if keep_file:
            if self._close.detach() is not None:
                if os.getpid() == self._owner:  # a forked child has it open, too, and would keep the lock
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
                os.close(self._descriptor)
        else:
            self._close()


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock at `path`; False if the file is missing."""
    try:
        descriptor = open_lock(path, fcntl.LOCK_SH, create=False)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: checks do not see each other
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_dead(path: Path) -> bool:
    """Delete a lock file if nobody holds it; return whether it was deleted."""
    try:
        descriptor = open_lock(path, fcntl.LOCK_EX, create=False)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _same_file(path, descriptor):
            return False  # the holder has just deleted it, and another process may hold a new file there
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def held_within(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock at `path` for a block whose work can be left undone; the file stays.

    Raises:
        BlockingIOError: somebody else still holds it after that long, such as a process that is suspended.
    """
    until = time.monotonic() + seconds
    while (lock := FileLock.take_if_free(path)) is None:
        if time.monotonic() >= until:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock", str(path))
        time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        lock.release(keep_file=True)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock at `path` for a block, after waiting for the current holder; the file stays."""
    lock = FileLock.take(path)
    try:
        yield
    finally:
        lock.release(keep_file=True)


def open_lock(path: Path, how: int, create: bool = True) -> int:
    """A descriptor of the file at `path` that can be locked with `how` (see flock(2)).

    Another user's file that may only be read will do: only NFS wants it writable, for an exclusive lock.

    Raises:
        OSError: the file is missing and cannot be created, or it may not be read.
    """
    access = os.O_RDWR if how & fcntl.LOCK_EX else os.O_RDONLY
    flags = os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return os.open(path, access | flags, 0o666)  # the umask says who else may write
    except PermissionError as exc:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise exc from None


def _locked(path: Path, how: int) -> int:
    """The descriptor of the file at `path`, created if missing, and locked with `how` (see flock(2))."""
    while True:
        descriptor = open_lock(path, how)
        try:
            fcntl.flock(descriptor, how)
        except BaseException:
            os.close(descriptor)
            raise
        if _same_file(path, descriptor):
            return descriptor
        os.close(descriptor)  # somebody deleted the file between open and lock: try again with a new one


def _let_go(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not delete the file that its parent still holds
        with contextlib.suppress(OSError):
            if _same_file(path, descriptor):  # else a user deleted it, and another process may hold a new one
                path.unlink()
    os.close(descriptor)


def _same_file(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)
