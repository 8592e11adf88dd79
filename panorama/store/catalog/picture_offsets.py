"""When the pictures of a folder were taken comes in; the bytes that the catalog holds go out, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UNREAD = np.iinfo(np.int64).min + 1
"""The offset of a picture that could not be read yet, so that a later run reads it."""

UNKNOWN = np.iinfo(np.int64).min
"""The offset of a picture that was read and tells no time."""


def stored_offsets(
    taken_unix: NDArray[np.float64], start_unix: float, unread: NDArray[np.bool_] | None = None
) -> bytes:
    """Times of pictures as the catalog stores them; b"" if none is known and none has still to be read.

    Args:
        taken_unix: (N,) in seconds since 1970; NaN if unknown.
        unread: (N,) whether a picture of unknown time could not be read; None if all could.
    """
    offsets = np.full(len(taken_unix), UNKNOWN, "<i8")
    if unread is not None:
        offsets[unread] = UNREAD
    known = ~np.isnan(taken_unix)
    offsets[known] = np.rint((taken_unix[known] - start_unix) * 1e6)
    return offsets.tobytes() if (offsets != UNKNOWN).any() else b""


def offsets_of(held: bytes) -> NDArray[np.int64]:
    """(N,) microseconds from a video's start to when each picture was taken; UNKNOWN or UNREAD for some.

    Raises:
        TypeError, ValueError: it holds something else.
    """
    return np.frombuffer(held, "<i8").astype(np.int64)


def are_known(offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(N,) whether the time of each picture is known."""
    return offsets > UNREAD


def has_unread(held: bytes | None) -> bool:
    """Whether some pictures could not be read yet."""
    return bool(held) and UNREAD in offsets_of(held or b"")


def lengthened(held: bytes | None, count: int) -> bytes | None:
    """Stored offsets for as many pictures: those that came behind the known ones have still to be read.

    None if the pictures have no times, since then all of them have to be asked.
    """
    if not held:
        return None
    more = max(count - len(held) // 8, 0)
    return held[: 8 * count] + np.full(more, UNREAD, "<i8").tobytes()


def has_gaps(held: bytes | None) -> bool:
    """Whether some pictures have times of their own, and others tell none."""
    offsets = offsets_of(held or b"")
    return UNKNOWN in offsets and bool(are_known(offsets).any())


def is_backwards(held: bytes | None) -> bool:
    """Whether the last picture of known time was taken before the first: names are not in order of time."""
    offsets = offsets_of(held or b"")
    known = offsets[are_known(offsets)]
    return bool(len(known)) and bool(known[-1] < known[0])
