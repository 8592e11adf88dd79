"""What a rule found out about some videos comes in; with what is told once of new ones, it goes out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from panorama.cameras.naming import FOLDER, NOT_NAMED
from panorama.cameras.recording_report import RecordingReport
from panorama.cameras.shared_cameras import shared_cameras
from panorama.cameras.unread import unread
from panorama.store import Store
from panorama.store.catalog.recorded import zone_named


def remarked(
    store: Store,
    report: RecordingReport,
    videos: Collection[str] | None,
    fresh: Collection[str] | None = None,
) -> RecordingReport:
    """A report on some videos, with the folders that share a camera and the names that look like times.

    Args:
        videos: the videos of the report, None for all.
        fresh: those that are new in the library, None for all. Nothing is added that is not about one of
            them.
    """
    by_folder, by_none = report.rule.camera_from == FOLDER, report.rule.time_from == NOT_NAMED
    if (fresh is not None and not fresh) or not (by_folder or by_none):
        return report
    known, named = store.recorded(), None if videos is None else set(videos)
    rows = [row for row in known if named is None or row.name in named]
    return replace(
        report,
        shared=shared_cameras(known, fresh) if by_folder else (),
        unread=unread(store, rows, fresh, zone_named(report.rule.zone)) if by_none else (),
    )
