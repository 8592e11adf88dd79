"""Finding videos among paths, and hashing them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from clips import write_picture_folder

from panorama.errors import VideoOpenError
from panorama.store.files.layout import own_files
from panorama.video import (
    FileMark,
    content_hash,
    content_sample,
    file_state,
    find_videos,
    goes_on,
)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def names(paths: list[Path]) -> list[str]:
    return [video.name for video in find_videos(paths).videos]


def test_folder_is_searched_below_and_sorted(tmp_path: Path) -> None:
    for name in ("b.mp4", "a.MKV", "gate/night/c.avi", ".hidden.mp4", ".cache/d.mp4"):
        touch(tmp_path / name)
    found = find_videos([tmp_path])
    assert [v.name for v in found.videos] == ["a.MKV", "b.mp4", "gate/night/c.avi"]
    assert {v.root for v in found.videos} == {tmp_path}


@pytest.mark.parametrize("pattern", ["*", "**/*.mp4", "ca?d/*/*.mp4"])
def test_a_pattern_takes_hidden_files_only_where_it_begins_with_a_dot_itself(
    tmp_path: Path, pattern: str
) -> None:
    """What lay in the trash of a card, and a Mac's notes beside each file, were indexed."""
    for name in ("card/clips/a.mp4", "card/clips/._a.mp4", ".Trashes/501/b.mp4", "card/.Trash/c.mp4"):
        touch(tmp_path / name)
    assert [v.path for v in find_videos([tmp_path / pattern]).videos] == [tmp_path / "card/clips/a.mp4"]
    assert names([tmp_path / ".Tr*"]) == ["501/b.mp4"]
    assert names([tmp_path / ".Trashes" / "*"]) == ["b.mp4"]
    assert names([tmp_path / "*" / "clips" / ".*"]) == ["._a.mp4"]


