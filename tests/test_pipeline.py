"""A line of stages: order, bounds, errors from anywhere, and an account of who waited for whom."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from panorama.indexing import pipeline
from panorama.indexing import rest as resting
from panorama.indexing.pipeline import Line, Stage
from panorama.indexing.rest import Rest

PATIENCE = 60.0
"""Seconds after which what waits in vain fails instead of hanging; nothing that is right waits for them."""


class Clock:
    """Time that passes where a stage works and nowhere else, so that meters have numbers to be equal to."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    def working(self, name: str, seconds: float, first: Callable[[int], None] = lambda item: None) -> Stage:
        """A stage that works so long on each item, half of it with a core, after what it does `first`."""

        def run(items: Iterator[int]) -> Generator[int, None, None]:
            for item in items:
                first(item)
                self.wall += seconds
                self.processor += seconds / 2
                yield item

        return Stage(name, run, 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    told = SimpleNamespace(perf_counter=lambda: made.wall, thread_time=lambda: made.processor)
    for module in (pipeline, resting):
        monkeypatch.setattr(module, "time", told)
    return made


class Watched(threading.Condition):
    """Of a queue: knows that a thread waits at it, which then has looked at the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waiting += 1
        return super().wait(timeout)

    def notify_all(self) -> None:
        self.waiting = 0  # who still cannot go on waits anew
        super().notify_all()

    def until_somebody_waits(self) -> None:
        since = time.monotonic()
        while True:
            with self:
                if self.waiting:
                    return
            assert time.monotonic() - since < PATIENCE, "nobody waits"
            time.sleep(0.001)


def doubled(items: Iterator[int]) -> Generator[int, None, None]:
    for item in items:
        yield 2 * item


def in_pairs(items: Iterator[int]) -> Generator[int, None, None]:
    """Sums of two items: what it yields depends on what it has taken so far."""
    kept: list[int] = []
    for item in items:
        kept.append(item)
        if len(kept) == 2:
            yield sum(kept)
            kept = []
    yield from kept


def jittered(items: Iterator[int]) -> Generator[int, None, None]:
    for item in items:
        time.sleep(0.002 * (item * 7 % 3))
        yield item


@pytest.mark.parametrize("joins", [False, True])
def test_the_order_is_that_of_the_source_whatever_the_threads_do(joins: bool) -> None:
    stages = [
        Stage("jitter", jittered),
        Stage("double", doubled, 1, joins),
        Stage("pair", in_pairs, 3, joins),
    ]
    assert list(Line(range(9), stages)) == [2, 10, 18, 26, 16]


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_of_any_stage_reaches_the_caller_and_ends_all_threads(place: int, joins: bool) -> None:
    def broken(items: Iterator[int]) -> Generator[int, None, None]:
        for item in items:
            if item > 3:
                raise LookupError("no more")
            yield item

    stages = [Stage(name, doubled, 1, joins) for name in "abc"]
    stages[place] = Stage("broken", broken, 1, joins)
    before = threading.active_count()
    taken: list[int] = []
    with pytest.raises(LookupError, match="no more"):
        for item in Line(iter(range(10_000)), stages):
            taken.append(item)
    assert len(taken) < 10
    assert threading.active_count() == before


def test_stages_that_join_share_the_thread_of_the_one_before_and_keep_meters_of_their_own(
    clock: Clock,
) -> None:
    threads: dict[str, set[int]] = {}
    before, behind = Watched(), Watched()

    def noting(name: str, seconds: float, joins: bool = False) -> Stage:
        def first(item: int) -> None:
            threads.setdefault(name, set()).add(threading.get_ident())
            if name == "b":
                behind.until_somebody_waits()
                if item < 8:  # then all are made, and nothing is left to wait with but the end
                    before.until_somebody_waits()

        return replace(clock.working(name, seconds, first), joins=joins)

    stages = [noting("a", 0.0), noting("b", 3.0), noting("c", 1.0, joins=True), noting("d", 2.0, True)]
    line = Line(range(10), [*stages, Stage("pair", in_pairs), noting("e", 0.0, joins=True)])
    line._queues[0].changed, line._queues[1].changed = before, behind
    assert list(line) == [1, 5, 9, 13, 17]
    assert threads["b"] == threads["c"] == threads["d"] and len(set.union(*threads.values())) == 3
    a, b, c, d, pair, e = line.meters
    assert [m.items for m in line.meters] == [10, 10, 10, 10, 5, 5]
    assert [m.busy for m in line.meters] == [0.0, 30.0, 10.0, 20.0, 0.0, 0.0]
    assert (a.starved, b.starved, c.starved, d.starved, pair.starved, e.starved) == (0, 0, 30, 40, 60, 60)
    assert [m.blocked for m in line.meters] == [7 * 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_the_processor_time_of_stages_in_one_thread_is_told_apart(clock: Clock) -> None:
    line = Line(range(5), [replace(clock.working("x", seconds), joins=True) for seconds in (2.0, 4.0)])
    list(line)
    first, second = line.meters
    assert (first.processor, second.processor) == (5.0, 10.0)
    assert (first.busy, second.busy) == (10.0, 20.0)


def test_an_error_of_a_stage_that_joins_reaches_the_caller_and_closes_those_before_it() -> None:
    closed: list[str] = []

    def holding(items: Iterator[int]) -> Generator[int, None, None]:
        try:
            yield from items
        finally:
            closed.append("holding")

    def broken(items: Iterator[int]) -> Generator[int, None, None]:
        for _ in items:
            raise LookupError("no more")
        yield 0

    before = threading.active_count()
    with pytest.raises(LookupError, match="no more"):
        list(Line(range(9), [Stage("a", doubled), Stage("b", holding), Stage("c", broken, joins=True)]))
    assert closed == ["holding"] and threading.active_count() == before


def test_an_error_before_a_stage_begins_reaches_the_caller_and_ends_all_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ended the stage's thread, and all others waited for ever."""

    def refused() -> None:
        raise OverflowError("signed integer is greater than maximum")

    monkeypatch.setattr(pipeline, "lower_priority", refused)
    before, met = threading.active_count(), []

    def consume() -> None:
        try:
            list(Line(range(9), [Stage("a", doubled), Stage("b", doubled)]))
        except OverflowError as exc:
            met.append(str(exc))

    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    consumer.join(PATIENCE)
    assert met == ["signed integer is greater than maximum"] and threading.active_count() == before


@pytest.mark.parametrize(
    ("platform", "alone", "reniced"), [("linux", False, [0]), ("darwin", False, []), ("darwin", True, [0])]
)
def test_only_linux_gives_threads_a_priority_of_their_own(
    platform: str, alone: bool, reniced: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread's number may be that of another process, which was given the priority instead."""
    told: list[int] = []
    monkeypatch.setattr(pipeline.sys, "platform", platform)
    monkeypatch.setattr(pipeline.os, "setpriority", lambda kind, who, niceness: told.append(who))
    monkeypatch.setattr(pipeline.os, "sched_setscheduler", lambda *_: None)
    monkeypatch.setattr(pipeline, "AUTOGROUP", Path("/nowhere/autogroup"))
    pipeline.lower_priority(alone)
    assert told == reniced


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_the_priority_of_a_thread_is_lowered_and_of_no_other() -> None:
    seen: list[int] = []

    def lowered() -> None:
        pipeline.lower_priority()
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread = threading.Thread(target=lowered)
    thread.start()
    thread.join()
    assert seen == [pipeline.NICENESS] or before > pipeline.NICENESS
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_an_error_of_the_source_reaches_the_caller() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(Line(source(), [Stage("double", doubled)]))


@pytest.mark.parametrize("joins", [False, True])
def test_leaving_early_ends_all_threads_and_closes_the_stages(joins: bool) -> None:
    closed: list[str] = []

    def closing_stage(items: Iterator[int]) -> Generator[int, None, None]:
        try:
            yield from items
        finally:
            closed.append("stage")

    before = threading.active_count()
    endless = iter(int, 1)
    with closing(iter(Line(endless, [Stage("a", closing_stage), Stage("b", doubled, joins=joins)]))) as items:
        assert next(items) == 0
    assert threading.active_count() == before
    assert closed == ["stage"]


def test_no_more_is_made_than_the_queues_hold() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    line = Line(source(), [Stage("a", doubled), Stage("b", doubled, 2), Stage("c", doubled, 2)])
    with closing(iter(line)) as items:
        next(items)
        time.sleep(0.2)
        assert len(made) < 20


def test_stages_work_at_the_same_time() -> None:
    all_at_work = threading.Barrier(3)

    def meeting(place: int) -> Stage:
        def run(items: Iterator[int]) -> Generator[int, None, None]:
            for item in items:
                if item % 3 == 2 - place:  # the third item of one meets the second and the first of others
                    all_at_work.wait(PATIENCE)
                yield item

        return Stage(f"{place}", run, 1)

    assert list(Line(range(12), [meeting(0), meeting(1), meeting(2)])) == list(range(12))


def test_the_meters_tell_who_waited(clock: Clock) -> None:
    before, behind = Watched(), Watched()

    def first(item: int) -> None:
        behind.until_somebody_waits()
        if item < 17:  # two lie in the queue, and a third is held
            before.until_somebody_waits()

    line = Line(
        range(20), [clock.working("a", 0.0), clock.working("slow", 3.0, first), clock.working("c", 0.0)]
    )
    line._queues[0].changed, line._queues[1].changed = before, behind
    assert list(line) == list(range(20))
    ahead, slowest, last = line.meters
    assert (ahead.blocked, slowest.busy, last.starved) == (17 * 3.0, 20 * 3.0, 20 * 3.0)
    assert ahead.busy == last.busy == ahead.starved == slowest.starved == slowest.blocked == last.blocked == 0
    assert slowest.depth > 1.8 and last.depth < 1.1
    assert [m.items for m in line.meters] == [20, 20, 20]


def test_one_after_the_other_each_stage_is_timed_without_those_before_it(clock: Clock) -> None:
    line = Line(range(10), [clock.working("slow", 2.0), Stage("double", doubled, joins=True)])
    list(line)
    assert (line.meters[0].busy, line.meters[1].busy) == (20.0, 0.0)


@pytest.mark.parametrize("joins", [False, True])
def test_pauses_during_an_item_are_no_work(clock: Clock, joins: bool) -> None:
    def wait() -> None:
        clock.wall += 100.0

    rest = Rest(wait)
    shut = threading.Lock()  # one thread at a time, since all move the clock

    def run(items: Iterator[int], seconds: float) -> Generator[int, None, None]:
        for item in items:
            with shut:
                clock.wall += seconds
                rest()
                clock.wall += seconds
            yield item

    stages = [Stage(str(s), partial(run, seconds=s), 1, joins) for s in (1.0, 2.0, 3.0)]
    line = Line(range(4), stages if joins else stages[:1], rest)
    assert list(line) == [0, 1, 2, 3]
    busy = [meter.busy for meter in line.meters]
    # Of each item three pauses before a stage and three in one; a stage also waits for those before it.
    starved = [meter.starved for meter in line.meters]
    if joins:
        assert busy == [8.0, 16.0, 24.0]
        assert starved == [4 * 200, 4 * (202 + 200), 4 * (202 + 204 + 200)]
    else:
        assert (busy, starved) == ([8.0], [4 * 200])


def test_a_clock_of_work_stands_still_in_pauses_of_its_thread_alone(clock: Clock) -> None:
    def wait() -> None:
        clock.wall += 5.0

    rest = Rest(wait)
    clock.wall = 2.0
    assert (rest.clock(), rest.seconds) == (2.0, 0.0)
    rest()
    clock.wall += 1.0
    assert (clock.wall, rest.clock(), rest.seconds) == (8.0, 3.0, 5.0)
    other: list[float] = []
    thread = threading.Thread(target=lambda: other.extend([rest.clock(), rest.seconds]))
    thread.start()
    thread.join()
    assert other == [8.0, 0.0]


def test_a_closed_gate_holds_every_stage() -> None:
    gate, done = threading.Event(), []
    thread = threading.Thread(
        target=lambda: done.extend(Line(range(5), [Stage("double", doubled)], rest=Rest(gate.wait)))
    )
    thread.start()
    time.sleep(0.1)
    assert not done
    gate.set()
    thread.join(5)
    assert done == [0, 2, 4, 6, 8]
