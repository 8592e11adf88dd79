"""Folders of pictures: which of them are videos, that each picture is looked at, and what is told of them."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from clips import write_taken
from fakes import ColoredThings, Thing, scene, write_film, write_picture
from indexing_samples import index
from numpy.typing import NDArray

import panorama
from panorama.cameras.listed_videos import meant
from panorama.crops import decode_picture
from panorama.errors import VideoOpenError
from panorama.indexing.outcomes import UNCHANGED
from panorama.indexing.settings import IngestSettings
from panorama.pictures.picture_size import is_plain, upright_size
from panorama.store import Store
from panorama.video import find_videos, open_video
from panorama.video.find import is_picture_video
from panorama.video.marks import FileMark
from panorama.video.pictures import picture_names, picture_states, pictures_in, read_unscaled

NORTH = ["north", "IMG_0004.mp4"]
"""What is found where the folder of a camera itself is named."""


def trap(folder: Path, count: int = 12) -> Path:
    """Pictures on each of which something is where it was not on the one before."""
    for number in range(count):
        left = 100 if number % 2 else 10
        write_picture(folder / f"IMG_{number:04d}.png", scene(0, [Thing("red", 0, 1, left=left)]))
    return folder


@pytest.mark.parametrize(
    ("settings", "looks"),
    [
        (IngestSettings(samples_per_second=0.5), 12),
        (IngestSettings(samples_per_second=2), 12),
        (IngestSettings(samples_per_second=30), 12),
        (IngestSettings(keyframes_only=True), 12),
        (IngestSettings(every=4), 3),
    ],
)
def test_every_picture_of_a_folder_is_looked_at_whatever_the_rate(
    settings: IngestSettings, looks: int, tmp_path: Path
) -> None:
    """After `tune`, which mostly lowers the rate, most pictures of a trap were never looked at."""
    (found,) = index(tmp_path / "library", [trap(tmp_path / "trap")], settings=settings)
    assert (found.frames, found.samples) == (12, looks)


@pytest.mark.parametrize(
    ("times", "begins"),
    [
        (["10:00:00", "10:00:01", "10:01:01", "12:30:00", "12:30:02", "12:30:40"], [3]),
        (["10:00:00", "10:00:01", "10:00:02", "09:00:00", "09:00:01", "09:00:02"], [3]),
        (["10:00:00", "", "10:00:02", "10:59:00", "", "12:00:00"], [3]),
        (["10:00:00", "10:00:50", "10:01:40", "10:02:30", "10:03:20", "10:04:10"], []),
        ([""] * 6, []),
    ],
    ids=["two alarms", "a counter that began anew", "some without a time", "one alarm", "none tells"],
)
def test_the_pictures_of_another_alarm_are_another_shot(
    times: list[str], begins: list[int], tmp_path: Path
) -> None:
    """What stood there for hours was one track, and who came back stood back behind the day before."""
    standing = scene(0, [Thing("red", 0, 1, left=40)])
    for number, time in enumerate(times):
        taken = f"2026:03:01 {time}" if time else None
        write_taken(tmp_path / "trap" / f"IMG_{number:04d}.png", taken, picture=standing)
    index(tmp_path / "library", [tmp_path / "trap"])
    with panorama.open(tmp_path / "library") as library:
        assert (library.snapshot().cuts & 0xFFFFFFFF).tolist() == begins
        spans = library.query("SELECT start_frame, end_frame FROM tracks ORDER BY ALL").fetchall()
    assert spans == [(a, b) for a, b in zip([0, *begins], [*begins, 6], strict=True)]


def test_pictures_of_more_pixels_than_are_read_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of 190 kB took 1.7 GB; only pictures that are registered were refused."""
    folder = trap(tmp_path / "trap", 2)
    assert open_video(folder).info.width > 0
    monkeypatch.setattr("panorama.pictures.pixels.MOST_PIXELS", 1000)
    with pytest.raises(VideoOpenError, match="none of its 2 pictures can be read"):
        open_video(folder)


def test_a_folder_means_its_pictures_and_the_clips_beside_them_and_exact_names_do_not(tmp_path: Path) -> None:
    """`remove FOLDER` took out the pictures alone, and asked nothing: by its path, later by its name."""
    hybrid(tmp_path / "traps" / "north")
    index(tmp_path / "library", [tmp_path / "traps"])
    with panorama.open(tmp_path / "library") as library:
        for given in ("north", str(tmp_path / "traps" / "north")):
            (found,) = meant([given], library.videos())
            assert (found.names, found.several) == (("north", "north/IMG_0004.mp4"), True)
        assert library.remove_videos(["north"]) == ["north"]
        assert library.listed().column("video").to_pylist() == ["north/IMG_0004.mp4"]


