"""Stages come in, each a generator over the items of the one before; the last one's items go out, all timed.

The stages run side by side, in threads with bounded queues between them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from panorama.indexing.rest import Rest
from panorama.joining import join

AUTOGROUP = Path("/proc/self/autogroup")
NICENESS = 5
"""Niceness of the stages' threads, so that a query in another process has priority."""


@dataclass(slots=True)
class Meter:
    """What one stage did, in seconds of wall time except for `processor`.

    Attributes:
        busy: working; includes waiting for a core that other processes use.
        processor: processor time of its thread, without threads that libraries start.
        starved: waiting for the previous stage, and pausing.
        paused: pausing, in this stage and those before it in its thread.
        blocked: waiting for the next stage.
        items: number of items handed on.
        queued: sum, over all items taken, of the length of the queue before the stage.
        takings: number of items taken from that queue.
    """

    name: str
    busy: float = 0.0
    processor: float = 0.0
    starved: float = 0.0
    paused: float = 0.0
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
        run: takes the items of the previous stage and yields its own, in order.
        capacity: most items that wait before this stage.
        joins: run in the thread of the previous stage, without a queue between them.
    """

    name: str
    run: Callable[[Iterator[Any]], Generator[Any, None, None]]
    capacity: int = 4
    joins: bool = False


class _Stopped(Exception):
    """The line was stopped while a stage waited; the stage ends silently."""


class _End:
    """The last item of a queue."""


@dataclass(slots=True)
class _Queue:
    """A bounded queue; when the line stops, both ends raise _Stopped."""

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
        """The next item, and the length of the queue including it."""
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
    """A row of stages; iterate over it, in the caller's thread, to get the items of the last stage.

    Items stay in the order of the source, whatever the threads do. So a stage whose output depends only on
    the items taken so far gives the same results however the stages share threads.

    Args:
        source: the items for the first stage.
        stages: the stages, in order.
        rest: called by each stage before each item; here work pauses to let queries run. Stages may call it
            during an item, too.
        leave: called if the threads are stopped early, before they are joined. It must make a stage return
            that waits for something elsewhere.

    Attributes:
        meters: one for each stage, in order.
    """

    def __init__(
        self,
        source: Iterable[Any],
        stages: Sequence[Stage],
        rest: Rest | None = None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self._leave = leave
        self._source = source
        self._stages = stages
        self._rest = Rest() if rest is None else rest
        self.meters = [Meter(stage.name) for stage in stages]
        begins = [place for place, stage in enumerate(stages) if not place or not stage.joins]
        self._groups = [range(*ends) for ends in pairwise([*begins, len(stages)])]
        self._queues = [_Queue(stages[begin].capacity) for begin in begins[1:]] + [_Queue(4)]
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def __iter__(self) -> Generator[Any, None, None]:
        """The items of the last stage; leaving the loop early, for any reason, ends every stage."""
        for number, places in enumerate(self._groups):
            name = f"panorama {self._stages[places[0]].name}"
            self._threads.append(threading.Thread(target=self._work, args=(number,), name=name, daemon=True))
        ended = False
        try:
            for thread in self._threads:
                thread.start()
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

    def rest(self) -> None:
        """Pause if needed; the source calls it during an item that takes long, and ends if the line stops."""
        self._rest()
        if any(queue.stopped for queue in self._queues):
            raise _Stopped

    def _stop(self) -> None:
        for queue in self._queues:
            queue.stop()
        for thread in self._threads:
            join(thread)

    def _work(self, number: int) -> None:
        """Run the stages of one thread."""
        places, out = self._groups[number], self._queues[number]
        meter = self.meters[places[-1]]
        try:
            lower_priority()
            taken = self._rested(self._source) if number == 0 else self._taken(number)
            with contextlib.closing(self._chained(places, taken)) as results:
                for item in results:
                    before = time.perf_counter()
                    out.put(item)
                    meter.blocked += time.perf_counter() - before
            out.put(_End())
        except _Stopped:
            pass
        except BaseException as exc:  # the caller's thread raises it
            self._error = self._error or exc
            for queue in self._queues:
                queue.stop()

    def _taken(self, number: int) -> Iterator[Any]:
        """The items from the previous thread; counts the time until they come as starved."""
        meter = self.meters[self._groups[number][0]]
        while True:
            self._rest()
            before = time.perf_counter()
            item, depth = self._queues[number - 1].take()
            meter.starved += time.perf_counter() - before
            meter.queued += depth
            meter.takings += 1
            if isinstance(item, _End):
                return
            yield item

    def _rested(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, with a pause before each if needed."""
        for item in items:
            self.rest()
            yield item

    def _chained(self, places: Sequence[int], results: Iterator[Any]) -> Generator[Any, None, None]:
        """Chain some stages in one thread; each pulls from the one before it."""
        with contextlib.ExitStack() as opened:
            for place in places:
                stage, ahead = self._stages[place], [self.meters[one] for one in places if one < place]
                taken = self._rested(results) if ahead else results
                made = opened.enter_context(contextlib.closing(stage.run(taken)))
                results = _timed(made, self.meters[place], ahead, self._rest)
            yield from results


def _timed(results: Iterator[Any], meter: Meter, ahead: Sequence[Meter], rest: Rest) -> Iterator[Any]:
    """The results of a stage, timed without the time of the stages before it in the same thread."""
    while True:
        others, others_worked, others_paused = _spent(ahead)
        starved, paused = meter.starved, rest.seconds
        started, worked = time.perf_counter(), time.thread_time()
        item = next(results, _End)
        spent, cpu = time.perf_counter() - started, time.thread_time() - worked
        paused = rest.seconds - paused
        after, after_worked, after_paused = _spent(ahead)
        inner, own_pause = after - others, paused - (after_paused - others_paused)
        meter.busy += spent - inner - own_pause - (meter.starved - starved)
        meter.starved += inner + own_pause
        meter.paused += paused
        meter.processor += cpu - (after_worked - others_worked)
        if item is _End:
            return
        meter.items += 1
        yield item


def _spent(ahead: Sequence[Meter]) -> tuple[float, float, float]:
    """Wall and processor time of the stages before one in its thread, and their pauses, so far."""
    if not ahead:
        return 0.0, 0.0, 0.0
    last = ahead[-1]
    return last.busy + last.starved, sum(one.processor for one in ahead), last.paused


def lower_priority(alone: bool = False) -> None:
    """Give other work priority over this thread and those it starts, if the system supports that.

    Args:
        alone: whether this process has a session of its own. Linux may give each session the same share of a
            core and apply niceness only within a session, so the session's niceness is set as well.
    """
    # 0 is the caller: on Linux this thread, elsewhere the process, which is the user's unless `alone`.
    if sys.platform == "linux" or alone:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    # With SCHED_BATCH, a thread that wakes up does not preempt a running one: stages often wake each other.
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    if alone:
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(NICENESS))
