"""`panorama clock` and `remove` by folders and patterns: what they mean, and what happens to nothing else."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clips import write_taken
from fakes import Thing, write_film


@pytest.fixture
def indexed(run: Callable[..., Any], tmp_path: Path) -> Path:
    """A library with four films."""
    for number, name in enumerate(("gate/a.mp4", "gate/b.mp4", "yard.mp4", "shed.mp4")):
        write_film(tmp_path / "x" / name, [Thing("red", number, 12)], frames=12)
    assert run("index", "x", "--model", "color-bands").status == 0
    return tmp_path


def videos(run: Callable[..., Any]) -> list[str]:
    return [row["video"] for row in run("videos", "--json").json]


def answer(monkeypatch: pytest.MonkeyPatch, text: str | None) -> list[str]:
    """Somebody types `text` at every question, for None nobody is there; the questions that were asked."""
    asked: list[str] = []

    def typed(question: str) -> str:
        asked.append(question)
        if text is None:
            raise EOFError
        return text

    monkeypatch.setattr("click.termui.visible_prompt_func", typed)
    return asked


def test_remove_says_what_a_pattern_takes_away_and_asks(
    run: Callable[..., Any], indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer(monkeypatch, "n")
    kept = run("remove", "gate/*", "shed.mp4")
    assert kept.status == 1 and len(asked) == 1
    assert kept.err.startswith(
        "gate/* matches 2 videos\nto be removed, with everything found in them:\n"
        "  gate/a.mp4\n  gate/b.mp4\n  shed.mp4\n"
    )
    assert kept.err.endswith("nothing was removed\n") and len(videos(run)) == 4
    answer(monkeypatch, None)
    alone = run("remove", "gate")
    assert alone.status == 130 and "nothing was removed; --yes removes without asking\n" in alone.err
    assert len(videos(run)) == 4
    answer(monkeypatch, "y")
    assert run("remove", "gate").err.endswith("removed gate/a.mp4\nremoved gate/b.mp4\n")
    assert videos(run) == ["shed.mp4", "yard.mp4"]
    asked = answer(monkeypatch, "n")
    done = run("remove", "x/shed.mp4")  # somebody named it: as before, no question
    assert (done.status, asked, videos(run)) == (0, [], ["yard.mp4"])
    assert run("remove", "*.mp4", "--yes").status == 0
    assert (asked, videos(run)) == ([], [])
    assert (indexed / "x" / "gate" / "a.mp4").exists()


def test_remove_missing_takes_out_what_is_gone_but_not_a_disk_that_is_not_mounted(
    run: Callable[..., Any], indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder deletes its oldest files every night; each row had to be named."""
    write_film(indexed / "disk" / "c.mp4", [Thing("blue", 0, 12)], frames=12)
    run("index", "disk", "--model", "color-bands")
    asked = answer(monkeypatch, "n")
    assert run("remove", "--missing").err == "no file is missing; nothing was removed\n"
    for name in ("gate/a.mp4", "yard.mp4"):
        (indexed / "x" / name).unlink()
    kept = run("remove", "--missing")
    assert kept.err == (
        f"missing from {indexed / 'x'}: 2 of 4 videos\nto be removed, with everything found in them:\n"
        "  gate/a.mp4\n  yard.mp4\nnothing was removed\n"
    )
    assert (kept.status, len(asked), len(videos(run))) == (1, 1, 5)
    (indexed / "disk").rename(indexed / "away")
    (indexed / "disk").mkdir()  # where a disk is mounted there is an empty folder without it
    answer(monkeypatch, "y")
    for sure in ((), ("--yes",)):
        refused = run("remove", "--missing", *sure)
        assert refused.status == 2 and len(videos(run)) == 5
        assert (
            f"no video that was indexed from {indexed / 'disk'} is there: is its disk mounted?" in refused.err
        )
        assert f"panorama remove --missing {indexed / 'disk'}\n" in refused.err
    # Those of one folder can be named, and only what is missing of it goes.
    assert run("remove", "--missing", "x").err.endswith("removed gate/a.mp4\nremoved yard.mp4\n")
    assert videos(run) == ["c.mp4", "gate/b.mp4", "shed.mp4"]
    done = run("remove", "--missing", "disk", "--yes")
    assert f"missing from {indexed / 'disk'}: 1 of 1 video; all of its videos are missing\n" in done.err
    assert (done.status, videos(run)) == (0, ["gate/b.mp4", "shed.mp4"])
    assert run("remove").status == 2


