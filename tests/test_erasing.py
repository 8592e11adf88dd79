"""Where forgetting cannot erase at once, that is said beside all else, and done as soon as it can be."""

from __future__ import annotations

import errno
import sqlite3
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from conftest import Ran
from fakes import thing_picture, write_picture
from store_samples import exemplar, index

from panorama.errors import LibraryWriteError, NotYetErased
from panorama.opening import open_library
from panorama.store import Store
from panorama.store.catalog import album
from panorama.store.catalog import database as catalog
from panorama.store.upkeep import erasing

NAME, PICTURE = "Erika-Mustermann", b"her only picture " * 40


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "BUSY_SECONDS", 0.05)


@contextmanager
def reading(library: Path) -> Iterator[None]:
    """Another program that looks into the catalog."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM entities").fetchall()
        yield


def left(library: Path, name: str = NAME) -> bool:
    """Whether a byte of a name or of the picture is in any file."""
    held = b"".join(path.read_bytes() for path in library.rglob("*") if path.is_file())
    return name.encode() in held or PICTURE in held


def mark(store: Store) -> str | None:
    with store._place.catalog.read() as tx:
        found = tx.scalar("SELECT value FROM meta WHERE key = 'erasing'")
    return None if found is None else str(found)


def forget(store: Store) -> None:
    """Forgets while somebody reads."""
    with (
        reading(store.path),
        pytest.raises(NotYetErased, match=r"is reading, .*log.*; close it, then: panorama"),
    ):
        store.forget_entity(NAME)
    assert NAME not in store.entities() and left(store.path)


def killed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets and ends between that and the removal of the pictures."""

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(album, "remove_unlisted", ends)
    with pytest.raises(KeyboardInterrupt):
        store.forget_entity(NAME)
    monkeypatch.undo()
    assert NAME not in store.entities() and list((store.path / "album").glob("*/*")) and left(store.path)


@pytest.fixture
def known(store: Store) -> Store:
    """A video, somebody to be forgotten, and a cat."""
    index(store, "1.mp4", seed=1)
    store.add_exemplars(NAME, [exemplar(PICTURE)])
    store.add_exemplars("cat", [exemplar(b"a cat")])
    return store


