"""A picture file or its bytes come in; the size and depth in its header go out, without decoding."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import BinaryIO

from panorama.pictures.exif import ORDERS, entry, exif_of, exif_orientation, jpeg_segments

MOST_PIXELS = 1 << 28
"""Larger pictures are refused: in one colour, a file of a few MB would take many GB of memory."""
HEAD_BYTES = 1 << 16
"""Read first: in nearly all files these contain the size and orientation."""

_FACTS_BYTES = 1 << 14

_WIDTH, _HEIGHT, _BITS, _EXTRA = 256, 257, 258, 338
"""Tags of TIFF; the last two are the bits per sample and the channels stored beside the colours."""
_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""Markers in the JPEG range of frame headers that are none: tables, and a reserved one."""
_SHORT = 3
_BITFIELDS = 3
"""Compression value of a BMP whose colours are defined by bit masks."""
_BMP_ALPHA = 66
"""Offset of the alpha mask in a BMP; only longer headers have one."""
_EXTENTS = b"\0\0\0\x14ispe\0\0\0\0"
"""Start of the HEIC and AVIF box that contains a size: its length, name and version."""
_TURNS = {
    None: (1, 8, 3, 6),
    0: (4, 5, 2, 7),
    1: (2, 7, 4, 5),
}
"""EXIF orientations by the mirror of a HEIC or AVIF (none, upside down, left to right), then by the number of
quarter turns counterclockwise, which come before the mirror.
"""
_BLANK = rb"(?:\s|#[^\n]*\n)+"
_PNM = re.compile(
    rb"P[2356]" + _BLANK + rb"(\d{1,9})" + _BLANK + rb"(\d{1,9})(?:" + _BLANK + rb"(\d{1,5}))?\s"
)


def upright_size(path: Path) -> tuple[int, int] | None:
    """Width and height of a picture file when turned upright; None as for `told_size`, or if cut off.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES)
            size = told_size(data)
            if len(data) == HEAD_BYTES and (size is None or _says_behind(data)):
                data += file.read()
                size = told_size(data)
        of_boxes = data[4:8] == b"ftyp"  # their EXIF only repeats the orientation
        turn = box_orientation(data) if of_boxes else exif_orientation(exif_of(data))
    except struct.error:
        return None
    return size[::-1] if size is not None and turn in (5, 6, 7, 8) else size


def _says_behind(data: bytes) -> bool:
    """Whether a WebP has an EXIF block, which follows the pixels and may contain the orientation."""
    return data[:4] == b"RIFF" and data[12:16] == b"VP8X" and bool(data[20] & 8)


def told_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in the header of a PNG, JPEG, GIF, BMP, TIFF, WebP, PNM, AVIF or HEIC, not turned.

    None for other files, and if the data is cut off before the size.
    """
    try:
        if data.startswith(b"\x89PNG"):
            return _pair(">II", data, 16)
        if data.startswith(b"GIF8"):
            return _pair("<HH", data, 6)
        if data.startswith(b"BM"):
            old = struct.unpack_from("<I", data, 14)[0] == 12
            width, height = _pair("<HH" if old else "<ii", data, 18)
            return width, abs(height)  # negative if rows go from top to bottom
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _of_webp(data)
        if found := _PNM.match(data):
            return int(found[1]), int(found[2])
        if data.startswith(b"\xff\xd8"):
            return _of_jpeg(data)
        return _of_tiff(data) if data[:4] in ORDERS else _of_boxes(data)
    except struct.error:  # cut off
        return None


def box_orientation(data: bytes) -> int:
    """The orientation of a HEIC or AVIF as EXIF numbers it; 1 if the file does not say."""
    angle, mirror = _property(data, b"irot"), _property(data, b"imir")
    return _TURNS[None if mirror is None else mirror & 1][(angle or 0) & 3]


def _property(data: bytes, name: bytes) -> int | None:
    """The value of a one-byte box; None if there is no such box.

    It is found by its first eight bytes, which coded pixels match by chance once in 2^64 places.
    """
    place = data.find(b"\0\0\0\x09" + name)
    return data[place + 8] if 0 <= place < len(data) - 8 else None


def bmp_has_alpha(data: bytes) -> bool:
    """Whether a BMP's header declares some bits of each pixel as transparency.

    If it does not, a quarter of the 32 bits of a pixel is unused, and mostly 0.
    """
    if not data.startswith(b"BM") or len(data) < _BMP_ALPHA + 4:
        return False
    (header,) = struct.unpack_from("<I", data, 14)
    bits, packing = struct.unpack_from("<HI", data, 28)
    (alpha,) = struct.unpack_from("<I", data, _BMP_ALPHA)
    return bool(header >= _BMP_ALPHA + 4 - 14 and bits == 32 and packing == _BITFIELDS and alpha)


def is_plain(path: Path) -> bool:
    """Whether a picture has at most 8 bits per channel and no transparency; True if its head is unclear."""
    try:
        with path.open("rb") as file:
            head = file.read(_FACTS_BYTES)
            if head[:4] in ORDERS:
                return _is_plain_tiff(file, head)
        if head.startswith(b"\x89PNG"):
            depth, colours = struct.unpack_from(">BB", head, 24)
            return depth <= 8 and not colours & 4 and b"tRNS" not in head[: head.find(b"IDAT")]
        if head[:4] == b"RIFF" and head[12:15] == b"VP8":
            sign = {b"X": 20, b"L": 24}.get(head[15:16])
            return sign is None or not head[sign] & 0x10
        if head.startswith(b"BM"):
            return not bmp_has_alpha(head)
        found = _PNM.match(head)
        return found is None or int(found[3] or 0) <= 255
    except (OSError, struct.error, IndexError):  # cut off
        return True


def _is_plain_tiff(file: BinaryIO, head: bytes) -> bool:
    """The same for a TIFF, whose directory may be anywhere in the file."""
    order = ORDERS[head[:4]]
    file.seek(struct.unpack_from(f"{order}I", head, 4)[0])
    directory = file.read(2)
    directory += file.read(12 * struct.unpack(f"{order}H", directory)[0])
    place = entry(directory, order, 0, _BITS)
    if place is None or entry(directory, order, 0, _EXTRA) is not None:
        return place is None
    count, told = struct.unpack_from(f"{order}II", directory, place + 4)
    bits = directory[place + 8 :]
    if count > 2:  # more than two values do not fit into the entry, which then has their offset
        file.seek(told)
        bits = file.read(2)
    return int(struct.unpack_from(f"{order}H", bits)[0]) <= 8


def _pair(form: str, data: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, place)
    return first, second


def _of_jpeg(data: bytes) -> tuple[int, int] | None:
    for marker, place, _ in jpeg_segments(data):
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = _pair(">HH", data, place + 1)
            return width, height
    return None


def _of_webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        (width, more, height, last) = struct.unpack_from("<HBHB", data, 24)
        return (width | more << 16) + 1, (height | last << 16) + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = _pair("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF


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
    """Size of the largest picture in a HEIC or AVIF: smaller ones are its tiles and thumbnails."""
    found = []
    place = data.find(_EXTENTS) if data[4:8] == b"ftyp" else -1
    while place >= 0:
        found.append(_pair(">II", data, place + len(_EXTENTS)))
        place = data.find(_EXTENTS, place + 1)
    return max(found, key=lambda size: size[0] * size[1], default=None)
