"""The cores that this process may use come in; the thread counts of all libraries go out, set together."""

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
"""The variable that sets the number of cores to use, in place of all that are available."""

BRING_PRODUCTS = frozenset({"numpy", "scipy", "faiss", "torch"})
"""Packages that may each load a BLAS library of their own."""

BY_OPENMP = frozenset({"torch", "faiss"})
"""Libraries that keep a thread count per thread; $OMP_NUM_THREADS overrides ours if it is set."""

NETWORKS = "panorama.models.cores"
"""Our module that takes the thread count of 8-bit networks, in the way that a library does."""

CGROUP = Path("/sys/fs/cgroup")
MOST_DECODE_THREADS = 8


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of each library in one process.

    Attributes:
        cores: cores that may be used at once.
        decode: for PyAV to decode one video.
        network: for each network, whatever runs it. Threads that wait for each other spin, which on a busy
            core costs more than it gains.
        opencv: one, because pictures here are small and the stages of indexing run side by side.
        faiss: for building an index and for searches with many vectors; a small search uses one thread, see
            `store.vectors.inverted`.
        scan: for comparing all crops with an entity.
        duckdb: all cores, because a query runs alone.
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
        """The threads for a number of cores.

        Indexing runs decoding, two networks and the rest at the same time, so up to five cores one thread per
        network keeps all of them busy.
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
        """Set the counts of libraries loaded so far; returns itself.

        Code that loads a library later calls this again. Outside of `lent` the change is permanent, so use it
        there only in a process of our own, not in a user's.
        """
        _LENT.set(self._counts)
        return self

    @contextmanager
    def lent(self) -> Iterator[Threads]:
        """Give the libraries these counts within the block, then restore the former ones; see `lent`."""
        with lent(**self._counts):
            yield self


@contextmanager
def lent(**counts: int | None) -> Iterator[None]:
    """Set the thread counts of loaded libraries within the block, then restore the former counts.

    Blocks of several threads may overlap: the counts found by the first block are restored when the last one
    ends. For a library with a count per thread, a thread that leaves earlier gets them back at once. These
    are not necessarily its own former counts, which cannot be known: a new thread starts with the lent ones.

    Args:
        counts: by library name. None leaves the library's count; changes within the block are still undone.
    """
    _LENT.enter()
    try:
        _LENT.set(counts)
        yield
    finally:
        _LENT.leave()


class _Blocks:
    """Counts blocks of several threads, which may overlap: what they change is restored as they end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._here = local()

    @property
    def _depth(self) -> int:
        """How many of the blocks are this thread's."""
        return getattr(self._here, "depth", 0)

    def _begin(self) -> None:
        """Count one more block of this thread; the caller holds the lock."""
        self._inside += 1
        self._here.depth = self._depth + 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            self._here.depth -= 1
            self._restore()

    def forked(self) -> None:
        """Runs in a forked process, where the threads are missing that hold the lock or are in a block."""
        self._lock = Lock()
        self._inside = self._depth
        self._restore()

    def _restore(self) -> None:
        """Restore what no block needs any more."""
        raise NotImplementedError


class _Lent(_Blocks):
    """The thread counts that libraries had before the blocks that are active."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, int] = {}
        self._inherited: frozenset[str] = frozenset()

    def forked(self) -> None:
        """Runs in a forked process, where OpenMP's threads are missing and using several would hang.

        The counts become one here and now, not in the next block: loading weights happens outside of blocks.
        """
        self._inherited = BY_OPENMP.intersection(sys.modules)
        self._found |= dict.fromkeys(self._inherited.intersection(self._found), 1)
        super().forked()
        for name in self._inherited:
            if _threads_of(name) is not None:
                _set_threads(name, 1)

    def enter(self) -> None:
        watch_forks()
        with self._lock:
            self._begin()

    def set(self, counts: Mapping[str, int | None]) -> None:
        with self._lock:
            # A library that another thread is importing may lack its functions still. Read all counts before
            # setting any: torch and faiss share one OpenMP if torch was loaded first.
            found = {name: has for name in counts if (has := _threads_of(name)) is not None}
            for name, has in found.items():
                if self._inside:
                    self._found.setdefault(name, has)
                count = counts[name]
                if name in self._inherited:
                    _set_threads(name, 1)
                elif count is not None and not (name in BY_OPENMP and "OMP_NUM_THREADS" in os.environ):
                    _set_threads(name, count)

    def _restore(self) -> None:
        """Give back the former counts: all outside of every block, those per thread outside of this one's."""
        for name, count in self._found.items():
            if not self._inside or (not self._depth and name in BY_OPENMP):
                _set_threads(name, count)
        if not self._inside:
            self._found.clear()


