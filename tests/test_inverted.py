"""The inverted file finds what comparing every row finds, is built in pieces and used again."""

from __future__ import annotations

import dataclasses
import os
import shutil

import numpy as np
import pytest
from store_samples import MODEL, clustered, table_of, unit_vectors

from panorama.store import pack_ids
from panorama.store.vectors import inverted, inverted_training
from panorama.store.vectors.index import VectorIndex
from panorama.store.vectors.vector_table import VectorTable


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """12,000 rows in 12 segments, with an inverted file."""
    crop_ids = np.concatenate([pack_ids(s, np.arange(1000)) for s in range(1, 13)])
    table = table_of(crop_ids, clustered(12_000), tmp_path_factory.mktemp("ivf"))
    return table, VectorIndex(table, flat_rows=100, exact_rows=10, build=True)


QUERIES = clustered(40, seed=8)
LEAST = np.full(len(QUERIES), 0.85, np.float32)


def best(table: VectorTable, queries: np.ndarray, count: int, rows: np.ndarray | None = None) -> list:
    """Rows of the best of each query, by comparing every row of the table or of some."""
    rows = np.arange(len(table)) if rows is None else rows
    return [rows[np.argsort(-(table.vectors[rows] @ query), kind="stable")[:count]] for query in queries]


def above(table: VectorTable, queries: np.ndarray, least: float, rows: np.ndarray | None = None) -> list:
    """Rows at least so similar to each query, by comparing every row of the table or of some."""
    rows = np.arange(len(table)) if rows is None else rows
    return [rows[table.vectors[rows] @ query >= least] for query in queries]


def nearest(index: VectorIndex, queries: np.ndarray, count: int, rows: np.ndarray | None = None) -> list:
    return [index.nearest(query, count, rows) for query in queries]


def recall(found: list, truth: list) -> float:
    """The share of what is true that is among what is found; what is None is no answer."""
    held = [np.isin(true, near) for near, true in zip(found, truth, strict=True) if near is not None]
    assert len(held) == len(truth)
    return float(np.concatenate(held).mean())


def test_a_file_that_is_erased_while_it_is_added_to_is_made_anew(tmp_path, monkeypatch):
    """FORGET in another process deleted it between two looks, and `index` ended in an error of FAISS."""
    crop_ids, vectors = pack_ids(1, np.arange(6000)), clustered(6000)
    VectorIndex(table_of(crop_ids[:5000], vectors[:5000], tmp_path), flat_rows=100, build=True)
    load = inverted.InvertedFile.load

    def erased(table):
        found = load(table)
        for path in tmp_path.iterdir():
            path.unlink()
        return found

    monkeypatch.setattr(inverted.InvertedFile, "load", staticmethod(erased))
    index = VectorIndex(table_of(crop_ids, vectors, tmp_path), flat_rows=100, build=True)
    assert len(index._ivf._missing) == 0 and len(index._ivf._known) == 6000


def test_codes_that_another_process_writes_while_they_are_read_stand_for_no_other_crops(
    tmp_path, monkeypatch
):
    """Two processes wrote files of one name, in another order: old rows were read, then new codes."""
    crop_ids, vectors, order = pack_ids(1, np.arange(3000)), clustered(3000), np.arange(3000)[::-1]
    mine = table_of(crop_ids, vectors, tmp_path / "mine")
    theirs = table_of(crop_ids[order], vectors[order], tmp_path / "theirs")
    for table in (mine, theirs):
        VectorIndex(table, flat_rows=100, build=True)
    read = inverted.faiss.read_index

    def read_after_them(path, *how):
        for kind in ("rows", "faiss"):  # their manifest comes last, as in `_save`
            shutil.copyfile(tmp_path / "theirs" / f"i1.{kind}", tmp_path / "new")
            (tmp_path / "new").replace(tmp_path / "mine" / f"i1.{kind}")
        return read(path, *how)

    monkeypatch.setattr(inverted.faiss, "read_index", read_after_them)
    assert inverted.InvertedFile.load(mine) is None


def test_the_inverted_file_finds_what_comparing_every_row_finds(large):
    table, index = large
    assert index.kind == "IndexIVFScalarQuantizer" and VectorIndex(table).kind == "exact"
    assert recall(nearest(index, QUERIES, 20), best(table, QUERIES, 20)) >= 0.99
    found, truth = index.near(QUERIES, LEAST), above(table, QUERIES, 0.85)
    assert recall(found, truth) >= 0.99 and sum(map(len, truth)) > 500
    # What is found besides lies no deeper than codes are wrong by, so that little is compared in vain.
    lowest = min((table.vectors[rows] @ query).min() for rows, query in zip(found, QUERIES, strict=True))
    assert 0.8 < 0.85 - 2 * index._ivf._margin(QUERIES) <= lowest


