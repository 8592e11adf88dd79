"""The limits of one command enter; the process keeps to them, even where a library in it does not listen."""

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

from panorama.cli.memory import soft_bound, want_of_memory
from panorama.errors import QueryTimeout
from panorama.query.handed.relations import Limits

INTERRUPTED = 130
FAILED = 1
GRACE_SECONDS = 1.0
"""How long a query may take to stop by itself. A single function call of DuckDB cannot be interrupted."""

_AT_ONCE = 1e-6
"""Seconds; a timer of none would never ring."""

_AGAIN_SECONDS = 0.05
"""How soon the timer rings once more where nothing came of it."""

_SLACK_BYTES = 3_000_000_000  # models and vectors
_THREAD_BYTES = 16_000_000  # stack and arena of each thread


@dataclass(frozen=True, slots=True)
class Left:
    """Until when a command may work (None for as long as it likes), and how many seconds that were."""

    until: float | None
    seconds: float


@contextmanager
def kept(limits: Limits) -> Iterator[Left]:
    """Within it, Ctrl-C and the limit of time end the process, at the latest after a grace period.

    Nothing is lost by that: what a query writes for the next one is listed only when it is complete. What is
    given is for `written`, which comes before.
    """
    if limits.memory is not None:
        _bound_memory(limits.memory_bytes)
    done = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    main = threading.current_thread() is threading.main_thread()
    # Python's own handler runs only when DuckDB gives the main thread back; this byte comes at once.
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
    """Within it, want of memory is told as the limit that the command was given, where that is the nearest.

    Raises:
        QueryTimeout: more was needed.
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
    """The time is over: who notes a picture as failed and goes on with the next must not take it for that."""


def written(left: Left, write: Callable[[], None]) -> None:
    """Write an answer; the end of the time is raised wherever the main thread is.

    So what was begun is taken back, as a file that is not whole; what does not listen is ended by `kept`.

    Libraries make errors of their own of what is raised amid them (DuckDB Ctrl-C, or a failed function), and
    what frees an object swallows it, which Python would remark on. Hence whatever comes out once the time is
    over is its end, and the timer rings until it is heard.

    Raises:
        QueryTimeout: the time is over.
    """
    if left.until is None or threading.current_thread() is not threading.main_thread():
        write()
        return
    is_writing, is_over = True, False

    def ring(*_: object) -> None:
        nonlocal is_over
        # While an error is handled something is put away, as a file that is not whole: it is let finish.
        if is_writing and sys.exc_info()[0] is None:
            is_over = True
            raise _OverError

    before, remark = signal.signal(signal.SIGALRM, ring), sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is _OverError else remark(lost)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(left.until - time.monotonic(), _AT_ONCE), _AGAIN_SECONDS)
        write()
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
    if is_over:  # swallowed, and the writing came to its end before the next ring
        raise _past(left)


def _past(left: Left) -> QueryTimeout:
    return QueryTimeout(f"the query ran past its limit of {left.seconds:g} s while its answer was written")


def _on_signal(reading: int, done: threading.Event) -> None:
    while data := os.read(reading, 1):
        if data[0] == signal.SIGINT and not done.wait(GRACE_SECONDS):
            _leave("\npanorama: interrupted", INTERRUPTED)
    os.close(reading)


def _on_time(seconds: float, done: threading.Event) -> None:
    if not done.wait(seconds + GRACE_SECONDS):
        _leave(f"QueryTimeout: the query ran past its limit of {seconds:g} s and was stopped", FAILED)


def _leave(message: str, status: int) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(status)


def _bound_memory(count: int) -> None:
    """Let allocations fail that go past what the process has now and `count` bytes more; Linux only.

    DuckDB counts what it keeps, but not what a single function allocates.
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
