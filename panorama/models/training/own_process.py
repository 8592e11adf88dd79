"""Nothing comes in; a process that exists to train is set up for it, for good."""

from __future__ import annotations

import ctypes
import os
from typing import Any

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Parameters of `mallopt` in glibc's malloc.h: freed bytes to keep, blocks to map apart."""

ALL = -1


def set_up_process() -> None:
    """Set up a process of our own for training; call it before torch is loaded."""
    # OpenMP reads this as it is loaded. Threads that spin while they wait for each other take a third of a
    # core, which the process that makes the batches needs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_freed_memory()


def keep_freed_memory() -> bool:
    """Reuse freed memory instead of giving it back to the system; returns whether this system can do that.

    glibc maps a large block apart and unmaps it when it is freed, and the system fills the pages of the next
    one with zeros, one by one. The maps of a step with hundreds of pictures are such blocks, and nearly half
    of its time would go into that.
    """
    try:
        mallopt: Any = ctypes.CDLL(None).mallopt
    # Python cannot load libraries, or not what it runs in (Windows); another allocator (macOS, musl).
    except (OSError, TypeError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, ALL))
