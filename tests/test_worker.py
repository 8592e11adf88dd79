"""Networks in a process of their own: the same answers, started when needed, and gone when not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fakes import ColoredThings, Thing, write_film

import panorama
from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.indexing.outcomes import Hooks
from panorama.indexing.pipeline import NICENESS
from panorama.models.base import Embedder, Proposer
from panorama.models.color import ColorEmbedder
from panorama.models.late import Late, LateEmbedder
from panorama.models.late_proposer import LateProposer
from panorama.models.precision import why_no_int8
from panorama.models.registry import late_embedder, late_proposer
from panorama.worker.client import EmbedderBeside, ModelProcess, ProposerBeside, beside
from panorama.worker.flag import Flag
from panorama.worker.server import PROPOSER, Request, _answered, _Served
from panorama.worker.starting import start_ahead

ROOT = Path(__file__).resolve().parent.parent
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are looked up in /proc")


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANORAMA_THREADS", "2")


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[Proposer, Embedder]]:
    """The shipped models, run by one process for all tests that do not end it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PANORAMA_THREADS", "2")
        with beside(late_proposer(), late_embedder()) as found:
            yield found


def pictures(*sizes: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 255, (height, width, 3), np.uint8) for height, width in sizes]


def children(parent: int) -> list[int]:
    """Processes of a parent, those that have ended but were not asked for left out."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if int(ppid) == parent and state != "Z":
            found.append(int(stat.parent.name))
    return found


def gone(process: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(200):
        try:
            if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_the_networks_give_the_same_there(models: tuple[Proposer, Embedder]) -> None:
    proposer, embedder = models
    assert isinstance(proposer, ProposerBeside) and isinstance(embedder, EmbedderBeside)
    here_proposer, here_embedder = late_proposer(), late_embedder()
    shown = [*pictures((120, 160), (90, 200)), pictures((100, 100))[0][::2, ::2]]
    for side, zoom in ((416, 1), (300, 1), (300, 2)):
        there = proposer.at_side(side, zoom).propose(shown)
        here = here_proposer.at_side(side, zoom).propose(shown)
        assert proposer.at_side(side, zoom).hash == here_proposer.at_side(side, zoom).hash
        for a, b in zip(there, here, strict=True):
            np.testing.assert_array_equal(a.boxes_xyxy, b.boxes_xyxy)
            np.testing.assert_array_equal(a.scores, b.scores)
    np.testing.assert_array_equal(embedder.embed_all(shown), here_embedder.embed_all(shown))
    np.testing.assert_array_equal(embedder.embed(shown, 1), here_embedder.embed(shown, 1))
    assert embedder.embed_all([]).shape == (3, 0, embedder.dim)
    np.testing.assert_array_equal(embedder.cohort(), here_embedder.cohort())
    assert (embedder.precision, embedder.macs) == (here_embedder.precision, here_embedder.macs)
    assert (proposer.precision, str(proposer.device)) == (here_proposer.precision, str(here_proposer.device))


def test_both_models_answer_at_once_and_each_in_order(models: tuple[Proposer, Embedder]) -> None:
    proposer, embedder = models
    shown = pictures((80, 60), (60, 80), (70, 70))
    whole = embedder.embed_all(shown)
    asked = [embedder.embed_to_later([picture], 3) for picture in shown]
    regions = proposer.propose_later(shown)
    assert len(regions.result()) == 3
    np.testing.assert_allclose(np.concatenate([a.result() for a in asked], 1), whole, atol=1e-5)
    assert all(later.away_seconds > 0 for later in (*asked, regions))


def test_networks_stand_still_in_the_middle_of_a_batch_and_go_on_with_it(
    models: tuple[Proposer, Embedder],
) -> None:
    proposer, embedder = models
    shown = pictures((80, 60), (60, 80))
    regions, vectors = proposer.propose(shown), embedder.embed_all(shown)
    found: list[object] = []
    proposer.hold(True)
    try:
        asked = [proposer.propose_later(shown), embedder.embed_to_later(shown, 3)]
        waiting = [threading.Thread(target=lambda a=later: found.append(a.result())) for later in asked]
        for thread in waiting:
            thread.start()
        time.sleep(0.5)
        assert found == []
    finally:
        embedder.hold(False)
    for thread in waiting:
        thread.join(10)
    assert len(found) == 2
    again = next(value for value in found if isinstance(value, list))
    np.testing.assert_array_equal(again[0].boxes_xyxy, regions[0].boxes_xyxy)
    np.testing.assert_array_equal(next(v for v in found if isinstance(v, np.ndarray)), vectors)


@pytest.mark.parametrize(("precision", "frames", "crops"), [("auto", 12, 64), ("float32", 1, 1)])
def test_a_network_lets_others_go_first_between_any_two_layers_or_within_some_milliseconds(
    precision: str, frames: int, crops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if precision == "auto" and why_no_int8():
        pytest.skip(why_no_int8())
    monkeypatch.setenv("PANORAMA_PRECISION", precision)
    monkeypatch.setenv("PANORAMA_DEVICE", "cpu")
    # In floating point between layers; in 8 bits, where a picture takes 2 ms and a crop 0.4, between a few.
    least = {frames: 3, crops: 4} if precision == "auto" else {frames: 10}
    rested: list[int] = []
    proposer, embedder = late_proposer(), late_embedder()
    proposer.rest_by(lambda: rested.append(1))
    proposer.propose(pictures(*[(60, 80)] * frames))
    assert len(rested) >= least[frames]
    rested.clear()
    embedder.rest_by(lambda: rested.append(1))
    embedder.embed_all(pictures(*[(60, 80)] * crops))
    assert len(rested) >= least[crops]


def test_what_a_model_raises_is_raised_here(models: tuple[Proposer, Embedder]) -> None:
    with pytest.raises(ValueError, match="has exits 1 to 3, got 9"):
        models[1].embed(pictures((40, 40)), 9)
    assert models[1].embed(pictures((40, 40)), 1).shape[0] == 1, "the process goes on"


def test_a_step_that_is_not_there_is_an_error_and_no_hang() -> None:
    """The thread of its model ended, and who asked waited for ever."""
    answer = _answered(Request(7, PROPOSER, "dance"), _Served(Late(ColorEmbedder), Flag()))
    assert (answer.number, answer.value) == (7, None) and "dance" in str(answer.error)


def library_of(film: Path, folder: Path, code: str = "", **variables: str) -> str:
    """What a script of a user says who indexes a film and looks at it through SQL."""
    script = f"""
