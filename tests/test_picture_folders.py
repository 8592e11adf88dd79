"""Folders of pictures: which of them are videos, that each picture is looked at, and what is told of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fakes import Thing, scene, write_film, write_picture
from indexing_samples import index

from panorama.indexing.settings import IngestSettings
from panorama.video import find_videos

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
    assert "where videos lie beside or below them; in a folder of their own, named, they are: north\n" in told


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
