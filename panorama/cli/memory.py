"""An error that a library raised enters; where memory ran out, the error that says so leaves.

Loaded before all else, and loads nothing large: when it is wanted there is no room for that.
"""

from __future__ import annotations

import errno
import resource

from panorama.errors import OutOfMemory, PanoramaError

_SAID = (
    "failed to map segment",  # of a library that is loaded
    "cannot allocate memory",
    "can't allocate memory",
    "out of memory",
    "insufficient memory",
    "bad_alloc",
)
"""What libraries say where they have no error of their own for it, in small letters."""

_NO_THREAD = "can't start new thread"
"""For want of memory, or because no more may be started: Python does not tell which."""


def want_of_memory(error: Exception) -> OutOfMemory | None:
    """What to say of an error that came of too little memory; None of every other."""
    if isinstance(error, PanoramaError):
        return None
    bound = soft_bound(resource.RLIMIT_AS)
    said = _SAID if bound is None else (*_SAID, _NO_THREAD)
    lines = [line.strip() for line in str(error).splitlines()]
    named = next((line for line in lines if any(part in line.lower() for part in said)), "")
    lacks = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if not (lacks or named):
        return None
    about = f" ({named})" if named else ""
    advice = "close other programs, or use a machine with more memory"
    if bound is not None:
        advice = f"the system limits this process to {bound // 1024} kB; raise the limit with ulimit -v"
    told = OutOfMemory(f"there is not enough memory for this{about}: {advice}")
    told.__cause__ = error
    return told


def soft_bound(kind: int) -> int | None:
    """The bytes that this process may have of a kind of memory (`resource.RLIMIT_...`); None for no limit."""
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft
