"""A training that is interrupted enters; what is kept of it leaves, told by one of its processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import safe_open

CHECKPOINT = "checkpoint.safetensors"
"""What a training in steps leaves to go on from."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


@contextmanager
def kept_is_told(out: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Where training in steps is interrupted, say what is left of it and how to go on."""
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
