"""Many videos through one line: the same segments whatever the threads, and what an odd video costs."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from fakes import ColoredThings, Thing, write_film
from indexing_samples import SETTINGS, Counting, files_of, films, index, one_thread
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

import panorama
from panorama import waits
from panorama.indexing import intake, pipeline, rows, run, stages
from panorama.indexing.outcomes import UNCHANGED, FileOutcome, Hooks
from panorama.indexing.parcels import Progress
from panorama.indexing.run import UPKEEP, finish
from panorama.indexing.settings import IngestSettings
from panorama.indexing.stored_crops import EMBEDDING, embed_missing
from panorama.models.base import Image
from panorama.models.color import ColorEmbedder
from panorama.models.proposer import load_proposer
from panorama.models.registry import embedder_names, load_embedder
from panorama.regions import Regions
from panorama.store import Store
from panorama.store.vectors.vector_table import VectorTable
from panorama.threads import ENVIRONMENT
from panorama.tracking.segmenting import FinishedTrack
from panorama.tracking.splitting import split_tracks
from panorama.video import FileMark, content_hash, goes_on

STAGES = ("decode", "gate", "propose", "track", "crop", "embed")


def test_progress_that_is_kept_stays_what_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was one object: a list of what was told held the end of the video, again and again."""
    monkeypatch.setattr(run, "TELL_SECONDS", -1.0)
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 60)], frames=300)
    kept: list[Progress] = []
    told: list[tuple[int, int, dict[str, float]]] = []

    def hear(now: Progress) -> None:
        kept.append(now)
        told.append((now.frames, now.crops, dict(now.stage_seconds)))

    with one_thread():
        index(tmp_path / "library", [film], hooks=Hooks(on_progress=hear))
    assert [(now.frames, now.crops, now.stage_seconds) for now in kept] == told
    assert len({now.crops for now in kept}) > 1 and kept[-1].frames == 300
    assert kept[-1].all_read and not any(now.all_read for now in kept if now.frames < 300)


def test_one_thread_and_many_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = films(tmp_path / "films")
    with one_thread():
        one = index(tmp_path / "one", [folder])
    assert [f.status for f in one] == ["indexed"] * 5 and sum(f.tracks for f in one) >= 8
    expected = files_of(tmp_path / "one")
    assert len(expected) == 25
    seen: set[str] = set()
    # Each thread of stages calls it as it begins.
    monkeypatch.setattr(pipeline, "lower_priority", lambda: seen.add(threading.current_thread().name))
    for cores, threads in (("2", {"decode", "gate"}), ("2", {"decode", "gate"}), ("4", set(STAGES))):
        monkeypatch.setenv(ENVIRONMENT, cores)
        attempt = f"{cores} {len(list(tmp_path.iterdir()))}"
        seen.clear()
        many = index(tmp_path / attempt, [folder])
        assert seen == {f"panorama {name}" for name in threads}
        assert files_of(tmp_path / attempt) == expected
        assert [(f.video, f.tracks, f.crops) for f in many] == [(f.video, f.tracks, f.crops) for f in one]


def test_a_file_written_over_with_one_of_its_size_and_time_is_noticed(tmp_path: Path) -> None:
    """Recorders that write files of a fixed size, and `cp -p`, left the rows of what had been there."""
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 20, left=5)], frames=30)
    other = write_film(tmp_path / "other.mp4", [Thing("blue", 0, 20, left=5)], frames=45)
    size = max(film.stat().st_size, other.stat().st_size)
    for path in (film, other):
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    before = film.stat()
    assert [f.status for f in index(tmp_path / "library", [film])] == ["indexed"]
    assert [f.status for f in index(tmp_path / "library", [film])] == ["skipped"]
    film.write_bytes(other.read_bytes())
    os.utime(film, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (film.stat().st_size, film.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    (again,) = index(tmp_path / "library", [film])
    assert (again.status, again.frames) == ("indexed", 45)


def test_a_file_from_the_year_2286_is_indexed_once(tmp_path: Path) -> None:
    """SQLite's integers end in April 2262: the run ended there, and no file behind was ever indexed."""
    folder = films(tmp_path / "films", 2)
    os.utime(folder / "0.mp4", ns=(10**19, 10**19))
    if (folder / "0.mp4").stat().st_mtime_ns != 10**19:
        pytest.skip("this file system does not keep such times")
    assert [f.status for f in index(tmp_path / "library", [folder])] == ["indexed"] * 2
    assert [f.note for f in index(tmp_path / "library", [folder])] == [UNCHANGED] * 2


def test_what_is_not_decoded_is_claimed_no_longer(tmp_path: Path) -> None:
    """Another process that has the same file would wait until all others are done."""
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 20)], frames=20)
    index(tmp_path / "library", [film])
    copy, broken = tmp_path / "b.mp4", tmp_path / "c.mp4"
    copy.write_bytes(film.read_bytes())
    broken.write_bytes(b"no video" * 99)
    last = write_film(tmp_path / "d.mp4", [Thing("blue", 0, 20)], frames=20)
    free: list[bool] = []

    def started(*_: object) -> None:
        with Store.open(tmp_path / "library") as other, other.claims() as claims:
            free.extend(claims.take(content_hash(FileMark.of(path))) for path in (copy, broken, last))

    outcomes = index(tmp_path / "library", [copy, broken, last], hooks=Hooks(on_start=started))
    assert [outcome.status for outcome in outcomes] == ["skipped", "failed", "indexed"]
    assert free == [True, True, False]


