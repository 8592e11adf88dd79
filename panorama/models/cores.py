"""A number enters; the threads that one network in 8 bits takes leave. `panorama.threads` tells it."""

from __future__ import annotations

_count = 0


def set_num_threads(count: int) -> None:
    """From the next picture on, networks in 8 bits take so many threads; 0 for one on each core."""
    global _count
    _count = count


def get_num_threads() -> int:
    """What was last told."""
    return _count
