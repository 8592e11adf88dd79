"""The cores that this process may use enter; how many threads each library gets leaves, set together."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock, local
from typing import Any

from threadpoolctl import ThreadpoolController

from panorama.errors import UsageError

ENVIRONMENT = "PANORAMA_THREADS"
"""How many cores to use, where it is not all that are there."""

BRING_PRODUCTS = frozenset({"numpy", "scipy", "faiss", "torch"})
"""Packages that may each bring a library of matrix products of its own."""

BY_OPENMP = frozenset({"torch", "faiss"})
"""They keep a number for each thread, and $OMP_NUM_THREADS decides it where it is set."""

NETWORKS = "panorama.models.cores"
"""Where the threads of networks in 8 bits are told, as a library's are."""

CGROUP = Path("/sys/fs/cgroup")
MOST_DECODE_THREADS = 8


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of each library in one process.

    Attributes:
        cores: what may be used at once.
        decode: of PyAV, for one video.
        network: of one network at a time, whatever runs it; threads that wait for each other spin, and on a
            busy core that costs more than it gains.
        opencv: pictures here are small, and the stages of indexing run side by side.
        faiss: of building an index and of a search for many; a small search takes one, see `store.inverted`.
        scan: of comparing everything with an entity.
        duckdb: a query runs alone.
    """

    cores: int
    decode: int
    network: int
    opencv: int
    faiss: int
    scan: int
    duckdb: int

    @classmethod
    def of(cls, cores: int) -> Threads:
        """The threads for so many cores.

        While indexing, decoding, two networks and the rest run at the same time: up to four cores one thread
        a network is enough to keep all busy.
        """
        return cls(
            cores=cores,
            decode=min(cores, MOST_DECODE_THREADS),
            network=max(1, cores // 3),
            opencv=1,
            faiss=cores,
            scan=cores,
            duckdb=cores,
        )

    @classmethod
    def here(cls) -> Threads:
        """The threads for this process."""
        return cls.of(cores_here())

    @property
    def _counts(self) -> dict[str, int]:
        return {"cv2": self.opencv, "torch": self.network, NETWORKS: self.network, "faiss": self.faiss}

    def apply(self) -> Threads:
        """Tell the libraries that are loaded; those loaded later are told by who loads them. Itself.

        Outside of `lent` it is for good: for a process of our own, not for a user's.
        """
        _LENT.set(self._counts)
        return self

    @contextmanager
    def lent(self) -> Iterator[Threads]:
        """Within it the libraries have these threads, itself; then as many as were found; see `lent`."""
        with lent(**self._counts):
            yield self


@contextmanager
def lent(**counts: int | None) -> Iterator[None]:
    """Within it libraries, by name, have so many threads where they are loaded; then as many as were found.

    Blocks of several threads may overlap: what the first found is set back when the last ends. A thread that
    leaves before gets that back at once where the library keeps a number for each thread: its own it cannot
    know, since a new thread begins with what a block has lent.

    Args:
        counts: by library; None leaves its own, and what happens to it within is set back all the same.
    """
    _LENT.enter()
    try:
        _LENT.set(counts)
        yield
    finally:
        _LENT.leave()


class _Lent:
    """How many threads libraries had before blocks gave them others."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._here = local()
        self._found: dict[str, int] = {}
        self._inherited: frozenset[str] = frozenset()

    def forked(self) -> None:
        """In a forked process: the threads of OpenMP are not there, and who asks for any waits for ever."""
        self._lock = Lock()
        self._inherited = BY_OPENMP.intersection(sys.modules)

    def enter(self) -> None:
        _tell_of_forks()
        with self._lock:
            self._inside += 1
            self._here.depth = getattr(self._here, "depth", 0) + 1

    def set(self, counts: Mapping[str, int | None]) -> None:
        with self._lock:
            # One that another thread is loading has its module, and not its functions yet. All are read
            # before any is told: torch and faiss may share one OpenMP, if torch was loaded first.
            found = {name: has for name in counts if (has := _threads_of(name)) is not None}
            for name, has in found.items():
                if self._inside:
                    self._found.setdefault(name, has)
                count = counts[name]
                if name in self._inherited:
                    _set_threads(name, 1)
                elif count is not None and not (name in BY_OPENMP and "OMP_NUM_THREADS" in os.environ):
                    _set_threads(name, count)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            self._here.depth -= 1
            for name, count in self._found.items():
                if not self._inside or (not self._here.depth and name in BY_OPENMP):
                    _set_threads(name, count)
            if not self._inside:
                self._found.clear()


