"""Files of a folder come in; a line for users goes out about those that are not used as pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from panorama.lines import counted, one_line
from panorama.pictures.pixels import PICTURE_SUFFIXES
from panorama.video import VIDEO_SUFFIXES

_UNREAD = frozenset(
    {".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".raf", ".rw2"}
    | {".psd", ".svg", ".jxl", ".ico", ".tga", ".eps", ".pdf"}
)
"""Kinds of pictures that nothing here can read."""


def is_picture_file(path: Path) -> bool:
    """Whether a file's name says that it is a readable picture; hidden files do not count."""
    return path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")


def left_out(folder: Path, files: Iterable[Path], subfolders: int = 0) -> list[str]:
    """One line about what in a folder is not used; [] if everything is.

    Args:
        folder: as the user named it.
        files: its files, pictures or not, without hidden ones.
        subfolders: number of subfolders that are not searched.
    """
    passed = [p for p in files if not is_picture_file(p)]
    groups = {
        "cannot be read: save as JPEG or PNG": _UNREAD,
        "video: take an example with --video FILE --at SECONDS --box x1,y1,x2,y2": VIDEO_SUFFIXES,
    }
    told: list[str] = []
    for why, suffixes in groups.items():
        of_kind = [p for p in passed if p.suffix.lower() in suffixes]
        if of_kind:
            told.append(f"{_kinds(of_kind)} ({why})")
    others = [p for p in passed if not any(p.suffix.lower() in kinds for kinds in groups.values())]
    if others:
        told.append(f"{_kinds(others)} (not named as a picture)")
    if subfolders:
        told.append(f"{counted(subfolders, 'subfolder')} (name each one that is meant)")
    return [f"left out of {one_line(str(folder))}: {', '.join(told)}"] if told else []


def _kinds(files: Iterable[Path]) -> str:
    kinds = Counter(p.suffix.lower() for p in files)
    return " ".join(
        f"{count} {one_line(suffix) or 'without suffix'}" for suffix, count in sorted(kinds.items())
    )
