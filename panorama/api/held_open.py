"""A library's directory comes in; its store goes out, opened when first needed, until it is closed."""

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
from panorama.errors import LibraryClosed, paths_told
from panorama.stopping import uninterrupted
from panorama.store import Store
from panorama.threads import watch_forks
from panorama.whole_imports import imports_whole

T = TypeVar("T")


class HeldOpen:
    """Base of everything that holds a library open. Public members raise LibraryClosed after `close`.

    Commands in its messages name the library if they must (see `panorama.commands`). A forked process, and a
    process that receives a pickled copy, opens the library again.

    Args:
        path: the library's directory.
        store: the library's store if it is already open.
    """

    def __init__(self, path: Path, store: Store | None = None) -> None:
        self._path = path
        self._opened = store
        self._closed = False
        self._making = threading.RLock()
        _tell_of_forks()
        _HELD.add(self)

    def __init_subclass__(cls) -> None:
        # Wrap all members here: with forty methods, someone would forget to check one.
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
        """Whether the library exists yet; the first `index` creates it."""
        self._check_open()
        return Store.is_at(self._path)

    @property
    def _is_made(self) -> bool:
        """Whether the library exists, or did when it was opened: `index` creates no other in its place."""
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
        """Release the library's files; later calls raise LibraryClosed.

        A call that another thread is in the middle of finishes or raises LibraryClosed, then releases its
        files.
        """
        with self._making:
            if not self._closed:
                self._let_go()
            self._closed = True
            if self._opened is not None:
                with uninterrupted():  # else SQLAlchemy logs Ctrl-C with its traceback, and locks are left
                    self._opened.close()

    def _let_go(self) -> None:
        """Drop what was built on the store; runs before the store closes."""

    def _hand_on_nothing(self) -> None:
        """Before a fork: close what the child process must not inherit."""
        if self._opened is not None:
            self._opened.close_idle()

    def _leave_to_parent(self) -> None:
        """In a forked child: start again like an unpickled copy, and leave alone what the parent opened.

        Objects that hold DuckDB's connections are never freed in the child: freeing waits for threads that
        exist only in the parent, and crashes.
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
        """Yield items one by one; raise LibraryClosed for each item requested after `close`."""
        while True:
            with using(self._path), imports_whole(), paths_told():
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
        return type(self), (self._path,)  # the receiving process opens the library again


_HELD: weakref.WeakSet[HeldOpen] = weakref.WeakSet()
"""All instances of this process."""


@functools.cache
def _tell_of_forks() -> None:
    watch_forks()
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
        with using(self._path), imports_whole():
            return method(self, *values, **named)

    return asking
