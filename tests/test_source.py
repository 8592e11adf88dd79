"""What indexing makes ready for queries: no more than they read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from store_samples import MODEL, index

from panorama.source import SnapshotVectors
from panorama.store import Store
from panorama.store import vectors as vectors_module


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
        def __init__(self, table, build=False) -> None:
            super().__init__(table, build=build)
            if build:
                built.append(table.exit)

    monkeypatch.setattr("panorama.source.VectorIndex", Noted)
    with Store.create(tmp_path / "library") as store:
        for number, exits in enumerate(held):
            index(store, f"{number}.mp4", exits=exits, seed=number)
        embedder = SimpleNamespace(hash=MODEL, exits=3)
        SnapshotVectors(store, store.snapshot(), embedder).prepare()
        folders = [folder.name for folder in (tmp_path / "library" / "index").iterdir()]
    assert built == indexed
    assert sorted(int(name.rsplit("-e", 1)[1]) for name in folders) == cached
