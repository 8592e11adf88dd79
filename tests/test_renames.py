"""Files that took each other's names keep their rows: nothing of what is known is decoded again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from fakes import ColoredThings
from indexing_samples import SETTINGS, Counting, films, index

from panorama.indexing.run import index_paths
from panorama.indexing.stages import Indexer
from panorama.models.color import ColorEmbedder
from panorama.store import Recorded, Store
from panorama.video import find_videos


def frames_of(library: Path) -> dict[str, int]:
    """Frames of each video by name; the films of these tests differ in them."""
    with Store.open(library) as store:
        videos = store.snapshot().videos
        assert store.info().counts["segments"] == len(videos)
    return dict(zip(videos["video"].to_pylist(), videos["frames"].to_pylist(), strict=True))


RENAMED = {
    # From name to name, the names in order; what stands behind is read from the new place.
    "two change names": ("12", "21", {"1.mp4": 34, "2.mp4": 27}),
    "three go round": ("123", "231", {"1.mp4": 41, "2.mp4": 27, "3.mp4": 34}),
    "moved on": ("123", "234", {"2.mp4": 27, "3.mp4": 34, "4.mp4": 41}),
    "one over another": ("1", "2", {"2.mp4": 27, "3.mp4": 41}),
    "over another, which moved on": ("12", "29", {"2.mp4": 27, "3.mp4": 41, "9.mp4": 34}),
}


@pytest.mark.parametrize("name", RENAMED)
def test_files_that_took_each_others_names_are_not_decoded_again(name: str, tmp_path: Path) -> None:
    """The first was said to be a copy, which put the other's content out before its turn came: it failed."""
    before, after, expected = RENAMED[name]
    folder = films(tmp_path / "films", 4)
    (folder / "0.mp4").unlink()
    if name == "two change names":
        (folder / "3.mp4").unlink()
    index(tmp_path / "library", [folder])
    for old in before:
        (folder / f"{old}.mp4").rename(tmp_path / old)
    for old, new in zip(before, after, strict=True):
        (tmp_path / old).rename(folder / f"{new}.mp4")
    for number in range(2):  # the second finds everything as it is
        again = Counting()
        outcomes = index(tmp_path / "library", [folder], proposer=again)
        assert [f.status for f in outcomes] == ["skipped"] * len(expected) and not again.batches
        assert frames_of(tmp_path / "library") == expected
        moved = sum(f.note == "the same content is indexed already" for f in outcomes)
        assert moved == (0 if number else len(before))


def test_of_a_file_that_was_moved_its_name_so_far_is_said(tmp_path: Path) -> None:
    """The same was said of a copy, and nobody saw which name went."""
    folder = films(tmp_path / "films", 2)
    index(tmp_path / "library", [folder])
    (folder / "1.mp4").rename(folder / "9.mp4")
    (folder / "8.mp4").write_bytes((folder / "0.mp4").read_bytes())
    notes = {f.video: f.note for f in index(tmp_path / "library", [folder])}
    assert notes["9.mp4"] == "the same content is indexed already; it is 1.mp4, which was moved"
    assert notes["8.mp4"] == "the same content is indexed already"


def test_a_file_that_holds_something_else_than_before_is_said(tmp_path: Path) -> None:
    """Of two cards at one place the second silently replaced what was found on the first."""
    folder = films(tmp_path / "films", 3)
    index(tmp_path / "library", [folder / "0.mp4"])
    first = (folder / "0.mp4").read_bytes()

    def told(name: str = "0.mp4") -> list[str]:
        indexer = Indexer(ColorEmbedder(), ColoredThings(), SETTINGS)
        with Store.create(tmp_path / "library", exist_ok=True) as store:
            warnings = index_paths(store, indexer, find_videos([folder / name])).warnings
        return [line for line in warnings if "something else" in line]

    assert told() == []
    for number in (2, 1):  # it is longer, then shorter
        (folder / "0.mp4").write_bytes((folder / f"{number}.mp4").read_bytes())
        (line,) = told()
        assert line.startswith("1 file holds something else than when last indexed, 0.mp4: what was found")
    (folder / "0.mp4").write_bytes((folder / "0.mp4").read_bytes() + bytes(100))
    assert told() == [], "it has only grown"
    (folder / "copy.mp4").write_bytes((folder / "0.mp4").read_bytes())
    assert told("copy.mp4") == []
    (folder / "0.mp4").write_bytes(first)
    assert told() == [], "the library holds the copy"


