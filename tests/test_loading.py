"""When networks are loaded, and what is told of the format that they run in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Ran
from fakes import ColoredThings, Thing, thing_picture, write_film, write_picture

import panorama
from panorama import ahead
from panorama.api import indexing as library_indexing
from panorama.cli.indexing import index_command
from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.indexing.parcels import Job
from panorama.indexing.settings import IngestSettings
from panorama.indexing.stages import Indexer
from panorama.models import embedder as embedder_module
from panorama.models import proposer as proposer_module
from panorama.models.base import Embedder, Image, Proposer
from panorama.models.color import ColorEmbedder
from panorama.models.late import Late
from panorama.models.precision import why_no_int8
from panorama.models.proposer import load_proposer
from panorama.models.ranges import RANGES
from panorama.models.registry import late_proposer
from panorama.regions import Regions
from panorama.video import open_video

Run = Callable[..., Ran]
LACKING = "this processor has no such products"


@pytest.fixture
def no_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without networks in 8 bits."""
    monkeypatch.delenv("PANORAMA_PRECISION", raising=False)
    monkeypatch.setenv("PANORAMA_DEVICE", "cpu")
    for module in (embedder_module, proposer_module):
        monkeypatch.setattr(module, "why_no_int8", lambda: LACKING)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a film, and a library of the shipped models in which it is indexed and red registered."""
    folder = tmp_path_factory.mktemp("done")
    write_film(folder / "a.mp4", [Thing("red", 5, 15)], frames=20)
    with panorama.open(folder / "library", create=True) as library:
        library.index(folder / "a.mp4")
        library.register("red", thing_picture("red"))
    return folder


ASK = "SELECT frames WHERE entity = 'red' AND score >= 0"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("print(library.index('a.mp4').files[0].status)", "skipped"),
        (f"print(len(library.query({ASK!r})) > 0)", "True"),
    ],
    ids=["indexing what has not changed", "asking where all vectors are stored"],
)
def test_no_network_is_loaded_where_there_is_nothing_to_compute(done: Path, code: str, says: str) -> None:
    start = "import sys, panorama\nlibrary = panorama.open('library')\n"
    command = [
        sys.executable,
        "-c",
        f"{start}{code}\nprint(bool({{'torch', 'openvino'}} & set(sys.modules)))",
    ]
    # With two cores the networks are in a process of their own: tests/test_worker.py.
    one = {**os.environ, "PANORAMA_THREADS": "1"}
    ran = subprocess.run(command, cwd=done, env=one, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-2:] == [says, "False"]


PACKAGES = ("av", "duckdb", "faiss", "pandas", "pyarrow.compute", "scipy", "sqlglot", "torch", "openvino")
TELLING = f"""
import os, sys
leave = os._exit
def tell(status):
    print(*[name for name in {PACKAGES!r} if name in sys.modules], flush=True)
    leave(status)