def test_a_disk_below_the_indexed_folder_that_is_not_mounted_is_not_forgotten(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """One folder, one mount for each camera: the folder itself is never empty."""
    for name in ("gate/a.mp4", "gate/b.mp4", "trap/day/c.mp4", "yard/e.mp4"):
        write_film(tmp_path / "m" / name, [Thing("red", 0, 12)], frames=12 + len(name))
    run("index", "m", "--model", "color-bands")
    (tmp_path / "m" / "gate" / "a.mp4").unlink()
    for camera in ("trap", "yard"):
        (tmp_path / "m" / camera).rename(tmp_path / camera)
    (
        tmp_path / "m" / "trap"
    ).mkdir()  # the mount point; of the yard, whose days were deleted, nothing is left
    told = run("index", "m").err
    assert f"Nothing is left in {tmp_path / 'm' / 'trap'}: is its disk mounted?" in told
    refused = run("remove", "--missing", "--yes")
    assert refused.status == 2 and len(videos(run)) == 4
    where = tmp_path / "m" / "trap"
    assert f"no video that was indexed from {where} is there: is its disk mounted?" in refused.err
    assert refused.err.endswith(f"panorama remove --missing {where}\n")
    # Whoever names what is around it has not said it of this one.
    assert run("remove", "--missing", "--yes", "m").status == 2 and len(videos(run)) == 4
    (tmp_path / "m" / "trap").rmdir()
    (tmp_path / "trap").rename(where)
    assert run("remove", "--missing", "--yes").status == 0
    assert videos(run) == ["gate/b.mp4", "trap/day/c.mp4"]


@pytest.mark.parametrize("mount_point_stays", [True, False])
def test_a_disk_behind_a_link_that_is_not_mounted_is_not_forgotten(
    run: Callable[..., Any], tmp_path: Path, mount_point_stays: bool
) -> None:
    for number, name in enumerate(("disk/a.mp4", "disk/day/b.mp4", "m/yard/c.mp4")):
        write_film(tmp_path / name, [Thing("red", 0, 12)], frames=12 + number)
    (tmp_path / "m" / "gate").symlink_to(tmp_path / "disk")
    run("index", "m", "--model", "color-bands")
    assert videos(run) == ["gate/a.mp4", "gate/day/b.mp4", "yard/c.mp4"]
    (tmp_path / "disk").rename(tmp_path / "away")
    if mount_point_stays:
        (tmp_path / "disk").mkdir()
    refused = run("remove", "--missing", "--yes")
    assert (refused.status, len(videos(run))) == (2, 3)
    assert f"no video that was indexed from {tmp_path / 'disk'} is there" in refused.err


def test_only_the_folders_that_are_indexed_are_asked_for_what_is_gone(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    for number, name in enumerate(("gate/a.mp4", "trap/b.mp4", "yard/c.mp4")):
        write_film(tmp_path / "m" / name, [Thing("red", 0, 12)], frames=12 + number)
    run("index", "m", "--model", "color-bands")
    for camera in ("gate", "trap"):
        next((tmp_path / "m" / camera).iterdir()).unlink()
    told = run("index", "m/gate").err
    assert f"Nothing is left in {tmp_path / 'm' / 'gate'}:" in told and "trap" not in told


def test_files_of_one_name_in_several_folders_are_told_by_the_folder_that_was_indexed(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """Their names begin with the folder, which is the folder that was indexed none the less."""
    for number, camera in enumerate(("one", "two", "three")):
        for name in ("1.mp4", "2.mp4"):
            write_film(tmp_path / camera / name, [Thing("red", 0, 12)], frames=12 + 2 * number + (name < "2"))
        run("index", camera, "--model", "color-bands")
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").mkdir()
    refused = run("remove", "--missing", "--yes")
    assert (refused.status, len(videos(run))) == (2, 6)
    assert f"missing from {tmp_path / 'two'}: 2 of 2 videos" in refused.err


def test_a_script_asks_for_what_is_new_since_the_last_time(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_780_000_000.0
    monkeypatch.setattr("panorama.store.catalog.videos.time.time", lambda: now)
    write_film(tmp_path / "x" / "a.mp4", [Thing("red", 0, 12)], frames=12)
    run("index", "x", "--model", "color-bands")
    now += 86_400
    write_film(tmp_path / "x" / "b.mp4", [Thing("red", 0, 14)], frames=14)
    run("index", "x")
    when = {row["video"]: row["indexed_at"] for row in run("videos", "--json").json}
    assert when == {"a.mp4": "2026-05-28 20:26:40", "b.mp4": "2026-05-29 20:26:40"}
    new = "SELECT video FROM videos WHERE indexed_at > TIMESTAMP '2026-05-28 20:26:40'"
    assert run("query", new, "--format", "json").json == [{"video": "b.mp4"}]


def test_remove_takes_nothing_where_one_word_means_nothing(run: Callable[..., Any], indexed: Path) -> None:
    for wrong in ("yrad.*", "", "nowhere/"):
        done = run("remove", "gate", "yard.mp4", wrong, "--yes")
        assert (done.status, done.out) == (1, "") and "UnknownVideo: no video" in done.err
        assert "removed" not in done.err
    assert len(videos(run)) == 4


def test_of_many_videos_the_first_are_listed(
    run: Callable[..., Any], indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panorama.cli.videos.SHOWN_NAMES", 3)
    answer(monkeypatch, "n")
    assert "  shed.mp4\n  and 1 more, which" in run("remove", "**").err


def test_a_clock_is_set_for_all_that_a_pattern_means(run: Callable[..., Any], indexed: Path) -> None:
    done = run("clock", "gate/*.mp4", "--at", "2026-03-01 10:00:00", "--timezone", "UTC")
    assert done.status == 0
    assert done.err.startswith("gate/*.mp4 matches 2 videos\n") and done.err.endswith("2 videos changed\n")
    shown = run("clock", "gate", "--json")
    assert shown.err == "gate matches 2 videos\n"
    assert {row["video"]: row["start_clock"] for row in shown.json} == {
        "gate/a.mp4": "2026-03-01 10:00:00.000",
        "gate/b.mp4": "2026-03-01 10:00:00.000",
    }
    wrong = run("clock", "gate/*.mp4", "yrad.*", "--at", "2026-03-01 11:00:00")
    assert wrong.status == 1 and "no video matches 'yrad.*'. Did you mean 'yard.mp4'" in wrong.err
    told = run("clock", "gate/a.mp4", "gate/b.mp4", "--first-at", "2026-03-01 10:00:01", "--json")
    assert [row["start_clock"] for row in told.json] == ["2026-03-01 10:00:01.000"] * 2  # stdout was empty
    assert (
        run("clock", "gate", "--at", "2026-03-01 10:00:01", "--timezone", "UTC", "--json").json == []
    )  # nothing changed
    assert run("clock", "gate/*.mp4", "--at", "2026-03-01 10:00:00").status == 0
    clocks = {row["start_clock"] for row in run("clock", "--json").json}
    assert clocks == {"2026-03-01 10:00:00.000", None}


def test_a_library_without_videos_says_why_nothing_is_found(run: Callable[..., Any], indexed: Path) -> None:
    asked = "SELECT frames WHERE video LIKE 'gate%'"
    assert "no video is indexed" not in run("query", asked).err
    run("remove", "**", "--yes")
    for sql in (asked, "SELECT tracks ORDER BY start_time", "SELECT count(*) FROM (SELECT moments)"):
        assert run("query", sql).err == "no video is indexed in this library; see: panorama index --help\n"
    assert run("query", "SELECT count(*) FROM videos").err == ""  # which says so itself


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("remove", "-x.mp4"), "remove -- -x.mp4"),
        (("remove", "x/gate", "-it's.mp4"), 'remove -- "-it\'s.mp4"'),
        (("clock", "-x.mp4"), "clock -- -x.mp4"),
        (("index", "-vx.mp4"), "index -- -vx.mp4"),
        (("register", "-van", "a.jpg"), "register -- -van"),
        (("exemplars", "-van"), "exemplars -- -van"),
        (("rename", "-van", "van"), "rename -- -van"),
        (("drop", "-van"), "drop -- -van"),
        (("forget", "-van", "--yes"), "forget -- -van"),
        (("why", "-van"), "why -- -van"),
        (("zones", "rename", "-gate", "gate"), "zones rename -- -gate"),
        (("index", "--x.mp4"), "index -- --x.mp4"),
        (("index", "-h.mp4"), "index -- -h.mp4"),
        (("remove", "a.mp4", "--x.mp4"), "remove -- --x.mp4"),
    ],
)
def test_a_name_with_a_dash_before_it_is_told_how_it_is_given(
    run: Callable[..., Any], words: tuple[str, ...], advice: str
) -> None:
    done = run(*words)
    assert done.status == 2
    assert done.err.endswith(f"Put a name that begins with a dash after --, as in: panorama {advice}\n")


def test_what_is_no_name_is_not_taken_for_one(run: Callable[..., Any]) -> None:
    for words in (("remove", "--yse", "-y"), ("index", "--fsp=5", "a.mp4"), ("info", "-x")):
        assert "after --" not in run(*words).err


def test_a_video_whose_name_begins_with_a_dash_is_removed_as_the_error_says(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    write_film(tmp_path / "-x.mp4", [Thing("red", 0, 12)], frames=12)
    assert run("index", "--model", "color-bands", "--", "-x.mp4").status == 0
    assert run("remove", "-x.mp4").status == 2 and videos(run) == ["-x.mp4"]
    assert run("remove", "--", "-x.mp4").status == 0 and videos(run) == []


def hybrid(run: Callable[..., Any], tmp_path: Path) -> None:
    """A library with the pictures of a camera and its clips, hours behind them, and another film."""
    for number in (1, 2, 3):
        write_taken(tmp_path / "t" / "north" / f"IMG_{number:04d}.png", f"2026:03:01 09:00:0{number}")
    for number in (1, 2):
        clip = tmp_path / "t" / "north" / f"clip_20260301-1{number}0000.mp4"
        write_film(clip, [Thing("red", number, 12)], frames=12)
    write_film(tmp_path / "t" / "south_20260301-100000.mp4", [Thing("red", 0, 12)], frames=12)
    assert run("index", "t", "--model", "color-bands", "--time-from", "name", "--timezone", "UTC").status == 0
    assert run("clock", "nort[h]", "--time-from", "metadata").err.startswith("nort[h] matches 1 video\n")


CLIPS = ["north/clip_20260301-110000.mp4", "north/clip_20260301-120000.mp4"]


def starts(run: Callable[..., Any]) -> list[str]:
    return [row["start_clock"][11:19] for row in run("clock", "--json").json]


@pytest.mark.parametrize("folder", ["north", "north/", "t/north"])
def test_the_clock_of_a_camera_is_put_right_for_its_pictures_and_its_clips(
    run: Callable[..., Any], tmp_path: Path, folder: str
) -> None:
    """By its name, the folder meant its pictures alone, and with a slash the clips alone."""
    hybrid(run, tmp_path)
    assert starts(run) == ["09:00:01", "11:00:00", "12:00:00", "10:00:00"]
    done = run("clock", folder, "--first-at", "2026-03-01 08:00:01")
    assert "matches 3 videos\n" in done.err and done.err.endswith("3 videos changed\n")
    assert starts(run) == ["08:00:01", "10:00:00", "11:00:00", "10:00:00"]


@pytest.mark.parametrize("folder", ["north", "north/", "t/north"])
def test_remove_takes_out_the_pictures_of_a_folder_with_its_clips_and_asks(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """It asked nothing, took out the pictures and left the clips."""
    hybrid(run, tmp_path)
    asked = answer(monkeypatch, "y")
    done = run("remove", folder)
    assert done.status == 0 and len(asked) == 1 and "Remove 3 videos" in asked[0]
    assert videos(run) == ["south_20260301-100000.mp4"]


def test_a_pattern_names_the_pictures_of_a_folder_without_its_clips(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hybrid(run, tmp_path)
    run("clock", "nort[h]", "--at", "2026-03-01 08:00:00")
    assert starts(run) == ["08:00:00", "11:00:00", "12:00:00", "10:00:00"]
    answer(monkeypatch, "y")
    run("remove", "nort[h]")
    assert videos(run) == [*CLIPS, "south_20260301-100000.mp4"]


def test_a_command_that_is_advised_for_the_pictures_of_a_folder_leaves_its_clips_alone(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """Of a folder whose name means more than the pictures, it would have set the time of the clips, too."""
    hybrid(run, tmp_path)
    run("clock", "nort[h]", "--at", "2026-03-01 08:00:00")
    (tmp_path / "t" / "north" / "IMG_0001.png").unlink()
    (advised,) = re.findall(r"if it still applies: panorama (.*)", run("index", "t").err)
    assert run(*shlex.split(advised)).err.endswith("1 video changed\n")
    # What was set was the time of the picture that is gone; the next one was taken a second later.
    assert starts(run) == ["08:00:01", "11:00:00", "12:00:00", "10:00:00"]
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET start_time_unix = 1e300 WHERE name = 'north'")
        catalog.execute("UPDATE counters SET value = value + 1 WHERE name = 'data'")
    (advised,) = re.findall(r"read again: panorama (.*)", run("clock").err)
    assert run(*shlex.split(advised)).err.endswith("1 video changed\n")
    assert [row["start_clock"] is None for row in run("clock", "--json").json] == [True, False, False, False]
