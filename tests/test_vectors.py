"""Search finds what comparing every row finds; the files in index/ never change an answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import MODEL, index, unit_vectors

from panorama.store import Store, inverted, inverted_training, pack_ids, vector_cache
from panorama.store.vectors import Neighbours, Restriction, VectorIndex, VectorTable, read_crop_ids


def table_of(crop_ids: np.ndarray, vectors: np.ndarray, folder: Path | None = None) -> VectorTable:
    return VectorTable(MODEL, 1, crop_ids, crop_ids // 4, vectors, folder)


def clustered(count: int, seed: int = 0, clusters: int = 150, dim: int = 16) -> np.ndarray:
    """Unit vectors in tight groups, as crops of the same things are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(clusters, dim))
    vectors = centres[rng.integers(clusters, size=count)] + 0.25 * rng.normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def pairs(found: Neighbours) -> set[tuple[int, int]]:
    return set(zip(found.query_index.tolist(), found.rows.tolist(), strict=True))


def loaded(store: Store) -> VectorTable:
    return VectorTable.load(store.snapshot(), MODEL, 1)


def same(a: VectorTable, b: VectorTable) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("crop_ids", "track_ids", "vectors")
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


# -- the inverted file


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """12,000 rows in 12 segments with an inverted file, and the same rows to be compared one by one."""
    crop_ids = np.concatenate([pack_ids(s, np.arange(1000)) for s in range(1, 13)])
    table = table_of(crop_ids, clustered(12_000), tmp_path_factory.mktemp("ivf"))
    return table, VectorIndex(table, flat_rows=100, exact_rows=10, build=True), VectorIndex(table)


QUERIES = clustered(40, seed=8)


def recall(found: Neighbours, truth: Neighbours) -> float:
    return len(pairs(found) & pairs(truth)) / max(len(truth), 1)


def test_the_inverted_file_finds_what_comparing_every_row_finds(large):
    _, approximate, exact = large
    assert approximate.kind == "IndexIVFScalarQuantizer" and exact.kind == "exact"
    found, truth = approximate.search(QUERIES, 20), exact.search(QUERIES, 20)
    assert recall(found, truth) >= 0.99
    np.testing.assert_allclose(found.similarity[:20], truth.similarity[:20], atol=1e-5)
    found, truth = approximate.range_search(QUERIES, 0.85), exact.range_search(QUERIES, 0.85)
    assert recall(found, truth) >= 0.99 and len(truth) > 500
    assert pairs(found) <= pairs(exact.range_search(QUERIES, 0.85 - 1e-5))


def test_the_inverted_file_looks_into_few_lists_where_that_is_enough(large):
    _, approximate, _ = large
    file = approximate._ivf
    assert file is not None and file._probes(0.85) < 0.2 * file._index.nlist
    assert file._probes(-0.5) is None and approximate.near(QUERIES, np.full(40, -0.5)) is None


@pytest.mark.parametrize("share", [0.01, 0.1, 0.6])
def test_the_inverted_file_respects_a_restriction(large, share):
    table, approximate, exact = large
    rng = np.random.default_rng(3)
    restrict = Restriction(crop_ids=rng.choice(table.crop_ids, int(share * len(table)), replace=False))
    found, truth = approximate.search(QUERIES, 10, restrict), exact.search(QUERIES, 10, restrict)
    assert recall(found, truth) >= 0.99
    assert np.isin(table.crop_ids[found.rows], restrict.crop_ids).all()
    found, truth = (
        approximate.range_search(QUERIES, 0.85, restrict),
        exact.range_search(QUERIES, 0.85, restrict),
    )
    assert recall(found, truth) >= 0.99
    by_segment = Restriction(segments=np.array([2, 5]))
    assert recall(approximate.search(QUERIES, 10, by_segment), exact.search(QUERIES, 10, by_segment)) >= 0.99


def test_the_best_are_sought_as_deep_as_they_lie(large):
    table, approximate, exact = large
    file = approximate._ivf
    for queries in (table.vectors[:60], unit_vectors(60, seed=11, dim=table.dim)):
        shares, depths = [], []
        for query in queries:
            for count in (5, 60):
                truth = exact.search(query[None], count)
                shares.append(recall(approximate.search(query[None], count), truth))
                level = file._reached(query[None], count, None)
                # A bound: so much the best of all reach at least.
                assert level is not None and level <= truth.similarity[-1] + 1e-6
                depths.append(file._probes(level) or file._index.nlist)
        assert np.mean(shares) >= 0.99
        assert np.mean(depths[::2]) < np.mean(depths[1::2])
    few = np.arange(25)
    assert file._reached(queries[:1], 30, few) is None and approximate.nearest(queries[0], 30, few) is None


def test_near_holds_at_least_the_rows_above(large):
    _, approximate, exact = large
    near = approximate.near(QUERIES, np.full(len(QUERIES), 0.85))
    assert near is not None and exact.near(QUERIES, np.full(len(QUERIES), 0.85)) is None
    truth = exact.range_search(QUERIES, 0.85)
    found = [np.isin(truth.rows[truth.query_index == q], rows) for q, rows in enumerate(near)]
    assert np.concatenate(found).mean() >= 0.99


