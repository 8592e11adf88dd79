"""Presentation stamps as the container gives them enter; strictly increasing ones leave."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np

from panorama.frames import FrameTimes
from panorama.video.reader import FrameTable

STEPS_BACK = 4
"""Frames by which a clock goes back at least that has started over; decoders and jitter go back by less."""

FAR_STEPS = 16
"""No codec shows a frame so many later, or earlier, than it is decoded."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a packet says before it is decoded."""

    pts: int | None
    dts: int | None
    is_keyframe: bool


class _HasPts(Protocol):
    @property
    def pts(self) -> int | None: ...


Stamped = TypeVar("Stamped", bound=_HasPts)


def starts_over(clock: int, last: int, began: float, ticks_per_frame: int, time_base: Fraction) -> bool:
    """Whether a clock that went from `last` back to `clock` has started over.

    By more than a second; or, as pieces shorter than that do which are joined end to end, by half of the way
    or more that it went since it began.

    Args:
        began: what it showed when it began; -inf for more than a second alone to count.
    """
    back = last - clock
    least = max(STEPS_BACK * ticks_per_frame, (last - began) / 2)
    return back > max(1, round(1 / time_base)) or back >= least


def far_ticks(ticks_per_frame: int, time_base: Fraction) -> int:
    """Ticks by which two frames are far apart: above a second, and above what frames are reordered by."""
    return max(round(1 / time_base), FAR_STEPS * ticks_per_frame)


def is_stray(stamp: int, before: int, behind: int, far: int) -> bool:
    """Whether a stamp is far from that before and that behind it, which are not from each other.

    A bit that was lost on the way leaves such a one, seconds or hours off. No clock started over there.
    """
    return abs(stamp - before) > far and abs(stamp - behind) > far and abs(behind - before) <= far


def has_stray(stamps: Sequence[Stamp], far: int) -> bool:
    """Whether of packets in decoding order one has a stray stamp, or the first one that is far ahead.

    Where nothing was shown for a while, too, a reference is decoded between frames from before the pause, or
    such a frame between those behind it. No stray is what lies near an end of another leap close by.
    """
    pts = np.array([stamp.pts for stamp in stamps if stamp.pts is not None], np.int64)
    steps = np.diff(pts)
    leaps = np.abs(steps) > far
    strays = leaps[:-1] & leaps[1:] & (np.abs(pts[2:] - pts[:-2]) <= far)
    leaping = np.flatnonzero(leaps)
    for at in np.flatnonzero(strays) + 1:
        others = leaping[(np.abs(leaping - at) <= FAR_STEPS) & (leaping != at - 1) & (leaping != at)]
        ends = np.concatenate([pts[others], pts[others + 1]])
        if not (np.abs(ends - pts[at]) <= far).any():
            return True
    return bool(len(steps) and steps[0] < -far)


def with_behind(some: Iterator[Stamped]) -> Iterator[tuple[Stamped, int | None]]:
    """Each frame or packet, and the pts of the one behind it; None behind the last."""
    held = next(some, None)
    for one in some:
        assert held is not None
        yield held, one.pts
        held = one
    if held is not None:
        yield held, None


