"""A flag in memory shared by two processes: one sets it, and the other pauses while it is set."""

from __future__ import annotations

import mmap
import os
import tempfile
import time

from panorama.worker.descriptors import take_standard

STEP_SECONDS = 0.002
"""Interval at which a paused process checks the flag."""


class Flag:
    """One byte of an open file without a name.

    Args:
        descriptor: descriptor of the file; None creates a file.

    Attributes:
        descriptor: pass it to another process (`pass_fds`), which makes the same flag from it. It stays open
            until `close`.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _file() if descriptor is None else descriptor
        self._bytes = mmap.mmap(self.descriptor, 1)

    def set(self, held: bool) -> None:
        """Pause the other process, or let it go on."""
        self._bytes[0] = held

    def wait(self) -> None:
        """Wait while the flag is set."""
        while self._bytes[0]:
            time.sleep(STEP_SECONDS)

    def close(self) -> None:
        """Release it in this process; the other process keeps its own mapping."""
        self._bytes.close()
        os.close(self.descriptor)


def _file() -> int:
    take_standard()  # else what is printed could set the flag; a map has a descriptor of its own, too
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("panorama-hold")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, 1)
    return descriptor
