"""A stream of HEVC enters; which of its packets show nothing, and which no other frame is made from, leaves.

A packet says whether frames of its own layer of time are made from its frame; only in the topmost layer does
that mean no frame at all (ITU-T H.265, 7.4.2.2). Most streams have one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import av

FIRST_PARAMETERS = 32
"""From this type of unit on a unit holds no part of a picture."""

SEQUENCE_PARAMETERS = 33

NOT_MADE_FROM = range(0, 16, 2)
"""Types of units of pictures that none of their layer is made from."""

CRA = 21
WHOLE = range(16, 22)
"""Types of units of pictures that are made from no other; those before the last are told to begin anew."""

LEANING = (8, 9)
"""Types of units of pictures that are made from some before the last whole one, too (RASL)."""

ENDS = (36, 37)
"""Types of units behind which a sequence, or the stream, ends."""

START_CODE = b"\x00\x00\x01"

LOOKED_AT_BYTES = 4096
"""Of a packet: what it says of itself may come behind notes for the decoder, but not far behind."""

LAST_BYTES = 16
"""Of a packet, among which one tells of an end."""


@dataclass(frozen=True, slots=True)
class Layers:
    """How a stream of HEVC is written.

    Attributes:
        length_bytes: of the length before each unit; 0 where start codes part them.
        topmost: the number of the topmost layer, from 0.
    """

    length_bytes: int
    topmost: int

    @classmethod
    def of(cls, extradata: bytes | None) -> Layers | None:
        """What the decoder is told beforehand says; None where it does not tell of layers."""
        if not extradata or len(extradata) < 4:
            return None
        if extradata[0] == 1:
            length_bytes, units = (extradata[21:22] or b"\x03")[0] % 4 + 1, list(_configured(extradata))
        else:
            length_bytes, units = 0, list(_parted(extradata))
        topmost = _topmost(units)
        return None if topmost is None else cls(length_bytes, topmost)

    def raised_by(self, packet: av.Packet) -> Layers:
        """These, and those above that a packet tells of: a stream may be put together from several."""
        topmost = _topmost(self._units(packet))
        return self if topmost is None or topmost <= self.topmost else replace(self, topmost=topmost)

    def stands_alone(self, packet: av.Packet) -> bool:
        """Whether no other frame is made from that of a packet; False where it does not show."""
        for unit in self._units(packet):
            if len(unit) < 2:
                return False
            if _type(unit) < FIRST_PARAMETERS:
                return _type(unit) in NOT_MADE_FROM and unit[1] % 8 - 1 == self.topmost
        return False

    def _units(self, packet: av.Packet) -> Iterator[bytes]:
        return _units(bytes(memoryview(packet)[:LOOKED_AT_BYTES]), self.length_bytes)


class Splices:
    """Tells which packets of a pass, asked of in decoding order, show nothing.

    Where streams were put together, frames that lean on some before the splice are not shown (ITU-T H.265,
    8.1.3): behind a picture that is told to begin anew, or the end of a sequence, as at the beginning.
    """

    def __init__(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        self._ended = True
        self._spliced = False

    def hides(self, packet: av.Packet) -> bool:
        """Whether a packet leans on frames from before a splice."""
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
    """Whether the last bytes of a packet are, or end with, a unit of two bytes that tells of an end."""
    if length_bytes and last[-2 - length_bytes : -2] != (2).to_bytes(length_bytes, "big"):
        return False
    return any(_type(unit) in ENDS for unit in ([last[-2:]] if length_bytes else _parted(last)))


def _units(data: bytes, length_bytes: int) -> Iterator[bytes]:
    return _parted(data) if not length_bytes else _counted(data, length_bytes)


def _topmost(units: Iterable[bytes]) -> int | None:
    """The number of the topmost layer that parameters among units tell of; None where there are none."""
    return max((u[2] >> 1 & 7 for u in units if _type(u) == SEQUENCE_PARAMETERS and len(u) > 2), default=None)


def _type(unit: bytes) -> int:
    return unit[0] >> 1 & 63 if unit else FIRST_PARAMETERS


def _parted(data: bytes) -> Iterator[bytes]:
    """Units that start codes part, each with what follows it."""
    place = data.find(START_CODE)
    while place >= 0:
        yield data[place + 3 : place + 8]
        place = data.find(START_CODE, place + 3)


def _counted(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """The beginnings of units that have their length before them."""
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
