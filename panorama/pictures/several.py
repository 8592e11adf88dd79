"""The bytes of a picture file come in; whether it holds more than the picture that is read goes out."""

from __future__ import annotations

import struct
from enum import Enum, auto

_SEQUENCES = frozenset({b"avis", b"msf1", b"hevc", b"hevx"})
"""Brands of AVIF and HEIC files that begin with a sequence of pictures."""

_OF_ANOTHER = 1 | 4
"""The bits of TIFF's NewSubfileType for a smaller copy of another picture, a thumbnail, and for its mask."""

_NEW_SUBFILE_TYPE = 254
_SHORT = 3
_MOST_PAGES = 64


class Several(Enum):
    """How a file holds several pictures, of which the first is read."""

    VIDEO = auto()
    """As an animation that can be read as a video, too."""

    ANIMATION = auto()
    """As an animation that no video decoder here reads."""

    PAGES = auto()
    """As pages of a document, or pictures that have nothing to do with each other."""


def several_in(data: bytes) -> Several | None:
    """How a file holds several pictures; None if it holds one, or is of a kind that cannot tell."""
    if data.startswith(b"GIF8"):
        return Several.VIDEO if _several_in_gif(data) else None
    if data.startswith(b"\x89PNG"):
        return Several.VIDEO if b"acTL" in data[: data.find(b"IDAT")] else None
    if data[:4] == b"RIFF":
        return Several.ANIMATION if data[12:16] == b"VP8X" and data[20] & 2 else None
    if data[4:8] == b"ftyp":
        return Several.VIDEO if data[8:12] in _SEQUENCES else None
    if data[:4] in (b"II*\0", b"MM\0*"):
        return Several.PAGES if _several_in_tiff(data) else None
    return None


def _several_in_gif(data: bytes) -> bool:
    """Whether a GIF contains a second picture; walks its blocks, because not all GIFs have delays."""

    def table(flags: int) -> int:
        return 3 << ((flags & 7) + 1) if flags & 0x80 else 0

    pictures, place = 0, 13 + (table(data[10]) if len(data) > 10 else 0)
    while place < len(data) and pictures < 2:
        kind = data[place]
        if kind == 0x21 and place + 1 < len(data):  # an extension: its label, then blocks
            place += 2
        elif kind == 0x2C and place + 9 < len(data):  # a picture: box, colours, code size, blocks
            pictures += 1
            place += 11 + table(data[place + 9])
        else:  # the trailer, or cut off
            break
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
    return pictures > 1


def _several_in_tiff(data: bytes) -> bool:
    """Whether a TIFF contains a second picture that is neither a smaller copy of another one nor its mask."""
    order = "<" if data[:2] == b"II" else ">"
    try:
        (place,) = struct.unpack_from(f"{order}I", data, 4)
        for page in range(_MOST_PAGES):
            if not place:
                return False
            (count,) = struct.unpack_from(f"{order}H", data, place)
            kind = 0
            for entry in range(place + 2, place + 2 + 12 * count, 12):
                tag, width = struct.unpack_from(f"{order}HH", data, entry)
                if tag == _NEW_SUBFILE_TYPE:
                    (kind,) = struct.unpack_from(f"{order}{'H' if width == _SHORT else 'I'}", data, entry + 8)
            if page and not kind & _OF_ANOTHER:
                return True
            (place,) = struct.unpack_from(f"{order}I", data, place + 2 + 12 * count)
    except struct.error:  # cut off
        pass
    return False
