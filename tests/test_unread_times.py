"""Names that look like recording times, of videos of which no time is read: `index` and `clock` say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from clips import write_taken
from conftest import Ran
from fakes import ColoredThings, Thing, scene, write_film, write_picture

import panorama
from panorama.cameras import picture_times
from panorama.cameras.unread import of_different_days

Run = Callable[..., Ran]

TOLD = "like a recording time, such as"
ADVICE = "panorama clock --time-from name"


def film(path: Path, number: int = 0) -> Path:
    return write_film(path, [Thing("red", 0, 10, left=10 + number)], frames=12)


@pytest.fixture
def cam(tmp_path: Path) -> Path:
    names = ("dock_20260301-080000", "dock_20260302-080000", "odd", "v1_20261399-0800")
    for number, name in enumerate(names):
        film(tmp_path / "cam" / f"{name}.mp4", number)
    return tmp_path / "cam"


def told(ran: Ran) -> list[str]:
    assert ran.status == 0, ran.err
    return [line for line in ran.err.splitlines() if TOLD in line]


def test_index_says_once_that_names_look_like_times_and_how_they_are_read(run: Run, cam: Path) -> None:
    """Two days counted as one, whoever came on the second was not found, and nothing said why."""
    (line,) = told(run("index", "cam", "--model", "color-bands"))
    assert line.startswith("2 names look like a recording time, such as dock_20260301-080000.mp4,")
    assert line.endswith(f": {ADVICE}")
    assert told(run("index", "cam")) == [], "nothing is new"
    film(cam / "dock_20260303-080000.mp4", 9)
    (line,) = told(run("index", "cam", "--json"))
    assert line.startswith("3 names look")
    read = run(*ADVICE.split()[1:], "--timezone", "UTC")
    assert "wall-clock time of 3 videos" in read.err and TOLD not in read.err
    film(cam / "dock_20260304-080000.mp4", 12)
    assert told(run("index", "cam")) == []


@pytest.mark.parametrize("source", ["name", "metadata", "none", "{camera}_%Y%m%d-%H%M%S"])
def test_who_names_a_source_of_times_hears_nothing(run: Run, cam: Path, source: str) -> None:
    assert told(run("index", "cam", "--model", "color-bands", "--time-from", source)) == []
    film(cam / "dock_20260303-080000.mp4", 9)
    assert told(run("index", "cam")) == [], "the library keeps the source"


def test_who_names_only_cameras_still_hears_it(run: Run, cam: Path) -> None:
    asked = run("index", "cam", "--model", "color-bands", "--camera-from", "{camera}_*")
    assert len(told(asked)) == 1


def test_names_of_pictures_in_folders_are_looked_at_too(run: Run, tmp_path: Path) -> None:
    """Pictures of three days counted as one day, and nothing said why."""
    for folder, stem in (("trap", "RCNX_2026030{}-101500"), ("other", "IMG_000{}")):
        for number in (1, 2, 3):
            picture = scene(number, [Thing("red", 0, 9)])
            write_picture(tmp_path / "v" / folder / f"{stem.format(number)}.png", picture)
    (line,) = told(run("index", "v/trap", "v/other", "--model", "color-bands"))
    assert line.startswith("1 name looks like a recording time, such as trap/RCNX_20260301-101500.png,")
    assert told(run("index", "v/trap")) == [], "nothing is new"
    assert "wall-clock time of 1 video" in run(*ADVICE.split()[1:], "--timezone", "UTC").err
    asked = ("query", "SELECT DISTINCT clock FROM frames WHERE video = 'trap' ORDER BY 1", "--format", "json")
    assert [row["clock"][8:10] for row in run(*asked).json] == ["01", "02", "03"]


def test_a_time_set_by_hand_is_known_whatever_the_name_says(
    tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    first, second = (film(tmp_path / f"dock_2026030{day}-080000.mp4", day) for day in (1, 2))
    with panorama.open(tmp_path / "library", create=True) as library:
        report = library.index(first, model="color-bands").recording
        assert report is not None and report.unread == (first.name,)
        library.date([first.name], start="2026-04-01 08:00", zone="UTC")
        report = library.index([first, second]).recording
        assert report is not None and report.unread == (second.name,)


def test_days_of_names_differ_where_both_have_one() -> None:
    assert of_different_days(["a/x_20260301-2300.mp4"], ["b/20260302T0100.mkv"])
    assert not of_different_days(["x_20260301-0100.mp4"], ["x_20260301-2300.mp4"])
    assert not of_different_days(["x_20260301-0100.mp4"], ["x.mp4"])
    trap = ["20260301-0100.jpg", "20260303-0100.jpg"]
    assert of_different_days(trap, ["20260304-0100.jpg", "20260305-0100.jpg"])
    assert not of_different_days(trap, ["20260302-0100.jpg", "20260303-0200.jpg"])
    assert not of_different_days(trap, ["20260304-0100.jpg", "IMG_0002.jpg"])


def test_index_says_once_that_pictures_know_when_they_were_taken(run: Run, tmp_path: Path) -> None:
    """Nothing was said of EXIF: whoever indexed a camera trap had no times, and no word of where they are."""
    for folder, taken in (("a", "2026:03:01 10:00:00"), ("b", "2026:03:02 10:00:00"), ("c", None)):
        for k in range(2):
            write_taken(tmp_path / "traps" / folder / f"IMG_{k:04d}.png", taken)
    said = "the EXIF of 2 folders of pictures says when they were taken, but no time was read: a, b;"
    told = run("index", "traps", "--model", "color-bands").err
    assert f"{said} to read it from now on: panorama clock --time-from metadata\n" in told
    assert "EXIF" not in run("index", "traps").err, "nothing is new"
    assert "EXIF" not in run("clock", "a", "--time-from", "metadata").err
    assert "the EXIF of 1 folder of pictures" in run("clock", "--camera-from", "{camera}").err
    run("clock", "--time-from", "metadata")
    write_taken(tmp_path / "traps" / "d" / "IMG_0001.png", "2026:03:02 10:00:00")
    write_taken(tmp_path / "traps" / "d" / "IMG_0002.png", "2026:03:02 10:00:00")
    assert "the EXIF of" not in run("index", "traps").err


def test_of_many_new_folders_the_exif_of_some_is_looked_at(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture of each of 20,000 folders was opened at the end of `index`: a minute of silence, or more."""
    asked: list[Path] = []
    real = picture_times.picture_taken
    monkeypatch.setattr(picture_times, "MOST_FOLDERS", 3)
    monkeypatch.setattr(
        picture_times, "picture_taken", lambda path, zone: asked.append(path) or real(path, zone)
    )
    for folder in range(7):
        for k in range(2):
            write_taken(tmp_path / "traps" / f"{folder}" / f"IMG_{k:04d}.png", f"2026:03:01 10:00:0{folder}")
    told = run("index", "traps", "--model", "color-bands").err
    said = "the EXIF of 4 folders of pictures says when they were taken, but no time was read: 0, 2, 4, 6"
    assert f"{said} (3 others were not looked at); to read it" in told
    assert len(asked) == 4
