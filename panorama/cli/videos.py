"""Commands about the videos of a library: videos, clock, remove."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any

import click

from panorama.cameras.listed_videos import (
    GoneRoot,
    Meant,
    gone_by_root,
    meant,
    missing,
    resized,
    what_gone_means,
)
from panorama.cli.common import confirmed, json_option, opened, print_rows, say
from panorama.cli.recording import named_parts, recording_options, recording_rule
from panorama.commands import command
from panorama.errors import UsageError
from panorama.library import Library
from panorama.lines import counted, some
from panorama.zones import orphan_remarks

RECORDED_COLUMNS = ["video", "camera", "start_clock", "time_zone", "time_from"]
SHOWN_NAMES = 20
"""Most names printed of videos to be removed; further ones are counted."""


@click.command("videos")
@json_option
@click.pass_context
def videos_command(ctx: click.Context, as_json: bool) -> None:
    """List the videos of the library, and whether their files are still there."""
    names = ["video", "camera", "duration", "width", "height", "frames", "uri", "decode_note"]
    videos = opened(ctx).videos()
    rows = videos.select(names).to_pylist()
    gone, other = missing(videos), resized(videos)
    for row, absent in zip(rows, gone, strict=True):
        row["duration"] = round(row["duration"], 3)
        row["missing"] = absent if as_json else "missing" if absent else ""
    names += ["missing"]
    if as_json:  # too wide for a table
        names += ["indexed_at"]
        for row, when in zip(rows, videos.column("indexed_at").to_pylist(), strict=True):
            row["indexed_at"] = f"{when:%F %T}"
    print_rows(names, [list(row.values()) for row in rows], as_json)
    if any(gone):
        say(f"{counted(sum(gone), 'file is', 'files are')} missing: {what_gone_means()}")
    for row, changed in zip(rows, other, strict=True):
        if changed:
            say(f"the file of {row['video']} has changed since it was indexed; index it again")


@click.command("clock")
@click.argument("videos", nargs=-1)
@recording_options
@click.option(
    "--at",
    default=None,
    help="Set the local time of the first frame: '2026-03-01 10:00:00'; '' for unknown, until `index` reads"
    " it by --time-from.",
)
@click.option(
    "--first-at",
    default=None,
    help="Set the time of the first of VIDEOS and shift the others with it, for a clock that was wrong.",
)
@json_option
@click.pass_context
def clock_command(
    ctx: click.Context,
    videos: tuple[str, ...],
    time_from: str | None,
    zone: str | None,
    camera_from: str | None,
    at: str | None,
    first_at: str | None,
    as_json: bool,
) -> None:
    """Show or set when videos were recorded, and by which camera; nothing is decoded again.

    Name a video as in the library or by its path; a folder or a quoted pattern means several. --json prints
    the rows asked for, or those that changed.

    \b
    panorama clock
    panorama clock --time-from name --timezone Europe/Berlin
    panorama clock gate/a.mp4 --at "2026-03-01 10:00:00"
    panorama clock "gate/*.mp4" --first-at "2026-03-01 10:00:00"
    """
    library = opened(ctx)
    by_hand = at is not None or first_at is not None
    if by_hand and (time_from or camera_from or (at is not None and first_at is not None)):
        raise click.UsageError(
            "--at and --first-at set times by hand: give one of them, without --time-from and --camera-from"
        )
    rule = None if by_hand else recording_rule(library, time_from, zone, camera_from)
    if rule is not None or by_hand:
        chosen = _names(_meant(videos, library)) if videos else None
        before = {row[0]: row for row in _rows(library)} if as_json else {}
        lost = library.zones.orphaned()
        report = library.date(
            chosen,
            recording=rule,
            start=at,
            zone=zone or "",
            first_start=first_at,
            parts=[*named_parts(time_from, zone, camera_from)],
        )
        for text in report.lines():
            say(text)
        say(f"{counted(report.changed, 'video')} changed")
        for text in orphan_remarks(library.zones, lost):
            say(text)
        if as_json:
            print_rows(
                RECORDED_COLUMNS, [row for row in _rows(library) if row != before.get(row[0])], as_json
            )
        return
    wanted = set(_names(_meant(videos, library)))
    rows = [row for row in _rows(library) if not videos or row[0] in wanted]
    print_rows(RECORDED_COLUMNS, rows, as_json)


def _rows(library: Library) -> list[list[Any]]:
    """The recording facts of all videos, as they are printed."""
    rows = library.videos().select(RECORDED_COLUMNS).to_pylist()
    return [[_plain(value) for value in row.values()] for row in rows]


def _meant(videos: tuple[str, ...], library: Library) -> list[Meant]:
    """The videos that the given words mean; prints how many a folder or a pattern means."""
    found = meant(videos, library.listed()) if videos else []
    for part in found:
        if part.several:
            say(f"{part.given} matches {counted(len(part.names), 'video')}")
    return found


def _names(found: Sequence[Meant]) -> list[str]:
    """The names of the videos, each once."""
    return list(dict.fromkeys(name for part in found for name in part.names))


def _plain(value: Any) -> Any:
    return value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else value


@click.command("remove")
@click.argument("videos", nargs=-1)
@click.option(
    "--missing", "gone", is_flag=True, help="Only videos whose files are gone (of VIDEOS, if given)."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def remove_command(ctx: click.Context, videos: tuple[str, ...], gone: bool, yes: bool) -> None:
    """Take videos out of the library, all or none; the video files are not touched.

    Name a video as in the library or by its path. A folder or a quoted pattern means several; the command
    lists them and asks for confirmation.

    --missing takes out videos whose files are gone. If an indexed folder is gone or empty, its disk may not
    be mounted: its videos are taken out only if you name that folder.

    Their data stays on the disk for ten minutes, for queries that are still reading it. The next command that
    changes the library after that deletes it, for example `panorama compact`.

    \b
    panorama remove gate/a.mp4 gate/b.mp4
    panorama remove "gate/*-night.mp4"
    panorama remove --missing
    """
    if not videos and not gone:
        raise click.UsageError(f"name the videos: {command('remove', 'VIDEO...')}, or --missing")
    library = opened(ctx)
    found = _meant(videos, library)
    names = _missing(library, found) if gone else _names(found)
    if not names:
        say("no file is missing; nothing was removed")
        return
    say(f"to be removed, with everything found in {'it' if len(names) == 1 else 'them'}:")
    for name in names[:SHOWN_NAMES]:
        say(f"  {name}")
    if len(names) > SHOWN_NAMES:
        say(f"  and {len(names) - SHOWN_NAMES} more, which `{command('clock')}` lists")
    if (gone or any(part.several for part in found)) and not yes:
        question = f"Remove {counted(len(names), 'video')} from the library?"
        if not confirmed(question, "nothing was removed", "removes"):
            ctx.exit(1)
    lost = library.zones.orphaned()
    for name in library.remove_videos(names):
        say(f"removed {name}")
    for text in orphan_remarks(library.zones, lost):
        say(text)


def _missing(library: Library, found: Sequence[Meant]) -> list[str]:
    """The videos whose files are missing; prints their numbers by indexed folder.

    Args:
        found: the videos to consider; empty for all.

    Raises:
        UsageError: an indexed folder is empty, as if its disk were not mounted, and the user did not name it.
    """
    names, unmounted = [], list[str]()
    among = frozenset(_names(found))
    for folder in gone_by_root(library.videos()):
        gone = [name for name in folder.gone if not found or name in among]
        if not gone:
            continue
        total = counted(len(folder.gone) + folder.left, "video")
        whole = "" if folder.left else "; all of its videos are missing"
        say(f"missing from {folder.root}: {len(gone)} of {total}{whole}")
        unmounted += [one for one in folder.unmounted if _is_at_stake(one, folder, found)]
        names += gone
    if unmounted:
        # Not even with --yes: a nightly job would forget the videos of a disk that is not mounted.
        raise UsageError(
            f"no video that was indexed from {some(unmounted)} is there: is its disk mounted? Nothing was"
            " removed. If its files are gone for good: " + command("remove", "--missing", *unmounted)
        )
    return names


def _is_at_stake(emptied: str, folder: GoneRoot, found: Sequence[Meant]) -> bool:
    """Whether removing would affect an emptied folder that the user did not name by itself."""
    inside = {name for name, uri in folder.gone.items() if PurePath(uri).is_relative_to(emptied)}
    if not found:
        return True
    return any(inside.intersection(part.names) and not inside.issuperset(part.names) for part in found)
