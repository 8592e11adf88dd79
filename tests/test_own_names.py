"""A library writes and deletes what is its own; other files in its folders, and what it points to, stay."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from store_samples import MODEL, check_whole, exemplar, index, unit_vectors

import panorama
from panorama.errors import LibraryDamaged, LibraryNotFound, UsageError
from panorama.store import Store
from panorama.store.files.own_names import DATA_FILE, PICTURE_FILE
from panorama.store.scenes.places import PlaceTables
from panorama.store.vectors.inverted import InvertedFile
from panorama.store.vectors.vector_table import VectorTable

HEX = "0123456789abcdef" * 2
STRANGE = [
    "data/frames/0001.jpg",
    "data/frames/cam1/0001.jpg",
    "data/pictures/noon.mp4",
    "data/crops/scene.parquet",
    "album/holiday/beach.jpg",
    "album/2024/beach.jpg",
    "index/notes/n.txt",
    "index/todo.txt",
    "locks/a-b.txt",
]


def put(path: Path, content: str = "the only copy") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def change(library: Path, sql: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(library / "catalog.sqlite")) as connection, connection:
        connection.execute(sql, values)


def everything(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("strange", [*STRANGE, "data/frames/cam1/", "data", "locks/a/x.lock", "index/x.lock"])
def test_a_folder_of_somebody_s_own_is_taken_for_no_library(tmp_path, strange):
    """Footage in `data/frames/` was deleted by the first `index` into the folder above it."""
    if strange.endswith("/"):
        (tmp_path / strange).mkdir(parents=True)
    else:
        put(tmp_path / strange)
    before = everything(tmp_path)
    for made in (Store.create, partial(Store.create, exist_ok=True), partial(panorama.open, create=True)):
        with pytest.raises(UsageError, match="exists and is not a library; choose a new or an empty folder"):
            made(tmp_path)
    for opened in (Store.open, panorama.open):
        with pytest.raises(LibraryNotFound, match="is not a library but a folder with something else in it"):
            opened(tmp_path)
    assert everything(tmp_path) == before and not (tmp_path / "catalog.sqlite").exists()


def test_a_folder_of_links_is_taken_for_no_library(tmp_path):
    put(tmp_path / "elsewhere" / "0001.jpg")
    (tmp_path / "ds").mkdir()
    (tmp_path / "ds" / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="exists and is not a library"):
        Store.create(tmp_path / "ds")


def test_what_a_killed_create_left_becomes_a_library(tmp_path):
    Store.create(tmp_path / "x").close()
    for path in (tmp_path / "x").glob("catalog.sqlite*"):
        path.unlink()
    put(tmp_path / "x" / "locks" / "asking.lock", "")
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        check_whole(store.snapshot())


def test_other_files_in_the_folders_of_a_library_stay(tmp_path):
    with Store.create(tmp_path / "x") as store:
        store.add_exemplars("cat", [exemplar(vector=unit_vectors(1)[0])])
        for k in range(3):
            index(store, f"{k}.mp4", seed=k)
        table = VectorTable.load(store.snapshot(), MODEL, 1)
        assert table.folder is not None
        inside = [table.folder / "gate.mp4", table.folder / "g.notes", table.folder / "inner" / "i1.rows"]
        inside += [store.path / "album" / "1" / "beach.jpg", store.path / "index/places/notes.txt"]
        strange = [put(path) for path in (*(store.path / name for name in STRANGE), *inside)]
        index(store, "0.mp4", content="another", seed=9)
        store.sweep(grace_seconds=0)
        store.compact()
        VectorTable.load(store.snapshot(), MODEL, 1)
        PlaceTables(store.snapshot()).prepare()
        store.forget_entity("cat", table.track_ids[:1])
        assert {path.read_text() for path in strange} == {"the only copy"}
        made = [path for path in (store.path / "index").rglob("*") if path.is_file()]
        left = set(made) - set(strange)
        assert {path.name for path in left} == {"lock", "ivf.lock"}, (
            "but all that the library made there is gone"
        )
        assert not any(path.stat().st_size for path in left)


def test_all_that_a_library_makes_bears_a_name_of_its_own(tmp_path, monkeypatch):
    """What does not is never swept, and nothing that was forgotten may stay."""
    monkeypatch.setattr("panorama.store.files.sorted_rows.SMALL_ROWS", 0)
    with Store.create(tmp_path / "x") as store:
        store.add_exemplars("cat", [exemplar()])
        for k in range(2):
            index(store, f"{k}.mp4", seed=k, tracks=100)
        with store.append_embeddings("ß-model", 3) as writer:
            for batch in store.read_crops(segments=store.snapshot().live_segments):
                writer.add(batch.crop_ids, batch.track_ids, unit_vectors(len(batch)))
            writer.commit()
        assert all(DATA_FILE.fullmatch(path.name) for path in (store.path / "data").rglob("*.parquet"))
        store.compact()
        names = {path.name[0] for path in (store.path / "data").rglob("*.parquet")}
        assert names == {"s", "w", "c"}
        assert all(DATA_FILE.fullmatch(path.name) for path in (store.path / "data").rglob("*.parquet"))
        assert PICTURE_FILE.fullmatch(store.exemplars("cat")[0].picture.name)
        snapshot = store.snapshot()
        table = VectorTable.load(snapshot, MODEL, 1)
        VectorTable.load(snapshot, "ß-model", 3)
        InvertedFile.build(table, None)
        PlaceTables(snapshot).prepare()
        kinds = {path.suffix for path in (store.path / "index").rglob("*")}
        assert {".json", ".crops", ".vectors", ".faiss", ".rows", ".2"} <= kinds
        for name in (
            ".tmp-77-manifest.json",
            f".tmp-{HEX}-manifest.json",
            ".tmp-i3.faiss",
            ".tmp-9-i3.rows",
            "i3.ids",
        ):
            put(table.folder / name)
        put(store.path / "index/places/.tmp-77-crops-c0123.2")
        put(store.path / f"index/places/.tmp-{HEX}-crops-c0123.2")
        put(store.path / "index/places/crops-s00000001-12-34.1")
        del snapshot
        store.forget_entity("cat", table.track_ids[:1])
        left = [path for path in (store.path / "index").rglob("*") if path.is_file()]
        assert {path.name for path in left} == {"lock", "ivf.lock"}


@pytest.mark.parametrize("stem", ["s00000001", f"s00000001-{HEX}", f"w{HEX}", f"c{HEX}", "s123456789"])
@pytest.mark.parametrize("model", ["", "-abcdef0123456789-e3", "-color_bands-e1"])
def test_names_of_all_versions_are_read_and_swept(tmp_path, stem, model):
    """Before version 7 a segment's files were called by its number alone."""
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    (crops,) = (tmp_path / "x/data/crops").iterdir()
    crops.rename(crops.with_name(f"{stem}{model}.parquet"))
    listed = f"data/crops/{stem}{model}.parquet"
    change(tmp_path / "x", "UPDATE files SET path = ? WHERE table_name = 'crops'", listed)
    for begun in ("", ".tmp-"):
        put(tmp_path / "x/data/boxes" / f"{begun}{stem}{model}.parquet")
    with Store.open(tmp_path / "x") as store:
        check_whole(store.snapshot())
        assert len(next(store.read_crops(segments=store.snapshot().live_segments))) == 3
        assert store.lost_contents() == frozenset()
        assert store.sweep().unlisted == 2
        check_whole(store.snapshot())


