"""A folder of pictures whose times are known gets more pictures: theirs go on where the others stand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, scene

from panorama.cameras import picture_times

Run = Callable[..., Ran]

UTC = ("--timezone", "UTC")
FRAMES = ("query", "SELECT frames, clock ORDER BY frame", "--format", "json")


def pictures(folder: Path, *days: int, name: str = "RCNX_2026030{}-101500", taken: bool = False) -> Path:
    """A picture of each day of March 2026 at 10:15, by its name or also by its EXIF."""
    for day in days:
        at = f"2026:03:0{day} 10:15:00" if taken else None
        write_taken(folder / f"{name.format(day)}.png", at, picture=scene(0, [Thing("red", 0, 1)]))
    return folder


def moments(run: Run) -> list[str | None]:
    """The clock of each picture without the year, such as '03-01 10:15:00'."""
    return [row["clock"] and str(row["clock"])[5:].replace("T", " ") for row in run(*FRAMES).json]


@pytest.mark.parametrize("rule", ["name", "RCNX_%Y%m%d-%H%M%S"])
def test_a_folder_that_alone_was_dated_by_names_goes_on_by_them(run: Run, tmp_path: Path, rule: str) -> None:
    """The rule was not kept once, so the clock of all its pictures ran on from the first, five a second."""
    folder = pictures(tmp_path / "trap", 1, 2, 3)
    run("index", folder, "--model", "color-bands")
    run("clock", "trap", "--time-from", rule, *UTC)
    run("index", pictures(folder, 4, 5))
    assert moments(run) == [f"03-0{day} 10:15:00" for day in (1, 2, 3, 4, 5)]


def test_times_stay_where_nothing_tells_those_of_new_pictures(run: Run, tmp_path: Path) -> None:
    """A start by hand, of a folder dated by names of which nobody keeps a rule any more."""
    folder = pictures(tmp_path / "trap", 1, 2, 3)
    run("index", folder, "--model", "color-bands")
    run("clock", "--time-from", "name", *UTC)
    run("clock", "--time-from", "none")
    run("clock", "trap", "--at", "2026-05-01 20:00:00", *UTC)
    told = run("index", pictures(folder, 4)).err
    assert "some have no time of their own" in told
    assert moments(run) == ["05-01 20:00:00", "05-02 20:00:00", "05-03 20:00:00", None]


@pytest.mark.parametrize("rule", ["name", "metadata"])
@pytest.mark.parametrize("named_for", [(), ("trap",)], ids=["all", "this folder alone"])
def test_new_pictures_keep_their_distance_to_a_start_by_hand(
    run: Run, tmp_path: Path, rule: str, named_for: tuple[str, ...]
) -> None:
    folder = pictures(tmp_path / "trap", 1, 2, 3, taken=rule == "metadata")
    run("index", folder, "--model", "color-bands")
    run("clock", *named_for, "--time-from", rule, *UTC)
    run("clock", "trap", "--at", "2026-05-01 20:00:00", *UTC)
    run("index", pictures(folder, 5, taken=rule == "metadata"))
    assert moments(run) == ["05-01 20:00:00", "05-02 20:00:00", "05-03 20:00:00", "05-05 20:00:00"]


def test_a_start_by_hand_stays_that_of_its_picture(run: Run, tmp_path: Path) -> None:
    """The first picture was away then; once back, in a folder that had grown, it took the start over."""
    folder = pictures(tmp_path / "trap", 1, 2, 3, name="IMG_000{}", taken=True)
    run("index", folder, "--model", "color-bands")
    (folder / "IMG_0001.png").rename(tmp_path / "away.png")
    run("clock", "--time-from", "metadata", *UTC)
    run("clock", "trap", "--at", "2026-05-02 20:00:00", *UTC)
    (tmp_path / "away.png").rename(folder / "IMG_0001.png")
    run("index", pictures(folder, 4, name="IMG_000{}", taken=True))
    assert moments(run) == [f"05-0{day} 20:00:00" for day in (1, 2, 3, 4)]


def test_of_a_folder_that_grew_only_new_pictures_are_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pictures(tmp_path / "trap", 1, 2, 3, name="IMG_000{}", taken=True)
    run("index", folder, "--model", "color-bands", "--time-from", "metadata", *UTC)
    read: list[str] = []
    real = picture_times.picture_taken
    monkeypatch.setattr(
        picture_times, "picture_taken", lambda path, zone: read.append(path.name) or real(path, zone)
    )
    run("index", pictures(folder, 4, name="IMG_000{}", taken=True))
    assert read == ["IMG_0004.png"]
    assert moments(run) == [f"03-0{day} 10:15:00" for day in (1, 2, 3, 4)]


def test_damaged_times_of_a_folder_that_grew_are_named(run: Run, tmp_path: Path) -> None:
    folder = pictures(tmp_path / "trap", 1, 2, 3, name="IMG_000{}", taken=True)
    run("index", folder, "--model", "color-bands", "--time-from", "metadata", *UTC)
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET picture_offsets = 'later'")
        catalog.execute("UPDATE counters SET value = value + 1 WHERE name = 'data'")
    told = run("index", pictures(folder, 4, name="IMG_000{}", taken=True))
    assert told.status == 1 and "videos.picture_offsets of the video 'trap' holds 'later'" in told.err
