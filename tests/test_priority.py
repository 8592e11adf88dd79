"""Queries go first: marks that die with their process, and pauses that end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Ran
from fakes import write_film
from gate_samples import Asked, Clock

from panorama.query.engine import Engine
from panorama.query.result.result import Result
from panorama.store import Store
from panorama.store.files.opened import Opened
from panorama.store.priority import (
    LONGEST_PAUSE_SECONDS,
    MARK,
    POLL_SECONDS,
    TOLD_POLL_SECONDS,
    WORK_SHARE,
    Marks,
    PauseGate,
    asking,
)


def is_asked(locks: Path) -> bool:
    """Whether a query runs now, seen by somebody new; not where there is no place for marks."""
    try:
        marks = Marks(locks)
    except FileNotFoundError:
        return False
    with closing(marks):
        return marks.is_asked()


def test_a_query_is_seen_while_it_runs_and_no_longer(tmp_path: Path) -> None:
    assert not is_asked(tmp_path)
    with asking(tmp_path):
        assert is_asked(tmp_path)
        with asking(tmp_path):
            assert is_asked(tmp_path)
        assert is_asked(tmp_path)
    assert not is_asked(tmp_path)


def test_asking_whether_a_query_runs_disturbs_none(tmp_path: Path) -> None:
    with asking(tmp_path):
        assert all(is_asked(tmp_path) for _ in range(50))


def test_the_mark_of_another_process_is_seen_and_dies_with_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from panorama.store.priority import asking\n"
        "with asking(Path(sys.argv[1])): print('asking', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline() == "asking\n"
        assert is_asked(tmp_path)
    finally:
        child.kill()
        child.wait()
    assert not is_asked(tmp_path)


def test_a_place_that_cannot_be_written_is_asked_without_a_mark(tmp_path: Path) -> None:
    with asking(tmp_path / "nowhere"):
        assert not is_asked(tmp_path / "nowhere")


@pytest.mark.parametrize("asked_share", [0.5, 1.0])
def test_constant_questions_do_not_starve_indexing(asked_share: float) -> None:
    clock, asked, open_for = Clock(), True, 0.0
    gate = PauseGate(Asked(lambda: asked), clock)
    for tick in range(10_000):
        asked = tick % 10 < 10 * asked_share
        gate.look()
        if gate._open.is_set():
            open_for += 0.01
        clock.now += 0.01
    assert open_for >= WORK_SHARE * 100 * 0.95
    assert gate.paused_seconds <= 100 - open_for + LONGEST_PAUSE_SECONDS
    assert gate.paused_seconds > 30


def test_queries_that_leave_hardly_a_gap_do_not_starve_indexing_either() -> None:
    """Each gap ended a pause, and the bound counted from the beginning of each."""
    clock, asked, open_for = Clock(), True, 0.0
    gate = PauseGate(Asked(lambda: asked), clock)
    for tick in range(20_000):
        asked = tick % 40 != 0
        gate.look()
        if gate._open.is_set():
            open_for += 0.001
        clock.now += 0.001
    assert open_for >= WORK_SHARE * 20 * 0.9
    assert gate.paused_seconds > 20 * (1 - WORK_SHARE) * 0.9


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere the file is looked at now and then"
)
def test_a_query_is_noticed_when_it_begins_and_when_it_ends_not_when_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panorama.store.priority.TOLD_POLL_SECONDS", 3.0)
    told: list[bool] = []
    with closing(Marks(tmp_path)) as marks, PauseGate(marks, hold=told.append) as gate:
        time.sleep(0.1)  # the first look is over
        for _ in range(3):
            with asking(tmp_path):
                assert soon(lambda: not gate._open.is_set())
            assert soon(gate._open.is_set)
    assert told == [True, False] * 3


@pytest.mark.parametrize("tells", [True, False])
def test_closing_a_gate_does_not_wait_until_it_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """Every `index` closes two, and each waited for up to 50 ms."""
    if not tells:
        monkeypatch.setattr("panorama.store.files.opened._watched", lambda _: None)
    for name in ("TOLD_POLL_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(f"panorama.store.priority.{name}", 5.0)
    with closing(Marks(tmp_path)) as marks:
        gate = PauseGate(marks)
        gate.__enter__()
        time.sleep(0.1)  # the first look is over
        started = time.monotonic()
        gate.__exit__(None, None, None)
    assert time.monotonic() - started < 2.5


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux tells of an opened file")
def test_a_process_with_many_open_files_waits_for_marks_too(tmp_path: Path) -> None:
    """`select` refuses descriptors from 1024 on; its error ended the watch in the middle of a pause."""
    code = (
        "import os, resource, sys\n"
        "from pathlib import Path\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (1200, hard))\n"
        "files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]\n"
        "from panorama.store.priority import Marks\n"
        "Marks(Path(sys.argv[1])).wait()"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


def test_it_is_looked_at_less_often_where_the_system_tells_of_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(Opened, "wait", lambda self, seconds: waited.append(seconds))
    for tells, seconds in ((True, TOLD_POLL_SECONDS), (False, POLL_SECONDS)):
        monkeypatch.setattr(Opened, "tells", tells)
        with closing(Marks(tmp_path)) as marks:
            marks.wait()
        assert waited.pop() == seconds


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watch_that_fails_holds_nobody_back_for_ever() -> None:
    class Failing(Asked):
        def wait(self) -> None:
            raise OSError("no locks available")

    told: list[bool] = []
    with PauseGate(Failing(lambda: True), hold=told.append) as gate:
        assert soon(lambda: told == [True, False])
        assert gate._open.is_set()


def soon(holds: Callable[[], bool]) -> bool:
    """Whether something is so within half a second."""
    for _ in range(100):
        if holds():
            return True
        time.sleep(0.005)
    return False


def test_looking_for_marks_opens_nothing_that_others_would_take_for_a_query(tmp_path: Path) -> None:
    with closing(Marks(tmp_path)) as looks, closing(Opened(tmp_path / MARK)) as told:
        told.wait(0.0)
        started = time.monotonic()
        for _ in range(20):
            assert not looks.is_asked()
        told.wait(0.2)
        assert time.monotonic() - started >= 0.2
        with asking(tmp_path):
            assert looks.is_asked()


def test_a_query_holds_work_back_until_it_is_done(tmp_path: Path) -> None:
    with PauseGate(Asked(lambda: is_asked(tmp_path))) as gate:
        gate.wait()
        with asking(tmp_path):
            deadline = time.monotonic() + 5
            while gate._open.is_set() and time.monotonic() < deadline:
                time.sleep(0.005)
            assert not gate._open.is_set()
            time.sleep(0.1)
        gate.wait()
    assert 0.05 < gate.paused_seconds < 2


def test_the_command_line_marks_its_queries_but_not_the_showing(
    tmp_path: Path, run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_film(tmp_path / "a.mp4", [], frames=5)
    run("index", "a.mp4")
    store = Store.open(tmp_path / "panorama-library")
    seen: list[tuple[str, bool]] = []
    query, show = Engine.query, Result.to_table

    def queried(self: Engine, *arguments: Any) -> Result:
        seen.append(("query", is_asked(store.path / "locks")))
        return query(self, *arguments)

    def shown(self: Result, *arguments: Any) -> Any:
        seen.append(("show", is_asked(store.path / "locks")))
        return show(self, *arguments)

    monkeypatch.setattr(Engine, "query", queried)
    monkeypatch.setattr(Result, "to_table", shown)
    assert run("query", "SELECT count(*) FROM frames").status == 0
    assert ("query", True) in seen and ("show", False) in seen and ("show", True) not in seen
    assert not is_asked(store.path / "locks")
    store.close()
