"""The outcome of one file comes in; the report of all files goes out, and the calls of hooks on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from panorama.arguments import take_fields
from panorama.cameras.naming import BY_HAND
from panorama.cameras.recording import apply_rule, bare_folders, shown_time
from panorama.cameras.recording_report import RecordingReport
from panorama.cameras.recording_rule import remembered
from panorama.cameras.remarks import remarked
from panorama.commands import command
from panorama.errors import VideoError
from panorama.lines import one_line, shell_word, some
from panorama.store import Store
from panorama.video import Found, FoundVideo, VideoReader

if TYPE_CHECKING:
    from panorama.indexing.changed_folders import LostTime
    from panorama.indexing.parcels import Progress

INDEXED, SKIPPED, FAILED = "indexed", "skipped", "failed"
UNCHANGED = "unchanged since it was indexed"
KNOWN_CONTENT = "the same content is indexed already"
NOT_BEGUN = "empty, and so new that a recorder may have just begun it; the next run looks again"
REMOVED = "removed from the library while it was being indexed; nothing of it was stored"
OWN_CLIP = "a clip that Panorama cut out of a video; to index it, name the file itself"


class Reason(StrEnum):
    """Why a file was skipped. `KNOWN_CONTENT` and `REMOVED` apply once; the others apply again next time."""

    UNCHANGED = "unchanged"
    OTHER_SETTINGS = "other_settings"
    EARLIER_VERSION = "earlier_version"
    DEEPER = "deeper"
    KNOWN_CONTENT = "known_content"
    OWN_CLIP = "own_clip"
    NOT_BEGUN = "not_begun"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome of one file.

    Attributes:
        path: the file as found.
        video: its name in the library, '' if it has none.
        status: 'indexed', 'skipped' (nothing had changed, it is a clip that Panorama wrote, or it was removed
            from the library meanwhile) or 'failed'.
        frames, tracks, crops: counts of the new segment.
        samples: frames sampled.
        unchanged: sampled frames that the change gate skipped.
        video_seconds, seconds: length of the video, and time spent on it.
        stage_seconds: working time per stage; stages work at the same time.
        line: per stage, since the previous file finished: seconds busy, starved (waiting for the previous
            stage) and blocked (waiting for the next stage), and the mean length of its queue.
        paused_seconds: how long indexing paused to let queries run.
        networks: per stage: the model, its format and device, and why no faster one is used.
        note: what was lost, or why the file failed or was skipped.
        damage: what could not be decoded or had to be assumed in a file that the library holds; None for
            nothing.
        reason: why it was skipped; None if it was not.
        found_as: its name by the folder named in this call, if the library keeps another name; else ''.
    """

    path: str
    video: str
    status: str
    frames: int = 0
    tracks: int = 0
    crops: int = 0
    samples: int = 0
    unchanged: int = 0
    video_seconds: float = 0.0
    seconds: float = 0.0
    # Not in the repr: a notebook prints it, and the stages would fill a page for every file.
    stage_seconds: dict[str, float] = field(default_factory=dict, repr=False)
    line: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)
    paused_seconds: float = 0.0
    networks: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    note: str | None = None
    damage: str | None = None
    reason: Reason | None = None
    found_as: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The outcome for JSON; times are rounded to milliseconds."""
        out = asdict(self)
        out["stage_seconds"] = {name: round(value, 3) for name, value in self.stage_seconds.items()}
        out["line"] = {
            stage: {name: round(value, 3) for name, value in told.items()}
            for stage, told in self.line.items()
        }
        for name in ("video_seconds", "seconds", "paused_seconds"):
            out[name] = round(out[name], 3)
        return out


def removed(path: str, seconds: float = 0.0) -> FileOutcome:
    """The outcome of a file that was removed from the library while it was being indexed."""
    return FileOutcome(path, "", SKIPPED, seconds=seconds, note=REMOVED, reason=Reason.REMOVED)


def failed(video: FoundVideo, error: Exception) -> FileOutcome:
    """The outcome of a file that failed with an error."""
    note = str(error)
    if not isinstance(error, VideoError):
        # A defect of Panorama that one odd file triggers must not cost the user all other files.
        kind = type(error).__name__
        note = f"{video.path}: unexpected {kind}: {error}. This is a defect; please report it"
    return FileOutcome(str(video.path), "", FAILED, note=note)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The outcome of an `index` call.

    Attributes:
        files: one outcome per video found, in order; files that another process was working on come last.
        ignored: number of files with unknown suffixes in folders, by suffix.
        missing: paths and patterns that matched nothing.
        empty: named folders that hold no video.
        embedded: stored crops that the current embedder embedded without decoding their video again.
        recording: findings about wall-clock times and cameras; None if there was nothing to index.
        warnings: remarks: registered images that lack vectors of the current embedder, and why; indexed
            videos of a named folder whose files are gone; libraries inside it; times set by hand that were
            lost because a file's content changed; films that hold something else now.
        pictures: skipped folders of pictures, each of which would be a video if the folder were named.
        beside: skipped folders of pictures that would not be a video even then, because they also hold
            videos.
        damaged: data files of the library that are lost or hold damaged crops, which therefore have no
            vectors of the current embedder, and how to make them again.
    """

    files: tuple[FileOutcome, ...]
    ignored: dict[str, int]
    missing: tuple[str, ...]
    empty: tuple[str, ...] = ()
    embedded: int = 0
    recording: RecordingReport | None = None
    warnings: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # A notebook prints it: what became of every file would fill pages.
        counts = {status: len(self.of(status)) for status in (INDEXED, SKIPPED, FAILED)}
        wrong = {"missing": self.missing, "empty": self.empty}
        told = [f"{name}={count}" for name, count in counts.items()]
        told += [f"{name}=<{some(paths, 2)}>" for name, paths in wrong.items() if paths]
        lines = {"damaged": self.damaged, "warnings": self.warnings}
        told += [f"{name}={len(texts)}" for name, texts in lines.items() if texts]
        return f"IndexReport({', '.join(told)})"

    @classmethod
    def of_nothing(cls, found: Found) -> IndexReport:
        """The report when no video was found."""
        unreadable = tuple(FileOutcome(path, "", FAILED, note=note) for path, note in found.unreadable)
        return cls(
            unreadable,
            found.ignored,
            tuple(found.missing),
            tuple(found.empty),
            warnings=library_remarks(found.libraries),
            pictures=tuple(found.pictures),
            beside=tuple(found.beside),
        )

    def of(self, status: str) -> tuple[FileOutcome, ...]:
        """The outcomes with this status."""
        return tuple(f for f in self.files if f.status == status)

    @property
    def networks(self) -> dict[str, dict[str, str]]:
        """Format and device of the networks by stage; empty if no network ran."""
        return next((file.networks for file in self.files if file.networks), {})

    @property
    def complete(self) -> bool:
        """Whether every path is in the library, with its vectors.

        False if anything failed, was missing or was empty, or if stored crops are damaged.
        """
        return not self.missing and not self.empty and not self.of(FAILED) and not self.damaged


