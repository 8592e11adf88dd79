"""Finished videos appear in the library, several together while queries run; Ctrl-C around that moment."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from gate_samples import Asked, Clock
from indexing_samples import films, index
from store_samples import fill, video_row

from panorama.errors import LibraryDamaged, LibraryDiskFull
from panorama.indexing import publishing
from panorama.indexing.outcomes import INDEXED, FileOutcome, Hooks
from panorama.indexing.publishing import MOST_HELD, PUBLISH_SECONDS, QUIET_SECONDS, Finished, Publisher
from panorama.store import PauseGate, Store, abort_together
from panorama.store.catalog import videos
from panorama.store.catalog.connections import CATALOG_NAME
from panorama.store.catalog.database import Transaction
from panorama.store.files import segments


def finished(store: Store, name: str) -> Finished:
    writer = store.begin_segment(f"content of {name}", "s")
    fill(writer)
    writer.finish()
    return Finished(
        writer, video_row(name, f"content of {name}"), FileOutcome(f"/archive/{name}", "", INDEXED)
    )


def names(store: Store) -> list[str]:
    return store.snapshot().videos["video"].to_pylist()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def publisher(store: Store, clock: Clock, asked: Asked) -> Iterator[Publisher]:
    gate = PauseGate(asked, clock)
    with store.claims() as claims:
        publisher = Publisher(gate, claims, clock)
        publisher.look = gate.look  # type: ignore[attr-defined]
        yield publisher


def test_while_nobody_asks_a_video_appears_when_it_is_finished(store, publisher, clock):
    assert not publisher.is_due()
    for name in ("a.mp4", "b.mp4"):
        publisher.add(finished(store, name))
        assert publisher.is_due()
        assert [outcome.video for outcome in publisher.publish()] == [name]
        clock.now += 0.5
    assert not publisher.is_due() and publisher.publish() == []


def test_while_queries_run_videos_appear_together_and_seldom(store, publisher, clock, asked, monkeypatch):
    bump, changes = Transaction.bump, []
    monkeypatch.setattr(Transaction, "bump", lambda tx, what: (changes.append(what), bump(tx, what))[1])
    asked.is_asked = lambda: True
    publisher.look()
    publisher.add(finished(store, "a.mp4"))
    assert publisher.is_due(), "nothing appeared for long"
    publisher.publish()
    for name in ("b.mp4", "c.mp4", "d.mp4"):
        clock.now += PUBLISH_SECONDS / 4
        publisher.look()
        publisher.add(finished(store, name))
        assert not publisher.is_due() and names(store) == ["a.mp4"]
    clock.now += PUBLISH_SECONDS / 4
    publisher.look()
    assert publisher.is_due()
    told = publisher.publish()
    assert [outcome.video for outcome in told] == ["b.mp4", "c.mp4", "d.mp4"]
    assert names(store) == ["a.mp4", "b.mp4", "c.mp4", "d.mp4"]
    assert changes == ["data"] * 2, "one change for queries to read"
    assert not list(store._place.locks.glob("writer-*"))


def test_when_nobody_has_asked_for_a_while_what_was_held_back_is_due(store, publisher, clock, asked):
    asked.is_asked = lambda: True
    publisher.look()
    publisher.add(finished(store, "a.mp4"))
    publisher.publish()
    publisher.add(finished(store, "b.mp4"))
    asked.is_asked = lambda: False
    clock.now += QUIET_SECONDS / 2
    publisher.look()
    assert not publisher.is_due()
    clock.now += QUIET_SECONDS / 2
    assert publisher.is_due()
    assert [outcome.video for outcome in publisher.publish()] == ["b.mp4"]


def left_of(store: Store, *kept: str) -> None:
    """Nothing is there but what these videos have."""
    assert names(store) == [*kept] and not list(store._place.locks.glob("writer-*"))
    files = [path for table in store._place.data.iterdir() for path in table.iterdir()]
    assert len(files) == 5 * len(kept)


def test_many_finished_videos_do_not_wait_since_each_keeps_files_open(store, publisher, asked):
    asked.is_asked = lambda: True
    publisher.look()
    publisher.add(finished(store, "first.mp4"))
    publisher.publish()
    for number in range(MOST_HELD):
        assert not publisher.is_due()
        publisher.add(finished(store, f"{number}.mp4"))
    assert publisher.is_due()
    assert len(publisher.publish()) == MOST_HELD


def test_a_video_that_cannot_be_committed_takes_none_before_it_along(store, publisher, monkeypatch):
    place = videos.place_video

    def damaged(tx: Any, video: Any, segment: int) -> str:
        if video.name == "b.mp4":
            raise LibraryDamaged("what is known of it is no number")
        return place(tx, video, segment)

    three = [finished(store, name) for name in ("a.mp4", "b.mp4", "c.mp4")]
    for one in three:
        publisher.add(one)
    monkeypatch.setattr(videos, "place_video", damaged)
    with pytest.raises(LibraryDamaged):
        publisher.publish()
    assert names(store) == []
    told, error = publisher.end()
    assert [outcome.video for outcome in told] == ["a.mp4"] and isinstance(error, LibraryDamaged)
    left_of(store, "a.mp4")
    with pytest.raises(ValueError, match="already committed or aborted"):
        three[2].writer.commit(three[2].row)
    assert publisher.end() == ([], None)


def test_on_a_full_disk_the_last_videos_make_room_for_those_before(store, publisher, monkeypatch):
    place, locks = videos.place_video, store._place.locks

    def full(*given: Any) -> str:
        if len(list(locks.glob("writer-*"))) > 2:
            raise LibraryDiskFull("no room")
        return place(*given)

    for name in ("a.mp4", "b.mp4", "c.mp4", "d.mp4"):
        publisher.add(finished(store, name))
    monkeypatch.setattr(videos, "place_video", full)
    told, error = publisher.end()
    assert [outcome.video for outcome in told] == ["a.mp4", "b.mp4"] and isinstance(error, LibraryDiskFull)
    left_of(store, "a.mp4", "b.mp4")


def test_giving_videos_up_waits_for_no_writer(store, monkeypatch):
    """Each waited for a minute, and Ctrl-C with it."""
    monkeypatch.setattr(segments, "ABORT_WAIT_SECONDS", 0.1)
    writers = [finished(store, f"{number}.mp4").writer for number in range(5)]
    with closing(sqlite3.connect(store.path / CATALOG_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        abort_together(writers)
        assert time.monotonic() - began < 5
    left_of(store)


@contextmanager
def questions(library: Path) -> Iterator[None]:
    """Somebody asks, without a gap longer than a moment."""
    over = threading.Event()

    def ask() -> None:
        with Store.open(library) as store:
            while not over.wait(0.02):
                with store.asking():
                    over.wait(0.02)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def indexed_while_asked(library: Path, folder: Path, hooks: Hooks) -> list[FileOutcome]:
    with Store.create(library):
        pass
    with questions(library):
        return index(library, [folder], hooks=hooks)


def test_an_index_beside_queries_tells_of_all_videos_in_order_once_they_are_there(tmp_path: Path) -> None:
    folder, library, told = films(tmp_path / "films", 4), tmp_path / "library", []
    (folder / "2b.mp4").write_bytes((folder / "2.mp4").read_bytes())
    (folder / "1b.mp4").write_bytes(b"no video")

    def there(outcome: FileOutcome) -> None:
        with Store.open(library) as store:
            told.append((outcome.path.rsplit("/", 1)[1], outcome.status, len(names(store))))

    outcomes = indexed_while_asked(library, folder, Hooks(on_file=there))
    assert [(name, status) for name, status, _ in told] == [
        ("0.mp4", "indexed"),
        ("1.mp4", "indexed"),
        ("1b.mp4", "failed"),
        ("2.mp4", "indexed"),
        ("2b.mp4", "skipped"),
        ("3.mp4", "indexed"),
    ]
    assert [path.path.rsplit("/", 1)[1] for path in outcomes] == [name for name, *_ in told]
    for number, (name, status, count) in enumerate(told):
        before = sum(status != "failed" for _, status, _ in told[: number + 1])
        assert count >= before, f"{name} was told as {status} before it was there"
    for outcome in outcomes:
        assert (outcome.stage_seconds.get("write", 0.0) > 0) == (outcome.status == "indexed")


def test_an_interrupt_beside_queries_keeps_what_is_finished(tmp_path: Path, monkeypatch) -> None:
    """Nothing has appeared yet when it comes: the least time between two commits begins with the run."""
    monkeypatch.setattr(publishing, "QUIET_SECONDS", 1e9)
    monkeypatch.setattr(Publisher, "is_due", lambda self: False)
    folder, library = films(tmp_path / "films", 3), tmp_path / "library"

    def begun(number: int, *_: object) -> None:
        if number == 2:
            with Store.open(library) as store:
                assert names(store) == [], "both are finished and held back"
            raise KeyboardInterrupt

    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        index(library, [folder], hooks=Hooks(on_start=begun, on_file=lambda one: told.append(one.video)))
    with Store.open(library) as store:
        assert names(store) == told == ["0.mp4", "1.mp4"]
        assert not list(store._place.locks.glob("writer-*"))


def test_an_interrupt_in_the_commit_is_raised_when_all_that_is_committed_is_told(
    tmp_path: Path, monkeypatch
) -> None:
    place, told, dated = videos.place_video, [], []

    def interrupted(*given: Any) -> str:
        signal.raise_signal(signal.SIGINT)
        return place(*given)

    monkeypatch.setattr(Publisher, "is_due", lambda self: False)
    monkeypatch.setattr(videos, "place_video", interrupted)
    folder, library = films(tmp_path / "films", 3), tmp_path / "library"
    hooks = Hooks(on_file=lambda one: told.append(one.video))
    with pytest.raises(KeyboardInterrupt):
        index(library, [folder], hooks=hooks, on_commit=lambda names: dated.append(list(names)))
    with Store.open(library) as store:
        assert names(store) == told == ["0.mp4", "1.mp4", "2.mp4"]
    assert [*filter(None, dated)] == [told], "all of them at once, before the first is told"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("module", "step"),
    [("panorama.store.files.locks", 2), ("panorama.store.catalog.database", 37)],
)
def test_an_interrupt_around_a_commit_is_one_and_leaves_no_lock(
    tmp_path: Path, module: str, step: int
) -> None:
    """As a segment began, its lock stayed; in the middle of a commit, another error came out."""
    folder, library = films(tmp_path / "films", 1), tmp_path / "library"

    def interrupted_at(number: int) -> int:
        """How many functions of the module were entered or left."""
        met = 0

        def watch(frame: FrameType, event: str, _: object) -> None:
            nonlocal met
            if event in ("call", "return") and frame.f_globals.get("__name__", "").startswith(module):
                met += 1
                if met == number:
                    signal.raise_signal(signal.SIGINT)

        sys.setprofile(watch)
        try:
            index(library, [folder])
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        return met

    total = interrupted_at(0)
    assert total > 40
    for number in range(1, total + 1, step):
        shutil.rmtree(library, ignore_errors=True)
        interrupted_at(number)
        assert not list((library / "locks").glob("writer-*")), f"at {number} of {total}"
