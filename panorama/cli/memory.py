"""An error that a library raised comes in; if memory ran out, the error that says so goes out.

Loaded before everything else and loads nothing large: when it is needed, there is no memory for loading.
"""

from __future__ import annotations

import errno
import resource

from panorama.errors import OutOfMemory, PanoramaError

_SAID = (
    "failed to map segment",  # of a shared library
    "cannot allocate memory",
    "can't allocate memory",
    "out of memory",
    "insufficient memory",
    "bad_alloc",
)
"""Texts, in lower case, of libraries that have no error class for it."""

_NO_THREAD = "can't start new thread"
"""Too little memory, or too many threads: Python does not say which."""


def want_of_memory(error: Exception) -> OutOfMemory | None:
    """The error to report if this one came from a lack of memory; None for every other error."""
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
    """This process's limit in bytes for a kind of memory (`resource.RLIMIT_...`); None without a limit."""
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft
