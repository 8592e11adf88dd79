"""A picture file's bytes enter; what its EXIF block says leaves: which way up and when it was taken."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import datetime

ORIENTATION, _DETAILS, _TAKEN, _OFFSET = 0x0112, 0x8769, 0x9003, 0x9011
"""Tags: which way up, where the camera's own directory lies, and in that DateTimeOriginal and its offset."""
ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_BEGINS = b"Exif\0\0"
_BOXED = re.compile(rb"(?:Exif\0\0|\0\0\0\0)(?=II\*\0|MM\0\*)")
"""What stands before the EXIF block in HEIC and AVIF: its sign, or of none the distance to the block."""
_APP1, _PIXELS = 0xE1, 0xDA
"""Markers of JPEG."""


def exif_orientation(exif: bytes) -> int:
    """Which way up an EXIF block says that a picture was taken, 1 to 8; 1 where it does not."""
    try:
        order = ORDERS[exif[:4]]
        place = entry(exif, order, struct.unpack_from(f"{order}I", exif, 4)[0], ORIENTATION)
        return 1 if place is None else int(struct.unpack_from(f"{order}H", exif, place + 8)[0])
    except (KeyError, struct.error):  # no block, or one that is cut off
        return 1


def taken_at(data: bytes) -> datetime | None:
    """When a JPEG, PNG, WebP, TIFF, HEIC or AVIF says that it was taken, DateTimeOriginal; else None.

    It has a zone only where the camera told its offset; most do not, and it is the time of their clock.
    """
    try:
        exif = exif_of(data) or _exif_of_boxes(data)
        order = ORDERS[exif[:4]]
        place = entry(exif, order, struct.unpack_from(f"{order}I", exif, 4)[0], _DETAILS)
        if place is None:
            return None
        (details,) = struct.unpack_from(f"{order}I", exif, place + 8)
        taken, offset = (_text(exif, order, details, tag) for tag in (_TAKEN, _OFFSET))
        moment = datetime.strptime(taken, "%Y:%m:%d %H:%M:%S")
    except (KeyError, ValueError, struct.error):
        return None
    try:
        return datetime.fromisoformat(f"{moment.isoformat()}{offset}")
    except ValueError:  # cameras write blanks where they do not know it
        return moment


def exif_of(data: bytes) -> bytes:
    """The EXIF block of a JPEG, PNG, WebP or TIFF; b"" where there is none, and of others.

    Raises:
        struct.error: the file is cut off.
    """
    return exif_of_jpeg(data) or exif_of_chunks(data) or data[: len(data) * (data[:4] in ORDERS)]


def exif_of_jpeg(data: bytes) -> bytes:
    """The EXIF block of a JPEG; b"" where there is none, and of others."""
    for marker, place, end in jpeg_segments(data):
        if marker == _APP1 and data.startswith(_BEGINS, place):
            return data[place + len(_BEGINS) : end]
    return b""


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, and the place where its content begins and ends, of each segment before the pixels of a JPEG.

    None of other files, and of what is cut off.
    """
    place = 2 if data.startswith(b"\xff\xd8") else len(data)
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker, length = struct.unpack_from(">BH", data, place + 1)
        if marker == 0xFF:  # one that fills up
            place += 1
            continue
        if marker == _PIXELS:
            return
        yield marker, place + 4, place + 2 + length
        place += 2 + length


def exif_of_chunks(data: bytes) -> bytes:
    """The EXIF block of a PNG or WebP; b"" where there is none, and of others.

    Raises:
        struct.error: the file is cut off.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        first, header, order, wanted = 8, 12, ">I4s", b"eXIf"  # length, name, ..., sum
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        first, header, order, wanted = 12, 8, "<4sI", b"EXIF"
    else:
        return b""
    while first + 8 <= len(data):
        one, other = struct.unpack_from(order, data, first)
        name, length = (other, one) if header == 12 else (one, other + other % 2)
        if name == wanted:
            return data[first + 8 : first + 8 + length].removeprefix(_BEGINS)
        first += header + length
    return b""


def _exif_of_boxes(data: bytes) -> bytes:
    """The file from the EXIF block of a HEIC or AVIF on; b"" where there is none, and of others.

    It is found by how it begins, which is no coded pixels but by a chance of 2^-64 at each place.
    """
    found = _BOXED.search(data) if data[4:8] == b"ftyp" else None
    return b"" if found is None else data[found.end() :]


def entry(exif: bytes, order: str, directory: int, wanted: int) -> int | None:
    """Where a tag's entry begins in a directory: tag, kind, count, and its value or where that lies."""
    (entries,) = struct.unpack_from(f"{order}H", exif, directory)
    for place in range(directory + 2, directory + 2 + 12 * entries, 12):
        if struct.unpack_from(f"{order}H", exif, place)[0] == wanted:
            return place
    return None


def _text(exif: bytes, order: str, directory: int, tag: int) -> str:
    """The text of a tag, '' where there is none."""
    place = entry(exif, order, directory, tag)
    if place is None:
        return ""
    count, begin = struct.unpack_from(f"{order}II", exif, place + 4)
    begin = place + 8 if count <= 4 else begin
    return exif[begin : begin + count].rstrip(b"\0").decode("ascii", "replace").strip()
