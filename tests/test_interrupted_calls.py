"""Ctrl-C inside a call of the Python API: a KeyboardInterrupt comes out, and nothing of the call is left."""

from __future__ import annotations

import gc
import itertools
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest
from fakes import Thing, thing_picture, write_film

import panorama
from panorama.indexing.pipeline import Line, Stage
from panorama.query.engine import Engine
from panorama.query.handed import relations
from panorama.query.handed.lending import lent
from panorama.store.catalog.connections import CATALOG_NAME, Connection
from panorama.store.claims import Claims
from panorama.store.priority import Marks, PauseGate


@contextmanager
def profiled(profile: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    """Have `sys.setprofile` tell of calls, except of what the garbage collector happens to end meanwhile.

    Python prints an interrupt in there and goes on: it is none of the call's, and when it comes is chance.
    """
    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()


def interruptions(call: Callable[[], object], module: str) -> Iterator[KeyboardInterrupt]:
    """Make a call again and again, interrupted where it enters the first function of a module, the second ...

    Yields what came out, which whoever asked keeps meanwhile, as a notebook does.
    """
    number = 0
    while True:
        number += 1
        left = [number]

        def interrupt(frame: FrameType, event: str, _: object, left: list[int] = left) -> None:
            if event == "call" and frame.f_globals.get("__name__", "").startswith(module):
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt

        try:
            with profiled(interrupt):
                call()
        except KeyboardInterrupt as exc:
            yield exc
        else:
            return  # it was over before


def called_amid(call: Callable[[], object], callers: set[CodeType]) -> list[str]:
    """Make a call again and again, with Ctrl-C at the first function that some code calls, the second ...

    Returns the functions, each of which a KeyboardInterrupt came out of.
    """
    found: list[str] = []
    for number in itertools.count(1):
        left = [number]

        def signalled(frame: FrameType, event: str, _: object, left: list[int] = left) -> None:
            if event == "call" and frame.f_back and frame.f_back.f_code in callers:
                left[0] -= 1
                if not left[0]:
                    found.append(frame.f_code.co_name)
                    signal.raise_signal(signal.SIGINT)

        try:
            with profiled(signalled):
                call()
        except KeyboardInterrupt:
            continue
        assert left[0] > 0, f"Ctrl-C number {number} was lost"
        break
    return found


def is_free(catalog: Path) -> bool:
    """Whether another process could write the catalog now."""
    other = sqlite3.connect(catalog, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    finally:
        other.close()
    return True


def test_an_interrupted_change_leaves_nobody_locked_out(store, tmp_path):
    """Closed with its transaction begun, the connection lived on in the traceback, and so did its lock."""
    stopped, value = 0, 0

    def change() -> None:
        nonlocal value
        value += 1
        store.put_setting("number", value)

    for _ in interruptions(change, "sqlalchemy"):
        stopped += 1
        assert is_free(tmp_path / "library" / CATALOG_NAME), stopped
    assert stopped > 20 and store.setting("number") == value


def test_an_interrupt_leaves_no_lock_that_other_threads_of_the_process_wait_for(store):
    """SQLAlchemy's pools have one that is entered in Python: an interrupt right after left it taken."""
    store.setting("number")  # what is done once is done
    for _ in interruptions(lambda: store.setting("number"), "threading"):
        pytest.fail("a lock was entered in Python")


@pytest.fixture
def library(tmp_path, monkeypatch, fake_proposer):
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=10)
    with panorama.open(tmp_path / "library") as made:
        made.index(["a.mp4"], model="color-bands")
        yield made


def test_an_interrupt_while_a_library_is_closed_waits_for_that(library, monkeypatch, caplog):
    """SQLAlchemy logged it with its traceback, which `register` showed behind what it had registered."""
    library.query("SELECT moments")
    ended, end = list[bool](), Connection.end

    def interrupted(connection: Connection) -> None:
        signal.raise_signal(signal.SIGINT)
        end(connection)
        ended.append(True)

    monkeypatch.setattr(Connection, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        library.close()
    assert ended and not caplog.records


def test_an_index_that_was_interrupted_leaves_queries_what_they_need(library):
    """Between closing a connection and letting go of it: every later query had the closed one."""
    counted, stopped = "SELECT count(*) FROM videos", 0

    def index() -> None:
        library.query(counted)
        library._forget_answers()

    for _ in interruptions(index, "panorama.query.handed.relations"):
        stopped += 1
        assert library.query(counted).fetchall() == [(1,)]
    assert stopped > 5


@pytest.mark.parametrize("ask", [panorama.Library.query, lambda library, sql: [*library.query_each([sql])]])
def test_ctrl_c_while_a_library_connects_is_one(library, ask):
    """It was an InvalidInputException that named KeyboardInterrupt: DuckDB copies tables of the catalog."""
    sql = "SELECT count(*) FROM videos"

    def anew() -> None:
        library._forget_answers()
        ask(library, sql)

    inside = called_amid(anew, {lent.__wrapped__.__code__, relations._copy_table.__code__})
    assert "rows" in inside, "DuckDB asked no table for its rows"
    assert library.query(sql).fetchall() == [(1,)]


def test_ctrl_c_while_duckdb_reads_what_a_statement_is_handed_is_one(library):
    """In half of these places it was a QueryError: offering a filter to the source failed."""
    library.register("red", thing_picture("red"))
    sql = "SELECT frames WHERE entity = 'red' AND score >= 0"
    assert len(library.query(sql)) == 10
    inside = called_amid(lambda: library.query(sql), {Engine._execute.__code__})
    assert len(inside) >= 5 and len(library.query(sql)) == 10
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_a_query_connects_is_one(library, monkeypatch):
    """It was a RuntimeError, as DuckDB makes of it."""

    def interrupted(*given: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(relations, "connect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        library.query("SELECT 1")


def begun_threads(before: set[threading.Thread]) -> set[threading.Thread]:
    """Those that are there and were not, once those that only end have had the time for it."""
    for _ in range(50):
        left = set(threading.enumerate()) - before
        if not left:
            break
        time.sleep(0.02)
    return left


def run_line() -> None:
    next(iter(Line(itertools.count(), [Stage("one", lambda items: (item for item in items))])))


def take_a_claim(locks: Path) -> None:
    with Claims(locks) as claims:
        claims.take("work")


def watch(locks: Path) -> None:
    with closing(Marks(locks)) as marks, PauseGate(marks):
        pass


@pytest.mark.parametrize("start", [lambda _: run_line(), take_a_claim, watch], ids=["line", "claims", "gate"])
@pytest.mark.parametrize("begins", [True, False])
def test_an_interrupted_start_of_a_thread_leaves_none_and_is_told_as_what_it_is(
    tmp_path, monkeypatch, begins, start
):
    """Joining what had not begun was a RuntimeError, and what had begun went on, on descriptors closed."""
    before, real, failed = set(threading.enumerate()), threading.Thread.start, []
    monkeypatch.setattr(threading, "excepthook", failed.append)

    def interrupted(thread: threading.Thread) -> None:
        if begins:
            real(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path)
    assert not begun_threads(before) and not failed and not list(tmp_path.glob("claim-*"))
