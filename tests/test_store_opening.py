"""A library is created, opened, refused where it is none or damaged, and migrated from older versions."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sqlite3
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from store_samples import exemplar, index

import panorama
from panorama.errors import (
    LibraryDamaged,
    LibraryDiskFull,
    LibraryNotFound,
    LibraryVersionError,
    LibraryWriteError,
    UsageError,
)
from panorama.store import Store, Zone, opening
from panorama.store.catalog import connections, database
from panorama.store.catalog.database import Catalog
from panorama.store.catalog.migrations import MIGRATIONS, SCHEMA_VERSION, VIEWS


def test_open_refuses_a_folder_without_a_library(tmp_path):
    with pytest.raises(LibraryNotFound, match=r"no library at .*nothing.* index"):
        Store.open(tmp_path / "nothing")


@pytest.mark.parametrize("how", [partial(Store.create, exist_ok=True), Store.open])
def test_who_comes_while_another_process_creates_the_library_opens_that(tmp_path, monkeypatch, how):
    """The catalog that was there by then was taken for something else in the way of a library."""
    is_taken = opening.is_taken

    def after_another(root):
        monkeypatch.undo()
        Store.create(root).close()
        return is_taken(root)

    monkeypatch.setattr(opening, "is_taken", after_another)
    with how(tmp_path / "x") as store:
        assert store.entities() == []


def test_what_another_process_creates_at_once_is_waited_for(tmp_path, monkeypatch):
    """SQLite refuses at once to begin the log of a new file that another one writes: "database is locked"."""
    other = sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(time, "sleep", lambda _: other.execute("COMMIT"))
    with contextlib.closing(connections.connect(tmp_path / "catalog.sqlite", True, False)) as mine:
        assert mine.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


@pytest.mark.parametrize("kind", ["a file", "a folder with something else in it"])
def test_what_is_no_library_and_cannot_become_one_is_said_to_be_that(tmp_path, kind):
    """The advice was to make a library there, which was then refused."""
    taken = tmp_path / "taken"
    if kind == "a file":
        taken.write_text("a letter")
    else:
        taken.mkdir()
        (taken / "letter.txt").write_text("a letter")
    for refused in (Store.open, panorama.open):
        with pytest.raises(LibraryNotFound, match=f"taken is not a library but {kind}; name"):
            refused(taken)
    with pytest.raises(UsageError, match="exists and is not a library"):
        Store.create(taken)


def test_an_empty_folder_or_none_waits_for_its_first_index(tmp_path):
    assert not panorama.open(tmp_path).exists
    assert not panorama.open(tmp_path / "later").exists


def test_open_refuses_a_catalog_that_is_no_database(tmp_path):
    (tmp_path / "catalog.sqlite").write_text("this is a letter to a friend, not a database " * 50)
    with pytest.raises(LibraryNotFound, match=r"no library at .*not a database"):
        Store.open(tmp_path)


@pytest.mark.parametrize("kept", [100, 4096])
def test_a_damaged_catalog_gives_a_clear_error(tmp_path, kept):
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    catalog = tmp_path / "x" / "catalog.sqlite"
    content = catalog.read_bytes()
    catalog.write_bytes(content[:kept] + b"\xff" * (len(content) - kept))
    with (
        pytest.raises(LibraryDamaged, match=r"catalog.sqlite is damaged: .*malformed; put it back"),
        Store.open(tmp_path / "x") as store,
    ):
        store.snapshot()


@pytest.mark.parametrize("how", ["missing", "empty"])
@pytest.mark.parametrize("content", ["data", "album"])
def test_content_without_its_catalog_is_not_swept_away_by_a_new_library(tmp_path, content, how):
    """`index` took such a folder for an empty one, and deleted all that its new catalog did not list."""
    root = tmp_path / "x"
    with Store.create(root) as store:
        index(store, "a.mp4")
    if content == "album":
        for path in root.glob("data/*/*.parquet"):
            path.unlink()
        (root / "album" / "1").mkdir()
        (root / "album" / "1" / f"{'5' * 32}.jpg").write_bytes(b"a picture")
    kept = {path for path in root.rglob("*") if path.suffix in (".parquet", ".jpg")}
    assert kept
    catalog = root / "catalog.sqlite"
    catalog.rename(tmp_path / "lost")
    if how == "empty":
        catalog.write_bytes(b"")
    for made in (Store.open, partial(Store.create, exist_ok=True), partial(panorama.open, create=True)):
        with pytest.raises(LibraryDamaged, match=f"catalog.sqlite is {how} but .* put it back from a backup"):
            made(root)
    assert {path for path in root.rglob("*") if path.suffix in (".parquet", ".jpg")} == kept
    (tmp_path / "lost").rename(catalog)
    with Store.open(root) as store:
        assert store.info().counts["videos"] == 1


def test_a_catalog_that_is_no_database_beside_content_is_damaged(tmp_path):
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    (tmp_path / "x" / "catalog.sqlite").write_text("not what was here " * 500)
    with pytest.raises(LibraryDamaged, match=r"not a database; put it back from a backup"):
        Store.open(tmp_path / "x")


def test_damage_that_one_table_has_is_told_where_it_is_read(tmp_path):
    """What the driver raised while rows were fetched was taken for a defect of Panorama."""
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    catalog = tmp_path / "x" / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(catalog)) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()[0]
        length = connection.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(catalog.read_bytes())
    content[(page - 1) * length : page * length] = b"\xff" * length
    catalog.write_bytes(content)
    with (
        Store.open(tmp_path / "x") as store,
        pytest.raises(LibraryDamaged, match="put it back from a backup"),
    ):
        store.snapshot()


def test_create_refuses_a_library_that_is_there_unless_told(tmp_path):
    Store.create(tmp_path / "x").close()
    with pytest.raises(UsageError, match="already"):
        Store.create(tmp_path / "x")
    with Store.create(tmp_path / "x", exist_ok=True) as store:
        assert store.info().counts["videos"] == 0


def test_create_refuses_a_folder_that_holds_something_else(tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(UsageError, match="not a library"):
        Store.create(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "important"


def test_a_newer_library_asks_for_an_upgrade(tmp_path):
    Store.create(tmp_path / "x").close()
    with sqlite3.connect(tmp_path / "x" / "catalog.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.close()
    with pytest.raises(LibraryVersionError, match=r"newer Panorama.*99.*pip install --upgrade"):
        Store.open(tmp_path / "x")


def test_a_library_that_is_refused_is_left_as_it_was(tmp_path):
    """The refused catalog stayed open: its log lay beside the library afterwards, for good."""
    Store.create(tmp_path / "x").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "x" / "catalog.sqlite")) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
        connection.commit()
    before = sorted(path.name for path in (tmp_path / "x").iterdir())
    with pytest.raises(LibraryVersionError) as refused:
        Store.open(tmp_path / "x")
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == before, refused.value


OLD_VECTOR = np.array([0.6, 0.8], np.float32)


BEFORE_VIEWS = MIGRATIONS.index(VIEWS)


def older_library(root: Path, version: int = SCHEMA_VERSION - 1) -> None:
    """A library as an earlier version left it, with one entity of one picture in it."""
    root.mkdir()
    catalog = Catalog(root)
    catalog.migrate(MIGRATIONS[:version])
    with catalog.write() as tx:
        tx.run("INSERT INTO entities (name, created_at) VALUES ('old friend', 1.0)")
        tx.run(
            "INSERT INTO exemplars (entity_id, negative, source, picture, sha256, width, height, created_at)"
            " VALUES (1, 0, 'old.jpg', 'album/1/old.jpg', 'abc', 4, 3, 1.0)"
        )
        views = "" if version <= BEFORE_VIEWS else "1, "
        tx.run(f"INSERT INTO exemplar_vectors VALUES (1, 'model', 1, {views}:v)", v=OLD_VECTOR.tobytes())
    catalog.close()


@pytest.mark.parametrize("version", [BEFORE_VIEWS, SCHEMA_VERSION - 1])
def test_an_older_library_is_upgraded_and_keeps_its_rows(tmp_path, version):
    older_library(tmp_path / "x", version)
    with Store.open(tmp_path / "x") as store:
        assert store.entities() == ["old friend"]
        assert store.info().schema_version == SCHEMA_VERSION
        album = store.snapshot().album("model", 1)
        assert (album.exemplar_ids.tolist(), album.vectors.tolist()) == ([1], [OLD_VECTOR.tolist()])
        assert not album.denied.any() and album.categories == frozenset()
        store.put_zones([Zone("", "door", "line", ((0, 0), (0.5, 0.5)))])
        index(store, "a.mp4")


def test_an_older_library_opened_for_reading_says_what_to_do(tmp_path):
    older_library(tmp_path / "x")
    with pytest.raises(
        LibraryVersionError,
        match=rf"schema version {SCHEMA_VERSION - 1}, .* reads {SCHEMA_VERSION}.*write permission",
    ):
        Store.open(tmp_path / "x", write=False)


def test_a_command_that_is_told_can_be_copied_whatever_the_folder_is_called(tmp_path):
    """It was printed as it stands: copied into a shell, it ran what the name held."""
    folder = tmp_path / "my lib $(touch pwned)"
    with pytest.raises(LibraryNotFound) as none:
        Store.open(folder)
    words = shlex.split(str(none.value).partition("Make one: ")[2])
    assert words == ["panorama", "--library", str(folder), "index", "VIDEO..."]
    older_library(folder)
    with pytest.raises(LibraryVersionError) as older:
        Store.open(folder, write=False)
    words = shlex.split(str(older.value).partition("upgraded: ")[2])
    assert words == ["panorama", "--library", str(folder), "info"]


@pytest.mark.parametrize("version", [BEFORE_VIEWS, SCHEMA_VERSION - 1])
def test_an_upgrade_that_fails_leaves_what_its_own_program_opens(tmp_path, version):
    """Each step was kept by itself: where a later one failed, neither the old nor the new program could."""
    older_library(tmp_path / "x", version)
    catalog = Catalog(tmp_path / "x")
    with pytest.raises(LibraryWriteError):
        catalog.migrate(
            [*MIGRATIONS[:-1], ("CREATE TABLE half (x INTEGER)", "CREATE TABLE half (x INTEGER)")]
        )
    assert catalog.schema_version() == version
    with catalog.read() as tx:
        assert tx.row("SELECT 1 FROM sqlite_master WHERE name = 'half'") is None


def test_an_older_library_on_a_full_disk_asks_for_room_and_not_for_permission(tmp_path, monkeypatch):
    older_library(tmp_path / "x")
    version_of = Catalog.schema_version

    def without_room(catalog: Catalog) -> int:
        if catalog.writable:
            raise LibraryDiskFull("no room for what readers share")
        return version_of(catalog)

    monkeypatch.setattr(Catalog, "schema_version", without_room)
    with pytest.raises(LibraryDiskFull, match="the disk is full; free some space"):
        Store.open(tmp_path / "x")


def test_opening_does_not_wait_for_whoever_writes(tmp_path, monkeypatch):
    """It took the write lock to look for steps to run, and so waited for every change of another process."""
    Store.create(tmp_path / "x").close()
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with contextlib.closing(sqlite3.connect(tmp_path / "x/catalog.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Store.open(tmp_path / "x") as store:
            assert store.entities() == []


def test_a_migrated_catalog_equals_a_new_one(tmp_path):
    older_library(tmp_path / "old")
    Store.open(tmp_path / "old").close()
    Store.create(tmp_path / "new").close()

    def tables(root: Path) -> list:
        with sqlite3.connect(root / "catalog.sqlite") as connection:
            found = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        connection.close()
        return found

    assert tables(tmp_path / "old") == tables(tmp_path / "new")


def test_a_backup_in_the_place_of_a_moved_catalog_stays_as_it_is_beside_a_program_that_was_open(
    tmp_path: Path,
) -> None:
    """As docs/library.md says. Copied over the old catalog, it got that program's log when this ended."""
    root, backup, old = tmp_path / "x", tmp_path / "backup", tmp_path / "old"
    with Store.create(root) as store:
        index(store, "a.mp4")
    shutil.copytree(root, backup)
    old.mkdir()
    with Store.open(root) as overlooked:
        overlooked.add_exemplars("lost", [exemplar()])
        for path in root.glob("catalog.sqlite*"):
            path.rename(old / path.name)
        shutil.copytree(backup, root, dirs_exist_ok=True)
        with pytest.raises(LibraryNotFound, match="was replaced by another; open it again"):
            overlooked.entities()
        with Store.open(root) as store:
            store.add_exemplars("kept", [exemplar()])
    with Store.open(root) as store:
        assert store.entities() == ["kept"]
