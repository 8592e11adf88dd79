"""A folder for libraries of a sample leaves, which goes when the work ends, as does what killed runs left.

Libraries hold pictures out of the footage, which are nobody's to find.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from types import FrameType

from panorama.store.files.locks import FileLock, is_held

PREFIX = "panorama-tune-"
STOPPING = (signal.SIGTERM, signal.SIGHUP)
"""Sent to end a process, which they do at once where nobody heeds them."""

_LOCK = "lock"
_WITHOUT_LOCK_SECONDS = 86400.0
"""A folder of an earlier version, or one just made, has no lock: one so old is nobody's any more."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that goes with the block, also where the process is told to end; of the user's alone."""
    sweep()
    with stopping_unwinds(), tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        lock = FileLock.take(Path(folder) / _LOCK)
        try:
            yield Path(folder)
        finally:
            lock.release()


def sweep() -> int:
    """Delete the folders of this user's runs that were killed; how many."""
    left = [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if _is_left(path)]
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return len(left)


def _is_left(path: Path) -> bool:
    with suppress(OSError):
        found = path.lstat()
        if not S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        if (path / _LOCK).exists():
            return not is_held(path / _LOCK)
        return abs(time.time() - found.st_mtime) > _WITHOUT_LOCK_SECONDS  # the clock may be set back
    return False


@contextmanager
def stopping_unwinds() -> Iterator[None]:
    """Within it, what ends the process does so as Ctrl-C does: what is open is put away, and then it ends.

    Whoever ignores or heeds the signals is not disturbed; only the main thread may change it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if not told:  # told twice, it puts away what it was about to all the same
            told.append(number)
            raise KeyboardInterrupt

    changed = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
        if told:
            os.kill(os.getpid(), told[0])
