"""How many threads each library gets for the cores that there are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import faiss
import numpy as np
import pytest
import torch
from fakes import ColoredThings, Thing, write_film
from threadpoolctl import threadpool_info, threadpool_limits

import panorama
from panorama.errors import UsageError
from panorama.threads import Threads, cores_here, lent, products_alone
from panorama.video.probing import open_source


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PANORAMA_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def test_few_cores_get_one_thread_a_network() -> None:
    assert [Threads.of(n).network for n in (1, 2, 4)] == [1, 1, 1]
    assert Threads.of(16).network > 1
    assert Threads.of(2).decode == 2 and Threads.of(64).decode == 8
    assert Threads.of(4).duckdb == Threads.of(4).faiss == 4


def test_a_process_bound_to_some_cores_uses_those(tmp_path: Path) -> None:
    assert cores_here(tmp_path) == 8


@pytest.mark.parametrize(("content", "cores"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 8)])
def test_the_share_of_a_container_is_kept(tmp_path: Path, content: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(content + "\n")
    assert cores_here(tmp_path) == cores


def test_the_older_form_of_the_share_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("300000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cores_here(tmp_path) == 3
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores_here(tmp_path) == 8


def test_the_environment_decides_and_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANORAMA_THREADS", "3")
    assert cores_here() == 3
    for wrong in ("0", "many", "-2", "1025", "9" * 5000):
        monkeypatch.setenv("PANORAMA_THREADS", wrong)
        with pytest.raises(UsageError, match="PANORAMA_THREADS"):
            cores_here()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """What a user's process has set itself."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = {name: of() for name, of in COUNTS.items()}
    cv2.setNumThreads(3)
    torch.set_num_threads(5)
    faiss.omp_set_num_threads(4)
    yield told(cv2=3, torch=5, faiss=4)
    cv2.setNumThreads(before["cv2"])
    torch.set_num_threads(before["torch"])
    faiss.omp_set_num_threads(before["faiss"])


COUNTS = {"cv2": cv2.getNumThreads, "torch": torch.get_num_threads, "faiss": faiss.omp_get_max_threads}


def told(**numbers: int) -> dict[str, int]:
    """What libraries have that were told these numbers, faiss last: it may share the OpenMP of a torch."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(31)
    shared = torch.get_num_threads() == 31
    faiss.omp_set_num_threads(before)
    return numbers | ({"torch": numbers["faiss"]} if shared else {})


def counts() -> dict[str, int]:
    return {name: of() for name, of in COUNTS.items()}


def test_what_is_loaded_is_told(found: dict[str, int]) -> None:
    Threads.of(8).apply()
    assert counts() == told(cv2=1, torch=2, faiss=8)


def test_libraries_have_their_threads_again_after_a_block(found: dict[str, int]) -> None:
    with pytest.raises(ZeroDivisionError), Threads.of(8).lent():
        assert counts() == told(cv2=1, torch=2, faiss=8)
        with Threads.of(2).lent():
            assert counts() == told(cv2=1, torch=1, faiss=2)
        assert counts()["cv2"] == 1
        Threads.of(16).apply()  # as what loads a network does
        raise ZeroDivisionError
    assert counts() == found


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_blocks_of_several_threads_leave_what_the_first_found(
    found: dict[str, int], first_ends_first: bool
) -> None:
    """Each setting back what it found would leave the numbers of a block for good."""
    begun = [threading.Event(), threading.Event()]
    leave = [threading.Event(), threading.Event()]

    def work(number: int) -> dict[str, int]:
        with Threads.of(8).lent():
            begun[number].set()
            assert leave[number].wait(10)
        return counts()

    with ThreadPoolExecutor(2) as threads:
        asked = []
        for number in (0, 1):
            asked.append(threads.submit(work, number))
            assert begun[number].wait(10)
        assert cv2.getNumThreads() == 1
        order = (0, 1) if first_ends_first else (1, 0)
        leave[order[0]].set()
        assert asked[order[0]].result() | {"faiss": 0} == {"cv2": 1, "torch": 5, "faiss": 0}
        leave[order[1]].set()
        assert asked[order[1]].result() | {"faiss": 0} == {"cv2": 3, "torch": 5, "faiss": 0}
        assert [threads.submit(torch.get_num_threads).result() for _ in range(2)] == [5, 5]
    assert counts() == found


def test_what_is_changed_within_is_set_back_also_where_nothing_was_asked_for(found: dict[str, int]) -> None:
    with lent(torch=None, cv2=None):
        assert counts() == found
        torch.set_num_threads(1)
        cv2.setNumThreads(1)
    assert counts() == found


def test_questions_and_indexing_leave_a_users_threads_alone(
    tmp_path: Path, fake_proposer: ColoredThings, found: dict[str, int]
) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=12)
    with panorama.open(tmp_path / "library") as library:
        library.index(tmp_path / "a.mp4", model="color-bands")
        assert counts() == found
        picture = np.zeros((40, 40, 3), np.uint8)
        picture[10:30, 10:30] = (200, 30, 30)
        library.register("red", [picture])
        assert len(library.query("SELECT frames WHERE entity = 'red' AND score >= 0"))
        assert counts() == found
        list(library.query_each(["SELECT count(*) FROM videos"]))
        assert counts() == found


def products() -> set[int]:
    """The threads of every library of matrix products that is loaded."""
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


@pytest.mark.parametrize("told", [None, "4"])
def test_a_forked_process_waits_for_no_threads_of_the_other(
    monkeypatch: pytest.MonkeyPatch, told: str | None
) -> None:
    """A search that pays for several threads hung there, where the other process had made one before."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if told is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    before = """
