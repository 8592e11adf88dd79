"""Jobs and the data they share come in; their results go out, computed in parallel threads or processes."""

from __future__ import annotations

import mmap
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import accumulate
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol, TypeVar

import cv2

from panorama.errors import ModelError
from panorama.models.interrupts import interrupts_delayed

MOST_THREADS = 2
"""With more workers than this, they are processes. Threads take turns running Python: on two cores, two make
1.67 times as many views as one, and 1.93 times with a teacher, which releases the interpreter lock.
"""

SHARED = "shared.part"

Job = TypeVar("Job")
Made = TypeVar("Made")


class Stop(Protocol):
    """An event, of threads or of processes."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...


class Work(Protocol):
    """The data that jobs share, picklable. Running jobs check `stopped` and end when it is set."""

    stopped: Stop


class Crew:
    """Runs jobs on the workers that `crew` started."""

    def __init__(
        self, pool: Executor, call: Callable[..., Any], beginning: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._pool, self._call, self._beginning = pool, call, beginning

    def do(self, task: Callable[[Any, Job], Made], jobs: Iterable[Job]) -> list[Made]:
        """The results of `task(work, job)` for all jobs, in order; the first error is raised at once."""
        with self._beginning():
            begun = [self._pool.submit(self._call, task, job) for job in jobs]
        for future in as_completed(begun):
            future.result()
        return [future.result() for future in begun]


@contextmanager
def crew(work: Work, count: int, scratch: Path) -> Iterator[Crew]:
    """Provide `count` workers for the block; an interrupt or an error in one of them stops the others.

    Args:
        scratch: a folder for the data that processes share, so that it takes memory only once.

    Raises:
        ModelError: a process was killed.
    """
    if count <= MOST_THREADS:
        with _ended(ThreadPoolExecutor(count), work.stopped) as pool:
            yield Crew(pool, partial(_call, work), nullcontext)
        return
    # Spawn, not fork: a process forked beside torch's threads may wait for them for ever.
    context = get_context("spawn")
    stopped, shared = context.Event(), scratch / SHARED
    try:
        given = shared, _write(work, shared), stopped
        with _ended(ProcessPoolExecutor(count, context, _begin, given), stopped) as pool:
            yield Crew(pool, _call_mine, interrupts_delayed)
    except BrokenProcessPool as exc:
        raise ModelError(
            f"one of {count} processes was killed, maybe because memory ran out; fewer --threads need less"
        ) from exc
    finally:
        shared.unlink(missing_ok=True)


@contextmanager
def _ended(pool: Executor, stopped: Stop) -> Iterator[Executor]:
    try:
        yield pool
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def _call(work: Work, task: Callable[[Any, Job], Made], job: Job) -> Made:
    return task(work, job)


def _write(work: Work, path: Path) -> list[int]:
    """Pickle `work` to a file, arrays as raw bytes for processes to map; returns the sizes of its parts."""
    parts: list[pickle.PickleBuffer] = []
    itself = pickle.dumps(work, protocol=5, buffer_callback=parts.append)
    with path.open("wb") as file:
        return [*(file.write(part.raw()) for part in parts), file.write(itself)]


# ---- in a worker process

_mine: Work


def _begin(shared: Path, sizes: Sequence[int], stopped: Stop) -> None:
    """Start a worker process: map the shared data, and limit OpenCV and torch to one thread.

    Matrix products, which are rare here, keep their threads: otherwise they would round differently.
    """
    global _mine
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later
    with shared.open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    *parts, itself = _cut(whole, sizes)
    _mine = pickle.loads(itself, buffers=parts)
    _mine.stopped = stopped
    cv2.setNumThreads(1)


def _cut(whole: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    ends = list(accumulate(sizes))
    return [whole[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _leave_with_parent() -> None:
    """End this process when its parent dies; otherwise it would wait for jobs for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call_mine(task: Callable[[Any, Job], Made], job: Job) -> Made:
    return task(_mine, job)
