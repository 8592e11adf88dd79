"""A training enters; its folder is its own meanwhile, and what is kept of it when interrupted leaves."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import safe_open

from panorama.errors import ModelError

CHECKPOINT = "checkpoint.safetensors"
"""What a training in steps leaves to go on from."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


@contextmanager
def training_in(out: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Within it a training in steps has a folder for itself, and says what is left when it is interrupted.

    Raises:
        ModelError: another process trains there: both would write one log and one checkpoint by turns.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(folder)
        raise ModelError(f"another process trains in {out}: wait for it, or name another folder") from exc
    except OSError:
        pass  # a file system without locks: two at once have to be kept apart by who starts them
    try:
        yield
    except KeyboardInterrupt:
        if (out / CHECKPOINT).is_file():
            with safe_open(out / CHECKPOINT, framework="numpy") as tensors:
                step = int(tensors.get_tensor("step"))
            say(f"{out} keeps the checkpoint of step {step}; the same command with --resume goes on there")
        else:
            prepared = f" and uses what is prepared in {out}" if out.is_dir() and any(out.iterdir()) else ""
            say(f"no checkpoint yet; the same command begins anew{prepared}")
        raise
    finally:
        os.close(folder)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """A process begun meanwhile leaves Ctrl-C to this one, which ends it; else both say what broke them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change it
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
