"""What is shown while videos are indexed: a bar, the speed and the time left."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from panorama.cli import progress
from panorama.cli.progress import ProgressLine, Speed, fitted, progress_texts
from panorama.indexing.parcels import Progress


def test_progress_shows_bar_speed_and_time_left():
    speed = Speed(wall_seconds=5.0, frames=500, video_seconds=20.0)
    shown = progress_texts(20.0, speed, duration=80.0)
    assert shown[0] == "[#####...............]  25%  100 frames/s  4.0x real time  0:15.0 left"
    assert shown[-2:] == ["[##........]  25%", " 25%"] and len(set(map(len, shown))) == len(shown)
    assert progress_texts(20.0, speed, None) == ["0:20.0  100 frames/s  4.0x real time", "0:20.0"]
    early = Speed(wall_seconds=0.01, frames=500, video_seconds=20.0)
    assert progress_texts(20.0, early, duration=80.0)[0] == "[#####...............]  25%"
    stuck = Speed(wall_seconds=5.0, frames=0, video_seconds=0.0)
    assert progress_texts(20.0, stuck, duration=80.0)[0].endswith("0 frames/s  0.0x real time")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (12, "[3/12] 25%"),
        (20, "[3/12] ....mp4   25%"),
        (39, "[3/12] ...orning.mp4  [##........]  25%"),
        (60, "[3/12] .../north/morning.mp4  [##........]  25%  0:15.0 left"),
        (79, "[3/12] gate/north/morning.mp4  [##........]  25%  100 frames/s  4.0x real time"),
        (
            150,
            "[3/12] gate/north/morning.mp4  [#####...............]  25%  100 frames/s  4.0x real time"
            "  0:15.0 left",
        ),
    ],
)
def test_progress_fits_the_terminal_and_keeps_name_and_bar(width, line):
    texts = progress_texts(20.0, Speed(wall_seconds=5.0, frames=500, video_seconds=20.0), 80.0)
    shown = fitted("[3/12] ", "gate/north/morning.mp4", texts, width)
    assert len(shown) <= width
    assert shown == line


def test_what_was_decoded_before_a_files_turn_is_no_speed(monkeypatch, capsys):
    seconds = iter([10.0, 10.5, 12.0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    monkeypatch.setenv("COLUMNS", "120")
    line = ProgressLine(quiet=False)
    video = SimpleNamespace(name="a.mp4")
    line.start(0, 1, video, SimpleNamespace(info=SimpleNamespace(duration_seconds=40.0)))
    for frames in (800, 820, 900):
        line.progress(Progress(frames=frames, time_seconds=frames / 25))
    told = capsys.readouterr().err.split("\r\033[K")[1:]
    assert ["frames/s" in text for text in told] == [False, False, True]
    assert told[-1].startswith("[1/1] a.mp4  [") and "50 frames/s  2.0x real time" in told[-1]


def test_a_video_that_is_read_to_its_end_is_finishing_and_has_no_speed(monkeypatch, capsys):
    """While its last crops were embedded, it showed 100 % and a speed that fell, often to 0 frames/s."""
    seconds = iter([10.0, 15.0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    monkeypatch.setenv("COLUMNS", "120")
    line = ProgressLine(quiet=False)
    reader = SimpleNamespace(info=SimpleNamespace(duration_seconds=40.0))
    line.start(0, 1, SimpleNamespace(name="a.mp4"), reader)
    for all_read in (False, True):
        line.progress(Progress(frames=1000, time_seconds=39.96, all_read=all_read))
    assert capsys.readouterr().err.endswith("\r\033[K[1/1] a.mp4  all frames read, finishing")
