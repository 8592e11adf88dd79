"""The limits of one command enter; the process keeps to them, even where a library in it does not listen."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from panorama.errors import QueryTimeout
from panorama.query.relations import Limits

INTERRUPTED = 130
FAILED = 1
GRACE_SECONDS = 1.0
"""How long a query may take to stop by itself. A single function call of DuckDB cannot be interrupted."""

_AT_ONCE = 1e-6
"""Seconds; a timer of none would never ring."""

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
    given is for `ending`, which comes before.
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


class _OverError(BaseException):
    """The time is over: who notes a picture as failed and goes on with the next must not take it for that."""


@contextmanager
def ending(left: Left) -> Iterator[None]:
    """Within it, while an answer is written, the end of the time is raised wherever the main thread is.

    So what was begun is taken back, as a file that is not whole; what does not listen is ended by `kept`.

    Raises:
        QueryTimeout: the time is over.
    """
    if left.until is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise _OverError

    before = signal.signal(signal.SIGALRM, over)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(left.until - time.monotonic(), _AT_ONCE))
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _OverError as exc:
        raise QueryTimeout(
            f"the query ran past its limit of {left.seconds:g} s before its answer was written whole"
        ) from exc
    finally:
        signal.signal(signal.SIGALRM, before)


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
    import resource

    found = re.search(r"VmData:\s+(\d+) kB", status.read_text())
    held = int(found[1]) * 1024 if found else 0
    bound = held + count + _SLACK_BYTES + _THREAD_BYTES * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or bound < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