def test_a_lower_rate_still_looks_at_fewer_frames_of_a_film(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 20)], frames=20)  # ten frames a second
    (found,) = index(tmp_path / "library", [film], settings=IngestSettings(samples_per_second=2))
    assert (found.frames, found.samples) == (20, 4)


def hybrid(folder: Path) -> Path:
    """What a camera leaves that takes pictures and a clip at each visit."""
    trap(folder, 4)
    write_film(folder / "IMG_0004.mp4", [Thing("red", 0, 20)], frames=20)
    return folder


def test_numbered_pictures_beside_clips_are_a_video_of_their_own(tmp_path: Path) -> None:
    """The pictures of cameras that take both could not be indexed: not found, not named, not by a glob."""
    folder = hybrid(tmp_path / "traps" / "north")
    (folder / "notes.txt").touch()
    for named, names in ((tmp_path / "traps", ["north", "north/IMG_0004.mp4"]), (folder, NORTH)):
        found = find_videos([named])
        assert ([v.name for v in found.videos], found.pictures, found.beside) == (names, {}, {})
    outcomes = index(tmp_path / "library", [tmp_path / "traps"])
    assert [(f.status, f.frames) for f in outcomes] == [("indexed", 4), ("indexed", 20)]
    # A clip that comes later changes nothing about the pictures.
    shutil.copy(folder / "IMG_0004.mp4", folder / "IMG_0005.mp4")
    outcomes = index(tmp_path / "library", [tmp_path / "traps"])
    assert [f.note.split(" indexed")[0] for f in outcomes] == [
        *["unchanged since it was"] * 2,
        "the same content is",
    ]


def test_of_pictures_that_are_no_video_it_is_told_that_videos_lie_beside_them(run, tmp_path: Path) -> None:
    """How pictures have to be called was told, which these were; not that the clip was the reason."""
    folder = hybrid(tmp_path / "north")
    write_picture(folder / "owl.png", scene(0, []))
    for path in (tmp_path, folder):
        found = find_videos([path])
        assert [v.path.name for v in found.videos] == ["IMG_0004.mp4"]
        assert (found.pictures, found.beside) == ({}, {str(folder): 5})
    told = run("index", "north", "--model", "color-bands").err
    assert "ignored in folders: 5 .png" in told and "panorama index" not in told
    assert "if videos lie beside or below them; give them a folder of their own and name it" in told
    assert "These are in: north\n" in told


def test_a_link_that_leads_nowhere_is_a_picture_that_cannot_be_read(tmp_path: Path) -> None:
    """One that led to itself cost the whole folder, and was not named; one to nowhere was not told."""
    folder = trap(tmp_path / "trap", 4)
    (folder / "IMG_0002.png").unlink()
    (folder / "IMG_0002.png").symlink_to("IMG_0002.png")
    (folder / "IMG_0009.png").symlink_to("nowhere.png")
    (folder / "IMG_0010.png").mkdir()
    (found,) = index(tmp_path / "library", [tmp_path])
    assert (found.status, found.frames) == ("indexed", 3)
    assert found.damage is not None
    for name in ("IMG_0002.png", "IMG_0009.png"):
        assert f"{name} cannot be read as a picture" in found.damage
    (found,) = index(tmp_path / "library", [tmp_path])
    assert (found.status, found.note) == ("skipped", "unchanged since it was indexed")
    # What the link led to has come back.
    shutil.copy(folder / "IMG_0001.png", folder / "nowhere.png.aside")
    (folder / "nowhere.png.aside").rename(folder / "nowhere.png")
    (found,) = index(tmp_path / "library", [folder])
    assert (found.status, found.frames) == ("indexed", 5)


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
def test_a_picture_that_cannot_be_read_and_whose_name_is_no_text_costs_nothing_else(tmp_path: Path) -> None:
    """Its name went into the catalog as it was: that ended the run, and no file behind was ever indexed."""
    folder = tmp_path / "v" / "trap"
    folder.mkdir(parents=True)
    for number in range(4):
        drawn = write_picture(tmp_path / "drawn.jpg", scene(number, [Thing("red", 0, 9)]))
        drawn.rename(folder / os.fsdecode(b"f\xfcr_%04d.jpg" % number))
    (folder / os.fsdecode(b"f\xfcr_0002.jpg")).write_bytes(b"")
    write_film(tmp_path / "v" / "z.mp4", [Thing("blue", 0, 9)], frames=9)
    pictures, film = index(tmp_path / "library", [tmp_path / "v"])
    assert (pictures.status, pictures.frames, film.status) == ("indexed", 3, "indexed")
    assert pictures.damage is not None and "f\ufffdr_0002.jpg cannot be read as a picture" in pictures.damage


