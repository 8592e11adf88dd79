"""Commands about indexing: index, info, compact."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from panorama.arguments import MOST_ZOOM
from panorama.cli.common import json_option, opened, say, size
from panorama.errors import ModelError
from panorama.indexing.outcomes import FAILED, INDEXED, SKIPPED, FileOutcome, Hooks, IndexReport
from panorama.indexing.profile import SETTING, Profile, named, profile_in
from panorama.library import Library
from panorama.lines import clock, counted, one_line
from panorama.recording import NONE, RecordingRule
from panorama.video import DEFAULT_RATE, IMAGE_SUFFIXES, VIDEO_SUFFIXES, FoundVideo, VideoReader

if TYPE_CHECKING:
    from panorama.indexing.parcels import Progress

NO_FILE = "no such file or folder, and no file matches it as a pattern"
NUMBERED = "pictures are a video where all of a folder have one name and a number at its end, as IMG_0001.jpg"
NAMED = "or where a folder without videos is named itself, whatever they are called: panorama index"
NO_VIDEO = f"holds no video; expected {' '.join(sorted(VIDEO_SUFFIXES))} or a folder of pictures"
BAR_CELLS = 20
NAME_CELLS = 12
"""Of a longer name at least its end is shown, in so many cells; what else is told gives way."""
LEAST_SECONDS = 1.0
"""A speed is told of at least so much time."""
INCOMPLETE = 3
"""Exit status of `index` where a named or recognised file gave no segment."""


class ProgressLine:
    """One line on a terminal that follows the video at work; on anything else, one line per video."""

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
            # Decoding runs ahead: what it had done before the file's turn is no speed.
            self._began = clock_now, now.frames, now.time_seconds
        since, frames, seconds = self._began
        speed = Speed(clock_now - since, now.frames - frames, now.time_seconds - seconds)
        width = shutil.get_terminal_size().columns - 1
        line = fitted(*self._label, progress_texts(now.time_seconds, speed, self._duration), width)
        click.echo(f"\r\033[K{line}", nl=False, err=True)

    def clear(self) -> None:
        """Leave an empty line for what comes next."""
        if self._live:
            click.echo("\r\033[K", nl=False, err=True)

    def done(self, outcome: FileOutcome) -> None:
        self.clear()
        if not self._quiet:
            say(describe(outcome))


class JsonLines:
    """Outcomes on stdout where they are asked for; who reads them may leave before the work is done."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self.reader_gone: BrokenPipeError | None = None

    def __call__(self, outcome: FileOutcome) -> None:
        if not self._wanted or self.reader_gone is not None:
            return
        try:
            click.echo(json.dumps(outcome.as_dict(), ensure_ascii=False))
        except BrokenPipeError as exc:
            self.reader_gone = exc


@dataclass(frozen=True, slots=True)
class Speed:
    """What was done of one video in a time: `wall_seconds` in which `frames` and `video_seconds` went by."""

    wall_seconds: float
    frames: int
    video_seconds: float


