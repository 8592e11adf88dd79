"""A query that another thread tells to stop ends, whatever it is doing; all others go on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fakes import library_of_red

import panorama
from panorama.errors import QueryTimeout, UsageError
from panorama.library import Library
from panorama.query.matching.passes import Passes
from panorama.query.sql.rewrite import Rewriter
from panorama.query.stopping import Stopper
from panorama.query.text.tokens import tokenize

ENDLESS = "SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3"
RED = "SELECT tracks WHERE entity = 'red'"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_proposer: object) -> Iterator[Library]:
    monkeypatch.chdir(tmp_path)
    with library_of_red(tmp_path) as made:
        yield made


def test_a_query_that_is_stopped_disturbs_no_other(library: Library) -> None:
    first, second = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        try:
            one, other = (pool.submit(library.query, ENDLESS, stop=stop) for stop in (first, second))
            time.sleep(0.3)
            first.set()
            with pytest.raises(QueryTimeout, match="told to stop"):
                one.result(10)
            assert len(library.query(RED)) > 0
            assert not other.done()
        finally:
            first.set()
            second.set()
        with pytest.raises(QueryTimeout, match="told to stop"):
            other.result(10)
    assert len(library.query(RED)) > 0


def test_a_query_is_stopped_while_it_matches_and_keeps_no_half(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, first = threading.Event(), Passes.first

    def stopped(self: Passes, *given: object) -> object:
        stop.set()
        return first(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Passes, "first", stopped)
        with pytest.raises(QueryTimeout, match="told to stop"):
            library.query(RED, stop=stop)
    with panorama.open(library.path) as another:
        found = another.query(RED).fetchall()
    assert found and library.query(RED).fetchall() == found


def test_one_event_ends_all_queries_of_a_call(library: Library) -> None:
    stop = threading.Event()
    answers = library.query_each([RED, RED, ENDLESS], stop=stop)
    assert len(next(answers)) > 0
    stop.set()
    with pytest.raises(QueryTimeout, match="told to stop"):
        next(answers)
    with pytest.raises(QueryTimeout, match="told to stop"):
        library.query_many([RED], stop=stop)


def test_a_condition_on_names_that_is_stopped_is_no_error_in_the_statement(library: Library) -> None:
    """It was reported as bad SQL, "Interrupted!", with a position."""
    sql = f"SELECT frames WHERE entity LIKE (SELECT n::VARCHAR FROM ({ENDLESS}) t(n))"
    with pytest.raises(QueryTimeout, match=r"limit of 0\.3 s"):
        library.query(sql, limits=panorama.Limits(seconds=0.3))


class Asked:
    """A connection that names one entity, and knows which thread asked for it."""

    thread: int | None = None

    def execute(self, _: str) -> Asked:
        self.thread = threading.get_ident()
        return self

    def fetchall(self) -> list[tuple[str]]:
        return [("red",)]


def test_the_thread_that_hears_signals_does_not_ask_for_the_names_of_a_condition() -> None:
    """DuckDB looks for no signal while it waits for its other threads: Ctrl-C waited for the limit."""
    sql = "SELECT frames WHERE entity LIKE 'r%'"
    connection: Any = Asked()
    with Stopper(connection, None, None):
        rewritten = Rewriter(sql, tokenize(sql), None, ("red",), connection, lambda *_: None).rewrite()
    assert "red" in rewritten.text
    assert connection.thread not in (None, threading.get_ident())


def test_a_query_past_its_limit_says_so_though_it_could_be_stopped(library: Library) -> None:
    with pytest.raises(QueryTimeout, match=r"limit of 0\.3 s"):
        library.query(ENDLESS, limits=panorama.Limits(seconds=0.3), stop=threading.Event())


def test_no_thread_waits_for_an_event_after_its_query(library: Library) -> None:
    stop, before = threading.Event(), threading.active_count()
    for _ in range(20):
        library.query("SELECT 1", stop=stop)
    until = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_what_is_no_event_of_threads_is_refused(library: Library) -> None:
    with pytest.raises(UsageError, match=r"query\(stop=...\): expected Event of threading"):
        library.query("SELECT 1", stop=asyncio.Event())  # type: ignore[arg-type]