def pictures_of(library: Path, sql: str) -> list[tuple[object, ...]]:
    with panorama.open(library) as opened:
        return [tuple(row) for row in opened.query(sql)]


def test_every_frame_of_a_folder_tells_its_picture_whatever_becomes_of_the_folder(tmp_path: Path) -> None:
    """The number of a frame counts what could be read: which file a hit is in could not be found out."""
    for name in ("north", "south"):
        (trap(tmp_path / name, 4) / "IMG_0001.png").write_bytes(b"damaged")
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 3)], frames=3)
    library = tmp_path / "library"
    index(library, [tmp_path / "north", film])
    index(library, [tmp_path / "south"])
    sql = "SELECT video, frame, pts, picture FROM frames WHERE video LIKE '%th' ORDER BY ALL"
    told = [(0, 0, "IMG_0000.png"), (1, 2, "IMG_0002.png"), (2, 3, "IMG_0003.png")]
    expected = [(video, *row) for video in ("north", "south") for row in told]
    assert pictures_of(library, sql) == expected
    with Store.open(library) as store:
        assert store.compact() > 0
        assert len(store.snapshot().files["pictures"]) == 1
    (tmp_path / "north" / "IMG_0000.png").unlink()
    assert pictures_of(library, sql) == expected
    films = "SELECT frame, picture FROM frames WHERE video = 'a.mp4' ORDER BY frame"
    assert pictures_of(library, films) == [(0, None), (1, None), (2, None)]
    seen = "SELECT DISTINCT picture FROM detections JOIN frames USING (video, frame) WHERE video = 'south'"
    assert pictures_of(library, f"{seen} ORDER BY 1") == [(name,) for *_, name in told]


def test_frames_of_a_library_without_folders_have_no_picture(tmp_path: Path) -> None:
    index(tmp_path / "library", [write_film(tmp_path / "a.mp4", [Thing("red", 0, 3)], frames=3)])
    assert pictures_of(tmp_path / "library", "SELECT DISTINCT picture FROM frames") == [(None,)]
    # Within one connection: what it has been shown is not what it is shown next.
    with panorama.open(tmp_path / "library") as opened:
        assert opened.query("SELECT picture FROM frames").fetchall() == [(None,)] * 3
        index(tmp_path / "library", [trap(tmp_path / "trap", 2)])
        found = opened.query("SELECT picture FROM frames WHERE video = 'trap' ORDER BY frame").fetchall()
        assert found == [("IMG_0000.png",), ("IMG_0001.png",)]


