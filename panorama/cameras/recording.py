"""A rule for times and cameras comes in; when and by which camera each video was recorded goes out."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path, PurePath

from panorama.cameras.naming import BY_HAND, METADATA, Told, folder_camera, told_by, without_camera
from panorama.cameras.picture_times import (
    PictureTimes,
    dated_pictures,
    first_dated,
    named_pictures,
    names_in,
    stored_names,
    with_offsets,
)
from panorama.cameras.recording_report import RecordingReport
from panorama.cameras.recording_rule import (
    FOLDER,
    OPTIONS,
    SETTING,
    Naming,
    RecordingRule,
    completed,
    kept_zone,
    local_zone,
    remember,
    remembered,
    rule_of,
)
from panorama.cameras.remarks import remarked
from panorama.cameras.typed_start import typed_unix
from panorama.cameras.unread import usable
from panorama.commands import command
from panorama.errors import UsageError, VideoError
from panorama.lines import counted, some
from panorama.store import Recorded, RecordedRow, Store
from panorama.store.catalog.picture_offsets import has_gaps, has_unread, is_backwards
from panorama.store.catalog.recorded import OwnRule, has_date, zone_named
from panorama.video import recorded_at

NEARLY_NOW_SECONDS = 10
"""A time so little in the future gives no remark: clocks differ."""


def check_fits(rule: RecordingRule, paths: Sequence[Path], names: Iterable[str] | None = None) -> None:
    """Refuse a pattern that fits none of the names: better now than after hours of indexing.

    Args:
        paths: of the videos.
        names: the paths that may tell their times; None for those that are there now.

    Raises:
        UsageError: names the pattern and some of the names.
    """
    shown = some([_end_of(path) for path in paths])
    zone = zone_named(rule.zone)
    if names is None:
        names = (name for path in paths for name in names_in(path))
    dated = (_named(name, rule).unix(zone) is not None for name in names)
    if rule.reads_names and paths and not any(dated):
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
    """The end of a path as found; for a link also the end of its target, whose name counts."""
    found, own = "/".join(path.parts[-3:]), path.resolve()
    return f"{found} (a link to {'/'.join(own.parts[-3:])})" if own.name != path.name else found


def apply_rule(
    store: Store,
    videos: Collection[str] | None = None,
    bare: dict[PurePath, list[str]] | None = None,
    naming: Naming | None = None,
) -> RecordingReport:
    """Store what the library's rule says about some videos, None for all; times set by hand stay.

    What was named for single videos goes before the library's rule. If a rule gives no time for a video, the
    video has none afterwards. Three exceptions keep the time as it is: the rule 'none'; a file that cannot be
    read; a video that this same rule dated at its former place. If the camera is the folder, all videos in
    the folder that have no camera get it. No video is decoded. Given `bare`, the cost grows with the number
    of `videos`. Another process may change the library's rule during the call.

    Args:
        bare: the result of `bare_folders`; folders whose videos get their camera are removed from it.
        naming: what is named for these videos now; they keep it. If no times are named, only cameras change.
    """
    by, rows, joined = remembered(store), store.recorded(videos), []
    if by.camera_from == FOLDER:
        joined = _of_folders(store, rows, bare_folders(store, by) if bare is None else bare)
    while (report := _by_rule(store, by, rows, joined, naming)) is None:  # another process changed a video
        by, rows = remembered(store), store.recorded(videos)
        joined = _without_camera(store, [row.name for row in joined])
    return report


def _by_rule(
    store: Store,
    rule: RecordingRule,
    rows: Sequence[RecordedRow],
    joined: Sequence[RecordedRow],
    naming: Naming | None,
) -> RecordingReport | None:
    """Store what a rule says about videos as they were read; None if one of them has changed since.

    What each video has of its own was told when it was named, and is not told again.

    Args:
        rule: the library's.
        joined: videos that get their folder as camera, and no other change.
    """
    changes, known = {}, {row.name: row.recorded for row in (*joined, *rows)}
    for row in joined:
        camera = folder_camera(row.uri, row.root, row.name)
        changes[row.name] = replace(row.recorded, camera=camera, camera_from="")
    undated, unnamed, kept, to_come, example, dated = [], [], [], [], "", 0
    times, rules, told_by_rule = naming is None or naming.times, {OwnRule(): rule}, {}
    for row in rows:
        own = row.recorded.own if naming is None else naming.own(row.recorded.own, rule)
        if own not in rules:
            rules[own] = rule_of(own, rule)
        by = rules[own]
        now, fits, asked = _told(store, row, by, times)
        changes[row.name] = now = replace(now, own=own)
        if naming is None and own != OwnRule():
            continue
        if not fits and (naming is None or naming.cameras):
            unnamed.append(row.name)
        if _is_to_come(now, by):
            to_come.append(row.name)
        if not times or asked is None:
            continue
        told_by_rule[by.time_from] = by
        if now.start_time_unix is None:
            undated.append(row.name)
        elif not asked:
            kept.append(row.name)
        else:
            dated += 1
            example = example or f"{row.name} at {shown_time(now.start_time_unix, by.zone)}"
    # On re-indexing most videos are unchanged: write only the others, so as not to wait for other writers.
    others = {name: now for name, now in changes.items() if now != known[name]}
    changed = store.put_recorded(others, known)
    if changed is None:
        return None
    return RecordingReport(
        rule if naming is None else naming.rule,
        dated,
        tuple(undated),
        tuple(unnamed),
        example,
        changed,
        partly=tuple(row.name for row in rows if has_gaps(changes[row.name].picture_offsets)),
        kept=tuple(kept),
        away=tuple(row.name for row in rows if has_unread(changes[row.name].picture_offsets)),
        backwards=tuple(row.name for row in rows if is_backwards(changes[row.name].picture_offsets)),
        to_come=tuple(to_come),
        by=tuple(told_by_rule.values()),
    )


def _told(
    store: Store, row: RecordedRow, rule: RecordingRule, times: bool
) -> tuple[Recorded, bool, bool | None]:
    """What its rule says of one video.

    Args:
        times: False changes only the camera.

    Returns:
        The video as told, whether it fits the pattern of cameras, and whether the source of its time could
        be read; None if the rule is not asked for its time.
    """
    zone = zone_named(rule.zone)
    by_name = named_pictures(store, row, rule, zone)
    filmed, told, fits = _filmed(row, rule, by_name)
    if not times:
        return filmed, fits, None
    if not rule.has_source or row.recorded.time_from == BY_HAND:
        return with_offsets(store, row, filmed, by_name), fits, None
    pictures = dated_pictures(store, row, filmed, rule, by_name)
    now, asked = pictures or _dated(row.uri, filmed, told, rule, zone)
    return now, fits, asked


def _is_to_come(now: Recorded, rule: RecordingRule) -> bool:
    """Whether the rule gave a time in the future."""
    unix = now.start_time_unix
    return now.time_from == rule.time_from and unix is not None and unix > time.time() + NEARLY_NOW_SECONDS


def bare_folders(store: Store, rule: RecordingRule) -> dict[PurePath, list[str]]:
    """Videos without a camera, by folder, if the rule takes the folder as camera; {} otherwise.

    They were indexed when the folder was not yet the camera.
    """
    folders: dict[PurePath, list[str]] = {}
    for name, uri in store.without_camera() if rule.camera_from == FOLDER else ():
        folders.setdefault(PurePath(uri).parent, []).append(name)
    return folders


def _of_folders(
    store: Store, rows: Sequence[RecordedRow], bare: dict[PurePath, list[str]]
) -> list[RecordedRow]:
    """The videos without a camera in the folders of `rows`; removes these folders from `bare`."""
    folders = {PurePath(row.uri).parent for row in rows} if bare else ()
    names = [name for folder in folders for name in bare.pop(folder, ())]
    return _without_camera(store, names)  # read again: another process may have given them one


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
    parts: Collection[str] = tuple(OPTIONS),
) -> RecordingReport:
    """Set when videos (None for all) were recorded: by a rule or by hand.

    A rule for all videos is the library's from then on. One for some videos is theirs, and is kept for them
    until another is named for them or for all.

    Args:
        parts: the attributes of the rule that count; the others stay as they are.

    Raises:
        UsageError: not exactly one of a rule, start and first start is given, a start is not a date with a
            time, or a pattern fits no name.
    """
    if sum(given is not None for given in (rule, start, first)) != 1:
        raise UsageError("give either a rule (--time-from), a start (--at) or a first start (--first-at)")
    if first is not None:
        return _move(store, videos, first, zone)
    if rule is not None:
        whole = completed(store.setting(SETTING), {part: getattr(rule, part) for part in parts})
        naming = Naming(whole, parts, for_all=videos is None)
        rows = store.recorded(videos)
        # The names that dating reads: folders may be away, and one that cannot be listed stops nothing.
        names = (name for row in rows for name in stored_names(store, row))
        check_fits(naming.named, [Path(row.uri) for row in rows], names)
        if naming.for_all and parts:
            remember(store, whole)
        return remarked(store, apply_rule(store, videos, naming=naming), videos)
    if videos is None:
        raise UsageError("name the videos whose start this is")
    return _begin(store, videos, start or "", zone)


def _begin(store: Store, videos: Sequence[str], start: str, zone: str) -> RecordingReport:
    """Set the moment at which all of some videos began; '' makes it unknown.

    A folder of pictures begins with its first picture, by name, whose time is known; the others keep their
    distance from it. If no picture has a time, the clock runs on from there at five pictures a second.

    Args:
        zone: time zone of `start`, and of the videos from now on; '' for the one that each video has, else
            the library's, else that of this computer.

    Raises:
        UsageError: the start is not a date with a time, or is not a single moment in the videos' time zones.
    """
    library_zone = kept_zone(store.setting(SETTING))
    rule = RecordingRule(zone=zone or library_zone or "UTC")
    if not start:
        return RecordingReport(rule, changed=store.clear_times(videos))
    changed, remark = None, ""
    begun: dict[float, str] = {}
    while changed is None:  # retry if another process changed a video in between: its camera must stay
        rows = store.recorded(videos)
        known = {row.name: row.recorded for row in rows}
        changes = {}
        begun.clear()
        for row in rows:
            now = row.recorded
            own = zone or now.time_zone or now.own.time_zone or library_zone or local_zone()
            unix = typed_unix(start, zone_named(own))
            now = row.recorded.begun(unix, own, BY_HAND, row.recorded.picture_offsets)
            changes[row.name] = with_offsets(store, row, now)
            begun.setdefault(unix, own)
        if len(begun) > 1:
            raise UsageError(
                f"the clocks of these videos are in several time zones ({', '.join(sorted(begun.values()))}),"
                f" so {start!r} is not a single moment; name its zone with --timezone"
            )
        changed = store.put_recorded(changes, known)
        remark = _begun_remark(store, rows, changes, begun)
    return RecordingReport(rule, changed=changed, remark=remark)


def _begun_remark(
    store: Store, rows: Sequence[RecordedRow], now: Mapping[str, Recorded], begun: Mapping[float, str]
) -> str:
    """When the videos now begin; '' if there are none."""
    for unix, zone in begun.items():
        shown = shown_time(unix, zone)
        if len(rows) > 1:
            return f"{len(rows)} videos begin at the same moment, {shown}; --first-at keeps their intervals"
        (row,) = rows
        first = first_dated(store, row, now[row.name])
        return f"{row.name} begins at {shown}" + (
            f" with {first}, its first picture with a time" if first else ""
        )
    return ""


def _move(store: Store, videos: Sequence[str] | None, first: str, zone: str) -> RecordingReport:
    """Set when the first of some videos was recorded; the others keep their distance: a clock was wrong.

    Args:
        zone: time zone of `first`, and of the videos from now on; '' for the one that they have.

    Raises:
        UsageError: no videos are given, the time of one is unknown, some but not all were set by hand, the
            start is not a date with a time, or a video would lie beyond the last date.
    """
    if not videos:
        raise UsageError("name the videos whose clock was wrong")
    known = [(row, row.recorded) for row in store.recorded(videos)]
    times = {row.name: now.start_time_unix for row, now in known if now.start_time_unix is not None}
    unknown = [row.name for row, _ in known if row.name not in times]
    if unknown:
        raise UsageError(
            f"no wall-clock time to correct is known for: {some(unknown)}; name only videos whose time is"
            f" known, as {command('clock')} lists them, or set the time of these with --at"
        )
    by_hand = [row.name for row, now in known if now.time_from == BY_HAND]
    if 0 < len(by_hand) < len(known):
        # Videos corrected before, of a camera that kept its wrong clock, would be moved a second time.
        raise UsageError(
            f"these times come from different clocks: those of {some(by_hand)} were set by hand,"
            " the others were not; name only the one or the other"
        )
    earliest = min(times, key=lambda name: times[name])
    before = next(now for row, now in known if row.name == earliest)
    rule = RecordingRule(zone=zone or before.time_zone or "")
    by = typed_unix(first, zone_named(rule.zone)) - times[earliest]
    if late := [name for name, unix in times.items() if not has_date(unix + by)]:
        raise UsageError(f"with {first!r} for the first, these would be later than any date: {some(late)}")
    changes = {
        row.name: now.begun(times[row.name] + by, zone or now.time_zone, BY_HAND, now.picture_offsets)
        for row, now in known
    }
    remark = (
        f"{'put back' if by < 0 else 'put forward'} by {timedelta(seconds=abs(by))}: "
        f"the first is {earliest} at {shown_time(times[earliest] + by, rule.zone)}"
    )
    changed = store.put_recorded(changes, {row.name: now for row, now in known})
    if changed is None:  # another process changed one of them in between: try again
        return _move(store, videos, first, zone)
    return RecordingReport(rule, changed=changed, remark=remark)


def shown_time(unix: float, zone: str) -> str:
    """Local time and time zone, for people."""
    moment = datetime.fromtimestamp(unix, UTC).astimezone(zone_named(zone))
    return f"{moment:%Y-%m-%d %H:%M:%S} {zone}"


def _named(path: str, rule: RecordingRule, is_folder: bool = False) -> Told:
    """What a name says by the rule for times."""
    return told_by(path, rule.time_pattern(), is_folder) if rule.reads_names else Told()


def _filmed(
    row: RecordedRow, rule: RecordingRule, by_name: PictureTimes | None
) -> tuple[Recorded, Told, bool]:
    """A video with its camera, what its name says of the time, and whether it fits the pattern of cameras.

    A file that moved to a path that fits no pattern keeps its camera if the same patterns gave it before,
    because its zones belong to the camera. A camera from other patterns is dropped; without a pattern the
    camera is the folder where the file lies now.
    """
    told = _named(row.uri, rule, row.has_pictures)
    pattern = rule.camera_pattern()
    named = pattern.read(row.uri, row.has_pictures) if pattern is not None else None
    by_time = told.camera if told.camera is not None or by_name is None else by_name.camera
    camera = by_time if named is None else named.camera
    fits = pattern is None or named is not None
    if camera is not None:
        return replace(row.recorded, camera=camera, camera_from=rule.naming_cameras), told, fits
    folder, before = folder_camera(row.uri, row.root, row.name), row.recorded
    if rule.naming_cameras and before.camera_from == rule.naming_cameras and before.camera != folder:
        return before, told, True
    return replace(before, camera=folder, camera_from=""), told, fits


def _dated(uri: str, known: Recorded, told: Told, rule: RecordingRule, zone: tzinfo) -> tuple[Recorded, bool]:
    """When the rule says one video was recorded, and whether its source could be read.

    If the file cannot be read, the known moment stays, on a clock of the rule's time zone. If the file moved
    and its path gives no time any more, the time from the same rule stays.
    """
    try:
        unix = recorded_at(Path(uri), zone) if rule.time_from == METADATA else told.unix(zone)
    except VideoError:
        return known if known.time_zone is None else replace(known, time_zone=rule.zone), False
    if (unix := usable(unix, zone)) is None:
        same = without_camera(known.time_from or "") == without_camera(rule.time_from)
        return (known, False) if same else (known.begun(), True)
    return known.begun(unix, rule.zone, rule.time_from), True
