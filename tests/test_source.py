"""What indexing makes ready for queries: no more than they read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from store_samples import MODEL, embed_again, exemplar, index, unit_vectors

from panorama.answering.source import SnapshotVectors
from panorama.indexing.run import COMPACT_FILES, finish
from panorama.query.matching.passes import first_exit
from panorama.store import Store
from panorama.store.files.schema import pack_ids
from panorama.store.vectors import index as vectors_module


@pytest.mark.parametrize(
    ("held", "cached", "indexed"),
    [
        # Exits that each video has vectors at -> exits read by queries -> exits searched.
        ([(1, 2, 3), (1, 2, 3)], [3], [3]),
        ([(1, 2, 3), (1,)], [1, 2, 3], [1]),
        ([(1, 2), (1, 2)], [2], [2]),
        ([(1, 3), (1, 2)], [1, 2, 3], [1]),
    ],
)
def test_only_the_exit_that_matching_begins_at_gets_an_index(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held: list[tuple[int, ...]],
    cached: list[int],
    indexed: list[int],
) -> None:
    built = []

    class Noted(vectors_module.VectorIndex):
        def __init__(self, table, build=False, **more) -> None:
            super().__init__(table, build=build, **more)
            if build:
                built.append(table.exit)

    monkeypatch.setattr("panorama.answering.source.VectorIndex", Noted)
    with Store.create(tmp_path / "library") as store:
        for number, exits in enumerate(held):
            index(store, f"{number}.mp4", exits=exits, seed=number)
        embedder = SimpleNamespace(hash=MODEL, exits=3)
        SnapshotVectors(store, store.snapshot(), embedder).prepare()
        folders = [folder.name for folder in (tmp_path / "library" / "index").iterdir()]
    assert built == indexed
    assert sorted(int(name.rsplit("-e", 1)[1]) for name in folders) == cached


def test_an_index_over_crops_that_were_erased_meanwhile_is_not_stored(tmp_path: Path, monkeypatch) -> None:
    asked = []

    class Noted(vectors_module.VectorIndex):
        def __init__(self, table, build=False, is_stored=None, **more) -> None:
            super().__init__(table, **more)
            if build:
                asked.append(is_stored)

    monkeypatch.setattr("panorama.answering.source.VectorIndex", Noted)
    with Store.create(tmp_path / "library") as store:
        index(store, "a.mp4", exits=(1,))
        store.add_exemplars("cat", [exemplar()])
        finish(store, SimpleNamespace(hash=MODEL, exits=1))
        assert [is_stored() for is_stored in asked] == [True]
        store.forget_entity("cat", pack_ids(1, [0]))
        assert [is_stored() for is_stored in asked] == [False]


def test_crops_that_two_processes_took_deeper_at_once_do_not_stand_for_others(tmp_path: Path) -> None:
    """Three vectors of three crops, but two of one: matching began at an exit that a crop was missing at."""
    with Store.create(tmp_path / "library") as store:
        index(store, "a.mp4", exits=(1,))
        ids = pack_ids(1, [0, 1, 2])
        for part in (ids[:2], ids[1:2]):
            embed_again(store, 2, part, unit_vectors(3)[: len(part)])
        source = SnapshotVectors(store, store.snapshot(), SimpleNamespace(hash=MODEL, exits=2))
        assert source.counts() == (3, [3, 2])
        assert first_exit(*source.counts()) == 1
        with store.append_embeddings(MODEL, 2) as writer:
            writer.add(ids[2:], ids[2:], unit_vectors(3)[2:])
            writer.commit()
        source = SnapshotVectors(store, store.snapshot(), SimpleNamespace(hash=MODEL, exits=2))
        assert first_exit(*source.counts()) == 2


def test_what_ends_indexing_stands_back_for_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are merged and vectors made ready only while nobody asks, for as long as the gate says."""
    waited = []

    class Gate:
        def __init__(self, marks) -> None:
            self.asked = marks.is_asked

        def __enter__(self):
            return self

        def __exit__(self, *error: object) -> None:
            waited.append("over")

        def wait(self) -> None:
            with store.asking():
                waited.append(self.asked())

    monkeypatch.setattr("panorama.indexing.run.PauseGate", Gate)
    with Store.create(tmp_path / "library") as store:
        for number in range(COMPACT_FILES):
            index(store, f"{number}.mp4", exits=(1,), seed=number)
        finish(store, SimpleNamespace(hash=MODEL, exits=1))
        files = store.snapshot().files
    assert not files.pop("pictures")  # films have no names of pictures
    assert all(len(paths) == 1 for paths in files.values())
    # A piece of each of five tables and of every video at least, and the vectors.
    assert waited.count(True) >= 5 and waited[-1] == "over" and False not in waited
