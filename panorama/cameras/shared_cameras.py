"""Rows of videos come in; cameras with several folders, and the reverse, go out; patterns for these, too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePath

from panorama.store import RecordedRow


def shared_cameras(
    known: Sequence[RecordedRow], fresh: Collection[str] | None
) -> tuple[tuple[str, tuple[PurePath, ...]], ...]:
    """Cameras with several folders that differ in more than a date, one of which has only fresh videos."""
    folders: dict[str, dict[PurePath, bool]] = {}
    for row in known:
        of = folders.setdefault(row.recorded.camera, {})
        folder = PurePath(row.uri).parent
        of[folder] = of.get(folder, True) and (fresh is None or row.name in fresh)
    found = []
    for camera, of in sorted(folders.items()):
        # 2026-03-01/gate and 2026-03-02/gate are one camera on two days.
        several = {tuple(filter(_is_named, f.parts)): f for f in sorted(of)}
        if camera and len(several) > 1 and any(of.values()):
            found.append((camera, tuple(several.values())))
    return tuple(found)


def split_folders(
    known: Sequence[RecordedRow], fresh: Collection[str] | None
) -> tuple[tuple[tuple[PurePath, tuple[str, ...]], ...], str] | None:
    """Folders whose videos have several cameras, one with only fresh videos, and a pattern for one each.

    They were found from several folders that were named to `index`.

    Returns:
        These folders with their cameras, and the pattern; None if there are no such folders, or their paths
        are only numbers.
    """
    folders: dict[PurePath, dict[str, bool]] = {}
    for row in known:
        # The camera of a link that leads out of its folder comes from where the link lies.
        lies_there = PurePath(row.uri).is_relative_to(row.root)
        if lies_there and row.recorded.camera and not row.recorded.camera_from:
            of = folders.setdefault(PurePath(row.uri).parent, {})
            is_new = fresh is None or row.name in fresh
            of[row.recorded.camera] = of.get(row.recorded.camera, True) and is_new
    found = tuple(
        (folder, tuple(sorted(of)))
        for folder, of in sorted(folders.items())
        if len(of) > 1 and any(of.values()) and any(map(_is_named, folder.parts))
    )
    if not found:
        return None
    # The pattern is for the whole library: it must not join what was apart.
    apart = {named: folder for folder in sorted(folders) if (named := tuple(filter(_is_named, folder.parts)))}
    return found, telling_pattern(tuple(apart.values()))


def telling_pattern(folders: Sequence[PurePath]) -> str:
    """The shortest pattern of cameras that distinguishes the folders; a date is never taken as a camera.

    Args:
        folders: which differ in more than dates, or one that has more than these in its path.
    """
    named: list[bool] = []  # from the innermost folder outwards
    told: set[tuple[str, ...]] = set()
    while len(told) < len(folders) or not any(named):
        named.append(any(_is_named(_part(folder, len(named))) for folder in folders))
        told = {tuple(_part(f, k) for k, is_named in enumerate(named) if is_named) for f in folders}
    return "/".join("{camera}" if is_named else "*" for is_named in reversed(named)) + "/*"


def _part(folder: PurePath, level: int) -> str:
    """The name of a folder (level 0) or of one of its parents; '' beyond the outermost."""
    return folder.parts[-1 - level] if level < len(folder.parts) else ""


def _is_named(part: str) -> bool:
    """Whether a folder's name is more than a date or a number."""
    return any(map(str.isalpha, part))
