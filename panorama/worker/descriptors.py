"""A program whose standard streams are closed comes in; one whose new files get other numbers goes out.

New files get the lowest free numbers, so 0 to 2 if these are closed. What C libraries print then goes into
such a file, and a process that inherits it takes it for a standard stream.
"""

from __future__ import annotations

import os
import sys

_STANDARD_ERROR = 2


def take_standard() -> None:
    """Open the null device at those of the descriptors 0 to 2 that are closed; they stay open.

    SQLite does the same before it opens a catalog. Other programs that are started do not get them.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)


def has_standard_error() -> bool:
    """Whether a process that is started gets standard error from this one: open, and no other file."""
    if sys.__stderr__ is None:  # it was closed when Python started
        return False
    try:
        return os.get_inheritable(_STANDARD_ERROR)
    except OSError:
        return False
