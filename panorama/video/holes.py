"""The packets of one pass over a video enter; stretches that are missing in the middle of the file leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np

from panorama.video.probing import Source

LEAST_SECONDS = 1.0
LEAST_FRAMES = 10
LEAST_STEPS = 50
EVEN_SHARE = 0.95
LEAST_BYTES = 4096
LEAST_BYTES_SHARE = 0.5
"""Of what the missing frames would have, by the mean of the others."""
BLOCK_BYTES = 188
BLOCK_MARK = 0x47
"""What every block of a transport stream begins with, also those that only fill it up."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Two packets, one after the other but far apart in time: their pts, and which bytes lie between them."""

    last_pts: int
    next_pts: int
    first_byte: int
    end_byte: int


@dataclass(slots=True)
class Holes:
    """Tells holes in a file from pauses of a recording; where that is in doubt, nothing is told.

    A hole takes bytes that no packet holds, about as many as the missing frames would have. It is looked for
    in recordings of an otherwise constant rate alone.
    """

    source: Source
    _gaps: list[Gap] = field(default_factory=list)
    _steps: Counter[int] = field(default_factory=Counter)
    _packets: int = 0
    _bytes: int = 0
    _latest_pts: int | None = None
    _end_byte: int = 0

    def packet(self, packet: av.Packet) -> None:
        """Take the next packet of the video, in decoding order."""
        if not self.source.shows_holes or packet.pts is None or packet.pos is None:
            return
        latest = self._latest_pts
        if latest is not None:
            far = (packet.pts - latest) * float(self.source.info.time_base) >= LEAST_SECONDS
            if far and packet.pos > self._end_byte:
                self._gaps.append(Gap(latest, packet.pts, self._end_byte, packet.pos))
        self._packets += 1
        self._bytes += packet.size
        self._latest_pts = packet.pts if latest is None else max(latest, packet.pts)
        self._end_byte = packet.pos + packet.size

    def step(self, ticks: int) -> None:
        """Take the time from one shown frame to the next."""
        if self.source.shows_holes:
            self._steps[ticks] += 1

    def found(self, others: Callable[[Gap], int]) -> Iterator[tuple[float, float, int]]:
        """Where something is missing: seconds since the first frame, how many, and about how many frames.

        Args:
            others: bytes that packets of other streams may take in a gap.
        """
        usual = self._usual_step()
        if usual is None:
            return
        for gap in self._gaps:
            ticks = gap.next_pts - gap.last_pts - usual
            frames = round(ticks / usual)
            least = max(LEAST_BYTES, LEAST_BYTES_SHARE * frames * self._bytes / self._packets)
            empty = gap.end_byte - gap.first_byte
            if frames < LEAST_FRAMES or empty < least:
                continue
            empty = _unmarked(self.source.path, gap) if self.source.in_blocks else empty - others(gap)
            if empty >= least:
                begin = gap.last_pts + usual - (self.source.first_pts or 0)
                scale = float(self.source.info.time_base)
                yield begin * scale, ticks * scale, frames

    def _usual_step(self) -> int | None:
        """Ticks from frame to frame, None where they are few or differ by more than rounding."""
        count = self._steps.total()
        if count < LEAST_STEPS:
            return None
        usual = self._steps.most_common(1)[0][0]
        # Whole milliseconds round the times of frames.
        even = sum(n for ticks, n in self._steps.items() if abs(ticks - usual) <= max(1, usual // 10))
        return usual if usual > 0 and even >= EVEN_SHARE * count else None


def _unmarked(path: Path, gap: Gap) -> int:
    """How many bytes of a gap in a transport stream lie in no block; 0 where blocks have another length."""
    data = np.memmap(path, np.uint8, "r")
    if np.any(data[gap.end_byte :: BLOCK_BYTES][:5] != BLOCK_MARK):
        return 0
    blocks = (gap.end_byte - gap.first_byte) // BLOCK_BYTES
    marks = data[gap.end_byte - blocks * BLOCK_BYTES : gap.end_byte : BLOCK_BYTES]
    return int(np.count_nonzero(marks != BLOCK_MARK)) * BLOCK_BYTES
