"""A Matroska file comes in; the length in bytes that its header declares goes out."""

from __future__ import annotations

from pathlib import Path

EBML_HEADER = b"\x1a\x45\xdf\xa3"
SEGMENT = b"\x18\x53\x80\x67"


def matroska_bytes(path: Path) -> int | None:
    """Bytes that the file declares as its length; None if it does not (live recordings) or is damaged."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head.startswith(EBML_HEADER):
        return None
    header = _size_at(head, len(EBML_HEADER))
    if header is None:
        return None
    segment_at = header[1] + header[0]
    if head[segment_at : segment_at + 4] != SEGMENT:
        return None
    segment = _size_at(head, segment_at + 4)
    return None if segment is None else segment[1] + segment[0]


def _size_at(data: bytes, at: int) -> tuple[int, int] | None:
    """An EBML size and its end: the leading zero bits of the first byte give the number of further bytes.

    None if it is cut off, invalid, or the code for an unknown size.
    """
    if at >= len(data) or data[at] == 0:
        return None
    length = 9 - data[at].bit_length()
    raw = int.from_bytes(data[at : at + length], "big")
    value = raw & ((1 << 7 * length) - 1)
    unknown = value == (1 << 7 * length) - 1
    return None if unknown or at + length > len(data) else (value, at + length)
