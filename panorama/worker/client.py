"""Models come in; the same models go out, with their networks running in a separate process.

Decoding, the gate and tracking are Python code around short calls, and so is feeding a network. In one
process they would wait for each other's turn with the interpreter.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.errors import ModelError
from panorama.models.base import Cohort, Embedder, Image, Later, Proposer
from panorama.models.late import LateEmbedder
from panorama.models.late_proposer import LateProposer, ProposalSettings
from panorama.models.precision import Precision
from panorama.threads import ENVIRONMENT
from panorama.worker.channel import receive, send, widen
from panorama.worker.flag import Flag
from panorama.worker.server import EMBEDDER, PROPOSER, Answer, Request
from panorama.worker.starting import end, possible, start, started_ahead

END_SECONDS = 1.0
"""Longest time from the closing of a process's pipes to its end."""

LEAVE_SECONDS = 5.0
"""How long the process may take to end after its input was closed."""


@contextlib.contextmanager
def beside(proposer: Proposer, embedder: Embedder) -> Iterator[tuple[Proposer, Embedder]]:
    """The models, run by a process that starts when a model is first used and ends with the block.

    The models themselves if the proposer is not one of ours, a network is loaded in this process already, the
    embedder has a network that is not one of ours, or no separate process is possible.
    """
    if not possible() or not _loads_late(proposer) or not _ready(embedder):
        yield proposer, embedder
        return
    assert isinstance(proposer, LateProposer)
    folder = str(embedder.folder) if isinstance(embedder, LateEmbedder) else None
    process = ModelProcess(str(proposer.folder), folder)
    try:
        yield (
            ProposerBeside(proposer, process),
            EmbedderBeside(embedder, process) if isinstance(embedder, LateEmbedder) else embedder,
        )
    finally:
        process.close()


def _loads_late(model: Proposer | Embedder) -> bool:
    return isinstance(model, LateProposer | LateEmbedder) and not model.is_loaded


def _ready(embedder: Embedder) -> bool:
    """Whether it can run in the separate process, or needs no network."""
    return _loads_late(embedder) or (not isinstance(embedder, LateEmbedder) and embedder.precision is None)


class ModelProcess:
    """A process that runs the networks of two folders; see `panorama.worker.server`.

    It is started by the first request, unless `start_ahead` has started it.

    Args:
        proposer, embedder: the folders; no embedder (None) if it needs no network.
    """

    def __init__(self, proposer: str, embedder: str | None) -> None:
        self._folders = proposer, embedder
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._waiting: dict[int, _Slot] = {}
        self._asked = 0
        self._over = False
        self._why: BaseException | None = None
        ahead = started_ahead(*self._folders)
        self._ahead = None if ahead is None else ahead.process
        self._held = Flag() if ahead is None else ahead.held

    def hold(self, held: bool) -> None:
        """Pause the networks, or let them go on; takes effect within milliseconds, even during a request."""
        self._held.set(held)

    def load(self, model: str) -> None:
        """Load a model's network in the process.

        Raises:
            ModelError: its weights are not those of its recipe, or the process has ended.
        """
        self.ask(model, "load").result()

    def kill(self) -> None:
        """End the process at once; pending requests get an error."""
        self._over = True  # without the lock, which a thread may hold while it waits for room in the pipe
        if self._process is not None:
            self._process.kill()

    def ask(self, model: str, step: str, *arguments: Any) -> Later[Any]:
        """Begin a step of a model; starts the process if necessary.

        Raises:
            ModelError: the process has ended or cannot be started. The result raises it if the process ends
                before it answers.
        """
        slot = _Slot()
        with self._lock:
            if self._over:
                raise _ended(self._process, self._why)
            process = self._started()
            self._asked += 1
            self._waiting[self._asked] = slot
            assert process.stdin is not None
            try:
                send(process.stdin, Request(self._asked, model, step, arguments))
            except OSError:
                self._give_up()
        return Later(slot.wait)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                process = self._ahead or start(*self._folders, self._held)
            except OSError as exc:
                raise _not_started(exc) from exc
            self._ahead = None
            assert process.stdin is not None
            widen(process.stdin)
            listener = threading.Thread(
                target=self._listen, args=(process,), name="panorama models", daemon=True
            )
            self._process = process  # the listener needs it
            try:
                listener.start()
            except RuntimeError as exc:
                self._process = None
                process.kill()
                process.communicate()
                raise _not_started(exc) from exc
            self._listener = listener
        return self._process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        try:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    answer: Answer = receive(process.stdout)
                    self._waiting.pop(answer.number).fill(answer)
        except BaseException as exc:  # such as no memory for an answer: pending requests must get an error
            self._why = exc
            process.kill()
        self._give_up()

    def _give_up(self) -> None:
        """Answer all pending requests with an error, because the process has ended."""
        self._over = True
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_SECONDS)
        for number in list(self._waiting):
            slot = self._waiting.pop(number, None)
            if slot is not None:
                slot.fill(Answer(number, None, _ended(self._process, self._why), 0.0))

    def close(self) -> None:
        """End the process if it was started; afterwards no thread can start it any more."""
        self._over = True
        if not self._lock.acquire(timeout=LEAVE_SECONDS):  # a thread holds it and waits for room in the pipe
            self.kill()
            self._lock.acquire()
        self._lock.release()
        self._held.close()
        if self._ahead is not None:
            end(self._ahead)
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._listener is not None and self._process.stdout is not None
        self._listener.join()
        self._process.stdout.close()