import os, sys
{code}
import panorama
library = panorama.open({str(folder)!r})
print([f.status for f in library.index({str(film)!r}).files])
print(library.query("SELECT count(*), sum(x1), sum(y2) FROM crops").fetchall())
print(bool({{"torch", "openvino"}} & set(sys.modules)))
"""
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_without_a_main_guard_indexes_the_same_in_one_process_and_two(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 5, 35), Thing("blue", 0, 20, left=90)], frames=40)
    two = library_of(film, tmp_path / "two").splitlines()
    one = library_of(film, tmp_path / "one", PANORAMA_THREADS="1").splitlines()
    assert two[:2] == one[:2] and two[0] == "['indexed']"
    assert (two[2], one[2]) == ("False", "True"), "networks are loaded there, or here"
    data = [sorted((tmp_path / name / "data").rglob("*.parquet")) for name in ("one", "two")]
    assert [p.read_bytes() for p in data[0]] == [p.read_bytes() for p in data[1]] and len(data[0]) == 7


def test_no_process_is_started_where_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    library_of(film, tmp_path / "library")

    def start(self: ModelProcess) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(ModelProcess, "_started", start)
    with panorama.open(tmp_path / "library") as library:
        assert [f.status for f in library.index(film).files] == ["skipped"]
    write_film(tmp_path / "b.mp4", [Thing("red", 5, 15)], frames=30)
    with panorama.open(tmp_path / "library") as library, pytest.raises(AssertionError):
        library.index(tmp_path / "b.mp4")


def test_one_core_other_models_and_loaded_ones_stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, colors = ColoredThings(), ColorEmbedder()
    with beside(fake, late_embedder()) as found:
        assert isinstance(found[0], ColoredThings) and isinstance(found[1], LateEmbedder)
    with beside(late_proposer(), colors) as found:
        assert isinstance(found[0], ProposerBeside) and found[1] is colors
    loaded = late_proposer()
    loaded.load()
    with beside(loaded, late_embedder()) as found:
        assert found[0] is loaded
    with monkeypatch.context() as frozen:
        frozen.setattr(sys, "frozen", True, raising=False)
        with beside(late_proposer(), late_embedder()) as found:
            assert isinstance(found[0], LateProposer), "the program would start itself"
    with beside(late_proposer(), late_embedder()) as found:
        assert isinstance(found[0], ProposerBeside)
    monkeypatch.setenv("PANORAMA_THREADS", "1")
    with beside(late_proposer(), late_embedder()) as found:
        assert isinstance(found[0], LateProposer) and isinstance(found[1], LateEmbedder)


@linux
def test_a_process_that_was_started_ahead_is_the_one_that_runs_the_networks() -> None:
    before = set(children(os.getpid()))
    models = content_dir("embeddings")
    start_ahead(str(models / "proposer"), str(models / "panoramanet"))
    (ahead,) = set(children(os.getpid())) - before
    with beside(late_proposer(), late_embedder()) as (proposer, embedder):
        assert len(proposer.propose(pictures((300, 400)))) == 1
        assert embedder.embed(pictures((30, 40))).shape[0] == 1
        assert set(children(os.getpid())) - before == {ahead}
    assert gone(ahead)


@linux
def test_a_process_that_was_started_ahead_for_nothing_is_ended() -> None:
    before = set(children(os.getpid()))
    models = content_dir("embeddings")
    start_ahead(str(models / "proposer"), str(models / "panoramanet"))
    with beside(late_proposer(), late_embedder()):  # nobody asks for anything
        assert len(set(children(os.getpid())) - before) == 1
    assert set(children(os.getpid())) == before
    start_ahead(str(models / "proposer"), str(models / "panoramanet"))
    (ahead,) = set(children(os.getpid())) - before
    with beside(late_proposer(), ColorEmbedder()) as (proposer, _):  # of these models it is not
        assert gone(ahead)
        proposer.load()
        assert len(set(children(os.getpid())) - before) == 1
    assert set(children(os.getpid())) == before


@linux
def test_a_process_that_is_killed_is_one_clear_error_and_no_hang(tmp_path: Path) -> None:
    before = set(children(os.getpid()))
    with beside(late_proposer(), ColorEmbedder()) as (proposer, _):
        proposer.load()
        (process,) = set(children(os.getpid())) - before
        waiting = proposer.propose_later(pictures(*[(300, 400)] * 40))
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ModelError, match=r"ended \(signal 9.*memory.*PANORAMA_THREADS=1"):
            waiting.result()
        with pytest.raises(ModelError, match="signal 9"):
            proposer.propose(pictures((30, 40)))


@linux
def test_indexing_whose_networks_are_killed_keeps_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)], frames=40)
    write_film(tmp_path / "b.mp4", [Thing("blue", 60 * i, 60 * i + 40) for i in range(12)], frames=720)
    before = set(children(os.getpid()))

    def kill(number: int, *_: object) -> None:
        if number == 1:
            for process in set(children(os.getpid())) - before:
                os.kill(process, signal.SIGKILL)

    # What comes of the second film comes while its end has not been asked for.
    monkeypatch.setattr("panorama.indexing.parcels.MOST_WAITING", 2)
    with panorama.open(tmp_path / "library") as library:
        with pytest.raises(ModelError, match="signal 9"):
            library.index([tmp_path / "a.mp4", tmp_path / "b.mp4"], hooks=Hooks(on_start=kill))
        assert library.query("SELECT video FROM videos").fetchall() == [("a.mp4",)]
        assert [f.status for f in library.index(tmp_path / "b.mp4").files] == ["indexed"]


@linux
def test_the_process_ends_with_who_started_it(tmp_path: Path) -> None:
    script = """
