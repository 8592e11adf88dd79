"""What is known of when and by which camera a video was recorded stays while nothing says otherwise."""

from __future__ import annotations

import os
import sqlite3
import sys
import zoneinfo
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, write_film

import panorama
from panorama.cameras import recording
from panorama.cameras.recording_rule import SETTING
from panorama.errors import UsageError
from panorama.store import Store
from panorama.store.catalog.recorded import OwnRule

METADATA = ("--time-from", "metadata", "--timezone", "Europe/Berlin")


def made_at(path: Path, frames: int, time: str) -> Path:
    """A film whose container says when it was made; films of these tests differ in their frames."""
    plain = path.with_name(f"plain-{path.name}")
    write_film(plain, [Thing("red", 0, 10)], frames=frames)
    with av.open(str(plain)) as source, av.open(str(path), "w") as copy:
        copy.metadata.update({"creation_time": time})
        stream = copy.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                copy.mux(packet)
    plain.unlink()
    return path


def clocks(run: Callable[..., Ran]) -> dict[str, tuple[str, str | None, str | None, str | None]]:
    """Camera, time of day, zone and source of each video."""
    return {
        row["video"]: (
            row["camera"],
            row["start_clock"] and row["start_clock"][11:16],
            row["time_zone"],
            row["time_from"],
        )
        for row in run("clock", "--json").json
    }


def test_times_of_files_that_are_gone_stay(run: Callable[..., Ran], tmp_path: Path) -> None:
    """Retention deletes files, a disk may not be there: --camera-from took the time of all of these."""
    here = made_at(tmp_path / "v" / "here.mp4", 12, "2026-03-01T09:15:00Z")
    gone = made_at(tmp_path / "v" / "gone.mp4", 14, "2026-03-01T10:15:00Z")
    for k in range(2):
        write_taken(tmp_path / "v" / "trap" / f"IMG_{k:04d}.png", "2026:03:01 12:15:00")
    told = run("index", "v", "--model", "color-bands", *METADATA).err
    assert "wall-clock time of 3 videos from the container's metadata" in told
    before = clocks(run)
    assert [before[name][1] for name in ("gone.mp4", "here.mp4", "trap")] == ["11:15", "10:15", "12:15"]
    gone.unlink()
    for k in range(2):
        (tmp_path / "v" / "trap" / f"IMG_{k:04d}.png").unlink()  # the folder stays, and is empty
    told = run("clock", "--camera-from", "*/{camera}").err
    assert told == "3 videos changed\n", "no time was asked for"
    assert {name: row[1:] for name, row in clocks(run).items()} == {
        name: row[1:] for name, row in before.items()
    }
    assert "2 videos keep the wall-clock time already known" in run("clock", *METADATA).err
    told = run("clock", "--timezone", "UTC").err
    assert "wall-clock time of 1 video from the container's metadata, as here.mp4 at 2026-03-01 09:15" in told
    assert "the file is gone or cannot be read: gone.mp4, trap" in told
    assert {name: row[1:] for name, row in clocks(run).items()} == {
        "gone.mp4": ("10:15", "UTC", "metadata"),
        "here.mp4": ("09:15", "UTC", "metadata"),
        "trap": ("11:15", "UTC", "metadata"),
    }
    here.write_bytes(b"written over, and not indexed since")
    assert "3 videos keep" in run("clock", *METADATA).err
    assert clocks(run)["here.mp4"][1:] == ("10:15", "Europe/Berlin", "metadata")


def test_times_are_told_anew_only_where_that_was_asked(run: Callable[..., Ran], tmp_path: Path) -> None:
    """--camera-from alone told all times once more, also of a video whose time had been made unknown."""
    for k in range(2):
        made_at(tmp_path / "v" / f"{k}.mp4", 12 + k, "2026-03-01T09:15:00Z")
    run("index", "v", "--model", "color-bands", *METADATA)
    run("clock", "1.mp4", "--at", "")
    assert run("clock", "--camera-from", "{camera}").err == "2 videos changed\n"
    assert clocks(run) == {
        "0.mp4": ("0", "10:15", "Europe/Berlin", "metadata"),
        "1.mp4": ("1", None, None, None),
    }
    run("clock", *METADATA)
    assert clocks(run)["1.mp4"] == ("1", "10:15", "Europe/Berlin", "metadata")