ACTIONS = {
    "drop": lambda store: store.drop_entity("cat"),
    "forget": lambda store: store.forget_entity("cat"),
    "remove": lambda store: store.remove_exemplars([1]),
    "register": lambda store: store.add_exemplars("cat", [exemplar()]),
    "list": lambda store: store.exemplars("cat"),
    "embed": lambda store: store.missing_exemplar_vectors("other", 1, 1),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    "picture",
    [
        "album/../../precious.txt",
        "album/1/../../../precious.txt",
        "{folder}/precious.txt",
        "../precious.txt",
        "album/1",
        "data/crops/x.parquet",
    ],
)
def test_a_picture_elsewhere_is_neither_read_nor_written_nor_deleted(tmp_path, action, picture):
    """`panorama drop` deleted any file that the catalog of a library from somebody else named."""
    precious = put(tmp_path / "precious.txt")
    with Store.create(tmp_path / "x") as store:
        store.add_exemplars("cat", [exemplar()])
    named = picture.format(folder=tmp_path)
    change(tmp_path / "x", "UPDATE exemplars SET picture = ?", named)
    with Store.open(tmp_path / "x") as store:
        with pytest.raises(LibraryDamaged, match=r"table exemplars names .* Put the catalog back") as told:
            ACTIONS[action](store)
        assert repr(named) in str(told.value)
        assert store.entities() == ["cat"] and store.snapshot().entities["exemplars"].to_pylist() == [1]
    assert precious.read_text() == "the only copy"


READERS = {
    "ask": lambda store: store.snapshot(),
    "index": lambda store: store.lost_contents(),
    "crops": lambda store: list(store.read_crops(segments=np.array([1], np.int32))),
    "compact": lambda store: store.compact(),
    "forget": lambda store: store.forget_entity("cat", np.array([1 << 32])),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "path", ["{folder}/precious.txt", "data/crops/../../../precious.txt", "data/crops/..", "precious.txt"]
)
def test_a_data_file_elsewhere_is_not_opened(tmp_path, reader, path):
    precious = put(tmp_path / "precious.txt")
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        store.add_exemplars("cat", [exemplar()])
    change(
        tmp_path / "x", "UPDATE files SET path = ? WHERE table_name = 'crops'", path.format(folder=tmp_path)
    )
    with Store.open(tmp_path / "x") as store, pytest.raises(LibraryDamaged, match="row of its table files"):
        READERS[reader](store)
    assert precious.read_text() == "the only copy"


