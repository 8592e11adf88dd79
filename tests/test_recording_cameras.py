"""Which pattern told the camera of a video: what another one told goes, whenever the video is come to."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import ColoredThings, Thing, write_film

import panorama
from panorama.cameras.recording_rule import RecordingRule
from panorama.cameras.shared_cameras import shared_cameras
from panorama.indexing.outcomes import Hooks
from panorama.store import Recorded, RecordedRow

FORMER, LATTER = (RecordingRule(zone="UTC", camera_from=text) for text in ("{camera}-*", "{camera}_*"))


@pytest.fixture
def library(tmp_path: Path, fake_proposer: ColoredThings) -> panorama.Library:
    library = panorama.open(tmp_path / "library", create=True)
    library.use_model("color-bands")
    return library


def three_cameras(tmp_path: Path) -> Path:
    """Names that fit one pattern or the other; for both, the camera of one is its folder."""
    for k, name in enumerate(("a/cam7_100", "a/cam8_100", "b/front-001")):
        write_film(tmp_path / "rec" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    return tmp_path / "rec"


def cameras(library: panorama.Library) -> dict[str, str]:
    return {row["video"]: row["camera"] for row in library.videos().to_pylist()}


def test_a_pattern_named_for_one_folder_tells_the_others_when_they_are_indexed(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Cameras of before stayed, taken for those of moved files; naming the pattern again changed nothing."""
    folder = three_cameras(tmp_path)
    library.index(folder, recording=FORMER)
    assert cameras(library) == {"a/cam7_100.mp4": "a", "a/cam8_100.mp4": "a", "b/front-001.mp4": "front"}
    library.index(folder / "a", recording=LATTER)
    assert cameras(library)["b/front-001.mp4"] == "front"
    library.index(folder)
    assert cameras(library) == {"a/cam7_100.mp4": "cam7", "a/cam8_100.mp4": "cam8", "b/front-001.mp4": "b"}
    assert library.date(recording=LATTER).changed == 0


def test_another_source_of_times_is_no_other_pattern_of_cameras(
    library: panorama.Library, tmp_path: Path
) -> None:
    """What a moved file was known by stays until another pattern is named, and went with any other rule."""
    folder = three_cameras(tmp_path)
    library.index(folder, recording=LATTER)
    (folder / "a" / "cam7_100.mp4").rename(folder / "b" / "theft.mp4")
    library.index(folder, recording=replace(LATTER, time_from="metadata"))
    assert cameras(library)["b/theft.mp4"] == "cam7"
    assert library.date(recording=FORMER).changed == 3
    assert cameras(library) == {"b/theft.mp4": "b", "a/cam8_100.mp4": "a", "b/front-001.mp4": "front"}


def test_a_camera_in_the_pattern_of_times_counts_again_when_it_is_named_again_for_one_video(
    library: panorama.Library, tmp_path: Path
) -> None:
    """It did for all videos, and for one with any other pattern but that of the library."""
    write_film(tmp_path / "rec" / "door_20260301-101500.mp4", [Thing("red", 0, 10)], frames=12)
    pattern = RecordingRule("{camera}_%Y%m%d-%H%M%S", "UTC")
    library.index(tmp_path / "rec", recording=pattern)
    for part, camera in (("camera_from", "rec"), ("time_from", "door"), ("camera_from", "rec")):
        library.date(["door_20260301-101500.mp4"], recording=pattern, parts=[part])
        assert set(cameras(library).values()) == {camera}


