"""Files of a library are written whole, in folders that are on the disk before they count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_samples import exemplar

from panorama import whole_files
from panorama.store import Store
from panorama.store.files import layout
from panorama.store.files.layout import write_atomically


def test_one_path_written_twice_at_once_holds_one_of_both(tmp_path: Path, monkeypatch) -> None:
    """Threads, and processes of equal number in containers, wrote one file: arrays held rows of both."""
    path, sync = tmp_path / "rows", os.fsync

    def slow(descriptor: int) -> None:
        monkeypatch.undo()
        write_atomically(path, b"another writer, which is done before this one")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    write_atomically(path, b"the first")
    assert path.read_bytes() == b"the first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def synced(monkeypatch) -> list[Path]:
    """The folders that were brought to the disk, in order."""
    seen: list[Path] = []
    for module in (layout, whole_files):
        monkeypatch.setattr(module, "sync_folder", seen.append)
    return seen


def test_the_folder_of_a_new_entity_is_on_the_disk_before_the_entity_is_listed(
    tmp_path: Path, synced: list[Path]
) -> None:
    """After a power cut the entity was listed, and its folder with all pictures could be missing."""
    with Store.create(tmp_path / "x") as store:
        synced.clear()
        store.add_exemplars("cat", [exemplar()])
        assert set(synced) == {store.path / "album", store.path / "album" / "1"}
        synced.clear()
        store.add_exemplars("cat", [exemplar(b"another picture")])
        assert synced == [store.path / "album" / "1"]


def test_the_folders_of_a_new_library_are_on_the_disk_before_it_takes_a_video(
    tmp_path: Path, synced: list[Path]
) -> None:
    with Store.create(tmp_path / "archive" / "x"):
        pass
    x = tmp_path / "archive" / "x"
    assert {tmp_path, tmp_path / "archive", x, x / "data"} <= set(synced)
    synced.clear()
    with Store.open(x):
        assert synced == []