import time
import numpy as np
from panorama.worker.client import beside
from panorama.models.precision import why_no_int8
from panorama.models.registry import late_embedder, late_proposer
with beside(late_proposer(), late_embedder()) as (proposer, _):
    proposer.load()
    proposer.hold(True)
    later = proposer.propose_later([np.zeros((60, 80, 3), np.uint8)])
    print("loaded", flush=True)
    time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None and parent.stdout.readline() == b"loaded\n"
    (process,) = children(parent.pid)
    assert os.getsid(process) != os.getsid(parent.pid), "Ctrl-C is for the parent"
    group = Path(f"/proc/{process}/autogroup")
    if group.exists():
        assert group.read_text().split()[-1] == str(NICENESS), "niceness counts within a session only"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(process)


@linux
def test_who_asks_behind_the_block_starts_no_process() -> None:
    """A thread that loads the networks ahead left one behind where indexing had failed meanwhile."""
    with beside(late_proposer(), late_embedder()) as (proposer, _):
        pass
    before = children(os.getpid())
    with pytest.raises(ModelError, match=r"ended \(exit status None\)"):
        proposer.load()
    assert children(os.getpid()) == before


@linux
def test_the_process_ends_with_the_block_also_while_it_works() -> None:
    before = set(children(os.getpid()))
    with beside(late_proposer(), ColorEmbedder()) as (proposer, _):
        proposer.load()
        (process,) = set(children(os.getpid())) - before
        later = proposer.propose_later(pictures(*[(300, 400)] * 200))
    assert gone(process)
    with pytest.raises(ModelError, match="ended"):
        later.result()