_LENT = _Lent()


@cache
def _tell_of_forks() -> None:
    os.register_at_fork(after_in_child=_LENT.forked)


_GET = {
    "cv2": "getNumThreads",
    "torch": "get_num_threads",
    NETWORKS: "get_num_threads",
    "faiss": "omp_get_max_threads",
}
_SET = {
    "cv2": "setNumThreads",
    "torch": "set_num_threads",
    NETWORKS: "set_num_threads",
    "faiss": "omp_set_num_threads",
}


def _threads_of(name: str) -> int | None:
    """The threads of a library, None where it is not loaded."""
    get = getattr(sys.modules.get(name), _GET[name], None)
    return None if get is None or not hasattr(sys.modules[name], _SET[name]) else int(get())


def _set_threads(name: str, count: int) -> None:
    getattr(sys.modules[name], _SET[name])(count)


class _Alone:
    """Those who want products of one thread: the first sets it, and what was before is set with the last.

    Each setting back what it found would leave one thread for good where one begins later than another and
    ends later, as a question does that is asked while videos are indexed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self, libraries: Sequence[Any]) -> None:
        with self._lock:
            self._inside += 1
            for library in libraries:
                before = library.num_threads
                library.set_num_threads(1)
                if library.num_threads != before:  # else it is so already, or a caller's own limit holds
                    self._before.append((library, before))
            _let_go(libraries)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside:
                return
            libraries = [library for library, _ in self._before]
            while self._before:
                library, before = self._before.pop()
                library.set_num_threads(before)
            _let_go(libraries)


class _AloneHere(local, _Alone):
    """The same for each thread by itself."""


_PROCESS, _THREAD = _Alone(), _AloneHere()


@contextmanager
def products_alone() -> Iterator[None]:
    """Within it, matrix products of numpy use one thread.

    Questions and indexing make many small ones, after each of which the other threads of OpenBLAS spin for
    milliseconds, on cores that the networks, the index, DuckDB and other programs want. Large scans are
    divided among threads by who makes them. The number holds for the whole process; where several threads
    ask, the first one sets it, and what was before is set when the last is done, in whatever order they end.
    """
    found = _blas(frozenset(BRING_PRODUCTS.intersection(sys.modules))).lib_controllers
    # With OpenMP below it, each thread has a number of its own.
    by_thread = [library for library in found if library.info().get("threading_layer") == "openmp"]
    _PROCESS.enter([library for library in found if library not in by_thread])
    _THREAD.enter(by_thread)
    try:
        yield
    finally:
        _THREAD.leave()
        _PROCESS.leave()


def _let_go(libraries: Sequence[Any]) -> None:
    """Let other threads set numbers, too: threadpoolctl keeps OpenBLAS to the first one that does."""
    for library in libraries:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


@cache
def _blas(_loaded: frozenset[str]) -> Any:
    """The libraries of matrix products that came with these packages; to find them takes 10 ms."""
    return ThreadpoolController().select(user_api="blas")


def cores_here(cgroup: Path = CGROUP) -> int:
    """Cores that this process may use: what it is bound to, its container's share, or $PANORAMA_THREADS.

    Raises:
        UsageError: $PANORAMA_THREADS is not a whole number from 1.
    """
    asked = os.environ.get(ENVIRONMENT)
    if asked:
        from panorama.arguments import MOST_THREADS  # brings NumPy, which not every command needs

        # Of more than 4300 digits Python makes no number.
        if not asked.isdecimal() or len(asked) > 9 or not 1 <= int(asked) <= MOST_THREADS:
            raise UsageError(
                f"{ENVIRONMENT} is a whole number of cores from 1 to {MOST_THREADS}, got {asked!r:.40}"
            )
        return int(asked)
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = _cgroup_share(cgroup)
    return max(1, bound if share is None else min(bound, math.ceil(share)))


def _cgroup_share(root: Path) -> float | None:
    """Cores that the container is given, None where it is given all."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return int(quota) / int(period)
