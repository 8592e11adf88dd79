"""Limits of a query on the command line, and Ctrl-C, on processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from fakes import Thing, coloured_things, start_panorama, write_film

import panorama
from panorama.cli.limits import Left, ending
from panorama.errors import QueryTimeout, UsageError
from panorama.query.relations import Limits

ENDLESS = "SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3"
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
    assert (status, err.strip()) == (1, "QueryTimeout: the query ran past its limit of 0.5 s and was stopped")


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


def test_a_picture_that_may_fail_does_not_take_the_end_of_the_time_for_a_failure():
    told = pytest.raises(QueryTimeout, match="before its answer was written whole")
    with told, ending(Left(time.monotonic() + 0.05, 0.05)):
        while True:
            with suppress(Exception):
                time.sleep(0.01)


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
        ({"seconds": 0}, "above 0, got int 0"),
        ({"seconds": float("nan")}, "above 0"),
        ({"memory": "lots"}, "like '500MB', '4GB' or '1.5GiB', got 'lots'"),
        ({"memory": "1kB"}, "at least 10MB, got '1kB'"),
        ({"threads": 0}, "threads is a whole number from 1 to 1024, got int 0"),
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
