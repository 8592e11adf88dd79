"""Pictures of a folder have times of their own: of EXIF, of their names, and put right by hand."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, scene, write_album, write_film, write_picture

import panorama
from panorama.cameras import picture_times
from panorama.errors import LibraryDamaged
from panorama.shown.hit_facts import HitFacts
from panorama.shown.hits import hits_of

BERLIN = ("--time-from", "metadata", "--timezone", "Europe/Berlin")
TAKEN = (
    ("red", "2026:03:01 10:00:00"),
    ("red", "2026:03:01 10:00:01"),
    ("blue", "2026:03:01 10:00:21"),
    ("red", "2026:03:02 10:02:00"),
    ("red", None),
    ("blue", "2026:03:29 12:00:00"),  # clocks were put forward that night
)
Row = Mapping[str, Any]


def trap(folder: Path, taken: Sequence[tuple[str, str | None]] = TAKEN, first: int = 1) -> Path:
    """Pictures of a camera trap, each with a thing of a colour."""
    for number, (color, original) in enumerate(taken, start=first):
        shown = scene(0, [Thing(color, 0, 1)])
        write_taken(folder / f"IMG_{number:04d}.png", original, picture=shown)
    return folder


@pytest.fixture
def trapped(run: Callable[..., Ran], tmp_path: Path) -> Callable[..., list[Row]]:
    """A library of a camera trap and a film of 10 o'clock; asks a question of it."""
    trap(tmp_path / "v" / "trap")
    write_film(tmp_path / "v" / "film.mp4", [Thing("red", 5, 35)])
    told = run("index", "v", "--model", "color-bands", *BERLIN)
    assert "in 1 folder of pictures some have no time of their own; their clock is unknown: trap" in told.err
    run("clock", "film.mp4", "--at", "2026-03-01 10:00:00", "--timezone", "Europe/Berlin")
    run("register", "--album", write_album(tmp_path / "album", "red", "blue"))

    def ask(sql: str) -> list[Row]:
        done = run("query", sql, "--format", "json")
        assert done.status == 0, done.err
        rows: list[Row] = done.json
        return rows

    return ask


def clocks(rows: Sequence[Row], *columns: str) -> list[Any]:
    """The clocks of rows of the trap, without their date's year and month: '01 10:00:00'."""
    names = columns or ("clock",)
    shown = [
        tuple(row[name] and str(row[name])[8:19].replace("T", " ") for name in names)
        for row in rows
        if row.get("video", "trap") == "trap"
    ]
    return [one[0] if len(one) == 1 else one for one in shown]


def test_every_picture_has_the_time_that_it_was_taken(trapped: Callable[..., list[Row]]) -> None:
    """The clock ran on from the first picture at five a second, over pictures of eight days."""
    rows = trapped("SELECT frames, clock WHERE entity = 'red'")
    assert clocks(rows) == ["01 10:00:00", "01 10:00:01", "02 10:02:00", None]
    film = [row for row in rows if row["video"] == "film.mp4"]
    assert {str(row["clock"])[:16].replace("T", " ") for row in film} == {"2026-03-01 10:00"}
    rows = trapped("SELECT frames, clock WHERE entity = 'red' AND time BETWEEN '10:01' AND '10:05'")
    assert clocks(rows) == ["02 10:02:00"]
    rows = trapped("SELECT frames, clock WHERE entity = 'blue' AND time >= '2026-03-02'")
    assert clocks(rows) == ["29 12:00:00"]
    assert clocks(trapped("SELECT frames, clock WHERE NOT entity = 'red' AND time > '11:00'")) == [
        "29 12:00:00"
    ]
    assert clocks(trapped("SELECT crops, clock WHERE entity = 'blue' AND time < '11:00'")) == ["01 10:00:21"]


