"""Packets come in, in decoding order; which to skip goes out, and where their frames belong in the output."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import av

from panorama.video.stamps import FAR_STEPS, is_stray

WARM_UP_PACKETS = 64
"""Always decoded at the beginning: from these a decoder learns how far frames are reordered."""

KNOWN_PACKETS = 64
"""Stamps to remember; no codec's decoding order and display order differ by more."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A frame that was not decoded: it is not needed, and no other frame depends on it."""

    pts: int


class Sparing:
    """Decides which packets one pass may skip ("spare"), and puts their frames in presentation order.

    A spared packet is still decoded if other frames depend on it. Everything is decoded from the first sign
    of trouble on: damage, a missing frame, fields instead of frames, or stamps that do not identify a frame
    or its place. Undecoded frames could not be counted then. Packets spared before that still count as one
    frame each, except those between a missing frame and the next one that comes out. At a stray stamp, or one
    that looks stray beside a pause, everything is decoded until its frame has come out.

    Args:
        first_pts: pts of the first frame that decodes.
        ticks_per_second: a clock that goes back by more than this has started over.
        far: ticks by which consecutive packets are far apart, see `far_ticks`.
        unneeded: called with the pts of packets in decoding order; returns whether the frame is not needed.
        may_spare: whether the decoder may decide about a packet, which it does by what the packet says of
            itself; called for all packets in decoding order.
    """

    def __init__(
        self,
        first_pts: int,
        ticks_per_second: int,
        far: int,
        unneeded: Callable[[int], bool],
        may_spare: Callable[[av.Packet], bool],
    ) -> None:
        self._first_pts = first_pts
        self._ticks_per_second = ticks_per_second
        self._far = far
        self._unneeded = unneeded
        self._may_spare = may_spare
        self._packets = 0
        self._over = False
        self._last_clock: int | None = None
        self._last_pts: int | None = None
        self._waiting: list[int] = []  # a heap of the pts of spared packets that have not come out
        self._awaited: list[int] = []  # a heap of the pts of packets that were not spared
        self._met: deque[int] = deque(maxlen=KNOWN_PACKETS)
        self._strays: set[int] = set()  # of packets; nothing is spared until their frames come out
        self._told: dict[int, int] = {}  # pts of frames reported as passed over -> number of packets then
        self._unplaced: list[av.VideoFrame] = []  # came out without a pts while others were waiting

    @property
    def waiting(self) -> int:
        """Number of spared frames that have not been reported yet, and of those held."""
        return len(self._waiting) + len(self._unplaced)

    def stop(self) -> None:
        """Spare no further packets."""
        self._over = True

    def spares(self, packet: av.Packet, shown: bool, behind: int | None) -> bool:
        """Whether the decoder may skip a packet.

        Args:
            shown: whether it shows a frame at all.
            behind: pts of the next packet; None if there is none.
        """
        self._packets += 1
        may_spare = self._may_spare(packet)
        pts, last = packet.pts, self._last_clock
        if pts is None or packet.is_corrupt:
            self._over = True
            return False
        if self._met and behind is not None and is_stray(pts, self._met[-1], behind, self._far):
            self._strays.add(pts)  # its frame belongs where it comes out, not where its stamp says
            self._unneeded(self._met[-1])
            return False
        self._last_clock = pts if packet.dts is None else packet.dts
        if last is not None and self._last_clock < last - self._ticks_per_second:
            self._over = True
            self._told.clear()  # from here on, the same stamps mean other frames
        self._over |= pts in self._met
        self._met.append(pts)
        if shown and (pts in self._waiting or self._was_told(pts)):
            heapq.heappush(self._waiting, pts)  # two packets with one stamp: both count, whichever comes out
        if self._over or not shown or pts < self._first_pts:
            return False
        # Call it for every packet: it counts them and compares each with those before.
        unneeded = self._unneeded(pts)
        if self._strays:
            return False
        spared = unneeded and self._packets > WARM_UP_PACKETS and may_spare
        heapq.heappush(self._waiting if spared else self._awaited, pts)
        return spared

    def placed(self, frame: av.VideoFrame) -> Iterator[av.VideoFrame | PassedOver]:
        """A frame that comes out, after those passed over before it; call it for every decoded frame.

        One without a pts is held until it is known which of the spared frames were decoded after all. One
        that was reported as passed over, because a later one came out before it, is left out.
        """
        if frame.pts is None:
            yield from self._placed_by_order(frame)
        elif self._was_told(frame.pts):
            del self._told[frame.pts]
            self._over = True
        else:
            yield from self._before(frame, frame.pts)
            yield from self._released()
            yield frame

    def _placed_by_order(self, frame: av.VideoFrame) -> Iterator[av.VideoFrame | PassedOver]:
        """A frame without a pts, or nothing yet."""
        self._over = True
        self._unplaced.append(frame)
        if not self._waiting:
            yield from self._released()
        elif len(self._unplaced) > FAR_STEPS:  # no frame that was decoded still waits
            yield from self.rest()

    def _released(self) -> Iterator[av.VideoFrame]:
        """The frames without a pts that were held.

        What was passed over comes first: it was read before them, and a frame on which no other depends is
        read only when it is to be shown.
        """
        yield from self._unplaced
        self._unplaced.clear()

    def _before(self, frame: av.VideoFrame, pts: int) -> Iterator[PassedOver]:
        """The frames passed over before one that comes out with this pts."""
        if frame.interlaced_frame or frame.is_corrupt:
            self._over = True
        if pts in self._strays:
            self._strays.remove(pts)
            return
        last, self._last_pts = self._last_pts, pts
        started_over = last is not None and pts < last - self._ticks_per_second
        missed = self._first_missed(pts)
        if missed is not None or (last is not None and pts <= last):
            self._over = True
        while self._waiting and (started_over or self._waiting[0] < pts):
            yield from self._tell(missed)
        if self._waiting and self._waiting[0] == pts:
            heapq.heappop(self._waiting)  # it was decoded after all: others depend on it

    def rest(self) -> Iterator[av.VideoFrame | PassedOver]:
        """The frames passed over after the last one that came out, and those that are still held."""
        missed = self._awaited[0] if self._awaited else None
        while self._waiting:
            yield from self._tell(missed)
        yield from self._released()

    def _first_missed(self, pts: int) -> int | None:
        """Pts of the first frame that should have come out before the one with this pts and did not, if any.

        Forgets all frames that should have come out by then.
        """
        missed = None
        while self._awaited and self._awaited[0] <= pts:
            one = heapq.heappop(self._awaited)
            missed = one if missed is None and one < pts else missed
        return missed

    def _tell(self, missed: int | None) -> Iterator[PassedOver]:
        """Report the next spared frame, unless a frame before it was lost: it may depend on that one."""
        pts = heapq.heappop(self._waiting)
        if missed is not None and pts > missed:
            return
        self._told[pts] = self._packets
        if len(self._told) > KNOWN_PACKETS:
            del self._told[next(iter(self._told))]
        yield PassedOver(pts)

    def _was_told(self, pts: int) -> bool:
        """Whether a frame with this pts was reported as passed over recently."""
        return self._packets - self._told.get(pts, -KNOWN_PACKETS) < KNOWN_PACKETS
