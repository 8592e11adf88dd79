"""Outcomes of files come in; what `index` prints about them goes out, as lines, as JSON and as a summary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from panorama.cli.common import print_data, say
from panorama.cli.progress import ProgressLine
from panorama.commands import command
from panorama.frames import PICTURES_PER_SECOND
from panorama.indexing.outcomes import (
    FAILED,
    INDEXED,
    SKIPPED,
    FileOutcome,
    Hooks,
    IndexReport,
    Reason,
)
from panorama.lines import counted, shell_word
from panorama.video import COPY_SUFFIXES, VIDEO_SUFFIXES

NO_FILE = "no such file or folder, and no file matches it as a pattern"
NUMBERED = (
    "a folder of pictures makes a video if all have the same name with a number at its end, such as"
    " IMG_0001.jpg or 0001.jpg; one or two digits alone, such as 1.jpg, do not count: that may be an album"
)
COPIES = "a HEIC or AVIF beside another picture of the same name is taken for a copy and skipped"
NAMED = "or if you name the folder itself and it holds no videos, whatever its pictures are called:"
BESIDE = (
    "other pictures make no video if videos lie beside or below them; give them a folder of their"
    " own and name it. These are in:"
)
NO_VIDEO = f"holds no video; expected {' '.join(sorted(VIDEO_SUFFIXES))} or a folder of pictures"

COUNTED = {
    Reason.UNCHANGED: ("unchanged since they were indexed", ""),
    Reason.OTHER_SETTINGS: (
        "unchanged since they were indexed with other settings",
        "; --redo indexes them with the current settings",
    ),
    Reason.EARLIER_VERSION: (
        "unchanged since they were indexed by an earlier version",
        "; --redo indexes them with this version",
    ),
    Reason.DEEPER: ("indexed already, and --quick replaces nothing", ""),
    Reason.NOT_BEGUN: ("empty, and so new that a recorder may have just begun them", ""),
}
"""Reasons for skipping of which only the number of files is printed, with the text before and after it. A
nightly run over an archive skips thousands of files, among which new ones would be overlooked."""


class JsonLines:
    """Prints outcomes on stdout if `wanted`; the reader may close the pipe before the work is done."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self.reader_gone: BrokenPipeError | None = None

    def __call__(self, outcome: FileOutcome) -> None:
        if not self._wanted or self.reader_gone is not None:
            return
        try:
            print_data(json.dumps(outcome.as_dict(), ensure_ascii=False))
        except BrokenPipeError as exc:
            self.reader_gone = exc


class IndexTold:
    """What one run of `index` prints: lines on stderr and, with `as_json`, outcomes as JSON on stdout.

    Args:
        verbose: also print a line for each file that was only skipped.
        quiet: print only what went wrong.
    """

    def __init__(self, as_json: bool, verbose: bool, quiet: bool) -> None:
        self._line = ProgressLine(quiet=as_json or quiet)
        self._json = JsonLines(as_json)
        self._verbose = verbose
        self._quiet = quiet
        self._kept = 0

    @property
    def reader_gone(self) -> BrokenPipeError | None:
        """The error if the reader of the JSON closed the pipe early; else None."""
        return self._json.reader_gone

    def hooks(self) -> Hooks:
        """The functions for `Library.index` to call while it runs."""
        return Hooks(self._line.start, self._line.progress, self._file, self._wait, self._anew)

    def _file(self, outcome: FileOutcome) -> None:
        self._kept += outcome.status != FAILED
        self._json(outcome)
        if self._verbose or outcome.reason in (None, Reason.KNOWN_CONTENT, Reason.REMOVED):
            self._line.done(outcome)

    def _wait(self, what: str) -> None:
        self._line.clear()
        if not self._quiet:
            say(f"{what}; waiting for it")

    def _anew(self, count: int, named: int) -> None:
        if self._quiet:
            return
        settings = f", {named} of them with the settings they were given before" if named else ""
        say(
            f"{counted(count, 'video is', 'videos are')} indexed again{settings}: an earlier version or"
            f" another proposer indexed {'it' if count == 1 else 'them'}, and this one finds or keeps other"
            f" things; until {'it is' if count == 1 else 'each is'} done, queries use what was indexed before"
        )

    def interrupted(self) -> None:
        """Print what was done before Ctrl-C."""
        self._line.clear()
        done = counted(self._kept, "video is", "videos are")
        say(f"{done} done and kept; run the same command again to index the others")

    def ended(self, report: IndexReport, seconds: float) -> None:
        """Report paths that gave nothing, like files, then print the summary."""
        nothing = [
            *((path, NO_FILE) for path in report.missing),
            *((path, NO_VIDEO) for path in report.empty),
        ]
        for path, note in nothing:
            self._json(FileOutcome(path, "", FAILED, note=note))
        if self._quiet:
            for text in _wrong(report, nothing):
                say(text)
            return
        _summary(report, nothing, seconds, self._verbose)
        for text in (*_networks(report, self._verbose), *(_stages(report) if self._verbose else ())):
            say(text)


