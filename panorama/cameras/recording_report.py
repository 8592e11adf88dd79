"""The findings of a rule about some videos come in; lines for people go out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from panorama.cameras.shared_cameras import telling_pattern
from panorama.commands import command
from panorama.lines import counted, some

if TYPE_CHECKING:
    from panorama.cameras.recording_rule import RecordingRule


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """What a rule found out about recording times and cameras.

    Attributes:
        rule: the rule.
        dated: number of videos that got a time from the rule.
        undated: names of the videos whose time it could not determine.
        unnamed: names of the videos that do not fit the pattern of cameras.
        example: one of the dated videos and its local time, '' if there is none.
        changed: number of the library's rows that changed.
        shared: cameras that cover several folders, one of which is new, with these folders.
        split: folders with several cameras, one of which is new there, with these cameras; and a pattern that
            makes one of each folder.
        remark: a remark about times set by hand, '' for none.
        partly: folders of pictures of which only some have a time.
        backwards: those whose last picture was taken before the first: the names are not in order of time.
        kept: names of the videos whose known time stays, because its source cannot be read or gives no time
            now.
        to_come: names of the videos with a time in the future.
        daily: cameras that differ only in a day, one of which is new, with a pattern that makes one of them.
        exif: names of the folders of pictures without a time that are new and whose EXIF tells one, if nobody
            named a source of times.
        exif_unseen: number of such folders whose EXIF was not looked at, because there are many.
        unread: names that look like a time, of videos without one, if nobody named a source of times and one
            of these videos is new; see `panorama.cameras.unread`.
        away: folders of pictures of which some could not be read.
        by: the rules that told the times of these videos, one for each source; several if a zone was named
            for videos that have sources of their own.
    """

    rule: RecordingRule
    dated: int = 0
    undated: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    example: str = ""
    changed: int = 0
    shared: tuple[tuple[str, tuple[PurePath, ...]], ...] = ()
    remark: str = ""
    partly: tuple[str, ...] = ()
    backwards: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    to_come: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    daily: tuple[tuple[str, ...], str] | None = None
    exif: tuple[str, ...] = ()
    exif_unseen: int = 0
    away: tuple[str, ...] = ()
    by: tuple[RecordingRule, ...] = ()
    split: tuple[tuple[tuple[PurePath, tuple[str, ...]], ...], str] | None = None

    @classmethod
    def of_parts(cls, rule: RecordingRule, parts: Iterable[RecordingReport]) -> RecordingReport:
        """One report of those of different videos by one rule; names are in order."""
        every = list(parts)

        def names(of: Callable[[RecordingReport], tuple[str, ...]]) -> tuple[str, ...]:
            return tuple(sorted(name for part in every for name in of(part)))

        return cls(
            rule,
            dated=sum(part.dated for part in every),
            example=next((part.example for part in every if part.example), ""),
            changed=sum(part.changed for part in every),
            undated=names(lambda part: part.undated),
            unnamed=names(lambda part: part.unnamed),
            partly=names(lambda part: part.partly),
            backwards=names(lambda part: part.backwards),
            kept=names(lambda part: part.kept),
            to_come=names(lambda part: part.to_come),
            away=names(lambda part: part.away),
            by=tuple({rule.time_from: rule for part in every for rule in part.by}.values()),
        )

    @property
    def source(self) -> str:
        """Where the times of these videos come from, in words."""
        return " or ".join(rule.source for rule in self.by or (self.rule,))

    def lines(self) -> list[str]:
        """The report as lines for people; empty if there is nothing to report."""
        return [*([self.remark] if self.remark else []), *self._of_times(), *self._of_unread()]

    def _of_times(self) -> list[str]:
        """What the rule told of times, and of which videos it told none."""
        told = []
        if self.dated:
            told.append(
                f"wall-clock time of {counted(self.dated, 'video')} from {self.source}, as {self.example}"
            )
        if self.to_come:
            told.append(
                f"{counted(len(self.to_come), 'video was', 'videos were')} recorded in the future by that;"
                f" perhaps --timezone or the clock is wrong: {some(self.to_come)}"
            )
        if self.partly:
            told.append(
                f"in {counted(len(self.partly), 'folder')} of pictures some have no time of their own; their"
                f" clock is unknown: {some(self.partly)}"
            )
        if self.away:
            told.append(
                f"in {counted(len(self.away), 'folder')} of pictures some could not be read, and their clock"
                f" is unknown; the next `index` reads them if it can: {some(self.away)}"
            )
        if self.kept:
            told.append(
                f"{counted(len(self.kept), 'video keeps', 'videos keep')} the wall-clock time already known,"
                f" since {self._why_kept()}: {some(self.kept)}"
            )
        if self.backwards:
            told.append(
                f"in {counted(len(self.backwards), 'folder')} of pictures the last was taken before the"
                " first; perhaps a counter restarted. They are ordered by name; to order them by time, make a"
                f" folder for each round of the counter: {some(self.backwards)}"
            )
        if self.undated:
            told.append(
                f"{counted(len(self.undated), 'video has', 'videos have')} no wall-clock time from"
                f" {self.source}: {some(self.undated)}"
            )
        return told

    def _of_unread(self) -> list[str]:
        """What of cameras and times the names or the EXIF may tell, but not by this rule."""
        told = []
        if self.unnamed:
            told.append(
                f"{counted(len(self.unnamed), 'name does', 'names do')} not fit --camera-from"
                f" {self.rule.camera_from!r}, so the camera is the folder: {some(self.unnamed)}"
            )
        if self.unread:
            told.append(
                f"{counted(len(self.unread), 'name looks', 'names look')} like a recording time, such as"
                f" {self.unread[0]}, but no time was read, so what lies in one folder counts as one day; to"
                f" read such names from now on: {command('clock', '--time-from', 'name')}"
            )
        if self.exif:
            unseen = f" ({self.exif_unseen:,} others were not looked at)" if self.exif_unseen else ""
            told.append(
                f"the EXIF of {counted(len(self.exif), 'folder')} of pictures says when they were taken, but"
                f" no time was read: {some(self.exif)}{unseen}; to read it from now on:"
                f" {command('clock', '--time-from', 'metadata')}"
            )
        if self.daily is not None:
            cameras, pattern = self.daily
            told.append(
                f"{counted(len(cameras), 'camera')} differ only in a day: {some(cameras)}; if each is one"
                f" camera on all days: {command('clock', '--camera-from', pattern)}"
            )
        if self.split is not None:
            split, pattern = self.split
            (folder, cameras), more = split[0], f" (and {len(split) - 1} more)" if split[1:] else ""
            told.append(
                f"videos of one folder have several cameras, {some(cameras)}: {folder}{more}; a camera is the"
                " path below the folder that was indexed. To make each folder one camera:"
                f" {command('clock', '--camera-from', pattern)}"
            )
        told.extend(
            f"camera {camera!r} covers {counted(len(folders), 'folder')}: {some([str(f) for f in folders])};"
            " if each is its own camera: " + command("clock", "--camera-from", telling_pattern(folders))
            for camera, folders in self.shared
        )
        return told

    def _why_kept(self) -> str:
        named = [rule.source for rule in self.by if rule.reads_names]
        why = ["the file is gone or cannot be read"] * (len(named) < len(self.by))
        why += [f"{' or '.join(named)} gives none where the file is now"] * bool(named)
        return ", or ".join(why)
