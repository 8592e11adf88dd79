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
from store_samples import MODEL, check_whole, exemplar, index, jpeg, unit_vectors

from panorama.errors import LibraryWriteError, PanoramaError
from panorama.store import Snapshot, Store, pack_ids
from panorama.store.files.lost import ListedFile
from panorama.store.upkeep import rewrite
from panorama.store.upkeep.sweep import GRACE_SECONDS
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
