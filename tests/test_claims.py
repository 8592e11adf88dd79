"""No two processes do the same work, and none that is gone keeps another from it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gate_samples import Clock

from panorama import waits
from panorama.errors import LibraryWriteError
from panorama.store import claims
from panorama.store.claims import PATIENCE_SECONDS, Claims
from panorama.store.files.locks import FileLock, is_held, remove_dead

HOLDER = (
    "import sys, time; from pathlib import Path; from panorama.store.claims import Claims\n"
    "print(Claims(Path(sys.argv[1])).take('work'), flush=True); time.sleep(60)"
)


def test_what_one_has_claimed_another_does_not_get_until_it_is_dropped(tmp_path: Path) -> None:
    with Claims(tmp_path) as ours, Claims(tmp_path) as theirs:
        assert ours.take("a") and theirs.take("b")
        assert not theirs.take("a") and not ours.take("b")
        ours.drop("a")
        assert theirs.take("a")
    assert list(tmp_path.iterdir()) == []  # closing drops what is held


def test_the_claim_of_a_process_dies_with_it(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with Claims(tmp_path) as ours:
        try:
            assert child.stdout is not None and child.stdout.readline() == "True\n"
            assert not ours.take("work")
        finally:
            child.kill()
            child.wait()
        assert ours.take("work")


def test_a_lock_that_is_dropped_is_free_also_where_a_forked_process_had_it_open(tmp_path: Path) -> None:
    """Who forked while it was held, in another thread, waited for its child at the next one."""
    program = f"""
import os
from pathlib import Path
from panorama.store.files.locks import FileLock
path = Path({str(tmp_path / "work.lock")!r})
lock = FileLock.take(path)
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
other = os.fork()
if not other:
    lock.release(keep_file=True)
    os._exit(0)
os.waitpid(other, 0)
print(FileLock.take_if_free(path) is None)
lock.release(keep_file=True)
print(FileLock.take_if_free(path) is not None)
os.close(writing)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nTrue\n", "it is the owner's to drop"


def test_a_sweep_leaves_the_lock_of_who_came_after_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It deleted the file of a claim that had just been taken anew, which a third process then took, too."""
    path, opening = tmp_path / "work.lock", os.open
    before, after = FileLock.take(path), list[FileLock]()

    def slow(*given: Any, **more: Any) -> int:
        descriptor = opening(*given, **more)
        if not after:
            monkeypatch.undo()
            before.release()
            after.append(FileLock.take(path))
        return descriptor

    monkeypatch.setattr("panorama.store.files.locks.os.open", slow)
    assert not remove_dead(path)
    assert is_held(path) and FileLock.take_if_free(path) is None
    after[0].release(keep_file=True)
    assert remove_dead(path) and not path.exists()


def test_who_gives_no_sign_of_life_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine that went while its network drive kept the lock; or a process that was stopped."""
    monkeypatch.setattr(claims, "BEAT_SECONDS", 1000.0)
    clock = Clock()
    with Claims(tmp_path) as theirs, Claims(tmp_path, clock) as ours:
        assert theirs.take("work")
        assert not ours.take("work")
        clock.now += PATIENCE_SECONDS - 1
        assert not ours.take("work")
        clock.now += 1
        assert ours.take("work")
        ours.drop("work")
        assert [path.name for path in tmp_path.iterdir()] == ["claim-work.lock"]  # it is not ours to remove


def test_what_a_silent_one_claimed_is_taken_once_it_was_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who had waited watched anew, and so waited for ever: the indexing never came to the video.
    monkeypatch.setattr(claims, "BEAT_SECONDS", 1000.0)
    monkeypatch.setattr(claims, "LOOK_SECONDS", 0.001)
    clock = Clock()
    with Claims(tmp_path) as theirs, Claims(tmp_path, clock) as ours:
        assert theirs.take("work") and not ours.take("work")
        clock.now += PATIENCE_SECONDS
        ours.wait_for(["work"], "they work")
        assert ours.take("work")
        ours.drop("work")
        os.utime(tmp_path / "claim-work.lock", (1, 1))  # a sign of life: it is waited for again
        assert not ours.take("work")


def test_a_sign_of_life_counts_by_the_clock_of_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.01)
    clock = Clock()
    with Claims(tmp_path) as theirs, Claims(tmp_path, clock) as ours:
        assert theirs.take("work")
        for _ in range(3):
            assert not ours.take("work")
            before = (tmp_path / "claim-work.lock").stat().st_mtime_ns
            deadline = time.monotonic() + 10
            while (tmp_path / "claim-work.lock").stat().st_mtime_ns == before:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            clock.now += PATIENCE_SECONDS
            assert not ours.take("work")


def test_what_is_dropped_while_it_is_looked_at_is_not_taken_without_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Claims(tmp_path) as ours:
        monkeypatch.setattr(FileLock, "take_if_free", lambda path: None)  # it was held a moment ago
        assert not ours.take("work")
        monkeypatch.undo()
        assert ours.take("work")


def test_who_wants_to_be_alone_waits_and_is_told_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "TELL_SECONDS", 0.05)
    monkeypatch.setattr(claims, "LOOK_SECONDS", 0.01)
    told: list[str] = []

    def listen(what: str) -> None:
        told.append(what)
        threading.Timer(0.3, lambda: [theirs.drop(work) for work in ("work", "more")]).start()

    with Claims(tmp_path) as theirs, Claims(tmp_path) as ours, waits.told_to(listen):
        with ours.alone("work", "they work"):
            assert told == []
        assert theirs.take("work") and theirs.take("more")
        with ours.alone("work", "they work"):
            assert told == ["they work"] and not theirs.take("work")
        assert theirs.take("work") and theirs.take("more")
        ours.wait_for(["work", "more"], "they work again")
        assert told == ["they work", "they work again"] and theirs.take("work") and theirs.take("more")


def test_a_check_ends_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LOOK_SECONDS", 0.01)
    looks = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise TimeoutError

    with Claims(tmp_path) as theirs, Claims(tmp_path) as ours:
        assert theirs.take("work")
        with pytest.raises(TimeoutError), ours.alone("work", "they work", check):
            pytest.fail("it is claimed")


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with Claims(tmp_path / "nowhere") as ours, pytest.raises(LibraryWriteError, match="nowhere"):
        ours.take("work")
