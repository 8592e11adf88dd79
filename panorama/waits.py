"""What this process waits for comes in; whoever wants to tell users gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TELL_SECONDS = 1.0
"""Tell only waits that take longer: most holders of a lock just check that there is nothing to do."""

_listener: ContextVar[Callable[[str], None]] = ContextVar("panorama_waits", default=lambda _: None)


@contextmanager
def told_to(listener: Callable[[str], None] | None) -> Iterator[None]:
    """Within a block, call `listener` with what this thread waits for; None for the listener there is."""
    token = _listener.set(listener or _listener.get())
    try:
        yield
    finally:
        _listener.reset(token)


def tell(what: str) -> None:
    """Say what this thread waits for, for example 'another process is merging data files'."""
    _listener.get()(what)