def test_without_an_inverted_file_every_row_is_to_be_compared(large):
    exact = VectorIndex(large[0])
    assert exact.near(QUERIES, LEAST) is None and exact.nearest(QUERIES[0], 3) is None
    assert exact.codes(0.85) is None


def test_queries_of_another_length_are_refused(large):
    with pytest.raises(ValueError, match=r"\(Q, 16\), got \(1, 3\)"):
        large[1].nearest(np.zeros(3, np.float32), 1)


def test_the_inverted_file_looks_into_few_lists_where_that_is_enough(large):
    index = large[1]
    file = index._ivf
    assert file is not None and file._probes(0.85) < 0.2 * file._index.nlist
    assert file._probes(-0.5) is None and index.near(QUERIES, np.full(40, -0.5)) is None


@pytest.mark.parametrize("share", [0.01, 0.1, 0.6])
def test_the_inverted_file_finds_within_some_rows(large, share):
    table, index = large
    rng = np.random.default_rng(3)
    some = np.sort(rng.choice(len(table), int(share * len(table)), replace=False))
    for rows in (some, np.flatnonzero(np.isin(table.crop_ids >> 32, [2, 5]))):
        found, truth = index.near(QUERIES, LEAST, rows), above(table, QUERIES, 0.85, rows)
        assert recall(found, truth) >= 0.99
        assert np.isin(np.concatenate(found), rows).all()
        found = nearest(index, QUERIES, 10, rows)
        told = [number for number, near in enumerate(found) if near is not None]
        # So few of 100 rows are in the lists looked at first that comparing these is quicker.
        assert len(told) == len(QUERIES) or len(rows) < 200
        truth = best(table, QUERIES, 10, rows)
        if told:
            assert recall([found[k] for k in told], [truth[k] for k in told]) >= 0.99
            assert np.isin(np.concatenate([found[k] for k in told]), rows).all()


def test_the_best_are_sought_as_deep_as_they_lie(large):
    table, index = large
    file = index._ivf
    for queries in (table.vectors[:60], unit_vectors(60, seed=11, dim=table.dim)):
        shares, depths = [], []
        for query in queries:
            for count in (5, 60):
                truth = best(table, query[None], count)
                shares.append(recall([index.nearest(query, count)], truth))
                level = file._reached(query[None], count, None)
                # A bound: so much the best of all reach at least.
                assert level is not None and level <= table.vectors[truth[0][-1]] @ query + 1e-6
                depths.append(file._probes(level) or file._index.nlist)
        assert np.mean(shares) >= 0.99
        assert np.mean(depths[::2]) < np.mean(depths[1::2])
    few = np.arange(25)
    assert file._reached(queries[:1], 30, few) is None and index.nearest(queries[0], 30, few) is None


def test_a_small_search_takes_one_thread_and_a_large_one_all(large, monkeypatch):
    index = large[1]
    file, seen = index._ivf, []

    class Watched:
        def __getattr__(self, name):
            if name in ("search", "range_search"):
                seen.append(inverted.faiss.omp_get_max_threads())
            return getattr(plain, name)

    plain = file._index
    monkeypatch.setattr(file, "_index", Watched())
    before = inverted.faiss.omp_get_max_threads()
    inverted.faiss.omp_set_num_threads(3)
    try:
        few = [*nearest(index, QUERIES, 20), *index.near(QUERIES, LEAST)]
        assert len(seen) >= 2 and set(seen) == {1}
        monkeypatch.setattr(inverted, "MANY_CODES", 100)
        seen.clear()
        many = [*nearest(index, QUERIES, 20), *index.near(QUERIES, LEAST)]
        assert len(seen) >= 2 and set(seen) == {3} and inverted.faiss.omp_get_max_threads() == 3
        seen.clear()
        index.near(QUERIES, LEAST, np.arange(3))  # most codes are passed over
        assert set(seen) == {1}
    finally:
        inverted.faiss.omp_set_num_threads(before)
    assert list(map(set, few)) == list(map(set, many))


