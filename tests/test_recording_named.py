"""What is named for some videos is kept for them: sources of times, zones and patterns of cameras."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran
from fakes import Thing, write_film
from test_recording_kept import METADATA, clocks, made_at

import panorama
from panorama.cameras import recording
from panorama.cameras.recording_rule import SETTING
from panorama.errors import UsageError
from panorama.store import Store
from panorama.store.catalog.recorded import OwnRule


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


@pytest.mark.parametrize(
    "words", [("--timezone", "Europe/Berlin"), ("--camera-from", "{camera}"), ("--camera-from", "folder")]
)
def test_new_videos_are_not_refused_for_a_pattern_that_the_library_keeps(
    run: Callable[..., Ran], tmp_path: Path, words: tuple[str, str]
) -> None:
    """It was refused for the library's pattern of times, which nobody had typed."""
    named_films(tmp_path)
    pattern = ("--time-from", "{camera}_%Y%m%d-%H%M")
    run("index", "v", "--model", "color-bands", "--timezone", "UTC", *pattern)
    write_film(tmp_path / "phone" / "plain.mp4", [Thing("red", 0, 10)], frames=15)
    assert "gives no time for any of 1 video" in run("index", "phone", *pattern).err
    assert "1 indexed" in run("index", "phone", *words).err
    assert clocks(run)["plain.mp4"][1:] == (None, None, None)


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