def test_a_time_set_by_hand_stays_while_a_file_goes_on(run: Callable[..., Ran], tmp_path: Path) -> None:
    """A file that was still being written and pictures that came into a folder: the time went, unsaid."""
    whole = write_film(tmp_path / "live.ts", [Thing("red", 0, 30)], frames=40).read_bytes()
    live, trap = tmp_path / "v" / "live_20260301-0900.ts", tmp_path / "v" / "trap"
    live.parent.mkdir()
    live.write_bytes(whole[: len(whole) // 188 // 2 * 188])
    for k in (8, 9):
        write_taken(trap / f"IMG_{k:04d}.png", "2026:03:01 09:00:00")
    names = ("live_20260301-0900.ts", "trap")
    rule = ("--time-from", "name", "--timezone", "UTC")
    run("index", "v", "--model", "color-bands", *rule)
    run("clock", *names, "--at", "2026-03-01 10:00", "--timezone", "UTC")
    live.write_bytes(whole)
    for k in (10, 11):
        write_taken(trap / f"IMG_{k:04d}.png", "2026:03:01 09:00:00")
    told = run("index", "v").err
    assert "2 indexed" in told and "forgotten" not in told
    assert {clocks(run)[name][1:] for name in names} == {("10:00", "UTC", "hand")}
    (trap / "IMG_0008.png").unlink()  # the first one is another now
    live.write_bytes(write_film(tmp_path / "other.ts", [Thing("green", 0, 30)], frames=60).read_bytes())
    told = run("index", "v").err
    assert "2 indexed" in told and told.count("set by hand was removed") == 2
    again = (
        "if it still applies: panorama clock live_20260301-0900.ts --at '2026-03-01 10:00:00' --timezone UTC"
    )
    assert again in told
    assert [clocks(run)[name][1:] for name in names] == [("09:00", "UTC", "name"), (None, None, None)]
    assert "forgotten" not in run("index", "v").err, "told once"


def test_a_file_that_became_unreadable_keeps_the_time_set_by_hand(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 10)], frames=12)
    run("index", "v", "--model", "color-bands")
    run("clock", "a.mp4", "--at", "2026-03-01 10:00", "--timezone", "UTC")
    (tmp_path / "v" / "a.mp4").write_bytes(b"no video any more")
    told = run("index", "v").err
    assert "1 failed" in told and "forgotten" not in told
    assert clocks(run)["a.mp4"] == ("v", "10:00", "UTC", "hand")


def test_a_copy_keeps_its_own_time(run: Callable[..., Ran], tmp_path: Path) -> None:
    """Touched, it took that of the other one, also where its own was set by hand."""
    for name in ("a_20260301-0900", "b_20260301-0900"):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12)
    run("index", "v", "--model", "color-bands", "--time-from", "name", "--timezone", "UTC")
    run("clock", "b_20260301-0900.mp4", "--at", "2026-03-01 10:00", "--timezone", "UTC")
    os.utime(tmp_path / "v" / "b_20260301-0900.mp4", ns=(10**18, 10**18))
    run("index", "v")
    assert clocks(run)["b_20260301-0900.mp4"] == ("v", "10:00", "UTC", "hand")


