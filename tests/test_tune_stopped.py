"""`tune` that is told to end leaves no pictures behind; what a killed one left goes with the next."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakes import Thing, start_panorama, write_film

from panorama.tune import scratch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent")


def heeds_the_end_of_a_terminal() -> None:
    """Also where the tests do not, as under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def under_way(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A `tune` that has stored its first crops, and the folder that it has for temporary files."""
    write_film(folder / "a.mp4", [Thing("red", 2, 30), Thing("blue", 10, 40, top=70)])
    temporary = folder / "temporary"
    temporary.mkdir()
    process = start_panorama(
        *("tune", "a.mp4", "--seconds", "4"),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        preexec_fn=heeds_the_end_of_a_terminal,
    )
    deadline = time.monotonic() + 60
    while not list(temporary.glob("panorama-tune-*/**/crops/*.parquet")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.005)
    return process, temporary


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_tune_that_is_told_to_end_puts_its_library_away(tmp_path: Path, number: signal.Signals) -> None:
    process, temporary = under_way(tmp_path)
    process.send_signal(number)
    process.communicate(timeout=60)
    # As whoever sent it expects: ended by the signal, Ctrl-C with the status that shells give it.
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert list(temporary.glob("panorama-tune-*")) == []


def test_what_a_killed_tune_left_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, temporary = under_way(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert scratch.sweep() == 0, "it is at work"
    process.kill()
    process.communicate(timeout=60)
    assert list(temporary.glob("panorama-tune-*/**/crops/*.parquet"))
    with scratch.scratch_folder() as folder:
        assert list(temporary.glob("panorama-tune-*")) == [folder]
        assert scratch.sweep() == 0
    assert list(temporary.glob("panorama-tune-*")) == []


def test_only_what_is_ones_own_and_old_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("panorama-tune-new", "panorama-tune-old", "panorama-other", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "crops.parquet").write_bytes(b"pictures")
    (tmp_path / "panorama-tune-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "panorama-tune-file").write_bytes(b"no folder")
    for name in ("panorama-tune-old", "elsewhere", "panorama-other"):
        os.utime(tmp_path / name, (1, 1))
    assert scratch.sweep() == 1
    assert not (tmp_path / "panorama-tune-old").exists()
    assert (tmp_path / "elsewhere" / "crops.parquet").exists() and (tmp_path / "panorama-tune-new").exists()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    os.utime(tmp_path / "panorama-tune-new", (1, 1))
    assert scratch.sweep() == 0, "another user's"
