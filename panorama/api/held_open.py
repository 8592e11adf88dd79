"""A library's directory enters; its store leaves, opened when it is first needed, until it is closed."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from panorama.commands import using
from panorama.errors import LibraryClosed
from panorama.store import Store

T = TypeVar("T")


class HeldOpen:
    """What holds a library open; whatever a class made of it offers raises LibraryClosed once it is closed.

    Commands that it advises name its library, where they must (see `panorama.commands`). A process that is
    forked opens it anew, as one does that it is sent to.

    Args:
        path: the library's directory.
        store: of it, where it is open already.
    """

    def __init__(self, path: Path, store: Store | None = None) -> None:
        self._path = path
        self._opened = store
        self._closed = False
        self._making = threading.RLock()
        _tell_of_forks()
        _HELD.add(self)

    def __init_subclass__(cls) -> None:
        # Here for all of them: of forty methods one would be forgotten.
        super().__init_subclass__()
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if inspect.isfunction(member):
                setattr(cls, name, _while_open(member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(cls, name, member.getter(_while_open(member.fget)))

    @property
    def path(self) -> Path:
        """The library's directory."""
        return self._path

    @property
    def exists(self) -> bool:
        """Whether there is a library yet: the first `index` makes it."""
        self._check_open()
        return Store.is_at(self._path)

    @property
    def _is_made(self) -> bool:
        """Whether there is one, or was when it was opened: `index` makes no other in its place."""
        return self._opened is not None or self.exists

    @property
    def _store(self) -> Store:
        self._check_open()
        if self._opened is None:
            with self._making:
                self._check_open()
                if self._opened is None:
                    self._opened = Store.open(self._path)
        return self._opened

    def close(self) -> None:
        """Let go of the library's files; nothing is asked of it any more.

        What other threads are asking is answered, or raises LibraryClosed, and is let go of then.
        """
        with self._making:
            if not self._closed:
                self._let_go()
            self._closed = True
            if self._opened is not None:
                self._opened.close()

    def _let_go(self) -> None:
        """Drop what was made of the store, before it is closed."""

    def _hand_on_nothing(self) -> None:
        """Before this process is forked: leave nothing open that the new one must not even inherit."""
        if self._opened is not None:
            self._opened.close_idle()

    def _leave_to_parent(self) -> None:
        """In a forked process: be as one that it was sent, and touch nothing that the other has opened.

        Whatever holds DuckDB's connections there is never freed here: that waits for threads which only the
        other process has, and crashes.
        """
        for left in vars(self).values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))
        closed = self._closed
        type(self).__init__(self, self._path)
        self._closed = closed

    def _check_open(self) -> None:
        if self._closed:
            raise LibraryClosed(
                f"the library at {self._path} is closed; open it again: panorama.open({str(self._path)!r})"
            )

    def _until_closed(self, found: Iterator[T]) -> Iterator[T]:
        """What is found one by one; what is asked for after `close` is refused, whenever it was begun."""
        while True:
            with using(self._path):
                each = next(found, None)
            if each is None:
                return
            yield each
            self._check_open()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def __reduce__(self) -> tuple[Callable[[Path], HeldOpen], tuple[Path]]:
        return type(self), (self._path,)  # the process that it is sent to opens it anew


_HELD: weakref.WeakSet[HeldOpen] = weakref.WeakSet()
"""All of this process."""


@functools.cache
def _tell_of_forks() -> None:
    os.register_at_fork(before=_before_fork, after_in_child=_in_fork)


def _before_fork() -> None:
    for held in list(_HELD):
        held._hand_on_nothing()


def _in_fork() -> None:
    for held in list(_HELD):
        held._leave_to_parent()


def _while_open(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asking(self: HeldOpen, *values: Any, **named: Any) -> Any:
        self._check_open()
        with using(self._path):
            return method(self, *values, **named)

    return asking
