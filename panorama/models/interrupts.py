"""A training comes in; it gets its folder for itself, and a report of what is kept when it is interrupted."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from panorama.errors import LibraryWriteError, ModelError, UsageError
from panorama.models.training.begun import step_of
from panorama.models.weights import MODEL, WEIGHTS
from panorama.stopping import may_delay, uninterrupted

CHECKPOINT = "checkpoint.safetensors"
"""The file from which an interrupted training can resume."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Create an output folder for the block; if the block fails, remove the folders created if still empty.

    Raises:
        UsageError: its name is not valid UTF-8.
        LibraryWriteError: it cannot be created, or a file in it cannot be written.
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
        with _told(folder):
            yield
    except BaseException:
        with suppress(OSError):  # a folder that is not empty stays, and so do its parents
            for path in made:
                path.rmdir()
        raise


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn errors of the system while files of a folder are written into LibraryWriteError."""
    try:
        yield
    except OSError as exc:
        # Writing to an open file names no file; reading fails for other reasons than these.
        here = exc.filename is None or folder.resolve() in Path(os.fsdecode(exc.filename)).resolve().parents
        if not here or exc.errno not in (*_NO_ROOM, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        step = "free some space" if exc.errno in _NO_ROOM else "change its permissions"
        if exc.errno == errno.EROFS:
            step = "mount its disk for writing"
        raise LibraryWriteError(
            f"{folder} cannot be written: {exc.strerror}; {step}, and run the same command again, with"
            " --resume if a checkpoint is there"
        ) from exc


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


def refuse_trained(out: Path) -> None:
    """Refuse a folder that holds a training: a forgotten --resume must not overwrite hours of work.

    Raises:
        UsageError: it holds a checkpoint or a model.
    """
    a_model = "a model already"
    for name, what in (
        (CHECKPOINT, "a training that can be resumed"),
        (WEIGHTS, a_model),
        (f"{MODEL}/{WEIGHTS}", a_model),
    ):
        if (out / name).is_file():
            raise UsageError(f"{out} holds {what} ({name}): continue it with --resume, or name a new folder")


def _kept(out: Path) -> str:
    """What an interrupted training leaves, and how to continue it."""
    if (out / CHECKPOINT).is_file():
        step = step_of(out / CHECKPOINT)
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
def interrupts_delayed() -> Iterator[None]:
    """Processes started within never see Ctrl-C: this one ends them. Here it is raised when the block ends.

    Otherwise this process and all of them would report what broke them, or it would be lost here.
    """
    if not may_delay():
        yield
        return
    from multiprocessing import resource_tracker  # only who starts processes needs it

    resource_tracker.ensure_running()  # which unblocks SIGINT where it starts itself
    with uninterrupted():
        # Processes inherit what is blocked, but no handler. Another thread of this process may take the
        # signal, so that the handler has to hold it back as well.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
