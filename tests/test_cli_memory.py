"""Want of memory on the command line: what is told of it, and to whom the limit was."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran

from panorama.cli import limits as cli_limits
from panorama.cli import memory
from panorama.cli.limits import memory_told
from panorama.errors import BadImage, OutOfMemory, QueryTimeout
from panorama.library import Library
from panorama.query.handed.relations import Limits

NO_LIBRARY = "libavfilter.so.11: failed to map segment from shared object"
KB = 1024


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """What the system limits, as bytes by kind; nothing at first."""
    found: dict[int, int] = {}
    monkeypatch.setattr(memory, "soft_bound", found.get)
    monkeypatch.setattr(cli_limits, "soft_bound", found.get)
    return found


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (MemoryError(), ""),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), " ([Errno 12] Cannot allocate memory)"),
        (ImportError(NO_LIBRARY), f" ({NO_LIBRARY})"),
        (ImportError(f"NumPy cannot be used.\n\n  Original: {NO_LIBRARY}\n"), f" (Original: {NO_LIBRARY})"),
        (RuntimeError("std::bad_alloc"), " (std::bad_alloc)"),
    ],
)
def test_want_of_memory_is_told_with_what_can_be_done(
    bounds: dict[int, int], error: Exception, named: str
) -> None:
    told = memory.want_of_memory(error)
    assert isinstance(told, OutOfMemory) and told.__cause__ is error and told.exit_status == 1
    assert str(told) == (
        f"there is not enough memory for this{named}: close other programs, or use a machine with more memory"
    )
    bounds[resource.RLIMIT_AS] = 2_000_000 * KB
    assert str(memory.want_of_memory(error)).endswith(
        f"{named}: the system limits this process to 2000000 kB; raise the limit with ulimit -v"
    )


@pytest.mark.parametrize(
    "error",
    [
        ImportError("no module named 'av'"),
        OSError(errno.EIO, "Input/output error"),
        RuntimeError("can't start new thread"),
        BadImage("out of memory.png is no picture"),
    ],
)
def test_other_errors_are_no_want_of_memory(bounds: dict[int, int], error: Exception) -> None:
    assert memory.want_of_memory(error) is None


def test_no_thread_is_want_of_memory_where_the_system_limits_it(bounds: dict[int, int]) -> None:
    bounds[resource.RLIMIT_AS] = 700_000 * KB
    assert "(can't start new thread)" in str(memory.want_of_memory(RuntimeError("can't start new thread")))


@pytest.mark.parametrize(
    ("given", "own", "system", "told"),
    [
        ("500MB", 4000, None, QueryTimeout),
        ("500MB", 4000, 5000, QueryTimeout),
        ("500MB", 4000, 1000, MemoryError),  # to raise --memory would not help
        (None, None, None, MemoryError),
        (None, 4000, None, MemoryError),
    ],
)
def test_memory_is_to_be_raised_where_it_was_given_and_is_the_nearest_limit(
    bounds: dict[int, int], given: str | None, own: int | None, system: int | None, told: type[Exception]
) -> None:
    kinds = {resource.RLIMIT_DATA: own, resource.RLIMIT_AS: system}
    bounds |= {kind: size for kind, size in kinds.items() if size is not None}
    with pytest.raises(told) as raised, memory_told(Limits(memory=given)):
        raise MemoryError
    assert told is MemoryError or str(raised.value) == (
        "the query needs more memory than its limit of 500MB; raise --memory"
    )


@pytest.mark.parametrize("error", [MemoryError(), ImportError(NO_LIBRARY)], ids=["memory", "a library"])
@pytest.mark.parametrize("words", [("register", "k", "red.png"), ("query", "SELECT 1 AS one")])
def test_a_command_without_enough_memory_ends_in_one_line(
    run: Callable[..., Ran],
    asked: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    error: Exception,
) -> None:
    """`register` was told of a query, and to raise an option that it has not; a library was a defect."""

    def without_room(*_: object, **__: object) -> None:
        raise error

    for method in ("register", "query_each"):
        monkeypatch.setattr(Library, method, without_room)
    (asked / "red.png").write_bytes(b"never read")
    done = run(*words)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("OutOfMemory: there is not enough memory for this")
    assert done.err.count("\n") == 1 and "--memory" not in done.err