def test_a_quick_look_keeps_a_row_of_every_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them come with the first keyframe, many times as many as are written together."""
    monkeypatch.setattr(rows, "FRAME_ROWS", 8)
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 40)], frames=40)
    (outcome,) = index(tmp_path / "library", [film], settings=IngestSettings(keyframes_only=True))
    assert (outcome.frames, outcome.samples) == (40, 4)
    with panorama.open(tmp_path / "library") as library:
        found = library.query("SELECT frame FROM frames ORDER BY time").fetchall()
    assert [row.frame for row in found] == list(range(40))


def test_the_shipped_models_write_the_same_bytes_on_a_busy_machine(tmp_path: Path) -> None:
    folder = films(tmp_path / "films", 3)
    embedder, proposer = load_embedder(embedder_names()[0]), load_proposer()
    over = threading.Event()

    def burn() -> None:
        while not over.wait(0.001):
            sum(range(200_000))

    def run(name: str) -> dict[str, str]:
        outcomes = index(tmp_path / name, [folder], proposer=proposer, embedder=embedder)
        assert sum(f.crops for f in outcomes) > 3
        return files_of(tmp_path / name)

    with one_thread():
        expected = run("alone")
    assert len(expected) == 3 * 7  # frames, tracks, boxes, crops and vectors at three exits
    burner = threading.Thread(target=burn)
    burner.start()
    try:
        assert run("busy") == expected and run("busy again") == expected
    finally:
        over.set()
        burner.join()


def test_a_video_gives_the_same_rows_beside_others_and_alone(tmp_path: Path) -> None:
    folder = films(tmp_path / "films", 3)
    index(tmp_path / "all", [folder])
    index(tmp_path / "first", [folder / "0.mp4"])
    first = files_of(tmp_path / "first")
    assert first and first.items() <= files_of(tmp_path / "all").items()


def test_short_videos_share_batches(tmp_path: Path) -> None:
    for number in range(6):
        write_film(tmp_path / "films" / f"{number}.mp4", [Thing("red", 0, 3)], frames=3 + number)
    proposer = Counting()
    index(tmp_path / "library", [tmp_path / "films"], proposer=proposer)
    assert max(proposer.batches) > 8 and len(proposer.batches) < 6  # no film has more than eight frames


@pytest.mark.parametrize("error", [ValueError, cv2.error])
@pytest.mark.parametrize("threads", [one_thread, nullcontext])
def test_a_defect_that_one_file_brings_out_costs_only_that_file(
    tmp_path: Path, threads: Callable[[], AbstractContextManager[None]], error: type[Exception]
) -> None:
    for name, color in (("a", "red"), ("b", "yellow"), ("c", "blue")):
        write_film(tmp_path / f"{name}.mp4", [Thing(color, 0, 10)], frames=12)
    paths, proposer = [tmp_path / f"{n}.mp4" for n in "abc"], Counting(fails=error)
    with threads():
        outcomes = index(tmp_path / "library", paths, proposer=proposer)
    assert [f.status for f in outcomes] == ["indexed", "failed", "indexed"]
    assert f"unexpected {error.__name__}: shapes differ" in str(outcomes[1].note)
    with Store.open(tmp_path / "library") as store:
        assert store.snapshot().videos["video"].to_pylist() == ["a.mp4", "c.mp4"]
        assert store.info().counts["segments"] == 2


@pytest.mark.parametrize("threads", [one_thread, nullcontext])
def test_tracks_that_cannot_be_split_cost_only_their_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threads: Callable[[], AbstractContextManager[None]],
) -> None:
    """The batch was repeated for the others when their crops were gone, and the whole `index` ended."""

    def split(tracks: Sequence[FinishedTrack], *others: NDArray) -> list[FinishedTrack]:
        colors = [view.picture.mean(axis=(0, 1)) for track in tracks for view in track.views]
        if any(blue > red for red, _, blue in colors):
            raise ValueError("odd track")
        return split_tracks(tracks, *others)

    monkeypatch.setattr(stages, "split_tracks", split)
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        write_film(tmp_path / "films" / f"{name}.mp4", [Thing(color, 0, 10)], frames=12 + ord(name))
    with threads():
        outcomes = index(tmp_path / "library", [tmp_path / "films"])
    assert [f.status for f in outcomes] == ["indexed", "failed", "indexed"]
    assert "unexpected ValueError: odd track" in str(outcomes[1].note)
    with Store.open(tmp_path / "library") as store:
        snapshot = store.snapshot()
        vectors = VectorTable.load(snapshot, ColorEmbedder().hash, 1)
        assert len(vectors) == snapshot.crops().total > 0


def test_an_interrupt_keeps_what_is_committed_and_leaves_no_trace_of_the_rest(tmp_path: Path) -> None:
    folder = films(tmp_path / "films")
    told: list[str] = []

    def interrupt(outcome: FileOutcome) -> None:
        told.append(outcome.video)
        if len(told) == 2:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        index(tmp_path / "library", [folder], hooks=Hooks(on_file=interrupt))
    assert threading.active_count() == before
    with Store.open(tmp_path / "library") as store:
        assert store.snapshot().videos["video"].to_pylist() == told == ["0.mp4", "1.mp4"]
        store.sweep(grace_seconds=0)
    assert len(files_of(tmp_path / "library")) == 10
    rest = index(tmp_path / "library", [folder])
    assert [f.status for f in rest] == ["skipped"] * 2 + ["indexed"] * 3


def test_an_interrupt_does_not_wait_until_a_file_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files took most of a minute: what stops services ended the process before anything was kept."""
    told: list[str] = []

    def long(mark: FileMark, wait: Callable[[], None] = lambda: None) -> str:
        told.append("begun")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        for _ in range(3000):  # half a minute: a busy machine may deliver the signal late
            wait()
            time.sleep(0.01)
        told.append("read to its end")
        return content_hash(mark)

    folder = films(tmp_path / "films", 2)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(intake, "content_hash", long)
        index(tmp_path / "library", [folder])
    assert told == ["begun"]
    assert [f.status for f in index(tmp_path / "library", [folder])] == ["indexed"] * 2