class _Slot:
    """A place for one answer, to wait for."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self._answer: Answer | None = None

    def fill(self, answer: Answer) -> None:
        self._answer = answer
        self._there.set()

    def wait(self) -> tuple[Any, float]:
        self._there.wait()
        assert self._answer is not None
        if self._answer.error is not None:
            raise self._answer.error
        return self._answer.value, self._answer.processor_seconds


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status of a process whose pipes have closed; its end may follow a moment later."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(END_SECONDS)
    return None


def _ended(process: subprocess.Popen[bytes] | None, why: BaseException | None) -> ModelError:
    status = None if process is None or why is not None else _status(process)
    how = f"exit status {status}" if status is None or status >= 0 else f"signal {-status}"
    if why is not None:
        how = f"its answer could not be read: {type(why).__name__}: {why}"
    elif status == -9:
        how += ", which the system sends when memory runs out"
    return ModelError(
        f"the process that runs the networks ended ({how}); what was committed is kept. Run the command "
        f"again, or with {ENVIRONMENT}=1 to do everything in one process"
    )


def _not_started(error: Exception) -> ModelError:
    return ModelError(
        f"no process for the networks could be started ({error}); raise the limit on processes, or run with "
        f"{ENVIRONMENT}=1 to do everything in one process"
    )


class _There:
    """The common part of both models whose networks the process runs.

    Args:
        process: the process.
        model: PROPOSER or EMBEDDER.
    """

    def __init__(self, process: ModelProcess, model: str) -> None:
        self._process, self._model = process, model
        self._known: dict[str, Any] | None = None

    def _fact(self, name: str) -> Any:
        """A fact of the model that is known once the process has loaded its network; loads it."""
        if self._known is None:
            self.load()
            self._known = self._ask("facts").result()
        return self._known[name]

    def _ask(self, step: str, *arguments: Any) -> Later[Any]:
        return self._process.ask(self._model, step, *arguments)

    @property
    def precision(self) -> Precision:
        """The number format of the network; loads it."""
        found: Precision = self._fact("precision")
        return found

    @property
    def device(self) -> object:
        """The device of the network; loads it."""
        return self._fact("device")

    def load(self) -> None:
        """Load and check the network."""
        self._process.load(self._model)

    def use_threads(self, count: int) -> None:
        """Set the number of threads of each network in the process."""
        self._ask("use_threads", count).result()

    def hold(self, held: bool) -> None:
        """Pause, or go on; applies to both models of the process."""
        self._process.hold(held)

    def give_up(self) -> None:
        """End the process at once, even during a request."""
        self._process.kill()


class ProposerBeside(_There, Proposer):  # type: ignore[misc, override]
    """A proposer whose network runs in the process."""

    def __init__(
        self, late: LateProposer, process: ModelProcess, settings: ProposalSettings | None = None
    ) -> None:
        self._late = late if settings is None else late.at_side(settings.side, settings.zoom)
        super().__init__(process, PROPOSER)
        self.name, self.hash, self.settings = self._late.name, self._late.hash, self._late.settings

    def propose(self, images: Sequence[Image]) -> list[Any]:
        """Regions of each picture in its own pixels; see PanoramaProposer."""
        return self.propose_later(images).result()

    def propose_later(self, images: Sequence[Image]) -> Later[list[Any]]:
        """Like `propose`, but returns at once."""
        return self._ask("propose", self.settings.side, self.settings.zoom, list(images))

    def at_side(self, side: int, zoom: int = 1) -> ProposerBeside:
        """The proposer with another input side and zoom; itself if nothing differs."""
        other = self.settings.at_side(side, zoom)
        return self if other == self.settings else ProposerBeside(self._late, self._process, other)


class EmbedderBeside(_There, Embedder):  # type: ignore[misc, override]
    """An embedder whose network runs in the process."""

    def __init__(self, late: LateEmbedder, process: ModelProcess) -> None:
        super().__init__(process, EMBEDDER)
        self._late = late
        self.folder, self.name, self.hash = late.folder, late.name, late.hash
        self.dim, self.exits = late.dim, late.exits

    @property
    def macs(self) -> tuple[int, ...]:  # type: ignore[override]
        """Multiply-adds per picture up to and including each exit."""
        found: tuple[int, ...] = self._fact("macs")
        return found

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """(exits, B, dim) float32."""
        return self.embed_to(images, self.exits)

    def embed_to(self, images: Sequence[Image], last: int) -> NDArray[np.float32]:
        """(last, B, dim) float32; the trunk runs no deeper."""
        return self.embed_to_later(images, last).result()

    def embed_to_later(self, images: Sequence[Image], last: int) -> Later[NDArray[np.float32]]:
        """Like `embed_to`, but returns at once."""
        return self._ask("embed_to", list(images), last)

    def embed(self, images: Sequence[Image], exit: int | None = None) -> NDArray[np.float32]:
        """(B, dim) float32; the trunk runs no deeper than the exit."""
        found: NDArray[np.float32] = self._ask("embed", list(images), exit).result()
        return found

    def cohort(self) -> NDArray[np.float32]:
        """(exits, N, dim) float32 vectors of unrelated training pictures."""
        return self._late.cohort()

    def cohorts(self) -> tuple[Cohort, ...]:
        """The same at each exit, with those strangers that count for grey pictures alone."""
        return self._late.cohorts()
