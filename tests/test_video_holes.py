"""A hole in the middle of a file is told with where it is; a pause of the recording is none."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clips import write_video

from panorama.errors import VideoOpenError
from panorama.frames import DecodeReport
from panorama.video import decoding, open_video

SIDE_BY_SIDE = {"max_interleave_delta": "0"}
"""Sound and pictures of a time lie together, however late the pictures come out of the encoder."""
PAUSED = [*range(80), *range(230, 330), *range(420, 470)]


def report_of(path: Path) -> DecodeReport:
    with open_video(path) as reader:
        for _ in reader.frames():
            pass
        return reader.report


def with_hole(path: Path) -> Path:
    """Zeros from two to three fifths of a file, as an interrupted copy or a broken disk leaves them."""
    data = bytearray(path.read_bytes())
    begin, end = len(data) * 2 // 5, len(data) * 3 // 5
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "codec", "pixel_format", "sound"),
    [
        ("a.mkv", "libx264", "yuv420p", False),
        ("a.mkv", "mjpeg", "yuvj420p", False),
        ("a.mkv", "ffv1", "yuv420p", False),
        ("a.webm", "libvpx", "yuv420p", False),
        ("a.flv", "flv", "yuv420p", False),
        ("a.ts", "libx264", "yuv420p", False),
        ("a.mkv", "libx264", "yuv420p", True),
        ("a.ts", "mpeg2video", "yuv420p", True),
    ],
)
def test_a_hole_is_told_with_its_place(
    tmp_path: Path, name: str, codec: str, pixel_format: str, sound: bool
) -> None:
    clip = write_video(
        tmp_path / name,
        codec,
        frames=500,
        pixel_format=pixel_format,
        with_audio=sound,
        container_options=SIDE_BY_SIDE,
    )
    assert report_of(clip.path).complete
    report = report_of(with_hole(clip.path))
    assert 350 < report.frames < 450
    assert report.frames + report.lost_packets == pytest.approx(500, abs=5)
    told = [error for error in report.errors if error.startswith("about ")]
    assert len(told) == 1
    seconds, begin = float(told[0].split()[1]), float(told[0].split()[4])
    assert 3 < seconds < 6 and 6 < begin < 10


@pytest.mark.parametrize("sound", [False, True])
@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.flv", "filled.ts", "a.mp4"])
def test_a_pause_of_the_recording_is_no_hole(tmp_path: Path, name: str, sound: bool) -> None:
    options = SIDE_BY_SIDE | ({"muxrate": "2000000"} if name == "filled.ts" else {})
    codec = "flv" if name == "a.flv" else "libx264"
    clip = write_video(tmp_path / name, codec, ticks=PAUSED, with_audio=sound, container_options=options)
    report = report_of(clip.path)
    assert report.frames == len(PAUSED)
    assert report.complete, report


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "libx264"), ("a.flv", "flv")])
def test_all_gaps_are_answered_in_one_more_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, codec: str
) -> None:
    """Each pause with sound read the whole file again: 200 pauses took 18 s."""
    ticks = [tick for begin in range(0, 1000, 100) for tick in range(begin, begin + 50)]
    clip = write_video(tmp_path / name, codec, ticks=ticks, with_audio=True, container_options=SIDE_BY_SIDE)
    openings: list[Path] = []
    real = decoding.open_container

    def counted(path: Path, unedited: bool = False) -> Any:
        openings.append(path)
        return real(path, unedited)

    monkeypatch.setattr(decoding, "open_container", counted)
    assert report_of(clip.path).complete
    assert len(openings) == 2
    report = report_of(with_hole(clip.path))  # more than one pause, and frames around them
    told = [error for error in report.errors if error.startswith("about ")]
    assert len(told) == 1 and report.frames < 450
    assert len(openings) <= 5  # FLV is also asked when its sound ends


def test_recordings_laid_end_to_end_have_no_hole(tmp_path: Path) -> None:
    parts = [
        write_video(tmp_path / f"{k}.ts", "libx264", ticks=range(k, k + 100)).path.read_bytes()
        for k in (0, 300)
    ]
    joined = tmp_path / "joined.ts"
    joined.write_bytes(b"".join(parts))
    report = report_of(joined)
    assert report.frames == 200
    assert report.complete, report


def test_in_a_recording_of_uneven_rate_no_hole_is_told(tmp_path: Path) -> None:
    ticks = [k * 3 + k * k % 3 for k in range(400)]
    clip = write_video(tmp_path / "a.mkv", "mjpeg", ticks=ticks, pixel_format="yuvj420p")
    report = report_of(with_hole(clip.path))
    assert report.frames < 350
    assert not [error for error in report.errors if error.startswith("about ")]


def test_what_lies_behind_a_long_hole_is_read(tmp_path: Path) -> None:
    clip = write_video(tmp_path / "a.ts", "mpeg2video", frames=100)
    data = clip.path.read_bytes()
    half = len(data) // 2 // 188 * 188
    clip.path.write_bytes(data[:half] + bytes(20_000 * 188) + data[half:])
    with open_video(clip.path) as reader:
        seconds = [frame.time_seconds for frame in reader.frames()]
        assert not reader.report.complete
    assert len(seconds) >= 88  # a group of pictures around it may be lost
    assert seconds[-1] == pytest.approx(clip.seconds[-1])


class UnreadableSector(io.FileIO):
    """A file on a drive that cannot read its sectors any more."""

    def readinto(self, _buffer: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def shrunk(path: Path) -> io.FileIO:
    """A file that another program cuts off once it was opened."""
    file = io.FileIO(path)
    os.truncate(path, 4096)
    return file


def opened_by(monkeypatch: pytest.MonkeyPatch, path: Path, opening: Callable[[Path], io.FileIO]) -> None:
    """From now on, Python opens the file in this way; FFmpeg opens it by itself."""
    real = Path.open

    def opened(self: Path, *args: Any, **named: Any) -> Any:
        return io.BufferedReader(opening(self)) if self == path else real(self, *args, **named)

    monkeypatch.setattr(Path, "open", opened)


def test_a_gap_that_cannot_be_read_fails_the_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was mapped, so an unreadable sector was SIGBUS, which killed the process."""
    path = with_hole(write_video(tmp_path / "a.ts", "libx264", frames=300).path)
    with open_video(path) as reader:
        opened_by(monkeypatch, path, UnreadableSector)
        with pytest.raises(VideoOpenError, match=f"a.ts cannot be read: {os.strerror(errno.EIO)}"):
            for _ in reader.frames():
                pass


def test_of_a_file_that_shrinks_no_hole_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was mapped, so bytes that were cut off meanwhile were SIGBUS, which killed the process."""
    path = with_hole(write_video(tmp_path / "a.ts", "libx264", frames=300).path)
    with open_video(path) as reader:
        opened_by(monkeypatch, path, shrunk)
        assert sum(1 for _ in reader.frames()) > 200
        assert not [error for error in reader.report.errors if error.startswith("about ")]
