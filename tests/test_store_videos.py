"""One row a file, one segment a content: copies, renames, equal names, re-indexing and removal."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from store_samples import check_whole, index, video_row

from panorama.errors import UnknownVideo
from panorama.store import KnownFile, Store


def names(store: Store) -> dict[str, int]:
    videos = store.snapshot().videos
    return dict(zip(videos["video"].to_pylist(), videos["segment"].to_pylist(), strict=True))


def test_a_known_file_needs_no_hashing(store):
    assert store.known_file("/archive/a.mp4") is None
    index(store, "a.mp4", content="c", settings="s1")
    segment = names(store)["a.mp4"]
    assert store.known_file("/archive/a.mp4") == KnownFile(
        "a.mp4", 1000, 5, "c", segment, "s1", is_older=True
    )
    assert store.known_content("c") == store.known_file("/archive/a.mp4")
    assert store.known_content("other") is None


def test_a_second_root_with_the_same_name_gets_its_folder_in_front(store):
    assert index(store, "gate/1.mp4", content="a", root="/disks/north") == "gate/1.mp4"
    assert index(store, "gate/1.mp4", content="b", root="/disks/south") == "south/gate/1.mp4"
    assert index(store, "gate/1.mp4", content="c", root="/other/south") == "other/south/gate/1.mp4"
    assert len(set(names(store).values())) == 3


def test_a_video_keeps_its_name_when_it_is_indexed_again(store):
    index(store, "1.mp4", content="a", root="/disks/north")
    index(store, "1.mp4", content="b", root="/disks/south")
    assert index(store, "1.mp4", content="b2", root="/disks/south") == "south/1.mp4"
    assert sorted(names(store)) == ["1.mp4", "south/1.mp4"]


def test_copies_share_a_segment_and_have_a_row_each(store, tmp_path):
    first, copy = tmp_path / "a.mp4", tmp_path / "copy.mp4"
    first.touch(), copy.touch()
    index(store, "a.mp4", content="same", root=str(tmp_path))
    row = replace(video_row("copy.mp4", "same", str(tmp_path)), width=0, height=0, frames=0, duration=0.0)
    assert store.attach_video(row, "s") == "copy.mp4"
    found = store.snapshot().videos.to_pylist()
    assert len({v["segment"] for v in found}) == 1 and len(found) == 2
    assert {(v["width"], v["frames"], v["duration"]) for v in found} == {(64, 12, 1.2)}


def test_content_that_is_not_indexed_cannot_be_attached(store):
    index(store, "a.mp4", content="c", settings="s1")
    assert store.attach_video(video_row("b.mp4", "other"), "s1") is None
    assert store.attach_video(video_row("b.mp4", "c"), "s2") is None


def test_a_renamed_file_keeps_its_row(store, tmp_path):
    index(store, "old.mp4", content="c", root=str(tmp_path))
    segment = names(store)["old.mp4"]
    (tmp_path / "new.mp4").touch()
    assert store.attach_video(video_row("new.mp4", "c", str(tmp_path)), "s") == "new.mp4"
    assert names(store) == {"new.mp4": segment}


def test_of_copies_that_are_gone_the_one_of_that_name_was_moved(store, tmp_path):
    copies = [tmp_path / "x" / "1.mp4", tmp_path / "y" / "2.mp4"]
    for path in (*copies, tmp_path / "z" / "2.mp4"):
        path.parent.mkdir()
        path.touch()
    for path in copies:
        index(store, path.name, content="c", root=str(path.parent))
    for path in copies:
        path.unlink()
    store.attach_video(video_row("2.mp4", "c", str(tmp_path / "z")), "s")
    assert store.known_files().keys() == {str(copies[0]), str(tmp_path / "z" / "2.mp4")}


@pytest.mark.parametrize("pictures", [False, True])
def test_a_copy_of_what_lies_on_a_disk_that_is_not_mounted_is_a_video_of_its_own(store, tmp_path, pictures):
    """The video on the disk gave its row to the copy, and with it its name and camera."""
    there = tmp_path / "disk" / "gate" / "north"
    there.parent.mkdir(parents=True)
    if pictures:
        there.mkdir()
    else:
        there.touch()
    index(store, "gate/north", content="c", root=str(tmp_path / "disk"))
    (tmp_path / "disk").rename(tmp_path / "away")
    (tmp_path / "disk").mkdir()
    os.utime(
        tmp_path / "disk", (1e9, 1e9)
    )  # the folder that the disk was mounted at is older than its videos
    copy = video_row("evidence", "c", str(tmp_path))
    assert store.moved_from(copy) is None and store.attach_video(copy, "s") == "evidence"
    assert names(store).keys() == {"gate/north", "evidence"}


def test_the_last_file_that_was_moved_out_of_a_folder_keeps_its_row(store, tmp_path):
    """Its folder is empty, but was not before: it is no disk that is not mounted."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "a.mp4").touch()
    os.utime(tmp_path / "inbox", (1e9, 1e9))
    index(store, "a.mp4", content="c", root=str(tmp_path / "inbox"))
    (tmp_path / "inbox" / "a.mp4").unlink()
    moved = video_row("kept.mp4", "c", str(tmp_path))
    assert store.moved_from(moved) == "a.mp4" and store.attach_video(moved, "s") == "kept.mp4"


