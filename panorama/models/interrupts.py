"""A training comes in; it gets its folder for itself, and a report of what is kept when it is interrupted."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import safe_open

from panorama.errors import LibraryWriteError, ModelError, UsageError

CHECKPOINT = "checkpoint.safetensors"
"""The file from which an interrupted training can resume."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Create an output folder for the block; if the block fails, remove the folders created if still empty.

    Raises:
        UsageError: its name is not valid UTF-8.
        LibraryWriteError: it cannot be created.
    """
    try:
        str(folder.absolute()).encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"{str(folder)!r} is not UTF-8 text; name another folder") from exc
    made = [path for path in (folder, *folder.parents) if not os.path.exists(path)]  # noqa: PTH110
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise LibraryWriteError(f"{folder} cannot be made: {exc.strerror or exc}") from exc
        yield
    except BaseException:
        with suppress(OSError):  # a folder that is not empty stays, and so do its parents
            for path in made:
                path.rmdir()
        raise


@contextmanager
def training_in(out: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Give a training a folder for itself during the block; if interrupted, report what the folder keeps.

    Raises:
        UsageError, LibraryWriteError: as in `filled`.
        ModelError: another process trains there; the two would overwrite each other's log and checkpoint.
    """
    with filled(out), _locked(out):
        try:
            yield
        except KeyboardInterrupt:
            say(_kept(out))
            raise


def _kept(out: Path) -> str:
    """What an interrupted training leaves, and how to continue it."""
    if (out / CHECKPOINT).is_file():
        with safe_open(out / CHECKPOINT, framework="numpy") as tensors:
            step = int(tensors.get_tensor("step"))
        return f"{out} keeps the checkpoint of step {step}; to continue, add --resume to the same command"
    prepared = f" and uses what is prepared in {out}" if out.is_dir() and any(out.iterdir()) else ""
    return f"no checkpoint yet; the same command starts again{prepared}"


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    folder = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(folder)
        raise ModelError(
            f"another process is training in {out}: wait for it, or name another folder"
        ) from exc
    except OSError:
        pass  # the file system has no locks: users must not start two trainings in one folder
    try:
        yield
    finally:
        os.close(folder)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Processes started inside this block ignore Ctrl-C: this process ends them, and it alone reports it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