class FrameClock:
    """Repairs stamps of frames in presentation order.

    A missing or repeated stamp continues at the frame rate, a stray one between its neighbours, and a clock
    that starts over (files joined end to end) continues where it was.

    Attributes:
        repairs: how many stamps were changed.
        broken: whether stamps were missing or started over, so that they do not identify a frame.
    """

    def __init__(self, ticks_per_frame: int, time_base: Fraction) -> None:
        self._step = max(1, ticks_per_frame)
        self._time_base = time_base
        self._far = far_ticks(self._step, time_base)
        self._offset = 0
        self._last: int | None = None
        self._last_raw: int | None = None
        self._began = 0
        self.repairs = 0
        self.broken = False

    def next(self, raw: int | None, behind: int | None = None) -> int:
        """The stamp of the next frame, which has the raw one; `behind` is that of the frame behind it."""
        last, last_raw = self._last, self._last_raw
        if (
            (raw is not None and last is not None)
            and (last_raw is not None and behind is not None)
            and is_stray(raw, last_raw, behind, self._far)
        ):
            self.repairs += 1
            self._last = last + max(1, min(self._step, (behind - last_raw) // 2))
            return self._last
        self._last_raw = raw if raw is not None else last_raw
        expected = None if raw is None else raw + self._offset
        if raw is None:
            self.broken = True
            stamp = 0 if last is None else last + self._step
        else:
            stamp = raw + self._offset
            if last_raw is None:
                self._began = raw
            if last is not None and last_raw is not None and self._starts_over(raw, last_raw):
                self.broken = True
                self._began = raw
                self._offset += last + self._step - stamp
                stamp = last + self._step
            elif last is not None and stamp <= last:
                # One that at least moves on is nudged only, so that one repair does not push all that follow.
                moves_on = last_raw is not None and raw > last_raw
                stamp = last + (1 if moves_on else self._step)
        self.repairs += stamp != expected
        self._last = stamp
        return stamp

    def _starts_over(self, raw: int, last_raw: int) -> bool:
        return starts_over(raw, last_raw, self._began, self._step, self._time_base)


def table_of(
    stamps: Sequence[Stamp],
    time_base: Fraction,
    ticks_per_frame: int,
    *,
    first_pts: int | None,
    order_only: bool,
    can_seek: bool,
) -> FrameTable:
    """The frame table from packets in decoding order.

    Args:
        stamps: packets that show a frame.
        first_pts: of the first frame that really decodes: packets shown before it are not decodable.
        order_only: whether stamps are good for their order alone (see decoding.Source).
        can_seek: whether the container gives the same stamps after a seek.
    """
    pieces = [
        _restamp_last_anchor(piece, ticks_per_frame) for piece in _pieces(stamps, ticks_per_frame, time_base)
    ]
    if first_pts is not None and not order_only:
        pieces[0] = [stamp for stamp in pieces[0] if stamp.pts is None or stamp.pts >= first_pts]
    clock = FrameClock(ticks_per_frame, time_base)
    pts_of: list[int] = []
    keys: list[bool] = []
    for piece in pieces:
        shown = [(stamp.pts if stamp.pts is not None else stamp.dts, stamp.is_keyframe) for stamp in piece]
        if all(pts is not None for pts, _ in shown):
            shown.sort(key=lambda item: item[0] or 0)
        for pts, is_keyframe in shown:
            pts_of.append(clock.next(pts))
            keys.append(is_keyframe)
    times = FrameTimes(np.array(pts_of, np.int64), time_base)
    return FrameTable(times, np.array(keys, np.bool_), can_seek and not order_only and not clock.broken)


def _pieces(stamps: Sequence[Stamp], ticks_per_frame: int, time_base: Fraction) -> list[list[Stamp]]:
    """Runs of packets on one clock: files joined end to end start over, and sorting must not mix them."""
    # In decoding order dts only rises; pts goes to and fro, and tells nothing of short pieces.
    by_dts = any(stamp.dts is not None for stamp in stamps)
    pieces: list[list[Stamp]] = [[]]
    last: int | None = None
    began = -math.inf
    for stamp in stamps:
        clock = stamp.dts if by_dts else stamp.pts
        if clock is not None:
            fresh = last is not None and starts_over(clock, last, began, ticks_per_frame, time_base)
            if fresh:
                pieces.append([])
            if by_dts and (fresh or last is None):
                began = clock
            last = clock
        pieces[-1].append(stamp)
    return pieces


def _restamp_last_anchor(piece: list[Stamp], ticks_per_frame: int) -> list[Stamp]:
    """Corrects the last reference frame of an MPEG program stream, stamped as the B-frame before it.

    The parser stamps a reference frame when it meets the next one; the last one it never does.
    """
    for at in range(len(piece) - 2, max(-1, len(piece) - 12), -1):
        anchor, after = piece[at], piece[at + 1]
        if anchor.pts is not None and anchor.pts == after.pts == after.dts and anchor.dts != anchor.pts:
            shown_before = [s.pts for s in piece[at + 1 :] if s.pts is not None]
            pts = max(shown_before) + ticks_per_frame
            return [*piece[:at], Stamp(pts, anchor.dts, anchor.is_keyframe), *piece[at + 1 :]]
    return piece


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
