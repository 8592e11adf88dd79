"""Limits of a query on the command line, and Ctrl-C, on processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress

import duckdb
import pytest
from fakes import Thing, coloured_things, start_panorama, write_film

import panorama
from panorama.cli.limits import Left, written
from panorama.errors import QueryTimeout, UsageError
from panorama.query.handed.relations import Limits

ENDLESS = "SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3"
SLOW = "SELECT count(*) FROM range(200000000) r(i) WHERE i % 7 = 3"
DEAF = "SELECT length(lpad('x', 2000000000, 'y'))"
"""DuckDB looks for an interrupt between values, not within one."""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    write_film(folder / "a.mp4", [Thing("red", 5, 25)], frames=30)
    with coloured_things(), panorama.open(folder / "library", create=True) as made:
        made.index(folder / "a.mp4", model="color-bands")
    return folder / "library"


def started(library, sql, *words):
    """A process that is about to answer `sql`: it has already answered another statement."""
    file = library.parent / "asked.sql"
    file.write_text(f"SELECT 'ready' AS state;\n{sql};\n")
    process = start_panorama(
        "--library", library, "query", "-f", file, "--format", "csv", *words, cwd=library.parent
    )
    assert process.stdout.readline().strip() == "state"
    assert process.stdout.readline().strip() == "ready"
    return process


def ended(process, seconds):
    """Exit status and stderr of a process that must end soon."""
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, err


@pytest.mark.parametrize("sql", [ENDLESS, DEAF])
def test_ctrl_c_ends_a_query_at_once_with_one_line(library, sql):
    process = started(library, sql)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    status, err = ended(process, 10)
    assert status == 130
    assert err.strip() == "panorama: interrupted"


@pytest.mark.parametrize("sql", [ENDLESS, DEAF])
def test_a_query_past_its_time_ends_whatever_it_is_doing(library, sql):
    status, err = ended(started(library, sql, "--timeout", "0.5"), 10)
    told = "QueryTimeout: the query ran past its limit of 0.5 s and was stopped"
    next_step = "allow it more time, or narrow it by video, camera or time"
    assert (status, err.strip()) == (1, f"{told}; {next_step}")


MANY = "SELECT i, repeat('x', 50) AS text FROM range(3000000) r(i)"
"""Found in a moment, and written in a minute."""


@pytest.mark.parametrize("name", ["rows.csv", "rows.json", "rows.txt"])
def test_a_file_that_is_not_written_in_time_is_not_there(library, tmp_path, name):
    """The limit ended where the rows were found; writing them took as long as it took."""
    process = start_panorama(
        "--library", library, "query", MANY, "--timeout", "3", "--out", tmp_path / name, cwd=tmp_path
    )
    status, err = ended(process, 30)
    assert status == 1 and err.startswith("QueryTimeout: the query ran past its limit of 3 s")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_are_printed_as_they_are_made_and_no_longer_than_the_limit(library, form):
    process = start_panorama(
        "--library", library, "query", MANY, "--timeout", "4", "--format", form, cwd=library.parent
    )
    begun = [process.stdout.readline() for _ in range(3)]
    assert process.poll() is None and "x" * 50 in begun[-1]
    status, err = ended(process, 30)
    assert status == 1 and err.startswith("QueryTimeout: the query ran past its limit of 4 s")


@pytest.mark.parametrize(("kind", "name"), [("page", "a.html"), ("sheet", "a.png"), ("clips", "clips")])
def test_the_end_of_the_time_amid_a_query_of_a_picture_is_that_end(
    library, tmp_path, monkeypatch, kind, name
):
    """DuckDB made Ctrl-C of it, and the exit status was 130."""
    with panorama.open(library) as held:
        result = held.query("SELECT tracks")
        ask = held.query

        def slow(*words, **named):
            ask(SLOW)  # as a library of thousands of tracks is
            return ask(*words, **named)

        monkeypatch.setattr(type(held), "query", lambda _, *words, **named: slow(*words, **named))
        past(0.1, lambda: getattr(held, kind)(result, tmp_path / name))
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def past(seconds, write):
    """Write what cannot be written in that time; it ends soon after it."""
    began = time.monotonic()
    with pytest.raises(QueryTimeout, match=f"its limit of {seconds:g} s while its answer was written"):
        written(Left(began + seconds, seconds), write)
    assert time.monotonic() - began < seconds + 10


def test_a_picture_that_may_fail_does_not_take_the_end_of_the_time_for_a_failure():
    def write():
        while True:
            with suppress(Exception):
                time.sleep(0.01)

    past(0.05, write)


def test_the_end_of_the_time_amid_a_function_of_a_query_is_that_end():
    def slow(number):
        time.sleep(0.5)
        return number

    with duckdb.connect() as connection:
        connection.create_function("slow", slow, ["BIGINT"], "BIGINT")
        past(0.05, lambda: connection.execute("SELECT slow(1)").fetchall())


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_end_of_the_time_that_is_swallowed_is_told_again():
    """Python remarks on what is raised while an object is freed, and goes on."""

    class Freed:
        def __del__(self):
            time.sleep(0.2)

    def write():
        Freed()
        time.sleep(60)

    past(0.05, write)


def test_what_is_put_away_at_the_end_of_the_time_is_let_finish():
    put_away = []

    def write():
        try:
            time.sleep(60)
        finally:
            for _ in range(20):
                time.sleep(0.02)
            put_away.append("all")

    past(0.05, write)
    assert put_away == ["all"]


def test_the_end_of_the_time_never_leaves_as_something_else():
    """In one of four hundred answers that were whole at about that time it did, past every handler."""
    ends = set()
    for number in range(3000):
        try:
            written(
                Left(time.monotonic() + 20e-6 + number % 100 * 1e-6, 1.0),
                lambda: [str(i) for i in range(200)],
            )
        except BaseException as exc:
            ends.add(type(exc))
    time.sleep(0.1)
    assert ends == {QueryTimeout}


@pytest.mark.skipif(sys.platform != "linux", reason="the bound on a process is Linux's")
@pytest.mark.parametrize(
    "sql", ["SELECT list(i) FROM range(100000000) r(i)", "SELECT length(repeat('x', 4000000000))"]
)
def test_a_query_past_its_memory_says_so(library, sql):
    status, err = ended(started(library, sql, "--memory", "100MB"), 60)
    assert status == 1 and err.startswith("QueryTimeout: the query needs more memory than its limit")


def test_within_its_limits_a_query_is_answered(library):
    process = started(library, "SELECT count(*) AS n FROM frames", "--memory", "200MB", "--timeout", "60")
    assert process.stdout.read() == "n\n30\n"
    assert ended(process, 30) == (0, "")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"seconds": 0}, "above 0, got 0"),
        ({"seconds": float("nan")}, "above 0"),
        ({"memory": "lots"}, "like '500MB', '4GB' or '1.5GiB', got 'lots'"),
        ({"memory": "1kB"}, "at least 10MB, got '1kB'"),
        ({"threads": 0}, "threads is a whole number from 1 to 1024, got 0"),
    ],
)
def test_limits_that_make_no_sense_are_told(wrong, told):
    with pytest.raises(UsageError, match=told):
        Limits(**wrong)


def test_memory_is_read_in_the_units_that_people_write():
    sizes = {"500MB": 500_000_000, "4 gb": 4_000_000_000, "1.5GiB": 1_610_612_736, "20000000B": 20_000_000}
    assert {text: Limits(memory=text).memory_bytes for text in sizes} == sizes


def test_the_options_reach_the_query(run, tmp_path):
    for words in (("--timeout", "-1"), ("--memory", "plenty")):
        done = run("query", "SELECT 1", *words)
        assert done.status == 2 and done.err.startswith("UsageError")