@pytest.mark.parametrize("relation", ["frames", "detections"])
def test_relations_show_the_times_of_pictures(relation: str, trapped: Callable[..., list[Row]]) -> None:
    rows = trapped(f"SELECT frame, clock FROM {relation} WHERE video = 'trap' ORDER BY frame")
    assert clocks(rows) == ["01 10:00:00", "01 10:00:01", "01 10:00:21", "02 10:02:00", None, "29 12:00:00"]
    hours = trapped(
        f"SELECT hour(clock) AS at, count(*) AS n FROM {relation} WHERE video = 'trap'"
        " AND clock IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )
    assert [(row["at"], row["n"]) for row in hours] == [(10, 4), (12, 1)]


def test_crops_have_the_times_of_their_pictures(trapped: Callable[..., list[Row]]) -> None:
    rows = trapped("SELECT frame, clock FROM crops WHERE video = 'trap' AND frame <> 1 ORDER BY frame")
    told = dict(zip((row["frame"] for row in rows), clocks(rows), strict=True))
    assert told.pop(5) == "29 12:00:00" and told.pop(2) == "01 10:00:21"
    assert set(told.items()) <= {(0, "01 10:00:00"), (3, "02 10:02:00"), (4, None)}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT moments, start_clock, end_clock WHERE entity = 'red'",
        "SELECT tracks, start_clock, end_clock WHERE entity = 'red'",
        "SELECT video, start_clock, end_clock FROM moments WHERE entity = 'red' ORDER BY ALL",
        "SELECT video, start_clock, end_clock FROM sightings WHERE entity = 'red' ORDER BY ALL",
        "SELECT t.video, t.start_clock, t.end_clock FROM tracks t JOIN sightings s USING (track_id)"
        " WHERE entity = 'red' ORDER BY ALL",
    ],
)
def test_a_moment_lasts_as_long_as_its_alarm(sql: str, trapped: Callable[..., list[Row]]) -> None:
    """What was seen in pictures of two alarms in a row was one moment, over days."""
    shown = clocks(trapped(sql), "start_clock", "end_clock")
    assert ("01 10:00:00", "01 10:00:01") in shown
    # The picture after it has no time, and belongs to its alarm.
    assert [one for one in shown if one != ("01 10:00:00", "01 10:00:01") and one[0]] == [
        ("02 10:02:00", "02 10:02:00")
    ]


def test_a_clip_shows_no_picture_of_another_alarm(
    trapped: Callable[..., list[Row]], run: Callable[..., Ran], tmp_path: Path
) -> None:
    """Alarms of two days were one clip, as they lie less than two seconds apart in the video."""
    moments = "SELECT moments WHERE video = 'trap' AND entity IN ('red', 'blue')"
    assert "4 clips written" in run("query", moments, "--clips", "clips").err
    shown = {}
    for path in (tmp_path / "clips").iterdir():
        with panorama.video.open_video(path) as reader:
            shown[path.stem] = len(list(reader.frames()))
    assert shown == {
        "trap-red-000000.00": 3,
        "trap-red-000000.60": 2,  # the picture without a time may belong to it
        "trap-blue-000000.00": 3,
        "trap-blue-000001.00": 1,
    }


