"""What is forgotten or taken out is looked for in the bytes of every file of the library."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import Ran
from fakes import Thing, write_album, write_film
from store_samples import MODEL, check_whole, data_files, exemplar, index, jpeg, unit_vectors

from panorama.errors import LibraryWriteError, PanoramaError
from panorama.store import Snapshot, Store, pack_ids
from panorama.store.files import crops
from panorama.store.files.lost import ListedFile
from panorama.store.upkeep import rewrite
from panorama.store.upkeep.sweep import GRACE_SECONDS
from panorama.store.vectors.index import VectorIndex
from panorama.store.vectors.vector_table import VectorTable

NOBODY = np.zeros(0, np.int64)
"""The tracks of a thing that was matched nowhere, or whose videos are all taken out."""


def traces(store: Store, seed: int, crops: int = 3) -> set[str]:
    """Folders whose files hold a picture or a vector of a video of store_samples, as raw bytes or a row."""
    pictures = [jpeg(seed, crop) for crop in range(crops)]
    vectors = {vector.tobytes() for vector in unit_vectors(crops, seed)}
    found = set()
    for path in (path for path in store.path.rglob("*") if path.is_file()):
        held = path.read_bytes()
        # Parquet stores vectors compressed; what is not listed is read all the same.
        rows = pq.read_table(path)["vector"].to_pylist() if path.parent.name == "embeddings" else []
        held_vectors = {np.array(row, np.float32).tobytes() for row in rows}
        if any(one in held for one in (*pictures, *vectors)) or held_vectors & vectors:
            found.add(str(path.relative_to(store.path)).split("/")[0])
    return found


def searched(store: Store, snapshot: Snapshot | None = None) -> VectorTable:
    """Fills index/ as queries do."""
    return VectorTable.load(snapshot or store.snapshot(), MODEL, 1)


def later(store: Store, seconds: float = GRACE_SECONDS + 1) -> None:
    """Lets time pass since what was retired was retired."""
    with store._place.catalog.write() as tx:
        tx.run("UPDATE files SET retired_at = retired_at - :s WHERE retired_at > 0", s=seconds)


def removed(store: Store) -> None:
    store.remove_videos(["1.mp4"])


def indexed_anew(store: Store) -> None:
    index(store, "1.mp4", settings="6 fps", seed=7)


def removed_from_a_merged_file(store: Store) -> None:
    store.compact()
    searched(store)
    store.remove_videos(["1.mp4"])


def indexed_anew_beside_a_merged_file(store: Store) -> None:
    store.compact()
    searched(store)
    index(store, "1.mp4", settings="6 fps", seed=7)


def merged_after_it_was_removed(store: Store) -> None:
    store.remove_videos(["1.mp4"])
    store.compact()


CASES = [
    removed, indexed_anew, removed_from_a_merged_file, indexed_anew_beside_a_merged_file,
    merged_after_it_was_removed,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("matched", [False, True])
def test_forgetting_with_sightings_leaves_no_byte_of_what_is_not_live(store, case, matched) -> None:
    """The old crops of a thing lie in segments that nothing is matched in any more."""
    for number in range(4):
        index(store, f"{number}.mp4", seed=number)
    searched(store)
    store.add_exemplars("cat", [exemplar()])
    case(store)
    searched(store)
    assert "data" in traces(store, 1)
    store.forget_entity("cat", pack_ids(1, [0]) if matched else NOBODY)
    assert traces(store, 1) == set()
    searched(store)
    assert traces(store, 1) == set()
    assert traces(store, 2) == {"data", "index"}, "what nobody forgets stays"
    check_whole(store.snapshot())
    assert jpeg(0, 0) not in b"".join(p.read_bytes() for p in store.path.rglob("*.parquet")) or not matched


@pytest.mark.parametrize("case", [removed, removed_from_a_merged_file, merged_after_it_was_removed])
def test_a_removed_video_leaves_with_the_first_change_after_the_grace(store, case) -> None:
    for number in range(4):
        index(store, f"{number}.mp4", seed=number)
    searched(store)
    store.add_exemplars("cat", [exemplar()])
    case(store)
    snapshot = store.snapshot()
    assert not snapshot.has_dead_rows, "no query reads rows of it"
    assert traces(store, 1) == {"data"}, "for those who read it, and not in what is searched"
    check_whole(snapshot)
    store.rename_entity("cat", "tom")
    assert traces(store, 1) == {"data"}
    later(store)
    store.rename_entity("tom", "cat")
    assert traces(store, 1) == set()
    searched(store)
    assert traces(store, 1) == set() and traces(store, 2) == {"data", "index"}


@pytest.mark.parametrize("ahead_seconds", [GRACE_SECONDS + 60, 365 * 86400.0])
def test_so_it_does_where_the_clock_was_ahead_when_it_was_removed(store, ahead_seconds) -> None:
    """Until the clock had come to that time, for a year, no command deleted it."""
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    store.remove_videos(["1.mp4"])
    store.begin_segment("killed", "s")._files.release()
    later(store, -60)
    store.sweep()
    assert traces(store, 1) == {"data"}, "readers have ten minutes, also where the clock went back a little"
    with store._place.catalog.write() as tx:
        tx.run("UPDATE segments SET created_at = created_at + :s", s=ahead_seconds)
    later(store, 60 - ahead_seconds)
    store.compact()
    store.sweep()
    assert traces(store, 1) == set()
    with store._place.catalog.read() as tx:
        assert tx.scalar("SELECT count(*) FROM segments WHERE state <> 'live'") == 0


CHANGES: list[Callable[[Store], object]] = [
    lambda store: store.drop_entity("cat"),
    lambda store: store.forget_entity("cat"),
    lambda store: store.remove_videos(["2.mp4"]),
    lambda store: store.compact(),
    lambda store: store.add_exemplars("dog", [exemplar()]),
    lambda store: store.remove_exemplars([1]),
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_the_library_sweeps(store, change) -> None:
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    store.add_exemplars("cat", [exemplar()])
    store.remove_videos(["1.mp4"])
    later(store)
    change(store)
    assert traces(store, 1) == set()


def test_what_cannot_be_deleted_hinders_no_change_and_is_told_by_compact(store, monkeypatch) -> None:
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    store.add_exemplars("cat", [exemplar()])
    store.remove_videos(["1.mp4"])
    later(store)
    unlink = Path.unlink

    def denied(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".parquet":
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", denied)
    store.rename_entity("cat", "tom")
    assert store.entities() == ["tom"] and traces(store, 1) == {"data"}
    with pytest.raises(LibraryWriteError, match="Permission denied; check the permissions"):
        store.compact()
    monkeypatch.undo()
    store.compact()
    assert traces(store, 1) == set()


def test_what_is_indexed_anew_while_it_is_forgotten_leaves_no_byte_of_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit retires the very files that are being rewritten."""
    for number in range(2):
        index(store, f"{number}.mp4", seed=number)
    store.add_exemplars("cat", [exemplar()])
    rewriting, anew = rewrite._rows_of, list[str]()

    def slow(*given: Any) -> Any:
        if not anew:
            anew.append(index(store, "1.mp4", settings="6 fps", seed=7))
        return rewriting(*given)

    monkeypatch.setattr(rewrite, "_rows_of", slow)
    store.forget_entity("cat", pack_ids(2, [0]))
    assert anew and traces(store, 1) == set()
    assert traces(store, 0) and traces(store, 7)
    check_whole(store.snapshot())


