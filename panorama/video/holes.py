"""The packets of one pass over a video come in; stretches missing in the middle of the file go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
"""A hole takes at least this share of the bytes that the missing frames would take on average."""
BLOCK_BYTES = 188
BLOCK_MARK = 0x47
"""The first byte of every block of a transport stream, including padding."""
READ_BLOCKS = 5_000
"""Blocks of a gap that are read at once: about 1 MB."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap in time between two consecutive packets: the pts around it, and the bytes between them.

    Attributes:
        last_pts: the latest pts before the gap.
        next_pts: pts of the packet after it.
        first_byte, end_byte: position in the file, half-open.
    """

    last_pts: int
    next_pts: int
    first_byte: int
    end_byte: int

    @property
    def size(self) -> int:
        return self.end_byte - self.first_byte

    def missing_ticks(self, usual: int) -> int:
        """Time in ticks for which frames are missing, if `usual` ticks lie between two frames."""
        return self.next_pts - self.last_pts - usual

    def missing_frames(self, usual: int) -> int:
        """About how many frames are missing."""
        return round(self.missing_ticks(usual) / usual)


@dataclass(slots=True)
class Holes:
    """Distinguishes holes in a file from pauses of the recording; in doubt it reports nothing.

    A hole takes bytes that belong to no packet, about as many as the missing frames would take. Only
    recordings with an otherwise constant frame rate are examined.
    """

    source: Source
    _gaps: list[Gap] = field(default_factory=list)
    _steps: Counter[int] = field(default_factory=Counter)
    _packets: int = 0
    _bytes: int = 0
    _latest_pts: int | None = None
    _end_byte: int = 0

    def packet(self, packet: av.Packet) -> None:
        """Take the next packet of the video stream, in decoding order."""
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
        """Take the time in ticks from one frame to the next, in presentation order."""
        if self.source.shows_holes:
            self._steps[ticks] += 1

    def found(self, occupied: Callable[[Sequence[Gap]], Sequence[int]]) -> Iterator[tuple[float, float, int]]:
        """The holes: begin in seconds since the first frame, length in seconds, and about how many frames.

        Args:
            occupied: returns how many bytes of each gap packets of other streams take; called at most once,
                since it reads the whole file.

        Raises:
            OSError: the drive cannot read a gap.
        """
        usual = self._usual_step()
        if usual is None:
            return
        candidates = [gap for gap in self._gaps if self._is_candidate(gap, usual)]
        if not candidates:
            return
        if self.source.in_blocks:
            empty = [_unmarked(self.source.path, gap) for gap in candidates]
        else:
            taken = occupied(candidates)
            empty = [gap.size - others for gap, others in zip(candidates, taken, strict=True)]
        scale = float(self.source.info.time_base)
        for gap, left in zip(candidates, empty, strict=True):
            if left >= self._least_bytes(gap, usual):
                begin = gap.last_pts + usual - (self.source.first_pts or 0)
                yield begin * scale, gap.missing_ticks(usual) * scale, gap.missing_frames(usual)

    def _is_candidate(self, gap: Gap, usual: int) -> bool:
        """Whether a gap is a hole unless other streams or padding take its bytes."""
        return gap.missing_frames(usual) >= LEAST_FRAMES and gap.size >= self._least_bytes(gap, usual)

    def _least_bytes(self, gap: Gap, usual: int) -> float:
        """How many bytes must belong to no packet for a gap to be a hole."""
        average = self._bytes / self._packets
        return max(LEAST_BYTES, LEAST_BYTES_SHARE * gap.missing_frames(usual) * average)

    def _usual_step(self) -> int | None:
        """Ticks from frame to frame; None if there are few frames or steps differ by more than rounding."""
        count = self._steps.total()
        if count < LEAST_STEPS:
            return None
        usual = self._steps.most_common(1)[0][0]
        # Some containers round times to milliseconds.
        even = sum(n for ticks, n in self._steps.items() if abs(ticks - usual) <= max(1, usual // 10))
        return usual if usual > 0 and even >= EVEN_SHARE * count else None


def _unmarked(path: Path, gap: Gap) -> int:
    """How many bytes of a gap in a transport stream lie in no block; 0 if blocks are not 188 bytes long.

    Raises:
        OSError: the drive cannot read it.
    """
    lost = 0
    # Not mapped: a sector that cannot be read, or a file that shrinks, would kill the process.
    with path.open("rb") as file:
        file.seek(gap.end_byte)
        behind = np.frombuffer(file.read(4 * BLOCK_BYTES + 1), np.uint8)
        if np.any(behind[::BLOCK_BYTES] != BLOCK_MARK):
            return 0
        left = (gap.end_byte - gap.first_byte) // BLOCK_BYTES
        file.seek(gap.end_byte - left * BLOCK_BYTES)
        while left and (piece := file.read(min(left, READ_BLOCKS) * BLOCK_BYTES)):
            marks = np.frombuffer(piece, np.uint8)[::BLOCK_BYTES]
            lost += int(np.count_nonzero(marks != BLOCK_MARK))
            left -= len(marks)
    return lost * BLOCK_BYTES