class Unpicklable(Exception):
    """An error that is pickled and cannot be made again: its arguments are others than its message."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def breaks(_: object) -> object:
    raise Unpicklable(1, 2)


def holds_a_lock(_: object) -> object:
    return threading.Lock()


def leaves(_: object) -> object:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (breaks, RuntimeError, "Unpicklable: 1 and 2"),
        (leaves, RuntimeError, "SystemExit: 3"),
        (holds_a_lock, ModelError, "the process that runs the networks ended .exit status 1"),
    ],
)
def test_what_cannot_travel_back_is_an_error_and_no_hang(
    tmp_path: Path, step: object, error: type[Exception], message: str
) -> None:
    # The other process gets a model of ours in the place of its own.
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.path[:0] = {[str(ROOT), str(ROOT / 'tests')]!r}\n"
        "import panorama.worker.server as serving, test_worker\n"
        f"serving._Served.propose = lambda self, side, zoom, images: test_worker.{step.__name__}(images)\n"  # type: ignore[attr-defined]
    )
    script = """
from panorama.worker.client import beside
from panorama.models.precision import why_no_int8
from panorama.models.registry import late_embedder, late_proposer
with beside(late_proposer(), late_embedder()) as (proposer, _):
    try:
        proposer.propose([])
    except Exception as exc:
        print(type(exc).__name__, exc, *getattr(exc, "__notes__", ()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.startswith(f"{error.__name__} ") and re.search(message, done.stdout), done
    if error is RuntimeError:
        assert "raised in the process that runs the networks" in done.stdout


@pytest.mark.parametrize("what", ["subprocess.Popen", "threading.Thread.start"])
def test_no_room_for_a_process_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise BlockingIOError("not now") if "Popen" in what else RuntimeError("can't start new thread")

    process = ModelProcess("/nowhere", None)
    with monkeypatch.context() as patch:
        patch.setattr(what, no_room)
        with pytest.raises(ModelError, match=r"no process for the networks could be started.*THREADS=1"):
            process.load(PROPOSER)
    process.close()


def test_what_is_no_text_in_the_path_of_modules_is_left_out(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    told = library_of(film, tmp_path / "library", "import pathlib\nsys.path.insert(0, pathlib.Path('/'))")
    assert told.splitlines()[0] == "['indexed']"


CLOSED = """
import contextlib, os, sys
from pathlib import Path
from panorama.errors import ModelError
from panorama.worker.client import ModelProcess
from panorama.worker.server import PROPOSER
for word in sys.argv[2:]:
    os.close(int(word))
process = ModelProcess("/nowhere", None)
for _ in range(2):
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            os.write(stream, b"what a library prints")
    try:
        process.load(PROPOSER)
    except ModelError as exc:
        Path(sys.argv[1]).write_text(f"{process._held._bytes[0]} {exc}")
process.close()
"""


@pytest.mark.parametrize(
    ("before", "within"),
    [("0<&-", ""), ("1>&-", ""), ("2>&-", ""), ("0<&- 1>&- 2>&-", ""), ("", "2"), ("", "0 1 2")],
)
def test_networks_answer_in_a_program_whose_standard_streams_are_closed(
    tmp_path: Path, before: str, within: str
) -> None:
    """The flag that pauses them got the number of a stream: it was lost, or set by what was printed."""
    told = tmp_path / "told.txt"
    command = ["sh", "-c", f'"$@" {before}', "sh", sys.executable, "-c", CLOSED, told, *within.split()]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60, capture_output=True)
    assert told.read_text().startswith("0 no proposer '/nowhere'")


def test_a_process_that_cannot_be_served_says_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "false")
    process = ModelProcess("/nowhere", None)
    with pytest.raises(ModelError, match="exit status 1"):
        process.load(PROPOSER)
    process.close()


def test_what_is_wrong_with_a_folder_is_told_to_who_asks_and_to_nobody_else(
    capfd: pytest.CaptureFixture[str],
) -> None:
    process = ModelProcess("/nowhere", None)
    with pytest.raises(ModelError, match="no proposer '/nowhere'"):
        process.load(PROPOSER)
    process.close()
    assert capfd.readouterr() == ("", "")