def test_what_is_known_of_other_things_names_no_track_that_went(store: Store) -> None:
    index(store, "0.mp4")
    for name in ("cat", "dog"):
        store.add_exemplars(name, [exemplar()])
        store.cache_sightings(name, "key", b"tracks")
    store.forget_entity("cat", pack_ids(1, [0]))
    assert store.cached_sightings("dog", "key") is None


def test_who_reads_meanwhile_keeps_a_removed_video_and_not_a_forgotten_one(store) -> None:
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    store.compact()
    store.add_exemplars("cat", [exemplar()])
    with Store.open(store.path) as other:
        held = other.snapshot()
        store.remove_videos(["1.mp4"])
        later(store)
        store.rename_entity("cat", "tom")
        assert {s for p in held.files["crops"] for s in pq.read_table(p)["segment"].to_pylist()} == {1, 2, 3}
        store.forget_entity("tom", NOBODY)
        assert traces(store, 1) == set()
        with pytest.raises(PanoramaError, match="erased or replaced meanwhile; run the same command again"):
            list(_crops_of(held.files["crops"]))
        assert sum(len(batch) for batch in other.read_crops(segments=np.array([1, 3]))) == 6


def _crops_of(paths: list[str]) -> list[object]:
    return [ListedFile(path).read() for path in paths]


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


@pytest.mark.parametrize(
    "error", [LibraryWriteError("no space left"), OSError(errno.ENOSPC, "no space left")]
)
def test_a_video_is_out_also_where_no_file_can_be_rewritten(store, monkeypatch, error) -> None:
    """It was to be taken out by the same command again, too, which knows no such video."""
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    store.compact()

    def full(*_: object, **__: object) -> bool:
        raise error

    monkeypatch.setattr(rewrite, "_swap", full)
    with pytest.raises(LibraryWriteError, match=r"removed, but .* keep .*: no space left; .*compact") as told:
        store.remove_videos(["1.mp4"])
    assert "same command" not in str(told.value)
    assert store.snapshot().videos["video"].to_pylist() == ["0.mp4", "2.mp4"]
    monkeypatch.undo()
    store.compact()
    later(store)
    store.compact()
    assert traces(store, 1) == set()


def test_from_the_command_line_nothing_of_a_forgotten_thing_stays(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """Removed, indexed anew and merged: its pictures are in no file, those of others are."""
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing(color, 5, 35, left=8 if name == "a" else 30)])
    run("index", "v", "--model", "color-bands", "--fps", "10")
    run("compact")
    with Store.open(tmp_path / "panorama-library") as store:
        segments = store.snapshot().videos
        stored = {
            video: [j for b in store.read_crops(segments=np.array([segment])) for j in b.jpegs]
            for video, segment in zip(
                segments["video"].to_pylist(), segments["segment"].to_pylist(), strict=True
            )
        }
    run("register", "--album", write_album(tmp_path / "album", "red"))
    run("index", "v/b.mp4", "--fps", "5", "--redo")
    run("remove", "a.mp4")
    assert run("query", "SELECT frames WHERE entity = 'red'").status == 0
    held = run("query", "SELECT DISTINCT segment FROM _panorama.crops", "--format", "json")
    assert held.status == 0, held.err
    assert run("forget", "red", "--with-sightings", "--yes").status == 0
    assert run("query", "SELECT count(*) AS n FROM crops").status == 0
    everything = b"".join(
        path.read_bytes() for path in (tmp_path / "panorama-library").rglob("*") if path.is_file()
    )
    assert stored["a.mp4"] and stored["b.mp4"]
    assert not [one for video in ("a.mp4", "b.mp4") for one in stored[video] if one in everything]
    assert any(one in everything for one in stored["c.mp4"])