import faiss
import numpy as np
from panorama.threads import lent
rows = np.random.default_rng(1).random((50000, 16), np.float32)
index = faiss.IndexFlatIP(16)
index.add(rows)
with lent(faiss=4):
    index.search(rows[:10], 5)
"""
    assert forked(before, "    with lent(faiss=4):\n        index.search(rows[:10], 5)") == "0\n"


@pytest.mark.parametrize("watching", ["fill(net, tensors, 'the weights')", "held = panorama.open('library')"])
def test_a_forked_process_loads_weights_without_the_threads_of_the_other(watching: str) -> None:
    """Only within `lent` was torch alone there: `register` and `verify` waited for ever in `fill`."""
    before = f"""
import panorama, torch
from panorama.models.filling import fill
torch.set_num_threads(4)
net = torch.nn.Linear(1000, 1000)
tensors = {{name: value.numpy().copy() for name, value in net.state_dict().items()}}
{watching}
(torch.zeros(1000, 1000) + torch.ones(1000, 1000)).sum()
"""
    inside = "    fill(net, tensors, 'the weights')\n    assert torch.get_num_threads() == 1"
    assert forked(before, inside) == "0\n"


def test_a_process_forked_amid_a_block_is_not_given_the_threads_of_before() -> None:
    """The end of the block set back what the other process had found."""
    before = """
import torch
from panorama.threads import lent
torch.set_num_threads(4)
block = lent(torch=3)
block.__enter__()
"""
    inside = "    block.__exit__(None, None, None)\n    assert torch.get_num_threads() == 1"
    assert forked(before, inside) == "0\n"


@pytest.mark.parametrize("own", [False, True])
def test_a_process_forked_amid_blocks_of_others_gets_their_threads_back(own: bool) -> None:
    """The blocks of threads that the child lacks never ended there: it kept one thread for good."""
    before = f"""
import threading, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import cv2
from panorama import threads

class Products:
    num_threads = 3
    def set_num_threads(self, count):
        self.num_threads = count

class Found:
    lib_controllers = [Products()]
    def info(self):
        return {{}}

Products.info = Found.info
threads._blas = lambda loaded: Found
(products,) = Found.lib_controllers
cv2.setNumThreads(3)
inside, done = threading.Event(), threading.Event()

def other():
    with threads.products_alone(), threads.lent(cv2=1):
        inside.set()
        done.wait()

threading.Thread(target=other, daemon=True).start()
inside.wait()
"""
    check = "assert (products.num_threads, cv2.getNumThreads()) == {}, products.num_threads"
    if own:
        before += "mine = threads.products_alone()\nmine.__enter__()\n"
        within = f"    {check.format((1, 3))}\n    mine.__exit__(None, None, None)\n"
    else:
        within = ""
    assert forked(before, f"{within}    {check.format((3, 3))}") == "0\n"


def forked(before: str, inside: str) -> str:
    """What a process says whose forked child ends: its status. Where the child hangs, nothing."""
    program = f"""
