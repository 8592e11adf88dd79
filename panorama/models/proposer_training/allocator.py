"""Nothing comes in; from then on the process keeps memory that it frees, for the next step of a training."""

from __future__ import annotations

import ctypes
from typing import Any

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Parameters of `mallopt` in glibc's malloc.h: freed bytes to keep, blocks to map apart."""

ALL = -1


def keep_freed_memory() -> bool:
    """Reuse freed memory instead of giving it back to the system; returns whether this system can do that.

    glibc maps a large block apart and unmaps it when it is freed, and the system fills the pages of the next
    one with zeros, one by one. The maps of a step with hundreds of pictures are such blocks, and nearly half
    of its time would go into that.

    This is for a process of our own: it changes the process for good.
    """
    try:
        mallopt: Any = ctypes.CDLL(None).mallopt
    # Python cannot load libraries, or not what it runs in (Windows); another allocator (macOS, musl).
    except (OSError, TypeError, AttributeError):
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, ALL))
