"""A picture file's bytes enter; how wide and how high its header says that it is leaves, undecoded."""

from __future__ import annotations

import struct

from panorama.exif import ORDERS, entry

_WIDTH, _HEIGHT = 256, 257
"""Tags of TIFF."""
_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""Markers of JPEG among those that begin a frame: tables, and one that is kept for later."""
_SHORT = 3
_EXTENTS = b"\0\0\0\x14ispe\0\0\0\0"
"""The beginning of the box of HEIC and AVIF that holds a size: its length, name and version."""


def told_size(data: bytes) -> tuple[int, int] | None:
    """Width and height as a PNG, JPEG, GIF, BMP, TIFF, AVIF or HEIC tells them; None of others.

    WebP has no more than 16,383 pixels on a side, and what is not compressed is as large as its file.
    """
    try:
        if data.startswith(b"\x89PNG"):
            return _pair(">II", data, 16)
        if data.startswith(b"GIF8"):
            return _pair("<HH", data, 6)
        if data.startswith(b"BM"):
            width, height = _pair("<ii", data, 18)
            return width, abs(height)  # upside down where it is negative
        if data.startswith(b"\xff\xd8"):
            return _of_jpeg(data)
        return _of_tiff(data) if data[:4] in ORDERS else _of_boxes(data)
    except struct.error:  # cut off
        return None


def _pair(form: str, data: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, place)
    return first, second


def _of_jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while data[place : place + 1] == b"\xff":
        marker, length = struct.unpack_from(">BH", data, place + 1)
        if marker == 0xFF:  # one that fills up
            place += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = _pair(">HH", data, place + 5)
            return width, height
        else:
            place += 2 + length
    return None


def _of_tiff(data: bytes) -> tuple[int, int] | None:
    order = ORDERS[data[:4]]
    (directory,) = struct.unpack_from(f"{order}I", data, 4)
    sides: list[int] = []
    for tag in (_WIDTH, _HEIGHT):
        place = entry(data, order, directory, tag)
        if place is None:
            return None
        (kind,) = struct.unpack_from(f"{order}H", data, place + 2)
        sides += struct.unpack_from(f"{order}{'H' if kind == _SHORT else 'I'}", data, place + 8)
    return sides[0], sides[1]


def _of_boxes(data: bytes) -> tuple[int, int] | None:
    """The largest picture that is coded in a HEIC or AVIF: others are its tiles and thumbnails."""
    found = []
    place = data.find(_EXTENTS) if data[4:8] == b"ftyp" else -1
    while place >= 0:
        found.append(_pair(">II", data, place + len(_EXTENTS)))
        place = data.find(_EXTENTS, place + 1)
    return max(found, key=lambda size: size[0] * size[1], default=None)
