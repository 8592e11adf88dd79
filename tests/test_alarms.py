"""Moments of a folder of pictures lie within its alarms, whatever tells when the pictures were taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, scene, write_album, write_picture

import panorama
from panorama.frames import alarm_seconds
from panorama.indexing.settings import IngestSettings


def test_nothing_is_known_of_the_time_between_two_alarms(run: Callable[..., Ran], tmp_path: Path) -> None:
    """What stood in the last picture of one alarm and the first of the next was there in the hour between."""
    for number in range(12):
        hour, minute = (22, 58) if number < 6 else (0, 0)
        name = f"RCNX_2026030{1 + (number > 5)}-{hour:02d}{minute:02d}{5 * (number % 6):02d}.png"
        write_picture(tmp_path / "trap" / name, scene(number, [Thing("red", 0, 12)]))
    run("index", "trap", "--model", "color-bands", "--time-from", "RCNX_%Y%m%d-%H%M%S")
    run("register", "--album", write_album(tmp_path / "album", "red", "blue"))

    def asked(sql: str) -> list[tuple[str, str]]:
        rows = run("query", sql, "--json").json
        return [(str(row["start_clock"])[11:19], str(row["end_clock"])[11:19]) for row in rows]

    assert len(run("query", "SELECT tracks", "--json").json) == 1
    both = [("22:58:00", "22:58:25"), ("00:00:00", "00:00:25")]
    for looked_for in ("entity = 'red'", "NOT entity = 'blue'", "entity = 'red' AND NOT entity = 'blue'"):
        moments = f"SELECT moments, start_clock, end_clock WHERE {looked_for}"
        assert asked(moments) == both, looked_for
        assert asked(f"{moments} LIMIT 1") == both[:1], looked_for
        assert asked(f"{moments} AND time BETWEEN '23:20' AND '23:40'") == [], looked_for
    assert asked("SELECT start_clock, end_clock FROM moments ORDER BY start_time") == both
    run("query", "SELECT moments WHERE entity = 'red'", "--clips", "clips")
    assert len(list((tmp_path / "clips").iterdir())) == 2


@pytest.mark.parametrize(
    ("pictures", "every", "seen"),
    [
        (3, 5, [(0, 3), (5, 6), (10, 12)]),
        (2, 6, [(0, 2), (6, 8)]),
        (8, 6, [(0, 8)]),
        (6, 6, [(0, 6), (6, 12)]),
    ],
)
def test_what_some_pictures_show_is_in_no_other_alarm_however_few_are_looked_at(
    pictures: int, every: int, seen: list[tuple[int, int]], tmp_path: Path, fake_proposer: None
) -> None:
    """Of the alarms between two looks only the last one ended a track, and behind the last look none did."""
    for number in range(12):
        taken = f"2026:03:01 {10 + number // pictures}:00:{number:02d}"
        shown = scene(number, [Thing("red", 0, 12)])
        write_taken(tmp_path / "trap" / f"IMG_{number:04d}.png", taken, picture=shown)
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(tmp_path / "trap", settings=IngestSettings(every=every), model="color-bands")
        tracks = library.query("SELECT start_time * 5, end_time * 5 FROM tracks ORDER BY 1").fetchall()
        assert [(round(row[0]), round(row[1])) for row in tracks] == seen
        assert (library.snapshot().cuts & 0xFFFFFFFF).tolist() == list(range(pictures, 12, pictures))


@pytest.mark.parametrize("first", [3, 6, 7])
def test_what_is_in_every_picture_is_absent_at_no_time(
    first: int, run: Callable[..., Ran], tmp_path: Path
) -> None:
    """A cut at n / 5 is not the end of a track at n * 0.2: a moment without it lay between."""
    for number in range(12):
        taken = f"2026:03:01 10:{30 * (number >= first):02d}:{number:02d}"
        shown = scene(number, [Thing("red", 0, 12)])
        write_taken(tmp_path / "trap" / f"IMG_{number:04d}.png", taken, picture=shown)
    run("index", "trap", "--model", "color-bands", "--time-from", "metadata", "--timezone", "Europe/Berlin")
    run("register", "--album", write_album(tmp_path / "album", "red"))
    assert len(run("query", "SELECT moments WHERE entity = 'red'", "--json").json) == 2
    assert run("query", "SELECT moments WHERE NOT entity = 'red'", "--json").json == []


def test_clips_tell_alarms_apart_in_the_night_when_clocks_are_put_back(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """By the clock, two alarms an hour apart were one, and one that went on when it was put back was two."""
    begun = {"two": (600, 4230), "one": (3570, 3600)}  # UTC; the clock is put back at 3600
    for folder, seconds in begun.items():
        for number in range(12):
            taken = datetime(2026, 10, 25) + timedelta(seconds=seconds[number // 6] + 5 * (number % 6))
            shown = scene(number, [Thing("red", 0, 12)])
            write_picture(tmp_path / folder / f"T_{taken:%Y%m%d-%H%M%S}.png", shown)
    stamps = ("--time-from", "T_{utc:%Y%m%d-%H%M%S}", "--timezone", "Europe/Berlin")
    run("index", *begun, "--model", "color-bands", *stamps)
    run("register", "--album", write_album(tmp_path / "album", "red"))
    run("query", "SELECT frames WHERE entity = 'red'", "--clips", "clips")
    clips = sorted(path.stem for path in (tmp_path / "clips").iterdir())
    assert clips == ["one-red-000000.00", "two-red-000000.00", "two-red-000001.20"]


@pytest.mark.parametrize(("step", "jitter"), [(60, 1), (61, 0), (300, 4)])
def test_a_timelapse_is_one_alarm_but_for_its_pauses(
    step: int, jitter: int, run: Callable[..., Ran], tmp_path: Path
) -> None:
    """Steps of 60 and 61 s made each picture of a timelapse an alarm, and each thing in it a new track."""
    start, night = datetime(2026, 3, 1, 6), 12
    for number in range(24):
        late = timedelta(hours=10 * (number >= night), seconds=step * number + jitter * (number % 2))
        shown = scene(number, [Thing("red", 0, 24)])
        write_taken(
            tmp_path / "lapse" / f"T_{number:04d}.png", f"{start + late:%Y:%m:%d %H:%M:%S}", picture=shown
        )
    run("index", "lapse", "--model", "color-bands", "--time-from", "metadata", "--timezone", "Europe/Berlin")
    run("register", "--album", write_album(tmp_path / "album", "red"))
    found = run("query", "SELECT moments WHERE entity = 'red'", "--json").json
    assert [(row["start_time"], row["end_time"]) for row in found] == [(0.0, 2.4), (2.4, 4.8)]
    tracks = run("query", "SELECT tracks", "--json").json
    assert len(tracks) <= 4 and all(row["end_time"] <= 2.4 or row["start_time"] >= 2.4 for row in tracks)


@pytest.mark.parametrize(
    ("steps", "border"),
    [
        ([60.0, 61.0] * 6, 90.75),
        ([300.0] * 8, 450.0),
        ([300.0] * 7, 60.0),
        ([1.0, 1.0, 4000.0, 1.0, 1.0, 700.0, 1.0, 1.0, 9000.0], 60.0),
        ([400.0, 9000.0, 70.0, 3000.0, 65.0, 800.0, 1200.0, 100.0], 60.0),
        ([86400.0] * 20, 60.0),
        ([5.0] * 20, 60.0),
        ([], 60.0),
    ],
)
def test_only_steps_that_are_mostly_alike_are_a_timelapse(steps: list[float], border: float) -> None:
    assert alarm_seconds(np.array(steps)) == pytest.approx(border)
