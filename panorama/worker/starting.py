"""The folders of two models come in; a process that runs their networks goes out.

The command line starts it before it loads its own modules: both take about as long, and there are at least
two cores. So this module must not import anything slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from panorama.threads import cores_here
from panorama.worker.descriptors import has_standard_error
from panorama.worker.flag import Flag

ALONE = {"OPENBLAS_NUM_THREADS": "1"}
"""The process computes only small products in numpy; more threads would spin after each, on busy cores."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A process that was started before it is needed.

    Attributes:
        process: the process of two models; it ends when its input is closed, also by the end of this one.
        held: the flag that it was started with.
    """

    process: subprocess.Popen[bytes]
    held: Flag


def possible() -> bool:
    """Whether networks can run in a separate process.

    Not on a single core, nor in a frozen program (PyInstaller), which would start itself because it has no
    interpreter.
    """
    return cores_here() > 1 and bool(sys.executable) and not getattr(sys, "frozen", False)


_ahead: dict[tuple[str, str | None], Ahead] = {}


def start_ahead(proposer: str, embedder: str | None) -> None:
    """Start the process now, to be taken with `started_ahead`; see `start`."""
    held = Flag()
    _ahead[proposer, embedder] = Ahead(start(proposer, embedder, held), held)


def started_ahead(proposer: str, embedder: str | None) -> Ahead | None:
    """Take the process started ahead for these folders, if any; ends those for other folders."""
    found = _ahead.pop((proposer, embedder), None)
    while _ahead:
        _, other = _ahead.popitem()
        end(other.process)
        other.held.close()
    return found


def start(proposer: str, embedder: str | None, held: Flag) -> subprocess.Popen[bytes]:
    """Start a process that loads the networks of two folders and waits for requests.

    Args:
        proposer, embedder: the folders; no embedder (None) if it needs no network.
        held: while this flag is set, the networks pause.

    Raises:
        OSError: the system cannot start it.
    """
    code = (
        f"import sys; sys.path[:] = {_path()!r}; from panorama.worker.server import main; "
        f"main({proposer!r}, {embedder!r}, {held.descriptor})"
    )
    # In a session of its own, so that Ctrl-C interrupts only this process, whose end then ends that one.
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Without one, the process would take a pipe for it.
        stderr=None if has_standard_error() else subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **ALONE},
        pass_fds=(held.descriptor,),
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has had no requests, and wait for its end."""
    process.kill()
    process.communicate()


def _path() -> list[str]:
    """The module search path for the new process: that of this one, and the place of this package.

    Entries that are not text are left out: Python ignores them, and their repr need not be code. The place of
    this package is added because relative entries refer to the working directory when it was imported.
    """
    return [entry for entry in sys.path if isinstance(entry, str)] + [
        str(Path(__file__).resolve().parents[2])
    ]
