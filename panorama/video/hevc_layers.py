"""A stream of HEVC enters; which of its packets no other frame is made from, leaves.

A packet says whether frames of its own layer of time are made from its frame; only in the topmost layer does
that mean no frame at all (ITU-T H.265, 7.4.2.2). Most streams have one layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import av

FIRST_PARAMETERS = 32
"""From this type of unit on a unit holds no part of a picture."""

SEQUENCE_PARAMETERS = 33

NOT_MADE_FROM = range(0, 16, 2)
"""Types of units of pictures that none of their layer is made from."""

START_CODE = b"\x00\x00\x01"

LOOKED_AT_BYTES = 4096
"""Of a packet: what it says of itself may come behind notes for the decoder, but not far behind."""


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
        found = [unit[2] >> 1 & 7 for unit in units if _type(unit) == SEQUENCE_PARAMETERS and len(unit) > 2]
        return cls(length_bytes, max(found)) if found else None

    def stands_alone(self, packet: av.Packet) -> bool:
        """Whether no other frame is made from that of a packet; False where it does not show."""
        data = bytes(memoryview(packet)[:LOOKED_AT_BYTES])
        for unit in _parted(data) if not self.length_bytes else _counted(data, self.length_bytes):
            if len(unit) < 2:
                return False
            if _type(unit) < FIRST_PARAMETERS:
                return _type(unit) in NOT_MADE_FROM and unit[1] % 8 - 1 == self.topmost
        return False


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
