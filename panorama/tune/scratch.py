"""A folder for libraries of a sample goes out; it is deleted when the work ends, like those of killed runs.

These libraries hold pictures of the footage, which nobody else should find.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR

from panorama.stopping import stopping_unwinds
from panorama.store.files.locks import FileLock, is_held

PREFIX = "panorama-tune-"

_LOCK = "lock"
_WITHOUT_LOCK_SECONDS = 86400.0
"""Folders of earlier versions, or just created, have no lock; one older than this is abandoned."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Context manager: a private folder that is deleted at the end, also if the process is asked to end."""
    sweep()
    with stopping_unwinds(), tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        lock = FileLock.take(Path(folder) / _LOCK)
        try:
            yield Path(folder)
        finally:
            lock.release()


def sweep() -> int:
    """Delete the folders that killed runs of this user left; returns how many."""
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
        return abs(time.time() - found.st_mtime) > _WITHOUT_LOCK_SECONDS  # abs: the clock may be set back
    return False
