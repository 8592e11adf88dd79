"""Requests come in through this process's input; answers from its networks go out through its output.

`panorama.worker.client` starts the process. It ends when its input is closed, which also happens if the
process that started it is killed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import time
import traceback
from dataclasses import dataclass, replace
from typing import IO, Any

from panorama.indexing.pipeline import lower_priority
from panorama.models import cores  # noqa: F401  so that threads.apply finds it
from panorama.models.base import Embedder, Proposer
from panorama.models.late import Late, LateEmbedder
from panorama.models.late_proposer import LateProposer
from panorama.models.weights import open_model
from panorama.threads import Threads
from panorama.worker.channel import receive, send, widen
from panorama.worker.flag import Flag

PROPOSER, EMBEDDER = "proposer", "embedder"


@dataclass(frozen=True, slots=True)
class Request:
    """A request to one of the models.

    Attributes:
        number: number of the request; its answer has the same.
        model: PROPOSER or EMBEDDER. Each answers its requests in order, and in parallel to the other.
        step: name of a method of `_Served`.
        arguments: arguments for that method.
    """

    number: int
    model: str
    step: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request.

    Attributes:
        number: that of the request.
        value: what the method returned; None if it failed.
        error: what it raised; None if it did not.
        processor_seconds: processor time of its thread, without other threads of a network.
    """

    number: int
    value: Any
    error: Exception | None
    processor_seconds: float


class _Served:
    """The methods that requests name."""

    def __init__(self, opened: Late[Proposer | Embedder], hold: Flag) -> None:
        self._opened = opened
        self._hold = hold

    @property
    def _model(self) -> Proposer | Embedder:
        return self._opened()

    def load(self) -> None:
        """Load the network."""
        Threads.here().apply()
        self._model.load()
        Threads.here().apply()  # again, for libraries that loading has imported, such as torch
        self._model.rest_by(self._hold.wait)

    def use_threads(self, count: int) -> None:
        """Set the number of threads of each network."""
        replace(Threads.here(), network=count).apply()

    def facts(self) -> dict[str, Any]:
        """The number format and device of the network; for an embedder also its multiply-adds."""
        return {"precision": self._model.precision, "device": str(self._model.device)} | (
            {"macs": self._model.macs} if isinstance(self._model, Embedder) else {}
        )

    def propose(self, side: int, zoom: int, images: list[Any]) -> Any:
        assert isinstance(self._model, Proposer)
        return self._model.at_side(side, zoom).propose(images)

    def embed_to(self, images: list[Any], last: int) -> Any:
        assert isinstance(self._model, Embedder)
        return self._model.embed_to(images, last)

    def embed(self, images: list[Any], exit: int | None) -> Any:
        assert isinstance(self._model, Embedder)
        return self._model.embed(images, exit)


class _Server:
    """Answers requests, with one thread for each model; starts loading both networks at once."""

    def __init__(
        self,
        requests: IO[bytes],
        answers: IO[bytes],
        models: dict[str, Late[Proposer | Embedder]],
        hold: Flag,
    ) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._waiting: dict[str, queue.SimpleQueue[Request]] = {name: queue.SimpleQueue() for name in models}
        served = {name: _Served(model, hold) for name, model in models.items()}
        for name, one in served.items():
            threading.Thread(target=self._serve, args=(name, one), daemon=True).start()
        # Load now: the process that started this one needs them, and may not be ready to request it yet.
        threading.Thread(target=_load_in_turn, args=(list(served.values()),), daemon=True).start()

    def run(self) -> None:
        """Receive requests until the input is closed."""
        with contextlib.suppress(EOFError):
            while True:
                request = receive(self._requests)
                self._waiting[request.model].put(request)

    def _serve(self, name: str, served: _Served) -> None:
        while True:
            request = self._waiting[name].get()
            answer = _answered(request, served)
            try:
                with self._sending:
                    send(self._answers, answer)
            except OSError:
                os._exit(0)  # the other process has gone
            except BaseException:
                traceback.print_exc()
                os._exit(1)  # else the other process would wait for this answer for ever


def _load_in_turn(served: list[_Served]) -> None:
    for one in served:
        with contextlib.suppress(Exception):  # a request for this model gets the same error
            one.load()


def _answered(request: Request, served: _Served) -> Answer:
    started = time.thread_time()
    value, error = None, None
    try:
        value = getattr(served, request.step)(*request.arguments)
    except BaseException as exc:
        error = _portable(exc)
    return Answer(request.number, value, error, time.thread_time() - started)


def _portable(error: BaseException) -> Exception:
    """The error if it can be pickled, else a RuntimeError with its text; its traceback is added as a note."""
    told = "".join(traceback.format_exception(error)).rstrip()
    try:
        sent = pickle.loads(pickle.dumps(error))
    except Exception:
        sent = None
    if not isinstance(sent, Exception):
        sent = RuntimeError(f"{type(error).__name__}: {error}")
    sent.add_note(f"raised in the process that runs the networks:\n{told}")
    return sent


def main(proposer: str, embedder: str | None, hold: int) -> None:
    """Serve the models of two folders until standard input is closed.

    Args:
        proposer, embedder: the folders; no embedder (None) if it needs no network.
        hold: descriptor of the flag that pauses the networks.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed goes to stderr, not among the answers
    widen(requests)
    widen(answers)
    lower_priority(alone=True)
    # Open the folders on demand, so that an error in one goes to whoever requests its model.
    models: dict[str, Late[Proposer | Embedder]] = {
        PROPOSER: Late(lambda: LateProposer(open_model(proposer, "proposer")))
    }
    if embedder is not None:
        models[EMBEDDER] = Late(lambda: LateEmbedder(open_model(embedder, "embedder")))
    _Server(requests, answers, models, Flag(hold)).run()
    os._exit(0)
