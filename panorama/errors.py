"""The exception tree: every error that a user can cause comes in and goes out as one clear message.

A message says what is wrong, the value, the choices and the next step. The command line prints it and exits
with `exit_status`; Python callers catch `PanoramaError`, or the subclass that they can handle.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from panorama.commands import command, command_of


class PanoramaError(Exception):
    """Base of all errors that Panorama raises on purpose."""

    exit_status = 1


class UsageError(PanoramaError):
    """The call itself is wrong: contradictory options, a value out of range, a missing file."""

    exit_status = 2


class UnsupportedSystem(PanoramaError):
    """Panorama does not run on this system."""


class OutOfMemory(PanoramaError):
    """A command needs more memory than there is. The Python API raises MemoryError instead."""


class LibraryNotFound(PanoramaError):
    """There is no library at this path."""


class LibraryClosed(UsageError):
    """The library is used after it was closed."""


class LibraryVersionError(PanoramaError):
    """The library has the schema of another version of Panorama."""


class LibraryWriteError(PanoramaError):
    """The library cannot be written: full disk, no permission. Nothing half-written is visible."""


class LibraryDiskFull(LibraryWriteError):
    """The library's disk has no room even for the few kB that readers and writers share."""


class NotYetErased(LibraryWriteError):
    """An entity is forgotten, but bytes of it remain on the disk; `panorama compact` erases them.

    Attributes:
        seen: the tracks that were matched to it, as `Library.forget` returns them.
    """

    exit_status = 3
    seen: Any = None


class LibraryDamaged(PanoramaError):
    """The catalog, or a data file it lists, is missing, cannot be read, or leads out of the library."""


class ClosedPath(PanoramaError, PermissionError):
    """The caller may not look into, read or write a file or folder.

    It is a PermissionError too, so code written for Python's own functions catches it as well.
    """

    @classmethod
    def of(cls, refused: PermissionError) -> ClosedPath:
        """The system's refusal as a message, with its error number and file."""
        closed = cls(f"{os.fsdecode(refused.filename)} cannot be read or written: {refused.strerror}")
        closed.errno, closed.strerror, closed.filename = refused.errno, refused.strerror, refused.filename
        return closed

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        system = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return type(self), self.args, {**vars(self), **system}


class VideoError(PanoramaError):
    """Base of everything that can be wrong with one video."""


class VideoOpenError(VideoError):
    """The file cannot be read as video: missing, no permission, no video stream, not a video at all."""


class UnknownVideo(PanoramaError):
    """The library holds no video with this name."""


class BadImage(PanoramaError):
    """A picture cannot be read, is empty, or holds nothing to register."""


class BadBox(PanoramaError):
    """A box is malformed or lies outside its picture."""

    exit_status = 2


class UnknownEntity(PanoramaError):
    """No entity with this name is registered.

    Attributes:
        sql: the statement that names it; None if there is none.
    """

    sql: str | None = None


class EntityError(PanoramaError):
    """An entity or one of its examples cannot be changed in this way."""


class ModelError(PanoramaError):
    """A model is unknown, its weights do not match their hash, or its recipe is malformed."""


class MissingExtra(PanoramaError):
    """An optional package is missing; the message gives the pip command."""


class QueryError(PanoramaError):
    """The SQL cannot be answered.

    Args:
        message: what is wrong and what was expected.
        sql: the whole statement, to point into.
        position: offset in characters of the error; None if it is unknown.
    """

    def __init__(self, message: str, sql: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.sql = sql
        self.position = position

    def __str__(self) -> str:
        message = super().__str__()
        if self.sql is None or self.position is None:
            return message
        before = self.sql[: self.position]
        line_number = before.count("\n") + 1
        column = self.position - (before.rfind("\n") + 1)
        line = self.sql.splitlines()[line_number - 1] if self.sql.splitlines() else ""
        return f"{message}\n  line {line_number}, column {column + 1}:\n  {line}\n  {' ' * column}^"


class AccuracyError(QueryError):
    """The data that calibrated the library does not support the accuracy asked for."""


class QueryTimeout(QueryError):
    """The query exceeded its time or memory limit, or was told to stop."""


_LOOP = "Symlink loop from "


@contextmanager
def paths_told() -> Iterator[None]:
    """Context manager: turn the system's errors about paths into errors of Panorama.

    Raises:
        UsageError: the name cannot be a file name: it is too long, not UTF-8, or a link to itself; or it is
            relative, and the working directory has been deleted.
        ClosedPath: the user has no permission for the path.
    """
    try:
        yield
    except PanoramaError:
        raise  # already clear, even if it is an OSError too
    except UnicodeEncodeError as exc:
        if exc.encoding != "utf-8":
            raise  # not a path: the encoding of the output lacks a character
        raise UsageError(f"{exc.object!r} is not UTF-8 text; rename it") from exc
    except RuntimeError as exc:
        if not str(exc).startswith(_LOOP):  # pathlib raises this up to Python 3.12
            raise
        raise UsageError(f"{str(exc).removeprefix(_LOOP)} is a link that leads to itself") from exc
    except OSError as exc:
        if exc.errno == errno.ENOENT and exc.filename is None and _is_nowhere():
            raise UsageError(
                "the working directory has been deleted: go to another one, or give whole paths"
            ) from exc
        if exc.filename is None or not isinstance(exc.filename, (str, bytes)):
            raise
        if isinstance(exc, PermissionError):
            raise ClosedPath.of(exc) from exc
        if exc.errno != errno.ENAMETOOLONG:
            raise
        raise UsageError(f"{os.fsdecode(exc.filename)!r} is longer than a file's name can be") from exc


def _is_nowhere() -> bool:
    """Whether the working directory has been deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def unknown(kind: str, name: str, choices: Iterable[str], see: str) -> str:
    """The message for an unknown name: similar names first, then where to look.

    For example: no entity 'bluevan'. Did you mean 'blue-van'? See: panorama entities
    """
    return f"no {kind} {name!r}.{near(name, choices)} See: {see}"


def no_entity(name: str, entities: Collection[str]) -> str:
    """The message for an unknown entity; if no entity is registered at all, how to register the first."""
    if not entities:
        return f"no entity {name!r}: {first_entity(name)}"
    return unknown("entity", name, entities, command("entities"))


def first_entity(name: str = "NAME") -> str:
    """The message for a library without entities."""
    command = command_of("register", name, behind="PICTURE...")
    return f"nothing is registered yet; register it with a picture: {command}"


def without_example(name: str) -> str:
    """The remark on an entity that has only pictures of other things, or none."""
    command = command_of("register", name, behind="IMAGE...")
    return f"{name!r} has no example, so nothing matches it; add one: {command}"


def other_model(kind: str) -> str:
    """What to do if a library's 'embedder' or 'proposer' cannot be read, as the end of a message."""
    option = "--proposer" if kind == "proposer" else "--model"
    return f"have the library use another {kind}: {command('index', 'ARCHIVE', option, 'NAME')}"


def near(name: str, choices: Iterable[str], least: float = 0.5) -> str:
    """Suggest similar names: " Did you mean 'a' or 'b'?"; '' if there are none.

    Args:
        least: least similarity of a suggestion, from 0 to 1.
    """
    spelled = {choice.lower(): choice for choice in choices}
    wanted = name.lower()
    # First, names with the same ending: people remember the file and forget its folder.
    same = [n for n in spelled if f"/{n}".endswith(f"/{wanted}") or f"/{wanted}".endswith(f"/{n}")]
    close = difflib.get_close_matches(wanted, list(spelled), n=3, cutoff=least)
    found = [spelled[n] for n in dict.fromkeys([*same, *close])][:3]
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""
