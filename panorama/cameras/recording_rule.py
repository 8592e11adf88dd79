"""The parts of a rule come in; what it says about sources of times and cameras goes out.

The rule that a library keeps, and what somebody named for single videos, are read here, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from panorama.arguments import take_fields
from panorama.cameras.naming import METADATA, NAME, NONE, NamePattern, without_camera
from panorama.commands import command
from panorama.errors import UsageError
from panorama.store import Store
from panorama.store.catalog.recorded import OwnRule, zone_named

SETTING = "recording"
"""The setting in which a library keeps its rule, so that the next `index` applies it too."""

FOLDER = "folder"
"""Camera of a video: the folder that it lies in."""

NOT_NAMED = ""
"""Source of times of a library for which nobody named one: times are read from nowhere, as with `NONE`, but
names that look like recording times are remarked on."""

OPTIONS = {"time_from": "--time-from", "zone": "--timezone", "camera_from": "--camera-from"}
"""The parts of a rule, and the options that name them."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """Where the wall-clock times and cameras of videos come from.

    Attributes:
        time_from: 'none', 'metadata' (of the container), 'name' (the usual timestamps in names) or a pattern,
            see `panorama.cameras.naming`. The default is as 'none', with a remark on names that look like
            recording times.
        zone: IANA time zone of the cameras' clocks; '' for that of this computer.
        camera_from: 'folder' or a pattern with {camera}; the pattern in `time_from` may contain {camera},
            too.
    """

    time_from: str = NOT_NAMED
    zone: str = ""
    camera_from: str = FOLDER

    def __post_init__(self) -> None:
        take_fields(self)
        if not self.zone:
            object.__setattr__(self, "zone", local_zone())
        zone_named(self.zone)
        self.time_pattern()
        self.camera_pattern()

    def time_pattern(self) -> NamePattern | None:
        """The pattern for times; None if they come from elsewhere."""
        kinds = (NOT_NAMED, NONE, METADATA, NAME)
        return None if self.time_from in kinds else NamePattern(self.time_from)

    @property
    def has_source(self) -> bool:
        """Whether it reads times from anywhere."""
        return self.time_from not in (NOT_NAMED, NONE)

    @property
    def reads_names(self) -> bool:
        """Whether it reads times from the names of files."""
        return self.has_source and self.time_from != METADATA

    @property
    def naming_cameras(self) -> str:
        """The patterns that contain the camera; '' if the camera is the folder."""
        return " ".join(text.strip() for text in (self.camera_from, self.time_from) if "{camera}" in text)

    @property
    def source(self) -> str:
        """The source of the times, in words."""
        names = {METADATA: "the container's metadata", NAME: "the timestamp in the name"}
        return names.get(self.time_from, f"the pattern {self.time_from!r}")

    def camera_pattern(self) -> NamePattern | None:
        """The pattern for cameras; None if the camera is the folder."""
        if self.camera_from == FOLDER:
            return None
        return NamePattern(self.camera_from, wants_time=False)


def local_zone() -> str:
    """IANA time zone of this computer: $TZ, which may be a name or a file, else /etc/localtime, else UTC.

    Raises:
        UsageError: the computer's time zone has no such name, as that of the rule CET-1CEST.
    """
    found = os.environ.get("TZ", "").removeprefix(":") or "/etc/localtime"
    if not (found.startswith("/") or re.search(r"\d", found)):
        return found  # if it is misspelt, the rule's own check suggests names
    if found.startswith("/"):
        place = Path(found)
        if not place.exists():
            return "UTC"
        found = str(place.resolve()).partition("zoneinfo/")[2]
    if found not in available_timezones():
        raise UsageError("the time zone of this machine has no name; give one with --timezone Europe/Berlin")
    return found


def remembered(store: Store | None) -> RecordingRule:
    """The rule that the library keeps; the default if it keeps none or does not exist yet.

    Raises:
        UsageError: a part that it keeps cannot be used here; says which, and how to name another.
    """
    kept = None if store is None else store.setting(SETTING)
    return RecordingRule(zone="UTC") if kept is None else completed(kept, {})


def completed(kept: Mapping[str, Any] | None, named: Mapping[str, str]) -> RecordingRule:
    """A rule of which some parts are named; the others are the library's.

    If folders are named as cameras, and no source of times, the library's pattern of times loses its
    {camera}. A part that the library keeps is looked at only if none is named in its place.

    Args:
        kept: the library's setting, None if it keeps no rule.
        named: parts of the rule by the names of its attributes.

    Raises:
        UsageError: a part cannot be used here.
    """
    whole = {**(kept or {}), **named}
    if named.get("camera_from") == FOLDER and "time_from" in whole.keys() - named.keys():
        whole["time_from"] = without_camera(whole["time_from"])
    for part in whole.keys() - named.keys():
        try:
            RecordingRule(**{"zone": "UTC", part: whole[part]})
        except UsageError as exc:
            another = command("clock", OPTIONS[part], {"camera_from": FOLDER, "zone": "UTC"}.get(part, NONE))
            raise UsageError(
                f"{OPTIONS[part]} {whole[part]!r}, which this library keeps, cannot be used: {exc}."
                f" Name another: {another}"
            ) from exc
    return RecordingRule(**whole)


def kept_zone(kept: Mapping[str, Any] | None) -> str:
    """The time zone of the cameras' clocks that a library keeps with its rule; '' if it keeps no rule.

    Args:
        kept: the library's setting. Not the result of `remembered`, which says UTC for a missing rule, too.
    """
    return "" if kept is None else str(kept["zone"])


def remember(store: Store, rule: RecordingRule) -> None:
    """Keep a rule in the library."""
    store.put_setting(SETTING, asdict(rule))


@dataclass(frozen=True, slots=True)
class Naming:
    """A rule that somebody names, and which of its parts.

    Attributes:
        rule: the rule as a whole, completed from the library's.
        parts: the names of those of its attributes that are named.
        for_all: whether it is named for all videos, and becomes the library's.
    """

    rule: RecordingRule
    parts: Collection[str] = tuple(OPTIONS)
    for_all: bool = False

    @property
    def times(self) -> bool:
        """Whether times have to be read again."""
        return "time_from" in self.parts or "zone" in self.parts

    @property
    def cameras(self) -> bool:
        """Whether a source of cameras is named."""
        return "camera_from" in self.parts

    @property
    def named(self) -> RecordingRule:
        """Only the parts that are named; the others read nothing."""
        rule = self.rule if "time_from" in self.parts else replace(self.rule, time_from=NONE)
        return rule if self.cameras else replace(rule, camera_from=FOLDER)

    def own(self, before: OwnRule, kept: RecordingRule) -> OwnRule:
        """What a video has of its own from now on.

        Args:
            before: what it had of its own.
            kept: the library's rule; nobody needs parts of their own that are as in this one. Its zone counts
                only if it reads times: otherwise a later one for the library would go before this one.
        """
        own, counts = before, kept.time_from != NOT_NAMED
        if "time_from" in self.parts:
            source = self.rule.time_from
            is_kept = self.for_all or source in (kept.time_from, NOT_NAMED)
            own = replace(own, time_from=None if is_kept else source)
        # A source alone needs a zone, too: the machine's, where neither video nor library has one.
        if "zone" in self.parts or (own.time_from and not (own.time_zone or counts)):
            is_kept = self.for_all or (counts and self.rule.zone == kept.zone)
            own = replace(own, time_zone=None if is_kept else self.rule.zone)
        if self.cameras:
            source, by_time = self.rule.camera_from, bool(self.rule.naming_cameras)
            if source == FOLDER and not by_time and own.time_from:
                own = replace(own, time_from=without_camera(own.time_from))
            # With folders as source, the pattern of times may still give cameras.
            is_kept = source == kept.camera_from and (
                source != FOLDER or by_time == bool(kept.naming_cameras)
            )
            own = replace(own, camera_from=None if self.for_all or is_kept else source)
        is_own = "time_from" in self.parts and not self.for_all
        if is_own and own.camera_from == FOLDER and "{camera}" in self.rule.time_from:
            own = replace(own, time_from=self.rule.time_from)  # as the library's it would lose its {camera}
        return own


def rule_of(own: OwnRule, kept: RecordingRule) -> RecordingRule:
    """The rule for a video: the library's, with what was named for this video in its place."""
    if own == OwnRule():
        return kept
    kept_source = without_camera(kept.time_from) if own.camera_from == FOLDER else kept.time_from
    return RecordingRule(
        own.time_from or kept_source,
        own.time_zone or kept.zone,
        own.camera_from or kept.camera_from,
    )
