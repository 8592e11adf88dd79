"""A library is written and read as one consistent snapshot."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store_samples import FRAMES, MODEL, exemplar, fill, index, jpeg, unit_vectors, video_row

from panorama.errors import (
    LibraryDamaged,
    LibraryWriteError,
    PanoramaError,
    UsageError,
)
from panorama.store import ModelRow, Store, Zone, pack_ids, segment_of
from panorama.store.catalog import sightings, videos
from panorama.store.catalog.database import Catalog, Transaction
from panorama.store.files import lost
from panorama.store.files.lost import ListedFile
from panorama.store.files.schema import _NUMPY, CROPS, TABLES, table_format


def test_a_committed_segment_is_read_back_as_written(store):
    assert index(store, "a.mp4", tracks=3, seed=7) == "a.mp4"
    snapshot = store.snapshot()
    (row,) = snapshot.videos.to_pylist()
    assert (row["video"], row["uri"], row["frames"], row["width"]) == ("a.mp4", "/archive/a.mp4", FRAMES, 64)
    frames = pq.read_table(snapshot.files["frames"][0])
    assert frames["pts"].to_pylist() == [100 * k for k in range(FRAMES)]
    crops = pq.read_table(snapshot.files["crops"][0])
    assert crops.schema.equals(CROPS)
    assert crops["crop_id"].to_pylist() == pack_ids(row["segment"], np.arange(3)).tolist()
    assert crops["jpeg"].to_pylist() == [jpeg(7, k) for k in range(3)]
    assert {table: len(paths) for table, paths in snapshot.files.items()} == {
        **dict.fromkeys(TABLES, 1),
        "pictures": 0,  # films have none
    }


def test_duckdb_reads_every_table(store):
    index(store, "a.mp4", tracks=3)
    files = store.snapshot().files
    counts = {
        t: duckdb.execute("SELECT count(*) FROM read_parquet(?)", [p]).fetchone()
        for t, p in files.items()
        if p
    }
    assert files["pictures"] == []  # films have none
    assert counts == {"frames": (12,), "tracks": (3,), "boxes": (6,), "crops": (3,), "embeddings": (3,)}
    (dot,) = duckdb.execute(
        "SELECT max(list_inner_product(vector, vector)) FROM read_parquet(?)", [files["embeddings"]]
    ).fetchone()
    assert dot == pytest.approx(1.0, abs=1e-5)


def test_a_video_without_any_track_is_a_video(store):
    with store.begin_segment(content_hash="dark", settings_hash="s") as writer:
        writer.add_frames(np.arange(3), np.arange(3), np.arange(3) / 25)
        writer.commit(video_row("night.mp4", "dark", frames=3))
    snapshot = store.snapshot()
    assert snapshot.videos.num_rows == 1
    assert snapshot.files["crops"] == [] and len(snapshot.files["frames"]) == 1


def test_many_small_additions_become_few_row_groups(store):
    with store.begin_segment(content_hash="long", settings_hash="s") as writer:
        for start in range(0, 200_000, 500):
            numbers = np.arange(start, start + 500)
            writer.add_frames(numbers, numbers * 40, numbers / 25)
        writer.commit(video_row("long.mp4", "long", frames=200_000))
    file = pq.ParquetFile(store.snapshot().files["frames"][0])
    assert file.metadata.num_rows == 200_000 and file.num_row_groups <= 13
    assert file.read(columns=["frame"])["frame"].to_numpy().tolist() == list(range(200_000))


def test_nothing_is_visible_before_commit_and_nothing_remains_after_abort(store):
    with store.begin_segment(content_hash="c", settings_hash="s") as writer:
        fill(writer)
        assert store.snapshot().videos.num_rows == 0
    assert [p for p in (store.path / "data").rglob("*") if p.is_file()] == []
    with pytest.raises(RuntimeError, match="decoder broke"), store.begin_segment("c", "s") as writer:
        fill(writer)
        raise RuntimeError("decoder broke")
    assert [p for p in (store.path / "data").rglob("*") if p.is_file()] == []
    assert list((store.path / "locks").glob("writer-*")) == []


def test_segment_numbers_are_never_used_again(store):
    with store.begin_segment("c", "s") as first:
        pass
    index(store, "a.mp4")
    store.remove_videos(["a.mp4"])
    store.sweep(grace_seconds=0)
    with store.begin_segment("c", "s") as later:
        assert later.segment > first.segment + 1


def test_a_crop_id_of_another_segment_is_refused(store):
    with store.begin_segment("c", "s") as writer:
        wrong = pack_ids(writer.segment + 1, np.arange(2))
        with pytest.raises(ValueError, match=r"upper 32 bits.*writer.pack"):
            writer.add_embeddings(MODEL, 1, wrong, wrong, unit_vectors(2))


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (np.full((2, 8), np.nan, np.float32), "finite"),
        (np.zeros((3, 8), np.float32), "for 2 crops"),
        (np.zeros((2, 0), np.float32), "positive length"),
    ],
)
def test_bad_vectors_are_refused(store, vectors, said):
    with store.begin_segment("c", "s") as writer, pytest.raises(ValueError, match=said):
        ids = writer.pack([0, 1])
        writer.add_embeddings(MODEL, 1, ids, ids, vectors)


def test_missing_and_unknown_columns_are_named(store):
    with (
        store.begin_segment("c", "s") as writer,
        pytest.raises(ValueError, match=r"missing: \['end_frame'.*unknown: \['colour'\]"),
    ):
        writer.add_tracks({"track_id": writer.pack([0]), "colour": ["red"]})


def test_each_column_has_the_type_of_numpy_that_arrow_would_give_it():
    """Arrow itself loads pandas to tell it, before version 26; without that nothing was indexed."""
    kinds = {f.type for table in TABLES for f in table_format(table, 4).schema}
    plain = {kind for kind in kinds if not (pa.types.is_fixed_size_list(kind) or pa.types.is_binary(kind))}
    assert {kind: kind.to_pandas_dtype() for kind in plain} == _NUMPY


def test_ids_pack_and_unpack():
    ids = pack_ids(5, [0, 7, 2**32 - 1])
    assert segment_of(ids).tolist() == [5, 5, 5]
    assert (ids & 0xFFFFFFFF).tolist() == [0, 7, 2**32 - 1]
    with pytest.raises(ValueError, match="local ids"):
        pack_ids(5, [2**32])


def test_a_snapshot_does_not_change_when_the_library_does(store):
    index(store, "a.mp4")
    before = store.snapshot()
    store.add_exemplars("cat", [exemplar(vector=unit_vectors(1)[0])])
    index(store, "b.mp4")
    after = store.snapshot()
    assert before.videos["video"].to_pylist() == ["a.mp4"] and before.entity_names == ()
    assert after.videos["video"].to_pylist() == ["a.mp4", "b.mp4"] and after.entity_names == ("cat",)
    assert len(before.album(MODEL, 1)) == 0 and len(after.album(MODEL, 1)) == 1


def test_versions_change_with_what_can_change_an_answer_and_only_then(store):
    seen = [store.snapshot()]

    def moved() -> tuple[int, int, int]:
        seen.append(store.snapshot())
        a, b = seen[-2:]
        return (
            np.sign(b.data_version - a.data_version),
            np.sign(b.album_version - a.album_version),
            np.sign(b.settings_version - a.settings_version),
        )

    index(store, "a.mp4")
    assert moved() == (1, 0, 0)
    store.add_exemplars("cat", [exemplar()])
    assert moved() == (0, 1, 0)
    store.put_setting("calibration/m/1", {"low": 0.2})
    assert moved() == (0, 0, 1)
    store.put_model(ModelRow("h", "m", "embedder", 8, 3))
    store.cache_sightings("cat", "k", b"v")
    store.sweep()
    assert moved() == (0, 0, 0)
    assert store.snapshot() is store.snapshot()
    assert len({s.version for s in seen}) == 4


def test_a_data_file_that_was_erased_meanwhile_is_not_told_as_lost(store):
    index(store, "a.mp4")
    (path,) = store.snapshot().files["crops"]
    store.add_exemplars("cat", [exemplar()])
    store.forget_entity("cat", pq.read_table(path)["track_id"].to_numpy())
    with pytest.raises(PanoramaError, match="erased or replaced meanwhile") as told:
        ListedFile(path)
    assert not isinstance(told.value, LibraryDamaged)


@pytest.mark.parametrize("value", [0x00, 0x9C])
def test_a_damaged_byte_in_a_footer_is_a_damaged_library(store, monkeypatch, value):
    """A byte of a name that is no text, or of a kind unknown to pyarrow, was a defect of the program."""
    monkeypatch.setattr(lost, "damage", lambda path, wrong: LibraryDamaged(wrong))
    index(store, "a.mp4")
    told = 0
    for path in map(Path, (store.snapshot().files[table][0] for table in ("tracks", "embeddings"))):
        whole = path.read_bytes()
        for at in range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole)):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                ListedFile(path).close()
            except LibraryDamaged:
                told += 1
    assert told > 500


@pytest.mark.parametrize("wrong", ["renamed", "text", "a list"])
def test_a_data_file_with_other_columns_is_a_damaged_library(store, wrong):
    index(store, "a.mp4")
    (path,) = store.snapshot().files["embeddings"]
    table = pq.read_table(path)
    if wrong == "renamed":
        table = table.rename_columns(["segment", "crop_id", "track_id", "victor"])
    elif wrong == "text":
        table = table.set_column(1, "crop_id", pa.array(["1"] * len(table)))
    else:
        table = table.set_column(3, "vector", table["vector"].cast(pa.list_(pa.float32())))
    pq.write_table(table, path)
    with pytest.raises(LibraryDamaged, match=r"cannot be read: its columns are not those of embeddings; "):
        ListedFile(path)


def test_versions_rise_whatever_the_clock_says_and_do_not_come_again(store, monkeypatch):
    """Counted, they came again where an older catalog was put back, for what was indexed after it."""
    for second, expected in ((50, 50_000), (50, 50_001), (20, 50_002), (51, 51_000)):
        monkeypatch.setattr("panorama.store.catalog.database.time.time_ns", lambda at=second: at * 10**9)
        with store._place.catalog.write() as tx:
            assert tx.bump("data") == expected
        assert store.snapshot().data_version == expected


def test_settings_that_two_change_at_once_lose_nothing(store):
    """What one process added to a list was gone where another one had read the list before."""
    with Store.open(store.path) as other:

        def both(name):
            return lambda kept: {"list": [*kept.get("list", []), name]}

        def late(kept):
            if not kept:
                other.change_settings(both("theirs"))  # between the first look and the change
            return both("ours")(kept)

        store.change_settings(late)
        assert store.setting("list") == ["theirs", "ours"]
        version = store.snapshot().settings_version
        other.change_settings(lambda kept: {"list": kept["list"], "absent": None})
        assert store.snapshot().settings_version == version  # nothing changed

        def in_place(kept):
            kept["list"].append("late")
            return {"list": kept["list"]}

        store.change_settings(in_place)
        assert other.setting("list") == ["theirs", "ours", "late"]
        store.change_settings(lambda kept: dict.fromkeys(kept))
        assert other.snapshot().settings == {}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists what a process has open")
def test_closing_closes_what_another_thread_reads_as_well(store):
    """What came back after closing waited for a next reader that could not be."""
    begun, over = threading.Event(), threading.Event()

    def read():
        with store._place.catalog.read() as tx:
            tx.scalar("SELECT 1")
            begun.set()
            over.wait(10)

    def held():
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(link.name.startswith("catalog.sqlite") and link.parent == store.path for link in links)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        assert begun.wait(10) and held()
        store.close()
        over.set()
        reading.result()
    assert not held()


def test_settings_cache_models_and_zones_are_kept(tmp_path):
    with Store.create(tmp_path / "x") as store:
        store.put_setting("slack", 0.5)
        store.put_setting("slack", [1, "two", None])
        store.add_exemplars("cat", [exemplar()])
        store.cache_sightings("cat", "key", b"\x00blob")
        store.cache_sightings("dog", "key", b"of nobody")
        store.put_model(ModelRow("h", "panoramanet", "embedder", 128, 3))
        store.put_zones([Zone("gate", "door", "zone", ((0, 0), (0.55, 0), (0.5, 0.5)))])
    with Store.open(tmp_path / "x") as store:
        assert store.setting("slack") == [1, "two", None] == store.snapshot().settings["slack"]
        assert store.setting("absent", "default") == "default"
        assert store.cached_sightings("cat", "key") == b"\x00blob"
        assert store.cached_sightings("cat", "other") is None and store.cached_sightings("dog", "key") is None
        assert store.models() == [ModelRow("h", "panoramanet", "embedder", 128, 3)]
        assert store.zones() == (Zone("gate", "door", "zone", ((0, 0), (0.55, 0), (0.5, 0.5))),)
        assert store.snapshot().zones == store.zones()
        with pytest.raises(UsageError, match=r"no zone or line 'dor'.*'door'"):
            store.drop_zone("gate", "dor")
        store.drop_zone("gate", "door")
        assert store.zones() == ()


def test_the_cache_keeps_the_newest_within_its_size(store):
    store.add_exemplars("cat", [exemplar()])
    for k in range(5):
        with store._place.catalog.write() as tx:
            sightings.put(tx, "cat", f"k{k}", bytes(100), limit_bytes=250)
    assert [k for k in range(5) if store.cached_sightings("cat", f"k{k}") is not None] == [3, 4]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_library_without_write_permission_can_be_read_and_not_written(tmp_path):
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    paths = [tmp_path / "x", *(tmp_path / "x").rglob("*")]
    for path in paths:
        path.chmod(stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0))
    try:
        with Store.open(tmp_path / "x") as store:
            assert store.snapshot().videos.num_rows == 1
            with pytest.raises(LibraryWriteError, match="reading only"):
                store.put_setting("a", 1)
    finally:
        for path in paths:
            path.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("delete", [lambda store: store.sweep(0), Store.compact], ids=["sweep", "compact"])
def test_a_store_opened_for_reading_deletes_no_file_that_is_due(tmp_path, delete):
    """On a disk mounted for reading only, `index` failed there, and advised to check some permissions."""
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        index(store, "b.mp4")
        store.remove_videos(["a.mp4"])
    frames = tmp_path / "x" / "data" / "frames"
    shutil.copy(next(frames.iterdir()), frames / f"s00000009-{'0' * 32}.parquet")  # of a writer that crashed
    due = sorted((tmp_path / "x" / "data").rglob("*.parquet"))
    with (
        Store.open(tmp_path / "x", write=False) as store,
        pytest.raises(LibraryWriteError, match="reading only"),
    ):
        delete(store)
    assert sorted((tmp_path / "x" / "data").rglob("*.parquet")) == due


def test_a_store_opened_for_reading_writes_nothing(tmp_path):
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    with Store.open(tmp_path / "x", write=False) as store:
        assert store.snapshot().videos.num_rows == 1
        store.cache_sightings("cat", "k", b"v")
        assert store.cached_sightings("cat", "k") is None
        for change in (
            lambda: store.begin_segment("c", "s"),
            lambda: store.add_exemplars("cat", [exemplar()]),
            lambda: store.remove_videos(["a.mp4"]),
            store.check_writable,
        ):
            with pytest.raises(LibraryWriteError, match="reading only"):
                change()


def test_a_snapshot_of_many_videos_asks_no_more_than_one_of_few(store, monkeypatch):
    store.snapshot()
    asked: list[int] = []
    for name in ("rows", "tuples", "row"):
        ask = getattr(Transaction, name)
        monkeypatch.setattr(Transaction, name, lambda *a, ask=ask, **k: asked.append(1) or ask(*a, **k))
    counts = []
    for videos_more in (5, 300):
        with store._place.catalog.write() as tx:
            for k in range(videos_more):
                segment = tx.scalar(
                    "INSERT INTO segments (content_hash, settings_hash, state, created_at) "
                    "VALUES (:c, 's', 'live', 0) RETURNING segment_id",
                    c=f"{videos_more} {k}",
                )
                videos.place_video(tx, video_row(f"{videos_more} {k}.mp4", f"{videos_more} {k}"), segment)
            tx.bump("data")
        asked.clear()
        snapshot = store.snapshot()
        taken = len(asked)
        assert store.snapshot() is snapshot
        counts.append((taken, len(asked) - taken))
    assert snapshot.videos.num_rows == 305
    assert counts[0] == counts[1] and counts[0][1] == 1  # one question tells that nothing has changed


def test_as_many_files_and_videos_are_looked_up_at_once_as_there_are(tmp_path, monkeypatch):
    """SQLite may take 32,766 values in a statement: beyond them, sweeping failed, and with it every index."""
    connect = Catalog._connect

    def narrow(self):
        connection = connect(self)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 20)
        return connection

    monkeypatch.setattr(Catalog, "_connect", narrow)
    with Store.create(tmp_path / "many") as store:
        for number in range(25):
            index(store, f"{number:02d}.mp4", seed=number)
        segments = store.snapshot().live_segments
        assert sum(len(batch) for batch in store.read_crops(segments=segments)) == 75
        names = [f"{number:02d}.mp4" for number in range(25)]
        assert [row.name for row in store.recorded(names)] == names
        assert store.compact() > 100
        assert store.sweep(grace_seconds=0).retired > 100
        tracks = pq.read_table(store.snapshot().files["tracks"][0])["track_id"].to_numpy()
        store.add_exemplars("cat", [exemplar()])
        store.forget_entity("cat", tracks)
        assert store.info().counts["crops"] == 0 and len(names) == store.snapshot().videos.num_rows
