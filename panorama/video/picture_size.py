"""A picture file enters; the size that it is shown in leaves, from its head and without its pixels."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from panorama.exif import exif_of_chunks, exif_of_jpeg, exif_orientation

HEAD_BYTES = 1 << 16
"""Read first: of nearly all files their size and which way up they are stand there."""

_TIFF_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257
_PNM = re.compile(rb"P[2356](?:\s+|#[^\n]*\n)+(\d+)(?:\s+|#[^\n]*\n)+(\d+)\s")
_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""JPEG markers among those of frames that begin none."""


def picture_size(path: Path) -> tuple[int, int] | None:
    """Width and height as shown of a JPEG, PNG, WebP, BMP, TIFF or PNM; None of others and damaged ones."""
    try:
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES)
            try:
                return _size(data)
            except (struct.error, IndexError):  # it stands farther behind
                return _size(data + file.read())
    except (OSError, struct.error, IndexError):
        return None


def _size(data: bytes) -> tuple[int, int] | None:
    """The size that the beginning of a file tells.

    Raises:
        struct.error, IndexError: the size lies behind it.
    """
    exif = b""
    if data.startswith(b"\xff\xd8"):
        width, height = _of_jpeg(data)
        exif = exif_of_jpeg(data)
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack_from(">II", data, 16)
        exif = exif_of_chunks(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        width, height = _of_webp(data)
        exif = exif_of_chunks(data)
    elif data[:4] in _TIFF_ORDERS:
        width, height = _of_tiff(data, _TIFF_ORDERS[data[:4]])
        exif = data
    elif data.startswith(b"BM"):
        old = struct.unpack_from("<I", data, 14)[0] == 12
        width, height = struct.unpack_from("<HH" if old else "<ii", data, 18)
    elif found := _PNM.match(data):
        width, height = int(found[1]), int(found[2])
    else:
        return None
    width, height = abs(width), abs(height)
    return (height, width) if exif_orientation(exif) in (5, 6, 7, 8) else (width, height)


def _of_jpeg(data: bytes) -> tuple[int, int]:
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:  # filling
            place += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        else:
            place += 2 + struct.unpack_from(">H", data, place + 2)[0]
    raise struct.error("no frame begins")


def _of_webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        if data[20] & 8 and len(data) < 8 + struct.unpack_from("<I", data, 4)[0]:
            raise struct.error("EXIF lies behind the pixels")
        width, height = (int.from_bytes(data[place : place + 3], "little") + 1 for place in (24, 27))
    elif kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    return width, height


def _of_tiff(data: bytes, order: str) -> tuple[int, int]:
    (directory,) = struct.unpack_from(f"{order}I", data, 4)
    (entries,) = struct.unpack_from(f"{order}H", data, directory)
    sides = {}
    for place in range(directory + 2, directory + 2 + 12 * entries, 12):
        tag, kind = struct.unpack_from(f"{order}HH", data, place)
        if tag in (_TIFF_WIDTH, _TIFF_HEIGHT):
            (sides[tag],) = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", data, place + 8)
    if len(sides) < 2:
        raise struct.error("no size")
    return sides[_TIFF_WIDTH], sides[_TIFF_HEIGHT]
