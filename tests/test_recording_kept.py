"""What is known of when and by which camera a video was recorded stays while nothing says otherwise."""

from __future__ import annotations

import os
import sys
import zoneinfo
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, write_film

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


def test_a_time_made_unknown_comes_back_with_the_next_index_unless_no_source_is_named_for_it(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """The manual said that it is unknown from then on."""
    for k in range(2):
        made_at(tmp_path / "v" / f"{k}.mp4", 12 + k, "2026-03-01T09:15:00Z")
    run("index", "v", "--model", "color-bands", *METADATA)
    run("clock", "1.mp4", "--time-from", "none")
    for name in ("0.mp4", "1.mp4"):
        run("clock", name, "--at", "")
    run("index", "v")
    assert {name: row[1] for name, row in clocks(run).items()} == {"0.mp4": "10:15", "1.mp4": None}
    run("clock", "1.mp4", "--at", "2026-03-01 12:00")
    run("clock", "1.mp4", "--at", "")
    run("clock", "1.mp4", "--time-from", "metadata")
    assert clocks(run)["1.mp4"][1] == "10:15", "what was set by hand is undone"


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
