"""What every reader shares: a path enters, frames with exact index and presentation time leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from panorama.errors import UsageError, VideoError
from panorama.frames import DecodeReport, FrameTimes, VideoInfo
from panorama.video.faults import Faults

TIME_TOLERANCE_SECONDS = 1e-6
"""Times typed or computed in decimals miss the exact tick by rounding; this much still counts as on it."""


Box = tuple[int, int, int, int]
"""x1, y1, x2, y2 in whole pixels, half-open."""


class Picture(ABC):
    """The pixels of one frame, converted only when asked for."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that the pixels take as they were decoded."""

    @abstractmethod
    def luma(self) -> NDArray[np.uint8]:
        """(H, W) uint8 brightness as stored, not turned, mirrored or stretched; a view where it can be."""

    @abstractmethod
    def rgb(self, width: int | None, height: int | None) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 as displayed, at the size asked for (None: the displayed size)."""

    @abstractmethod
    def part(self, box: Box, longest: int) -> NDArray[np.uint8]:
        """RGB of a box of the displayed picture, its longest side at most `longest`."""

    @abstractmethod
    def luma_part(self, box: Box) -> NDArray[np.uint8]:
        """Brightness inside a box of the displayed picture, as stored, not turned, mirrored or stretched."""

    @abstractmethod
    def thinned_luma(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Brightness of every so many-th row and column, so that at least that many are left."""


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """One decoded frame.

    Attributes:
        index: counts decodable frames from 0 in presentation order, whatever was skipped on the way.
        pts: presentation time in units of the video's time base.
        time_seconds: (pts - first frame's pts) x time base.
        is_keyframe: whether decoding can start here.
        picture: the pixels; `luma` and `rgb` below are what callers use.
        begins_anew: whether it was taken so long after the one before that it shows another happening.
    """

    index: int
    pts: int
    time_seconds: float
    is_keyframe: bool
    picture: Picture
    begins_anew: bool = False

    @property
    def nbytes(self) -> int:
        """Memory that the frame takes."""
        return self.picture.nbytes

    def luma(self) -> NDArray[np.uint8]:
        """(H, W) uint8: the Y plane as decoded, NOT turned, mirrored or stretched; gray if there is none.

        Of samples with more than 8 bits, the highest 8.
        """
        return self.picture.luma()

    def rgb(self, width: int | None = None, height: int | None = None) -> NDArray[np.uint8]:
        """(height, width, 3) uint8, upright and with square pixels, scaled straight from the decoded planes.

        One of the two sizes may be left out: the other follows from the aspect ratio. One thread at a time.
        """
        return self.picture.rgb(width, height)

    def part(self, box: Box, longest: int) -> NDArray[np.uint8]:
        """(h, w, 3) uint8 of the half-open box x1, y1, x2, y2 in the displayed frame, and nothing else.

        It is shrunk until its longest side is at most `longest`, before it is converted.
        """
        return self.picture.part(box, longest)

    def luma_part(self, box: Box) -> NDArray[np.uint8]:
        """Brightness in a box of the displayed frame, NOT turned, mirrored or stretched; a view if it can."""
        return self.picture.luma_part(box)

    def thinned_luma(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Every so many-th row and column of `luma()`, at least that many where there are; not the rest."""
        return self.picture.thinned_luma(rows, columns)


@dataclass(frozen=True, slots=True)
class PassedFrame:
    """A frame that was not decoded, because nobody needs it; numbered and timed as `VideoFrame` is."""

    index: int
    pts: int
    time_seconds: float

    @property
    def nbytes(self) -> int:
        """Nothing was decoded."""
        return 0


@dataclass(frozen=True, slots=True)
class FrameTable:
    """Where each frame lies, known without its pixels.

    Attributes:
        times: presentation times of the decodable frames.
        keyframes: (N,) bool, frames at which decoding can start.
        seekable: whether a frame met after a seek is identified by its pts.
    """

    times: FrameTimes
    keyframes: NDArray[np.bool_]
    seekable: bool

    def __post_init__(self) -> None:
        if self.keyframes.shape != (len(self.times),):
            raise ValueError(f"{len(self.times)} times, but keyframes {self.keyframes.shape}")


class VideoReader(ABC):
    """Reads one video; a new reader implements `_scan` and `_decode`.

    Every call of `frames` is its own pass over the file, so several may be in progress.

    Attributes:
        info: facts of the video as displayed.
        report: what the pass started last got and lost; grows while it is read.
        faults: what kept any pass so far from its file.
        pictures: of a folder of pictures the names of its files, by pts; nothing of others.
    """

    pictures: Sequence[str] = ()

    def __init__(self, info: VideoInfo, faults: Faults | None = None) -> None:
        self.info = info
        self.report = DecodeReport()
        self.faults = Faults() if faults is None else faults
        self._closed = False

    @abstractmethod
    def _scan(self) -> FrameTable:
        """The times of all frames, without decoding them."""

    @abstractmethod
    def _decode(self, start: int, keyframes_only: bool, report: DecodeReport) -> Iterator[VideoFrame]:
        """Frames whose index is at least `start`, in order."""

    def times(self) -> FrameTimes:
        """Presentation times of the decodable frames, from a scan of the packets (no decoding)."""
        self._check_open()
        return self._scan().times

    def frames(
        self,
        *,
        start: int = 0,
        stop: int | None = None,
        every: int = 1,
        start_seconds: float | None = None,
        stop_seconds: float | None = None,
        keyframes_only: bool = False,
    ) -> Iterator[VideoFrame]:
        """Frames of [start, stop) and [start_seconds, stop_seconds), in presentation order.

        Args:
            start, stop: frame indices.
            every: stride, counted from the first frame of the range; with `keyframes_only`, in keyframes.
            start_seconds, stop_seconds: presentation times since the first frame.
            keyframes_only: decode keyframes alone, which is many times faster.

        Raises:
            UsageError: a negative start or a stride below 1. A range past the end is empty, not an error.
        """
        self._check_open()
        if every < 1 or start < 0:
            raise UsageError(f"start is at least 0 and every at least 1, got start={start}, every={every}")
        self.report = DecodeReport()
        if start_seconds is not None and start_seconds > 0:
            seconds = self._scan().times.seconds
            start = max(start, int(np.searchsorted(seconds, start_seconds - self._tolerance)))
        stop_time = np.inf if stop_seconds is None else stop_seconds - self._tolerance
        stop_index = np.inf if stop is None else stop
        return self._select(start, stop_index, stop_time, every, keyframes_only, self.report)

    def _select(
        self,
        start: int,
        stop: float,
        stop_seconds: float,
        every: int,
        keyframes_only: bool,
        report: DecodeReport,
    ) -> Iterator[VideoFrame]:
        if start >= stop or stop_seconds <= 0:
            return
        for count, frame in enumerate(self._decode(start, keyframes_only, report)):
            if self._closed or frame.index >= stop or frame.time_seconds >= stop_seconds:
                return
            report.frames += 1
            if count % every == 0:
                yield frame
            if not keyframes_only and frame.index + 1 >= stop:
                return

    def frames_but(self, unneeded: Callable[[float], bool]) -> Iterator[VideoFrame | PassedFrame]:
        """All frames, in presentation order; those that are not needed may be passed over, undecoded.

        What is lost in a frame that is passed over is not noticed. After the first loss that is, none is.

        Args:
            unneeded: told presentation times in the order of decoding; whether nobody needs that frame.
        """
        self._check_open()
        self.report = DecodeReport()
        return self._counted(self._decode_but(unneeded, self.report), self.report)

    def _counted(
        self, frames: Iterator[VideoFrame | PassedFrame], report: DecodeReport
    ) -> Iterator[VideoFrame | PassedFrame]:
        for frame in frames:
            if self._closed:
                return
            report.frames += 1
            yield frame

    def _decode_but(
        self, unneeded: Callable[[float], bool], report: DecodeReport
    ) -> Iterator[VideoFrame | PassedFrame]:
        """All frames; a reader that cannot leave any out decodes them."""
        return self._decode(0, False, report)

    @property
    def keeps_stamps(self) -> bool:
        """Whether pts are those of the container, which its other streams share."""
        self._check_open()
        return self._scan().seekable

    def frames_from(self, pts: int) -> Iterator[VideoFrame]:
        """Frames from the one with this pts on, or from the first that is later.

        By their pts, not their number, which counts what decodes: where something is damaged, only a pass
        from the beginning knows that.
        """
        self._check_open()
        self.report = DecodeReport()
        table = self._scan()
        start = int(np.searchsorted(table.times.pts, pts)) if table.seekable else 0
        found = self._select(start, np.inf, np.inf, 1, False, self.report)
        return (frame for frame in found if frame.pts >= pts)

    def again(self, start: int, stop: int) -> Iterator[VideoFrame]:
        """Frames [start, stop) in a pass beside the one in progress, whose report it leaves alone."""
        self._check_open()
        return self._select(start, stop, np.inf, 1, False, DecodeReport())

    def frame_at(self, seconds: float) -> VideoFrame:
        """The frame shown at that time: the last one not after `seconds`; past the end, the last frame.

        Raises:
            VideoError: no frame at or after the place can be decoded.
        """
        self._check_open()
        times = self._scan().times.seconds
        latest = max(seconds, 0.0) + self._tolerance
        shown = max(int(np.searchsorted(times, latest, side="right")) - 1, 0)
        wanted = float(times[shown]) - self._tolerance if len(times) else 0.0
        # Where something is damaged the scan promises frames that do not decode, and other numbers than a
        # pass from the beginning gives: times tell, and a step back finds one that decodes.
        for index in (shown, max(shown - 1, 0), max(shown - 25, 0), 0):
            found = None
            for frame in self._decode(index, False, DecodeReport()):
                if frame.time_seconds > latest:
                    break
                found = frame
                if frame.time_seconds >= wanted:
                    break
            if found is not None:
                return found
        raise VideoError(f"{self.info.path}: no frame can be decoded at {seconds} s")

    def check_reached(self) -> None:
        """To be asked where what passes miss would be taken for all that there is.

        Raises:
            VideoError: one of them was kept from the file, by a drive that does not answer.
        """
        self.faults.check(self.info.path)

    def close(self) -> None:
        """End all passes; reading further raises VideoError."""
        self._closed = True

    @property
    def _tolerance(self) -> float:
        return min(TIME_TOLERANCE_SECONDS, float(self.info.time_base) / 2)

    def _check_open(self) -> None:
        if self._closed:
            raise VideoError(f"{self.info.path}: the reader is closed; open the video again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def seconds_between(first_pts: int, pts: int, time_base: Fraction) -> float:
    """Seconds from one pts to another, by the same arithmetic as FrameTimes.seconds."""
    return float(pts - first_pts) * (time_base.numerator / time_base.denominator)


def stored_box(box: Box, rotation: int, mirrored: bool, width: int, height: int) -> Box:
    """Where a box of the displayed picture lies in the picture as stored, `width` x `height` when displayed.

    Args:
        rotation: clockwise degrees from the stored to the displayed picture.
        mirrored: whether it is then mirrored left to right.
    """
    x1, y1, x2, y2 = box
    if mirrored:
        x1, x2 = width - x2, width - x1
    if rotation == 90:
        return y1, width - x2, y2, width - x1
    if rotation == 180:
        return width - x2, height - y2, width - x1, height - y1
    if rotation == 270:
        return height - y2, x1, height - y1, x2
    return x1, y1, x2, y2


def at_most(longest: int, width: int, height: int) -> tuple[int, int]:
    """The size of a picture shrunk until its longest side is at most `longest`; never enlarged."""
    factor = min(1.0, longest / max(width, height))
    return max(1, round(width * factor)), max(1, round(height * factor))


def fit_size(
    width: int | None, height: int | None, displayed_width: int, displayed_height: int
) -> tuple[int, int]:
    """The output size asked for; a side left out follows from the aspect ratio.

    Raises:
        UsageError: a side is not positive.
    """
    for side in (width, height):
        if side is not None and side < 1:
            raise UsageError(f"an output size is positive, got {width}x{height}")
    if width is None and height is None:
        return displayed_width, displayed_height
    if width is None and height is not None:
        return max(1, round(displayed_width * height / displayed_height)), height
    if height is None and width is not None:
        return width, max(1, round(displayed_height * width / displayed_width))
    assert width is not None and height is not None
    return width, height
