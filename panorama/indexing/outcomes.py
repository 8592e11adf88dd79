"""What became of one file enters; the account of all leaves, and what a caller hears on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from panorama.arguments import take_fields
from panorama.cameras.recording import (
    BY_HAND,
    RecordingReport,
    apply_rule,
    bare_folders,
    remembered,
    shown_time,
)
from panorama.commands import command
from panorama.errors import VideoError
from panorama.lines import shell_word
from panorama.store import Recorded, Store
from panorama.video import Found, FoundVideo, VideoReader

if TYPE_CHECKING:
    from panorama.indexing.parcels import Progress

INDEXED, SKIPPED, FAILED = "indexed", "skipped", "failed"
UNCHANGED = "unchanged since it was indexed"
KNOWN_CONTENT = "the same content is indexed already"
OWN_CLIP = "a clip that Panorama cut out of a video; to index it, name the file itself"


class Reason(StrEnum):
    """Why a file was skipped; of `KNOWN_CONTENT` it is news, of the others it will be so next time, too."""

    UNCHANGED = "unchanged"
    OTHER_SETTINGS = "other_settings"
    EARLIER_VERSION = "earlier_version"
    DEEPER = "deeper"
    KNOWN_CONTENT = "known_content"
    OWN_CLIP = "own_clip"


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file.

    Attributes:
        path: the file as found.
        video: its name in the library, '' where it has none.
        status: 'indexed', 'skipped' (nothing had changed, or it is a clip of Panorama's own) or 'failed'.
        frames, tracks, crops: counts of the new segment.
        video_seconds, seconds: length of the video and time spent on it.
        stage_seconds: time at work on it by stage; stages work at the same time.
        line: of each stage since the file before was settled: seconds busy, starved (waiting for the stage
            before) and blocked (waiting for the one behind), and the mean length of its queue.
        paused_seconds: how long indexing stood back for queries.
        unchanged: sampled frames that the change gate passed over.
        networks: by stage, the model and the format and device it runs in, and why not in a faster one.
        note: what was lost, or why it failed or was skipped.
        reason: why it was skipped, None where it was not.
        found_as: its name by the folder that was named now, where it keeps another; '' where it does not.
        damage: what of a file that the library holds was not decoded or had to be assumed, None: nothing.
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
    # A notebook shows a report by its repr: what each stage did is a page for every file.
    stage_seconds: dict[str, float] = field(default_factory=dict, repr=False)
    line: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)
    paused_seconds: float = 0.0
    networks: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    note: str | None = None
    damage: str | None = None
    reason: Reason | None = None
    found_as: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; times are rounded to milliseconds."""
        out = asdict(self)
        out["stage_seconds"] = {name: round(value, 3) for name, value in self.stage_seconds.items()}
        out["line"] = {
            stage: {name: round(value, 3) for name, value in told.items()}
            for stage, told in self.line.items()
        }
        for name in ("video_seconds", "seconds", "paused_seconds"):
            out[name] = round(out[name], 3)
        return out


def failed(video: FoundVideo, error: Exception) -> FileOutcome:
    """What became of a file that gives nothing."""
    note = str(error)
    if not isinstance(error, VideoError):
        # A defect of ours that one odd file brings out must not cost the user all the others.
        kind = type(error).__name__
        note = f"{video.path}: unexpected {kind}: {error}. This is a defect; please report it"
    return FileOutcome(str(video.path), "", FAILED, note=note)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What became of all paths.

    Attributes:
        files: one outcome per video found, in order; those that another process was at come last.
        ignored: files of unknown suffix in folders, counted by suffix.
        missing: paths and patterns that matched nothing.
        empty: folders that were named and hold no video.
        pictures: folders whose pictures were passed over, and would be a video if the folder were named.
        beside: folders whose pictures were passed over, and would not be one, since videos lie there, too.
        embedded: stored crops that got vectors of this model without decoding their video again.
        recording: what was found out about wall-clock times and cameras, None where nothing was asked.
        warnings: remarks for people: registered pictures that have not all vectors of this model, and why;
            videos that were indexed from a folder that was named, and whose files are gone; libraries in it;
            times set by hand that went with what a file held.
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

    @classmethod
    def of_nothing(cls, found: Found) -> IndexReport:
        """Nothing was found to index."""
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
        """The outcomes with one status."""
        return tuple(f for f in self.files if f.status == status)

    @property
    def networks(self) -> dict[str, dict[str, str]]:
        """What the networks of what was indexed ran in; nothing where none ran."""
        return next((file.networks for file in self.files if file.networks), {})

    @property
    def complete(self) -> bool:
        """Whether every path gave a segment."""
        return not self.missing and not self.empty and not self.of(FAILED)


def library_remarks(folders: Sequence[str]) -> tuple[str, ...]:
    """One line about libraries that were found where footage was looked for."""
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
    """What the caller wants to hear while indexing runs.

    Attributes:
        on_start: file number from 0, number of files, the file and what its container claims.
        on_progress: a few times a second for the file at work, how far it is then.
        on_file: each outcome, once the library holds it.
        on_wait: what is waited for, where another process is at the same work.
        on_anew: before the first file, where some are indexed anew since an earlier version, or another
            proposer, indexed them: how many, and for how many of these other settings than those of now had
            been named.
    """

    on_start: Callable[[int, int, FoundVideo, VideoReader], None] = lambda *_: None
    on_progress: Callable[[Progress], None] = lambda *_: None
    on_file: Callable[[FileOutcome], None] = lambda *_: None
    on_wait: Callable[[str], None] = lambda *_: None
    on_anew: Callable[[int, int], None] = lambda *_: None

    def __post_init__(self) -> None:
        take_fields(self)


def dating(store: Store, hooks: Hooks | None) -> Hooks:
    """The hooks; before a file is told, the library learns when and by which camera it was recorded."""
    told = hooks or Hooks()
    bare = bare_folders(store, remembered(store))  # once: what is indexed now gets its camera at once

    def on_file(outcome: FileOutcome) -> None:
        if outcome.video:
            apply_rule(store, None, {outcome.video}, bare=bare)
        told.on_file(outcome)

    return replace(told, on_file=on_file)


def forgotten(store: Store, by_hand: Mapping[str, Recorded]) -> tuple[str, ...]:
    """A line for each video whose time was set by hand, and is so no more; how to set it again.

    Args:
        by_hand: what was set, by name, of videos whose file was found to hold something else.
    """
    told = []
    for row in store.recorded(list(by_hand)) if by_hand else ():
        unix, zone = by_hand[row.name].start_time_unix, by_hand[row.name].time_zone
        if row.recorded.time_from == BY_HAND or unix is None or zone is None:
            continue  # as of one that could not be decoded: it stays as it was
        at = shown_time(unix, zone).removesuffix(f" {zone}")
        told.append(
            f"{row.name}: the file holds something else now, so the time set by hand was removed;"
            f" if it still applies: {command('clock', row.name, '--at', at, '--timezone', zone)}"
        )
    return tuple(told)