def test_a_pattern_of_an_index_that_is_interrupted_tells_the_cameras_of_all(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Of one folder the video that was there kept its camera and the new one had another."""
    folder = three_cameras(tmp_path)
    library.index(folder, recording=FORMER)
    write_film(folder / "a" / "cam6_100.mp4", [Thing("red", 0, 10)], frames=15)  # the first of all
    write_film(folder / "b" / "front-002.mp4", [Thing("red", 0, 10)], frames=16)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.index(folder, recording=LATTER, hooks=Hooks(on_start=interrupt))
    library.index(folder)
    assert cameras(library)["b/front-001.mp4"] == cameras(library)["b/front-002.mp4"] == "b"


def test_a_rule_named_while_an_index_runs_holds_for_what_it_still_does(
    library: panorama.Library, tmp_path: Path
) -> None:
    """The index went on by the rule that it began with, and at its end told all videos by that."""
    folder = three_cameras(tmp_path)
    named = Hooks(on_start=lambda number, *_: library.date(recording=LATTER) and None if number else None)
    report = library.index(folder, recording=FORMER, hooks=named)
    assert report.recording is not None and report.recording.rule == LATTER
    assert cameras(library) == {"a/cam7_100.mp4": "cam7", "a/cam8_100.mp4": "cam8", "b/front-001.mp4": "b"}


def test_a_moved_file_keeps_its_camera_whatever_is_said_of_its_time(
    library: panorama.Library, tmp_path: Path
) -> None:
    folder = three_cameras(tmp_path)
    library.index(folder, recording=LATTER)
    moved, other = folder / "a" / "cam7_100.mp4", folder / "b" / "front-001.mp4"
    moved.rename(tmp_path / "moved")
    other.rename(moved)
    (tmp_path / "moved").rename(other)  # they took each other's names
    library.index(folder)
    assert cameras(library) == {"a/cam7_100.mp4": "cam7", "a/cam8_100.mp4": "cam8", "b/front-001.mp4": "cam7"}
    for said in ({"start": "2026-03-01 10:00"}, {"first_start": "2026-03-01 11:00"}, {"start": ""}):
        library.date(["b/front-001.mp4"], zone="UTC", **said)
        library.index(folder)
        assert cameras(library)["b/front-001.mp4"] == "cam7"


def test_cameras_in_a_library_of_before_are_those_of_the_rule_that_it_keeps(
    library: panorama.Library, tmp_path: Path
) -> None:
    folder = three_cameras(tmp_path)
    library.index(folder, recording=LATTER)
    library.close()
    with sqlite3.connect(library.path / "catalog.sqlite") as catalog:
        own = ("own_time_from", "own_time_zone", "own_camera_from")
        for column in ("camera_from", "picture_offsets", *own):
            catalog.execute(f"ALTER TABLE videos DROP COLUMN {column}")
        catalog.execute("UPDATE meta SET value = '12' WHERE key = 'schema_version'")
    library = panorama.open(library.path)
    (folder / "a" / "cam7_100.mp4").rename(folder / "b" / "theft.mp4")
    library.index(folder)
    assert cameras(library) == {"b/theft.mp4": "cam7", "a/cam8_100.mp4": "cam8", "b/front-001.mp4": "b"}
    library.index(folder, recording=FORMER)
    assert cameras(library) == {"b/theft.mp4": "b", "a/cam8_100.mp4": "a", "b/front-001.mp4": "front"}


@pytest.mark.parametrize(
    ("places", "pattern"),
    [
        (("2026-03-01/gate/DCIM/a", "2026-03-02/gate/DCIM/a"), "%Y-%m-%d/{camera}/**"),
        (("20260301/gate/a", "20260302/gate/a"), "%Y%m%d/{camera}/**"),
        (("gate/2026_03_01/a", "gate/2026_03_02/a"), "{camera}/%Y_%m_%d/**"),
    ],
)
def test_cameras_that_differ_only_in_a_day_are_told(
    library: panorama.Library, tmp_path: Path, places: tuple[str, ...], pattern: str
) -> None:
    """An archive of days had a camera of each day, so that nothing was counted by camera, without a word."""
    for k, place in enumerate(places):
        write_film(tmp_path / "rec" / f"{place}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    write_film(tmp_path / "rec" / "2026-03-01/yard/b.mp4", [Thing("red", 0, 10)], frames=20)
    told = library.index(tmp_path / "rec").recording
    assert told is not None
    (line,) = told.lines()
    first, second = (place.removesuffix("/a") for place in places)
    assert line.startswith(f"2 cameras differ only in a day: {first}, {second}; ")
    assert line.endswith(f"if each is one camera on all days: panorama clock --camera-from '{pattern}'")
    again = library.index(tmp_path / "rec").recording
    assert again is not None and not again.lines(), "told once"
    library.date(recording=RecordingRule(zone="UTC", camera_from=pattern))
    assert {cameras(library)[f"{place}.mp4"] for place in places} == {"gate"}


def test_a_folder_whose_videos_have_several_cameras_is_told_with_a_pattern_for_one(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Its new files had another camera, without the zones, as another folder was named to `index`."""
    place = tmp_path / "rec" / "site1" / "cam1"
    write_film(place / "a.mp4", [Thing("red", 0, 10)], frames=12)
    library.index(place)
    write_film(place / "b.mp4", [Thing("red", 0, 10)], frames=13)
    write_film(tmp_path / "rec" / "site2" / "cam1" / "c.mp4", [Thing("red", 0, 10)], frames=14)
    told = library.index(tmp_path / "rec").recording
    assert cameras(library) == {
        "a.mp4": "cam1",
        "site1/cam1/b.mp4": "site1/cam1",
        "site2/cam1/c.mp4": "site2/cam1",
    }
    assert told is not None
    pattern = "{camera}/{camera}/*"  # {camera}/* would join those of the two sites
    assert told.lines() == [
        f"videos of one folder have several cameras, cam1, site1/cam1: {place.resolve()}; a camera is the"
        " path below the folder that was indexed. To make each folder one camera: panorama clock"
        f" --camera-from '{pattern}'"
    ]
    write_film(place / "d.mp4", [Thing("red", 0, 10)], frames=15)
    again = library.index(tmp_path / "rec").recording
    assert again is not None and not again.lines(), "told once"
    library.date(recording=RecordingRule(zone="UTC", camera_from=pattern))
    assert set(cameras(library).values()) == {"site1/cam1", "site2/cam1"}


def test_a_folder_that_holds_videos_of_before_is_no_new_one() -> None:
    """What lies in two folders of one camera is told when a folder is new, not for each video in one."""
    places = {"a.mp4": "/one/gate/a.mp4", "b.mp4": "/two/gate/b.mp4", "c.mp4": "/two/gate/c.mp4"}
    recorded = Recorded(camera="gate")
    rows = [RecordedRow(name, uri, "/", recorded, 1) for name, uri in places.items()]
    assert shared_cameras(rows, fresh={"c.mp4"}) == ()
    ((camera, folders),) = shared_cameras(rows, fresh={"b.mp4", "c.mp4"})
    assert (camera, [folder.as_posix() for folder in folders]) == ("gate", ["/one/gate", "/two/gate"])