@pytest.mark.parametrize("threads", [nullcontext, one_thread])
def test_a_finished_video_does_not_wait_until_a_long_file_is_hashed(
    threads: Callable[[], AbstractContextManager[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited in batches that only more frames would fill: no query found it, and a crash lost it."""
    folder, told = films(tmp_path / "films", 2), threading.Event()
    seen: list[bool] = []

    def long(mark: FileMark, wait: Callable[[], None] = lambda: None) -> str:
        if mark.path.name == "1.mp4":
            seen.append(told.wait(5))
        return content_hash(mark, wait)

    with threads(), monkeypatch.context() as patched:
        patched.setattr(intake, "content_hash", long)
        patched.setattr(intake, "LONG_BYTES", 0)
        index(tmp_path / "library", [folder], hooks=Hooks(on_file=lambda _: told.set()))
    assert seen == [True]
    index(tmp_path / "other", [folder])
    assert files_of(tmp_path / "library") == files_of(tmp_path / "other")


def test_hashing_waits_after_every_block(tmp_path: Path) -> None:
    path, blocks = tmp_path / "a.mp4", list[int]()
    path.write_bytes(bytes(5 << 20))
    before, now = (hashlib.sha256(bytes(size << 20)).hexdigest() for size in (2, 5))
    assert content_hash(FileMark.of(path), lambda: blocks.append(5)) == now
    assert goes_on(FileMark.of(path), 2 << 20, before, lambda: blocks.append(2))
    assert blocks == [5] * 5 + [2] * 2


def test_two_copies_in_one_run_share_a_segment(tmp_path: Path) -> None:
    film = write_film(tmp_path / "films" / "a.mp4", [Thing("red", 0, 10)])
    (tmp_path / "films" / "b.mp4").write_bytes(film.read_bytes())
    outcomes = index(tmp_path / "library", [tmp_path / "films"])
    assert [(f.video, f.status) for f in outcomes] == [("a.mp4", "indexed"), ("b.mp4", "skipped")]
    with Store.open(tmp_path / "library") as store:
        counts = store.info().counts
    assert (counts["videos"], counts["segments"]) == (2, 1)


class Slow(Counting):
    """Goes on from its first picture when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = threading.Event(), threading.Event()

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        self.reached.set()
        assert self.go.wait(30)
        return super().propose(images)


def test_two_that_index_the_same_videos_share_the_work(tmp_path: Path) -> None:
    """The second one did all of it again, and the library kept what it had found."""
    folder = films(tmp_path / "films")
    alone = Counting()
    expected = index(tmp_path / "alone", [folder], proposer=alone)
    first, second = Slow(), Counting()
    told: list[str] = []

    def wait(what: str) -> None:
        told.append(what)
        first.go.set()

    with ThreadPoolExecutor(1) as pool:
        by_first = pool.submit(index, tmp_path / "library", [folder], proposer=first)
        assert first.reached.wait(30)
        by_second = index(tmp_path / "library", [folder], proposer=second, hooks=Hooks(on_wait=wait))
        outcomes = by_first.result(), by_second
    assert told and all("another process is indexing" in what for what in told)
    assert sum(first.batches) + sum(second.batches) == sum(alone.batches)
    for outcome in outcomes:
        assert sorted(f.video for f in outcome) == sorted(f.video for f in expected)
        assert {f.status for f in outcome} <= {"indexed", "skipped"}
    indexed = sorted((f.video, f.tracks, f.crops) for o in outcomes for f in o if f.status == "indexed")
    assert indexed == sorted((f.video, f.tracks, f.crops) for f in expected)
    with Store.open(tmp_path / "library") as store:
        counts = store.info().counts
        assert list((store.path / "locks").glob("claim-*")) == []
    assert (counts["videos"], counts["segments"]) == (5, 5)


def test_what_a_lost_data_file_held_is_made_anew_by_one_of_two(tmp_path: Path) -> None:
    """Each looked only at its beginning for what was lost, so the second did the first one's work again."""
    folder = films(tmp_path / "films")
    index(tmp_path / "library", [folder])
    for path in (tmp_path / "library" / "data" / "tracks").iterdir():
        path.unlink()
    first, second = Slow(), Counting()
    hooks = Hooks(on_wait=lambda _: first.go.set())
    with ThreadPoolExecutor(1) as pool:
        by_first = pool.submit(index, tmp_path / "library", [folder], proposer=first)
        assert first.reached.wait(30)
        by_second = index(tmp_path / "library", [folder], proposer=second, hooks=hooks)
        outcomes = by_first.result(), by_second
    indexed = [f.video for o in outcomes for f in o if f.status == "indexed"]
    assert sorted(indexed) == [f"{n}.mp4" for n in range(5)]


KILLED = """
import sys, time
from pathlib import Path
from test_indexing import Slow, index
class Telling(Slow):
    def propose(self, images):
        print("at it", flush=True)
        return super().propose(images)
index(Path(sys.argv[1]), [Path(sys.argv[2])], proposer=Telling())
"""


def test_what_a_killed_process_was_at_is_indexed_by_the_one_that_waited(tmp_path: Path) -> None:
    folder = films(tmp_path / "films", 3)
    other = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "library"), str(folder)],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "at it\n"
        outcomes = index(tmp_path / "library", [folder], hooks=Hooks(on_wait=lambda _: other.kill()))
    finally:
        other.kill()
        other.wait()
    assert sorted((f.video, f.status) for f in outcomes) == [(f"{n}.mp4", "indexed") for n in range(3)]


def test_a_video_that_another_process_has_indexed_meanwhile_with_other_settings_is_indexed_anew(
    tmp_path: Path,
) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 40)])
    first = Slow()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(index, tmp_path / "library", [film], proposer=first)
        assert first.reached.wait(30)
        sparse = replace(SETTINGS, samples_per_second=2)
        hooks = Hooks(on_wait=lambda _: first.go.set())
        (outcome,) = index(tmp_path / "library", [film], settings=sparse, hooks=hooks)
    assert outcome.status == "indexed" and outcome.samples < 20
    with Store.open(tmp_path / "library") as store:
        assert store.info().counts["segments"] == 1


