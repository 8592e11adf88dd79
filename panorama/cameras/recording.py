"""How times and cameras are to be told enters; when and by which camera each video was recorded leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path, PurePath
from typing import Any
from zoneinfo import available_timezones

from panorama.arguments import take_fields
from panorama.cameras.naming import NamePattern, Told, folder_camera, usual_stamp, without_camera
from panorama.cameras.recording_report import RecordingReport
from panorama.cameras.shared_cameras import shared_cameras
from panorama.errors import UsageError, VideoError
from panorama.lines import counted, some
from panorama.store import Recorded, RecordedRow, Store
from panorama.store.catalog.recorded import has_date, zone_named
from panorama.video import DEFAULT_RATE, pictures_in, recorded_at, taken_seconds, was_set

SETTING = "recording"
"""Where a library keeps its rule, so that the next `index` does the same."""

BY_HAND = "hand"
"""Source of a time that somebody set for one video; a rule does not change it."""

NONE, METADATA, NAME, FOLDER = "none", "metadata", "name", "folder"

NEARLY_RIGHT_SECONDS = 10
"""How much later than in its video the last picture of a folder may have been taken without a word: a burst
at one picture a second is shown in a fifth of its time, and whoever asks for minutes finds it still."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """Where times and cameras come from.

    Attributes:
        time_from: 'none', 'metadata' (of the container), 'name' (the usual stamps) or a pattern, see
            `panorama.cameras.naming`.
        zone: IANA name of the zone of the cameras' wall clocks; '' for that of this machine.
        camera_from: 'folder' or a pattern with {camera}; a pattern in `time_from` may name it, too.
    """

    time_from: str = NONE
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
        """The pattern of times, None where they come from elsewhere."""
        return None if self.time_from in (NONE, METADATA, NAME) else NamePattern(self.time_from)

    @property
    def naming_cameras(self) -> str:
        """The patterns that tell the camera, '' where the folder does."""
        return " ".join(text.strip() for text in (self.camera_from, self.time_from) if "{camera}" in text)

    @property
    def source(self) -> str:
        """What tells the times, in words."""
        names = {METADATA: "the container's metadata", NAME: "the timestamp in the name"}
        return names.get(self.time_from, f"the pattern {self.time_from!r}")

    def camera_pattern(self) -> NamePattern | None:
        """The pattern of cameras, None where the folder is the camera."""
        if self.camera_from == FOLDER:
            return None
        return NamePattern(self.camera_from, wants_time=False)


def local_zone() -> str:
    """IANA name of this machine's zone: $TZ, else where /etc/localtime leads, else UTC.

    Raises:
        UsageError: it has a zone without such a name.
    """
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named
    place = Path("/etc/localtime")
    if not place.exists():
        return "UTC"
    found = str(place.resolve()).partition("zoneinfo/")[2]
    if found not in available_timezones():
        raise UsageError("the time zone of this machine has no name; give one with --timezone Europe/Berlin")
    return found


def remembered(store: Store | None) -> RecordingRule:
    """The rule that the library keeps, the default where it keeps none or there is no library yet."""
    kept = None if store is None else store.setting(SETTING)
    return RecordingRule(NONE, "UTC") if kept is None else RecordingRule(**kept)


def kept_zone(kept: Mapping[str, Any] | None) -> str:
    """The zone of the cameras' clocks that a library keeps with its rule, '' where it keeps none.

    Args:
        kept: the setting: a rule may say UTC, which is what `remembered` says where there is none.
    """
    return "" if kept is None else str(kept["zone"])


def remember(store: Store, rule: RecordingRule) -> None:
    """Keep a rule in the library."""
    store.put_setting(SETTING, asdict(rule))


def check_fits(rule: RecordingRule, paths: Sequence[Path]) -> None:
    """Raise where a pattern fits none of many names: better now than after hours of indexing.

    Raises:
        UsageError: naming the pattern and some of the names.
    """
    shown = some([_end_of(path) for path in paths])
    zone = zone_named(rule.zone)
    dated = (_named(str(path.resolve()), rule).unix(zone) is not None for path in paths)
    if rule.time_from not in (NONE, METADATA) and paths and not any(dated):
        raise UsageError(
            f"{rule.source} gives no time for any of {counted(len(paths), 'video')}: {shown}. A pattern"
            " must match the whole name; * matches anything: {camera}_%Y%m%d-%H%M%S*"
        )
    pattern = rule.camera_pattern()
    if pattern is not None and paths and not any(pattern.read(str(path.resolve())) for path in paths):
        raise UsageError(
            f"--camera-from {rule.camera_from!r} fits none of {counted(len(paths), 'video')}: {shown}"
        )


def _end_of(path: Path) -> str:
    """The end of a path as it was found; of a link also where it leads, which is what counts."""
    found, own = "/".join(path.parts[-3:]), path.resolve()
    return f"{found} (a link to {'/'.join(own.parts[-3:])})" if own.name != path.name else found


def apply_rule(
    store: Store,
    rule: RecordingRule | None,
    videos: Collection[str] | None = None,
    fresh: Collection[str] | None = (),
    bare: dict[PurePath, list[str]] | None = None,
    times: bool = True,
) -> RecordingReport:
    """Store what a rule tells of some videos, None for all; times set by hand stay.

    A video whose time the rule cannot tell has none afterwards, except under 'none', which tells nothing and
    changes no time; what would be told by a file that cannot be read stays as it was known, and so does what
    this rule told of it where it lay before. Where the folder is the camera, it becomes that of all its
    videos that have none. No video is decoded. What it takes goes by the number of `videos`, given `bare` and
    nothing fresh.

    Args:
        rule: None for that which the library keeps, also where another process names one meanwhile.
        fresh: those that the library did not hold before, None for all: a folder that shares its camera with
            another is told when it comes.
        bare: as `bare_folders` gave them; of a folder that gives its videos their camera, they are taken out.
        times: False for cameras alone.
    """
    by, rows, joined = rule or remembered(store), store.recorded(videos), []
    if by.camera_from == FOLDER:
        joined = _of_folders(store, rows, bare_folders(store, by) if bare is None else bare)
    while (report := _by_rule(store, by, rows, joined, times)) is None:  # another process was at it
        by, rows = rule or remembered(store), store.recorded(videos)
        joined = _without_camera(store, [row.name for row in joined])
    told = by.camera_from == FOLDER and (fresh is None or bool(fresh))
    return replace(report, shared=shared_cameras(store.recorded(), fresh)) if told else report


def _by_rule(
    store: Store,
    rule: RecordingRule,
    rows: Sequence[RecordedRow],
    joined: Sequence[RecordedRow],
    times: bool,
) -> RecordingReport | None:
    """Store what a rule tells of videos as they were read; None where one of them is no longer so.

    Args:
        joined: videos whose folder becomes their camera, and of which nothing else is told.
    """
    zone = zone_named(rule.zone)
    changes, known = {}, {row.name: row.recorded for row in (*joined, *rows)}
    for row in joined:
        camera = folder_camera(row.uri, row.root, row.name)
        changes[row.name] = replace(row.recorded, camera=camera, camera_from="")
    undated, unnamed, kept, example, dated = [], [], [], "", 0
    slower: list[str] = []
    backwards: list[str] = []
    for row in rows:
        filmed, told, fits = _filmed(row, rule)
        changes[row.name] = filmed
        if not fits:
            unnamed.append(row.name)
        if not times or rule.time_from == NONE or row.recorded.time_from == BY_HAND:
            continue
        now, asked = _dated(row.uri, filmed, told, rule, zone)
        changes[row.name] = now
        if now.start_time_unix is None:
            undated.append(row.name)
        elif not asked:
            kept.append(row.name)
        else:
            dated += 1
            late = _late_seconds(Path(row.uri), zone) if now.time_from == METADATA else None
            if late is not None:
                (slower if late > 0 else backwards).append(row.name)
            example = example or f"{row.name} at {shown_time(now.start_time_unix, rule.zone)}"
    # Most videos of a library that is indexed again are as they were: that waits for no other writer.
    others = {name: now for name, now in changes.items() if now != known[name]}
    changed = store.put_recorded(others, known)
    if changed is None:
        return None
    return RecordingReport(
        rule,
        dated,
        tuple(undated),
        tuple(unnamed),
        example,
        changed,
        slower=tuple(slower),
        kept=tuple(kept),
        backwards=tuple(backwards),
        to_come=tuple(row.name for row in rows if _is_to_come(changes[row.name], rule)),
    )


def _is_to_come(now: Recorded, rule: RecordingRule) -> bool:
    """Whether a rule told a time that has not come yet."""
    unix = now.start_time_unix
    return now.time_from == rule.time_from and unix is not None and unix > time.time() + NEARLY_RIGHT_SECONDS


def _late_seconds(path: Path, zone: tzinfo) -> float | None:
    """How much later the last picture of a folder was taken than its video shows it, where that matters.

    Below 0 where it was taken before the first, else more than `NEARLY_RIGHT_SECONDS`. None for the others,
    for folders that do not say it, and for films.
    """
    apart = taken_seconds(path, zone)
    if apart is None or apart < 0:
        return apart
    late = apart - float(len(pictures_in(path)) / DEFAULT_RATE)
    return late if late > NEARLY_RIGHT_SECONDS else None


def bare_folders(store: Store, rule: RecordingRule) -> dict[PurePath, list[str]]:
    """Videos without a camera by folder, where a folder is one: they were indexed when it was none."""
    folders: dict[PurePath, list[str]] = {}
    for name, uri in store.without_camera() if rule.camera_from == FOLDER else ():
        folders.setdefault(PurePath(uri).parent, []).append(name)
    return folders


def _of_folders(
    store: Store, rows: Sequence[RecordedRow], bare: dict[PurePath, list[str]]
) -> list[RecordedRow]:
    """Videos that still have no camera in the folders of `rows`, which are no more bare then."""
    folders = {PurePath(row.uri).parent for row in rows} if bare else ()
    names = [name for folder in folders for name in bare.pop(folder, ())]
    return _without_camera(store, names)  # asked again: another process may have given them one


def _without_camera(store: Store, names: Sequence[str]) -> list[RecordedRow]:
    """Those of some videos that have no camera."""
    return [row for row in store.recorded(names) if not row.recorded.camera] if names else []


def date_videos(
    store: Store,
    videos: Sequence[str] | None,
    rule: RecordingRule | None,
    start: str | None,
    zone: str,
    first: str | None = None,
    times: bool = True,
) -> RecordingReport:
    """Say when videos, None for all, were recorded: by a rule, which all of them then keep, or by hand.

    Args:
        times: False where only cameras are asked of the rule.

    Raises:
        UsageError: not one of rule, start and first start is given, a start is no date with a time, or a
            pattern fits no name.
    """
    if sum(given is not None for given in (rule, start, first)) != 1:
        raise UsageError("give either a rule (--time-from), a start (--at) or a first start (--first-at)")
    if first is not None:
        return _move(store, videos, first, zone)
    if rule is not None:
        rows = store.recorded(videos)
        check_fits(rule if times else replace(rule, time_from=NONE), [Path(row.uri) for row in rows])
        if videos is None:
            remember(store, rule)
        return apply_rule(store, rule, videos, fresh=None, times=times)
    if videos is None:
        raise UsageError("name the videos whose start this is")
    return _begin(store, videos, start or "", zone)


def _begin(store: Store, videos: Sequence[str], start: str, zone: str) -> RecordingReport:
    """Say at which moment all of some videos began; '' makes it unknown.

    Args:
        zone: of `start`, and from now on of the videos; '' for that which each has, else that which the
            library keeps, else that of this machine.

    Raises:
        UsageError: the start is no date with a time, or not one moment in the zones of the videos.
    """
    library_zone, changed = kept_zone(store.setting(SETTING)), None
    begun: dict[float, str] = {}
    while changed is None:  # where another process changed one of them meanwhile, its camera is to stay
        known = {row.name: row.recorded for row in store.recorded(videos)}
        changes = {name: before.begun() for name, before in known.items()}
        begun.clear()
        for name, before in known.items() if start else ():
            own = zone or before.time_zone or library_zone or local_zone()
            unix = _typed_unix(start, zone_named(own))
            changes[name] = before.begun(unix, own, BY_HAND)
            begun.setdefault(unix, own)
        if len(begun) > 1:
            raise UsageError(
                f"the clocks of these videos are in several time zones ({', '.join(sorted(begun.values()))}),"
                f" so {start!r} is not a single moment; name its zone with --timezone"
            )
        changed = store.put_recorded(changes, known)
    rule = RecordingRule(zone=zone or library_zone or "UTC")
    return RecordingReport(rule, changed=changed, remark=_begun_remark(list(changes), begun))


def _begun_remark(names: Sequence[str], begun: Mapping[float, str]) -> str:
    """When videos begin that were told it, '' where it is unknown now."""
    for unix, zone in begun.items():
        shown = shown_time(unix, zone)
        if len(names) == 1:
            return f"{names[0]} begins at {shown}"
        return f"{len(names)} videos begin at the same moment, {shown}; --first-at keeps their intervals"
    return ""


def _move(store: Store, videos: Sequence[str] | None, first: str, zone: str) -> RecordingReport:
    """Say when the first of some videos was recorded; the others stay as far behind it: a clock was wrong.

    Args:
        zone: of `first`, and from now on of the videos; '' for that which they have.

    Raises:
        UsageError: no videos are given, the time of one is unknown, some and not all were set by hand, the
            start is no date with a time, or one would come after all dates.
    """
    if not videos:
        raise UsageError("name the videos whose clock was wrong")
    known = [(row, row.recorded) for row in store.recorded(videos)]
    times = {row.name: now.start_time_unix for row, now in known if now.start_time_unix is not None}
    unknown = [row.name for row, _ in known if row.name not in times]
    if unknown:
        raise UsageError(f"no wall-clock time to correct is known for: {some(unknown)}")
    by_hand = [row.name for row, now in known if now.time_from == BY_HAND]
    if 0 < len(by_hand) < len(known):
        # As where a camera went on with its wrong clock: those put right before would be moved once more.
        raise UsageError(
            f"these times come from different clocks: those of {some(by_hand)} were set by hand,"
            " the others were not; name only the one or the other"
        )
    earliest = min(times, key=lambda name: times[name])
    before = next(now for row, now in known if row.name == earliest)
    rule = RecordingRule(zone=zone or before.time_zone or "")
    by = _typed_unix(first, zone_named(rule.zone)) - times[earliest]
    if late := [name for name, unix in times.items() if not has_date(unix + by)]:
        raise UsageError(f"with {first!r} for the first, these would be later than any date: {some(late)}")
    changes = {
        row.name: now.begun(times[row.name] + by, zone or now.time_zone, BY_HAND) for row, now in known
    }
    remark = (
        f"{'put back' if by < 0 else 'put forward'} by {timedelta(seconds=abs(by))}: "
        f"the first is {earliest} at {shown_time(times[earliest] + by, rule.zone)}"
    )
    changed = store.put_recorded(changes, {row.name: now for row, now in known})
    if changed is None:  # another process moved one of them meanwhile
        return _move(store, videos, first, zone)
    return RecordingReport(rule, changed=changed, remark=remark)


def shown_time(unix: float, zone: str) -> str:
    """Local time and zone, for people."""
    moment = datetime.fromtimestamp(unix, UTC).astimezone(zone_named(zone))
    return f"{moment:%Y-%m-%d %H:%M:%S} {zone}"


def _typed_unix(text: str, zone: tzinfo) -> float:
    try:
        moment = None if _is_date(text) else datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None:
        raise UsageError(f"a start is a date with a time, '2026-03-01 10:00:00', got {text!r}")
    unix = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    if not has_date(unix):
        raise UsageError(f"a start lies in the years 2 to 9997, got {text!r}")
    shown = datetime.fromtimestamp(unix, UTC).astimezone(zone).replace(tzinfo=None)
    if moment.tzinfo is None and abs(shown - moment) > timedelta(minutes=1):
        meant = moment.replace(tzinfo=zone).isoformat(sep=" ")
        raise UsageError(
            f"{text!r} does not exist in {zone}: clocks were put forward over it. If the camera's clock was"
            f" not, add its offset from UTC: {meant!r}"
        )
    return unix


def _is_date(text: str) -> bool:
    """Whether a text is a date alone, which Python reads as its midnight."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _named(path: str, rule: RecordingRule) -> Told:
    """What a name tells by the rule of times."""
    pattern = rule.time_pattern()
    if pattern is None:
        return usual_stamp(path) if rule.time_from == NAME else Told()
    return pattern.read(path) or Told()


