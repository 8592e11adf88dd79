"""A running query, its time limit and its event come in; at the first of the two it is stopped."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from panorama.stopping import uninterrupted

if TYPE_CHECKING:
    import duckdb

_Answer = TypeVar("_Answer")

AGAIN_SECONDS = 0.05
"""Time between interrupts: DuckDB loses one that arrives between two statements, so it is repeated.

So often, too, a query that has an event looks whether it has ended, so that no thread waits for ever.
"""


def past_limit(seconds: float, how: str = "and was stopped") -> str:
    """What a query that took longer than its limit is told, with the next step."""
    next_step = "allow it more time, or narrow it by video, camera or time"
    return f"the query ran past its limit of {seconds:g} s {how}; {next_step}"


class QueryStopped(Exception):
    """The query was stopped while it was not inside DuckDB; never leaves the engine."""


class Stopper:
    """Stops one query: after `seconds`, when `event` is set (None for neither), or by `stop`."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, seconds: float | None, event: threading.Event | None
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._event = event
        self._asked = threading.Event()
        self._done = False
        self._change = threading.Condition()

    def __enter__(self) -> Stopper:
        self._token = _current.set(self)
        if self._seconds is not None:
            self._watch(self._seconds)
        if self._event is not None:
            name = "query-stop"
            threading.Thread(target=self._follow, args=(self._event,), name=name, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._token)
        with self._change:
            self._done = True
            self._change.notify_all()

    def stop(self) -> None:
        """Stop the query now: it raises inside DuckDB, or at the next `check_stopped`."""
        self._watch(0.0)

    def check(self) -> None:
        """Raise QueryStopped if the query was told to stop."""
        if self._asked.is_set() or (self._event is not None and self._event.is_set()):
            raise QueryStopped

    def _watch(self, seconds: float) -> None:
        threading.Thread(target=self._interrupt, args=(seconds,), name="query-limit", daemon=True).start()

    def _follow(self, event: threading.Event) -> None:
        while not self._done:
            if event.wait(AGAIN_SECONDS):
                self._interrupt(0.0)

    def _interrupt(self, seconds: float) -> None:
        with self._change:
            self._change.wait_for(lambda: self._done, seconds)
            while not self._done:
                self._asked.set()
                self._connection.interrupt()
                self._change.wait_for(lambda: self._done, AGAIN_SECONDS)


_current: ContextVar[Stopper | None] = ContextVar("panorama_query", default=None)


def check_stopped() -> None:
    """Raise if the query that this thread is answering was told to stop; call it between long steps.

    Raises:
        QueryStopped: it was; the engine turns this into a QueryTimeout.
    """
    running = _current.get()
    if running is not None:
        running.check()


def signals_stop(work: Callable[[], _Answer]) -> _Answer:
    """What `work` returns; what the handler of a signal raises meanwhile, as Ctrl-C, stops the query first.

    DuckDB looks for signals between tasks, not while it waits for its other threads, which may be minutes;
    an interrupt it notices. So the main thread, where Python handles signals, waits while another one works.
    Other threads than the main one see no signal and do the work themselves.
    """
    running = _current.get()
    if running is None or threading.current_thread() is not threading.main_thread():
        return work()
    done: Future[_Answer] = Future()
    is_begun = False
    try:
        with uninterrupted():  # or nobody would know whether it has begun
            # Not a threading.Thread, whose end runs Python code where an interrupt would be ignored.
            _thread.start_new_thread(_work, (work, done))
            is_begun = True
        return done.result()
    except BaseException:
        if is_begun and not done.done():
            with uninterrupted():  # the caller closes what the worker uses
                running.stop()
                wait([done])
        raise
    finally:
        del done  # it holds an error whose traceback holds this frame


def _work(work: Callable[[], _Answer], done: Future[_Answer]) -> None:
    try:
        done.set_result(work())
    except BaseException as exc:
        done.set_exception(exc)
    finally:
        del done