def test_stored_crops_are_embedded_and_the_library_made_ready_by_one_process_at_a_time(
    tmp_path: Path,
) -> None:
    index(tmp_path / "library", [films(tmp_path / "films", 2)])
    told: list[str] = []

    other = ColorEmbedder()
    other.hash = "other"
    with Store.open(tmp_path / "library") as store, store.claims() as claims:
        for work, run in (
            (EMBEDDING, lambda listener: embed_missing(store, other)),
            (UPKEEP, lambda listener: finish(store, ColorEmbedder(), Hooks(on_wait=listener))),
        ):
            assert claims.take(work)

            def listener(what, work=work):
                told.append(what)
                claims.drop(work)

            with waits.told_to(listener):
                run(listener)
        assert embed_missing(store, other) == 0
    assert told == [
        "another process is embedding stored crops",
        "another process is making the library ready for queries",
    ]


def test_a_quick_pass_is_deepened_in_place_and_never_the_other_way(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 40)])
    quick = IngestSettings(keyframes_only=True)
    (first,) = index(tmp_path / "library", [film], settings=quick)
    assert (first.status, first.frames, first.samples) == ("indexed", 40, 4)
    (again,) = index(tmp_path / "library", [film], settings=quick)
    assert again.status == "skipped"
    # What was said of it, "not by keyframes alone", was wrong.
    (closer,) = index(tmp_path / "library", [film], settings=replace(quick, zoom=2))
    assert closer.status == "skipped" and closer.note == "indexed already; --quick replaces nothing"
    (deep,) = index(tmp_path / "library", [film])
    assert deep.status == "indexed" and deep.samples > 20
    with Store.open(tmp_path / "library") as store:
        assert store.info().counts["segments"] == 1
    (back,) = index(tmp_path / "library", [film], settings=quick)
    assert back.status == "skipped" and back.note == "indexed already; --quick replaces nothing"
    copy = tmp_path / "copy.mp4"
    copy.write_bytes(film.read_bytes())
    (copied,) = index(tmp_path / "library", [copy], settings=quick)
    assert copied.status == "skipped"
    with Store.open(tmp_path / "library") as store:
        assert store.info().counts["segments"] == 1