def _filmed(row: RecordedRow, rule: RecordingRule) -> tuple[Recorded, Told, bool]:
    """A video with its camera, what its name tells of the time, and whether it fits the pattern of cameras.

    A file that was moved to where it fits no pattern keeps the camera that the same patterns told before, as
    its zones go by the camera. What others told goes, and where no pattern tells cameras, the folder that the
    file lies in now does.
    """
    told = _named(row.uri, rule)
    pattern = rule.camera_pattern()
    named = pattern.read(row.uri) if pattern is not None else None
    camera = told.camera if named is None else named.camera
    fits = pattern is None or named is not None
    if camera is not None:
        return replace(row.recorded, camera=camera, camera_from=rule.naming_cameras), told, fits
    folder, before = folder_camera(row.uri, row.root, row.name), row.recorded
    if rule.naming_cameras and before.camera_from == rule.naming_cameras and before.camera != folder:
        return before, told, True
    return replace(before, camera=folder, camera_from=""), told, fits


def _dated(uri: str, known: Recorded, told: Told, rule: RecordingRule, zone: tzinfo) -> tuple[Recorded, bool]:
    """When one video was recorded by a rule of times, and whether what tells it could be asked.

    Where its file cannot be read, the moment is that which was known, on a clock of the rule's zone. Where it
    was moved and its path tells no time any more, what it told before stays.
    """
    try:
        unix = recorded_at(Path(uri), zone) if rule.time_from == METADATA else told.unix(zone)
    except VideoError:
        return known if known.time_zone is None else replace(known, time_zone=rule.zone), False
    if unix is None or not has_date(unix) or not was_set(datetime.fromtimestamp(unix, zone)):
        same = without_camera(known.time_from or "") == without_camera(rule.time_from)
        return (known, False) if same else (known.begun(), True)
    return known.begun(unix, rule.zone, rule.time_from), True
