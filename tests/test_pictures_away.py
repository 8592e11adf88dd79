"""Pictures whose EXIF cannot be read when their folder is dated: the others have their times, these later."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, scene

import panorama
from panorama.cameras import picture_times
from panorama.store import Store

Run = Callable[..., Ran]

UTC = ("--time-from", "metadata", "--timezone", "UTC")
FRAMES = ("query", "SELECT frames, clock ORDER BY frame", "--format", "json")
TRIED_AGAIN = "the next `index` reads them if it can"


def trap(folder: Path, taken: Sequence[str | None], first: int = 1) -> Path:
    """Pictures of a camera trap, taken at these times of 1 March 2026."""
    for number, at in enumerate(taken, start=first):
        shown = scene(0, [Thing("red", 0, 1)])
        original = at and f"2026:03:01 {at}"
        write_taken(folder / f"IMG_{number:04d}.png", original, picture=shown)
    return folder


def clocks(run: Run) -> list[str | None]:
    rows = run(*FRAMES).json
    return [row["clock"] and str(row["clock"])[11:19] for row in rows]


def take_away(folder: Path, *numbers: int) -> Callable[[], None]:
    """Move pictures out of their folder; the result puts them back."""
    moves = {folder / f"IMG_{n:04d}.png": folder.parent / f"away-{n}.png" for n in numbers}
    for place, away in moves.items():
        place.rename(away)

    def put_back() -> None:
        for place, away in moves.items():
            if place.is_dir():
                place.rmdir()
            away.rename(place)

    return put_back


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """A folder that is indexed and has no times yet."""
    made = trap(tmp_path / "trap", ["10:00:00", "10:00:01", None, "12:00:00"])
    run("index", made, "--model", "color-bands")
    return made


@pytest.mark.parametrize("way", ["index", "clock"])
def test_a_picture_that_was_away_is_read_once_it_is_back(run: Run, folder: Path, way: str) -> None:
    """It counted as a picture without a time, for good."""
    put_back = take_away(folder, 2)
    told = run("clock", *UTC).err
    assert TRIED_AGAIN in told and "some have no time of their own" in told, "the third has none"
    assert clocks(run) == ["10:00:00", None, None, "12:00:00"]
    put_back()
    told = run(*(("index", "trap") if way == "index" else ("clock", *UTC))).err
    assert TRIED_AGAIN not in told and "some have no time of their own" in told
    assert clocks(run) == ["10:00:00", "10:00:01", None, "12:00:00"]


def test_a_picture_that_cannot_be_opened_leaves_the_others_their_times(run: Run, folder: Path) -> None:
    """One such picture kept the time of its whole folder from being read."""
    put_back = take_away(folder, 1)
    (folder / "IMG_0001.png").mkdir()  # as without permission: it is there, and opening it fails
    assert TRIED_AGAIN in run("clock", *UTC).err
    assert clocks(run) == [None, "10:00:01", None, "12:00:00"]
    put_back()
    run("clock", *UTC)
    assert clocks(run) == ["10:00:00", "10:00:01", None, "12:00:00"]
    (row,) = run("clock", "--json").json
    assert row["start_clock"] == "2026-03-01 10:00:00.000", "its first picture is another one now"


def test_only_pictures_that_were_away_are_read_again(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_away(folder, 1, 2)
    run("clock", *UTC)
    read: list[str] = []
    real = picture_times.picture_taken
    monkeypatch.setattr(
        picture_times, "picture_taken", lambda path, zone: read.append(path.name) or real(path, zone)
    )
    run("clock", *UTC)
    assert read == ["IMG_0001.png", "IMG_0002.png"]


def test_a_folder_without_times_reads_what_was_away(run: Run, folder: Path) -> None:
    put_back = take_away(folder, 1, 2, 4)
    told = run("clock", *UTC).err
    assert TRIED_AGAIN in told and "some have no time" not in told and "1 video has no wall-clock" in told
    put_back()
    run("clock", *UTC)
    assert clocks(run) == ["10:00:00", "10:00:01", None, "12:00:00"]


@pytest.mark.parametrize(
    ("away", "then"),
    [
        ((1,), ["19:59:59", "20:00:00", None, "21:59:59"]),
        ((2,), ["20:00:00", "20:00:01", None, "22:00:00"]),
        ((1, 2), ["18:00:00", "18:00:01", None, "20:00:00"]),
        ((2, 4), ["20:00:00", "20:00:01", None, "22:00:00"]),
    ],
)
def test_a_start_by_hand_holds_for_pictures_that_come_back(
    run: Run, folder: Path, away: tuple[int, ...], then: Sequence[str | None]
) -> None:
    """The start is that of the first picture known then; the others keep their distance from it."""
    put_back = take_away(folder, *away)
    run("clock", *UTC)
    run("clock", "trap", "--at", "2026-03-01 20:00:00", "--timezone", "UTC")
    put_back()
    for _ in range(2):
        run("index", "trap")
        assert clocks(run) == then


def test_a_start_by_hand_of_a_folder_that_is_away_gets_its_times_later(run: Run, folder: Path) -> None:
    put_back = take_away(folder, 1, 2, 4)
    run("clock", "trap", "--at", "2026-03-01 20:00:00", "--timezone", "UTC")
    assert clocks(run) == ["20:00:00"] * 4, "the clock runs on, as nothing tells the times between"
    put_back()
    run("index", "trap")
    assert clocks(run) == ["20:00:00", "20:00:01", None, "22:00:00"]


def test_the_start_by_hand_is_that_of_the_first_picture_with_a_time(run: Run, tmp_path: Path) -> None:
    run("index", trap(tmp_path / "trap", [None, "10:00:00", "10:00:05"]), "--model", "color-bands")
    told = run("clock", "trap", "--at", "2026-03-01 20:00:00", "--timezone", "UTC").err
    assert "trap begins at 2026-03-01 20:00:00 UTC with IMG_0002.png, its first picture with a time" in told
    assert clocks(run) == [None, "20:00:00", "20:00:05"]


def test_names_of_pictures_are_read_while_their_folder_is_away(run: Run, tmp_path: Path) -> None:
    """A pattern that fits them was refused, though the library holds the names that it reads."""
    for number in range(2):
        write_taken(tmp_path / "v" / "north" / f"RCNX_20260301-10000{number}.png", None)
    run("index", "v/north", "--model", "color-bands", "--timezone", "UTC")
    (tmp_path / "v").rename(tmp_path / "away")
    told = run("clock", "--time-from", "RCNX_%Y%m%d-%H%M%S").err
    assert "wall-clock time of 1 video from" in told
    assert clocks(run) == ["10:00:00", "10:00:01"]
    assert "gives no time for any of 1 video" in run("clock", "--time-from", "%Y%m%d-%H%M").err


def test_names_that_are_no_text_lead_to_their_pictures(run: Run, tmp_path: Path) -> None:
    """As out of an archive of another system; no such file was found, so no time was known."""
    folder = trap(tmp_path / "trap", ["10:00:00", "10:00:01", "10:00:05", "10:00:09"])
    try:
        for number, odd in enumerate((b"F\xfcchse_1", b"F\xfcchse_2", b"H\xe4her_3", b"H\xfcher_3"), start=1):
            (folder / f"IMG_{number:04d}.png").rename(folder / os.fsdecode(odd + b".png"))
    except OSError:
        pytest.skip("this file system takes only names that are text")
    told = run("index", "trap", "--model", "color-bands", *UTC).err
    assert clocks(run) == ["10:00:00", "10:00:01", None, None], "the last two look the same"
    assert TRIED_AGAIN in told


def damage(catalog: Path, column: str, value: str) -> None:
    with sqlite3.connect(catalog / "catalog.sqlite") as changed:
        changed.execute(f"UPDATE videos SET {column} = {value}")
        changed.execute("UPDATE counters SET value = value + 1 WHERE name = 'data'")


@pytest.mark.parametrize(
    ("column", "value"),
    [("picture_offsets", "x'010203'"), ("picture_offsets", "'later'"), ("start_time_unix", "1e300")],
)
def test_damaged_times_are_named_and_can_be_made_unknown(
    run: Run, folder: Path, tmp_path: Path, column: str, value: str
) -> None:
    """One command called them a defect of the program, another kept them; a damaged start had no way out."""
    run("clock", *UTC)
    damage(tmp_path / "panorama-library", column, value)
    for asked in (
        (),
        UTC,
        ("trap", "--at", "2020-01-01 00:00:00"),
        ("trap", "--first-at", "2020-01-01 00:00"),
    ):
        told = run("clock", *asked)
        assert told.status == 1 and f"videos.{column} of the video 'trap' holds" in told.err, told.err
        assert "panorama clock trap --at ''" in told.err
    assert "1 video changed" in run("clock", "trap", "--at", "").err
    assert clocks(run) == [None] * 4
    run("clock", *UTC)
    assert clocks(run) == ["10:00:00", "10:00:01", None, "12:00:00"]


def test_names_of_a_folder_are_read_once_in_a_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run applied the rule to each video as it came, and to all of them once more."""
    for cam in ("north", "south"):
        write_taken(tmp_path / "v" / cam / "RCNX_20260301-101500.png", None)
        write_taken(tmp_path / "v" / cam / f"RCNX_20260301-11150{cam == 'south':d}.png", None)
    read: list[int] = []
    real = Store.picture_names

    def names(store: Store, segment: int) -> list[str | None]:
        read.append(segment)
        return real(store, segment)

    monkeypatch.setattr(Store, "picture_names", names)
    rule = ("--time-from", "name", "--timezone", "UTC")
    told = run("index", "v", "--model", "color-bands", *rule).err
    assert "wall-clock time of 2 videos from the timestamp in the name, as north at" in told
    assert len(read) == 2
    assert "wall-clock time of 2 videos" in run("index", "v").err
    assert len(read) == 4


def test_a_rule_that_another_process_gives_during_a_run_holds_for_all(tmp_path: Path) -> None:
    for number in (1, 2, 3, 4):
        write_taken(tmp_path / "v" / f"cam{number // 3}" / f"a_20260301-10150{number}.png", None)

    def name_cameras(_: object) -> None:
        with panorama.open(tmp_path / "library") as other:
            other.date(recording=panorama.RecordingRule("none", "UTC", "{camera}"))

    with panorama.open(tmp_path / "library", create=True) as library:
        rule, hooks = panorama.RecordingRule("name", "UTC"), panorama.Hooks(on_file=name_cameras)
        report = library.index(tmp_path / "v", model="color-bands", recording=rule, hooks=hooks)
        assert report.recording is not None and report.recording.rule.time_from == "none"
        assert library.videos()["camera"].to_pylist() == ["cam0", "cam1"]