def _summary(report: IndexReport, nothing: list[tuple[str, str]], seconds: float, verbose: bool) -> None:
    counts = {status: len(report.of(status)) for status in (INDEXED, SKIPPED, FAILED)}
    counts[FAILED] += len(nothing)
    say(", ".join(f"{count} {status}" for status, count in counts.items()))
    for text in () if verbose else _kept(report):
        say(text)
    if report.of(INDEXED):
        # Files are processed in parallel, so only all of them together have a speed.
        frames = sum(file.frames for file in report.of(INDEXED))
        speed = sum(file.video_seconds for file in report.of(INDEXED)) / seconds
        found = counted(frames, "frame")
        say(f"{found} in {seconds:.1f} s: {frames / seconds:.0f} frames/s, {speed:.1f}x real time")
    series = [file for file in report.of(INDEXED) if Path(file.path).is_dir()]
    if series:
        # An album beside the footage may be among them.
        read = counted(len(series), "folder of pictures was", "folders of pictures were")
        each = "one video" if len(series) == 1 else "a video each"
        named = f"{series[0].path}{', ...' if len(series) > 1 else ''}"
        say(f"{read} read as {each}, {PICTURES_PER_SECOND} pictures a second: {named}")
    if report.embedded:
        say(f"{counted(report.embedded, 'stored crop')} embedded without decoding")
    for text in (*report.damaged, *report.warnings):
        say(text)
    for text in report.recording.lines() if report.recording is not None else ():
        say(text)
    if report.ignored:
        kinds = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in report.ignored.items())
        say(f"ignored in folders: {kinds}")
        if not COPY_SUFFIXES.isdisjoint(report.ignored):
            say(f"  {COPIES}")
        if report.pictures or report.beside:
            say(f"  {NUMBERED}")
            for what, folders in ((f"{NAMED} {command('index')}", report.pictures), (BESIDE, report.beside)):
                if folders:
                    more = f" (and {len(folders) - 1} more)" if folders[1:] else ""
                    say(f"  {what} {shell_word(folders[0])}{more}")
    for text in _reserved(report, nothing, verbose):
        say(text)


def _wrong(report: IndexReport, nothing: list[tuple[str, str]]) -> Iterator[str]:
    """What somebody should look at: losses, remarks on the library, and files that could not be indexed."""
    yield from (*report.damaged, *report.warnings)
    yield from _reserved(report, nothing, False)


def _kept(report: IndexReport) -> Iterator[str]:
    """How many files were skipped for each counted reason, had losses, or keep their old names."""
    reasons = Counter(file.reason for file in report.of(SKIPPED))
    for reason, (what, otherwise) in COUNTED.items():
        if reasons[reason]:
            yield f"{what}: {counted(reasons[reason], 'file')}, which -v lists{otherwise}"
    earlier = sum(file.damage is not None and file.status != INDEXED for file in report.files)
    if earlier:
        yield f"indexed earlier with losses or assumptions: {counted(earlier, 'file')}, which -v lists"
    named = [file for file in report.of(SKIPPED) if file.found_as]
    if named:
        many = counted(len(named), "file keeps its name", "files keep their names")
        more = ", ..." if named[1:] else ""
        yield f"{many}, which -v lists: {named[0].video} is not renamed to {named[0].found_as}{more}"


def _reserved(report: IndexReport, nothing: list[tuple[str, str]], verbose: bool) -> Iterator[str]:
    """Files with losses or assumptions, those of earlier runs only with `verbose`, and what gave nothing.

    Args:
        nothing: paths that hold no video, and why.
    """
    told = [file for file in report.files if file.damage and (verbose or file.status == INDEXED)]
    for title, files in (("read, with losses or assumptions", told), ("not indexed", report.of(FAILED))):
        if files:
            yield f"{title}:"
        for file in files:
            note = str(file.damage or file.note)
            yield f"  {note}" if file.path in note else f"  {file.path}: {note}"
    yield from (f"  {path}: {note}" for path, note in nothing)


def _networks(report: IndexReport, verbose: bool) -> Iterator[str]:
    """The format of each network, if it could have been faster on this CPU, or always with `verbose`."""
    for facts in report.networks.values():
        slower = bool(facts["why"]) and facts["device"] == "cpu"
        if verbose or slower:
            why = f"; not int8: {facts['why']}" if facts["why"] else ""
            yield f"{facts['model']} ran in {facts['precision']} on {facts['device']}{why}"


def _stages(report: IndexReport) -> Iterator[str]:
    """Seconds of work per stage, summed over all indexed files; stages run in parallel."""
    total: Counter[str] = Counter()
    for file in report.of(INDEXED):
        total.update(file.stage_seconds)
    if total:
        yield "seconds by stage: " + ", ".join(f"{name} {spent:.2f}" for name, spent in total.items())