def test_what_followed_is_told_by_the_clock(trapped: Callable[..., list[Row]]) -> None:
    """Two pictures in a row were a fifth of a second apart, though they were taken on two days."""
    rows = trapped(
        "SELECT moments WHERE entity = 'red' FOLLOWED BY entity = 'blue' WITHIN INTERVAL 30 SECONDS"
    )
    assert [(row["entity"], row["frame"] // 2) for row in rows] == [("red", 0), ("blue", 1)]
    rows = trapped("SELECT moments WHERE entity = 'blue' BEFORE entity = 'red' WITHIN INTERVAL 2 DAYS")
    assert [(row["entity"], row["frame"]) for row in rows] == [("blue", 2), ("red", 3)]
    assert not trapped("SELECT moments WHERE entity = 'blue' BEFORE entity = 'red' WITHIN INTERVAL 1 HOUR")


def test_utc_is_right_on_both_sides_of_the_night_when_clocks_change(
    trapped: Callable[..., list[Row]],
) -> None:
    rows = trapped(
        "SELECT start_clock, start_utc, end_utc FROM moments WHERE entity = 'blue' AND video = 'trap'"
        " ORDER BY start_utc"
    )
    assert clocks(rows, "start_clock", "start_utc", "end_utc") == [
        ("01 10:00:21", "01 09:00:21", "01 09:00:21"),
        ("29 12:00:00", "29 10:00:00", "29 10:00:00"),
    ]


def test_a_question_about_time_says_which_pictures_have_none(
    trapped: Callable[..., list[Row]], run: Callable[..., Ran]
) -> None:
    told = run("query", "SELECT frames WHERE entity = 'red' AND time > '09:00'").err
    assert "1 picture has no wall-clock time among others" in told
    told = run("query", "SELECT frames WHERE entity = 'red' AND video = 'film.mp4' AND time > '09:00'").err
    assert "no wall-clock time" not in told
    assert "no wall-clock time" not in run("query", "SELECT frames WHERE entity = 'red'").err
    (row,) = trapped("SELECT picture FROM frames WHERE clock IS NULL")
    assert row["picture"] == "IMG_0005.png"


def test_pictures_whose_names_are_not_in_the_order_of_time(run: Callable[..., Ran], tmp_path: Path) -> None:
    """A counter that began again: what came first is told by the clock, and `index` says so."""
    trap(tmp_path / "trap", [("red", "2026:03:02 10:00:00"), ("blue", "2026:03:01 10:00:00")])
    told = run("index", "trap", "--model", "color-bands", *BERLIN).err
    assert "make a folder for each round of the counter: trap" in told
    run("register", "--album", write_album(tmp_path / "album", "red", "blue"))
    sql = "SELECT moments, start_clock WHERE entity = '{}' FOLLOWED BY entity = '{}'"
    assert run("query", sql.format("red", "blue"), "--format", "json").json == []
    rows = run("query", sql.format("blue", "red"), "--format", "json").json
    assert sorted(clocks(rows, "start_clock")) == ["01 10:00:00", "02 10:00:00"]
    rows = run("query", "SELECT frames, clock WHERE time < '2026-03-02'", "--format", "json").json
    assert clocks(rows) == ["01 10:00:00"], "the first picture is of another day"


@pytest.mark.parametrize(
    ("rule", "camera"),
    [("name", "v"), ("{camera}/RCNX_%Y%m%d-%H%M%S", "north")],
)
def test_names_of_pictures_tell_when_they_were_taken(
    rule: str, camera: str, run: Callable[..., Ran], tmp_path: Path
) -> None:
    for stamp, color in (("20260301-100000", "red"), ("20260302-100200", "blue")):
        write_picture(tmp_path / "v" / "north" / f"RCNX_{stamp}.png", scene(0, [Thing(color, 0, 1)]))
    told = run("index", "v/north", "--model", "color-bands", "--time-from", rule, "--timezone", "UTC")
    assert told.status == 0 and "wall-clock time of 1 video from" in told.err
    rows = run("query", "SELECT frames, clock, camera ORDER BY frame", "--format", "json").json
    assert [str(row["clock"])[8:19].replace("T", " ") for row in rows] == ["01 10:00:00", "02 10:02:00"]
    assert {row["camera"] for row in rows} == {camera}


def test_a_clock_that_was_wrong_is_put_right_for_all_pictures(
    trapped: Callable[..., list[Row]], run: Callable[..., Ran], tmp_path: Path
) -> None:
    asked = (
        "SELECT DISTINCT frame, clock FROM (SELECT frames, clock WHERE entity = 'red' AND video = 'trap')"
        " ORDER BY frame"
    )
    run("clock", "trap", "--first-at", "2026-03-05 10:00:00", "--timezone", "Europe/Berlin")
    assert clocks(trapped(asked)) == ["05 10:00:00", "05 10:00:01", "06 10:02:00", None]
    run("clock", "trap", "--at", "2026-03-06 11:00:00", "--timezone", "Europe/Berlin")
    assert clocks(trapped(asked)) == ["06 11:00:00", "06 11:00:01", "07 11:02:00", None]
    trap(tmp_path / "v" / "trap", [("red", "2026:03:30 12:00:00")], first=7)  # the camera goes on
    run("index", "v")
    assert clocks(trapped(asked)) == ["06 11:00:00", "06 11:00:01", "07 11:02:00", None, "04 13:00:00"]


def test_a_start_by_hand_takes_the_times_between_from_the_pictures(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    run("index", trap(tmp_path / "trap"), "--model", "color-bands")
    asked = ("query", "SELECT frames, clock ORDER BY frame LIMIT 4", "--format", "json")
    assert clocks(run(*asked).json) == [None] * 4
    run("clock", "trap", "--at", "2026-04-01 00:00:00", "--timezone", "UTC")
    assert clocks(run(*asked).json) == ["01 00:00:00", "01 00:00:01", "01 00:00:21", "02 00:02:00"]
    run("clock", "trap", "--at", "")
    assert clocks(run(*asked).json) == [None] * 4


def test_pictures_beyond_the_last_date_have_no_clock(run: Callable[..., Ran], tmp_path: Path) -> None:
    run("index", trap(tmp_path / "trap"), "--model", "color-bands")
    run("clock", "trap", "--at", "9997-12-31 23:59:59", "--timezone", "UTC")
    rows = run("query", "SELECT frames, clock ORDER BY frame", "--format", "json")
    assert rows.status == 0, rows.err
    assert clocks(rows.json) == ["31 23:59:59", *[None] * 5]
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET picture_offsets = randomblob(48)")
        catalog.execute("UPDATE counters SET value = value + 1 WHERE name = 'data'")
    assert run("query", "SELECT frames, clock").status == 0


def test_pictures_that_were_moved_away_keep_their_times(run: Callable[..., Ran], tmp_path: Path) -> None:
    run("index", trap(tmp_path / "trap"), "--model", "color-bands", *BERLIN)
    (tmp_path / "trap" / "IMG_0002.png").rename(tmp_path / "found.png")
    run("clock", "--time-from", "metadata", "--timezone", "UTC")
    rows = run("query", "SELECT frames, clock ORDER BY frame", "--format", "json").json
    # Those that are there are read again, by a clock of UTC; of the other the moment stays.
    assert clocks(rows)[:3] == ["01 10:00:00", "01 09:00:01", "01 10:00:21"]


def test_a_picture_that_cannot_be_read_shifts_no_time(run: Callable[..., Ran], tmp_path: Path) -> None:
    folder = trap(tmp_path / "trap", [("red", f"2026:03:01 10:00:{second:02d}") for second in range(4)])
    for number in (1, 3):
        (folder / f"IMG_{number:04d}.png").write_bytes(b"cannot be read")
    run("index", folder, "--model", "color-bands", *BERLIN)
    rows = run("query", "SELECT frames, clock ORDER BY frame", "--format", "json").json
    assert clocks(rows) == ["01 10:00:01", "01 10:00:03"]


def test_a_library_of_before_learns_the_times_without_being_indexed_again(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    run("index", trap(tmp_path / "trap"), "--model", "color-bands", *BERLIN)
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        for column in ("picture_offsets", "own_time_from", "own_time_zone", "own_camera_from"):
            catalog.execute(f"ALTER TABLE videos DROP COLUMN {column}")
        catalog.execute("UPDATE meta SET value = '13' WHERE key = 'schema_version'")
    asked = ("query", "SELECT frames, clock ORDER BY frame LIMIT 4", "--format", "json")
    assert clocks(run(*asked).json) == ["01 10:00:00"] * 4, "as before"
    told = run("index", "trap").err
    assert "0 indexed, 1 skipped" in told
    assert clocks(run(*asked).json) == ["01 10:00:00", "01 10:00:01", "01 10:00:21", "02 10:02:00"]


def test_names_are_read_from_merged_files_too(run: Callable[..., Ran], tmp_path: Path) -> None:
    trap(tmp_path / "v" / "north")
    trap(tmp_path / "v" / "south", [("blue", "2026:05:01 10:00:00"), ("red", "2026:05:02 10:00:00")])
    run("index", "v", "--model", "color-bands")
    run("compact")
    assert run("clock", *BERLIN).status == 0
    rows = run("query", "SELECT frames, clock WHERE video = 'south' ORDER BY frame", "--format", "json").json
    assert [row["clock"][:10] for row in rows] == ["2026-05-01", "2026-05-02"]
    run("remove", "north")
    rows = run("query", "SELECT frames, clock, picture ORDER BY frame", "--format", "json").json
    assert [(row["clock"][:10], row["picture"]) for row in rows] == [
        ("2026-05-01", "IMG_0001.png"),
        ("2026-05-02", "IMG_0002.png"),
    ]


def test_exif_is_read_once(run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `index` read the head of every picture of a folder that had not changed."""
    from panorama.cameras import picture_times

    read: list[Path] = []
    real = picture_times.picture_taken
    monkeypatch.setattr(
        picture_times, "picture_taken", lambda path, zone: read.append(path) or real(path, zone)
    )
    trap(tmp_path / "v" / "bare", [("red", None), ("blue", None)])
    trap(tmp_path / "v" / "trap")
    run("index", "v", "--model", "color-bands", *BERLIN)
    assert len(read) == len(TAKEN) + 2
    run("index", "v", "--model", "color-bands", *BERLIN)
    assert len(read) == len(TAKEN) + 2


def test_a_damaged_time_names_its_video(tmp_path: Path, run: Callable[..., Ran]) -> None:
    run("index", trap(tmp_path / "trap"), "--model", "color-bands", *BERLIN)
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET picture_offsets = 'later'")
        catalog.execute("UPDATE counters SET value = value + 1 WHERE name = 'data'")
    with (
        panorama.open(tmp_path / "panorama-library") as library,
        pytest.raises(LibraryDamaged, match=r"videos\.picture_offsets of the video 'trap' holds 'later'"),
    ):
        library.videos()


def test_the_days_of_a_trap_are_those_of_its_pictures(run: Callable[..., Ran], tmp_path: Path) -> None:
    """A scene lasts a day; a folder of eight days ended on the day when it began."""
    from panorama.store.scenes.ends import Ends

    run("index", trap(tmp_path / "trap"), "--model", "color-bands", *BERLIN)
    with panorama.open(tmp_path / "panorama-library") as library:
        ends = Ends.of(library.snapshot())
    assert (ends.days, ends.last_days) == (["2026-03-01"], ["2026-03-29"])
    first, last = datetime(2026, 3, 1, 10), datetime(2026, 3, 29, 12)
    assert ends.durations.tolist() == [(last - first).total_seconds()]


def test_pictures_are_named_where_one_looks(
    trapped: Callable[..., list[Row]], run: Callable[..., Ran], tmp_path: Path
) -> None:
    """Rows, captions and explanations gave seconds of a video that nobody sees, instead of a file's name."""
    rows = trapped("SELECT frames, picture WHERE entity = 'red' AND video = 'trap'")
    assert [row["picture"] for row in rows] == [f"IMG_000{number}.png" for number in (1, 2, 4, 5)]
    rows = trapped("SELECT frames, picture, clock WHERE picture = 'IMG_0004.png'")
    assert [(row["frame"], row["picture"]) for row in rows] == [(3, "IMG_0004.png")]
    rows = trapped("SELECT crops, picture WHERE entity = 'blue' ORDER BY picture")
    assert [row["picture"] for row in rows] == ["IMG_0003.png", "IMG_0006.png"]
    assert {row["picture"] for row in trapped("SELECT frames, picture WHERE video = 'film.mp4'")} == {None}
    sql = "SELECT moments WHERE entity = 'red'"
    told = run("query", sql, "--page", "page.html", "--sheet", "sheet.png")
    assert told.status == 0, told.err
    page = (tmp_path / "page.html").read_text("utf-8")
    assert '<p class="when">IMG_0001.png - IMG_0002.png</p>' in page
    assert '<p class="when clock">2026-03-01 10:00:00 - 10:00:01</p>' in page
    assert "2026-03-02 10:02:00</p>" in page


def test_the_facts_of_hits_are_those_of_their_pictures(trapped: Callable[..., list[Row]]) -> None:
    with panorama.open("panorama-library") as library:
        answer = library.query("SELECT moments WHERE entity = 'red'")
        hits = hits_of(answer.columns, answer.arrow().to_pylist())
        facts = HitFacts.of(library, hits)
    shown = [(facts.place(hit), facts.clock([hit])) for hit in hits if hit.video == "trap"]
    assert shown == [
        ("IMG_0001.png - IMG_0002.png", "2026-03-01 10:00:00 - 10:00:01"),
        ("IMG_0004.png - IMG_0005.png", "2026-03-02 10:02:00"),
    ]
    film = next(hit for hit in hits if hit.video == "film.mp4")
    assert facts.place(film).startswith("0:00.") and facts.clock([film]).startswith("2026-03-01 10:00:00 - ")


@pytest.mark.parametrize("folder", ["v/trap", "trap"])
def test_a_picture_is_named_by_its_path(
    folder: str, trapped: Callable[..., list[Row]], run: Callable[..., Ran]
) -> None:
    told = run("why", "blue", f"{folder}/IMG_0003.png")
    assert told.status == 0, told.err
    assert "trap  IMG_0003.png  track" in told.out and ", frame 2, IMG_0003.png" in told.out
    assert run("why", "blue", f"{folder}/IMG_0003.png", "--json").json["picture"] == "IMG_0003.png"
    vague = run("why", "blue", "trap")
    assert vague.status == 2 and "the path of a picture" in vague.err
    absent = run("why", "blue", f"{folder}/IMG_0099.png")
    assert absent.status == 2 and "no picture 'IMG_0099.png' was indexed in trap" in absent.err


@pytest.mark.parametrize(
    "place",
    [("v/trap/IMG_0003.png",), ("trap/IMG_0003.png",), ("trap", "--frame", 2), ("v/trap", "--at", 0.4)],
)
def test_an_example_is_cut_out_of_a_picture(
    place: tuple[object, ...], trapped: Callable[..., list[Row]], run: Callable[..., Ran]
) -> None:
    told = run("register", "sky", "--video", *place, "--box", "10,40,42,72")
    assert told.status == 0, told.err
    rows = trapped("SELECT frames, picture WHERE entity = 'sky'")
    assert "IMG_0003.png" in {row["picture"] for row in rows}, "its own track counts as accepted"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trap",), "takes a time or a frame"),
        (("trap", "--frame", 9), "trap has no frame 9"),
        (("trap", "--frame", 1, "--at", 2), "either a time or a frame"),
        (("nowhere", "--frame", 1), "no video 'nowhere'"),
        (("trap/IMG_0099.png",), "no picture 'IMG_0099.png' was indexed in trap"),
    ],
)
def test_a_place_that_is_none_is_refused(
    words: tuple[object, ...], message: str, trapped: Callable[..., list[Row]], run: Callable[..., Ran]
) -> None:
    told = run("register", "sky", "--video", *words, "--box", "10,40,42,72")
    assert told.status in (1, 2) and message in told.err


def test_a_library_that_is_open_learns_the_times(run: Callable[..., Ran], tmp_path: Path) -> None:
    run("index", trap(tmp_path / "trap"), "--model", "color-bands")
    with panorama.open(tmp_path / "panorama-library") as library:

        def days() -> list[int | None]:
            rows = library.query("SELECT frames, clock ORDER BY frame").fetchall()
            return [row.clock and row.clock.day for row in rows]

        assert days() == [None] * 6
        library.date(recording=panorama.RecordingRule("metadata", "UTC"))
        assert days() == [1, 1, 1, 2, None, 29]
        library.date(["trap"], first_start="2026-03-02 10:00:00")
        assert days() == [2, 2, 2, 3, None, 30]
        library.date(["trap"], start="")
        assert days() == [None] * 6


@pytest.mark.parametrize("why", ["away", "drive"])
def test_pictures_that_cannot_be_read_now_are_read_later(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """They were taken for pictures without EXIF, for good, and a start that was known was erased."""
    folder = trap(tmp_path / "trap")
    run("index", folder, "--model", "color-bands", *BERLIN)
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET picture_offsets = NULL")  # as in a library of before
        catalog.execute("UPDATE counters SET value = value + 1 WHERE name = 'data'")
    asked = ("query", "SELECT frames, clock ORDER BY frame LIMIT 3", "--format", "json")
    names = sorted(path.name for path in folder.iterdir())
    with monkeypatch.context() as patched:
        if why == "away":
            write_picture(folder / "another.png", scene(0, []))
            for name in names:
                (folder / name).rename(tmp_path / name)
        else:
            patched.setattr(picture_times, "picture_taken", fails)
        told = run("clock", *BERLIN).err
    assert "keeps the wall-clock time already known" in told
    assert clocks(run(*asked).json) == ["01 10:00:00"] * 3
    for name in names if why == "away" else ():
        (tmp_path / name).rename(folder / name)
    run("clock", *BERLIN)
    assert clocks(run(*asked).json) == ["01 10:00:00", "01 10:00:01", "01 10:00:21"]


def fails(*_: Any) -> None:
    raise OSError(errno.EIO, "the drive does not answer")


def test_times_of_names_are_not_taken_for_those_of_exif(run: Callable[..., Ran], tmp_path: Path) -> None:
    """Of a picture that was gone, the time of the rule of before stood among the others."""
    for second in range(3):
        write_taken(tmp_path / "trap" / f"20250505-08000{second}.png", f"2026:03:01 10:00:0{second}")
    run("index", "trap", "--model", "color-bands", "--time-from", "name", "--timezone", "UTC")
    (tmp_path / "trap" / "20250505-080001.png").unlink()
    run("clock", "--time-from", "metadata")
    rows = run("query", "SELECT frames, clock ORDER BY frame", "--format", "json").json
    assert clocks(rows) == ["01 10:00:00", None, "01 10:00:02"]


def test_only_pictures_that_are_there_are_counted_as_undated(run: Callable[..., Ran], tmp_path: Path) -> None:
    folder = trap(
        tmp_path / "trap",
        [("red", "2026:03:01 10:00:00"), ("red", None), ("red", None), ("red", "2026:03:01 10:00:09")],
    )
    (folder / "IMG_0003.png").write_bytes(b"cannot be read")
    run("index", folder, "--model", "color-bands", *BERLIN)
    told = run("query", "SELECT frames, clock WHERE time > '09:00'").err
    assert "1 picture has no wall-clock time" in told, told
