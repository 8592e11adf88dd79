"""Presentation stamps as the container gives them enter; strictly increasing ones leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from panorama.frames import FrameTimes
from panorama.video.reader import FrameTable


class FrameClock:
    """Repairs stamps of frames in presentation order.

    A missing stamp continues at the frame rate, a repeated one moves up a tick, and a clock that starts over
    (files joined end to end) continues where it was. `repairs` counts what was changed.
    """

    def __init__(self, ticks_per_frame: int, time_base: Fraction) -> None:
        self._step = max(1, ticks_per_frame)
        self._restart = max(2, round(1 / time_base))
        self._offset = 0
        self._last: int | None = None
        self.repairs = 0

    def next(self, raw: int | None) -> int:
        """The stamp of the next frame."""
        if self._last is None:
            self._last = 0 if raw is None else raw
            self.repairs += raw is None
            return self._last
        stamp = self._last + self._step if raw is None else raw + self._offset
        if raw is not None and stamp < self._last - self._restart:
            self._offset += self._last + self._step - stamp
            stamp = self._last + self._step
            self.repairs += 1
        elif raw is None or stamp <= self._last:
            stamp = max(stamp, self._last + 1)
            self.repairs += 1
        self._last = stamp
        return stamp


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a packet says before it is decoded."""

    pts: int | None
    dts: int | None
    is_keyframe: bool


def table_of(
    stamps: Sequence[Stamp],
    time_base: Fraction,
    ticks_per_frame: int,
    *,
    first_pts: int | None,
    order_only: bool,
) -> FrameTable:
    """The frame table from packets in decoding order.

    Args:
        stamps: packets that show a frame.
        first_pts: of the first frame that really decodes: packets shown before it are not decodable.
        order_only: whether stamps are good for their order alone (see decoding.Source).
    """
    ticks_per_second = max(1, round(1 / time_base))
    pieces: list[list[tuple[int | None, bool]]] = [[]]
    last = None
    for stamp in stamps:
        clock = stamp.dts if stamp.dts is not None else stamp.pts
        if clock is not None:
            # Files joined end to end start their clock over: sorting must not interleave the parts.
            if last is not None and clock < last - ticks_per_second:
                pieces.append([])
            last = clock
        pieces[-1].append((stamp.pts if stamp.pts is not None else stamp.dts, stamp.is_keyframe))
    if first_pts is not None and not order_only:
        pieces[0] = [(pts, key) for pts, key in pieces[0] if pts is None or pts >= first_pts]
    clock_of_frames = FrameClock(ticks_per_frame, time_base)
    pts_of: list[int] = []
    keys: list[bool] = []
    for piece in pieces:
        known = all(pts is not None for pts, _ in piece)
        for pts, key in sorted(piece, key=lambda item: item[0] or 0) if known else piece:
            pts_of.append(clock_of_frames.next(pts))
            keys.append(key)
    times = FrameTimes(np.array(pts_of, np.int64), time_base)
    return FrameTable(times, np.array(keys, np.bool_), clock_of_frames.repairs == 0 and not order_only)


def shows_frame(codec: str, head: int, tail: int) -> bool:
    """Whether a packet shows a frame; VP8 and VP9 may hide reference frames in packets of their own.

    Args:
        head, tail: the packet's first and last byte.
    """
    if codec == "vp8":
        return bool(head & 0x10)
    if codec == "vp9":
        if tail & 0xE0 == 0xC0:  # a superframe: hidden frames packed together with the one shown
            return True
        if head & 0x30 == 0x30:  # profile 3 has one more bit before these
            return bool(head & 0x04) or bool(head & 0x01)
        return bool(head & 0x08) or bool(head & 0x02)
    return True
