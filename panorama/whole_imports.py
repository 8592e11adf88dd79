"""A call that may load packages comes in; Ctrl-C comes out of it, but never from the middle of an import.

Python forgets a module whose import was interrupted, but not what it did to the process. torch, sqlalchemy
and others cannot be loaded again after that, and torch may crash: then all that a notebook holds is lost.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_IMPORT = "<frozen importlib._bootstrap>"
"""The file of the frames of Python's import."""

AGAIN_SECONDS = 0.05
"""An interrupt that came during an import is sent again after this time."""


@contextmanager
def imports_whole() -> Iterator[None]:
    """Make a Ctrl-C during an import wait for its end, within the block or a function decorated with this.

    Changes nothing in other threads, which hear no Ctrl-C, and nothing where the process handles it in a way
    of its own. So the command line, which ends anyway, does not wait.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    outside = _imports(sys._getframe())  # of a module of the user's that makes this call as it is imported
    waiting: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        if _imports(frame) > outside:
            waiting.append(number)
            # Not a threading.Timer: its locks may be held by what was interrupted.
            _thread.start_new_thread(_send_again, (waiting,))
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.default_int_handler(number, frame)

    try:
        signal.signal(signal.SIGINT, hear)
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is hear:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if waiting:
            waiting.clear()
            raise KeyboardInterrupt


def _imports(frame: FrameType | None) -> int:
    """How many imports a frame is inside of."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == _IMPORT
        frame = frame.f_back
    return count


def _send_again(waiting: list[int]) -> None:
    time.sleep(AGAIN_SECONDS)
    main = threading.main_thread().ident
    with contextlib.suppress(IndexError):  # the call has ended meanwhile, and has raised it
        number = waiting.pop()
        if main is not None:
            signal.pthread_kill(main, number)
