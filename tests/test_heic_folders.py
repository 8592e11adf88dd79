"""HEIC pictures, as phones save them, in folders that are videos: read like others, each shot once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from clips import heic
from conftest import Ran
from fakes import Thing, scene, write_picture

import panorama
from panorama.errors import VideoOpenError
from panorama.pictures.exif import taken_at
from panorama.pictures.picture_size import upright_size
from panorama.pictures.pixels import turned
from panorama.video import FileMark, content_hash, find_videos, goes_on, open_video

SHOT = scene(0, [Thing("red", 0, 1, left=40)])


def phone(folder: Path, count: int = 3, orientation: int = 1) -> Path:
    """Photographs that were taken two minutes apart."""
    folder.mkdir(parents=True)
    for number in range(count):
        shot = heic(SHOT, orientation, f"2026:03:01 10:0{2 * number}:00")
        (folder / f"IMG_{number:04d}.HEIC").write_bytes(shot)
    return folder


def test_a_folder_of_heic_is_a_video_of_pictures_that_can_be_asked_and_shown(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """It held no video, it was said, and beside others they were left out without a word."""
    phone(tmp_path / "phone")
    write_picture(tmp_path / "phone" / "IMG_0003.JPG", SHOT)
    rule = ("--time-from", "metadata", "--timezone", "UTC")
    told = run("index", "phone", "--model", "color-bands", *rule)
    assert told.status == 0 and "phone at 2026-03-01 10:00:00 UTC" in told.err, told.err
    pictures = [row["picture"] for row in run("query", "SELECT picture FROM frames", "--json").json]
    assert pictures == ["IMG_0000.HEIC", "IMG_0001.HEIC", "IMG_0002.HEIC", "IMG_0003.JPG"]
    box = ("--at", "0.2", "--box", "40,40,72,72")
    assert run("register", "red", "--video", "phone", *box).status == 0
    asked = run("query", "SELECT tracks", "--sheet", "s.jpg", "--clips", "cut")
    assert asked.status == 0 and "drawn in s.jpg" in asked.err and list((tmp_path / "cut").iterdir())
    with panorama.open(tmp_path / "panorama-library") as library:
        cuts = (library.snapshot().cuts & 0xFFFFFFFF).tolist()
    assert cuts == [1, 2], "taken more than a minute apart"


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_its_size_and_its_frames_are_upright(orientation: int, tmp_path: Path) -> None:
    folder = phone(tmp_path / "phone", 2, orientation)
    upright = turned(SHOT, orientation)
    height, width = upright.shape[:2]
    assert upright_size(folder / "IMG_0000.HEIC") == (width, height)
    with open_video(folder) as reader:
        assert (reader.info.width, reader.info.height) == (width, height)
        frames = [frame.rgb() for frame in reader.frames()]
    assert len(frames) == 2 and np.abs(frames[1].astype(int) - upright).mean() < 6


def test_heic_and_avif_say_when_they_were_taken(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    says = image.Exif()
    says.get_ifd(0x8769)[0x9003] = "2026:03:01 10:00:00"
    image.fromarray(SHOT).save(tmp_path / "a.avif", exif=says.tobytes())
    for data in (heic(SHOT, 6, "2026:03:01 10:00:00"), (tmp_path / "a.avif").read_bytes()):
        assert str(taken_at(data)) == "2026-03-01 10:00:00"
    assert taken_at(heic(SHOT)) is None


def test_a_heic_beside_another_picture_of_its_name_is_no_second_shot(tmp_path: Path) -> None:
    """A folder of JPEGs is what it was, and is not indexed anew where phones left both."""
    folder = tmp_path / "phone"
    for number in range(3):
        write_picture(folder / f"IMG_{number:04d}.JPG", SHOT)
    before = FileMark.of(folder)
    content = content_hash(before)
    (folder / "IMG_0001.HEIC").write_bytes(heic(SHOT))
    (folder / "img_0002.heic").write_bytes(heic(SHOT))
    (folder / "IMG_0002.DNG").write_bytes(b"raw")
    assert FileMark.of(folder) == before and content_hash(before) == content
    found = find_videos([folder])
    assert [video.name for video in found.videos] == ["phone"]
    assert found.ignored == {".heic": 2, ".dng": 1} and not found.beside
    (folder / "IMG_0007.HEIC").write_bytes(heic(SHOT))
    with open_video(folder) as reader:
        assert reader.pictures[-1] == "IMG_0007.HEIC" and len(reader.pictures) == 4
    assert goes_on(FileMark.of(folder), before.size, content), "it gained a picture behind the others"


def test_one_shot_in_two_kinds_is_no_series(tmp_path: Path) -> None:
    write_picture(tmp_path / "album" / "shots" / "IMG_0001.JPG", SHOT)
    (tmp_path / "album" / "shots" / "IMG_0001.HEIC").write_bytes(heic(SHOT))
    found = find_videos([tmp_path / "album"])
    assert not found.videos and found.ignored == {".jpg": 1, ".heic": 1}


def test_a_single_heic_or_avif_is_refused_as_other_pictures_are(tmp_path: Path) -> None:
    """FFmpeg took each tile of a HEIC for a video, and one of them was read."""
    (tmp_path / "IMG_0001.HEIC").write_bytes(heic(SHOT))
    (tmp_path / "named.mp4").write_bytes(heic(SHOT))
    cv2.imwrite(str(tmp_path / "still.avif"), SHOT)
    cv2.imwrite(str(tmp_path / "still.jpg"), SHOT)
    for name in ("IMG_0001.HEIC", "named.mp4", "still.avif", "still.jpg"):
        with pytest.raises(VideoOpenError, match="is a single picture, not a video; to read its folder"):
            open_video(tmp_path / name)