def test_products_take_one_thread_while_videos_are_indexed(tmp_path: Path) -> None:
    """After each of the many small ones the other threads of OpenBLAS spin: a tenth of all processor time."""
    seen: set[int] = set()

    class Looking(ColorEmbedder):
        def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
            seen.update(f["num_threads"] for f in threadpool_info() if f["user_api"] == "blas")
            return super().embed_all(images)

    with threadpool_limits(2, user_api="blas"):
        index(tmp_path / "library", [films(tmp_path / "films")], embedder=Looking())
        assert seen == {1}
        assert {f["num_threads"] for f in threadpool_info() if f["user_api"] == "blas"} == {2}


def test_every_stage_is_accounted_for(tmp_path: Path) -> None:
    films(tmp_path / "films", 2)
    first, second = index(tmp_path / "library", [tmp_path / "films"])
    for outcome in (first, second):
        told = outcome.as_dict()
        assert list(told["line"]) == ["decode", "gate", "propose", "track", "crop", "embed"]
        assert set(told["line"]["embed"]) == {"busy", "starved", "blocked", "queue"}
        assert set(told["stage_seconds"]) >= {"decode", "gate", "propose", "track", "embed", "write"}
        assert told["paused_seconds"] == 0
    assert first.line["decode"]["busy"] > 0


def test_indexing_stands_back_while_a_query_runs(tmp_path: Path, fake_proposer: ColoredThings) -> None:
    films(tmp_path / "films", 2)
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)]), model="color-bands")
        with Store.open(tmp_path / "library") as store, store.asking():
            report = library.index(tmp_path / "films")
        assert [f.status for f in report.files] == ["indexed"] * 2
        assert sum(f.paused_seconds for f in report.files) > 0.05
