"""A command that is told to end cleans up, and a block that must not be cut short is not."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import Thing, start_panorama, write_film

from panorama.stopping import signals_raise, stopping_unwinds, uninterrupted

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_told_to_end_leaves_no_half_of_a_clip(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A hidden file with the footage stayed in the user's folder for good."""
    write_film(tmp_path / "a.mp4", [Thing("red", 100 * n, 100 * n + 90) for n in range(20)], frames=2000)
    assert start_panorama("index", "a.mp4", cwd=tmp_path).wait(60) == 0
    clips = tmp_path / "clips"
    child = start_panorama("query", "SELECT tracks WHERE end_time > 0", "--clips", "clips", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not list(clips.glob(".*.part")):
        assert child.poll() is None and time.monotonic() < deadline, child.communicate()
        time.sleep(0.002)
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == (130 if number == signal.SIGINT else -number)
    left = [path.name for path in clips.iterdir()] if clips.exists() else ["finished before the signal came"]
    assert left and not any(name.startswith(".") for name in left), "a folder for clips that are not there"


def test_whoever_heeds_the_signal_is_not_disturbed() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with stopping_unwinds():
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ctrl_c_within_a_block_is_raised_at_its_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("went on")
    assert done == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_ignored_signals_stay_as_they_are() -> None:
    seen = []

    def within() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_tells_the_program_to_end_waits_for_the_block_where_it_unwinds() -> None:
    done = []
    killed: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "kill", lambda process, number: killed.append(number))
        with pytest.raises(KeyboardInterrupt), stopping_unwinds():
            with uninterrupted():
                signal.raise_signal(signal.SIGTERM)
                done.append("went on")
            done.append("never")
    assert done == ["went on"] and killed == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def made_into_something_else(sent: signal.Signals = signal.SIGINT) -> None:
    """What DuckDB makes of it, of which it keeps the text."""
    try:
        signal.raise_signal(sent)
    except BaseException as exc:
        text = str(exc)
    raise ValueError(f"reading failed: {text}")


def dropped(sent: signal.Signals = signal.SIGINT) -> None:
    with contextlib.suppress(ValueError):
        made_into_something_else(sent)


@pytest.mark.parametrize("within", [made_into_something_else, dropped])
def test_what_a_signal_raised_is_told_whatever_became_of_it_on_the_way(within: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt), signals_raise():
        within()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGALRM, signal.SIGUSR2])
def test_a_handler_of_the_program_is_asked_and_what_it_raises_is_told(sent: signal.Signals) -> None:
    def leave(number: int, _: object) -> None:
        raise SystemExit(number)

    heard: list[int] = []
    before = signal.signal(sent, leave)
    try:
        with pytest.raises(SystemExit), signals_raise():
            dropped(sent)
        with pytest.raises(SystemExit), uninterrupted():
            signal.raise_signal(sent)
            heard.append(0)
        assert heard.pop() == 0
        signal.signal(sent, lambda number, _: heard.append(number))
        with signals_raise():
            signal.raise_signal(sent)
        assert heard == [sent]
    finally:
        signal.signal(sent, before)


def test_an_error_beside_no_signal_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="KeyboardInterrupt"), signals_raise():
        raise ValueError("failed: KeyboardInterrupt")
