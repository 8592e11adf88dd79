"""The number of threads for networks in 8 bits comes in; the networks read it. `panorama.threads` sets it."""

from __future__ import annotations

_count = 0


def set_num_threads(count: int) -> None:
    """Set how many threads each network in 8 bits uses from its next batch on; 0 is one per core."""
    global _count
    _count = count


def get_num_threads() -> int:
    """The number set last; 0, one per core, before any."""
    return _count