_LENT = _Lent()


@cache
def watch_forks() -> None:
    """From now on, processes forked from this one get one thread in OpenMP's libraries and new locks."""
    os.register_at_fork(after_in_child=_LENT.forked)
    os.register_at_fork(after_in_child=_PROCESS.forked)


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
    """The thread count of a library; None if it is not loaded, or not completely."""
    get = getattr(sys.modules.get(name), _GET[name], None)
    return None if get is None or not hasattr(sys.modules[name], _SET[name]) else int(get())


def _set_threads(name: str, count: int) -> None:
    getattr(sys.modules[name], _SET[name])(count)


class _Alone(_Blocks):
    """Overlapping blocks of single-threaded products: the first sets one thread, the last restores.

    If each block restored what it found, one that begins and ends later than another would leave one thread
    for good, for example a query during indexing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: list[tuple[Any, int]] = []

    def enter(self, libraries: Sequence[Any]) -> None:
        with self._lock:
            self._begin()
            for library in libraries:
                before = library.num_threads
                library.set_num_threads(1)
                if library.num_threads != before:  # else it had one already, or a caller's limit applies
                    self._before.append((library, before))
            _let_go(libraries)

    def _restore(self) -> None:
        if self._inside:
            return
        libraries = [library for library, _ in self._before]
        while self._before:
            library, before = self._before.pop()
            library.set_num_threads(before)
        _let_go(libraries)


class _AloneHere(local, _Alone):
    """The same, separately for each thread."""


_PROCESS, _THREAD = _Alone(), _AloneHere()


@contextmanager
def products_alone() -> Iterator[None]:
    """Within the block, matrix products of numpy use one thread.

    Queries and indexing compute many small products. After each, the other threads of OpenBLAS spin for
    milliseconds on cores that the networks, the index, DuckDB and other programs need. Code that makes large
    scans divides them among threads itself. The count applies to the whole process, except for a BLAS on
    OpenMP. If blocks of several threads overlap, the first sets it and the last to end restores it.
    """
    watch_forks()
    found = _blas(frozenset(BRING_PRODUCTS.intersection(sys.modules))).lib_controllers
    # A BLAS on OpenMP has a count for each thread.
    by_thread = [library for library in found if library.info().get("threading_layer") == "openmp"]
    _PROCESS.enter([library for library in found if library not in by_thread])
    _THREAD.enter(by_thread)
    try:
        yield
    finally:
        _THREAD.leave()
        _PROCESS.leave()


def _let_go(libraries: Sequence[Any]) -> None:
    """Let other threads set counts, too: threadpoolctl allows only the first one to set that of OpenBLAS."""
    for library in libraries:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


@cache
def _blas(_loaded: frozenset[str]) -> Any:
    """The BLAS libraries of the packages loaded; cached by these because the search takes 10 ms."""
    return ThreadpoolController().select(user_api="blas")


def cores_here(cgroup: Path = CGROUP) -> int:
    """Cores for this process: $PANORAMA_THREADS if set, else the lesser of affinity and container share.

    Raises:
        UsageError: $PANORAMA_THREADS is not a whole number from 1.
    """
    asked = os.environ.get(ENVIRONMENT)
    if asked:
        from panorama.arguments import MOST_THREADS  # brings NumPy, which not every command needs

        # int() refuses more than 4300 digits.
        if not asked.isdecimal() or len(asked) > 9 or not 1 <= int(asked) <= MOST_THREADS:
            raise UsageError(
                f"{ENVIRONMENT} is a whole number of cores from 1 to {MOST_THREADS}, got {asked!r:.40}"
            )
        return int(asked)
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = _cgroup_share(cgroup)
    return max(1, bound if share is None else min(bound, math.ceil(share)))


def _cgroup_share(root: Path) -> float | None:
    """Cores that the container may use; None if it has no limit."""
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
