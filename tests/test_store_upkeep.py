"""Compaction, sweeping, later embeddings and reading crops back."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store_samples import (
    MODEL,
    check_whole,
    data_files,
    embed_again,
    exemplar,
    fill,
    index,
    jpeg,
    lacking,
    unit_vectors,
    video_row,
)

from panorama.store import Snapshot, Store, pack_ids
from panorama.store.catalog.database import Catalog
from panorama.store.files import crops
from panorama.store.files.locks import FileLock
from panorama.store.files.segments import FileSet
from panorama.store.upkeep import rewrite
from panorama.store.upkeep.rewrite import TARGET_BYTES


def rows(snapshot: Snapshot) -> dict[str, list]:
    """All rows of live segments by table, in one order."""
    found = {}
    for table, paths in snapshot.files.items():
        if paths:
            whole = pa.concat_tables([pq.read_table(p) for p in paths])
            found[table] = sorted(
                map(repr, (r for r in whole.to_pylist() if r["segment"] in snapshot.live_segments))
            )
    return found


def test_compaction_changes_no_row_and_leaves_one_file_a_table(store):
    for k in range(4):
        index(store, f"{k}.mp4", seed=k, exits=(1, 2))
    before = rows(store.snapshot())
    assert store.compact() == 4 * 6
    snapshot = store.snapshot()
    assert rows(snapshot) == before
    assert {table: len(paths) for table, paths in snapshot.files.items()} == {
        "frames": 1,
        "tracks": 1,
        "boxes": 1,
        "crops": 1,
        "pictures": 0,
        "embeddings": 2,
    }
    segments = pq.read_table(snapshot.files["boxes"][0])["segment"].to_numpy()
    assert (np.diff(segments) >= 0).all()
    assert store.compact() == 0


@pytest.mark.parametrize("target_bytes", [TARGET_BYTES, 2], ids=["few files", "files that are large enough"])
def test_compaction_drops_rows_of_replaced_segments(store, target_bytes):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    store.compact()
    index(store, "1.mp4", content="changed", seed=8)
    snapshot = store.snapshot()
    assert snapshot.has_dead_rows
    before = rows(snapshot)
    store.compact(target_bytes)
    after = store.snapshot()
    assert not after.has_dead_rows and rows(after) == before
    assert sum(pq.read_metadata(p).num_rows for p in after.files["crops"]) == 9
    check_whole(after)


def test_what_is_replaced_while_it_is_merged_stays_replaced(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    anew: list[str] = []

    def replace_one() -> None:
        if not anew:
            anew.append(index(store, "1.mp4", content="changed", seed=8))

    assert store.compact(wait=replace_one) == 0
    with_the_new = rows(store.snapshot())
    check_whole(store.snapshot())
    assert len(data_files(store)) == 4 * 5  # of what was merged in vain nothing is left
    assert store.compact() == 3 * 5 and rows(store.snapshot()) == with_the_new


def test_compaction_respects_its_target_size(store):
    for k in range(4):
        index(store, f"{k}.mp4", seed=k)
    one = max(Path(p).stat().st_size for p in store.snapshot().files["crops"])
    store.compact(target_bytes=one * 2 + 10)
    assert len(store.snapshot().files["crops"]) == 2


def test_compaction_leaves_a_few_files_alone_when_told_so(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    assert store.compact(least_files=4) == 0
    assert store.compact(least_files=3) == 3 * 5


def test_replaced_files_stay_while_a_reader_may_hold_them(store):
    index(store, "a.mp4")
    held = store.snapshot()
    index(store, "a.mp4", content="changed")
    assert store.sweep().retired == 0  # the grace
    assert store.sweep(grace_seconds=0).retired == 0  # the reader
    rows(held)
    del held
    gc.collect()
    assert store.sweep().retired == 0  # the grace, by itself
    since = store.snapshot()
    assert store.sweep(grace_seconds=0).retired == 5
    assert len(data_files(store)) == 5
    assert store.sweep(grace_seconds=0).retired == 0
    check_whole(since)


def test_a_reader_in_another_store_keeps_its_files_too(store):
    index(store, "a.mp4")
    with Store.open(store.path) as other:
        held = other.snapshot()
        index(store, "a.mp4", content="changed")
        assert store.sweep(grace_seconds=0).retired == 0
        rows(held)
        del held
    assert store.sweep(grace_seconds=0).retired == 5


def test_a_full_disk_can_still_be_read(store, monkeypatch):
    index(store, "a.mp4")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileLock, "take", full)
    check_whole(store.snapshot())


def test_a_sweep_spares_what_a_living_writer_has_not_listed_yet(store):
    with store.begin_segment("c", "s") as writer:
        fill(writer)
        assert store.sweep(grace_seconds=0).unlisted == 0
        with store.append_embeddings(MODEL, 2) as appending:
            ids = writer.pack([0])
            appending.add(ids, ids, unit_vectors(1))
            assert store.sweep(grace_seconds=0).unlisted == 0
        writer._files.finish()  # under their final names, and still not listed
        assert store.sweep(grace_seconds=0).unlisted == 0
        assert len(data_files(store)) == 5
    assert data_files(store) == []


def test_a_sweep_removes_what_dead_writers_left(store):
    index(store, "a.mp4")
    (store.path / "data/crops/.tmp-s00000099.parquet").write_bytes(b"half")
    (store.path / "data/boxes/w0123.parquet").write_bytes(b"whole but not listed")
    (store.path / "album/7").mkdir()
    (store.path / "album/7" / f"{'5' * 32}.jpg").write_bytes(b"not registered")
    (store.path / "locks/writer-w0123.lock").write_bytes(b"")
    store.add_exemplars("cat", [exemplar()])
    swept = store.sweep()
    assert (swept.unlisted, swept.pictures) == (2, 1)
    assert len(data_files(store)) == 5 and len(store.exemplars("cat")) == 1
    assert [p.name for p in (store.path / "locks").glob("writer-*")] == []
    assert store.exemplars("cat")[0].picture.exists()


def states(store: Store) -> list[str]:
    with store._place.catalog.read() as tx:
        return [row.state for row in tx.rows("SELECT state FROM segments ORDER BY segment_id")]


def test_a_segment_whose_writer_is_dead_is_given_up_but_not_a_moment_after_it_began(store):
    index(store, "a.mp4")
    with store.begin_segment("c", "s"), store._place.catalog.write() as tx:
        tx.run(
            "INSERT INTO segments (content_hash, settings_hash, state, created_at)"
            " SELECT 'x', 'y', 'writing', created_at - age"
            " FROM segments JOIN (SELECT 3600 AS age UNION SELECT 0) WHERE state = 'writing'"
        )
    with store.begin_segment("d", "s"):
        with store._place.catalog.write() as tx:  # this one has been at it for long
            tx.run("UPDATE segments SET created_at = created_at - 3600 WHERE content_hash = 'd'")
        assert states(store) == ["live", "retired", "writing", "writing", "writing"]
        store.sweep()
        assert sorted(states(store)) == ["live", "retired", "writing", "writing"]


def test_later_embeddings_fill_what_is_lacking(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    live = store.snapshot().live_segments
    assert lacking(store, MODEL, 1) == []
    assert lacking(store, "other", 3) == live.tolist()
    with store.append_embeddings("other", 3) as writer:
        for batch in store.read_crops(segments=live[:2], batch_size=2):
            writer.add(batch.crop_ids, batch.track_ids, unit_vectors(len(batch), dim=4))
        assert lacking(store, "other", 3) == live.tolist()
        assert len(writer.commit()) == 6
    assert lacking(store, "other", 3) == live[2:].tolist()
    assert len(store.snapshot().embeddings["other", 3]) == 1
    with store.append_embeddings("other", 3) as writer:
        ids = pack_ids(int(live[2]), [0])
        writer.add(ids, ids, unit_vectors(1, dim=4))
        writer.commit()
    assert lacking(store, "other", 3) == live[2:].tolist()  # two of its three crops still lack


def test_an_appender_that_does_not_commit_leaves_nothing(store):
    index(store, "a.mp4")
    with store.append_embeddings("other", 1) as writer:
        ids = pack_ids(1, [0])
        writer.add(ids, ids, unit_vectors(1))
    assert len(data_files(store)) == 5
    with store.append_embeddings("other", 1) as writer:
        assert not len(writer.commit())


def test_of_two_processes_that_embed_a_crop_one_adds_its_vector(store, monkeypatch):
    """Vectors made twice hid crops without any: no query said that their video is not searched."""
    for name in ("a.mp4", "b.mp4"):
        index(store, name, tracks=4, exits=())
    first, second = (pack_ids(segment, np.arange(4)) for segment in (1, 2))
    store.compact()
    find = crops.find_lacking
    others = [first[:2], second[1:3]]  # committed after it was read which crops lack a vector

    def beside(*given):
        found = find(*given)
        if others:
            embed(others.pop())
        return found

    def embed(ids):
        with store.append_embeddings(MODEL, 1) as writer:
            writer.add(ids, ids, unit_vectors(len(ids)))
            return writer.commit().tolist()

    monkeypatch.setattr(crops, "find_lacking", beside)
    assert embed(np.concatenate([first[:3], second[:3]])) == [first[2], second[0]]
    assert embed(first[:3]) == [], "nothing is stored twice"
    assert store.snapshot().vectors(MODEL, 1).total == 6
    assert store.snapshot().unembedded(MODEL).tolist() == [1, 2] == lacking(store, MODEL, 1)


def test_a_lost_file_of_vectors_keeps_nobody_from_adding_them(store):
    index(store, "a.mp4")
    (path,) = store.snapshot().files["embeddings"]
    Path(path).unlink()
    with store.append_embeddings(MODEL, 1) as writer:
        writer.add(pack_ids(1, [0, 1]), pack_ids(1, [0, 1]), unit_vectors(2))
        assert len(writer.commit()) == 2


def test_compaction_merges_more_files_than_may_be_open(store, monkeypatch):
    """Each query that looks deeper leaves a file with rows of many videos; all were opened at once."""
    opened, most = 0, 0

    class Counted(rewrite.ListedFile):
        def __init__(self, path):
            nonlocal opened, most
            super().__init__(path)
            opened += 1
            most = max(most, opened)

        def close(self):
            nonlocal opened
            opened -= 1
            super().close()

    monkeypatch.setattr(rewrite, "ListedFile", Counted)
    monkeypatch.setattr(rewrite, "MOST_OPEN", 3)
    for name in ("a.mp4", "b.mp4"):
        index(store, name, tracks=10)
    for k in range(10):
        with store.append_embeddings(MODEL, 2) as writer:
            ids = np.array([pack_ids(1, k), pack_ids(2, k)])
            writer.add(ids, ids, unit_vectors(2, seed=k))
            writer.commit()
    before = rows(store.snapshot())
    store.compact()
    snapshot = store.snapshot()
    assert rows(snapshot) == before
    assert len(snapshot.embeddings[MODEL, 2]) == 1
    assert (opened, most) == (0, 3)


def test_compaction_keeps_one_vector_where_two_processes_wrote_it(store):
    index(store, "a.mp4", exits=())
    ids = pack_ids(1, [0, 1, 2])
    for _ in range(2):
        embed_again(store, 1, ids, unit_vectors(3))
    store.compact()
    (file,) = store.snapshot().embeddings[MODEL, 1]
    assert file.rows == 3 and pq.read_table(file.path)["crop_id"].to_pylist() == ids.tolist()


def test_crops_are_read_by_id_and_by_segment(store):
    for k in range(2):
        index(store, f"{k}.mp4", seed=k)
    index(store, "0.mp4", content="changed", seed=5)
    first, second = store.snapshot().live_segments.tolist()
    wanted = np.concatenate([pack_ids(second, [2]), pack_ids(first, [1, 77]), pack_ids(1, [0])])
    got = {i: j for b in store.read_crops(wanted) for i, j in zip(b.crop_ids.tolist(), b.jpegs, strict=True)}
    assert got == {int(pack_ids(first, 1)): jpeg(1, 1), int(pack_ids(second, 2)): jpeg(5, 2)}
    batches = list(store.read_crops(segments=np.array([first, second]), batch_size=2))
    assert [len(b) for b in batches] == [2, 1, 2, 1]
    assert list(store.read_crops(np.zeros(0, np.int64))) == []
    with pytest.raises(ValueError, match="one of the two"):
        next(store.read_crops())


def test_an_interrupt_just_after_the_commit_keeps_the_segment(store, monkeypatch):
    release = FileSet.release

    def interrupted(self: FileSet) -> None:
        monkeypatch.setattr(FileSet, "release", release)
        raise KeyboardInterrupt

    monkeypatch.setattr(FileSet, "release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index(store, "a.mp4")
    snapshot = store.snapshot()
    assert snapshot.videos["video"].to_pylist() == ["a.mp4"]
    check_whole(snapshot)


def test_an_interrupt_inside_the_commit_keeps_what_was_committed(store, monkeypatch):
    write = Catalog.write

    @contextmanager
    def interrupted(catalog: Catalog, **given: float | None):
        with write(catalog, **given) as tx:
            yield tx
        monkeypatch.setattr(Catalog, "write", write)
        raise KeyboardInterrupt  # the transaction is over, and its caller does not know yet

    with pytest.raises(KeyboardInterrupt), store.begin_segment("c", "s") as writer:
        fill(writer)
        monkeypatch.setattr(Catalog, "write", interrupted)
        writer.commit(video_row("a.mp4", "c"))
    check_whole(store.snapshot())
    assert store.snapshot().videos.num_rows == 1


def test_info_counts_what_is_there(store):
    index(store, "a.mp4", tracks=4)
    store.add_exemplars("cat", [exemplar()])
    info = store.info()
    assert info.counts == {
        "videos": 1,
        "segments": 1,
        "frames": 12,
        "tracks": 4,
        "boxes": 8,
        "crops": 4,
        "entities": 1,
        "exemplars": 1,
    }
    assert info.embeddings == {(MODEL, 1): 4}
    assert info.bytes["album"] == len(b"picture") and info.bytes["crops"] > 0 < info.bytes["catalog"]
