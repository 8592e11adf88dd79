"""Packets enter in decoding order; which need not be decoded leaves, and where their frames would stand."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import av

from panorama.video.stamps import is_stray

WARM_UP_PACKETS = 64
"""Decoded whatever is needed: by these a decoder learns how far frames are reordered."""

KNOWN_PACKETS = 64
"""Stamps that are remembered: farther apart no codec puts what it decodes and what it shows."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A frame that was not decoded: nobody needs it, and no other is made from it."""

    pts: int


class Sparing:
    """What one pass may leave out, and the order in which what was left out would have come.

    A packet that is spared may be decoded all the same, where other frames are made from it. At the first
    sign of damage, of a frame that does not come, of fields instead of frames, or of stamps that do not
    identify a frame or tell its place, all is decoded from then on: what cannot be seen cannot be counted.
    Until then each packet stands for one frame still, whatever its stamp; between a frame that did not come
    and the next one that did, none does. Where a stamp is stray, or seems so beside a pause, all is decoded
    until its frame has come out.

    Args:
        first_pts: of the first frame that decodes.
        ticks_per_second: a clock that goes back by more has started over.
        far: ticks by which two packets in a row are far apart, as of `far_ticks`.
        unneeded: told the pts of packets in decoding order; whether nobody needs the frame.
        may_spare: whether the decoder may be trusted with a packet, which goes by what it says of itself;
            told of all packets in decoding order.
    """

    def __init__(
        self,
        first_pts: int,
        ticks_per_second: int,
        far: int,
        unneeded: Callable[[int], bool],
        may_spare: Callable[[av.Packet], bool] = lambda packet: True,
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
        self._told: dict[int, int] = {}  # what was told of by pts, and at which packet

    @property
    def waiting(self) -> int:
        """How many frames were spared and not yet told of."""
        return len(self._waiting)

    def stop(self) -> None:
        """Spare no more."""
        self._over = True

    def spares(self, packet: av.Packet, shown: bool, behind: int | None) -> bool:
        """Whether the decoder may leave a packet out.

        Args:
            shown: whether it becomes a frame at all.
            behind: the pts of the packet behind it.
        """
        self._packets += 1
        may_spare = self._may_spare(packet)
        pts, last = packet.pts, self._last_clock
        if pts is None or packet.is_corrupt:
            self._over = True
            return False
        if self._met and behind is not None and is_stray(pts, self._met[-1], behind, self._far):
            self._strays.add(pts)  # its frame stands where it comes out
            self._unneeded(self._met[-1])
            return False
        self._last_clock = pts if packet.dts is None else packet.dts
        if last is not None and self._last_clock < last - self._ticks_per_second:
            self._over = True
            self._told.clear()  # the same stamps are other frames now
        self._over |= pts in self._met
        self._met.append(pts)
        if shown and (pts in self._waiting or self._was_told(pts)):
            heapq.heappush(self._waiting, pts)  # two of one stamp: whichever comes out, both count
        if self._over or not shown or pts < self._first_pts:
            return False
        # Asked of every packet: who is asked counts them, and compares each with those before.
        unneeded = self._unneeded(pts)
        if self._strays:
            return False
        spared = unneeded and self._packets > WARM_UP_PACKETS and may_spare
        heapq.heappush(self._waiting if spared else self._awaited, pts)
        return spared

    def has_told_of(self, frame: av.VideoFrame) -> bool:
        """Whether a frame that came out was told of as left out, because one of a later stamp came first."""
        if frame.pts is None or not self._was_told(frame.pts):
            return False
        del self._told[frame.pts]
        self._over = True
        return True

    def before(self, frame: av.VideoFrame) -> Iterator[PassedOver]:
        """What was left out before a frame that came out."""
        if frame.interlaced_frame or frame.is_corrupt:
            self._over = True
        if frame.pts is None:
            return
        if frame.pts in self._strays:
            self._strays.remove(frame.pts)
            return
        last, self._last_pts = self._last_pts, frame.pts
        started_over = last is not None and frame.pts < last - self._ticks_per_second
        missed = self._first_missed(frame.pts)
        if missed is not None or (last is not None and frame.pts <= last):
            self._over = True
        while self._waiting and (started_over or self._waiting[0] < frame.pts):
            yield from self._tell(missed)
        if self._waiting and self._waiting[0] == frame.pts:
            heapq.heappop(self._waiting)  # others are made from it

    def rest(self) -> Iterator[PassedOver]:
        """What was left out at the end."""
        missed = self._awaited[0] if self._awaited else None
        while self._waiting:
            yield from self._tell(missed)

    def _first_missed(self, pts: int) -> int | None:
        """The first of the frames that had to come before the one with this pts and did not."""
        missed = None
        while self._awaited and self._awaited[0] <= pts:
            one = heapq.heappop(self._awaited)
            missed = one if missed is None and one < pts else missed
        return missed

    def _tell(self, missed: int | None) -> Iterator[PassedOver]:
        """The next that was left out; not where a frame before it was lost, which it may be made from."""
        pts = heapq.heappop(self._waiting)
        if missed is not None and pts > missed:
            return
        self._told[pts] = self._packets
        if len(self._told) > KNOWN_PACKETS:
            del self._told[next(iter(self._told))]
        yield PassedOver(pts)

    def _was_told(self, pts: int) -> bool:
        """Whether it was, lately."""
        return self._packets - self._told.get(pts, -KNOWN_PACKETS) < KNOWN_PACKETS