def progress_texts(reached_seconds: float, speed: Speed, duration: float | None) -> list[str]:
    """Bar, share, frames a second, speed over real time, time left; fuller texts first.

    Without a duration there is no bar and no end; within LEAST_SECONDS there is no speed worth telling.
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
        return f"skipped  {outcome.video}: {outcome.note}"
    found = ", ".join(
        counted(number, one)
        for number, one in ((outcome.frames, "frame"), (outcome.tracks, "track"), (outcome.crops, "crop"))
    )
    line = f"indexed  {outcome.video}: {found}"
    return f"{line}; {outcome.note}" if outcome.note else line


def recording_options(command: Any) -> Any:
    """The options that say when and by which camera videos were recorded."""
    for option in (
        click.option("--camera-from", default=None, help="'folder' (default), or a pattern: '{camera}_*'."),
        click.option(
            "--timezone",
            "zone",
            default="",
            help="Of the cameras' clocks: Europe/Berlin. Default: this machine's.",
        ),
        click.option(
            "--time-from",
            default=None,
            help="Wall-clock time: 'metadata', 'name', a pattern as '{camera}_%Y%m%d-%H%M%S', or 'none'.",
        ),
    ):
        command = option(command)
    return command


def recording_rule(
    library: Library, time_from: str | None, zone: str, camera_from: str | None
) -> RecordingRule | None:
    """The rule asked for, with what is not asked for as the library keeps it; None where nothing is."""
    if not (time_from or zone or camera_from):
        return None
    kept = library.recording
    if not zone and kept.time_from != NONE:
        zone = kept.zone
    return RecordingRule(time_from or kept.time_from, zone, camera_from or kept.camera_from)


@click.command("index")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--fps",
    type=float,
    default=None,
    help="Look for regions this many times a second: 5, or what tune chose.",
)
@click.option("--every", type=int, default=None, help="Look at every N-th frame instead.")
@click.option("--quick", is_flag=True, help="Look at keyframes only: fast and coarse.")
@click.option(
    "--zoom",
    type=click.IntRange(1, MOST_ZOOM),
    default=None,
    help="Look at N x N parts of each picture as well: finds what is small in it, takes longer. Default: 1.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=None,
    help="Take crops to the first N exits of the embedder; queries go on from there. Default: all.",
)
@click.option("--redo", is_flag=True, help="Index anew what was indexed with other settings.")
@click.option("-v", "--verbose", is_flag=True, help="Say what the networks ran in, and what each stage took.")
@click.option("--model", default=None, help="The embedder; the library keeps using it. See: panorama models")
@recording_options
@json_option
@click.pass_context
def index_command(
    ctx: click.Context,
    paths: tuple[str, ...],
    fps: float | None,
    every: int | None,
    quick: bool,
    zoom: int | None,
    depth: int | None,
    redo: bool,
    verbose: bool,
    model: str | None,
    time_from: str | None,
    zone: str,
    camera_from: str | None,
    as_json: bool,
) -> None:
    """Index videos: files, folders (searched for videos) or globs. Makes the library if there is none.

    What was indexed before and has not changed is skipped. --json writes one object a line, a line for
    each file. Exit status: 0 done, 1 error, 2 usage, 3 some file gave nothing (the others are done), 130
    interrupted (finished videos are kept), 141 done, but the reader of --json left before its end.
    """
    if sum([fps is not None, every is not None, quick]) > 1:
        raise click.UsageError("give one of --fps, --every and --quick")
    line = ProgressLine(quiet=as_json)
    told: list[FileOutcome] = []
    put = JsonLines(as_json)

    def tell(outcome: FileOutcome) -> None:
        told.append(outcome)
        put(outcome)
        line.done(outcome)

    def wait(what: str) -> None:
        line.clear()
        say(f"{what}; waiting for it")

    library = opened(ctx, may_be_new=True)
    settings = named(_profile(library), fps, every, quick, zoom)
    recording = recording_rule(library, time_from, zone, camera_from)
    hooks = Hooks(line.start, line.progress, tell, wait)
    started = time.perf_counter()
    try:
        report = library.index(
            list(paths),
            settings=settings,
            depth=depth,
            model=model,
            recording=recording,
            redo=redo,
            hooks=hooks,
        )
    except KeyboardInterrupt:
        line.clear()
        kept = sum(outcome.status != FAILED for outcome in told)
        done = counted(kept, "video is", "videos are")
        say(f"{done} done and kept; the same command goes on with the others")
        raise
    _tell(report, put, time.perf_counter() - started, verbose)
    if not report.complete:
        ctx.exit(INCOMPLETE)
    if put.reader_gone is not None:
        raise put.reader_gone


def _tell(report: IndexReport, put: JsonLines, seconds: float, verbose: bool) -> None:
    """What is told at the end: of paths that gave nothing as of files, then all of it in short."""
    nothing = [*((path, NO_FILE) for path in report.missing), *((path, NO_VIDEO) for path in report.empty)]
    for path, note in nothing:
        put(FileOutcome(path, "", FAILED, note=note))
    _summary(report, nothing, seconds)
    for text in (*_networks(report, verbose), *(_stages(report) if verbose else ())):
        say(text)


def _summary(report: IndexReport, nothing: list[tuple[str, str]], seconds: float) -> None:
    counts = {status: len(report.of(status)) for status in (INDEXED, SKIPPED, FAILED)}
    counts[FAILED] += len(nothing)
    say(", ".join(f"{count} {status}" for status, count in counts.items()))
    if report.of(INDEXED):
        # Files are worked on side by side: only all of them together have a speed.
        frames = sum(file.frames for file in report.of(INDEXED))
        speed = sum(file.video_seconds for file in report.of(INDEXED)) / seconds
        found = counted(frames, "frame")
        say(f"{found} in {seconds:.1f} s: {frames / seconds:.0f} frames/s, {speed:.1f}x real time")
    series = [file for file in report.of(INDEXED) if Path(file.path).is_dir()]
    if series:
        # Also what becomes of an album that lies beside the footage.
        read = counted(len(series), "folder of pictures was", "folders of pictures were")
        each = "one video" if len(series) == 1 else "a video each"
        named = f"{series[0].path}{', ...' if len(series) > 1 else ''}"
        say(f"{read} read as {each}, {DEFAULT_RATE} pictures a second: {named}")
    if report.embedded:
        say(f"{counted(report.embedded, 'stored crop')} embedded without decoding")
    for text in report.warnings:
        say(text)
    for text in report.recording.lines() if report.recording is not None else ():
        say(text)
    if report.ignored:
        kinds = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in report.ignored.items())
        say(f"ignored in folders: {kinds}")
        if not IMAGE_SUFFIXES.isdisjoint(report.ignored):
            say(f"  {NUMBERED}")
            if report.pictures:
                more = f" (and {len(report.pictures) - 1} more)" if report.pictures[1:] else ""
                say(f"  {NAMED} {shlex.quote(report.pictures[0])}{more}")
    damaged = [f for f in report.files if f.damage]
    for title, files in (("read in part", damaged), ("gave no segment", report.of(FAILED))):
        if files:
            say(f"{title}:")
            for file in files:
                note = str(file.damage or file.note)
                say(f"  {note}" if file.path in note else f"  {file.path}: {note}")
    for path, note in nothing:
        say(f"  {path}: {note}")


def _networks(report: IndexReport, verbose: bool) -> Iterator[str]:
    """What the networks ran in: always told where they could have been faster, else if asked for."""
    for facts in report.networks.values():
        slower = bool(facts["why"]) and facts["device"] == "cpu"
        if verbose or slower:
            why = f"; not int8: {facts['why']}" if facts["why"] else ""
            yield f"{facts['model']} ran in {facts['precision']} on {facts['device']}{why}"


def _stages(report: IndexReport) -> Iterator[str]:
    """Time at work by stage, over all files that were indexed; stages work at the same time."""
    total: Counter[str] = Counter()
    for file in report.of(INDEXED):
        total.update(file.stage_seconds)
    if total:
        yield "seconds by stage: " + ", ".join(f"{name} {spent:.2f}" for name, spent in total.items())


def _profile(library: Library) -> Profile:
    """How the library indexes new videos; the default where there is none yet."""
    return profile_in({SETTING: library.setting(SETTING)}) if library.exists else Profile()


def _calibration(library: Library) -> str:
    """Whose calibration applies, or why that cannot be told."""
    from panorama.calibration import told  # with it comes what matches, and indexing does without

    try:
        return told(library.embedder, library.snapshot().settings if library.exists else {})
    except ModelError as exc:
        return f"unknown: {exc}"


def _embedder(library: Library) -> dict[str, str | None]:
    """The model that the library is searched with; of one that is not to be had only where it was."""
    folder = library.embedder_folder
    facts: dict[str, str | None] = {"folder": None if folder is None else str(folder)}
    try:
        return {"name": library.embedder.name, "hash": library.embedder.hash[:12], **facts}
    except ModelError:
        return {"name": None, "hash": None, **facts}


@click.command("info")
@json_option
@click.pass_context
def info_command(ctx: click.Context, as_json: bool) -> None:
    """Say what the library holds and how large it is."""
    library = opened(ctx)
    info, profile = library.info(), _profile(library)
    facts: dict[str, Any] = {
        "library": str(info.path),
        "schema_version": info.schema_version,
        "counts": dict(info.counts),
        "files": dict(info.files),
        "bytes": dict(info.bytes),
        "embeddings": {f"{model[:12]} exit {exit}": n for (model, exit), n in info.embeddings.items()},
        # A list: after a training two may have one name.
        "models": [{"name": m.name, "hash": m.hash[:12]} for m in info.models],
        "embedder": _embedder(library),
        "calibration": _calibration(library),
        "profile": profile.as_dict() if as_json else profile.line(),
    }
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    facts["bytes"] = {name: size(count) for name, count in info.bytes.items()}
    facts["total"] = size(sum(info.bytes.values()))
    facts["models"] = ", ".join(" ".join(one.values()) for one in facts["models"])
    model = facts["embedder"]
    facts["embedder"] = " in ".join(filter(None, (model["name"] or "unknown", model["folder"])))
    for key, value in facts.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        click.echo(f"{key}: {shown}")


@click.command("compact")
@click.pass_context
def compact_command(ctx: click.Context) -> None:
    """Merge many small data files into few large ones; answers stay the same."""
    replaced = opened(ctx).compact()
    say(f"{counted(replaced, 'file')} merged")