def marked(width: int, height: int) -> NDArray[np.uint8]:
    """A grey RGB picture with a red mark in the middle of its right half."""
    picture = np.full((height, width, 3), 110, np.uint8)
    x, y = width * 3 // 4, height // 2
    picture[y - height // 10 : y + height // 10, x - width // 10 : x + width // 10] = (210, 30, 30)
    return picture


def mark_in(picture: NDArray[np.uint8]) -> list[int]:
    """x1, y1, x2, y2 of what is red."""
    y, x = np.nonzero((picture[..., 0] > 150) & (picture[..., 1] < 80))
    return [int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1]


@pytest.mark.parametrize(
    ("first", "mark", "lit"),
    [
        ((40, 30), (104, 48, 136, 72), (160, 120)),  # a thumbnail
        ((90, 120), (59, 48, 77, 72), (90, 120)),  # a portrait
        ((320, 120), (104, 24, 136, 36), (160, 60)),  # a panorama
        ((1600, 1200), (104, 48, 136, 72), (160, 120)),
    ],
)
def test_a_folder_has_the_size_of_most_of_its_pictures_and_others_keep_their_shape(
    first: tuple[int, int], mark: tuple[int, int, int, int], lit: tuple[int, int], tmp_path: Path
) -> None:
    """All were brought to the first one's size: by a thumbnail there, a trap was looked at in 160 x 120."""
    write_picture(tmp_path / "trap" / "IMG_0001.png", marked(*first))
    for number in (2, 3):
        write_picture(tmp_path / "trap" / f"IMG_{number:04d}.png", marked(160, 120))
    with open_video(tmp_path / "trap") as reader:
        frames = [frame.rgb() for frame in reader.frames()]
        assert (reader.info.width, reader.info.height, reader.report.fitted) == (160, 120, 1)
        assert reader.report.complete
    assert [frame.shape for frame in frames] == [(120, 160, 3)] * 3
    assert np.abs(np.subtract(mark_in(frames[0]), mark)).max() <= 1
    assert mark_in(frames[1]) == mark_in(frames[2]) == mark_in(marked(160, 120))
    ys, xs = np.nonzero(frames[0].any(axis=2))
    assert (xs.max() + 1, ys.max() + 1) == lit


def test_of_sizes_that_are_as_frequent_the_largest_is_the_folders(tmp_path: Path) -> None:
    for number, size in enumerate([(40, 30), (160, 120), (120, 90)]):
        write_picture(tmp_path / "trap" / f"IMG_{number}.png", marked(*size))
    with open_video(tmp_path / "trap") as reader:
        assert (reader.info.width, reader.info.height) == (160, 120)


def test_a_size_that_no_readable_picture_has_is_not_the_folders(tmp_path: Path) -> None:
    for number, size in enumerate([(40, 30), (4000, 3000), (4000, 3000)]):
        path = write_picture(tmp_path / "trap" / f"IMG_{number}.png", marked(*size))
        if number:
            path.write_bytes(path.read_bytes()[:200])  # its head is there, and says so
    with open_video(tmp_path / "trap") as reader:
        assert (reader.info.width, reader.info.height) == (40, 30)


def test_how_many_pictures_have_another_size_is_noted(tmp_path: Path) -> None:
    folder = trap(tmp_path / "trap", 4)
    for number in (0, 3):
        write_picture(folder / f"IMG_{number:04d}.png", marked(60, 90))
    write_picture(folder / "IMG_0004.png", scene(0, []))
    (folder / "IMG_0005.png").touch()
    (found,) = index(tmp_path / "library", [folder])
    told = "2 pictures have another size and were fitted into 160x120"
    lost = "partly damaged: 1 picture lost; IMG_0005.png cannot be read as a picture"
    assert found.damage == f"{lost}; {told}"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    "kind", ["a.jpg", "progressive.jpg", "a.png", "a.webp", "lossless.webp", "a.tiff", "a.bmp", "a.ppm"]
)
def test_the_head_of_a_picture_tells_the_size_that_it_is_read_in(
    kind: str, orientation: int, tmp_path: Path
) -> None:
    image, path = pytest.importorskip("PIL.Image"), tmp_path / kind
    says, more = image.Exif(), {kind.split(".")[0]: True} if "." in kind[2:] else {}
    says[0x0112] = orientation
    if path.suffix not in (".bmp", ".ppm") and orientation > 1:
        more["exif"] = says
    image.fromarray(marked(50, 30)).save(path, **more)
    read = read_unscaled(path)
    assert read is not None and upright_size(path) == (read.shape[1], read.shape[0])
    data = path.read_bytes()
    for length in {*range(64), *range(64, len(data), 37)}:
        path.write_bytes(data[:length])
        assert upright_size(path) in (None, (50, 30), (30, 50))


def test_a_size_behind_much_of_a_file_is_found(tmp_path: Path) -> None:
    """Editors write previews of hundreds of kilobytes before it."""
    path = write_picture(tmp_path / "a.jpg", marked(50, 30))
    data = path.read_bytes()
    path.write_bytes(data[:2] + (b"\xff\xe2\xff\xff" + bytes(65533)) * 3 + data[2:])
    assert upright_size(path) == (50, 30) and read_unscaled(path) is not None


def deep(folder: Path, name: str, picture: NDArray[Any]) -> Path:
    """A picture of any depth, blue first, as OpenCV writes it."""
    folder.mkdir(exist_ok=True)
    assert cv2.imwrite(str(folder / name), picture)
    return folder / name


def heat(left: int | None) -> NDArray[np.uint16]:
    """What a heat camera measures, in tenths of a degree above nothing: a wall, and something warmer."""
    wall = np.tile(np.linspace(7000, 7400, 80).astype(np.uint16), (60, 1))
    if left is not None:
        wall[20:40, left : left + 20] = 8200
    return wall


