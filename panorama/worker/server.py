"""The process that runs the networks: requests enter by its input, answers leave by its output.

`panorama.worker.client` starts it. It ends when its input does, so also when who started it was killed.
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
    """What is asked of one of the models.

    Attributes:
        number: of the request; its answer has the same.
        model: PROPOSER or EMBEDDER; what is asked of one is answered in order, and beside the other's.
        step: name of a method of `_Served`.
        arguments: of that method.
    """

    number: int
    model: str
    step: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request.

    Attributes:
        value: what the method returned, None where it failed.
        error: what it raised.
        processor_seconds: time that its thread was given a core; other threads of a network are not in it.
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
        Threads.here().apply()  # also for what only this has brought, torch
        self._model.rest_by(self._hold.wait)

    def use_threads(self, count: int) -> None:
        """Give a network so many threads."""
        replace(Threads.here(), network=count).apply()

    def facts(self) -> dict[str, Any]:
        """What it runs in."""
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
    """Answers requests, each model's in a thread of its own."""

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
        # At once: who starts this process wants them, and may not be ready to ask yet.
        threading.Thread(target=_load_in_turn, args=(list(served.values()),), daemon=True).start()

    def run(self) -> None:
        """Until there are no more requests."""
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
                os._exit(0)  # nobody waits for answers any more
            except BaseException:
                traceback.print_exc()
                os._exit(1)  # an answer that never comes would be waited for without end


def _load_in_turn(served: list[_Served]) -> None:
    for one in served:
        with contextlib.suppress(Exception):  # who asks for it meets it again
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
    """The error where it can be sent, else one that says the same; with where it was raised as a note."""
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
    """Serve the models of two folders.

    Args:
        embedder: None where what embeds is not made of files.
        hold: descriptor of the flag that makes the networks stand still.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed here is no answer
    widen(requests)
    widen(answers)
    lower_priority(alone=True)
    # What is wrong with a folder is told to who asks for its model: here nobody may.
    models: dict[str, Late[Proposer | Embedder]] = {
        PROPOSER: Late(lambda: LateProposer(open_model(proposer, "proposer")))
    }
    if embedder is not None:
        models[EMBEDDER] = Late(lambda: LateEmbedder(open_model(embedder, "embedder")))
    _Server(requests, answers, models, Flag(hold)).run()
    os._exit(0)
