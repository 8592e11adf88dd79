"""Locks keep their holders apart, whatever is deleted beside them and whoever made their files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from store_samples import MODEL, index

from panorama.store import Store
from panorama.store.files.locks import FileLock
from panorama.store.vectors import index_files
from panorama.store.vectors.vector_table import VectorTable


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "x") as made:
        index(made, "a.mp4")
        yield made


def test_who_waits_for_a_lock_of_the_index_while_it_is_cleared_gets_the_one_lock(store: Store) -> None:
    """Forgetting deleted the lock files: two processes wrote one cache, and queries read wrong rows in it."""
    folder = VectorTable.load(store.snapshot(), MODEL, 1).folder
    assert folder is not None
    for name in ("lock", "ivf.lock"):
        (folder / name).touch()
        waiting = os.open(folder / name, os.O_RDWR)
        index_files.clear(store._place)
        folder.mkdir(exist_ok=True)  # as a query does that has vectors to keep
        fcntl.flock(waiting, fcntl.LOCK_EX)
        assert FileLock.take_if_free(folder / name) is None
        os.close(waiting)


def test_a_folder_of_the_index_that_goes_meanwhile_is_no_error(store: Store, monkeypatch) -> None:
    """Its lock could not be made: `index` ended in FileNotFoundError beside `forget`."""
    monkeypatch.setattr(index_files, "index_folders", lambda path: [path / "gone-e1"])
    index_files.clear(store._place)
    index_files.drop_gone(store._place)


def test_a_lock_whose_file_a_user_deleted_leaves_that_of_the_next_holder(tmp_path: Path) -> None:
    """It deleted whatever had its name, and a third process took "the same" lock on yet another file."""
    first = FileLock.take(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    second = FileLock.take(tmp_path / "lock")
    first.release()
    assert FileLock.take_if_free(tmp_path / "lock") is None
    second.release()
    assert not (tmp_path / "lock").exists()