def test_a_folder_of_heat_pictures_has_one_black_and_one_white(tmp_path: Path) -> None:
    """Only the upper 8 of 16 bits were kept: a frame had the greys 27 to 32, and nothing was found in it."""
    for number, left in enumerate([None, 10, 30, 50, None]):
        deep(tmp_path / "trap", f"IMG_{number}.tiff", heat(left))
    with open_video(tmp_path / "trap") as reader:
        frames = [frame.rgb() for frame in reader.frames()]
    expected = np.rint((heat(None).astype(np.float64) - 7000) * 255 / 1200).astype(np.uint8)
    for frame in (frames[0], frames[4]):  # no brighter where nothing warm is beside the wall
        assert np.array_equal(frame, np.dstack([expected] * 3))
    assert frames[1][30, 15].tolist() == [255, 255, 255]
    with open_video(tmp_path / "trap") as reader:
        (later,) = list(reader.frames(start=2))[:1]
        assert np.array_equal(later.rgb(), frames[2])


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_a_deep_or_transparent_picture_is_the_same_in_a_folder_and_as_an_example(
    bits: int, tmp_path: Path
) -> None:
    """A frame of 12 bits was almost black, one with transparency showed what lies hidden under it."""
    top = (1 << bits) - 1
    coloured = np.full((60, 80, 3), top // 2, np.uint16)
    coloured[20:40, 30:50] = (top // 8, top // 8, top)
    hidden = np.dstack([(coloured // (top // 255)).astype(np.uint8), np.full((60, 80), 255, np.uint8)])
    hidden[:10, :, 3] = 0
    for name, picture in (("deep", coloured), ("hidden", hidden)):
        path = deep(tmp_path / name, "IMG_1.png", picture)
        with open_video(tmp_path / name) as reader:
            (frame,) = [frame.rgb() for frame in reader.frames()]
        assert np.array_equal(frame, decode_picture(path.read_bytes()))
        assert frame[30, 40].tolist() == pytest.approx([255, 31, 31], abs=1)
    assert frame[5, 5].tolist() == [128, 128, 128]


def test_pictures_of_a_kind_have_the_levels_of_their_kind(tmp_path: Path) -> None:
    """Cameras leave a heat picture beside each photograph."""
    photograph = cv2.imread(str(write_picture(tmp_path / "trap" / "IMG_0.jpg", marked(80, 60))))
    for number in range(1, 4):
        write_picture(tmp_path / "trap" / f"IMG_{number}.jpg", marked(80, 60))
    for number, left in enumerate([10, None]):
        deep(tmp_path / "trap", f"IMG_{4 + number}.tiff", heat(left))
    with open_video(tmp_path / "trap") as reader:
        frames = [frame.rgb() for frame in reader.frames()]
    assert np.array_equal(frames[0][:, :, ::-1], photograph)
    assert (frames[5].min(), frames[5].max()) == (0, 85)


def test_what_is_no_picture_hides_no_heic_of_its_name(tmp_path: Path) -> None:
    """Neither was among the pictures, nor told as ignored."""
    for name in ("IMG_1.heic", "IMG_2.HEIC", "IMG_3.heic", "img_3.jpg"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "IMG_1.png").mkdir()
    (tmp_path / "IMG_2.jpg").symlink_to("nowhere.jpg")
    read = ["IMG_1.heic", "IMG_2.HEIC", "IMG_2.jpg", "img_3.jpg"]  # a link to nowhere is told as unreadable
    assert [path.name for path in pictures_in(tmp_path)] == read
    assert sorted(picture_names(tmp_path)) == read
    assert [os.fsdecode(name) for name, *_ in picture_states(tmp_path)] == read


def test_numbers_with_and_without_zeros_before_them_have_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They came as the drive listed them, so a copy of the folder was another video."""
    for name in ("2.jpg", "1.jpg", "001.jpg", "01.jpg"):
        (tmp_path / name).write_bytes(b"x")
    listed = sorted(picture_names(tmp_path), reverse=True)
    monkeypatch.setattr("panorama.video.pictures.picture_names", lambda folder: listed)
    assert [path.name for path in pictures_in(tmp_path)] == ["001.jpg", "01.jpg", "1.jpg", "2.jpg"]
    assert FileMark.of(tmp_path).in_order() == pictures_in(tmp_path)


def test_a_folder_named_like_a_picture_is_none_of_a_folders_pictures(tmp_path: Path) -> None:
    """One picture and a folder called so were taken for a video of two."""
    write_picture(tmp_path / "IMG_1.png", marked(80, 60))
    (tmp_path / "IMG_2.png").mkdir()
    assert not is_picture_video(tmp_path, is_named=True)


PLAIN = [("a.jpg", np.uint8, 3), ("a.png", np.uint8, 3), ("a.png", np.uint8, 1), ("a.tiff", np.uint8, 3)]
OTHER = [
    *[("a.png", np.uint16, 3), ("a.png", np.uint16, 1), ("a.tiff", np.uint16, 1), ("a.tiff", np.uint16, 3)],
    *[("a.ppm", np.uint16, 3), ("a.png", np.uint8, 4), ("a.webp", np.uint8, 4), ("a.tiff", np.float32, 1)],
]


@pytest.mark.parametrize(("kind", "plain"), [(k, True) for k in PLAIN] + [(k, False) for k in OTHER])
def test_the_head_of_a_picture_tells_whether_it_is_plain(
    kind: tuple[str, type, int], plain: bool, tmp_path: Path
) -> None:
    name, numbers, channels = kind
    picture = np.zeros((300, 200, channels), numbers).squeeze()
    picture[20:40] = 200  # half transparent, where there are four
    path = deep(tmp_path / "trap", name, picture)
    assert is_plain(path) is plain
    data = path.read_bytes()
    for length in range(0, 64):
        path.write_bytes(data[:length])
        assert is_plain(path) in (True, plain)


def test_a_folder_that_is_read_otherwise_since_is_indexed_anew_and_keeps_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, library = tmp_path / "trap", tmp_path / "library"
    for number, left in enumerate([10, 50, 10, 50]):
        deep(folder, f"IMG_{number}.tiff", heat(left))
    with monkeypatch.context() as before:
        before.setattr("panorama.video.digests._read_by", lambda folder, names: b"")
        before.setattr("panorama.video.pictures.unscaled_pixels", cut_to_eight)
        index(library, [folder, trap(tmp_path / "plain", 4)])
    with panorama.open(library) as opened:
        opened.date(["trap"], start="2026-03-01 10:00", zone="Europe/Berlin")
    files = index(library, [folder, tmp_path / "plain"])
    assert [(f.status, f.note) for f in files][1] == ("skipped", "unchanged since it was indexed")
    assert files[0].status == "indexed"
    assert [f.status for f in index(library, [folder])] == ["skipped"]
    with panorama.open(library) as opened:
        times = opened.query("SELECT start_clock FROM videos ORDER BY video").fetchall()
    assert times == [(None,), (datetime(2026, 3, 1, 10),)]


def cut_to_eight(data: bytes) -> NDArray[Any]:
    """A picture as folders were read: the upper 8 bits of 16."""
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR))


def test_a_folder_whose_pictures_have_no_names_is_of_an_earlier_version(
    tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    """Nothing said so, and --redo left it as it was; to take it out lost a time that was set by hand."""
    write_film(trap(tmp_path / "v" / "trap", 3).parent / "film.mp4", [Thing("red", 0, 10)], frames=12)
    with panorama.open(tmp_path / "library", create=True) as library:
        library.use_model("color-bands")
        library.index(tmp_path / "v")
        library.date(["trap"], start="2026-03-01 10:00", zone="UTC")
        assert {f.note for f in library.index(tmp_path / "v", redo=True).files} == {UNCHANGED}
        with library._store._place.catalog.write() as tx:  # as before names were kept
            tx.run("DELETE FROM file_segments WHERE file_id IN (SELECT file_id FROM files f"
                   " WHERE f.table_name = 'pictures')")  # fmt: skip
            tx.run("DELETE FROM files WHERE table_name = 'pictures'")
            tx.bump("data")
        shutil.copytree(tmp_path / "v" / "trap", tmp_path / "v" / "zcopy")
        notes = [str(file.note) for file in library.index(tmp_path / "v").files]
        assert notes[1] == f"{UNCHANGED} by an earlier version; --redo indexes it with this version"
        anew = library.index(tmp_path / "v", redo=True)
        assert [f.status for f in anew.files] == ["skipped", "indexed", "skipped"]
        named = library.query("SELECT video, count(picture) FROM frames GROUP BY ALL ORDER BY ALL").fetchall()
        assert named == [("film.mp4", 0), ("trap", 3), ("zcopy", 3)]
        (clock,) = library.query("SELECT start_clock FROM videos WHERE video = 'trap'").fetchall()
        assert str(clock[0]) == "2026-03-01 10:00:00"
