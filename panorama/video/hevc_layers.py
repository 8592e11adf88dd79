"""Packets of HEVC come in; which show no frame, and which have frames that no other depends on, goes out.

A packet says whether other frames of its own temporal layer depend on its frame. Only in the topmost layer
does a "no" mean that no frame at all does (ITU-T H.265, 7.4.2.2). Most streams have one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import av

FIRST_PARAMETERS = 32
"""NAL units of this type and above contain no part of a picture."""

SEQUENCE_PARAMETERS = 33

NOT_MADE_FROM = range(0, 16, 2)
"""Unit types of pictures on which no other picture of their layer depends."""

CRA = 21
WHOLE = range(16, 22)
"""Unit types of pictures that depend on no other; all but CRA start a new sequence."""

LEANING = (8, 9)
"""Unit types of pictures that also depend on pictures before the last one of WHOLE (RASL)."""

ENDS = (36, 37)
"""Unit types that mark the end of a sequence or of the stream."""

START_CODE = b"\x00\x00\x01"

LOOKED_AT_BYTES = 4096
"""Examined at the start of a packet: parameters and messages may precede the picture, but not many."""

LAST_BYTES = 16
"""Examined at the end of a packet, for an end marker."""


@dataclass(frozen=True, slots=True)
class Layers:
    """How an HEVC stream is written.

    Attributes:
        length_bytes: size of the length field before each unit; 0 if start codes separate the units.
        topmost: number of the topmost temporal layer, from 0.
    """

    length_bytes: int
    topmost: int

    @classmethod
    def of(cls, extradata: bytes | None) -> Layers | None:
        """Read the layers from the decoder's extradata; None if it does not contain them."""
        if not extradata or len(extradata) < 4:
            return None
        if extradata[0] == 1:
            length_bytes, units = (extradata[21:22] or b"\x03")[0] % 4 + 1, list(_configured(extradata))
        else:
            length_bytes, units = 0, list(_parted(extradata))
        topmost = _topmost(units)
        return None if topmost is None else cls(length_bytes, topmost)

    def raised_by(self, packet: av.Packet) -> Layers:
        """The layers, extended if a packet declares more: a stream may be joined from several."""
        topmost = _topmost(self._units(packet))
        return self if topmost is None or topmost <= self.topmost else replace(self, topmost=topmost)

    def stands_alone(self, packet: av.Packet) -> bool:
        """Whether no other frame depends on that of a packet; False if that cannot be seen."""
        for unit in self._units(packet):
            if len(unit) < 2:
                return False
            if _type(unit) < FIRST_PARAMETERS:
                return _type(unit) in NOT_MADE_FROM and unit[1] % 8 - 1 == self.topmost
        return False

    def _units(self, packet: av.Packet) -> Iterator[bytes]:
        return _units(bytes(memoryview(packet)[:LOOKED_AT_BYTES]), self.length_bytes)


class Splices:
    """Finds the packets of a pass that show no frame; call `hides` for all of them, in decoding order.

    Where streams were joined, frames that depend on some before the splice are not shown (ITU-T H.265,
    8.1.3). A splice is at the beginning, after the end of a sequence, and at a picture that starts a new one.
    """

    def __init__(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        self._ended = True
        self._spliced = False

    def hides(self, packet: av.Packet) -> bool:
        """Whether the frame of a packet depends on frames before a splice, and so is not shown."""
        data, hidden = memoryview(packet), False
        for unit in _units(bytes(data[:LOOKED_AT_BYTES]), self._length_bytes):
            kind = _type(unit)
            self._ended |= kind in ENDS
            if kind < FIRST_PARAMETERS:
                hidden = kind in LEANING and self._spliced
                if kind in WHOLE:
                    self._spliced = kind != CRA or self._ended
                self._ended = False
                break
        self._ended |= _ends(bytes(data[-LAST_BYTES:]), self._length_bytes)
        return hidden


def _ends(last: bytes, length_bytes: int) -> bool:
    """Whether the last bytes of a packet contain a two-byte unit that marks an end."""
    if length_bytes and last[-2 - length_bytes : -2] != (2).to_bytes(length_bytes, "big"):
        return False
    return any(_type(unit) in ENDS for unit in ([last[-2:]] if length_bytes else _parted(last)))


def _units(data: bytes, length_bytes: int) -> Iterator[bytes]:
    return _parted(data) if not length_bytes else _counted(data, length_bytes)


def _topmost(units: Iterable[bytes]) -> int | None:
    """The topmost layer that sequence parameters among the units declare; None if there are none."""
    return max((u[2] >> 1 & 7 for u in units if _type(u) == SEQUENCE_PARAMETERS and len(u) > 2), default=None)


def _type(unit: bytes) -> int:
    return unit[0] >> 1 & 63 if unit else FIRST_PARAMETERS


def _parted(data: bytes) -> Iterator[bytes]:
    """The first 5 bytes of each unit, in data with start codes."""
    place = data.find(START_CODE)
    while place >= 0:
        yield data[place + 3 : place + 8]
        place = data.find(START_CODE, place + 3)


def _counted(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """The first 8 bytes of each unit, in data with a length before each."""
    place = 0
    while place + length_bytes < len(data):
        begin = place + length_bytes
        yield data[begin : begin + 8]
        place = begin + int.from_bytes(data[place:begin], "big")


def _configured(record: bytes) -> Iterator[bytes]:
    """The units of a decoder configuration record (ISO/IEC 14496-15, 8.3.3.1), as far as it goes."""
    place = 23
    for _ in range(record[22] if len(record) > 22 else 0):
        count = int.from_bytes(record[place + 1 : place + 3], "big")
        place += 3
        for _ in range(count):
            length = int.from_bytes(record[place : place + 2], "big")
            yield record[place + 2 : place + 2 + length]
            place += 2 + length
            if place > len(record):
                return
