"""A file comes in; waiting ends as soon as any process opens or closes it, if the system has inotify."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
from pathlib import Path
from typing import Any

# Constants of inotify(7), which Python's standard library does not provide.
_IN_CLOSE_WRITE, _IN_CLOSE_NOWRITE, _IN_OPEN = 0x8, 0x10, 0x20
_EVENT_BYTES = 4096


class Opened:
    """Waits until any process opens or closes a file; without inotify it only waits for a time.

    Args:
        path: of an existing file.
    """

    def __init__(self, path: Path) -> None:
        self._ended, self._end = os.pipe()
        self._events = _watched(path)

    @property
    def tells(self) -> bool:
        """Whether the system reports opening and closing."""
        return self._events is not None

    def wait(self, seconds: float) -> None:
        """Return when the file is opened or closed, or after a time; earlier events count, too."""
        poll = select.poll()  # not select, which fails for descriptors from 1024 on
        poll.register(self._ended, select.POLLIN)
        if self._events is not None:
            poll.register(self._events, select.POLLIN)
        poll.poll(seconds * 1000)
        if self._events is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._events, _EVENT_BYTES)

    def end(self) -> None:
        """Make `wait` return now and from now on; may be called by another thread."""
        os.write(self._end, b".")

    def close(self) -> None:
        """Stop watching."""
        for descriptor in (self._ended, self._end, self._events):
            if descriptor is not None:
                os.close(descriptor)


def _watched(path: Path) -> int | None:
    """The inotify descriptor that watches the file; None if the system has none to give."""
    try:
        library: Any = ctypes.CDLL(None)
    except OSError:  # a Python that cannot load libraries
        return None
    if not hasattr(library, "inotify_init1"):
        return None
    events: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0:  # the number per user is limited
        return None
    what = _IN_OPEN | _IN_CLOSE_WRITE | _IN_CLOSE_NOWRITE
    if library.inotify_add_watch(events, os.fsencode(path), what) < 0:
        os.close(events)
        return None
    return events
