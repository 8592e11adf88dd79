"""The exception tree: every error a user can cause enters here and leaves as one clear message.

A message says what is wrong, the value, the choices and the next step. The command line prints it and exits
with `exit_status`; Python callers catch `PanoramaError` or the class that they can do something about.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from panorama.commands import command, command_of


class PanoramaError(Exception):
    """Base of everything Panorama raises on purpose."""

    exit_status = 1


class UsageError(PanoramaError):
    """The call itself is wrong: options that contradict each other, a value out of range, no such file."""

    exit_status = 2


class UnsupportedSystem(PanoramaError):
    """Panorama does not run on this system."""


class OutOfMemory(PanoramaError):
    """There is less memory than a command needs; from Python it is the MemoryError that it is."""


class LibraryNotFound(PanoramaError):
    """There is no library at the path given."""


class LibraryClosed(UsageError):
    """A library was asked after it was closed."""


class LibraryVersionError(PanoramaError):
    """The library was made by another schema version."""


class LibraryWriteError(PanoramaError):
    """The library could not be written: full disk, no permission. Nothing half-written is visible."""


class LibraryDiskFull(LibraryWriteError):
    """Not even the few kB that readers and writers share fit on the library's disk."""


class NotYetErased(LibraryWriteError):
    """An entity is forgotten, but bytes of it are still on the disk; `panorama compact` erases them.

    Attributes:
        seen: the tracks that were matched to it, as `Library.forget` returns them.
    """

    exit_status = 3
    seen: Any = None


class LibraryDamaged(PanoramaError):
    """The catalog, or a data file that it lists, is missing, cannot be read, or leads out of the library."""


class ClosedPath(PanoramaError, PermissionError):
    """A file or folder may not be looked into, read or written by who asked.

    Who calls Python's own functions beside the API, or in a hook, catches either as a PermissionError.
    """

    @classmethod
    def of(cls, refused: PermissionError) -> ClosedPath:
        """What the system refused, with its number and file, as a message."""
        closed = cls(f"{os.fsdecode(refused.filename)} cannot be read or written: {refused.strerror}")
        closed.errno, closed.strerror, closed.filename = refused.errno, refused.strerror, refused.filename
        return closed

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        system = {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return type(self), self.args, {**vars(self), **system}


class VideoError(PanoramaError):
    """Base of what can be wrong with one video."""


class VideoOpenError(VideoError):
    """The file cannot be read as video: missing, no permission, no video stream, not a video at all."""


class UnknownVideo(PanoramaError):
    """The library holds no video of that name."""


class BadImage(PanoramaError):
    """A picture cannot be read, is empty, or holds nothing to register."""


class BadBox(PanoramaError):
    """A box is malformed or lies outside its picture."""

    exit_status = 2


class UnknownEntity(PanoramaError):
    """No entity of that name is registered.

    Attributes:
        sql: the statement that names it, if one does.
    """

    sql: str | None = None


class EntityError(PanoramaError):
    """An entity or one of its exemplars cannot be changed in the way asked for."""


class ModelError(PanoramaError):
    """A model is unknown, its weights do not match their hash, or its recipe is malformed."""


class MissingExtra(PanoramaError):
    """An optional package is needed; the message holds the pip line."""


class QueryError(PanoramaError):
    """The SQL cannot be answered.

    Args:
        message: what is wrong and what was expected.
        sql: the whole statement, to point into.
        position: offset in characters of the place that is wrong, or None where it is unknown.
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
    """What the library was calibrated on does not support the accuracy asked for."""


class QueryTimeout(QueryError):
    """The query ran past its time or memory limit and was stopped."""


_LOOP = "Symlink loop from "


@contextmanager
def paths_told() -> Iterator[None]:
    """Within it, what is wrong with a path is told as such, wherever it is met.

    Raises:
        UsageError: no file can have such a name: too long, or no text.
        ClosedPath: it leads to where the user may not go.
    """
    try:
        yield
    except PanoramaError:
        raise  # it is told already, though it may be an error of the system too
    except UnicodeEncodeError as exc:
        if exc.encoding != "utf-8":
            raise  # what is to be printed has no place in the encoding of the output
        raise UsageError(f"{exc.object!r} is not UTF-8 text; rename it") from exc
    except RuntimeError as exc:
        if not str(exc).startswith(_LOOP):  # of pathlib, until Python 3.12
            raise
        raise UsageError(f"{str(exc).removeprefix(_LOOP)} is a link that leads to itself") from exc
    except OSError as exc:
        if exc.filename is None or not isinstance(exc.filename, (str, bytes)):
            raise
        if isinstance(exc, PermissionError):
            raise ClosedPath.of(exc) from exc
        if exc.errno != errno.ENAMETOOLONG:
            raise
        raise UsageError(f"{os.fsdecode(exc.filename)!r} is longer than a file's name can be") from exc


def unknown(kind: str, name: str, choices: Iterable[str], see: str) -> str:
    """The message for a name that is not there: near names first, then where to look.

    Returns, for example: no entity 'bluevan'. Did you mean 'blue-van'? See: panorama entities
    """
    return f"no {kind} {name!r}.{near(name, choices)} See: {see}"


def no_entity(name: str, entities: Collection[str]) -> str:
    """The same for an entity; where none is registered at all, how the first one is."""
    if not entities:
        return f"no entity {name!r}: {first_entity(name)}"
    return unknown("entity", name, entities, command("entities"))


def first_entity(name: str = "NAME") -> str:
    """What to say where no entity is registered."""
    command = command_of("register", name, behind="PICTURE...")
    return f"nothing is registered yet; register it with a picture: {command}"


def near(name: str, choices: Iterable[str], least: float = 0.5) -> str:
    """What to say of choices spelled nearly so, as " Did you mean 'a' or 'b'?"; '' where there are none."""
    spelled = {choice.lower(): choice for choice in choices}
    wanted = name.lower()
    # First what has the same file name or is the end of the path given: who knows a file forgets its folder.
    same = [n for n in spelled if f"/{n}".endswith(f"/{wanted}") or f"/{wanted}".endswith(f"/{n}")]
    close = difflib.get_close_matches(wanted, list(spelled), n=3, cutoff=least)
    found = [spelled[n] for n in dict.fromkeys([*same, *close])][:3]
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""
