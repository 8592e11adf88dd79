"""Vectors and codes of what was forgotten do not come back, whoever computed them before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from store_samples import MODEL, data_files, exemplar, index, unit_vectors
from test_forgotten_bytes import (
    NOBODY,
    indexed_anew_beside_a_merged_file,
    later,
    removed_from_a_merged_file,
    searched,
    traces,
)

from panorama.store import Store, pack_ids
from panorama.store.files import crops
from panorama.store.upkeep import rewrite
from panorama.store.vectors.index import VectorIndex
from panorama.store.vectors.vector_table import VectorTable


def test_a_query_that_began_before_does_not_bring_vectors_back(store) -> None:
    """It fills index/ from what it sees, after the video was removed; that goes with the files."""
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    with Store.open(store.path) as other:
        before = other.snapshot()
        store.remove_videos(["1.mp4"])
        searched(other, before)
        assert "index" in traces(store, 1)
        del before
    later(store)
    store.compact()
    assert traces(store, 1) == set()


def kept_by_a_query(store: Store, segments: list[int]) -> int:
    """Commits deeper vectors of all crops that some videos had, from pictures that were read before."""
    with store.append_embeddings(MODEL, 2) as writer:
        for segment in segments:
            ids = pack_ids(segment, [0, 1, 2])
            writer.add(ids, ids, unit_vectors(3, 100 + segment))
        return len(writer.commit())


def deeper(store: Store) -> list[int]:
    """The crops with such a vector that queries see, and nothing else that is in the files."""
    rows = [pq.read_table(file.path).to_pydict() for file in store.snapshot().embeddings.get((MODEL, 2), ())]
    found = [crop for file in rows for crop in file["crop_id"]]
    assert VectorTable.load(store.snapshot(), MODEL, 2).crop_ids.tolist() == sorted(found)
    every = (store.path / "data/embeddings").glob("*-e2.parquet")
    assert sum(pq.read_metadata(path).num_rows for path in every) == len(found)
    return sorted(found)


def test_vectors_that_a_query_computed_before_do_not_come_back(store) -> None:
    """Those of forgotten tracks were listed when it was done, and stayed, also after `compact`."""
    for number in (1, 2):
        index(store, f"{number}.mp4", seed=number)
    store.add_exemplars("cat", [exemplar()])
    store.forget_entity("cat", pack_ids(1, [0]))
    with Store.open(store.path) as other:
        assert kept_by_a_query(other, [1, 2]) == 5
    assert deeper(store) == [*pack_ids(1, [1, 2]), *pack_ids(2, [0, 1, 2])]
    store.add_exemplars("cat", [exemplar()])
    store.forget_entity("cat", pack_ids(2, [0, 1, 2]))
    files = data_files(store)
    assert kept_by_a_query(store, [2]) == 0
    assert data_files(store) == files, "none without a row"
    assert deeper(store) == pack_ids(1, [1, 2]).tolist()


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_vectors_that_a_query_keeps_while_tracks_are_forgotten_go_too(store, monkeypatch, turn) -> None:
    """Whichever file is being rewritten: files that were listed after the work began were not looked at."""
    for number in (1, 2):
        index(store, f"{number}.mp4", seed=number)
    store.add_exemplars("cat", [exemplar()])
    rewriting, turns = rewrite._rows_of, [0]

    def beside(*given: Any) -> Any:
        if turns[0] == turn:
            kept_by_a_query(store, [1, 2])
        turns[0] += 1
        return rewriting(*given)

    monkeypatch.setattr(rewrite, "_rows_of", beside)
    store.forget_entity("cat", np.concatenate([pack_ids(1, [0]), pack_ids(2, [2])]))
    assert turns[0] > turn
    assert deeper(store) == [*pack_ids(1, [1, 2]), *pack_ids(2, [0, 1])]


@pytest.mark.parametrize("merged", [False, True])
def test_what_is_forgotten_as_vectors_are_committed_is_noticed(store, monkeypatch, merged) -> None:
    """Between the question which crops are stored and the transaction that lists their vectors."""
    for number in (1, 2, 3):
        index(store, f"{number}.mp4", seed=number)
    store.add_exemplars("cat", [exemplar()])
    find = crops.find_lacking

    def changed(*given: Any) -> Any:
        found = find(*given)
        monkeypatch.setattr(crops, "find_lacking", find)
        if merged:
            store.compact()
        store.forget_entity("cat", pack_ids(1, [0]))
        store.remove_videos(["2.mp4"])
        return found

    monkeypatch.setattr(crops, "find_lacking", changed)
    assert kept_by_a_query(store, [1, 2, 3]) == 5
    assert deeper(store) == [*pack_ids(1, [1, 2]), *pack_ids(3, [0, 1, 2])]


def test_vectors_stay_where_crops_were_only_merged(store, monkeypatch) -> None:
    """Nothing is computed in vain."""
    for number in (1, 2):
        index(store, f"{number}.mp4", seed=number)
    find = crops.find_lacking

    def merged(*given: Any) -> Any:
        found = find(*given)
        monkeypatch.setattr(crops, "find_lacking", find)
        assert store.compact()
        return found

    monkeypatch.setattr(crops, "find_lacking", merged)
    assert kept_by_a_query(store, [1, 2]) == 6


@pytest.mark.parametrize("case", [removed_from_a_merged_file, indexed_anew_beside_a_merged_file])
def test_vectors_of_a_video_that_was_taken_out_do_not_come_back(store, case) -> None:
    """They lay in a file with those of others until `compact`."""
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    case(store)
    assert kept_by_a_query(store, [1, 2, 3]) == 6
    assert deeper(store) == [*pack_ids(1, [0, 1, 2]), *pack_ids(3, [0, 1, 2])]


@pytest.mark.parametrize("gone", ["g1.crops", "i1.rows"])
def test_a_file_of_index_that_a_user_deletes_meanwhile_keeps_none_of_the_others(
    store, monkeypatch, gone
) -> None:
    """index/ may be deleted at any time; what was left of it was taken for deleted, too."""
    for number in range(2):
        index(store, f"{number}.mp4", seed=number, tracks=300)
    VectorIndex(searched(store), flat_rows=100, exact_rows=10, build=True)
    (folder,) = (store.path / "index").glob("*-e1")
    read = np.fromfile

    def deleted(path: Path, *given: Any) -> Any:
        if path.name == gone:
            path.unlink(missing_ok=True)
        return read(path, *given)

    monkeypatch.setattr(np, "fromfile", deleted)
    store.remove_videos(["1.mp4"])
    assert sorted(path.name for path in folder.iterdir()) == ["ivf.lock", "lock"]


def test_codes_of_a_removed_video_go_too(store) -> None:
    for number in range(2):
        index(store, f"{number}.mp4", seed=number, tracks=300)
    assert VectorIndex(searched(store), flat_rows=100, exact_rows=10, build=True).kind != "exact"
    store.remove_videos(["1.mp4"])
    assert not list((store.path / "index").rglob("i[0-9]*.*"))


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.remove_videos(["1.mp4"]),
        lambda store: store.forget_entity("cat", pack_ids(2, [0])),
    ],
)
@pytest.mark.parametrize("merged", [False, True])
def test_codes_that_are_being_made_when_crops_are_erased_are_not_stored(store, change, merged) -> None:
    """`index` trains for minutes in a large library, from what it saw when it began.

    What was forgotten meanwhile came back in the codes, and stayed.
    """
    for number in range(2):
        index(store, f"{number}.mp4", seed=number, tracks=300)
    store.add_exemplars("cat", [exemplar()])
    if merged:
        store.compact()
    with Store.open(store.path) as other:
        before = other.snapshot()
        table = searched(other, before)
        changes = [change]

        def wait() -> None:
            if changes:
                changes.pop()(store)

        VectorIndex(
            table,
            flat_rows=100,
            exact_rows=10,
            build=True,
            wait=wait,
            is_stored=lambda: other.is_stored(before),
        )
    assert not changes and not list((store.path / "index").rglob("i[0-9]*.*"))


def test_codes_that_are_being_made_while_other_videos_come_are_stored(store) -> None:
    index(store, "0.mp4", tracks=300)
    before = store.snapshot()
    table = searched(store, before)
    index(store, "1.mp4", seed=1)
    VectorIndex(table, flat_rows=100, exact_rows=10, build=True, is_stored=lambda: store.is_stored(before))
    assert list((store.path / "index").rglob("i[0-9]*.*"))


def test_codes_stay_where_a_video_is_indexed_anew(store) -> None:
    """As before, until a fifth of them means nothing; forgetting with sightings takes them all."""
    for number in range(2):
        index(store, f"{number}.mp4", seed=number, tracks=300)
    VectorIndex(searched(store), flat_rows=100, exact_rows=10, build=True)
    index(store, "1.mp4", settings="6 fps", seed=1, tracks=300)
    later(store)
    store.add_exemplars("cat", [exemplar()])
    assert list((store.path / "index").rglob("i[0-9]*.*"))
    store.forget_entity("cat", NOBODY)
    assert not list((store.path / "index").rglob("i[0-9]*.*"))


def test_codes_stay_where_only_files_were_merged(store) -> None:
    """To train them anew takes minutes in a large library."""
    for number in range(2):
        index(store, f"{number}.mp4", seed=number, tracks=300)
    VectorIndex(searched(store), flat_rows=100, exact_rows=10, build=True)
    before = sorted((store.path / "index").rglob("i[0-9]*.*"))
    store.compact()
    later(store)
    store.add_exemplars("cat", [exemplar()])
    assert len(list((store.path / "data" / "crops").iterdir())) == 1
    assert before and sorted((store.path / "index").rglob("i[0-9]*.*")) == before
