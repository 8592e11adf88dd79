"""Times of recordings are set and put right from the command line, also by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, write_film


def test_the_command_line_sets_and_shows_times(run: Callable[..., Ran], tmp_path: Path) -> None:
    write_film(tmp_path / "archive" / "gate" / "a_20260301-1015.mp4", [Thing("red", 0, 10)], frames=12)
    write_film(tmp_path / "archive" / "gate" / "b.mp4", [Thing("green", 0, 10)], frames=12)
    words = ("index", "archive", "--model", "color-bands", "--time-from", "name", "--timezone", "Asia/Tokyo")
    ran = run(*words)
    assert ran.status == 0
    assert "wall-clock time of 1 video from the timestamp in the name, as gate/a_20260301-1015" in ran.err
    assert "1 video has no wall-clock time from the timestamp in the name: gate/b.mp4" in ran.err
    shown = run("clock", "--json").json
    assert [(row["start_clock"], row["time_zone"], row["time_from"]) for row in shown] == [
        ("2026-03-01 10:15:00.000", "Asia/Tokyo", "name"),
        (None, None, None),
    ]
    assert (
        "1 video changed" in run("clock", "gate/b.mp4", "--at", "2026-03-01 11:00", "--timezone", "UTC").err
    )
    assert run("clock", "--json").json[1]["time_from"] == "hand"
    assert run("clock", "--camera-from", "{camera}_*").err.count("gate/b.mp4")
    assert [row["camera"] for row in run("clock", "--json").json] == ["a", "gate"]
    assert "no video 'c.mp4'" in run("clock", "c.mp4", "--at", "2026-03-01 11:00").err
    unknown = run("clock", "c.mp4")
    assert (unknown.status, unknown.out) == (1, "") and "no video 'c.mp4'" in unknown.err
    (by_path,) = run("clock", tmp_path / "archive" / "gate" / "b.mp4", "--json").json
    assert by_path["video"] == "gate/b.mp4"
    assert "a start is a date with a time" in run("clock", "gate/b.mp4", "--at", "noon").err


def test_a_wrong_clock_is_put_right_for_all_videos_of_a_camera(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """--at gave all of them one start, without a word, and there was no other way than one by one."""
    names = ("gate/20190101-000300", "gate/20190101-000500", "yard/20260301-0900", "yard/b")
    for k, name in enumerate(names):  # of copies, one would have the time of the other
        write_film(tmp_path / f"archive/{name}.mp4", [Thing("red", 0, 10)], frames=12 + k)
    rule = ("--time-from", "name", "--timezone", "Europe/Berlin")
    run("index", "archive", "--model", "color-bands", *rule)
    gate = [f"archive/gate/20190101-000{minute}00.mp4" for minute in (5, 3)]  # whatever their order
    assert "begin at the same moment" in run("clock", *gate, "--at", "2026-03-01 10:00").err
    run("clock", *gate, "--at", "")
    run("clock", *rule)
    done = run("clock", *gate, "--first-at", "2026-03-01 10:00")
    assert done.err == (
        "put forward by 2616 days, 9:57:00: the first is gate/20190101-000300.mp4"
        " at 2026-03-01 10:00:00 Europe/Berlin\n2 videos changed\n"
    )
    run("clock", *rule)  # what was set by hand stays
    shown = [(row["start_clock"], row["time_zone"]) for row in run("clock", "--json").json]
    assert shown == [
        ("2026-03-01 10:00:00.000", "Europe/Berlin"),
        ("2026-03-01 10:02:00.000", "Europe/Berlin"),
        ("2026-03-01 09:00:00.000", "Europe/Berlin"),
        (None, None),
    ]
    run("clock", *gate, "--first-at", "2026-03-01 09:30", "--timezone", "UTC")
    moved = run("clock", *gate, "--json").json
    assert [row["start_clock"][11:16] for row in moved] == ["09:30", "09:32"]
    assert {row["time_zone"] for row in moved} == {"UTC"}
    for words, told in (
        (
            ("yard/b.mp4", "--first-at", "2026-03-01 10:00"),
            "no wall-clock time to correct is known for: yard/b.mp4; name only videos whose time is known,",
        ),
        (("--first-at", "2026-03-01 10:00"), "name the videos"),
        ((gate[0], "--first-at", "noon"), "a start is a date"),
        ((gate[0], "--first-at", ""), "a start is a date"),
        ((gate[0], "--first-at", "2026-03-01 10:00", "--at", ""), "one of them"),
    ):
        refused = run("clock", *words)
        assert refused.status == 2 and told in refused.err
    assert run("clock", *gate, "--json").json == moved


def test_times_of_a_clock_put_right_and_of_one_that_was_not_have_no_distances(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """A camera goes on with its wrong clock: with its next video, all that was right went seven years on."""
    gate = [tmp_path / f"gate/2019010{day}-000300.mp4" for day in (1, 2, 3)]
    for day, path in enumerate(gate):
        write_film(path, [Thing("red", 0, 10)], frames=12 + day)
    run("index", *gate[:2], "--model", "color-bands", "--time-from", "name", "--timezone", "UTC")
    assert run("clock", *gate[:2], "--first-at", "2026-03-01 10:00").status == 0
    run("index", gate[2])
    before = run("clock", "--json").json
    assert [row["start_clock"][:10] for row in before] == ["2026-03-01", "2026-03-02", "2019-01-03"]
    refused = run("clock", *gate, "--first-at", "2026-03-01 10:00")
    assert (
        refused.status == 2
        and "those of 20190101-000300.mp4, 20190102-000300.mp4 were set by hand" in refused.err
    )
    assert run("clock", "--json").json == before
    assert run("clock", gate[2], "--first-at", "2026-03-03 10:00").status == 0
    assert run("clock", *gate, "--first-at", "2026-03-01 09:00").err.startswith("put back by 1:00:00")
    assert [row["start_clock"][8:13] for row in run("clock", "--json").json] == ["01 09", "02 09", "03 09"]


def test_no_time_without_a_date_comes_into_a_library(run: Callable[..., Ran], tmp_path: Path) -> None:
    """With one of the year 10,000 no command worked on the library any more."""
    for name in ("99991231-235959", "a", "b"):
        write_film(tmp_path / f"gate/{name}.mp4", [Thing("red", 0, 10)], frames=12 + len(name))
    rule = ("--time-from", "%Y%m%d-%H%M%S", "--timezone", "America/New_York")
    assert "3 videos have no wall-clock time" in run("index", "gate", "--model", "color-bands", *rule).err
    assert run("clock", "gate/a.mp4", "--at", "2020-01-01 00:00", "--timezone", "UTC").status == 0
    assert run("clock", "gate/b.mp4", "--at", "2025-01-01 00:00", "--timezone", "UTC").status == 0
    for words, told in (
        (("gate/a.mp4", "--at", "9999-12-31 23:59:59", "--timezone", "America/New_York"), "years 2 to 9997"),
        (("gate/a.mp4", "--at", "0001-01-01 00:00", "--timezone", "Europe/Berlin"), "years 2 to 9997"),
        (
            ("gate/a.mp4", "gate/b.mp4", "--first-at", "9995-01-01 00:00"),
            "would be later than any date: b.mp4",
        ),
    ):
        refused = run("clock", *words)
        assert refused.status == 2 and told in refused.err
    shown = [row["start_clock"] for row in run("clock", "--json").json]
    assert shown == [None, "2020-01-01 00:00:00.000", "2025-01-01 00:00:00.000"]


def test_times_set_by_hand_follow_files_that_took_each_others_names(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """Those of the second were lost, and its content failed."""
    folder = tmp_path / "v" / "gate"
    for number in (1, 2, 3):
        write_film(folder / f"{number}.mp4", [Thing("red", 0, 10)], frames=10 * number + 2)
    run("index", "v", "--model", "color-bands")
    for number in (1, 2, 3):
        run("clock", f"gate/{number}.mp4", "--at", f"2026-03-01 1{number}:00", "--timezone", "UTC")

    def told() -> list[tuple[str, int, str]]:
        shown = run("query", "SELECT video, frames, start_clock FROM videos ORDER BY video", "--json").json
        return [(row["video"][5:6], row["frames"], row["start_clock"][11:13]) for row in shown]

    assert told() == [("1", 12, "11"), ("2", 22, "12"), ("3", 32, "13")]
    (folder / "1.mp4").rename(tmp_path / "1")
    (folder / "2.mp4").rename(folder / "1.mp4")
    (tmp_path / "1").rename(folder / "2.mp4")
    done = run("index", "v")
    assert done.status == 0 and "0 indexed, 3 skipped, 0 failed" in done.err
    assert told() == [("1", 22, "12"), ("2", 12, "11"), ("3", 32, "13")]
    (folder / "2.mp4").rename(folder / "3.mp4")
    done = run("index", "v")
    assert "0 indexed, 2 skipped, 0 failed" in done.err and "missing" not in done.err
    assert told() == [("1", 22, "12"), ("3", 12, "11")]


def test_what_is_not_named_of_a_rule_stays_as_it_was(run: Callable[..., Ran], tmp_path: Path) -> None:
    write_film(tmp_path / "archive" / "x_20260301-1015.mp4", [Thing("red", 0, 10)], frames=12)
    run("index", "archive", "--model", "color-bands", "--time-from", "name", "--timezone", "Asia/Tokyo")
    run("index", "archive", "--camera-from", "{camera}_*")
    (row,) = run("clock", "--json").json
    assert (row["camera"], row["time_zone"], row["start_clock"]) == (
        "x",
        "Asia/Tokyo",
        "2026-03-01 10:15:00.000",
    )
    run("clock", "--time-from", "metadata")
    assert run("clock", "--json").json[0]["start_clock"] is None


@pytest.mark.parametrize(
    ("pictures", "last", "told"),
    [
        (3, "2026:03:01 10:15:02", ""),  # a burst at one a second
        (3, "2026:03:01 10:15:10", ""),
        (3, "2026:03:01 10:15:11", ""),
        (2, "2026:03:01 10:14:59", "make a folder for each round of the counter: trap\n"),
        (2, "2026:02:28 10:15:00", "make a folder for each round of the counter: trap\n"),
    ],
)
def test_names_that_are_not_in_the_order_of_time_are_told(
    pictures: int, last: str, told: str, run: Callable[..., Ran], tmp_path: Path
) -> None:
    """IMG_0001 behind IMG_9999 came first without a word."""
    for number in range(pictures - 1):
        write_taken(tmp_path / "trap" / f"IMG_{number}.png", "2026:03:01 10:15:00")
    write_taken(tmp_path / "trap" / "IMG_9999.png", last)
    rule = ("--time-from", "metadata", "--timezone", "UTC")
    said = run("index", "trap", "--model", "color-bands", *rule).err
    again = run("clock", "--time-from", "metadata", "--timezone", "UTC").err
    for text in (said, again):
        assert (told in text and "in 1 folder of" in text) or (not told and "in 1 folder of" not in text)


def test_folders_whose_pictures_lie_farther_apart_than_in_the_video_have_their_own_clock(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """Of a camera trap only the first picture had the time that EXIF tells."""
    for folder, last in (("burst", "2026:03:01 10:15:01"), ("trap", "2026:03:04 02:30:00")):
        write_taken(tmp_path / "v" / folder / "IMG_1.png", "2026:03:01 10:15:00")
        write_taken(tmp_path / "v" / folder / "IMG_2.png", last)
    rule = ("--time-from", "metadata", "--timezone", "Europe/Berlin")
    assert "in 1 folder" not in run("index", "v", "--model", "color-bands", *rule).err
    shown = [(row["video"], row["start_clock"]) for row in run("clock", "--json").json]
    assert shown == [("burst", "2026-03-01 10:15:00.000"), ("trap", "2026-03-01 10:15:00.000")]
    run("clock", "trap", "--at", "2026-03-01 11:15", "--timezone", "Europe/Berlin")
    run("clock", *rule)  # by hand it holds
    assert run("clock", "trap", "--json").json[0]["start_clock"] == "2026-03-01 11:15:00.000"
    rows = run("query", "SELECT frames, clock WHERE video = 'trap'", "--format", "json").json
    assert [row["clock"][:19] for row in rows] == ["2026-03-01T11:15:00", "2026-03-04T03:30:00"]
