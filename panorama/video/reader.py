"""The base of all readers: a video comes in; frames with exact index and presentation time go out."""

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
"""Decimal times differ from the exact tick by rounding; a difference up to this counts as none."""


Box = tuple[int, int, int, int]
"""x1, y1, x2, y2 in whole pixels, half-open."""


class Picture(ABC):
    """The pixels of one frame, converted on demand."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the decoded pixels take."""

    @abstractmethod
    def luma(self) -> NDArray[np.uint8]:
        """(H, W) uint8 brightness as stored: not turned, mirrored or stretched; a view if possible."""

    @abstractmethod
    def rgb(self, width: int | None, height: int | None) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 RGB as displayed, at this size; see `VideoFrame.rgb`."""

    @abstractmethod
    def part(self, box: Box, longest: int) -> NDArray[np.uint8]:
        """uint8 RGB of a box of the displayed picture, shrunk until its longest side is at most `longest`."""

    @abstractmethod
    def luma_part(self, box: Box) -> NDArray[np.uint8]:
        """Brightness in a box of the displayed picture, as stored: not turned, mirrored or stretched."""

    @abstractmethod
    def thinned_luma(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Brightness of every n-th row and m-th column, so that at least `rows` and `columns` are left."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a picture of another size than the frame lies in it: in the upper left corner; the rest is black.

    Attributes:
        own_width, own_height: of the picture as its file has it, upright.
        width, height: of the picture in the frame.
    """

    own_width: int
    own_height: int
    width: int
    height: int

    @property
    def is_scaled(self) -> bool:
        """Whether pixels of the frame are not those of the file."""
        return (self.own_width, self.own_height) != (self.width, self.height)


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """One decoded frame.

    Attributes:
        index: its number among the decodable frames in presentation order, from 0; skipped ones count.
        pts: presentation time in units of the video's time base.
        time_seconds: (pts - first frame's pts) x time base.
        is_keyframe: whether decoding can start here.
        picture: the pixels; callers use the methods below.
        begins_anew: whether it begins a new shot, because the picture was taken long after the one before.
        fit: for a picture of a folder that has another size than the frame, how it lies in the frame.
    """

    index: int
    pts: int
    time_seconds: float
    is_keyframe: bool
    picture: Picture
    begins_anew: bool = False
    fit: Fit | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the decoded frame takes."""
        return self.picture.nbytes

    def luma(self) -> NDArray[np.uint8]:
        """(H, W) uint8: the Y plane as decoded, NOT turned, mirrored or stretched; grey if there is none.

        Samples of more than 8 bits are reduced to their highest 8.
        """
        return self.picture.luma()

    def rgb(self, width: int | None = None, height: int | None = None) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 RGB, upright, with square pixels, scaled directly from the decoded planes.

        If one size is None, it follows from the aspect ratio; if both are, it is the displayed size. Only one
        thread may call this at a time, for all frames of a pass.

        Raises:
            UsageError: a size is below 1.
        """
        return self.picture.rgb(width, height)

    def part(self, box: Box, longest: int) -> NDArray[np.uint8]:
        """(h, w, 3) uint8 RGB of the half-open box x1, y1, x2, y2 in the displayed frame.

        Converts no more than needed, and shrinks the result until its longest side is at most `longest`.
        """
        return self.picture.part(box, longest)

    def luma_part(self, box: Box) -> NDArray[np.uint8]:
        """Brightness in a box of the displayed frame, NOT turned, mirrored or stretched; a view if it can."""
        return self.picture.luma_part(box)

    def thinned_luma(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Every n-th row and m-th column of `luma()`: at least `rows` and `columns`, if there are as many."""
        return self.picture.thinned_luma(rows, columns)


@dataclass(frozen=True, slots=True)
class PassedFrame:
    """A frame that was not decoded because it is not needed; numbered and timed like a `VideoFrame`."""

    index: int
    pts: int
    time_seconds: float

    @property
    def nbytes(self) -> int:
        """0, as nothing was decoded."""
        return 0


@dataclass(frozen=True, slots=True)
class FrameTable:
    """Times and keyframes of all frames of a video, known without their pixels.

    Attributes:
        times: presentation times of the decodable frames.
        keyframes: (N,) bool, frames at which decoding can start.
        seekable: whether the pts of a frame after a seek identifies it.
        stamped: whether the pts are those of the container, so that they relate to its other streams.
    """

    times: FrameTimes
    keyframes: NDArray[np.bool_]
    seekable: bool
    stamped: bool

    def __post_init__(self) -> None:
        if self.keyframes.shape != (len(self.times),):
            raise ValueError(f"{len(self.times)} times, but keyframes {self.keyframes.shape}")


class VideoReader(ABC):
    """Reads one video; subclasses implement `_scan` and `_decode`.

    Each call of `frames` is a separate pass over the file, so several may be in progress.

    Attributes:
        info: facts of the video as displayed.
        report: what the latest pass decoded and lost; grows while it is read.
        faults: errors of the drive in all passes so far.
        pictures: for a folder of pictures, its file names, indexed by pts; empty for others.
    """

    pictures: Sequence[str] = ()

    def __init__(self, info: VideoInfo, faults: Faults | None = None) -> None:
        self.info = info
        self.report = DecodeReport()
        self.faults = Faults() if faults is None else faults
        self._closed = False

    @abstractmethod
    def _scan(self) -> FrameTable:
        """The frame table, in general without decoding."""

    @abstractmethod
    def _decode(self, start: int, keyframes_only: bool, report: DecodeReport) -> Iterator[VideoFrame]:
        """Frames with an index of at least `start`, in order.

        With `keyframes_only`, only keyframes, and frame 0 in any case.
        """

    def times(self) -> FrameTimes:
        """Presentation times of the decodable frames, in general from a scan of the packets.

        Frames are decoded only if the stamps leave their places in doubt.
        """
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
            start, stop: frame indices; a `stop` of None is the end. In a damaged video, a pass from a later
                `start` may number frames differently: it does not know which frames before do not decode.
            every: stride, counted from the first frame of the range; with `keyframes_only`, in keyframes.
            start_seconds, stop_seconds: presentation times since the first frame; None for no limit.
            keyframes_only: decode only keyframes and the first frame, which is many times faster.

        Raises:
            UsageError: a negative start or a stride below 1. A range past the end is empty, not an error.
            VideoError: the reader is closed.
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
        """All frames in presentation order; those not needed may be passed over without decoding.

        Damage in a frame passed over goes unnoticed. After the first damage noticed, all frames are decoded.

        Args:
            unneeded: called with presentation times in decoding order; returns whether the frame is not
                needed.
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
        """All frames; a reader that cannot skip any decodes them all, as here."""
        return self._decode(0, False, report)

    @property
    def keeps_stamps(self) -> bool:
        """Whether pts are those of the container, so that they relate to its other streams."""
        self._check_open()
        return self._scan().stamped

    def frames_from(self, pts: int) -> Iterator[VideoFrame]:
        """Frames with this pts or a later one.

        The pts identifies a frame in a damaged file, too. A frame's number counts the frames that decode,
        which only a pass from the beginning knows.
        """
        self._check_open()
        self.report = DecodeReport()
        table = self._scan()
        start = int(np.searchsorted(table.times.pts, pts)) if table.seekable else 0
        found = self._select(start, np.inf, np.inf, 1, False, self.report)
        return (frame for frame in found if frame.pts >= pts)

    def again(self, start: int, stop: int) -> Iterator[VideoFrame]:
        """Frames [start, stop) in a pass beside the one in progress, without changing its report."""
        self._check_open()
        return self._select(start, stop, np.inf, 1, False, DecodeReport())

    def frame_at(self, seconds: float) -> VideoFrame:
        """The frame shown at a time: the last one not after `seconds`; past the end, the last frame.

        Raises:
            VideoError: no frame at or before that time can be decoded.
        """
        self._check_open()
        times = self._scan().times.seconds
        latest = max(seconds, 0.0) + self._tolerance
        shown = max(int(np.searchsorted(times, latest, side="right")) - 1, 0)
        wanted = float(times[shown]) - self._tolerance if len(times) else 0.0
        # In a damaged file the scan lists frames that do not decode, and numbers differ from those of a pass
        # from the beginning. So go by times, and step back until a frame decodes.
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

    def check_time(self, seconds: float) -> None:
        """Check that a frame is shown at a time, for users who name one.

        Raises:
            UsageError: it is before the first frame, or after the last one has been shown.
        """
        times = self.times().seconds
        # The last frame is shown for as long as others are, by moments as well; and players round times.
        shown_seconds = max(0.5, float(np.median(np.diff(times)))) if len(times) > 1 else 0.5
        if not len(times) or not 0 <= seconds <= times[-1] + shown_seconds:
            end = f"{times[-1]:.3f}" if len(times) else "no frame"
            raise UsageError(
                f"the time is between 0 and the last frame of {self.info.path} at {end} s, got {seconds:g}"
            )

    def check_reached(self) -> None:
        """Check that no pass met an error of the drive; call it before taking what was read as complete.

        Raises:
            VideoError: a drive that did not respond kept a pass from reading part of the file.
        """
        self.faults.check(self.info.path)

    def close(self) -> None:
        """End all passes; starting another one raises VideoError."""
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
    """Seconds from one pts to another, computed exactly as in FrameTimes.seconds."""
    return float(pts - first_pts) * (time_base.numerator / time_base.denominator)


def stored_box(box: Box, rotation: int, mirrored: bool, width: int, height: int) -> Box:
    """A box of the displayed picture in the coordinates of the stored one.

    Args:
        rotation: clockwise degrees from the stored to the displayed picture.
        mirrored: whether the rotated picture is also mirrored left to right.
        width, height: size of the displayed picture.
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
    """The output size; a side that is None follows from the aspect ratio, both are the displayed size.

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
