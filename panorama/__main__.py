"""`panorama` and `python -m panorama`: the command line, from its first moment to a quick end."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
from importlib.machinery import ModuleSpec
from types import FrameType
from typing import Any

INTERRUPTED = 130


def main() -> None:
    """Load the command line, run it, and leave with its exit status."""
    _open_closed()
    sys.stdout, sys.stderr = _wrapped(sys.stdout, io.FileIO), _wrapped(sys.stderr, _Remarks)
    # Where the caller ignores the signal (nohup, a script's background job), so do we.
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    _check_system()
    _lighten()
    from panorama import ahead

    ahead.begin(sys.argv[1:])
    from panorama.cli import run

    state: dict[str, object] = {}
    status = run(state)
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    sys.stderr.flush()
    if state.get("debug"):
        sys.exit(status)  # with all that profilers and the like do at the end of Python
    # The library is closed and what was said is written. To take torch apart, module by module, would cost as
    # much again as half of its import.
    os._exit(status)


def _check_system() -> None:
    """Leave with one line where Panorama cannot run: what tells of errors cannot be loaded there either."""
    from panorama.errors import UnsupportedSystem
    from panorama.systems import check_system

    try:
        check_system()
    except UnsupportedSystem as exc:
        sys.exit(f"{type(exc).__name__}: {exc}")


def _lighten() -> None:
    """Spare what libraries do as they are loaded and no command has a use for."""
    # Threads of OpenBLAS stay awake for 2 ** 28 ticks of the processor, a tenth of a second, when they begin.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    sys.meta_path.insert(0, _NoPandas())


class _NoPandas:
    """A pandas that cannot be loaded: pyarrow does, 0.2 s, to see whether what it is given is of its making.

    A finder and its loader, without the base classes: they lie in a module that takes as long as click.
    """

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        itself: Any = self
        return ModuleSpec(fullname, itself) if fullname == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> None:
        raise ModuleNotFoundError("the command line does without pandas", name=spec.name)

    def exec_module(self, module: Any) -> None:
        """Never reached: there is no such module."""


def _open_closed() -> None:
    """Streams that the caller closed lead nowhere; else the next files opened would have their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


class _Remarks(io.FileIO):
    """A stderr whose reader may leave (`2>&1 | head`): what is said is lost, and the work goes on."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:  # nobody reads it, or the disk that takes it is full
            return len(data)


def _wrapped(stream: Any, kind: type[io.FileIO]) -> io.TextIOWrapper:
    """The stream anew: what PYTHONUNBUFFERED makes forgets the rest of a write that a pipe took in part."""
    raw = io.BufferedWriter(kind(stream.fileno(), "w", closefd=False))
    is_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
    # A terminal of another encoding lacks characters of most names: they are told by number, not an error.
    errors = stream.errors if is_utf8 or stream.errors != "strict" else "backslashreplace"
    return io.TextIOWrapper(raw, stream.encoding, errors, line_buffering=True)


def _leave(_: int, __: FrameType | None) -> None:
    """While the command line is loaded, and at its end, nothing is open that would have to be closed."""
    os.write(2, b"panorama: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