@pytest.mark.parametrize("count", [2, 3])
def test_of_files_that_took_each_others_names_one_may_be_named(count: int, tmp_path: Path) -> None:
    """What the first was before went, and with it the time that was set for it by hand."""
    folder = films(tmp_path / "films", count)
    index(tmp_path / "library", [folder])
    with Store.open(tmp_path / "library") as store:
        before = {row.name: Recorded("", 1e9 + n, "UTC", "set") for n, row in enumerate(store.recorded())}
        store.put_recorded(before)
    paths = [folder / f"{number}.mp4" for number in range(count)]
    paths[0].rename(tmp_path / "first")
    for old, new in zip(paths[1:], paths, strict=False):
        old.rename(new)
    (tmp_path / "first").rename(paths[-1])
    again = Counting()
    assert [f.status for f in index(tmp_path / "library", paths[:1], proposer=again)] == ["skipped"]
    names = [path.name for path in paths]
    assert frames_of(tmp_path / "library") == {
        name: 20 + 7 * ((number + 1) % count) for number, name in enumerate(names)
    }
    with Store.open(tmp_path / "library") as store:
        assert {row.name: row.recorded.start_time_unix for row in store.recorded()} == {
            name: before[names[(number + 1) % count]].start_time_unix for number, name in enumerate(names)
        }
        assert {row.root for row in store.recorded()} == {str(folder)}
    others = index(tmp_path / "library", [folder], proposer=again)
    assert [f.note for f in others] == ["unchanged since it was indexed"] * count and not again.batches


def test_a_file_that_was_not_named_and_holds_something_new_gives_its_row_to_its_content(
    tmp_path: Path,
) -> None:
    folder = films(tmp_path / "films", 3)
    paths = [folder / f"{number}.mp4" for number in range(3)]
    index(tmp_path / "library", paths[:2])
    paths[1].rename(paths[0])
    paths[2].rename(paths[1])
    assert [f.status for f in index(tmp_path / "library", paths[:1])] == ["skipped"]
    assert frames_of(tmp_path / "library") == {"0.mp4": 27}
    assert [f.status for f in index(tmp_path / "library", paths[:2])] == ["skipped", "indexed"]
    assert frames_of(tmp_path / "library") == {"0.mp4": 27, "1.mp4": 34}


def test_a_rotation_with_a_new_first_file_decodes_that_alone(tmp_path: Path) -> None:
    folder = films(tmp_path / "films", 4)
    (folder / "3.mp4").rename(tmp_path / "new")
    index(tmp_path / "library", [folder])
    for number in (2, 1, 0):
        (folder / f"{number}.mp4").rename(folder / f"{number + 1}.mp4")
    (tmp_path / "new").rename(folder / "0.mp4")
    outcomes = index(tmp_path / "library", [folder])
    assert [f.status for f in outcomes] == ["indexed", *["skipped"] * 3]
    assert frames_of(tmp_path / "library") == {"0.mp4": 41, "1.mp4": 20, "2.mp4": 27, "3.mp4": 34}


def test_a_copy_over_another_file_takes_no_row_from_what_is_still_there(tmp_path: Path) -> None:
    """What it is a copy of was not named, and so not looked for."""
    folder = films(tmp_path / "films", 2)
    index(tmp_path / "library", [folder])
    (folder / "1.mp4").write_bytes((folder / "0.mp4").read_bytes())
    (outcome,) = index(tmp_path / "library", [folder / "1.mp4"])
    assert outcome.status == "skipped"
    with Store.open(tmp_path / "library") as store:
        videos = store.snapshot().videos
    assert dict(zip(videos["video"].to_pylist(), videos["frames"].to_pylist(), strict=True)) == {
        "0.mp4": 20,
        "1.mp4": 20,
    }


def test_content_that_a_file_before_it_put_out_is_decoded_in_the_same_run(tmp_path: Path) -> None:
    """As where two files of one size and time change names, which is not seen before their turn."""
    paths = [films(tmp_path / "films", 2) / f"{number}.mp4" for number in range(2)]
    size = max(path.stat().st_size for path in paths)
    held = [path.read_bytes().ljust(size, b"\0") for path in paths]
    for order in (1, -1):
        for path, content in zip(paths, held[::order], strict=True):
            path.write_bytes(content)
            os.utime(path, ns=(10**18, 10**18))
        outcomes = index(tmp_path / "library", paths)
    assert sorted(f.status for f in outcomes) == ["indexed", "skipped"]
    assert frames_of(tmp_path / "library") == {"0.mp4": 27, "1.mp4": 20}


def test_a_copy_of_a_file_in_a_folder_that_may_not_be_looked_into_is_no_renamed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to Python 3.13 the run ended there, with advice on the permissions of the library."""
    here, there = films(tmp_path / "here", 2), tmp_path / "there"
    index(tmp_path / "library", [here])
    there.mkdir()
    (there / "8.mp4").write_bytes((here / "1.mp4").read_bytes())
    as_before = Path.stat

    def closed(path: Path, **how: bool) -> os.stat_result:
        if path.parent == here:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return as_before(path, **how)

    monkeypatch.setattr(Path, "stat", closed)
    (outcome,) = index(tmp_path / "library", [there])
    assert outcome.status == "skipped"
    with Store.open(tmp_path / "library") as store:
        assert [row.name for row in store.recorded()] == ["0.mp4", "1.mp4", "8.mp4"]