import os, signal, time
{before}
child = os.fork()
if not child:
{inside}
    os._exit(0)
for _ in range(100):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        print(os.waitstatus_to_exitcode(status))
        break
    time.sleep(0.1)
else:
    os.kill(child, signal.SIGKILL)
"""
    given = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(given, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("what", ["decoding", "products"])
def test_a_forked_process_waits_for_no_lock_that_another_thread_held(what: str) -> None:
    """A child that was forked while a thread read a picture, or a query began, hung at its first picture."""
    program = """
import os, signal, sys, threading
import cv2, numpy as np
from panorama import threads
from panorama.pictures import pixels
inside, done = threading.Event(), threading.Event()

class Slow:
    \"""A library of products that takes its time to set a number of threads.\"""
    num_threads = 1
    def set_num_threads(self, count):
        inside.set()
        done.wait()

def decoding():
    with pixels._quiet():
        inside.set()
        done.wait()

picture = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
with threads.products_alone():
    pixels.read_pixels(picture)
busy = decoding if sys.argv[1] == "decoding" else lambda: threads._PROCESS.enter([Slow()])
thread = threading.Thread(target=busy)
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    with threads.products_alone():
        pixels.read_pixels(picture)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
thread.join()
"""
    given = [sys.executable, "-W", "ignore", "-c", program, what]
    assert subprocess.run(given, capture_output=True, text=True, check=True).stdout == "0\n"


def test_products_are_alone_while_a_question_is_answered() -> None:
    with threadpool_limits(3, user_api="blas"):
        with products_alone():
            assert products() == {1}
            with products_alone():
                assert products() == {1}
            assert products() == {1}
        assert products() == {3}


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Products take three, set by a thread that is gone: a living one keeps others from setting it."""
    with ThreadPoolExecutor(1) as setter:
        limits = setter.submit(threadpool_limits, 3, user_api="blas").result()
    yield
    with ThreadPoolExecutor(1) as setter:
        setter.submit(limits.restore_original_limits).result()


def process_wide() -> set[int]:
    """As `products`, of the libraries that have one number for all threads."""
    found = [f for f in threadpool_info() if f["user_api"] == "blas" and f["threading_layer"] != "openmp"]
    return {f["num_threads"] for f in found}


def test_whoever_ends_first_products_are_alone_until_the_last_and_then_as_they_were() -> None:
    with threadpool_limits(3, user_api="blas"):
        first, second = products_alone(), products_alone()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert products() == {1}
        second.__exit__(None, None, None)
        assert products() == {3}


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_questions_of_several_threads_leave_products_as_they_were(
    three_threads: None, first_ends_first: bool
) -> None:
    begun = [threading.Event(), threading.Event()]
    leave = [threading.Event(), threading.Event()]

    def ask(number: int) -> None:
        with products_alone():
            begun[number].set()
            assert leave[number].wait(10)

    assert process_wide() == {3}
    with ThreadPoolExecutor(2) as threads:
        asked = []
        for number in (0, 1):
            asked.append(threads.submit(ask, number))
            assert begun[number].wait(10)
        assert process_wide() == {1}
        order = (0, 1) if first_ends_first else (1, 0)
        leave[order[0]].set()
        asked[order[0]].result()
        assert process_wide() == {1}  # the other one still asks
        leave[order[1]].set()
        asked[order[1]].result()
        assert process_wide() == {3}


def test_products_have_their_threads_again_after_an_error() -> None:
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ZeroDivisionError), products_alone():
            raise ZeroDivisionError
        assert products() == {2}


def test_small_pictures_are_decoded_by_one_thread_and_larger_ones_by_those_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = write_film(tmp_path / "a.mp4", [], frames=2)  # 160 x 120
    for alone, threads in ((160 * 120, 1), (160 * 120 - 1, 3)):
        monkeypatch.setattr("panorama.video.probing.ALONE_PIXELS", alone)
        assert open_source(film, 3).threads == threads
