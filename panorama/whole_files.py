"""A path comes in; a new file to write goes out, which then takes the place of the old one as a whole.

Every file that replaces another is written this way. Two are not, since they are not written in one go: the
tables of a segment (`store/files/tablefile.py`), and the folders of a training's bank of views.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})
"""Errors of a folder that cannot be synced: its file system cannot, or this user may not read it."""


@contextmanager
def replaced(path: Path, part: Path | None = None, *, durable: bool = False) -> Iterator[Path]:
    """A new, empty file to write; when the block ends, it takes the place of `path`.

    If the block fails, the new file is deleted and the old one stays. The new file has the permissions that
    any new file gets.

    Args:
        part: where to write, in the same folder. None: under a hidden name that nobody can guess, which is
            not longer for a long name of `path`.
        durable: wait until the file and its name are on the disk. Without it, after a power cut `path` may
            lead to an empty file.

    Raises:
        OSError: the file cannot be created, replaced or synced.
    """
    # A random name, not the number of the process: threads share it, and so do processes in containers.
    part = path.with_name(f".{uuid.uuid4().hex}.part") if part is None else part
    # What is there already stays: it belongs to somebody else, or is a link that leads elsewhere.
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(part, how, 0o666))
    try:
        yield part
        if durable:
            sync_file(part)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def write_whole(
    path: Path, *content: bytes | memoryview, part: Path | None = None, durable: bool = True
) -> None:
    """Replace a file by pieces of content: its name always leads to the old or to the new content.

    Args:
        part, durable: as in `replaced`.

    Raises:
        OSError: as in `replaced`, or the disk is full.
    """
    with replaced(path, part, durable=durable) as new, new.open("wb") as file:
        for piece in content:
            file.write(piece)


def sync_file(path: Path) -> None:
    """Wait until what was written to a file is on the disk, whoever wrote it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power cut, if the file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as exc:
        if exc.errno not in _NO_SYNC:
            raise