def test_an_inverted_file_is_used_again_by_the_next_process(large):
    table, index = large
    again = VectorIndex(table, flat_rows=100, exact_rows=10)
    assert again.kind == "IndexIVFScalarQuantizer"
    for mine, theirs in zip(nearest(again, QUERIES, 20), nearest(index, QUERIES, 20), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_rows_that_came_later_and_rows_that_went_are_respected(large, tmp_path):
    table, _ = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    kept = table.crop_ids >> 32 != 3
    later = clustered(400, seed=21)
    changed = table_of(
        np.concatenate([table.crop_ids[kept], pack_ids(20, np.arange(400))]),
        np.concatenate([table.vectors[kept], later]),
        folder,
    )
    index = VectorIndex(changed, flat_rows=100, exact_rows=10)
    assert index.kind != "exact"
    queries = np.concatenate([later[:20], QUERIES])
    assert recall(nearest(index, queries, 10), best(changed, queries, 10)) >= 0.99
    found = index.near(queries, np.full(len(queries), 0.85))
    assert recall(found, above(changed, queries, 0.85)) >= 0.99


def test_codes_of_other_vectors_do_not_stand_for_crops_of_the_same_numbers(large, tmp_path):
    """After an older catalog was put back, crops got the numbers of others, whose codes stayed."""
    table, _ = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    vectors = table.vectors.copy()
    others = clustered(1000, seed=22, clusters=12)
    vectors[3000:4000] = others
    changed = table_of(table.crop_ids, vectors, folder)
    index = VectorIndex(changed, flat_rows=100, exact_rows=10)
    assert index.kind != "exact"
    assert recall(nearest(index, others[:40], 10), best(changed, others[:40], 10)) >= 0.99
    found, truth = index.near(others[:40], LEAST), above(changed, others[:40], 0.85)
    assert recall(found, truth) >= 0.99 and sum(map(len, truth)) > 500
    assert index._ivf is not None and index._ivf.worn


def test_building_again_adds_what_is_missing(large, tmp_path):
    table, _ = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    grown = table_of(
        np.concatenate([table.crop_ids, pack_ids(20, np.arange(2000))]),
        np.concatenate([table.vectors, clustered(2000, seed=21)]),
        folder,
    )
    index = VectorIndex(grown, flat_rows=100, exact_rows=10, build=True)
    assert index._ivf is not None and not index._ivf.worn and not len(index._ivf._missing)
    assert recall(nearest(index, QUERIES, 20), best(grown, QUERIES, 20)) >= 0.99
    assert len(list(folder.glob("i*.faiss"))) == 1


def test_a_file_is_on_the_disk_before_it_counts_and_what_was_killed_leaves(tmp_path, monkeypatch):
    """Of codes that a power cut took no checksum tells; a half of gigabytes stayed under its own name."""
    half = tmp_path / ".tmp-i7.faiss"
    half.write_bytes(b"half")
    (tmp_path / ".tmp-99-manifest.json").write_bytes(b"of who writes the vectors, under another lock")
    synced, sync = [], os.fsync

    def noted(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    VectorIndex(table_of(pack_ids(1, np.arange(5000)), clustered(5000), tmp_path), flat_rows=100, build=True)
    assert (tmp_path / "i1.faiss").stat().st_ino in synced
    assert sorted(path.name for path in tmp_path.glob(".tmp-*")) == [".tmp-99-manifest.json"]


def test_building_goes_on_where_it_was_stopped(large, tmp_path, monkeypatch):
    table = table_of(large[0].crop_ids, large[0].vectors, tmp_path / "ivf")
    monkeypatch.setattr(inverted, "SAVE_ROWS", 5000)
    add, sizes = inverted._add, []

    def stopped_at_the_second(index, table, rows, wait):
        if sizes:
            raise KeyboardInterrupt
        sizes.append(len(rows))
        add(index, table, rows, wait)

    monkeypatch.setattr(inverted, "_add", stopped_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        VectorIndex(table, flat_rows=100, exact_rows=10, build=True)
    half = VectorIndex(table, flat_rows=100, exact_rows=10)
    assert half._ivf is not None and half._ivf.worn and half.codes(0.9) >= 7000
    assert recall(nearest(half, QUERIES, 20), best(table, QUERIES, 20)) >= 0.99
    monkeypatch.setattr(inverted, "_add", add)
    monkeypatch.setattr(inverted, "_trained", lambda *_: pytest.fail("trained again"))
    waited = []
    whole = VectorIndex(
        table, flat_rows=100, exact_rows=10, build=True, wait=lambda: waited.append("for queries")
    )
    assert whole._ivf is not None and not len(whole._ivf._missing) and waited
    assert recall(nearest(whole, QUERIES, 20), best(table, QUERIES, 20)) >= 0.99
    assert len(list((tmp_path / "ivf").glob("i*.faiss"))) == 1


def test_training_rests_between_small_pieces_and_finds_the_ranges_that_faiss_finds(large, monkeypatch):
    """FAISS trained in one go, a quarter of a minute of a core at 1,000,000 vectors, beside any query."""
    monkeypatch.setattr(inverted_training, "PIECE_ROWS", 500)
    vectors, lists, pieces = large[0].vectors[:6400], 100, []
    search, faiss = inverted_training.faiss.IndexFlatIP.search, inverted_training.faiss

    def searched(self, rows, k):
        assert len(rows) <= 500
        pieces[-1] += 1
        return search(self, rows, k)

    monkeypatch.setattr(faiss.IndexFlatIP, "search", searched)
    index = inverted_training.trained(vectors, lists, None, lambda: pieces.append(0))
    assert len(pieces) == (inverted_training.ROUNDS + 1) * 13 and set(pieces) == {1}
    monkeypatch.undo()
    centres = index.quantizer.reconstruct_n(0, lists)
    assert np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    theirs = faiss.IndexIVFScalarQuantizer(
        index.quantizer, vectors.shape[1], lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    theirs.train(vectors)
    ranges = [faiss.vector_to_array(each.sq.trained) for each in (index, theirs)]
    assert np.array_equal(*ranges)
    # As near to their lists' centres as with k-means of FAISS, and no list is left empty.
    kmeans = faiss.Kmeans(vectors.shape[1], lists, niter=8, spherical=True, seed=1)
    kmeans.train(vectors)
    near = index.quantizer.search(vectors, 1)
    assert near[0].mean() >= (vectors @ kmeans.centroids.T).max(axis=1).mean() - 0.01
    assert len(np.unique(near[1])) == lists


def test_vectors_that_are_all_the_same_can_be_trained_on():
    vectors = np.tile(np.eye(1, 8, dtype=np.float32), (200, 1))
    index = inverted_training.trained(vectors, 3, None, lambda: None)
    index.add(vectors)
    assert index.ntotal == 200 and np.isfinite(index.quantizer.reconstruct_n(0, 3)).all()


def test_a_search_in_a_scope_finds_what_came_later_only_within_it(large):
    table, _ = large
    later = clustered(400, seed=21)
    grown = table_of(
        np.concatenate([table.crop_ids, pack_ids(20, np.arange(400))]),
        np.concatenate([table.vectors, later]),
        table.folder,
    )
    index = VectorIndex(grown, flat_rows=100, exact_rows=10)
    assert len(index._ivf._missing) == 400
    first = len(table.crop_ids)
    for rows in (
        np.arange(0, len(grown), 7),
        np.arange(first + 100, first + 200),
        np.arange(100),
        np.zeros(0, np.intp),
    ):
        found = index.near(later[:5], np.full(5, 0.6), rows)
        for near in found:
            assert np.isin(near, rows).all() and len(np.unique(near)) == len(near)
            assert np.isin(rows[rows >= first], near).all()


@pytest.mark.parametrize("damage", ["model", "truncated", "garbage", "rows"])
def test_an_inverted_file_that_does_not_fit_is_not_used(large, tmp_path, damage):
    table, _ = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    (file,), (rows,) = folder.glob("i*.faiss"), folder.glob("i*.rows")
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:1000])
    elif damage == "garbage":
        (folder / "ivf.json").write_text("{]")
    elif damage == "rows":
        rows.write_bytes(rows.read_bytes()[::-1])
    model = "another" if damage == "model" else MODEL
    other = dataclasses.replace(table, model_hash=model, folder=folder)
    index = VectorIndex(other, flat_rows=100, exact_rows=10)
    assert index.kind == "exact" and index.nearest(QUERIES[0], 5) is None


def test_very_large_tables_get_shorter_codes_and_keep_their_recall(monkeypatch):
    monkeypatch.setattr(inverted, "PQ_ROWS", 1000)
    table = table_of(pack_ids(1, np.arange(8000)), clustered(8000))
    index = VectorIndex(table, flat_rows=100, exact_rows=10, build=True)
    assert index.kind == "IndexIVFPQ"
    assert recall(index.near(QUERIES, LEAST), above(table, QUERIES, 0.85)) >= 0.99