@pytest.mark.parametrize(
    ("rule", "source", "camera"),
    [
        (("--time-from", "{camera}_%Y%m%d-%H%M%S"), "{camera}_%Y%m%d-%H%M%S", "door"),
        (("--time-from", "name", "--camera-from", "{camera}_*"), "name", "door"),
        (("--time-from", "name"), "name", "evidence"),
    ],
)
def test_a_file_that_was_moved_keeps_what_its_new_path_does_not_tell(
    run: Callable[..., Ran], tmp_path: Path, rule: tuple[str, ...], source: str, camera: str
) -> None:
    """rec/evidence/theft.mp4, known by its content, had no time any more and was of another camera."""
    for k, name in enumerate(("door_20260301-101500", "door_20260301-101600", "yard_20260301-101500")):
        write_film(tmp_path / "rec" / name[:4] / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    run("index", "rec", "--model", "color-bands", *rule, "--timezone", "UTC")
    (tmp_path / "rec" / "evidence").mkdir()
    moved = tmp_path / "rec" / "evidence" / "theft.mp4"
    (tmp_path / "rec/door/door_20260301-101500.mp4").rename(moved)
    for words in ((), (*rule, "--timezone", "UTC")):
        told = run("index", "rec", *words).err
        assert "0 indexed, 3 skipped" in told
        assert "1 video keeps the wall-clock time already known" in told
        assert "gives none where the file is now: evidence/theft.mp4" in told
        assert clocks(run)["evidence/theft.mp4"] == (camera, "10:15", "UTC", source)
    copy = tmp_path / "rec" / "evidence" / "copy.mp4"
    copy.write_bytes(moved.read_bytes())
    run("index", "rec")
    assert clocks(run)["evidence/copy.mp4"] == ("evidence", "10:15", "UTC", source)
    copy.unlink()
    moved = moved.rename(tmp_path / "rec" / "yard" / "yard_20260301-111500.mp4")
    run("index", "rec")
    assert clocks(run)["yard/yard_20260301-111500.mp4"] == ("yard", "11:15", "UTC", source)
    moved.rename(tmp_path / "rec" / "evidence" / "theft.mp4")
    run("index", "rec", "--time-from", "{camera}_%Y%m%d-%H%M*")  # another rule than that which told it
    assert clocks(run)["evidence/theft.mp4"] == ("evidence", None, None, None)


def test_folders_asked_for_go_before_a_camera_in_the_pattern_of_times(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """--camera-from folder did nothing where the pattern of times names the camera."""
    for k, name in enumerate(("door_20260301-101500", "yard_20260301-101500")):
        write_film(tmp_path / "rec" / "site" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    pattern = "{camera}_%Y%m%d-%H%M%S"
    run("index", "rec", "--model", "color-bands", "--time-from", pattern, "--timezone", "UTC")
    assert [row[0] for row in clocks(run).values()] == ["door", "yard"]
    assert run("clock", "--camera-from", "folder").err == "2 videos changed\n"
    assert set(clocks(run).values()) == {("site", "10:15", "UTC", pattern)}
    moved = (tmp_path / "rec/site/yard_20260301-101500.mp4").rename(tmp_path / "rec/site/a.mp4")
    run("index", "rec")
    assert {row[:3] for row in clocks(run).values()} == {("site", "10:15", "UTC")}
    moved.rename(tmp_path / "rec/site/yard_20260301-101500.mp4")
    run("index", "rec")
    assert set(clocks(run).values()) == {("site", "10:15", "UTC", "*_%Y%m%d-%H%M%S")}
    run("clock", "--time-from", pattern)
    assert [row[0] for row in clocks(run).values()] == ["door", "yard"]
    run("index", "rec", "--time-from", pattern, "--camera-from", "folder")
    assert set(clocks(run).values()) == {("site", "10:15", "UTC", "*_%Y%m%d-%H%M%S")}


def test_a_start_by_hand_is_on_the_clock_of_the_video_else_of_the_library(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on that of the machine, without a word: hours away from the other times of the library."""
    for k, name in enumerate(("a_20260301-0900", "b", "c")):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    monkeypatch.setenv("TZ", "America/New_York")
    run("index", "v", "--model", "color-bands")
    told = run("clock", "b.mp4", "--at", "2026-03-01 10:00")
    assert told.err.startswith("b.mp4 begins at 2026-03-01 10:00:00 America/New_York\n"), "none was kept"
    run("clock", "--time-from", "name", "--timezone", "Asia/Tokyo")
    told = run("clock", "c.mp4", "--at", "2026-03-01 10:00")
    assert told.err == "c.mp4 begins at 2026-03-01 10:00:00 Asia/Tokyo\n1 video changed\n"
    run("clock", "b.mp4", "--at", "2026-03-01 11:00")
    assert [row[1:3] for row in clocks(run).values()] == [
        ("09:00", "Asia/Tokyo"),
        ("11:00", "America/New_York"),
        ("10:00", "Asia/Tokyo"),
    ]
    before = clocks(run)
    for words, status, said in (
        (("b.mp4", "c.mp4", "--at", "2026-03-01 10:00"), 2, "(America/New_York, Asia/Tokyo)"),
        (("b.mp4", "--at", "2026-03-01"), 2, "a start is a date with a time"),
        (("b.mp4", "--at", "20260301"), 2, "a start is a date with a time"),
        (("b.mp4", "--first-at", "2026-03-01"), 2, "a start is a date with a time"),
    ):
        refused = run("clock", *words)
        assert (refused.status, said in refused.err) == (status, True), refused.err
    assert clocks(run) == before
    told = run("clock", "b.mp4", "c.mp4", "--at", "2026-03-01 10:00+00:00")
    assert "2 videos begin at the same moment, 2026-03-01 05:00:00 America/New_York" in told.err
    assert [row[1] for row in clocks(run).values()] == ["09:00", "05:00", "19:00"]


def test_utc_is_kept_as_any_zone_that_was_named(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for no zone, so that the machine's held: hours away, without a word."""
    write_film(tmp_path / "v" / "a_20260301-0900.mp4", [Thing("red", 0, 10)], frames=12)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    run("index", "v", "--model", "color-bands")
    run("clock", "--timezone", "UTC")
    run("clock", "--time-from", "name")
    assert [row[1:3] for row in clocks(run).values()] == [("09:00", "UTC")]
    run("clock", "--time-from", "none")
    told = run("clock", "a_20260301-0900.mp4", "--at", "2026-07-01 10:00")
    assert told.err.startswith("a_20260301-0900.mp4 begins at 2026-07-01 10:00:00 UTC\n")


def test_without_data_of_zones_clocks_run_in_utc(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small containers nothing could be indexed with a time: there was no zone 'UTC'."""
    made_at(tmp_path / "here.mp4", 12, "2026-03-01T09:15:00Z")
    made_at(tmp_path / "berlin.mp4", 14, "2026-03-01T09:15:00Z")
    run("index", "berlin.mp4", "--model", "color-bands", *METADATA)
    before = zoneinfo.TZPATH
    for name in {"tzdata", *(name for name in sys.modules if name.startswith("tzdata."))}:
        monkeypatch.setitem(sys.modules, name, None)
    try:
        zoneinfo.reset_tzpath(to=())
        zoneinfo.ZoneInfo.clear_cache()
        told = run("query", "SELECT video FROM videos")
        assert told.status == 2
        assert "no time zone 'Europe/Berlin'" in told.err and "pip install tzdata" in told.err
        here = ("--library", "utc")
        utc = ("--time-from", "metadata", "--timezone", "UTC")
        told = run(*here, "index", "here.mp4", "--model", "color-bands", *utc).err
        assert "1 video" in told
        sql = "SELECT video FROM videos WHERE start_clock > '2026-03-01 09:00'"
        assert run(*here, "query", sql, "--json").json == [{"video": "here.mp4"}]
    finally:
        zoneinfo.reset_tzpath(to=before)


def test_what_is_named_for_some_videos_is_kept_for_them(run: Callable[..., Ran], tmp_path: Path) -> None:
    """The next index gave them the library's zone, source and camera again, without a word."""
    for k, name in enumerate(("gate/a_20260701-1000", "brook/b_20260701-1000", "brook/c_20260701-1000")):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    a, b, c = "gate/a_20260701-1000.mp4", "brook/b_20260701-1000.mp4", "brook/c_20260701-1000.mp4"
    run("index", "v", "--model", "color-bands", "--time-from", "name", "--timezone", "Europe/Berlin")
    summer = ("gate", "10:00", "Europe/Berlin", "name")
    winter = ("brook", "10:00", "Etc/GMT-1", "name")
    assert "1 video changed" in run("clock", b, "--timezone", "Etc/GMT-1").err
    for words in ((), ("--time-from", "name", "--timezone", "Europe/Berlin"), ("--redo",)):
        run("index", "v", *words)
        assert clocks(run) == {a: summer, b: winter, c: ("brook", *summer[1:])}

    told = run("clock", b, "--camera-from", "{camera}_*").err
    assert told == "1 video changed\n", "its zone was named before, and stays"
    run("clock", c, "--time-from", "none")
    (tmp_path / "v" / "brook" / "b_20260701-1000.mp4").rename(tmp_path / "v" / "gate" / "b_20260701-1100.mp4")
    told = run("index", "v").err
    assert "wall-clock time of 1 video from" in told, "what was named was told when it was"
    moved = "gate/b_20260701-1100.mp4"
    assert clocks(run)[moved] == ("b", "11:00", "Etc/GMT-1", "name")

    run("clock", "--time-from", "name")  # for all of them, and no zone
    assert clocks(run)[moved] == ("b", "11:00", "Etc/GMT-1", "name")
    run("clock", "--timezone", "Europe/Berlin")
    assert clocks(run)[moved] == ("b", "11:00", "Europe/Berlin", "name")
    run("clock", "--camera-from", "folder")
    run("index", "v")
    assert clocks(run)[moved] == ("gate", "11:00", "Europe/Berlin", "name")


def test_what_a_call_does_not_name_is_not_asked_for(run: Callable[..., Ran], tmp_path: Path) -> None:
    """A zone for one video was refused because the library's pattern of cameras does not fit that one."""
    for k, name in enumerate(("a_20260701-1000", "plain")):
        made_at(tmp_path / "v" / f"{name}.mp4", 12 + k, "2026-07-01T08:00:00Z")
    run("index", "v", "--model", "color-bands", *METADATA, "--camera-from", "{camera}_*")
    told = run("clock", "plain.mp4", "--timezone", "UTC").err
    assert told == (
        "wall-clock time of 1 video from the container's metadata, as plain.mp4 at 2026-07-01 08:00:00 UTC\n"
        "1 video changed\n"
    )


def test_a_video_goes_back_to_what_the_library_keeps(run: Callable[..., Ran], tmp_path: Path) -> None:
    for k, name in enumerate(("a_20260701-1000", "b_20260701-1000")):
        write_film(tmp_path / "v" / "site" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    pattern, b = "{camera}_%Y%m%d-%H%M", "site/b_20260701-1000.mp4"
    run("index", "v", "--model", "color-bands", "--time-from", pattern, "--timezone", "UTC")
    run("clock", b, "--camera-from", "folder")
    run("index", "v")
    assert clocks(run)[b][0] == "site", "named for this one; the others have theirs from the pattern of times"
    run("clock", b, "--time-from", pattern, "--timezone", "Asia/Tokyo", "--camera-from", "{camera}_*")
    run("clock", b, "--timezone", "UTC")
    run("clock", "--timezone", "Europe/Berlin")
    assert set(clocks(run).values()) == {
        ("a", "10:00", "Europe/Berlin", pattern),
        ("b", "10:00", "Europe/Berlin", pattern),
    }


def test_a_zone_and_a_source_of_times_are_named_each_by_itself(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """The other part went back to the library's: a clip's time was by the wrong clock, or from its name."""
    zoned, sourced, plain = (f"{name}_20260701-1000.mp4" for name in "bcd")
    for k, name in enumerate((zoned, sourced, plain)):
        made_at(tmp_path / "v" / name, 12 + k, "2026-07-01T06:00:00Z")
    run("index", "v", "--model", "color-bands", "--time-from", "name", "--timezone", "Europe/Berlin")
    run("clock", zoned, "--timezone", "Etc/GMT-1")
    run("clock", zoned, "--time-from", "metadata")
    run("clock", sourced, "--time-from", "metadata", "--timezone", "UTC")
    told = run("clock", "--timezone", "Asia/Tokyo", sourced, plain).err
    assert told.startswith(
        "wall-clock time of 2 videos from the container's metadata or the timestamp in the name, as"
        f" {sourced} at 2026-07-01 15:00:00 Asia/Tokyo\n"
    )
    named = {zoned: ("07:00", "Etc/GMT-1", "metadata"), sourced: ("15:00", "Asia/Tokyo", "metadata")}
    for words in ((), ("--redo",)):
        run("index", "v", *words)
        assert {name: told[1:] for name, told in clocks(run).items()} == {
            **named, plain: ("10:00", "Asia/Tokyo", "name"),
        }  # fmt: skip
    run("clock", "--timezone", "UTC")
    run("clock", zoned, "--time-from", "name")
    assert [told[1:] for told in clocks(run).values()] == [
        ("10:00", "UTC", "name"), ("06:00", "UTC", "metadata"), ("10:00", "UTC", "name"),
    ]  # fmt: skip


def test_a_source_alone_is_read_by_the_zone_that_holds_where_none_was_named(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_films(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    run("index", "v", "--model", "color-bands")
    run("clock", "yard_20260701-1000.mp4", "--timezone", "Etc/GMT-1")
    run("clock", "door_20260701-1000.mp4", "yard_20260701-1000.mp4", "--time-from", "name")
    monkeypatch.setenv("TZ", "UTC")  # another machine
    run("index", "v")
    assert [told[2] for told in clocks(run).values()] == ["Asia/Tokyo", "Etc/GMT-1"]


def test_a_start_by_hand_is_in_the_zone_that_was_named_for_the_video(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands", "--time-from", "metadata", "--timezone", "UTC")
    run("clock", "door_20260701-1000.mp4", "--timezone", "Etc/GMT-1")
    told = run("clock", "door_20260701-1000.mp4", "--at", "2026-07-01 10:00").err
    assert told.startswith("door_20260701-1000.mp4 begins at 2026-07-01 10:00:00 Etc/GMT-1\n")


def test_a_zone_alone_is_not_refused_for_the_pattern_of_the_others(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """The library's pattern of times fits no such name, and nobody asked for it."""
    made_at(tmp_path / "v" / "plain.mp4", 12, "2026-07-01T06:00:00Z")
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands", "--time-from", "{camera}_%Y%m%d-%H%M", "--timezone", "UTC")
    run("clock", "plain.mp4", "--time-from", "metadata")
    assert "1 video changed" in run("clock", "plain.mp4", "--timezone", "Etc/GMT-1").err
    assert clocks(run)["plain.mp4"][1:] == ("07:00", "Etc/GMT-1", "metadata")


def test_a_part_of_a_rule_for_all_leaves_the_other_parts_of_the_library(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands", "--time-from", "{camera}_%Y%m%d-%H%M", "--timezone", "UTC")
    with panorama.open(tmp_path / "panorama-library") as opened:
        opened.date(recording=panorama.RecordingRule(zone="Asia/Tokyo"), parts=["zone"])
        assert opened.recording == panorama.RecordingRule("{camera}_%Y%m%d-%H%M", "Asia/Tokyo")
        opened.date(recording=panorama.RecordingRule(camera_from="folder"), parts=["camera_from"])
        assert opened.recording == panorama.RecordingRule("*_%Y%m%d-%H%M", "Asia/Tokyo")
        kept = opened.recording
        assert opened.date(recording=panorama.RecordingRule("none", "UTC"), parts=[]).changed == 0
        assert opened.recording == kept, "nothing was named"
        with pytest.raises(UsageError, match="its attributes: time_from, zone, camera_from, got"):
            opened.date(recording=panorama.RecordingRule(zone="Asia/Tokyo"), parts=["timezone"])


@pytest.mark.parametrize(
    ("kept", "now"),
    [
        ("{camera}/**", "{camera}/*"),
        ("**/{camera}/**/**", "*/{camera}/*/*"),
        ("v/{camera}/**", "v/{camera}/**"),
        ("%Y/{camera}/**", "%Y/{camera}/**"),
        ("höfe/{camera}/**", "höfe/{camera}/**"),
        ("{camera}/a**", "{camera}/a**"),
    ],
)
def test_a_pattern_of_before_keeps_its_meaning(
    run: Callable[..., Ran], tmp_path: Path, kept: str, now: str
) -> None:
    """Two asterisks stood for one: refused now, a kept pattern locked `index` and `clock`."""
    write_film(tmp_path / "v" / "gate" / "deep" / "a.mp4", [Thing("red", 0, 10)], frames=12)
    run("index", "v", "--model", "color-bands")
    library = tmp_path / "panorama-library"
    with panorama.open(library) as opened:
        opened.put_setting(SETTING, {"time_from": "", "zone": "UTC", "camera_from": kept})
    with sqlite3.connect(library / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE meta SET value = '15' WHERE key = 'schema_version'")
        catalog.execute("UPDATE videos SET camera_from = ?, own_camera_from = ?", (kept, kept))
        catalog.execute("UPDATE videos SET time_from = 'unknown', own_time_from = ?", (kept,))
    catalog.close()
    with panorama.open(library) as opened:
        assert opened.recording.camera_from == now
        (row,) = opened._store.recorded()
        assert row.recorded.own == OwnRule(now, None, now) and row.recorded.camera_from == now


@pytest.mark.parametrize(
    ("cameras", "times"),
    [
        ("{camera}/**/x_*", "{camera}_%Y%m%d-%H%M"),
        ("gate/{camera}", "{camera}/**/x_%Y%m%d-%H%M"),
        ("**/{camera}/x*/**", "{camera}_%Y%m%d-%H%M"),
    ],
)
@pytest.mark.parametrize("of_its_own", [False, True])
def test_a_moved_file_keeps_its_camera_when_both_patterns_are_rewritten(
    run: Callable[..., Ran], tmp_path: Path, cameras: str, times: str, of_its_own: bool
) -> None:
    """Which patterns gave a camera stands in one column: it was as of other patterns, and dropped."""
    film = tmp_path / "v" / "gate" / "x_20260701-1000.mp4"
    write_film(film, [Thing("red", 0, 10)], frames=12)
    run("index", "v", "--model", "color-bands", "--timezone", "UTC")
    library = tmp_path / "panorama-library"
    kept = {"time_from": times, "zone": "UTC", "camera_from": cameras}
    with panorama.open(library) as opened:
        opened.put_setting(SETTING, {**kept, "time_from": "name"} if of_its_own else kept)
    with sqlite3.connect(library / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE meta SET value = '15' WHERE key = 'schema_version'")
        catalog.execute("UPDATE videos SET camera = 'pond', camera_from = ?", (f"{cameras} {times}",))
        catalog.execute("UPDATE videos SET own_time_from = ?", (times if of_its_own else None,))
    catalog.close()
    film.rename(film.parents[1] / "theft.mp4")
    run("index", "v")
    assert clocks(run)["theft.mp4"][0] == "pond"


def test_a_kept_rule_that_cannot_be_used_is_told_and_replaced_by_one_option(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """All three options had to be given at once, and nothing said so."""
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands")
    with panorama.open(tmp_path / "panorama-library") as opened:
        opened.put_setting(SETTING, {"time_from": "name", "zone": "UTC", "camera_from": "{camera}/**"})
    for words in (("index", "v"), ("clock", "--timezone", "Asia/Tokyo")):
        refused = run(*words)
        assert refused.status == 2
        assert "--camera-from '{camera}/**', which this library keeps, cannot be used: " in refused.err
        assert "Name another: panorama clock --camera-from folder\n" in refused.err
    assert run("query", "SELECT count(*) AS n FROM videos", "--json").json == [{"n": 2}]
    assert run("clock", "--camera-from", "folder").status == 0
    assert "2 skipped" in run("index", "v").err
    assert {told[1:] for told in clocks(run).values()} == {("10:00", "UTC", "name")}


def named_films(tmp_path: Path) -> None:
    for n, name in enumerate(("door_20260701-1000", "yard_20260701-1000")):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing("red", 0, 10)], frames=12 + n)


def test_a_zone_named_before_the_library_has_a_rule_is_kept(run: Callable[..., Ran], tmp_path: Path) -> None:
    """UTC counted as the library's, which had none, and the next rule for all took its place."""
    for n, name in enumerate(("a", "b")):
        made_at(tmp_path / "v" / f"{name}.mp4", 12 + n, "2026-07-01T08:00:00Z")
    run("index", "v", "--model", "color-bands")
    run("clock", "b.mp4", "--time-from", "metadata", "--timezone", "UTC")
    run("index", "v", *METADATA)
    assert {name: told[1:3] for name, told in clocks(run).items()} == {
        "a.mp4": ("10:00", "Europe/Berlin"), "b.mp4": ("08:00", "UTC"),
    }  # fmt: skip


def test_cameras_in_a_pattern_of_times_count_for_named_videos_too(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands")
    library = tmp_path / "panorama-library"
    with panorama.open(library) as opened:
        rule = panorama.RecordingRule("{camera}_%Y%m%d-%H%M", "UTC")
        opened.date(["door_20260701-1000.mp4"], recording=rule)
    assert [told[0] for told in clocks(run).values()] == ["door", "v"]


@pytest.mark.parametrize("videos", [(), ("door_20260701-1000.mp4",)], ids=["all", "one"])
def test_folders_as_cameras_replace_the_pattern_of_a_video(
    run: Callable[..., Ran], tmp_path: Path, videos: tuple[str, ...]
) -> None:
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands")
    by_name = ("--time-from", "{camera}_%Y%m%d-%H%M", "--timezone", "UTC", "--camera-from", "{camera}_*")
    run("clock", "door_20260701-1000.mp4", *by_name)
    assert [told[0] for told in clocks(run).values()] == ["door", "v"]
    run("clock", *videos, "--camera-from", "folder")
    run("index", "v")
    assert [told[0] for told in clocks(run).values()] == ["v", "v"]


def test_two_rules_for_all_at_once_leave_no_video_with_one_of_its_own(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second came between the first one's rule for the library and its times of the videos."""
    named_films(tmp_path)
    run("index", "v", "--model", "color-bands")
    library = tmp_path / "panorama-library"
    keep = recording.remember

    def meanwhile(store: Store, rule: panorama.RecordingRule) -> None:
        keep(store, rule)
        monkeypatch.setattr(recording, "remember", keep)
        with panorama.open(library) as other:
            other.date(recording=panorama.RecordingRule("none", "Asia/Tokyo"))

    monkeypatch.setattr(recording, "remember", meanwhile)
    with panorama.open(library) as opened:
        opened.date(recording=panorama.RecordingRule("name", "UTC"))
        assert {row.recorded.own for row in opened._store.recorded()} == {OwnRule()}
