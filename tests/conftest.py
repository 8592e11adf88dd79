"""What tests share: the command line in this process, an engine, a store, and where footage lies."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from panorama.query.engine import Engine
    from panorama.store import Store

# Set before torch is loaded: on a busy machine its threads wait for each other longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests start the command line in many processes of their own: each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Started in the background by a script, a process is born deaf to Ctrl-C; tests that interrupt must hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("panorama", deadline=None)
settings.load_profile("panorama")

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

from fakes import ColoredThings, Thing, write_album, write_film  # noqa: E402
from page_samples import Page  # noqa: E402
from places import FOOTAGE, NO_FOOTAGE  # noqa: E402


@dataclass(frozen=True)
class Ran:
    """What a command left: exit status and both outputs."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def fake_proposer(monkeypatch: pytest.MonkeyPatch) -> ColoredThings:
    """Indexing finds coloured things, without torch."""
    from panorama.library import Library

    proposer = ColoredThings()
    monkeypatch.setattr(Library, "proposer", property(lambda self: proposer))
    return proposer


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    fake_proposer: ColoredThings,
) -> Callable[..., Ran]:
    """Runs one command line as typed in a folder of its own, its library there too."""
    from panorama.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PANORAMA_LIBRARY", raising=False)

    def panorama(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["panorama", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return Ran(int(left.value.code or 0), out, err)

    return panorama


@pytest.fixture
def asked(run: Callable[..., Ran], tmp_path: Path) -> Path:
    """Two films: red alone in gate/a.mp4, red (from 10) and blue (from 20) in yard/b.mp4."""
    write_film(tmp_path / "v" / "gate" / "a.mp4", [Thing("red", 5, 35)])
    write_film(
        tmp_path / "v" / "yard" / "b.mp4", [Thing("red", 10, 40, top=10), Thing("blue", 20, 40, top=70)]
    )
    run("index", "v", "--model", "color-bands", "--fps", "10")
    run("register", "--album", write_album(tmp_path / "album", "red", "blue", "green"))
    return tmp_path


@pytest.fixture
def paged(run: Callable[..., Ran], asked: Path) -> Callable[..., Page]:
    """Writes the page of an answer and reads it."""

    def page(sql: str, *words: object) -> Page:
        done = run("query", sql, "--page", "review.html", *words)
        assert done.status == 0, done.err
        return Page(asked / "review.html", done.err)

    return page


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine over the sample library of tests/query_samples.py, with pictures to name."""
    from query_samples import engine_with_pictures

    made = engine_with_pictures(tmp_path_factory.mktemp("library"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Gives a clip of every container and codec by its name, see tests/clips.py. Not to be written to."""
    from clips import Clips

    return Clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    from panorama.store import Store

    with Store.create(tmp_path / "library") as made:
        yield made


@pytest.fixture(scope="session")
def quick_sample(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The short sample archive, drawn once: where everything lies. Not to be written to."""
    from panorama.cli.demo import renderer

    return renderer().render(tmp_path_factory.mktemp("sample") / "panorama-sample", quick=True)


@pytest.fixture(scope="session")
def footage() -> Path:
    """The folder of real footage beside the checkout; skips where it is absent."""
    if not (FOOTAGE / "video").is_dir():
        pytest.skip(NO_FOOTAGE)
    return FOOTAGE