def test_a_folder_of_pictures_named_by_dots_lies_in_the_folder_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its camera was the folder itself when it was named from inside, and the one around it otherwise."""
    write_picture_folder(tmp_path / "traps" / "north")
    (tmp_path / "traps" / "north" / "notes").mkdir()
    for inside, given in (("north", "."), ("north/notes", ".."), ("north/notes", "../../north/notes/..")):
        monkeypatch.chdir(tmp_path / "traps" / inside)
        (video,) = find_videos([given]).videos
        assert (video.name, video.root.resolve()) == ("north", tmp_path / "traps")


def test_files_of_studios_phones_and_recorders_are_videos(tmp_path: Path) -> None:
    names = ["a.mxf", "b.dv", "c.asf", "d.3g2", "e.f4v", "f.rm", "g.y4m", "h.IVF", "i.obu", "j.m2p"]
    for name in names:
        touch(tmp_path / name)
    assert [v.name for v in find_videos([tmp_path]).videos] == names


def test_unknown_suffixes_in_folders_are_counted(tmp_path: Path) -> None:
    for name in ("a.mp4", "notes.txt", "more/other.TXT", "more/README"):
        touch(tmp_path / name)
    found = find_videos([tmp_path])
    assert [v.name for v in found.videos] == ["a.mp4"]
    assert found.ignored == {".txt": 2, "": 1}


def test_named_file_is_taken_whatever_its_suffix(tmp_path: Path) -> None:
    found = find_videos([touch(tmp_path / "recording.dat")])
    assert [(v.name, v.root) for v in found.videos] == [("recording.dat", tmp_path)]


def test_glob_and_missing_path(tmp_path: Path) -> None:
    for name in ("gate-1.mp4", "gate-2.mp4", "yard.mp4"):
        touch(tmp_path / name)
    found = find_videos([tmp_path / "gate-*.mp4", tmp_path / "nowhere.mp4", tmp_path / "no-*.mp4"])
    assert [v.name for v in found.videos] == ["gate-1.mp4", "gate-2.mp4"]
    assert found.missing == [str(tmp_path / "nowhere.mp4"), str(tmp_path / "no-*.mp4")]


def test_file_whose_name_looks_like_a_glob_is_taken_as_it_is(tmp_path: Path) -> None:
    assert names([touch(tmp_path / "take[1].mp4")]) == ["take[1].mp4"]


def test_same_video_named_twice_is_found_once(tmp_path: Path) -> None:
    video = touch(tmp_path / "a.mp4")
    assert names([tmp_path, video]) == ["a.mp4"]


def test_a_video_beside_a_link_to_it_has_its_own_name(tmp_path: Path) -> None:
    # The link came first in the alphabet, and a question about 'plain.mp4' found no video.
    touch(tmp_path / "plain.mp4")
    for name in ("latest.mp4", "zebra.mp4"):
        (tmp_path / name).symlink_to("plain.mp4")
    assert names([tmp_path]) == ["plain.mp4"]
    assert names([tmp_path / "latest.mp4", tmp_path]) == ["plain.mp4"]
    assert names([tmp_path / "latest.mp4"]) == ["latest.mp4"]


def test_links_in_a_circle_cost_no_other_video(tmp_path: Path) -> None:
    """One of them ended the indexing of the whole archive."""
    touch(tmp_path / "z.mp4")
    (tmp_path / "a.mp4").symlink_to("b.mp4")
    (tmp_path / "b.mp4").symlink_to("a.mp4")
    found = find_videos([tmp_path])
    told = [path for path, _ in found.unreadable] + [v.name for v in found.videos if v.path.is_symlink()]
    assert [Path(path).name for path in told] == ["a.mp4", "b.mp4"]
    assert "z.mp4" in [v.name for v in found.videos]


def test_folders_that_links_lead_to_are_searched(tmp_path: Path) -> None:
    """An archive whose folders are links to other disks lost them without a word."""
    touch(tmp_path / "disk" / "day" / "b.mp4")
    touch(tmp_path / "disk" / "a.mp4")
    for n in (1, 2):
        touch(tmp_path / "card" / f"IMG_{n}.jpg")
    archive = tmp_path / "archive"
    touch(archive / "own.mp4")
    (archive / "gate").symlink_to("../disk")
    (archive / "stills").symlink_to(tmp_path / "card")
    (archive / "late").symlink_to("gate/day")
    assert names([archive]) == ["gate/a.mp4", "gate/day/b.mp4", "own.mp4", "stills"]
    # What is found under its own name, too, has that.
    assert names([archive, tmp_path / "disk"]) == ["a.mp4", "day/b.mp4", "own.mp4", "stills"]


@pytest.mark.parametrize("whole", ["all", "zz"])
def test_what_several_links_lead_to_is_searched_once(whole: str, tmp_path: Path) -> None:
    """A folder was searched again, and what is ignored in it counted again, by a link to one around it."""
    for name in ("disk/a.mp4", "disk/day/b.mp4", "disk/day/notes.txt"):
        touch(tmp_path / name)
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "day").symlink_to("../disk/day")
    (archive / whole).symlink_to("../disk")
    found = find_videos([archive])
    assert found.ignored == {".txt": 1}
    assert sorted(Path(video.name).name for video in found.videos) == ["a.mp4", "b.mp4"]


def test_a_link_to_where_nobody_may_look_costs_no_other_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "a.mp4")
    (tmp_path / "closed").symlink_to("/elsewhere")
    is_dir = Path.is_dir

    def refused(path: Path) -> bool:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", refused)
    found = find_videos([tmp_path])
    assert [video.name for video in found.videos] == ["a.mp4"]
    assert found.unreadable == [
        (str(tmp_path / "closed"), f"{tmp_path / 'closed'} cannot be read: Permission denied")
    ]


def test_links_between_folders_end(tmp_path: Path) -> None:
    for folder, link, target in (
        ("archive/sub", "up", ".."),
        ("archive/sub", "here", "."),
        ("archive", "outside", ".."),
        ("archive", "disk", "../disk"),
        ("disk", "back", "../archive/sub"),
        ("disk", "other", "../other"),
        ("other", "disk", "../disk"),
        ("other", "all", ".."),
    ):
        touch(tmp_path / folder / f"{link}.mp4")
        (tmp_path / folder / link).symlink_to(target)
    touch(tmp_path / "nobody-named-it.mp4")
    assert names([tmp_path / "archive"]) == [
        *("disk/back.mp4", "disk/other/all.mp4", "disk/other/disk.mp4", "disk/other.mp4"),
        *("disk.mp4", "outside.mp4", "sub/here.mp4", "sub/up.mp4"),
    ]


def test_a_folder_to_leave_out_is_not_looked_into(tmp_path: Path) -> None:
    """Files of a library in its own archive were told as ignored ones."""
    for name in ("a.mp4", "panorama-library/catalog.sqlite", "panorama-library/b.mp4", "notes.txt"):
        touch(tmp_path / name)
    touch(tmp_path / "panorama-library" / "crops" / "c.mp4")
    (tmp_path / "link").symlink_to("panorama-library")
    (tmp_path / "inner").symlink_to("panorama-library/crops")
    found = find_videos([tmp_path], leave_out=tmp_path / "panorama-library")
    assert ([v.name for v in found.videos], found.ignored) == (["a.mp4"], {".txt": 1})


def test_the_own_files_of_a_library_are_passed_over_and_footage_beside_them_is_not(tmp_path: Path) -> None:
    """An album of examples was said to be a video if it were named."""
    for name in ("x/lib/catalog.sqlite", "x/lib/data/crops/c.parquet", "x/lib/album/1/fox.jpg", "notes.txt"):
        touch(tmp_path / name)
    touch(tmp_path / "x" / "album" / "owl.jpg")  # of no library

    def find(path: Path) -> tuple[list[str], dict[str, int], dict[str, int], list[str]]:
        found = find_videos([path, path], library_parts=own_files)
        return [v.name for v in found.videos], found.ignored, found.pictures, found.libraries

    library, album = str(tmp_path / "x" / "lib"), str(tmp_path / "x" / "album")
    assert find(tmp_path) == ([], {".txt": 2, ".jpg": 2}, {album: 1}, [library])
    assert find(tmp_path / "x" / "lib") == ([], {}, {}, [library])
    assert find(tmp_path / "x" / "lib" / "album" / "1")[0] == ["1"]  # who names it means it
    touch(tmp_path / "x" / "lib" / "gate" / "a.mp4")
    assert find(tmp_path)[0] == ["x/lib/gate/a.mp4"] and find(tmp_path)[3] == []


def test_an_empty_path_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "a.mp4")
    monkeypatch.chdir(tmp_path)
    found = find_videos(["", "."])
    assert (found.missing, [v.name for v in found.videos]) == (["''"], ["a.mp4"])


def test_folder_of_numbered_pictures_is_one_video(tmp_path: Path) -> None:
    for n in (1, 2, 10):
        touch(tmp_path / "takes" / "walk" / f"frame{n}.jpg")
    assert names([tmp_path]) == ["takes/walk"]
    assert names([tmp_path / "takes" / "walk"]) == ["walk"]


def test_what_a_mac_puts_beside_each_picture_hides_no_video(tmp_path: Path) -> None:
    """A memory card that a Mac had seen held no video: ._IMG_0001.JPG has another name before its number."""
    for n in (1, 2):
        touch(tmp_path / "DCIM" / f"IMG_000{n}.JPG")
        touch(tmp_path / "DCIM" / f"._IMG_000{n}.JPG")
    assert names([tmp_path]) == ["DCIM"]


@pytest.mark.parametrize(
    "files", [["1.jpg"], ["a1.jpg", "b2.jpg"], ["portrait.jpg", "1.jpg"], ["1.jpg", "2.jpg", "film.mp4"]]
)
def test_folder_of_other_pictures_is_no_video(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        touch(tmp_path / "album" / name)
    found = find_videos([tmp_path])
    assert [v.name for v in found.videos] == ["album/film.mp4"] * ("film.mp4" in files)
    assert found.ignored == {".jpg": sum(name.endswith("jpg") for name in files)}


def test_a_named_folder_of_other_pictures_is_one_video_unless_it_holds_videos(tmp_path: Path) -> None:
    for name in ("trap/fox.jpg", "trap/owl.PNG", "trap/notes.txt", "one/owl.jpg"):
        touch(tmp_path / name)
    found = find_videos([tmp_path / "trap"])
    assert [(v.name, v.path) for v in found.videos] == [("trap", tmp_path / "trap")]
    assert (found.ignored, found.pictures, found.empty) == ({".txt": 1}, {}, [])
    assert names([tmp_path / "*"]) == ["one", "trap"]
    # In another folder they may be an album: which folders could be named is told.
    found = find_videos([tmp_path])
    assert (found.videos, found.empty) == ([], [str(tmp_path)])
    assert found.pictures == {str(tmp_path / "one"): 1, str(tmp_path / "trap"): 2}
    touch(tmp_path / "trap" / "night" / "a.mp4")
    found = find_videos([tmp_path / "trap"])
    assert [v.name for v in found.videos] == ["night/a.mp4"]
    assert (found.ignored, found.pictures) == ({".jpg": 1, ".png": 1, ".txt": 1}, {})


@pytest.mark.parametrize(
    ("files", "is_album"),
    [
        (["1.jpg", "2.jpg"], True),
        (["01.png", "2.JPG", "99.png"], True),
        (["001.jpg", "002.jpg"], False),
        (["9.jpg", "10.jpg", "100.jpg"], False),
        (["IMG_1.jpg", "IMG_2.jpg"], False),
        ([" 1.jpg", " 2.jpg"], False),
    ],
)
def test_what_is_found_under_short_numbers_alone_is_an_album_until_it_is_named(
    files: list[str], is_album: bool, tmp_path: Path
) -> None:
    """Of 17 videos of the sample folder 14 were its album, and its pictures were the best hits."""
    album = tmp_path / "archive" / "album"
    for name in files:
        touch(album / name)
    found = find_videos([tmp_path / "archive"])
    assert [v.name for v in found.videos] == ["album"] * (not is_album)
    assert found.pictures == ({str(album): len(files)} if is_album else {})
    assert sum(found.ignored.values()) == len(files) * is_album
    assert names([album]) == names([tmp_path / "*" / "album"]) == ["album"]
    known = find_videos([tmp_path / "archive"], known=lambda folder: folder == album)
    assert ([v.name for v in known.videos], known.ignored) == (["album"], {})


def test_videos_in_folders_below_one_of_numbered_pictures_are_found(tmp_path: Path) -> None:
    """They were passed over without a word."""
    for name in ("card/a1.jpg", "card/a2.jpg", "card/a2.xmp", "card/films/a.mp4"):
        touch(tmp_path / name)
    found = find_videos([tmp_path])
    assert [v.name for v in found.videos] == ["card", "card/films/a.mp4"]
    assert found.ignored == {".xmp": 1}


def test_content_hash_depends_on_bytes_not_on_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"same")
    (tmp_path / "b.mp4").write_bytes(b"same")
    (tmp_path / "c.mp4").write_bytes(b"other")
    hashes = [content_hash(FileMark.of(tmp_path / name)) for name in ("a.mp4", "b.mp4", "c.mp4")]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes[0]) == 64


def test_content_hash_of_a_picture_folder_sees_a_changed_picture_and_name(tmp_path: Path) -> None:
    folder = write_picture_folder(tmp_path / "walk", frames=3).path
    before = content_hash(FileMark.of(folder))
    assert content_hash(FileMark.of(folder)) == before
    (folder / "frame-2.png").rename(folder / "frame-3.png")
    renamed = content_hash(FileMark.of(folder))
    (folder / "frame-1.png").write_bytes((folder / "frame-0.png").read_bytes())
    assert len({before, renamed, content_hash(FileMark.of(folder))}) == 3


def test_a_picture_whose_name_is_no_text_is_in_the_content_hash_of_its_folder(tmp_path: Path) -> None:
    """Indexing the folder failed with a UnicodeEncodeError, as a defect."""
    for name in (b"\xc3\xa4.png", b"\xff.png"):
        touch(tmp_path / "walk" / os.fsdecode(name))
    held = [b"5 pictures a second", b"\xc3\xa4.png", b"1", b"x\xff.png", b"1", b"x"]
    assert content_hash(FileMark.of(tmp_path / "walk")) == hashlib.sha256(b"\0".join(held)).hexdigest()


@pytest.mark.parametrize("empty", [[], ["4"], ["4", "5"]])
def test_a_folder_grew_also_if_its_last_pictures_were_empty(tmp_path: Path, empty: list[str]) -> None:
    """Its former hash holds their names, which were not looked at: a time set by hand was forgotten."""
    folder = tmp_path / "trap"
    for name in "123":
        touch(folder / f"{name}.png").write_bytes(name.encode())
    for name in empty:
        touch(folder / f"{name}.png").write_bytes(b"")
    size, content = file_state(folder)[0], content_hash(FileMark.of(folder))
    (folder / "7.png").write_bytes(b"seven")
    assert goes_on(FileMark.of(folder), size, content)
    (folder / "6.png").write_bytes(b"")
    assert goes_on(FileMark.of(folder), size, content)
    for name in empty:
        (folder / f"{name}.png").write_bytes(b"filled by now")
        assert not goes_on(FileMark.of(folder), size, content)
    for name in empty:
        (folder / f"{name}.png").unlink()
    assert goes_on(FileMark.of(folder), size, content) is not bool(empty)


@pytest.mark.parametrize("ends", [".png", ".bmp"])
def test_pictures_that_change_names_change_the_state_of_their_folder(ends: str, tmp_path: Path) -> None:
    """Sum of sizes and latest time stay as they are."""
    folder = tmp_path / "walk"
    pictures = [folder / f"{number}{ends}" for number in range(3)]
    for number, picture in enumerate(pictures):
        touch(picture)
        picture.write_bytes(b"x" * (7 if ends == ".bmp" else 7 + number))  # those of a camera's BMP are alike
        os.utime(picture, ns=(10**18, 10**18 + number))
    states = [file_state(folder)]
    samples = [content_sample(FileMark.of(folder))]

    def note() -> None:
        states.append(file_state(folder))
        samples.append(content_sample(FileMark.of(folder)))

    pictures[0].rename(folder / "aside")
    pictures[1].rename(pictures[0])
    (folder / "aside").rename(pictures[1])
    note()
    pictures[2].rename(folder / f"3{ends}")
    note()
    assert len(set(states)) == 3 and {size for size, _ in states} == {states[0][0]}
    assert len(set(samples)) == (2 if ends == ".bmp" else 3)
    copy = shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    assert content_sample(FileMark.of(copy)) == samples[2] and file_state(copy) != states[2]
    folder.rename(tmp_path / "moved")
    moved = FileMark.of(tmp_path / "moved")
    assert (moved.state, content_sample(moved)) == (states[2], samples[2])


def test_content_hash_of_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(VideoOpenError, match="nowhere"):
        content_hash(FileMark(tmp_path / "nowhere.mp4", 4, 0, (0, 0, 0)))
