"""What a rule found out about some videos comes in; with what is told once of new ones, it goes out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from panorama.cameras.daily_cameras import daily_cameras
from panorama.cameras.picture_times import have_exif
from panorama.cameras.recording_report import RecordingReport
from panorama.cameras.recording_rule import FOLDER, NOT_NAMED, remembered, rule_of
from panorama.cameras.shared_cameras import shared_cameras, split_folders
from panorama.cameras.unread import unread
from panorama.store import Store
from panorama.store.catalog.recorded import zone_named


def remarked(
    store: Store,
    report: RecordingReport,
    videos: Collection[str] | None,
    fresh: Collection[str] | None = None,
) -> RecordingReport:
    """A report on some videos, with what their folders, names and EXIF say that the library's rule leaves.

    These are folders that share a camera or have several, days that count as cameras, and times that nobody
    asked for.

    Args:
        videos: the videos of the report, None for all.
        fresh: those that are new in the library, None for all. Nothing is added that is not about one of
            them.
    """
    kept = remembered(store)
    by_folder, by_none = kept.camera_from == FOLDER, kept.time_from == NOT_NAMED
    if (fresh is not None and not fresh) or not (by_folder or by_none):
        return report
    known, named = store.recorded(), None if videos is None else set(videos)
    if by_folder:
        report = replace(report, shared=shared_cameras(known, fresh), daily=daily_cameras(known, fresh))
        report = replace(report, split=split_folders(known, fresh))
    if not by_none:
        return report
    rows = [row for row in known if named is None or row.name in named]
    untold = [row for row in rows if rule_of(row.recorded.own, kept).time_from == NOT_NAMED]
    new = [row for row in untold if fresh is None or row.name in fresh]
    zone = zone_named(kept.zone)
    exif, unseen = have_exif(store, new, zone)
    return replace(report, exif=exif, exif_unseen=unseen, unread=unread(store, untold, fresh, zone))
