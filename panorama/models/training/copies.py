"""Files enter; which of them are copies, byte for byte, of one that came before leaves."""

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
    """Whether each file is one of those before it, or a copy of one: as a picture it would find itself.

    What cannot be read is known by its path alone; whoever opens it says what is wrong.
    """
    sizes = [size_of(path) for path in paths]
    of_size = Counter(sizes)
    seen: set[Path | bytes] = set()
    repeated = []
    for path, size in zip(paths, sizes, strict=True):
        known: Path | bytes = path
        if size is not None and of_size[size] > 1:  # only what has the size of another one is read
            with suppress(OSError):
                known = digest(path)
        repeated.append(known in seen)
        seen.add(known)
    return repeated


def size_of(path: Path) -> int | None:
    """Bytes of a file, None where it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return None