def test_a_small_search_takes_one_thread_and_a_large_one_all(large, monkeypatch):
    _, approximate, _ = large
    file, seen = approximate._ivf, []

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
        few = approximate.search(QUERIES, 20), approximate.range_search(QUERIES, 0.85)
        assert len(seen) >= 2 and set(seen) == {1}
        monkeypatch.setattr(inverted, "MANY_CODES", 100)
        seen.clear()
        many = approximate.search(QUERIES, 20), approximate.range_search(QUERIES, 0.85)
        assert len(seen) >= 2 and set(seen) == {3} and inverted.faiss.omp_get_max_threads() == 3
        seen.clear()
        approximate.near(QUERIES, np.full(len(QUERIES), 0.85), np.arange(3))  # most codes are passed over
        assert set(seen) == {1}
    finally:
        inverted.faiss.omp_set_num_threads(before)
    assert [pairs(found) for found in few] == [pairs(found) for found in many]


def test_an_inverted_file_is_used_again_by_the_next_process(large):
    table, approximate, _ = large
    again = VectorIndex(table, flat_rows=100, exact_rows=10)
    assert again.kind == "IndexIVFScalarQuantizer"
    assert pairs(again.search(QUERIES, 20)) == pairs(approximate.search(QUERIES, 20))


def test_rows_that_came_later_and_rows_that_went_are_respected(large, tmp_path):
    table, _, _ = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    kept = table.crop_ids >> 32 != 3
    later = clustered(400, seed=21)
    changed = table_of(
        np.concatenate([table.crop_ids[kept], pack_ids(20, np.arange(400))]),
        np.concatenate([table.vectors[kept], later]),
        folder,
    )
    approximate, exact = VectorIndex(changed, flat_rows=100, exact_rows=10), VectorIndex(changed)
    assert approximate.kind != "exact"
    queries = np.concatenate([later[:20], QUERIES])
    assert recall(approximate.search(queries, 10), exact.search(queries, 10)) >= 0.99
    assert recall(approximate.range_search(queries, 0.85), exact.range_search(queries, 0.85)) >= 0.99


def test_building_again_adds_what_is_missing(large, tmp_path):
    table, _, _ = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    grown = table_of(
        np.concatenate([table.crop_ids, pack_ids(20, np.arange(2000))]),
        np.concatenate([table.vectors, clustered(2000, seed=21)]),
        folder,
    )
    approximate = VectorIndex(grown, flat_rows=100, exact_rows=10, build=True)
    assert approximate._ivf is not None and not approximate._ivf.worn and not len(approximate._ivf._missing)
    assert recall(approximate.search(QUERIES, 20), VectorIndex(grown).search(QUERIES, 20)) >= 0.99
    assert len(list(folder.glob("i*.faiss"))) == 1


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
    assert recall(half.search(QUERIES, 20), large[2].search(QUERIES, 20)) >= 0.99
    monkeypatch.setattr(inverted, "_add", add)
    monkeypatch.setattr(inverted, "_trained", lambda *_: pytest.fail("trained again"))
    waited = []
    whole = VectorIndex(
        table, flat_rows=100, exact_rows=10, build=True, wait=lambda: waited.append("for queries")
    )
    assert whole._ivf is not None and not len(whole._ivf._missing) and waited
    assert recall(whole.search(QUERIES, 20), large[2].search(QUERIES, 20)) >= 0.99
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
    table, _, _ = large
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


@pytest.mark.parametrize("damage", ["model", "truncated", "garbage", "ids"])
def test_an_inverted_file_that_does_not_fit_is_not_used(large, tmp_path, damage):
    table, _, exact = large
    folder = tmp_path / "ivf"
    shutil.copytree(table.folder, folder)
    (file,), (ids,) = folder.glob("i*.faiss"), folder.glob("i*.ids")
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:1000])
    elif damage == "garbage":
        (folder / "ivf.json").write_text("{]")
    elif damage == "ids":
        ids.write_bytes(ids.read_bytes()[::-1])
    model = "another" if damage == "model" else MODEL
    other = VectorTable(model, 1, table.crop_ids, table.track_ids, table.vectors, folder)
    index = VectorIndex(other, flat_rows=100, exact_rows=10)
    assert index.kind == "exact"
    assert pairs(index.search(QUERIES, 5)) == pairs(exact.search(QUERIES, 5))


def test_very_large_tables_get_shorter_codes_and_keep_their_recall(monkeypatch):
    monkeypatch.setattr(inverted, "PQ_ROWS", 1000)
    table = table_of(pack_ids(1, np.arange(8000)), clustered(8000))
    approximate = VectorIndex(table, flat_rows=100, exact_rows=10, build=True)
    assert approximate.kind == "IndexIVFPQ"
    truth = VectorIndex(table).range_search(QUERIES, 0.85)
    assert recall(approximate.range_search(QUERIES, 0.85), truth) >= 0.99


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
    copy = VectorTable(MODEL, 1, before.crop_ids.copy(), before.track_ids.copy(), before.vectors.copy())
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


@pytest.mark.parametrize("victim", ["crops", "tracks", "vectors", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "overwritten"])
def test_a_damaged_cache_is_made_again(store, victim, damage):
    for k in range(2):
        index(store, f"{k}.mp4", seed=k)
    expected = loaded(store)
    expected = VectorTable(
        MODEL, 1, expected.crop_ids.copy(), expected.track_ids.copy(), expected.vectors.copy()
    )
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

    def full(*_: object) -> None:
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
