"""Videos in progress come in; terminal output goes out: a line that changes, and one per finished video."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from panorama.cli.common import say
from panorama.indexing.outcomes import FAILED, SKIPPED, FileOutcome
from panorama.lines import clock, counted, one_line
from panorama.video import FoundVideo, VideoReader

if TYPE_CHECKING:
    from panorama.indexing.parcels import Progress

BAR_CELLS = 20
NAME_CELLS = 12
"""Cells kept for the end of a longer name; the other texts give way to it."""
FINISHING = ["all frames read, finishing", "finishing"]
"""Shown instead of a speed, which would fall to 0 while the networks look at what was read."""
LEAST_SECONDS = 1.0
"""Least time over which a speed is measured."""


class ProgressLine:
    """One changing line about the video in progress on a terminal; elsewhere only one line per video."""

    def __init__(self, quiet: bool) -> None:
        self._live = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._began: tuple[float, int, float] | None = None
        self._label = ("", "")
        self._duration: float | None = None

    def start(self, number: int, total: int, video: FoundVideo, reader: VideoReader) -> None:
        self._began = None
        self._label = f"[{number + 1}/{total}] ", one_line(video.name)
        self._duration = reader.info.duration_seconds

    def progress(self, now: Progress) -> None:
        if not self._live:
            return
        clock_now = time.perf_counter()
        if self._began is None:
            # Decoding runs ahead: what was decoded before the file's turn must not count as speed.
            self._began = clock_now, now.frames, now.time_seconds
        since, frames, seconds = self._began
        speed = Speed(clock_now - since, now.frames - frames, now.time_seconds - seconds)
        width = shutil.get_terminal_size().columns - 1
        texts = FINISHING if now.all_read else progress_texts(now.time_seconds, speed, self._duration)
        line = fitted(*self._label, texts, width)
        click.echo(f"\r\033[K{line}", nl=False, err=True)

    def clear(self) -> None:
        """Clear the line for the next output."""
        if self._live:
            click.echo("\r\033[K", nl=False, err=True)

    def done(self, outcome: FileOutcome) -> None:
        self.clear()
        if not self._quiet:
            say(describe(outcome))


@dataclass(frozen=True, slots=True)
class Speed:
    """Progress of one video: `frames` and `video_seconds` were processed in `wall_seconds`."""

    wall_seconds: float
    frames: int
    video_seconds: float


def progress_texts(reached_seconds: float, speed: Speed, duration: float | None) -> list[str]:
    """Bar, percentage, frames per second, speed relative to real time and time left; fuller texts first.

    Without a duration there is no bar and no time left; before LEAST_SECONDS there is no speed.
    """
    rates = left = ""
    if speed.wall_seconds >= LEAST_SECONDS:
        times = speed.video_seconds / speed.wall_seconds
        rates = f"  {speed.frames / speed.wall_seconds:.0f} frames/s  {times:.1f}x real time"
        if duration and times > 0:
            left = f"  {clock(max(duration - reached_seconds, 0) / times)} left"
    if not duration:
        return [f"{clock(reached_seconds)}{rates}", clock(reached_seconds)]
    share = min(reached_seconds / duration, 1.0)
    wide, narrow = (
        f"[{'#' * round(share * cells)}{'.' * (cells - round(share * cells))}] {share:4.0%}"
        for cells in (BAR_CELLS, BAR_CELLS // 2)
    )
    fast = [f"{wide}{rates}{left}", f"{narrow}{rates}{left}", f"{narrow}{rates}"] if rates else []
    return [*fast, f"{wide}{left}", f"{narrow}{left}", narrow, f"{share:4.0%}"]


def fitted(number: str, name: str, texts: list[str], width: int) -> str:
    """One line of at most `width` cells: the fullest text that leaves room for the end of the name."""
    least = len(number) + min(len(name), NAME_CELLS) + 2
    text = next((text for text in texts if least + len(text) <= width), texts[-1])
    room = max(width - len(number) - len(text) - 2, 0)
    if len(name) > room:
        name = f"...{name[len(name) - room + 3 :]}" if room > 3 else ""
    return (f"{number}{name}  {text}" if name else f"{number}{text.strip()}")[:width]


def describe(outcome: FileOutcome) -> str:
    """One line about one file."""
    if outcome.status == FAILED:
        return f"failed   {outcome.note}"
    if outcome.status == SKIPPED:
        return f"skipped  {outcome.video or outcome.path}: {outcome.note}"
    found = ", ".join(
        counted(number, one)
        for number, one in ((outcome.frames, "frame"), (outcome.tracks, "track"), (outcome.crops, "crop"))
    )
    line = f"indexed  {outcome.video}: {found}"
    return f"{line}; {outcome.note}" if outcome.note else line
