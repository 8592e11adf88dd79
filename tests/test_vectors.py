"""Search finds what comparing every row finds; the files in index/ never change an answer."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import MODEL, clustered, index, pairs, table_of, unit_vectors

from panorama.store import Store, pack_ids, vector_cache
from panorama.store.lost import ListedFile
from panorama.store.vectors import Restriction, VectorIndex, VectorTable, read_crop_ids


def loaded(store: Store) -> VectorTable:
    return VectorTable.load(store.snapshot(), MODEL, 1)


def copied(table: VectorTable) -> VectorTable:
    """The same rows in memory, whatever becomes of the files that they are mapped from."""
    names = ("crop_ids", "track_ids", "prints", "vectors")
    return dataclasses.replace(table, **{name: getattr(table, name).copy() for name in names})


def same(a: VectorTable, b: VectorTable) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("crop_ids", "track_ids", "prints", "vectors")
    )


# -- search against brute force


@st.composite
def searches(draw):
    """A table in any order, queries, and a restriction or none."""
    seed = draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    segments = draw(st.lists(st.integers(1, 9), min_size=0, max_size=4, unique=True))
    ids = [pack_ids(s, np.arange(rng.integers(1, 30))) for s in segments]
    crop_ids = rng.permutation(np.concatenate([*ids, np.zeros(0, np.int64)]))
    if draw(st.booleans()):
        crop_ids = np.sort(crop_ids)
    # Few distinct vectors, so that there are ties.
    vectors = unit_vectors(5, seed)[rng.integers(5, size=len(crop_ids))]
    table = table_of(crop_ids, vectors.reshape(-1, 8))
    queries = np.concatenate([unit_vectors(2, seed + 1), unit_vectors(5, seed)[:1]])
    some_crops = rng.choice(crop_ids, rng.integers(0, len(crop_ids) + 1)) if len(crop_ids) else crop_ids
    restrict = draw(
        st.sampled_from(
            [
                None,
                Restriction(crop_ids=np.append(some_crops, -5)),
                Restriction(segments=np.array([1, 2, 3, 77])),
                Restriction(crop_ids=some_crops, segments=np.array([2, 4])),
            ]
        )
    )
    return table, queries, restrict


def admitted(table: VectorTable, restrict: Restriction | None) -> np.ndarray:
    keep = np.ones(len(table), bool)
    if restrict is not None and restrict.crop_ids is not None:
        keep &= np.isin(table.crop_ids, restrict.crop_ids)
    if restrict is not None and restrict.segments is not None:
        keep &= np.isin(table.crop_ids >> 32, restrict.segments)
    return np.flatnonzero(keep)


@settings(deadline=None, max_examples=120)
@given(searches(), st.integers(1, 40))
def test_search_finds_the_best_k_in_order_with_ties_by_crop_id(search, k):
    table, queries, restrict = search
    found = VectorIndex(table).search(queries, k, restrict)
    rows = admitted(table, restrict)
    for q, query in enumerate(queries):
        similarity = np.round((table.vectors[rows] @ query).astype(np.float64), 5)
        best = rows[np.lexsort((table.crop_ids[rows], -similarity))][:k]
        mine = found.query_index == q
        np.testing.assert_allclose(found.similarity[mine], table.vectors[best] @ query, atol=1e-5)
        assert found.rows[mine].tolist() == best.tolist()


@settings(deadline=None, max_examples=120)
@given(searches(), st.floats(-1, 1))
def test_range_search_finds_exactly_the_rows_above(search, least):
    table, queries, restrict = search
    thresholds = np.array([least, least / 2, -2], np.float32)
    found = VectorIndex(table).range_search(queries, thresholds, restrict)
    rows = admitted(table, restrict)
    for q, query in enumerate(queries):
        similarity = table.vectors[rows] @ query
        mine = set(found.rows[found.query_index == q].tolist())
        # A similarity that equals the threshold to the last bit may fall on either side.
        assert (
            set(rows[similarity > thresholds[q] + 1e-5])
            <= mine
            <= set(rows[similarity > thresholds[q] - 1e-5])
        )


@settings(deadline=None, max_examples=60)
@given(searches())
def test_rows_are_found_by_crop_and_by_segment(search):
    table, _, _ = search
    asked = np.concatenate([table.crop_ids[::-1], [-1, 2**60]])
    assert table.rows_of(asked).tolist() == [*reversed(range(len(table))), -1, -1]
    segments = np.array([2, 3, 3, 99])
    assert table.rows_in(segments).tolist() == np.flatnonzero(np.isin(table.segments, segments)).tolist()


def test_a_search_larger_than_one_block_equals_a_small_one(monkeypatch):
    table = table_of(pack_ids(1, np.arange(3000)), clustered(3000))
    queries = clustered(3, seed=5)
    whole = VectorIndex(table)
    best, above = whole.search(queries, 50), whole.range_search(queries, 0.8)
    monkeypatch.setattr("panorama.store.vectors.BLOCK_ROWS", 170)
    assert pairs(whole.search(queries, 50)) == pairs(best)
    assert pairs(whole.range_search(queries, 0.8)) == pairs(above) and len(above) > 10


def test_bad_queries_are_refused():
    finder = VectorIndex(table_of(pack_ids(1, [0, 1]), unit_vectors(2)))
    with pytest.raises(ValueError, match=r"\(Q, 8\), got \(1, 3\)"):
        finder.search(np.zeros((1, 3), np.float32), 1)
    with pytest.raises(ValueError, match="k is at least 1"):
        finder.search(unit_vectors(1), 0)


# -- tables and their cache


def test_a_table_holds_the_stored_vectors_in_the_order_of_the_files(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    table = loaded(store)
    np.testing.assert_array_equal(table.vectors, np.concatenate([unit_vectors(3, k) for k in range(3)]))
    assert table.crop_ids.tolist() == [int(i) for s in (1, 2, 3) for i in pack_ids(s, [0, 1, 2])]
    assert same(table, loaded(store))
    assert np.array_equal(read_crop_ids(store.snapshot())[0], table.crop_ids)


def test_an_exit_without_vectors_is_an_empty_table(store):
    table = loaded(store)
    assert len(table) == 0 and len(VectorIndex(table).search(unit_vectors(2), 3)) == 0
    assert len(VectorIndex(table).range_search(unit_vectors(2), 0.0)) == 0


def test_deleting_the_index_changes_nothing(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    before = loaded(store)
    copy = copied(before)
    shutil.rmtree(store.path / "index")
    assert same(loaded(store), copy) and same(before, copy)


def test_new_segments_are_appended_and_old_ones_not_written_again(store):
    index(store, "a.mp4", seed=1)
    loaded(store)
    (file,) = (store.path / "index").rglob("g*.vectors")
    inode, size = file.stat().st_ino, file.stat().st_size
    index(store, "b.mp4", seed=2)
    table = loaded(store)
    (file,) = (store.path / "index").rglob("g*.vectors")
    assert (file.stat().st_ino, file.stat().st_size) == (inode, 2 * size)
    np.testing.assert_array_equal(table.vectors, np.concatenate([unit_vectors(3, 1), unit_vectors(3, 2)]))


def test_a_new_segment_is_read_once_and_nobody_waits_for_the_disk(store, monkeypatch):
    index(store, "a.mp4", seed=1)
    loaded(store)
    index(store, "b.mp4", seed=2)
    read: list[str] = []

    class Noticed(ListedFile):
        def __init__(self, path: str) -> None:
            read.append(path)
            super().__init__(path)

    monkeypatch.setattr(vector_cache, "ListedFile", Noticed)
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("the cache can be made again"))
    assert len(loaded(store)) == 6
    assert len(read) == 1
    assert len(loaded(store)) == 6  # from the cache
    assert len(read) == 1


@pytest.mark.parametrize("victim", ["crops", "tracks", "prints", "vectors", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "overwritten"])
def test_a_damaged_cache_is_made_again(store, victim, damage):
    for k in range(2):
        index(store, f"{k}.mp4", seed=k)
    expected = copied(loaded(store))
    (file,) = (store.path / "index").rglob(victim if "." in victim else f"g*.{victim}")
    if damage == "missing":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[:-3] if damage == "truncated" else bytes(len(content)))
    assert same(loaded(store), expected)
    assert same(loaded(store), expected)


def test_replaced_and_removed_videos_leave_the_table(store):
    for k in range(4):
        index(store, f"{k}.mp4", seed=k)
    loaded(store)
    store.remove_video("1.mp4")
    index(store, "2.mp4", content="changed", seed=9)
    expected = np.concatenate([unit_vectors(3, k) for k in (0, 3, 9)])
    np.testing.assert_array_equal(loaded(store).vectors, expected)
    shutil.rmtree(store.path / "index")
    np.testing.assert_array_equal(loaded(store).vectors, expected)


def backed_up_and_gone_on(store, backup):
    """Copies a library without its index/, then indexes another video and fills the cache; where it lies."""
    path = store.path
    store.close()
    shutil.copytree(path, backup, ignore=shutil.ignore_patterns("index"))
    with Store.open(path) as later:
        index(later, "b.mp4", seed=2)
        loaded(later)
    return path


def test_rows_of_before_an_older_catalog_was_put_back_do_not_count(store, tmp_path):
    """A backup over a library whose index/ stayed: what came next got the vectors of what had been there."""
    index(store, "a.mp4", seed=1)
    path = backed_up_and_gone_on(store, tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
    with Store.open(path) as restored:
        index(restored, "c.mp4", seed=3)
        expected = np.concatenate([unit_vectors(3, 1), unit_vectors(3, 3)])
        np.testing.assert_array_equal(loaded(restored).vectors, expected)
        np.testing.assert_array_equal(loaded(restored).vectors, expected)
        # The cache took them in: it does not take itself for further than the catalog that was put back.
        (manifest,) = (path / "index").rglob("manifest.json")
        (files,) = restored.snapshot().embeddings.values()
        assert all(file.name in manifest.read_text() for file in files)


def test_the_inverted_file_of_before_an_older_catalog_was_put_back_finds_what_there_is(store, tmp_path):
    """Also where a video was removed between, so that no two files of one number were ever compared."""
    for k in range(3):
        index(store, f"{k}.mp4", seed=k, tracks=300)
    path = store.path
    store.close()
    shutil.copytree(path, tmp_path / "backup", ignore=shutil.ignore_patterns("index"))
    with Store.open(path) as later:
        index(later, "3.mp4", seed=3, tracks=900)
        assert VectorIndex(loaded(later), flat_rows=100, exact_rows=10, build=True).kind != "exact"
    shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
    with Store.open(path) as restored:
        restored.remove_video("0.mp4")
        restored.remove_video("1.mp4")
        assert len(loaded(restored)) == 300  # the cache is written anew, for the crops that are left
        index(restored, "4.mp4", seed=4, tracks=900)
        table = loaded(restored)
        expected = np.concatenate([unit_vectors(300, 2), unit_vectors(900, 4)])
        np.testing.assert_array_equal(table.vectors, expected)
        found = VectorIndex(table, flat_rows=100, exact_rows=10).range_search(table.vectors, 0.9999)
        np.testing.assert_array_equal(found.rows, np.arange(1200), "each finds itself")


def test_what_is_kept_of_a_data_file_is_not_taken_for_another_of_its_number(store, tmp_path):
    """Sorted columns, too: a restored library counts segments from where the backup was made."""
    index(store, "a.mp4", seed=1)
    path = backed_up_and_gone_on(store, tmp_path / "backup")
    with Store.open(path) as later:
        before = set(later.snapshot().files["tracks"])
    shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
    with Store.open(path) as restored:
        index(restored, "c.mp4", seed=3)
        after = set(restored.snapshot().files["tracks"])
    assert len(before) == len(after) == 2 and len(before & after) == 1, "a.mp4's is the same"


def test_no_crop_is_lost_where_only_small_files_are_compacted(store):
    """Their crops were in the cache already, but under files that are not listed any more."""
    index(store, "large.mp4", seed=1, tracks=400)
    for k in range(4):
        index(store, f"{k}.mp4", seed=k + 2)
    before = loaded(store)
    (files,) = store.snapshot().embeddings.values()
    store.compact(target_bytes=2 * Path(files[0].path).stat().st_size - 2)
    (merged,) = store.snapshot().embeddings.values()
    assert merged[0].name == files[0].name and len(merged) == 2
    for _ in range(2):
        table = loaded(store)
        np.testing.assert_array_equal(table.crop_ids, before.crop_ids)
        np.testing.assert_array_equal(table.vectors, before.vectors)
    index(store, "next.mp4", seed=9)
    assert len(loaded(store)) == len(before) + 3


def test_rows_of_dead_segments_in_compacted_files_are_left_out(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    store.compact()
    loaded(store)
    store.remove_video("1.mp4")
    assert store.snapshot().has_dead_rows
    expected = np.concatenate([unit_vectors(3, 0), unit_vectors(3, 2)])
    np.testing.assert_array_equal(loaded(store).vectors, expected)
    assert np.array_equal(read_crop_ids(store.snapshot())[0], loaded(store).crop_ids)
    store.compact()
    np.testing.assert_array_equal(loaded(store).vectors, expected)


def test_an_older_snapshot_sees_its_own_rows_beside_a_newer_cache(store):
    index(store, "a.mp4", seed=1)
    older = store.snapshot()
    index(store, "b.mp4", seed=2)
    index(store, "a.mp4", content="changed", seed=3)
    newer = loaded(store)
    np.testing.assert_array_equal(VectorTable.load(older, MODEL, 1).vectors, unit_vectors(3, 1))
    np.testing.assert_array_equal(newer.vectors, np.concatenate([unit_vectors(3, 2), unit_vectors(3, 3)]))
    assert same(loaded(store), newer)


def test_a_crop_embedded_twice_is_one_row(store):
    index(store, "a.mp4", exits=())
    ids = pack_ids(1, [0, 1, 2])
    for part in (ids[:2], ids):
        with store.append_embeddings(MODEL, 1) as writer:
            writer.add(part, part, unit_vectors(3)[: len(part)])
            writer.commit()
    assert loaded(store).crop_ids.tolist() == ids.tolist()
    shutil.rmtree(store.path / "index")
    (store.path / "index").write_text("no folder, so no cache")
    assert loaded(store).crop_ids.tolist() == ids.tolist()


def test_a_full_disk_costs_the_cache_and_not_the_answer(store, monkeypatch):
    index(store, "a.mp4", seed=1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vector_cache, "write_atomically", full)
    np.testing.assert_array_equal(loaded(store).vectors, unit_vectors(3, 1))


def test_a_table_follows_random_changes(store):
    """Whatever is indexed, replaced, removed and compacted, the cache equals the Parquet files."""
    rng = np.random.default_rng(6)
    seeds: dict[str, int] = {}
    for turn in range(14):
        name = f"{rng.integers(5)}.mp4"
        action = rng.integers(4)
        if action == 0 and name in seeds:
            store.remove_video(name)
            del seeds[name]
        elif action == 1:
            store.compact()
        else:
            index(store, name, content=f"{name} {turn}", seed=turn)
            seeds[name] = turn
        table = loaded(store)
        segments = store.snapshot().videos
        by_segment = dict(zip(segments["segment"].to_pylist(), segments["video"].to_pylist(), strict=True))
        assert len(table) == 3 * len(seeds)
        for segment, name in by_segment.items():
            rows = table.rows_in(np.array([segment]))
            np.testing.assert_array_equal(table.vectors[rows], unit_vectors(3, seeds[name]))
