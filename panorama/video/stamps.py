"""Presentation timestamps as the container gives them come in; strictly increasing ones go out."""

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
"""A clock that starts over goes back by at least this many frames; reordering and jitter go back by less."""

FAR_STEPS = 16
"""No codec moves a frame by this many places between decoding and display."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The timestamps of a packet, and whether it is a keyframe; known before decoding."""

    pts: int | None
    dts: int | None
    is_keyframe: bool


class _HasPts(Protocol):
    @property
    def pts(self) -> int | None: ...


Stamped = TypeVar("Stamped", bound=_HasPts)


def starts_over(clock: int, last: int, began: float, ticks_per_frame: int, time_base: Fraction) -> bool:
    """Whether a clock that went from `last` back to `clock` has started over.

    It has if it went back by more than a second. Since files shorter than that may be joined end to end, it
    also has if it went back by at least STEPS_BACK frames and half of the time since it began.

    Args:
        began: its value when it began; -inf to apply only the first rule.
    """
    back = last - clock
    least = max(STEPS_BACK * ticks_per_frame, (last - began) / 2)
    return back > max(1, round(1 / time_base)) or back >= least


def far_ticks(ticks_per_frame: int, time_base: Fraction) -> int:
    """Ticks beyond which two frames are far apart: a second, but at least what reordering can explain."""
    return max(round(1 / time_base), FAR_STEPS * ticks_per_frame)


def is_stray(stamp: int, before: int, behind: int, far: int) -> bool:
    """Whether a stamp is far from the stamps before and after it, which are close to each other.

    A bit error in transmission causes such a stamp, seconds or hours off. The clock did not start over there.
    """
    return abs(stamp - before) > far and abs(stamp - behind) > far and abs(behind - before) <= far


def only_decoding_tells(stamps: Sequence[Stamp], far: int) -> bool:
    """Whether packets in decoding order do not tell where each of their frames is shown.

    They do not if one has a stray stamp, or if one has no stamp and frames are reordered: every packet of a
    stream without reordering is decoded when it is shown.
    """
    stamped = [stamp for stamp in stamps if stamp.pts is not None]
    lacking = len(stamped) < len(stamps)
    # What goes back is not enough to look for: a stream may stamp only the first packet of each group.
    return (lacking and any(stamp.pts != stamp.dts for stamp in stamped)) or _has_stray(stamped, far)


def _has_stray(stamps: Sequence[Stamp], far: int) -> bool:
    """Whether packets in decoding order include a stray stamp, or begin with one that is far ahead.

    A pause looks similar: a reference frame from after it may be decoded between frames from before it, or
    the other way round. So a stamp close to either end of another leap nearby is not stray.
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
    """Each frame or packet with the pts of the next one; None for the last."""
    held = next(some, None)
    for one in some:
        assert held is not None
        yield held, one.pts
        held = one
    if held is not None:
        yield held, None


class FrameClock:
    """Repairs the stamps of frames in presentation order.

    It replaces a missing or repeated stamp by continuing at the frame rate, and a stray one by a value
    between its neighbours. If the clock starts over (files joined end to end), or begins only after some
    frames, the stamps continue where they were.

    Attributes:
        repairs: number of stamps changed.
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
        """The repaired stamp of the next frame.

        Args:
            raw: its stamp; None if it has none.
            behind: raw stamp of the frame after it, needed to recognise a stray; None if unknown.
        """
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
            if last is not None and (last_raw is None or self._starts_over(raw, last_raw)):
                self.broken = True
                self._began = raw
                self._offset += last + self._step - stamp
                stamp = last + self._step
            elif last is not None and stamp <= last:
                # Advance by one tick only if the raw stamp increases, so that one repair does not shift all
                # frames that follow.
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
    """The frame table of packets in decoding order.

    Args:
        stamps: packets that show a frame.
        first_pts: pts of the first frame that decodes; packets shown before it cannot be decoded. None if
            unknown.
        order_only: whether stamps are right only in their order (see `probing.Source`).
        can_seek: whether frames have the same stamps after a seek.
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
        # Without one of the stamps, either frames are not reordered or only their order is known.
        if all(pts is not None for pts, _ in shown):
            shown.sort(key=lambda item: item[0] or 0)
        for pts, is_keyframe in shown:
            pts_of.append(clock.next(pts))
            keys.append(is_keyframe)
    times = FrameTimes(np.array(pts_of, np.int64), time_base)
    stamped = not order_only and not clock.broken
    return FrameTable(times, np.array(keys, np.bool_), can_seek and stamped, stamped)


def _pieces(stamps: Sequence[Stamp], ticks_per_frame: int, time_base: Fraction) -> list[list[Stamp]]:
    """Split packets into runs on one clock: joined files start over, and sorting must not mix them."""
    # In decoding order dts only increases; pts goes back and forth, and cannot reveal short pieces.
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
    """Correct the last reference frame of an MPEG program stream, which has the stamp of the next B-frame.

    The parser stamps a reference frame when it reaches the next one, so never the last one.
    """
    for at in range(len(piece) - 2, max(-1, len(piece) - 12), -1):
        anchor, after = piece[at], piece[at + 1]
        if anchor.pts is not None and anchor.pts == after.pts == after.dts and anchor.dts != anchor.pts:
            shown_before = [s.pts for s in piece[at + 1 :] if s.pts is not None]
            pts = max(shown_before) + ticks_per_frame
            return [*piece[:at], Stamp(pts, anchor.dts, anchor.is_keyframe), *piece[at + 1 :]]
    return piece


def shows_frame(codec: str, head: int, tail: int) -> bool:
    """Whether a packet shows a frame; VP8 and VP9 may have hidden reference frames in separate packets.

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
