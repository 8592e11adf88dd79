"""A flag in memory that two processes see: one of them sets it, the other stands still while it is set."""

from __future__ import annotations

import mmap
import os
import tempfile
import time

STEP_SECONDS = 0.002
"""How often who stands still looks whether to go on."""


class Flag:
    """One byte of an open file without a name.

    Args:
        descriptor: of the file; None makes one. It stays open for as long as it may be handed on.

    Attributes:
        descriptor: what another process, started with it (`pass_fds`), makes the same flag of.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _file() if descriptor is None else descriptor
        self._bytes = mmap.mmap(self.descriptor, 1)

    def set(self, held: bool) -> None:
        """Hold the other process, or let it go on."""
        self._bytes[0] = held

    def wait(self) -> None:
        """Return when the flag is not set: at once, if it is not."""
        while self._bytes[0]:
            time.sleep(STEP_SECONDS)

    def close(self) -> None:
        """Let go of it here."""
        self._bytes.close()
        os.close(self.descriptor)


def _file() -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("panorama-hold")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, 1)
    return descriptor
