"""A file enters; waiting for it ends as soon as anybody opens or closes it, where the system can tell."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
from pathlib import Path
from typing import Any

# Of inotify(7), which Python's own library does not have.
_IN_CLOSE_WRITE, _IN_CLOSE_NOWRITE, _IN_OPEN = 0x8, 0x10, 0x20
_EVENT_BYTES = 4096


class Opened:
    """Waits for a file to be opened or closed, in whatever process; without inotify it just waits.

    Args:
        path: of a file that is there.
    """

    def __init__(self, path: Path) -> None:
        self._ended, self._end = os.pipe()
        self._events = _watched(path)

    @property
    def tells(self) -> bool:
        """Whether the system tells of it."""
        return self._events is not None

    def wait(self, seconds: float) -> None:
        """Return when the file is opened or closed, or the time is over; what came before counts too."""
        poll = select.poll()  # not select, which knows no descriptors from 1024 on
        poll.register(self._ended, select.POLLIN)
        if self._events is not None:
            poll.register(self._events, select.POLLIN)
        poll.poll(seconds * 1000)
        if self._events is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._events, _EVENT_BYTES)

    def end(self) -> None:
        """Have whoever waits return, from another thread, now and from now on."""
        os.write(self._end, b".")

    def close(self) -> None:
        """Stop watching."""
        for descriptor in (self._ended, self._end, self._events):
            if descriptor is not None:
                os.close(descriptor)


def _watched(path: Path) -> int | None:
    """The descriptor that tells of the file; None where the system has no such thing."""
    try:
        library: Any = ctypes.CDLL(None)
    except OSError:  # a Python that cannot load libraries
        return None
    if not hasattr(library, "inotify_init1"):
        return None
    events: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0:  # a user may have so many of them and no more
        return None
    what = _IN_OPEN | _IN_CLOSE_WRITE | _IN_CLOSE_NOWRITE
    if library.inotify_add_watch(events, os.fsencode(path), what) < 0:
        os.close(events)
        return None
    return events
