"""Stages enter, each a generator over what the one before it yields; they run side by side, all timed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AUTOGROUP = Path("/proc/self/autogroup")
NICENESS = 5
"""Of the threads of stages: a query in another process goes first."""


@dataclass(slots=True)
class Meter:
    """What one stage did, in seconds of wall time but for `processor`.

    Attributes:
        busy: at work; on a machine that others use, also while it was not given a core.
        processor: time that its thread was given a core; threads that libraries start are not in it.
        starved: waiting for the stage before it.
        blocked: waiting for the stage behind it.
        items: handed on.
        queued: sum over all takings of what lay in the queue before the stage.
        takings: how often it took an item.
    """

    name: str
    busy: float = 0.0
    processor: float = 0.0
    starved: float = 0.0
    blocked: float = 0.0
    items: int = 0
    queued: int = 0
    takings: int = 0

    @property
    def depth(self) -> float:
        """Mean length of the queue before the stage."""
        return self.queued / self.takings if self.takings else 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the work.

    Attributes:
        run: takes the items of the stage before, yields its own, in order.
        capacity: items that may wait before this stage.
    """

    name: str
    run: Callable[[Iterator[Any]], Generator[Any, None, None]]
    capacity: int = 4


class _Stopped(Exception):
    """The line was stopped while a stage waited; it ends quietly."""


class _End:
    """The last item of a queue."""


@dataclass(slots=True)
class _Queue:
    """A bounded queue whose both ends let go when the line stops."""

    capacity: int
    items: deque[Any] = field(default_factory=deque)
    changed: threading.Condition = field(default_factory=threading.Condition)
    stopped: bool = False

    def put(self, item: Any) -> None:
        with self.changed:
            while len(self.items) >= self.capacity and not self.stopped:
                self.changed.wait()
            if self.stopped:
                raise _Stopped
            self.items.append(item)
            self.changed.notify_all()

    def take(self) -> tuple[Any, int]:
        """The next item, and how many there were."""
        with self.changed:
            while not self.items and not self.stopped:
                self.changed.wait()
            if self.stopped:
                raise _Stopped
            depth = len(self.items)
            item = self.items.popleft()
            self.changed.notify_all()
            return item, depth

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.items.clear()
            self.changed.notify_all()


class Line:
    """A row of stages; what the last one yields is iterated over in the caller's thread.

    The order of items is that of the source whatever the threads do, so a stage that is a function of what it
    has taken so far gives the same results side by side and one after the other.

    Args:
        source: what the first stage takes.
        stages: in order.
        side_by_side: a thread for each stage; otherwise all of them run in the caller's thread.
        wait: called by each stage before each item: where work pauses for others.
        leave: called when the line is left before its end, before its threads are waited for: what a stage
            waits for elsewhere must not come first.
    """

    def __init__(
        self,
        source: Iterable[Any],
        stages: Sequence[Stage],
        side_by_side: bool = True,
        wait: Callable[[], None] = lambda: None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self._leave = leave
        self._source = source
        self._stages = stages
        self._side_by_side = side_by_side
        self._wait = wait
        self._queues = [_Queue(stage.capacity) for stage in stages[1:]] + [_Queue(4)]
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self.meters = [Meter(stage.name) for stage in stages]

    def __iter__(self) -> Generator[Any, None, None]:
        """The results; leaving the loop early, by whatever error, ends every stage."""
        return self._threaded() if self._side_by_side else self._chained()

    def _threaded(self) -> Generator[Any, None, None]:
        for place, stage in enumerate(self._stages):
            name = f"panorama {stage.name}"
            self._threads.append(threading.Thread(target=self._work, args=(place,), name=name, daemon=True))
        for thread in self._threads:
            thread.start()
        ended = False
        try:
            while not ended:
                item, _ = self._queues[-1].take()
                ended = isinstance(item, _End)
                if not ended:
                    yield item
        except _Stopped:
            pass
        finally:
            if not ended:
                self._leave()
            self._stop()
        if self._error is not None:
            raise self._error

    def _stop(self) -> None:
        for queue in self._queues:
            queue.stop()
        for thread in self._threads:
            thread.join()

    def _work(self, place: int) -> None:
        meter, out = self.meters[place], self._queues[place]
        started, worked = time.perf_counter(), time.thread_time()
        lower_priority()
        try:
            taken = self._taken(place, meter)
            with contextlib.closing(self._stages[place].run(taken)) as results:
                for item in results:
                    meter.items += 1
                    before = time.perf_counter()
                    out.put(item)
                    meter.blocked += time.perf_counter() - before
                    meter.busy = time.perf_counter() - started - meter.starved - meter.blocked
            out.put(_End())
        except _Stopped:
            pass
        except BaseException as exc:  # handed to the caller's thread, which raises it
            self._error = self._error or exc
            for queue in self._queues:
                queue.stop()
        meter.busy = time.perf_counter() - started - meter.starved - meter.blocked
        meter.processor = time.thread_time() - worked

    def _taken(self, place: int, meter: Meter) -> Iterator[Any]:
        """What a stage takes; the time until it comes is not the stage's own."""
        source = iter(self._source) if place == 0 else None
        while True:
            before = time.perf_counter()
            self._wait()
            if source is not None:
                meter.starved += time.perf_counter() - before
                if self._queues[place].stopped:
                    raise _Stopped
                try:
                    item = next(source)
                except StopIteration:
                    return
            else:
                item, depth = self._queues[place - 1].take()
                meter.starved += time.perf_counter() - before
                meter.queued += depth
                meter.takings += 1
                if isinstance(item, _End):
                    return
            yield item

    def _chained(self) -> Generator[Any, None, None]:
        """One thread: each stage asks the one before it."""
        results: Iterator[Any] = iter(self._source)
        for stage, meter, before in zip(self._stages, self.meters, [None, *self.meters], strict=False):
            results = _timed(iter(stage.run(self._waited(results))), meter, before)
        yield from results

    def _waited(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self._wait()
            yield item


def _timed(results: Iterator[Any], meter: Meter, before: Meter | None) -> Iterator[Any]:
    """The results, their making timed; what the stages before took meanwhile is theirs."""
    while True:
        others = 0.0 if before is None else before.busy + before.starved
        started = time.perf_counter()
        item = next(results, _End)
        spent = time.perf_counter() - started
        inner = (0.0 if before is None else before.busy + before.starved) - others
        meter.starved += inner
        meter.busy += spent - inner
        if item is _End:
            return
        meter.items += 1
        yield item


def lower_priority(alone: bool = False) -> None:
    """Let other work go before this thread and those it starts, where the system knows such a thing.

    Args:
        alone: this process has a session of its own. Linux may give each session the same share of a core,
            and heed niceness within a session only.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    if alone:
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(NICENESS))