def test_pictures_that_were_moved_out_of_a_folder_in_which_others_are_left_keep_their_row(store, tmp_path):
    """Their folder is there: they counted as a copy, and everything was found twice."""
    (tmp_path / "card" / "north").mkdir(parents=True)
    (tmp_path / "card" / "north" / "clip.mp4").touch()
    index(store, "north", content="c", root=str(tmp_path / "card"))
    moved = video_row("south", "c", str(tmp_path / "card"))
    (tmp_path / "card" / "north" / "1.JPG").touch()
    assert store.moved_from(moved) is None
    (tmp_path / "card" / "north" / "1.JPG").unlink()
    assert store.moved_from(moved) == "north" and store.attach_video(moved, "s") == "south"
    assert names(store).keys() == {"south"} and store.moved_from(moved) is None


def test_rows_follow_files_that_took_each_others_names(store):
    for number, root in enumerate(("/disks/north", "/disks/south", "/disks/south")):
        index(store, f"{number // 2}.mp4", content=f"c{number}", root=root)
    before, known = names(store), store.known_files()
    north, south, last = "/disks/north/0.mp4", "/disks/south/0.mp4", "/disks/south/1.mp4"
    assert list(known) == [north, south, last] and known[south] == store.known_file(south)
    moves = {
        north: video_row("0.mp4", "c0", "/disks/south", camera="gate"),
        south: video_row("9.mp4", "c1", "/disks/south", mtime_ns=99),
    }
    assert store.move_videos(moves, {**known, last: None}) is False and names(store) == before
    assert store.move_videos(moves, known)
    assert names(store) == {
        "south/0.mp4": before["0.mp4"],
        "9.mp4": before["south/0.mp4"],
        "1.mp4": before["1.mp4"],
    }
    assert store.known_files().keys() == {south, "/disks/south/9.mp4", last}
    assert {row.name: row.recorded.camera for row in store.recorded()} == {
        "south/0.mp4": "gate",
        "9.mp4": "",
        "1.mp4": "",
    }
    check_whole(store.snapshot())


@pytest.mark.parametrize("first", ["new", "taken"])
def test_a_file_under_a_new_path_takes_no_name_that_another_is_about_to_get(store, first):
    """Whichever of two moves came first."""
    for name, root in (("a.mp4", "/disks/north"), ("b.mp4", "/disks/north"), ("c.mp4", "/disks/north")):
        index(store, name, content=name, root=root)
    moves = {
        "/disks/north/a.mp4": video_row("c.mp4", "a.mp4", "/disks/south"),
        "/disks/north/b.mp4": video_row("c.mp4", "b.mp4", "/disks/north"),
    }
    moves = moves if first == "new" else dict(reversed(moves.items()))
    segments = names(store)
    assert store.move_videos(moves, store.known_files())
    assert names(store) == {"south/c.mp4": segments["a.mp4"], "c.mp4": segments["b.mp4"]}


def test_a_file_that_was_written_over_by_a_renamed_one_goes(store):
    for name in ("a.mp4", "b.mp4"):
        index(store, name, content=name)
    segment = names(store)["a.mp4"]
    moves = {"/archive/a.mp4": video_row("b.mp4", "a.mp4")}
    assert store.move_videos(moves, store.known_files()) and names(store) == {"b.mp4": segment}
    check_whole(store.snapshot())


def test_a_touched_file_keeps_its_segment_and_learns_the_new_time(store):
    index(store, "a.mp4", content="c")
    store.attach_video(video_row("a.mp4", "c", mtime_ns=99), "s")
    known = store.known_file("/archive/a.mp4")
    assert known is not None and known.mtime_ns == 99 and len(names(store)) == 1


def test_other_settings_replace_the_segment_for_all_copies(store, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).touch()
    index(store, "a.mp4", content="c", settings="old", root=str(tmp_path))
    store.attach_video(video_row("b.mp4", "c", str(tmp_path)), "old")
    index(store, "a.mp4", content="c", settings="new", root=str(tmp_path), frames=13)
    snapshot = store.snapshot()
    assert len(set(names(store).values())) == 1
    assert {v["frames"] for v in snapshot.videos.to_pylist()} == {13}
    assert len(snapshot.files["frames"]) == 1
    check_whole(snapshot)


def test_a_changed_file_is_replaced_and_its_copy_keeps_the_old_segment(store, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).touch()
    index(store, "a.mp4", content="c", root=str(tmp_path))
    store.attach_video(video_row("b.mp4", "c", str(tmp_path)), "s")
    old = names(store)["b.mp4"]
    index(store, "a.mp4", content="changed", root=str(tmp_path))
    assert names(store)["b.mp4"] == old and names(store)["a.mp4"] != old
    check_whole(store.snapshot())


def test_remove_takes_out_one_video_and_names_near_ones(store):
    index(store, "gate-1.mp4")
    index(store, "gate-2.mp4")
    store.remove_videos(["gate-1.mp4"])
    assert list(names(store)) == ["gate-2.mp4"]
    check_whole(store.snapshot())
    with pytest.raises(UnknownVideo, match=r"no video 'gate-3.mp4'.*'gate-2.mp4'.*panorama videos"):
        store.remove_videos(["gate-3.mp4"])
    with pytest.raises(UnknownVideo, match=r"no video 'gate-3.mp4'"):
        store.remove_videos(["gate-2.mp4", "gate-3.mp4"])
    assert list(names(store)) == ["gate-2.mp4"]
    before = store.snapshot()
    store.remove_videos([])
    assert store.snapshot() is before


def test_a_copy_survives_the_removal_of_the_other(store, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).touch()
    index(store, "a.mp4", content="c", root=str(tmp_path))
    store.attach_video(video_row("b.mp4", "c", str(tmp_path)), "s")
    store.remove_videos(["a.mp4"])
    assert list(names(store)) == ["b.mp4"]
    check_whole(store.snapshot())
