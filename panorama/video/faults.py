"""Errors met while reading a video come in; whether its drive failed, rather than the file, goes out."""

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
"""Errors of a drive or network share that does not respond or is gone. Demuxers report what is wrong with a
file by other ones (no memory, try again, invalid data).
"""


@dataclass(slots=True)
class Faults:
    """The first error of any pass over one video that came from its drive, not from damage in the file.

    What such a pass misses is not lost: it can be read when the drive is back.
    """

    first: OSError | None = None

    def take(self, error: Exception) -> None:
        """Keep an error if it is the first of this kind."""
        if self.first is None and isinstance(error, OSError) and error.errno in ERRNOS:
            self.first = error

    def check(self, path: Path | str) -> None:
        """Raise if there was such an error.

        Raises:
            VideoError: not all of the file could be read.
        """
        if self.first is not None:
            remedy = "try again when its drive responds"
            if isinstance(self.first, (FileNotFoundError, NotADirectoryError)):
                remedy = "if its drive was disconnected, try again when it is back"
            elif isinstance(self.first, PermissionError):
                remedy = "check its permissions"
            raise VideoError(
                f"{path} could not be read to its end: {_why(path, self.first)}; {remedy}"
            ) from self.first


@contextmanager
def reachable(path: Path) -> Iterator[None]:
    """Turn an OSError within the block into an error of this one video, so that others are unaffected.

    Raises:
        VideoOpenError: the file cannot be read.
    """
    try:
        yield
    except OSError as exc:
        remedy = "; check its permissions" if isinstance(exc, PermissionError) else ""
        raise VideoOpenError(f"{path} cannot be read: {_why(path, exc)}{remedy}") from exc


@contextmanager
def about(part: Path) -> Iterator[None]:
    """Let an OSError within the block name a file: reading one that is open raises an error without it."""
    try:
        yield
    except OSError as exc:
        exc.filename = exc.filename or os.fspath(part)
        raise


def _why(path: Path | str, error: OSError) -> str:
    """What the system says; if the error is about one picture of a folder, also which."""
    why = error.strerror or str(error)
    if not isinstance(error.filename, str | bytes):
        return why
    folder, name = os.path.split(os.fsencode(error.filename))
    return f"its picture {name.decode(errors='replace')}: {why}" if folder == os.fsencode(path) else why


def was_unreachable(decode_note: str | None) -> bool:
    """Whether an earlier version noted a drive error as damage, and so kept a part as if it were complete."""
    return any(f"{READ_ERROR}: {os.strerror(one)}" in (decode_note or "") for one in ERRNOS)
