"""Errors met while a video is read enter; whether its file could not be reached, no damage, leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from panorama.errors import VideoError, VideoOpenError

READ_ERROR = "read error"
_NAMES = (
    *("EIO", "ENXIO", "ENODEV", "ENOENT", "ENOTDIR", "EACCES", "ENOMEDIUM", "EMEDIUMTYPE", "EREMOTEIO"),
    *("ESTALE", "ENOTCONN", "ECONNRESET", "ECONNABORTED", "ECONNREFUSED", "ETIMEDOUT", "ESHUTDOWN"),
    *("EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENETRESET"),
)
ERRNOS = frozenset(getattr(errno, name) for name in _NAMES if hasattr(errno, name))
"""What a system says of a drive, or of a share on the network, that does not answer or is gone. Demuxers use
others (no memory, try again, invalid data) for what is wrong with a file."""


@dataclass(slots=True)
class Faults:
    """The first error by which any pass over one video could not reach its file.

    What a pass misses then is not lost: it is there when the drive is.
    """

    first: OSError | None = None

    def take(self, error: Exception) -> None:
        """Keep an error, if it is of this kind."""
        if self.first is None and isinstance(error, OSError) and error.errno in ERRNOS:
            self.first = error

    def check(self, path: Path | str) -> None:
        """Raise where there was one.

        Raises:
            VideoError: what was read of the file is not all that it holds.
        """
        if self.first is not None:
            why = self.first.strerror or self.first
            is_gone = isinstance(self.first, (FileNotFoundError, NotADirectoryError))
            when = "if its drive was disconnected, try again when it is back"
            raise VideoError(
                f"{path} could not be read to its end: {why};"
                f" {when if is_gone else 'try again when its drive responds'}"
            ) from self.first


@contextmanager
def reachable(path: Path) -> Iterator[None]:
    """Tell what the system says of a file as what is wrong with one video, which costs no other.

    Raises:
        VideoOpenError: the file cannot be read.
    """
    try:
        yield
    except OSError as exc:
        raise VideoOpenError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def was_unreachable(decode_note: str | None) -> bool:
    """Whether an earlier version noted such an error as damage, and so kept a part as if it were all."""
    return any(f"{READ_ERROR}: {os.strerror(one)}" in (decode_note or "") for one in ERRNOS)
