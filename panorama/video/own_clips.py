"""A video file comes in; whether it is a clip that Panorama wrote goes out."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

TAG = {"comment": "cut by Panorama"}
"""Metadata that marks a clip, under a name that MP4 supports and that survives copying the streams."""

_WHERE = (b"moov", b"udta")
"""The nested boxes of an MP4 that contain such metadata."""
_MOST_BYTES = 65_536


def is_own_clip(path: Path) -> bool:
    """Whether a file is a clip that Panorama wrote; False if it cannot be read.

    Reads a few bytes of it, without PyAV, which takes long to load.
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
    """Bytes [start, stop) of the content of the first box of a kind in a range; empty if there is none."""
    while stop - start >= 8:
        file.seek(start)
        head = file.read(16)
        size, header = int.from_bytes(head[:4]), 8
        if size == 1:
            size, header = int.from_bytes(head[8:16]), 16
        elif size == 0:  # the last box may extend to the end of the file
            size = stop - start
        if size < header:
            break
        if head[4:8] == kind:
            return start + header, min(start + size, stop)
        start += size
    return stop, stop
