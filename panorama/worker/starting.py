"""The folders of two models enter; the process that runs their networks leaves, started.

The command line starts it before it is loaded itself: both take as long, and there are two cores. So nothing
here loads what takes time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from panorama.threads import cores_here
from panorama.worker.flag import Flag

ALONE = {"OPENBLAS_NUM_THREADS": "1"}
"""Its products of numpy are small: the other threads would spin after each, on cores that are wanted."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A process that was started before anybody asked for it.

    Attributes:
        process: of two models; it ends when the pipe to it is closed, or we are gone.
        held: the flag that it was started with.
    """

    process: subprocess.Popen[bytes]
    held: Flag


def possible() -> bool:
    """Whether networks may run in a process of their own.

    Not on a single core, nor in a program that was frozen (PyInstaller): it has no interpreter to start, and
    would start itself.
    """
    return cores_here() > 1 and bool(sys.executable) and not getattr(sys, "frozen", False)


_ahead: dict[tuple[str, str | None], Ahead] = {}


def start_ahead(proposer: str, embedder: str | None) -> None:
    """Start the process for whoever will ask for it; see `start`."""
    held = Flag()
    _ahead[proposer, embedder] = Ahead(start(proposer, embedder, held), held)


def started_ahead(proposer: str, embedder: str | None) -> Ahead | None:
    """The process of these folders that was started, for the first who asks; that of others is ended."""
    found = _ahead.pop((proposer, embedder), None)
    while _ahead:
        _, other = _ahead.popitem()
        end(other.process)
        other.held.close()
    return found


def start(proposer: str, embedder: str | None, held: Flag) -> subprocess.Popen[bytes]:
    """A process that loads the networks of two folders and waits for requests.

    Args:
        embedder: None where what embeds needs no network.
        held: while it is set, the networks stand still.

    Raises:
        OSError: the system starts none.
    """
    code = (
        f"import sys; sys.path[:] = {_path()!r}; from panorama.worker.server import main; "
        f"main({proposer!r}, {embedder!r}, {held.descriptor})"
    )
    # In a session of its own: Ctrl-C is for us, and by our end it learns of it.
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **ALONE},
        pass_fds=(held.descriptor,),
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody has asked anything."""
    process.kill()
    process.communicate()


def _path() -> list[str]:
    """Where modules are looked for, here as there.

    What is no text Python ignores, and its repr is no code. Relative folders were meant from where this
    process was when it imported us: so our own place is added.
    """
    return [entry for entry in sys.path if isinstance(entry, str)] + [
        str(Path(__file__).resolve().parents[2])
    ]