os._exit = tell
from panorama.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("words", "used"),
    [
        (["index", "a.mp4"], set()),
        (["index", "b.mp4"], {"av", "torch"} if why_no_int8() else {"av", "openvino"}),
        (["entities"], set()),
        (["exemplars", "red"], set()),
        (["videos"], set()),
        (["register", "blue", "blue.png"], {"torch"} if why_no_int8() else {"openvino"}),
        (["query", ASK], {"duckdb", "pyarrow.compute", "sqlglot"}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_loads_no_large_package_that_it_has_no_use_for(
    done: Path, words: list[str], used: set[str]
) -> None:
    write_picture(done / "blue.png", thing_picture("blue"))
    write_film(done / "b.mp4", [Thing("blue", 5, 15)], frames=20)
    command = [sys.executable, "-c", TELLING, "--library", "library", *words]
    one = {
        **os.environ,
        "PANORAMA_THREADS": "1",
        "PANORAMA_DEVICE": "cpu",
        "PANORAMA_PRECISION": "auto",
    }
    ran = subprocess.run(command, cwd=done, env=one, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.splitlines()[-1].split()) <= used


LATER = ("av", "panorama.indexing.stages", "panorama.tracking.tracker", "panorama.answering.source")
BEGINNING = f"""
import os, sys, threading
start = threading.Thread.start
def begin(thread):
    if thread.name == "panorama ahead":
        print("begun", *[name for name in {LATER!r} if name in sys.modules], flush=True)
        os._exit(0)
    start(thread)
threading.Thread.start = begin
from panorama.__main__ import main
main()
"""


@pytest.mark.parametrize(("name", "says"), [("b.mp4", ["begun"]), ("a.mp4", [])])
def test_the_networks_are_begun_before_what_decodes_and_tracks_is_loaded(
    done: Path, tmp_path: Path, name: str, says: list[str]
) -> None:
    shutil.copytree(done / "library", tmp_path / "library")
    write_film(tmp_path / "b.mp4", [Thing("blue", 5, 15)], frames=20)
    film = tmp_path / name if name == "b.mp4" else done / name
    command = [sys.executable, "-c", BEGINNING, "--library", "library", "index", str(film)]
    two = {**os.environ, "PANORAMA_THREADS": "2"}
    ran = subprocess.run(command, cwd=tmp_path, env=two, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == says


STARTING = """
import subprocess, sys
begin = subprocess.Popen.__init__
def tell(process, command, *others, **named):
    if "panorama.worker.server" in command[-1]:
        print("started", "behind" if "click" in sys.modules else "before", flush=True)
    begin(process, command, *others, **named)
subprocess.Popen.__init__ = tell
from panorama.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["index", "b.mp4"], "started before"),
        (["--debug", "index", "b.mp4", "--library=other"], "started before"),
        (["--library", "library", "index", "b.mp4"], "started behind"),
        (["index", "b.mp4", "--model", "color-bands"], "started behind"),
        (["index", "nothing.mp4", "--library", "library"], ""),
        (["--library", "index", "videos"], ""),
        (["--version", "index", "b.mp4"], ""),
        (["--help", "index", "b.mp4"], ""),
        (["index", "-vh", "b.mp4"], ""),
        (["index", "--fsp", "5", "b.mp4"], ""),
        (["index", "--library", "empty", "--fps", "5", "--", "b.mp4"], "started before"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_networks_are_started_before_all_else_where_a_library_is_made(
    done: Path, tmp_path: Path, words: list[str], says: str
) -> None:
    shutil.copytree(done / "library", tmp_path / "library")
    (tmp_path / "empty").mkdir()
    write_film(tmp_path / "b.mp4", [Thing("blue", 5, 15)], frames=25)
    ran = subprocess.run(
        [sys.executable, "-c", STARTING, *words],
        cwd=tmp_path,
        env={**os.environ, "PANORAMA_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert [line for line in ran.stdout.splitlines() if "started" in line] == ([says] if says else []), (
        ran.stderr
    )
    if says:
        assert ran.returncode == 0 and "1 indexed" in ran.stderr


def test_the_early_start_knows_the_options_of_index() -> None:
    taken = {name: option for option in index_command.params for name in option.opts if name[0] == "-"}
    others = {"--model", "--proposer", "--library", "--debug"}
    assert {name for name, option in taken.items() if option.is_flag} - others == ahead.FLAGS
    assert {name for name, option in taken.items() if not option.is_flag} - others == ahead.VALUES


class Elsewhere(ColoredThings):
    """Coloured things that seem to be found by another process."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.loaded = threading.Event()

    def load(self) -> None:
        self.told.append("load")
        self.loaded.set()

    def give_up(self) -> None:
        self.told.append("give up")


def test_networks_are_begun_for_new_files_alone_and_given_up_when_all_are_done(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Elsewhere] = []

    @contextmanager
    def beside(proposer: Proposer, embedder: Embedder) -> Iterator[tuple[Proposer, Embedder]]:
        made.append(Elsewhere())
        yield made[-1], embedder

    monkeypatch.setattr(library_indexing, "beside", beside)
    (tmp_path / "b.mp4").write_bytes(b"no video")
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    assert run("index", "b.mp4").status != 0
    assert made[-1].loaded.wait(30) and "give up" in made[-1].told
    assert run("index", "a.mp4", "--model", "color-bands").status == 0
    assert "load" in made[-1].told and "give up" in made[-1].told
    assert run("index", "a.mp4").status == 0
    assert "load" not in made[-1].told


def said_in_8_bits(code: str, folder: Path, cores: int) -> list[str]:
    """The words that a program of these tests' own prints, run in a folder with networks in 8 bits."""
    environment = {
        **os.environ,
        "PANORAMA_THREADS": str(cores),
        "PANORAMA_DEVICE": "cpu",
        "PANORAMA_PRECISION": "int8",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.skipif(bool(why_no_int8()), reason=why_no_int8() or "has it")
def test_in_8_bits_all_is_done_without_torch(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    code = (
        "import sys, panorama\n"
        "from fakes import thing_picture\n"
        "library = panorama.open('library', create=True)\n"
        "library.index('a.mp4')\n"
        "library.register('red', thing_picture('red'))\n"
        "library.query(\"SELECT frames WHERE entity = 'red'\")\n"
        "print(library.verify(thing_picture('red'), thing_picture('blue')).band, 'torch' in sys.modules)"
    )
    said = said_in_8_bits(code, tmp_path, cores=1)
    assert said[-1] == "False"


@pytest.mark.skipif(bool(why_no_int8()), reason=why_no_int8() or "has it")
def test_networks_keep_to_the_threads_of_this_process_whatever_asks_them(done: Path) -> None:
    code = (
        "import panorama\n"
        "from fakes import thing_picture\n"
        "library = panorama.open('library')\n"
        f"library.query({ASK!r})\n"
        "library.register('green', thing_picture('green'))\n"
        "library.query(\"SELECT frames WHERE entity = 'green'\")\n"
        "library.verify(thing_picture('red'), thing_picture('blue'))\n"
        "networks = library.embedder.net.network._networks\n"
        "print({key[-1] for network in networks for key in network._compiled})"
    )
    said = said_in_8_bits(code, done, cores=6)
    assert said == ["{2}"]


def test_a_proposer_that_loads_late_is_the_same_proposer_at_every_side() -> None:
    late, whole = late_proposer(), load_proposer()
    assert (late.name, late.hash) == (whole.name, whole.hash)
    assert late.at_side(300).hash == whole.at_side(300).hash != late.hash
    assert late.at_side(416) is late and late.precision == whole.precision
    Indexer(ColorEmbedder(), late, IngestSettings(proposal_side=256))


def test_two_threads_that_need_a_network_load_it_once() -> None:
    made: list[int] = []
    both = threading.Barrier(2)

    def make() -> list[int]:
        made.append(1)
        return made

    late = Late(make)

    def ask() -> None:
        both.wait()
        assert late() is made

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_weights_that_cannot_be_loaded_end_indexing_with_their_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    def damaged(folder: object) -> object:
        raise ModelError("the weights have another SHA-256")

    monkeypatch.setattr(embedder_module, "PanoramaNet", damaged)
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    done = run("index", "a.mp4")
    assert done.status == 1 and "ModelError: the weights have another SHA-256" in done.err
    assert run("info", "--json").json["counts"]["videos"] == 0


def test_the_list_of_models_tells_what_they_run_in_and_why(run: Run, no_int8: None) -> None:
    rows = {row["model"]: row for row in run("models", "--json").json}
    assert set(rows) >= {"panoramanet", "color-bands", "proposer"}
    assert [rows[name]["kind"] for name in ("panoramanet", "proposer")] == ["embedder", "proposer"]
    for name in ("panoramanet", "proposer"):
        assert rows[name]["precision"] in ("bfloat16", "float32") and rows[name]["device"] == "cpu"
        assert rows[name]["why"] == LACKING
    assert rows["color-bands"]["precision"] is None
    assert {name for name, row in rows.items() if row["default"] is True} == {"panoramanet", "proposer"}
    assert rows["color-bands"]["default"] is False


def test_an_index_that_could_be_faster_says_why_it_is_not(
    tmp_path: Path, run: Run, fake_proposer: ColoredThings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PANORAMA_PRECISION", raising=False)
    monkeypatch.setenv("PANORAMA_DEVICE", "cpu")
    folder = Path(shutil.copytree(content_dir("embeddings") / "panoramanet", tmp_path / "mine"))
    (folder / RANGES).unlink()
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    done = run("index", "a.mp4", "--model", str(folder), "--json")
    assert f"not int8: panoramanet has no {RANGES}" in done.err
    (facts,) = done.json_lines[0]["networks"].values()
    assert facts["model"] == "panoramanet" and facts["precision"] != "int8" and RANGES in facts["why"]


def test_verbose_tells_the_format_and_what_each_stage_took(
    tmp_path: Path, run: Run, fake_proposer: ColoredThings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PANORAMA_PRECISION", "float32")
    monkeypatch.setenv("PANORAMA_DEVICE", "cpu")
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    plain = run("index", "a.mp4")
    assert plain.status == 0 and "float32" not in plain.err  # asked for, so there is nothing to explain
    write_film(tmp_path / "b.mp4", [Thing("blue", 5, 15)], frames=20)
    told = run("index", "b.mp4", "-v").err
    assert "panoramanet ran in float32 on cpu\n" in told
    assert "seconds by stage: " in told and "embed " in told.split("seconds by stage: ")[1]


class SlowThings(ColoredThings):
    """Coloured things that take a while to load."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.seen: list[int] = []

    def load(self) -> None:
        assert self.go.wait(30), "nothing went on meanwhile"

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        assert self.go.is_set(), "no picture is shown before the model is loaded"
        self.seen.append(len(images))
        return super().propose(images)


def test_decoding_goes_on_while_a_network_loads_and_the_outcome_is_the_same(tmp_path: Path) -> None:
    things = [Thing("red", 5, 95), Thing("blue", 120, 210), Thing("green", 250, 340)]
    film = write_film(tmp_path / "a.mp4", things, frames=400)

    def tracks(proposer: ColoredThings, wait: Callable[[Job], None]) -> list[tuple[int, int]]:
        job = Job(open_video(film))
        line = Indexer(ColorEmbedder(), proposer, IngestSettings(10.0)).line([job], wait=lambda: wait(job))
        return [(len(track.frames), len(track.views)) for parcel in line for track in parcel.tracks]

    slow = SlowThings()

    def let_go(job: Job) -> None:
        # Every frame is looked at; queues and stages alone hold less than 200.
        if job.progress.samples >= 300:
            slow.go.set()

    found = tracks(slow, let_go)
    assert found == tracks(ColoredThings(), lambda job: None) and len(found) >= 3
    assert sum(slow.seen) > 0


def test_indexing_rests_after_every_frame(tmp_path: Path) -> None:
    """A query waited while decoding and the gate ended their sixteen frames."""
    film = write_film(tmp_path / "a.mp4", [Thing("red", 5, 95)], frames=400)
    job, rests = Job(open_video(film)), []

    def wait() -> None:
        rests.append(1)

    parcels = list(Indexer(ColorEmbedder(), ColoredThings(), IngestSettings(10.0)).line([job], wait))
    crops = sum(len(parcel.jpegs) for parcel in parcels)
    assert crops and len(rests) > 400 + 400 + job.progress.samples + crops
