"""Signals that end the program come in; they are raised, for clean-up, or wait for the end of a block."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]
"""What Python calls where a signal has come."""

STOPPING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to end, besides Ctrl-C; it ends at once if it does not handle them."""


@contextmanager
def stopping_unwinds() -> Iterator[None]:
    """Context manager: signals that end the process first unwind it, like Ctrl-C, so that clean-up runs.

    Signals that the program ignores or handles stay as they are. Only the main thread can change handlers;
    other threads do nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if not told:  # a second signal must not interrupt the clean-up
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


def may_delay() -> bool:
    """Whether this thread can delay Ctrl-C: the main thread, where Python handles the signal."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is not None


def _handlers() -> dict[signal.Signals, Handler]:
    """The handlers that are Python code, of any signal: that of an alarm may raise as that of Ctrl-C does."""
    found = {number: signal.getsignal(number) for number in signal.Signals}
    return {number: handler for number, handler in found.items() if callable(handler)}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals that Python code handles, as Ctrl-C, until the block ends; only the main thread has any.

    For blocks of milliseconds, after which the caller knows what it has to take back.
    """
    if not may_delay():
        yield
        return
    came: list[int] = []
    before = _handlers()  # signals that end the process at once need no delay: nothing is taken back then
    for number in before:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        with ExitStack() as all_of_them:  # one that raises keeps none of the others from being heard
            for one in reversed(dict.fromkeys(came)):
                all_of_them.callback(signal.raise_signal, one)


@contextmanager
def signals_raise() -> Iterator[None]:
    """What the handler of a signal raises within the block comes out of it, whatever libraries make of it.

    DuckDB keeps only the text of what is raised while it reads a Python table, and some of its errors are
    expected and dropped. Texts cannot tell: `SELECT error('...')` may have any.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[BaseException] = []

    def noting(handler: Handler) -> Handler:
        def hear(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as exc:
                raised.append(exc)
                raise

        return hear

    before = _handlers()
    heard = {number: noting(handler) for number, handler in before.items()}
    try:
        for number, hear in heard.items():
            signal.signal(number, hear)
        yield
    except BaseException as exc:
        if raised and exc is not raised[-1]:
            raise raised[-1] from exc
        raise
    finally:
        for number, hear in heard.items():
            if signal.getsignal(number) is hear:  # a handler may have set another one
                signal.signal(number, before[number])
    if raised:
        raise raised[-1]
