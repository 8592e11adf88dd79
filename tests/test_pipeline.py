"""A line of stages: order, bounds, errors from anywhere, and an account of who waited for whom."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing

import pytest

from panorama.indexing.pipeline import Line, Stage


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


@pytest.mark.parametrize("side_by_side", [False, True])
def test_the_order_is_that_of_the_source_whatever_the_threads_do(side_by_side: bool) -> None:
    stages = [Stage("jitter", jittered), Stage("double", doubled, 1), Stage("pair", in_pairs, 3)]
    assert list(Line(range(9), stages, side_by_side)) == [2, 10, 18, 26, 16]


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_of_any_stage_reaches_the_caller_and_ends_all_threads(
    place: int, side_by_side: bool
) -> None:
    def broken(items: Iterator[int]) -> Generator[int, None, None]:
        for item in items:
            if item > 3:
                raise LookupError("no more")
            yield item

    stages = [Stage(name, doubled, 1) for name in "abc"]
    stages[place] = Stage("broken", broken, 1)
    before = threading.active_count()
    taken: list[int] = []
    with pytest.raises(LookupError, match="no more"):
        for item in Line(iter(range(10_000)), stages, side_by_side):
            taken.append(item)
    assert len(taken) < 10
    assert threading.active_count() == before


def test_stages_that_join_share_the_thread_of_the_one_before_and_keep_meters_of_their_own() -> None:
    threads: dict[str, set[int]] = {}

    def noting(name: str, seconds: float, joins: bool = False) -> Stage:
        def run(items: Iterator[int]) -> Generator[int, None, None]:
            for item in items:
                threads.setdefault(name, set()).add(threading.get_ident())
                time.sleep(seconds)
                yield item

        return Stage(name, run, joins=joins)

    stages = [noting("a", 0.0), noting("b", 0.03), noting("c", 0.01, joins=True), noting("d", 0.02, True)]
    line = Line(range(10), [*stages, Stage("pair", in_pairs), noting("e", 0.0, joins=True)])
    assert list(line) == [1, 5, 9, 13, 17]
    assert threads["b"] == threads["c"] == threads["d"] and len(set.union(*threads.values())) == 3
    a, b, c, d, pair, e = line.meters
    assert [m.items for m in line.meters] == [10, 10, 10, 10, 5, 5]
    assert 0.3 <= b.busy < 0.45 and 0.1 <= c.busy < 0.25 and 0.2 <= d.busy < 0.35
    assert a.blocked > 0.1 and b.starved < 0.1 < c.starved and pair.starved > 0.5 and e.busy < 0.1
    assert b.blocked == c.blocked == 0.0


def test_the_processor_time_of_stages_in_one_thread_is_told_apart() -> None:
    def busy(seconds: float) -> Stage:
        def run(items: Iterator[int]) -> Generator[int, None, None]:
            for item in items:
                until = time.thread_time() + seconds
                while time.thread_time() < until:
                    pass
                yield item

        return Stage(f"{seconds}", run, joins=True)

    line = Line(range(5), [busy(0.02), busy(0.04)])
    list(line)
    first, second = line.meters
    assert 0.1 <= first.processor < 0.15 and 0.2 <= second.processor < 0.25


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


def test_an_error_of_the_source_reaches_the_caller() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(Line(source(), [Stage("double", doubled)]))


@pytest.mark.parametrize("side_by_side", [False, True])
def test_leaving_early_ends_all_threads_and_closes_the_stages(side_by_side: bool) -> None:
    closed: list[str] = []

    def closing_stage(items: Iterator[int]) -> Generator[int, None, None]:
        try:
            yield from items
        finally:
            closed.append("stage")

    before = threading.active_count()
    endless = iter(int, 1)
    with closing(
        iter(Line(endless, [Stage("a", closing_stage), Stage("b", doubled)], side_by_side))
    ) as items:
        assert next(items) == 0
    assert threading.active_count() == before
    if side_by_side:
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


def test_stages_work_at_the_same_time_and_the_meters_tell_who_waited() -> None:
    def slow(seconds: float) -> Stage:
        def run(items: Iterator[int]) -> Generator[int, None, None]:
            for item in items:
                time.sleep(seconds)
                yield item

        return Stage(f"{seconds}", run, 2)

    started = time.perf_counter()
    line = Line(range(20), [slow(0.01), slow(0.03), slow(0.01)])
    assert list(line) == list(range(20))
    took = time.perf_counter() - started
    first, slowest, last = line.meters
    assert took < 20 * 0.05 * 0.95  # one after the other it would be the sum
    assert first.blocked > 0.1 and last.starved > 0.3
    assert slowest.busy > 0.55 and slowest.busy > 2 * last.busy and slowest.depth > last.depth
    assert [m.items for m in line.meters] == [20, 20, 20]


def test_one_after_the_other_each_stage_is_timed_without_those_before_it() -> None:
    def slow(items: Iterator[int]) -> Generator[int, None, None]:
        for item in items:
            time.sleep(0.02)
            yield item

    line = Line(range(10), [Stage("slow", slow), Stage("double", doubled)], side_by_side=False)
    list(line)
    assert line.meters[0].busy >= 0.2 and line.meters[1].busy < 0.1


def test_a_closed_gate_holds_every_stage() -> None:
    gate, done = threading.Event(), []
    thread = threading.Thread(
        target=lambda: done.extend(Line(range(5), [Stage("double", doubled)], wait=gate.wait))
    )
    thread.start()
    time.sleep(0.1)
    assert not done
    gate.set()
    thread.join(5)
    assert done == [0, 2, 4, 6, 8]
