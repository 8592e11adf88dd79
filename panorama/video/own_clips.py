"""A video file enters; whether Panorama cut it out of another leaves."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

TAG = {"comment": "cut by Panorama"}
"""What a clip says of itself, under a name that MP4 knows and that copying its streams keeps."""

_WHERE = (b"moov", b"udta")
"""The boxes, one in the other, in which an MP4 says such things."""
_MOST_BYTES = 65_536


def is_own_clip(path: Path) -> bool:
    """Whether a file is a clip that Panorama wrote; one that cannot be read is not known to be.

    It is read without PyAV, which takes long to load, and a few bytes of it.
    """
    if path.suffix.lower() != ".mp4" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start, stop = 0, path.stat().st_size
            for kind in _WHERE:
                start, stop = _inside(file, start, stop, kind)
            file.seek(start)
            told = file.read(min(stop - start, _MOST_BYTES))
    except OSError:
        return False
    return all(value.encode() in told for value in TAG.values())


def _inside(file: BinaryIO, start: int, stop: int, kind: bytes) -> tuple[int, int]:
    """Where the content of the first box of a kind lies among those of [start, stop); nothing without one."""
    while stop - start >= 8:
        file.seek(start)
        head = file.read(16)
        size, header = int.from_bytes(head[:4]), 8
        if size == 1:
            size, header = int.from_bytes(head[8:16]), 16
        elif size == 0:  # the last one may leave it to the file's end
            size = stop - start
        if size < header:
            break
        if head[4:8] == kind:
            return start + header, min(start + size, stop)
        start += size
    return stop, stop
