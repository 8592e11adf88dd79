"""Files come in; which of them are byte-for-byte copies of an earlier one goes out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def digest(path: Path) -> bytes:
    """The SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    return hashlib.sha256(path.read_bytes()).digest()


def came_before(paths: Sequence[Path]) -> list[bool]:
    """Whether each file is the same as, or a copy of, one before it; as a query, such a picture finds itself.

    A file that cannot be read counts as a copy only of the same path; opening it later reports the error.
    """
    sizes = [size_of(path) for path in paths]
    of_size = Counter(sizes)
    seen: set[Path | bytes] = set()
    repeated = []
    for path, size in zip(paths, sizes, strict=True):
        known: Path | bytes = path
        if size is not None and of_size[size] > 1:  # read only files that share their size with another
            with suppress(OSError):
                known = digest(path)
        repeated.append(known in seen)
        seen.add(known)
    return repeated


def size_of(path: Path) -> int | None:
    """Size of a file in bytes, None if it cannot be determined."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # a table may name what no file can be called
        return None
