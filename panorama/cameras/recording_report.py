"""What a rule told of some videos enters; lines for people about it leave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from panorama.cameras.shared_cameras import telling_pattern
from panorama.commands import command
from panorama.lines import counted, some

if TYPE_CHECKING:
    from panorama.cameras.recording import RecordingRule


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """What a rule found out.

    Attributes:
        rule: the rule.
        dated: videos whose time it told.
        undated: names of those whose time it could not tell.
        unnamed: names of those whose name does not fit the pattern of cameras.
        example: one of the dated and its local time, '' where there is none.
        changed: rows of the library that are other than before.
        shared: cameras that are several folders, one of which is new, with those folders.
        remark: what else to say of times that were set by hand, '' for nothing.
        slower: folders of pictures with a time of their first, whose last was taken later than it is shown.
        backwards: those whose last was taken before the first: names are not in the order of time.
        to_come: names of those whose time has not come yet.
        kept: names of those whose time stays as it was known: what told it cannot be read, or tells none now.
    """

    rule: RecordingRule
    dated: int = 0
    undated: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    example: str = ""
    changed: int = 0
    shared: tuple[tuple[str, tuple[PurePath, ...]], ...] = ()
    remark: str = ""
    slower: tuple[str, ...] = ()
    backwards: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    to_come: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The account for people; nothing where nothing was asked for."""
        told = [self.remark] if self.remark else []
        if self.dated:
            told.append(
                f"wall-clock time of {counted(self.dated, 'video')} from {self.rule.source},"
                f" as {self.example}"
            )
        if self.to_come:
            told.append(
                f"{counted(len(self.to_come), 'video was', 'videos were')} recorded in the future by that;"
                f" perhaps --timezone or the clock is wrong: {some(self.to_come)}"
            )
        if self.slower:
            told.append(
                f"in {counted(len(self.slower), 'folder')} of pictures only the first has this time, since"
                f" the others were taken farther apart than they are in the video: {some(self.slower)}"
            )
        if self.kept:
            told.append(
                f"{counted(len(self.kept), 'video keeps', 'videos keep')} the wall-clock time already known,"
                f" since {self._why_kept()}: {some(self.kept)}"
            )
        if self.backwards:
            told.append(
                f"in {counted(len(self.backwards), 'folder')} of pictures the last was taken before the"
                " first; perhaps a counter restarted. They are ordered by name; to correct that, make a"
                f" folder for each round of the counter: {some(self.backwards)}"
            )
        if self.undated:
            told.append(
                f"{counted(len(self.undated), 'video has', 'videos have')} no wall-clock time from"
                f" {self.rule.source}: {some(self.undated)}"
            )
        if self.unnamed:
            told.append(
                f"{counted(len(self.unnamed), 'name does', 'names do')} not fit --camera-from"
                f" {self.rule.camera_from!r}, so the camera is the folder: {some(self.unnamed)}"
            )
        told.extend(
            f"camera {camera!r} covers {counted(len(folders), 'folder')}: {some([str(f) for f in folders])};"
            " if each is its own camera: " + command("clock", "--camera-from", telling_pattern(folders))
            for camera, folders in self.shared
        )
        return told

    def _why_kept(self) -> str:
        if self.rule.time_from == "metadata":
            return "the file is gone or cannot be read"
        return f"{self.rule.source} gives none where the file is now"
