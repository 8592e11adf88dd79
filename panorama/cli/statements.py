"""The words of a command line come in; its statements go out, with their places in files for errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from panorama.answering.answerer import entity_statement
from panorama.commands import command
from panorama.errors import PanoramaError, QueryError, UnknownEntity, UsageError
from panorama.query.text.statements import ForgetEntity
from panorama.query.text.tokens import tokenize

STDIN = "-"
"""The name of standard input, as an argument and as a file."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement in `text`, beginning at `start`; `path` names its file in errors, None for none."""

    text: str
    start: int
    sql: str
    path: str | None = None

    @property
    def is_query(self) -> bool:
        """Whether it only asks; statements about entities change what later statements see."""
        return entity_statement(self.sql, None) is None

    @property
    def erases(self) -> ForgetEntity | None:
        """The statement if it erases something for good; else None."""
        about = entity_statement(self.sql, None)
        return about if isinstance(about, ForgetEntity) else None


def given_statements(words: tuple[str, ...], files: tuple[str, ...]) -> list[Statement]:
    """The statements of a command line, in order.

    Raises:
        UsageError: there is none, SQL and files are mixed, or a file does not exist.
        QueryError: a file cannot be read, or a statement about entities is malformed; it names the file.
    """
    return [statement for text, path in _texts(words, files) for statement in _checked(text, path)]


def _texts(sql: tuple[str, ...], files: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """The SQL texts of a command line, each with the file to name in its errors, if there are several.

    Raises:
        UsageError: there is none, SQL and files are mixed, or a file does not exist.
        QueryError: a file cannot be read.
    """
    if not files and len(sql) != 1:
        raise click.UsageError(
            f'give the SQL as one argument, {command("query")} "SELECT ...", in files with -f,'
            " or as - on standard input; several statements have a semicolon between them"
        )
    if not files and sql != (STDIN,):
        if sql[0].endswith(".sql") and _is_file(sql[0]):
            raise click.UsageError(f"{sql[0]} is a file: {command('query', '-f', sql[0])}")
        return [(sql[0], None)]
    named = (*files, *sql)
    unread = [word for word in sql if word != STDIN and not _is_file(word)]
    if unread:
        raise click.UsageError(f"-f takes files of SQL; there is no file {unread[0]!r}")
    if named.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once; give - once")
    called = ["standard input" if name == STDIN else name for name in named]
    # A single file need not be named in errors.
    return [(_read(n, c), c if len(named) > 1 else None) for n, c in zip(named, called, strict=True)]


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # longer than a file name can be, as SQL may be
        return False


def _read(name: str, called: str) -> str:
    """The text of a file, or of standard input."""
    if name == STDIN and sys.stdin is None:
        raise QueryError("standard input is closed; there is no SQL to read")
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        # Some editors write a byte order mark at the start, which is not part of the text.
        return data.decode("utf-8-sig")
    except FileNotFoundError as exc:
        raise UsageError(f"there is no file {called!r}; -f takes files of SQL") from exc
    except UnicodeDecodeError as exc:
        raise QueryError(f"{called} is not SQL: it is not UTF-8 text") from exc
    except OSError as exc:
        raise QueryError(f"{called} cannot be read: {exc.strerror}") from exc


def _checked(text: str, path: str | None) -> list[Statement]:
    """The statements of a text; those about entities are checked now, and an error names the file."""
    try:
        found = [replace(statement, path=path) for statement in statements(text)]
    except QueryError as exc:
        raise _in_file(exc, path) from None
    for statement in found:
        with placed([statement], statement):
            entity_statement(statement.sql, None)
    return found


def _in_file(error: PanoramaError, path: str | None) -> PanoramaError:
    """The error, with its file before the message."""
    if path is not None:
        error.args = (f"{path}: {error.args[0]}", *error.args[1:])
    return error


@contextmanager
def placed(asked: Sequence[Statement], current: Statement) -> Iterator[None]:
    """Make errors of a statement name its file and point into the whole text that contains it."""
    try:
        yield
    except PanoramaError as exc:
        # Statements that are matched together may fail because of another one than the current.
        sql = exc.sql if isinstance(exc, (QueryError, UnknownEntity)) else None
        statement = next((s for s in asked if s.sql == sql), current)
        if isinstance(exc, QueryError) and exc.sql == statement.sql and exc.position is not None:
            exc.sql, exc.position = statement.text, exc.position + statement.start
        _in_file(exc, statement.path)
        raise


def statements(text: str) -> list[Statement]:
    """The statements of a text, split at semicolons, without the comments around them.

    Raises:
        QueryError: a string, a quoted name or a comment does not end.
    """
    found: list[Statement] = []
    first = None
    tokens = tokenize(text)
    for token in tokens:
        if text[token.start] == ";":
            if first is not None:
                found.append(Statement(text, first, text[first : token.start]))
            first = None
        elif first is None:
            first = token.start
    if first is not None:
        found.append(Statement(text, first, text[first : tokens[-1].end + 1]))
    return found or [Statement(text, 0, text)]
