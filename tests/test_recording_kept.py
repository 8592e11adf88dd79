"""What is known of when and by which camera a video was recorded stays while nothing says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
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
        write_taken(tmp_path / "v" / "trap" / f"{k}.png", "2026:03:01 12:15:00")
    told = run("index", "v", "--model", "color-bands", *METADATA).err
    assert "wall-clock time of 3 videos from the container's metadata" in told
    before = clocks(run)
    assert [before[name][1] for name in ("gone.mp4", "here.mp4", "trap")] == ["11:15", "10:15", "12:15"]
    gone.unlink()
    for k in range(2):
        (tmp_path / "v" / "trap" / f"{k}.png").unlink()  # the folder stays, and is empty
    told = run("clock", "--camera-from", "*/{camera}").err
    assert told == "3 videos changed\n", "no time was asked for"
    assert {name: row[1:] for name, row in clocks(run).items()} == {
        name: row[1:] for name, row in before.items()
    }
    assert "2 videos keep the wall-clock time that was known" in run("clock", *METADATA).err
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