def test_a_retired_data_file_elsewhere_is_not_deleted(tmp_path):
    """The next command of any kind deleted it."""
    precious = put(tmp_path / "precious.txt")
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        index(store, "a.mp4", content="another")  # one of its own is to go in the same sweep
    change(
        tmp_path / "x",
        "INSERT INTO files (table_name, path, row_count, bytes, retired_version, retired_at)"
        " VALUES ('crops', ?, 1, 1, 1, 0.0)",
        str(precious),
    )
    own = everything(tmp_path / "x" / "data")
    with Store.open(tmp_path / "x") as store:
        for act in (lambda: store.add_exemplars("cat", [exemplar()]), lambda: store.sweep(grace_seconds=0)):
            with pytest.raises(LibraryDamaged, match=r"row of its table files names .*precious.txt'"):
                act()
        assert store.entities() == []
    assert precious.exists() and everything(tmp_path / "x" / "data") == own


@pytest.mark.parametrize(
    ("part", "advice"),
    [
        ("catalog.sqlite", "put what it leads to in its place"),
        ("data", "put what it leads to in its place"),
        ("data/frames", "put what it leads to in its place"),
        ("album", "put what it leads to in its place"),
        ("index", "delete it, and what is missing is made again: rm "),
        ("index/model_hash_00000-e1", "delete it, and what is missing is made again: rm "),
        ("index/model_hash_00000-e1/lock", "delete it, and what is missing is made again: rm "),
        ("index/model_hash_00000-e1/g1.crops", "delete it, and what is missing is made again: rm "),
        ("index/places", "delete it, and what is missing is made again: rm "),
        ("locks", "delete it, and what is missing is made again: rm "),
        ("locks/asking.lock", "delete it, and what is missing is made again: rm "),
    ],
)
def test_a_library_with_a_link_in_the_place_of_its_own_is_refused(tmp_path, part, advice):
    """Through it, everything in any folder of the user's could be deleted."""
    root = tmp_path / "x"
    with Store.create(root) as store:
        index(store, "a.mp4")
        folder = VectorTable.load(store.snapshot(), MODEL, 1).folder
        PlaceTables(store.snapshot()).prepare()
    assert folder is not None and folder.name == "model_hash_00000-e1"
    (root / "index/places").mkdir(exist_ok=True)
    put(root / "locks/asking.lock")
    elsewhere = tmp_path / "elsewhere"
    (root / part).rename(elsewhere)
    (root / part).symlink_to(elsewhere)
    if elsewhere.is_dir():
        put(elsewhere / "g1.mp4")
        put(elsewhere / f"s00000009-{HEX}.parquet")
    before = everything(tmp_path)
    with pytest.raises(LibraryDamaged, match=f"{part} is a link; .*{advice}.*move all of it there"):
        Store.open(root)
    assert everything(tmp_path) == before
    if part.startswith(("index", "locks")):
        with pytest.raises(LibraryDamaged, match=f"{part} is a link"):
            Store.open(root, write=False)
    else:
        with Store.open(root, write=False) as store:
            check_whole(store.snapshot())
    (root / part).unlink()
    if advice.startswith("put"):
        elsewhere.rename(root / part)
    with Store.open(root) as store:
        check_whole(store.snapshot())


def test_a_library_behind_a_link_is_one(tmp_path):
    Store.create(tmp_path / "disk" / "x").close()
    (tmp_path / "x").symlink_to(tmp_path / "disk" / "x")
    with Store.open(tmp_path / "x") as store:
        index(store, "a.mp4")
        store.sweep()
        check_whole(store.snapshot())


@pytest.mark.parametrize("part", ["folder", "file"])
def test_a_link_in_the_album_is_not_followed(tmp_path, part):
    elsewhere = tmp_path / "elsewhere"
    kept = put(elsewhere / f"{HEX}.jpg")
    with Store.create(tmp_path / "x") as store:
        store.add_exemplars("cat", [exemplar()])
        picture = store.exemplars("cat")[0].picture
        if part == "file":
            picture.unlink()
            picture.symlink_to(kept)
        else:
            picture.rename(elsewhere / picture.name)
            picture.parent.rmdir()
            picture.parent.symlink_to(elsewhere)
        before = everything(elsewhere)
        acts = [*ACTIONS.values(), lambda store: store.add_exemplars("cat", [exemplar(b"second")])]
        for act in acts if part == "folder" else acts[:-1]:
            with pytest.raises(LibraryDamaged, match="is a link"):
                act(store)
        store.sweep()
    assert everything(elsewhere) == before


def test_a_file_in_the_making_is_not_written_through_a_link(tmp_path, monkeypatch):
    """Their names are drawn, and still nothing that is there already is written to."""
    precious = put(tmp_path / "precious.txt")
    with Store.create(tmp_path / "x") as store:
        store.add_exemplars("cat", [exemplar()])
        picture = store.exemplars("cat")[0].picture
        picture.unlink()
        monkeypatch.setattr("panorama.store.files.layout.uuid.uuid4", lambda: uuid.UUID(HEX))
        (picture.parent / f".tmp-{HEX}-{picture.name}").symlink_to(precious)
        with contextlib.suppress(panorama.PanoramaError):
            store.add_exemplars("cat", [exemplar()])
    assert precious.read_text() == "the only copy"
