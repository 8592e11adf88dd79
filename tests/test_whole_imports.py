"""Ctrl-C while a call loads packages: they are loaded whole, so that the next call is answered."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

import panorama
from panorama.whole_imports import imports_whole

INTERRUPTED_AT = """
import os, signal, sys

class At:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, At())
picture = [[[200, 30, 30]] * 20] * 10 + [[[30, 30, 200]] * 20] * 10

def ask():
    import panorama
    library = panorama.open({library!r})
    import numpy
    given = numpy.array(picture, numpy.uint8)
    return {call}

try:
    ask()
except KeyboardInterrupt:
    sys.meta_path.pop(0)
    print(ask())
"""


def import_module(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import a module with this text."""
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    importlib.import_module(name)


def test_an_interrupt_during_an_import_is_raised_when_the_module_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import signal\nsignal.raise_signal(signal.SIGINT)\nwhole = True\n"
    with pytest.raises(KeyboardInterrupt), imports_whole():
        import_module(tmp_path, "interrupted_one", text, monkeypatch)
        time.sleep(20)  # no longer inside of an import
    assert sys.modules["interrupted_one"].whole
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_still_waits_is_raised_at_the_end_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    with pytest.raises(KeyboardInterrupt), imports_whole():
        import_module(tmp_path, "interrupted_two", text, monkeypatch)
    time.sleep(0.2)  # and not once more


def test_work_of_a_module_that_calls_us_as_it_is_imported_is_interrupted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook may import a script that indexes for an hour."""
    text = (
        "import signal\nfrom panorama.whole_imports import imports_whole\n"
        "with imports_whole():\n    signal.raise_signal(signal.SIGINT)\n    raise AssertionError('went on')\n"
    )
    with pytest.raises(KeyboardInterrupt):
        import_module(tmp_path, "interrupted_three", text, monkeypatch)


def test_where_the_process_handles_interrupts_in_a_way_of_its_own_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []

    def hear(number: int, _: FrameType | None) -> None:
        heard.append(number)

    before = signal.signal(signal.SIGINT, hear)
    try:
        with imports_whole():
            assert signal.getsignal(signal.SIGINT) is hear
            text = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
            import_module(tmp_path, "interrupted_four", text, monkeypatch)
            assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("module", "call", "answer"),
    [
        ("sqlalchemy.sql.traversals", "library.entities()", "[]"),
        ("pandas._libs.tslibs.timestamps", "library.query('SELECT 1 AS one').df().one.tolist()", "[1]"),
        ("torch.nn.modules.module", "library.verify(given, given).band", "accepted"),
    ],
)
def test_a_call_that_was_interrupted_as_it_loaded_a_package_is_answered_when_made_again(
    tmp_path: Path, module: str, call: str, answer: str
) -> None:
    """sqlalchemy, pandas and torch were left half loaded: no call was answered any more, or it crashed."""
    library = tmp_path / "library"
    panorama.open(library, create=True).close()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT.format(module=module, library=str(library), call=call)],
        env={**os.environ, "PANORAMA_PRECISION": "float32", "PANORAMA_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, answer), done.stderr
