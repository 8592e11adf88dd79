"""A picture file's bytes come in; the orientation and time in its EXIF block go out."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

ORIENTATION, _DETAILS, _TAKEN, _OFFSET, _FRACTION = 0x0112, 0x8769, 0x9003, 0x9011, 0x9291
"""Tags: orientation, place of the Exif sub-directory, and in that DateTimeOriginal, its UTC offset and
SubSecTimeOriginal, the digits behind its decimal point.
"""
ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_BEGINS = b"Exif\0\0"
_BOXED = re.compile(rb"(?:Exif\0\0|\0\0\0\0)(?=II\*\0|MM\0\*)")
"""What precedes the EXIF block in HEIC and AVIF: its signature, or without one a distance of 0 to it."""
_APP1, _PIXELS = 0xE1, 0xDA
"""Markers of JPEG."""
_JPEG = b"\xff\xd8"
_HEAD_BYTES = 1 << 17
"""Holds the EXIF block of a JPEG, which has at most 64 kB and stands at its beginning."""


def exif_orientation(exif: bytes) -> int:
    """The orientation in an EXIF block, normally 1 to 8; 1 if there is none or it is cut off."""
    try:
        order = ORDERS[exif[:4]]
        place = entry(exif, order, struct.unpack_from(f"{order}I", exif, 4)[0], ORIENTATION)
        return 1 if place is None else int(struct.unpack_from(f"{order}H", exif, place + 8)[0])
    except (KeyError, struct.error):  # no block, or one that is cut off
        return 1


def read_head(path: Path) -> bytes:
    """The bytes of a picture file that hold its EXIF block: the beginning of a JPEG, all of another file.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_HEAD_BYTES)
        return data if data.startswith(_JPEG) else data + file.read()


def taken_at(data: bytes) -> datetime | None:
    """DateTimeOriginal of a JPEG, PNG, WebP, TIFF, HEIC or AVIF, to the microsecond; None if it has none.

    It is aware of its time zone only if the camera stored its UTC offset. Most do not: then it is the time of
    the camera's clock.
    """
    try:
        exif = exif_of(data) or _exif_of_boxes(data)
        order = ORDERS[exif[:4]]
        place = entry(exif, order, struct.unpack_from(f"{order}I", exif, 4)[0], _DETAILS)
        if place is None:
            return None
        (details,) = struct.unpack_from(f"{order}I", exif, place + 8)
        taken, offset, digits = (_text(exif, order, details, tag) for tag in (_TAKEN, _OFFSET, _FRACTION))
        moment = datetime.strptime(taken, "%Y:%m:%d %H:%M:%S")
    except (KeyError, ValueError, struct.error):
        return None
    if digits.isascii() and digits.isdigit():
        moment = moment.replace(microsecond=int(digits[:6].ljust(6, "0")))
    try:
        return datetime.fromisoformat(f"{moment.isoformat()}{offset}")
    except ValueError:  # cameras that do not know the offset write blanks
        return moment


def exif_of(data: bytes) -> bytes:
    """The EXIF block of a JPEG, PNG, WebP or TIFF; b"" if there is none, and for other files.

    Raises:
        struct.error: the file is cut off.
    """
    return exif_of_jpeg(data) or exif_of_chunks(data) or data[: len(data) * (data[:4] in ORDERS)]


def exif_of_jpeg(data: bytes) -> bytes:
    """The EXIF block of a JPEG; b"" if there is none, and for other files."""
    for marker, place, end in jpeg_segments(data):
        if marker == _APP1 and data.startswith(_BEGINS, place):
            return data[place + len(_BEGINS) : end]
    return b""


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, begin and end of the content of each segment before the pixels of a JPEG.

    The end may lie behind the data if it is cut off. Yields nothing for other files.
    """
    place = 2 if data.startswith(_JPEG) else len(data)
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker, length = struct.unpack_from(">BH", data, place + 1)
        if marker == 0xFF:  # a fill byte
            place += 1
            continue
        if marker == _PIXELS:
            return
        yield marker, place + 4, place + 2 + length
        place += 2 + length


def exif_of_chunks(data: bytes) -> bytes:
    """The EXIF block of a PNG or WebP; b"" if there is none, and for other files.

    Raises:
        struct.error: the file is cut off.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        first, header, order, wanted = 8, 12, ">I4s", b"eXIf"  # length, name, ..., checksum
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
    """The data from the EXIF block of a HEIC or AVIF on; b"" if there is none, and for other files.

    It is found by the 8 bytes before and in it, which coded pixels match by chance once in 2^64 places.
    """
    found = _BOXED.search(data) if data[4:8] == b"ftyp" else None
    return b"" if found is None else data[found.end() :]


def entry(exif: bytes, order: str, directory: int, wanted: int) -> int | None:
    """Where the entry of a tag begins in a directory; None if it has none.

    An entry consists of the tag, its type, a count, and the value or its offset.

    Args:
        order: byte order, '<' or '>'.

    Raises:
        struct.error: the directory is cut off.
    """
    (entries,) = struct.unpack_from(f"{order}H", exif, directory)
    for place in range(directory + 2, directory + 2 + 12 * entries, 12):
        if struct.unpack_from(f"{order}H", exif, place)[0] == wanted:
            return place
    return None


def _text(exif: bytes, order: str, directory: int, tag: int) -> str:
    """The text of a tag; '' if there is none."""
    place = entry(exif, order, directory, tag)
    if place is None:
        return ""
    count, begin = struct.unpack_from(f"{order}II", exif, place + 4)
    begin = place + 8 if count <= 4 else begin
    return exif[begin : begin + count].rstrip(b"\0").decode("ascii", "replace").strip()
