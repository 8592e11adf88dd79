"""The limits of one command come in; the process is stopped at them, even if a library does not respond."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from panorama.cli.memory import soft_bound, want_of_memory
from panorama.errors import QueryTimeout
from panorama.query.handed.relations import Limits
from panorama.query.stopping import past_limit
from panorama.stopping import STOPPING

T = TypeVar("T")

SIGNALLED = 128
"""Exit status after a signal, as shells tell it, without the number of the signal."""
FAILED = 1
GRACE_SECONDS = 1.0
"""Time for a query to stop by itself: a single function call inside DuckDB cannot be interrupted."""

_AT_ONCE = 1e-6
"""Seconds; a timer set to 0 would be off."""

_AGAIN_SECONDS = 0.05
"""Seconds until the timer fires again if the first time had no effect."""

_SLACK_BYTES = 3_000_000_000  # models and vectors
_THREAD_BYTES = 16_000_000  # stack and arena of each thread


@dataclass(frozen=True, slots=True)
class Left:
    """When a command must end (time.monotonic; None: no limit), and how many seconds it had in all."""

    until: float | None
    seconds: float


@contextmanager
def kept(limits: Limits) -> Iterator[Left]:
    """Inside this block, Ctrl-C and the time limit end the process after a grace period at the latest.

    Nothing is lost: what a query writes for later queries is listed only when it is complete. The yielded
    value is for `written`, which stops earlier.
    """
    if limits.memory is not None:
        _bound_memory(limits.memory_bytes)
    done = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    main = threading.current_thread() is threading.main_thread()
    # Python's own handler must wait until DuckDB returns control; this byte arrives at once.
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False) if main else -1
    guards = [threading.Thread(target=_on_signal, args=(reading, done), daemon=True)]
    if limits.seconds is not None:
        guards.append(threading.Thread(target=_on_time, args=(limits.seconds, done), daemon=True))
    for guard in guards:
        guard.start()
    seconds = limits.seconds or 0.0
    try:
        yield Left(None if limits.seconds is None else time.monotonic() + seconds, seconds)
    finally:
        done.set()
        if main:
            signal.set_wakeup_fd(before)
        os.close(writing)


@contextmanager
def memory_told(limits: Limits) -> Iterator[None]:
    """Report a lack of memory inside this block as the --memory limit, if that is the nearest one.

    Raises:
        QueryTimeout: more memory was needed than that limit.
    """
    try:
        yield
    except Exception as exc:
        own, system = soft_bound(resource.RLIMIT_DATA), soft_bound(resource.RLIMIT_AS)
        is_nearest = limits.memory is not None and own is not None and (system is None or own < system)
        if not is_nearest or want_of_memory(exc) is None:
            raise
        told = f"the query needs more memory than its limit of {limits.memory}; raise --memory"
        raise QueryTimeout(told) from exc


class _OverError(BaseException):
    """The time is over. Not an Exception: code that notes a failed picture and goes on must not catch it."""


def written(left: Left, write: Callable[[], T]) -> T:
    """Write an answer; when the time is over, an exception is raised wherever the main thread is.

    So unfinished work, such as a partial file, is cleaned up. If nothing responds, `kept` ends the process.

    Libraries replace exceptions raised inside them by their own (DuckDB by Ctrl-C, or by a failed function),
    and destructors swallow them, which Python would report. So any exception after the end of the time counts
    as that end, and the timer keeps firing until one gets through.

    Returns:
        What `write` returns.

    Raises:
        QueryTimeout: the time is over.
    """
    if left.until is None or threading.current_thread() is not threading.main_thread():
        return write()
    is_writing, is_over = True, False

    def ring(*_: object) -> None:
        nonlocal is_over
        # While an exception is being handled, something is cleaned up, such as a partial file: let it finish.
        if is_writing and sys.exc_info()[0] is None:
            is_over = True
            raise _OverError

    before, remark = signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is _OverError else remark(lost)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(left.until - time.monotonic(), _AT_ONCE), _AGAIN_SECONDS)
        told = write()
        is_writing = False
    except BaseException as exc:
        if is_over:
            raise _past(left) from exc
        raise
    finally:
        is_writing = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = remark
    if is_over:  # the exception was swallowed, and writing ended before the timer fired again
        raise _past(left)
    return told


def _past(left: Left) -> QueryTimeout:
    return QueryTimeout(past_limit(left.seconds, "while its answer was written"))


def _on_signal(reading: int, done: threading.Event) -> None:
    while data := os.read(reading, 1):
        if data[0] in (signal.SIGINT, *STOPPING) and not done.wait(GRACE_SECONDS):
            _leave("\npanorama: interrupted", SIGNALLED + data[0])
    os.close(reading)


def _on_time(seconds: float, done: threading.Event) -> None:
    if not done.wait(seconds + GRACE_SECONDS):
        _leave(f"QueryTimeout: {past_limit(seconds)}", FAILED)


def _leave(message: str, status: int) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(status)


def _bound_memory(count: int) -> None:
    """Make allocations fail beyond `count` bytes, plus slack, more than the process has now; Linux only.

    DuckDB limits the data it keeps, but not what a single function allocates.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return
    found = re.search(r"VmData:\s+(\d+) kB", status.read_text())
    held = int(found[1]) * 1024 if found else 0
    bound = held + count + _SLACK_BYTES + _THREAD_BYTES * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or bound < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
