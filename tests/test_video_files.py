"""Finding videos among paths, hashing them, and writing clips of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from clips import COLOR_RGB, number_in, write_picture_folder, write_video

from panorama.errors import PanoramaError, UsageError, VideoOpenError
from panorama.store.files.layout import own_files
from panorama.video import (
    FileMark,
    content_hash,
    content_sample,
    file_state,
    find_videos,
    goes_on,
    open_video,
)
from panorama.video.clip import BOX_COLOR_RGB, write_clip
from panorama.video.probing import shown_size


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


def test_clip_holds_the_interval_with_its_times(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mkv", "libx264", ticks=[0, 1, 2, 5, 6, 10, 11, 12, 20, 21])
    count = write_clip(source.path, 2 / 25, 12 / 25, tmp_path / "clip.mp4")
    assert count == 5
    with open_video(tmp_path / "clip.mp4") as reader:
        frames = list(reader.frames())
        assert reader.info.codec == "h264"
        assert [number_in(f.luma()) for f in frames] == [2, 3, 4, 5, 6]
        assert np.allclose([f.time_seconds for f in frames], np.array([0, 3, 4, 8, 9]) / 25, atol=1e-3)


def sounding(path: Path, codec: str, rate: int, volume: int = 9000, **options: str) -> Path:
    """Two seconds of numbered pictures, the second one with a tone.

    Args:
        options: of the container.
    """
    video_codec = "mpeg2video" if path.suffix == ".vob" else "libx264"
    pictures = write_video(path.with_name("pictures.mkv"), video_codec, frames=50)
    with av.open(str(pictures.path)) as read, av.open(str(path), "w", options=options) as written:
        video = written.add_stream_from_template(read.streams.video[0])
        audio = written.add_stream(codec, rate=rate)
        audio.codec_context.layout = "mono"
        for packet in read.demux(video=0):
            if packet.dts is not None:
                packet.stream = video
                written.mux(packet)
        times = np.arange(2 * rate) / rate
        wave = (np.sin(times * 2000) * volume * (times >= 1)).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(wave, format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for part in av.AudioResampler(
            audio.format, "mono", rate, frame_size=audio.frame_size or 800
        ).resample(frame):
            written.mux(audio.encode(part))
        written.mux(audio.encode(None))
    return path


def loud_seconds(path: Path) -> list[float]:
    """When the sound of a file is loud."""
    loud: list[float] = []
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            heard = np.abs(frame.to_ndarray()[0]) > 0.1
            loud += list(frame.time + np.flatnonzero(heard) / frame.sample_rate)
    return loud


def programmes(path: Path, *parts: Path) -> Path:
    """Transport streams of one programme each become one of all; programme n has its table in PID 256 n."""
    listed = b"".join(struct.pack(">HH", n, 0xE000 | 256 * n) for n in range(1, len(parts) + 1))
    table = struct.pack(">BHHBBB", 0, 0xB000 | (9 + len(listed)), 1, 0xC1, 0, 0) + listed
    crc = 0xFFFFFFFF  # of MPEG-2
    for bit in (byte >> place & 1 for byte in table for place in range(7, -1, -1)):
        crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 ^ bit else 0)) & 0xFFFFFFFF
    head = b"\x47\x40\x00\x10\x00" + table + struct.pack(">I", crc)
    streams = [
        [whole[at : at + 188] for at in range(0, len(whole), 188) if whole[at + 1] & 31 or whole[at + 2]]
        for whole in (part.read_bytes() for part in parts)
    ]
    mixed = b"".join(packet for some in zip_longest(*streams, fillvalue=b"") for packet in some)
    path.write_bytes(head.ljust(188, b"\xff") + mixed)
    return path


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("a.mp4", "aac", 44_100),
        ("a.mkv", "pcm_s16le", 8_000),
        ("a.ts", "mp2", 48_000),
        ("a.vob", "ac3", 48_000),
    ],
)
def test_the_sound_of_a_clip_is_in_step_with_its_pictures(
    tmp_path: Path, name: str, codec: str, rate: int
) -> None:
    """Clips were silent; later still those of MPEG program streams, as on DVDs."""
    source = sounding(tmp_path / name, codec, rate)
    assert write_clip(source, 0.6, 1.6, tmp_path / "clip.mp4") == 25
    with open_video(tmp_path / "clip.mp4") as reader:
        assert [number_in(f.luma()) for f in reader.frames()] == list(range(15, 40))
    loud = loud_seconds(tmp_path / "clip.mp4")
    assert loud[0] == pytest.approx(0.4, abs=0.02) and loud[-1] == pytest.approx(1.0, abs=0.05)


def test_the_sound_of_a_clip_is_that_of_its_programme(tmp_path: Path) -> None:
    """A recording of two broadcasts gave the pictures of the one with the sound of the other."""
    parts = [
        sounding(
            tmp_path / f"{number}.ts",
            codec,
            48_000,
            volume,
            mpegts_service_id=str(number),
            mpegts_pmt_start_pid=str(256 * number),
            mpegts_start_pid=str(256 * number + 1),
        )
        for number, codec, volume in ((1, "ac3", 9000), (2, "mp2", 0))
    ]
    source = programmes(tmp_path / "both.ts", *parts)
    with av.open(str(source)) as container:
        best = container.streams.best("audio")
        assert len(container.streams.video) == 2 and best is container.streams.audio[1]
    write_clip(source, 0.6, 1.6, tmp_path / "clip.mp4")
    assert loud_seconds(tmp_path / "clip.mp4")


def test_what_is_silent_gives_a_clip_without_sound(tmp_path: Path) -> None:
    folder = write_picture_folder(tmp_path / "walk", frames=4).path
    short = write_video(tmp_path / "a.mp4", "libx264", frames=50, with_audio=True, audio_seconds=0.5).path
    for source, start in ((folder, 0), (write_video(tmp_path / "b.mp4", "libx264").path, 0), (short, 1)):
        write_clip(source, start, start + 0.5, tmp_path / "clip.mp4")
        with av.open(str(tmp_path / "clip.mp4")) as clip:
            assert [stream.type for stream in clip.streams] == ["video"]


def test_clip_between_two_frames_shows_the_one_before(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=10)
    assert write_clip(source.path, 0.13, 0.14, tmp_path / "clip.mp4") == 1
    with open_video(tmp_path / "clip.mp4") as reader:
        assert number_in(reader.frame_at(0).luma()) == 3


def test_clip_draws_boxes_upright_in_their_frames_only(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=6, rotation=90)
    write_clip(source.path, 0, 1, tmp_path / "clip.mp4", boxes={2: [(40, 50, 100, 80)]})
    with open_video(tmp_path / "clip.mp4") as reader:
        pictures = [f.rgb().astype(int) for f in reader.frames()]
    edge = [picture[51, 44:96].mean(axis=0) for picture in pictures]
    assert np.abs(edge[2] - BOX_COLOR_RGB).max() < 40
    assert np.abs(edge[1] - edge[3]).max() < 10
    assert np.abs(edge[2] - edge[1]).max() > 20


def test_a_clip_has_square_pixels_and_the_shape_of_what_it_shows(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=4, pixel_aspect=Fraction(64, 45))
    write_clip(source.path, 0, 1, tmp_path / "clip.mp4", boxes={2: [(40, 50, 100, 80)]})
    with open_video(tmp_path / "clip.mp4") as reader:
        assert (reader.info.width, reader.info.height) == (128, 96)
        picture = list(reader.frames())[2].rgb().astype(int)
    assert np.abs(picture[51, 44:96].mean(axis=0) - BOX_COLOR_RGB).max() < 40


@pytest.mark.parametrize(
    ("stored", "aspect", "shown"),
    [
        ((720, 576), Fraction(64, 45), (1024, 576)),
        ((720, 576), Fraction(16, 15), (768, 576)),
        ((720, 480), Fraction(8, 9), (720, 540)),
        ((704, 288), Fraction(6, 11), (704, 528)),
        ((853, 480), Fraction(1280, 1279), (853, 480)),  # rounded
        ((384, 384), Fraction(191, 189), (384, 384)),
        ((640, 360), Fraction(1), (640, 360)),
        ((640, 360), Fraction(0), (640, 360)),  # not said
        ((640, 360), None, (640, 360)),
        ((640, 360), Fraction(1, 1000), (640, 360)),  # damaged
    ],
)
def test_the_side_that_is_too_short_is_stretched(
    stored: tuple[int, int], aspect: Fraction | None, shown: tuple[int, int]
) -> None:
    assert shown_size(*stored, aspect) == shown


def test_clip_of_odd_size_is_written_even(tmp_path: Path) -> None:
    source = write_picture_folder(tmp_path / "walk", frames=4)
    for path in source.path.iterdir():
        cv2.imwrite(str(path), cv2.imread(str(path))[:95, :127])
    assert write_clip(source.path, 0, 1, tmp_path / "clip.mp4") == 4
    with open_video(tmp_path / "clip.mp4") as reader:
        assert (reader.info.width, reader.info.height) == (126, 94)


def as_players_show(frame: av.VideoFrame) -> list[float]:
    """The colour of the middle by the matrix that is told, or else by the one that players take for HD."""
    red, blue = (0.299, 0.114) if frame.colorspace in (5, 6) else (0.2126, 0.0722)
    samples = [plane[plane.shape[0] // 2, plane.shape[1] // 2] for plane in planes_of(frame)]
    y, b, r = (samples[0] - 16) / 219, (samples[1] - 128) / 112, (samples[2] - 128) / 112
    shown = {"red": y + (1 - red) * r, "blue": y + (1 - blue) * b}
    green = (y - red * shown["red"] - blue * shown["blue"]) / (1 - red - blue)
    return [255 * shown["red"], 255 * green, 255 * shown["blue"]]


def planes_of(frame: av.VideoFrame) -> list[np.ndarray]:
    return [np.frombuffer(p, np.uint8).reshape(-1, p.line_size).astype(float) for p in frame.planes]


@pytest.mark.parametrize("size", [(1280, 720), (320, 240)])
def test_a_clip_has_the_colours_that_it_was_cut_from_in_other_players_too(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    """Its matrix was told nowhere, and of HD players took another one."""
    (tmp_path / "walk").mkdir()
    for number in range(3):
        picture = np.full((size[1], size[0], 3), COLOR_RGB[::-1], np.uint8)
        cv2.imwrite(str(tmp_path / "walk" / f"{number}.png"), picture)
    write_clip(tmp_path / "walk", 0, 1, tmp_path / "clip.mp4")
    with av.open(str(tmp_path / "clip.mp4")) as container:
        assert container.streams.video[0].codec_context.colorspace in (5, 6)
        assert container.streams.video[0].codec_context.color_range == 1
        for frame in container.decode(video=0):
            assert np.abs(np.array(as_players_show(frame)) - COLOR_RGB).max() < 4


def test_failed_clip_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=4)
    with pytest.raises(UsageError, match="start < stop"):
        write_clip(source.path, 1, 1, tmp_path / "clip.mp4")
    with pytest.raises(PanoramaError, match="cannot be written"):
        write_clip(source.path, 0, 1, tmp_path / "absent" / "clip.mp4")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source.mp4"]