CHANGES: list[Callable[[Store], object]] = [
    lambda store: store.rename_entity("cat", "tom"),
    lambda store: store.add_exemplars("dog", [exemplar(b"a dog")]),
    lambda store: store.drop_entity("cat"),
    lambda store: store.forget_entity("cat"),
    lambda store: store.remove_videos(["1.mp4"]),
    lambda store: store.sweep(),
    lambda store: store.compact(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_left_goes_with_the_next_change(known: Store, change: Callable[[Store], object]) -> None:
    forget(known)
    change(known)
    assert not left(known.path) and mark(known) is None


@pytest.mark.parametrize("change", CHANGES)
def test_so_it_does_where_forgetting_was_killed(known: Store, monkeypatch, change) -> None:
    killed(known, monkeypatch)
    change(known)
    assert not left(known.path) and mark(known) is None


def test_a_change_meanwhile_waits_for_no_reader_and_vacuums_no_second_time(known: Store, monkeypatch) -> None:
    forget(known)
    first = mark(known)
    assert first is not None and first.startswith("vacuumed ")
    monkeypatch.setattr(catalog, "BUSY_SECONDS", 60.0)
    with reading(known.path):
        began = time.monotonic()
        for name in ("tom", "cat", "tom"):
            known.rename_entity(known.entities()[0], name)
        assert time.monotonic() - began < 20
        log = (known.path / "catalog.sqlite-wal").stat().st_size
        known.rename_entity("tom", "cat")
        whole = (known.path / "catalog.sqlite").stat().st_size
        assert (known.path / "catalog.sqlite-wal").stat().st_size - log < whole
    assert mark(known) == first


def test_the_mark_of_one_that_is_forgotten_later_stays(known: Store) -> None:
    forget(known)
    first = mark(known)
    known.add_exemplars("cat", [exemplar(b"another cat")])
    assert mark(known) is None
    forgotten = mark_between_vacuum_and_end(known)
    assert mark(known) == forgotten != first
    known.compact()
    assert mark(known) is None and not left(known.path, "another cat")


def mark_between_vacuum_and_end(store: Store) -> str | None:
    """Forgets "cat" in another process amid the scrubbing of this one; the mark that it left."""
    found: list[str | None] = []
    steps = catalog._scrubbed

    class Interposed:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA wal_checkpoint") and not found:
                album.forget_entity(store._place, "cat")
                found.append(mark(store))
            return self._connection.execute(sql, *values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "_scrubbed", lambda connection: steps(Interposed(connection)))
        with store._place.catalog.write() as tx:
            tx.mark_erasing()
        erasing.finish(store._place)
    return found[0]


def test_compact_says_what_is_left_and_what_to_do(known: Store) -> None:
    forget(known)
    with (
        reading(known.path),
        pytest.raises(LibraryWriteError, match=r"is reading.*, then: panorama compact$"),
    ):
        known.erase_forgotten()
    known.erase_forgotten()
    assert not left(known.path)


def test_merging_files_waits_for_no_reader(known: Store, monkeypatch) -> None:
    forget(known)
    index(known, "2.mp4", seed=2)
    monkeypatch.setattr(catalog, "BUSY_SECONDS", 60.0)
    with reading(known.path):
        began = time.monotonic()
        assert known.compact() > 0
        assert time.monotonic() - began < 20 and mark(known) is not None


def test_indexing_goes_on_while_somebody_reads(run, asked: Path) -> None:
    library = asked / "panorama-library"
    run("register", NAME, write_picture(asked / "her.png", thing_picture("red")))
    with reading(library):
        assert run("forget", NAME, "--yes").status == 3
        done = run("index", asked)
        assert done.status == 0 and "2 skipped, 0 failed" in done.err, done.err
        assert run("compact").status == 1
    assert run("compact").status == 0


def test_on_a_full_disk_it_is_forgotten_too(known: Store, monkeypatch) -> None:
    def full(_: object) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(catalog, "_scrubbed", full)
    with pytest.raises(NotYetErased, match=r"is full; free some space.*, then: panorama compact$") as told:
        known.forget_entity(NAME)
    assert "same command" not in str(told.value) and NAME not in known.entities()
    monkeypatch.undo()
    known.compact()
    assert not left(known.path)


def test_so_it_is_where_a_picture_cannot_be_deleted(known: Store, monkeypatch) -> None:
    def full(_: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "unlink", full)
    told = r"No space left on device; free some space, then: panorama compact$"
    with pytest.raises(NotYetErased, match=told):
        known.forget_entity(NAME)
    monkeypatch.undo()
    known.erase_forgotten()
    assert not left(known.path)


def test_so_it_is_where_somebody_writes_by_then(known: Store, monkeypatch) -> None:
    forget_entity = album.forget_entity
    with closing(sqlite3.connect(known.path / "catalog.sqlite")) as other:

        def writes(*given: str) -> None:
            forget_entity(*given)
            other.execute("BEGIN IMMEDIATE")

        monkeypatch.setattr(album, "forget_entity", writes)
        with pytest.raises(
            NotYetErased, match=r"locked; stop the process that writes to it, then: panorama compact$"
        ):
            known.forget_entity(NAME)
    known.erase_forgotten()
    assert not left(known.path)


def test_what_is_left_makes_no_change_wait_for_a_writer(known: Store, monkeypatch) -> None:
    forget(known)
    monkeypatch.setattr(catalog, "BUSY_SECONDS", 10.0)
    with (
        Store.open(known.path) as store,
        closing(sqlite3.connect(known.path / "catalog.sqlite")) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        erasing.try_to_finish(store._place)
        assert time.monotonic() - began < 5 and mark(store) is not None


def test_the_log_is_emptied_only_while_something_of_it_is_not_copied(known: Store, monkeypatch) -> None:
    """Otherwise SQLite before 3.51.3 may lose what others commit meanwhile (its WAL-reset bug)."""
    steps, begun = catalog._scrubbed, list[bool]()
    path = known.path / "catalog.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        class Looked:
            def __init__(self, connection: sqlite3.Connection) -> None:
                self._connection = connection

            def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
                if sql.startswith("PRAGMA wal_checkpoint"):
                    pages, copied = log_state(path)
                    begun.append(copied < pages)
                    if len(begun) < 3:
                        other.execute("BEGIN IMMEDIATE")  # whoever writes keeps the log from being emptied
                return self._connection.execute(sql, *values)

        monkeypatch.setattr(catalog, "_scrubbed", lambda connection: steps(Looked(connection)))
        with pytest.raises(NotYetErased):
            known.forget_entity(NAME)
        other.execute("ROLLBACK")
        with pytest.raises(LibraryWriteError):
            known.erase_forgotten()
        other.execute("ROLLBACK")
        known.erase_forgotten()
    assert begun == [True, True, True]
    assert mark(known) is None and not left(known.path)


def log_state(catalog_path: Path) -> tuple[int, int]:
    """How many pages the log holds, and how many of them are in the catalog.

    As in the index that connections share (https://sqlite.org/walformat.html). Another process reads it:
    closing it here would drop the locks that SQLite has on it.
    """
    held = subprocess.check_output(["cat", f"{catalog_path}-shm"])
    return struct.unpack_from("=I", held, 16)[0], struct.unpack_from("=I", held, 96)[0]


@pytest.fixture
def doubtful(run: Callable[..., Ran], asked: Path) -> Path:
    """An entity that some tracks may show, see tests/test_forgetting.py."""
    mixed = thing_picture("red")
    mixed[:, 51:] = thing_picture("green")[:, 51:]
    run("register", NAME, write_picture(asked / "mixed.png", mixed))
    return asked / "panorama-library"


def test_what_stays_is_said_all_the_same_with_a_status_of_its_own(run, doubtful: Path) -> None:
    with reading(doubtful):
        done = run("forget", NAME, "--with-sightings", "--yes")
        assert done.status == 3 and "same command" not in done.err
        assert done.err.startswith(f"forgot {NAME}, and the stored pictures of 0 tracks\n")
        assert "uncertain and keep their pictures; see: panorama query" in done.err
        assert "another process is reading" in done.err and done.err.endswith(", then: panorama compact\n")
        assert run("compact").status == 1 and left(doubtful)
    assert run("compact").status == 0 and not left(doubtful)


def test_statements_go_on_and_end_with_that_status(run, doubtful: Path) -> None:
    with reading(doubtful):
        both = f"FORGET ENTITY '{NAME}' WITH SIGHTINGS; FORGET ENTITY 'blue'"
        done = run("query", both, "--yes", "--json")
        assert (
            done.status == 3 and [row["action"] for rows in done.json_lines for row in rows] == ["forgot"] * 2
        )
        assert "uncertain and keep" in done.err and done.err.count("then: panorama compact") == 2
    assert run("query", "FORGET ENTITY 'red'", "--yes").status == 0 and not left(doubtful)


def test_python_is_told_by_an_error_that_holds_the_tracks(doubtful: Path) -> None:
    with open_library(doubtful) as library, reading(doubtful):
        with pytest.raises(NotYetErased) as told:
            library.forget(NAME, with_sightings=True)
        assert len(told.value.seen.uncertain) > 1
        result = library.query("FORGET ENTITY 'red'")
        assert not result.complete and len(result.warnings) == 1
        assert [entity.name for entity in library.entities()] == ["blue", "green"]
