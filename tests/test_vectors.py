"""A table holds the stored vectors; the files in index/ never change an answer."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import MODEL, embed_again, index, table_of, unit_vectors

from panorama.store import Store, pack_ids
from panorama.store.files.locks import FileLock
from panorama.store.files.lost import ListedFile
from panorama.store.upkeep import rewrite
from panorama.store.vectors import inverted, vector_cache
from panorama.store.vectors.index import VectorIndex
from panorama.store.vectors.vector_table import VectorTable, read_crop_ids


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


# -- tables and their cache


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**20), st.lists(st.integers(1, 9), max_size=4, unique=True), st.booleans())
def test_rows_are_found_by_crop_whatever_their_order(seed, segments, in_order):
    rng = np.random.default_rng(seed)
    ids = [pack_ids(s, np.arange(rng.integers(1, 30))) for s in segments]
    crop_ids = rng.permutation(np.concatenate([*ids, np.zeros(0, np.int64)]))
    table = table_of(np.sort(crop_ids) if in_order else crop_ids, unit_vectors(len(crop_ids), seed))
    asked = np.concatenate([table.crop_ids[::-1], [-1, 2**60]])
    assert table.rows_of(asked).tolist() == [*reversed(range(len(table))), -1, -1]


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
    assert len(table) == 0 and table.rows_of(pack_ids(1, [0, 1])).tolist() == [-1, -1]
    assert VectorIndex(table).nearest(unit_vectors(1)[0], 3) is None


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


def test_what_was_killed_while_it_wrote_leaves_with_the_next_that_writes(store):
    index(store, "a.mp4", seed=1)
    loaded(store)
    (folder,) = (path.parent for path in (store.path / "index").rglob("manifest.json"))
    half, codes = folder / ".tmp-99-manifest.json", folder / ".tmp-i7.faiss"
    for path in (half, codes):
        path.write_bytes(b"half")
    index(store, "b.mp4", seed=2)
    loaded(store)
    assert (half.exists(), codes.exists()) == (False, True), "what is under another lock stays"


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
    store.remove_videos(["1.mp4"])
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


def test_the_inverted_file_of_before_an_older_catalog_was_put_back_finds_what_there_is(
    store, tmp_path, monkeypatch
):
    """Also where a video was removed between, so that no two files of one number were ever compared."""
    monkeypatch.setattr(rewrite, "drop_dead", lambda place: None)  # killed before it came to index/
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
        restored.remove_videos(["0.mp4"])
        restored.remove_videos(["1.mp4"])
        assert len(loaded(restored)) == 300  # the cache is written anew, for the crops that are left
        index(restored, "4.mp4", seed=4, tracks=900)
        table = loaded(restored)
        expected = np.concatenate([unit_vectors(300, 2), unit_vectors(900, 4)])
        np.testing.assert_array_equal(table.vectors, expected)
        found = VectorIndex(table, flat_rows=100, exact_rows=10).near(table.vectors, np.full(1200, 0.9999))
        assert all(row in near for row, near in enumerate(found)), "each finds itself"


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
    index(store, "1.mp4", content="changed", seed=1, tracks=0, exits=())
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
        embed_again(store, 1, part, unit_vectors(3)[: len(part)])
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


def test_who_writes_the_cache_and_does_not_end_costs_the_cache_and_not_the_answer(store, monkeypatch):
    """A query waited for a suspended one, for ever and without a word."""
    index(store, "a.mp4", seed=1)
    folder = vector_cache.cache_folder(store.path, MODEL, 1)
    folder.mkdir(parents=True)
    locks = [FileLock.take(folder / name) for name in ("lock", "ivf.lock")]
    end = threading.Timer(5.0, lambda: [lock.release(keep_file=True) for lock in locks])
    end.start()
    for module in (vector_cache, inverted):
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.1, raising=False)
    asked: list[str] = []
    np.testing.assert_array_equal(loaded(store).vectors, unit_vectors(3, 1))
    facts = inverted._Facts(MODEL, 1, 3, 1, (1,), 0.0)
    inverted._save(folder, None, np.zeros(3, vector_cache.ROW), facts, lambda: bool(asked.append("stored")))
    assert end.is_alive() and not asked
    end.cancel()
    assert [path.name for path in folder.iterdir() if path.suffix != ".lock"] == ["lock"]


def test_a_table_follows_random_changes(store):
    """Whatever is indexed, replaced, removed and compacted, the cache equals the Parquet files."""
    rng = np.random.default_rng(6)
    seeds: dict[str, int] = {}
    for turn in range(14):
        name = f"{rng.integers(5)}.mp4"
        action = rng.integers(4)
        if action == 0 and name in seeds:
            store.remove_videos([name])
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
            rows = np.flatnonzero(table.crop_ids >> 32 == segment)
            np.testing.assert_array_equal(table.vectors[rows], unit_vectors(3, seeds[name]))
