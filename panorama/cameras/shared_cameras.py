"""Rows of videos come in; cameras with several folders go out, and a pattern that separates these."""

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


def telling_pattern(folders: Sequence[PurePath]) -> str:
    """The shortest pattern of cameras that distinguishes the folders; a date is never taken as a camera."""
    named: list[bool] = []  # from the innermost folder outwards
    told: set[tuple[str, ...]] = set()
    while len(told) < len(folders):
        named.append(any(_is_named(_part(folder, len(named))) for folder in folders))
        told = {tuple(_part(f, k) for k, is_named in enumerate(named) if is_named) for f in folders}
    return "/".join("{camera}" if is_named else "*" for is_named in reversed(named)) + "/*"


def _part(folder: PurePath, level: int) -> str:
    """The name of a folder (level 0) or of one of its parents; '' beyond the outermost."""
    return folder.parts[-1 - level] if level < len(folder.parts) else ""


def _is_named(part: str) -> bool:
    """Whether a folder's name is more than a date or a number."""
    return any(map(str.isalpha, part))