def library_remarks(folders: Sequence[str]) -> tuple[str, ...]:
    """One line about libraries found among the footage; empty if there are none."""
    if not folders:
        return ()
    first, more = shell_word(folders[0]), len(folders) - 1
    others = f" (like {more} more)" if more else ""
    return (
        f"{folders[0]} is a Panorama library{others}, not footage; its own files are not indexed. To query"
        f' it: panorama --library {first} query "SELECT ..."',
    )


@dataclass(slots=True)
class Hooks:
    """Callbacks that run during indexing. An exception in one ends the run; finished videos are kept.

    Attributes:
        on_start: called with the file's number from 0, the number of files, the file, and a reader with what
            its container claims.
        on_progress: called a few times a second with the progress of the current file.
        on_file: called with each outcome, once the library holds it.
        on_wait: called with what indexing waits for, when another process does the same work.
        on_anew: called before the first file if some files are indexed again because an earlier version or
            another proposer indexed them: how many, and how many of these with other settings than this
            run's, because they were given once.
    """

    on_start: Callable[[int, int, FoundVideo, VideoReader], None] = lambda *_: None
    on_progress: Callable[[Progress], None] = lambda *_: None
    on_file: Callable[[FileOutcome], None] = lambda *_: None
    on_wait: Callable[[str], None] = lambda *_: None
    on_anew: Callable[[int, int], None] = lambda *_: None

    def __post_init__(self) -> None:
        take_fields(self)


class Dating:
    """Gives the library the recording times and cameras of a run's videos, and reports on all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bare = bare_folders(store, remembered(store))  # once: new videos get their camera right away
        self._found: dict[tuple[str, ...], RecordingReport] = {}

    def date(self, names: Sequence[str]) -> None:
        """Date videos that the library has just got, or looked at again, in one change."""
        if names:
            together = tuple(sorted(names))
            self._found[together] = apply_rule(self._store, set(together), bare=self._bare)

    def report(self, fresh: Collection[str]) -> RecordingReport:
        """What was found out about all these videos; `fresh` are the names of those that are new."""
        names = sorted({name for together in self._found for name in together})
        rule, found = remembered(self._store), [self._found[together] for together in sorted(self._found)]
        if all(part.rule == rule for part in found):
            whole = RecordingReport.of_parts(rule, found)
        else:  # another process has given the library another rule
            whole = apply_rule(self._store, names)
        return remarked(self._store, whole, names, fresh)


def forgotten(store: Store, by_hand: Mapping[str, LostTime]) -> tuple[str, ...]:
    """One line for each video that lost a time set by hand, with the command that sets it again.

    Args:
        by_hand: the times set, by name, of videos whose file turned out to hold something else.
    """
    told = []
    for row in store.recorded(list(by_hand)) if by_hand else ():
        lost = by_hand[row.name]
        unix, zone = lost.recorded.start_time_unix, lost.recorded.time_zone
        if row.recorded.time_from == BY_HAND or unix is None or zone is None:
            continue  # the time stayed, for example because the video could not be decoded
        at = shown_time(unix, zone).removesuffix(f" {zone}")
        word = store.word_for(row.name)
        told.append(
            f"{row.name}: the file holds something else now, so the time set by hand was removed;"
            f"{f' it was that of {one_line(lost.picture)};' if lost.picture else ''}"
            f" if it still applies: {command('clock', word, '--at', at, '--timezone', zone)}"
        )
    return tuple(told)
