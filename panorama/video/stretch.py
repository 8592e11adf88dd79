"""An open video and a stretch of its time come in; a reader of that stretch as a whole video goes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from panorama.frames import DecodeReport, FrameTimes
from panorama.video.reader import FrameTable, VideoFrame, VideoReader, seconds_between


class StretchReader(VideoReader):
    """Some seconds of another reader's video, from a keyframe on; frames and times count from that keyframe.

    Args:
        video: the reader, which is closed with this one.
        start_seconds: the stretch begins at the last keyframe not after this. If above 0, the whole file is
            scanned.
        seconds: length of the stretch.
    """

    def __init__(self, video: VideoReader, start_seconds: float, seconds: float) -> None:
        super().__init__(video.info, video.faults)
        self._video = video
        self._seconds = seconds
        self._first, self._start_seconds = 0, 0.0
        if start_seconds > 0:
            table = video._scan()
            before = np.flatnonzero(table.keyframes & (table.times.seconds <= start_seconds))
            if len(before):
                self._first = int(before[-1])
                self._start_seconds = float(table.times.seconds[self._first])

    @property
    def first_frame(self) -> int:
        """Index, in the whole video, of the stretch's first frame."""
        return self._first

    @property
    def start_seconds(self) -> float:
        """Time, in the whole video, of the stretch's first frame."""
        return self._start_seconds

    def _scan(self) -> FrameTable:
        table = self._video._scan()
        seconds = table.times.seconds
        start = seconds[self._first] if self._first < len(seconds) else 0.0
        stop = int(np.searchsorted(seconds, start + self._seconds))
        times = FrameTimes(table.times.pts[self._first : stop], table.times.time_base)
        return FrameTable(times, table.keyframes[self._first : stop], table.seekable, table.stamped)

    def _decode(self, start: int, keyframes_only: bool, report: DecodeReport) -> Iterator[VideoFrame]:
        first_pts = None
        for frame in self._video._decode(self._first, keyframes_only, report):
            first_pts = frame.pts if first_pts is None else first_pts
            seconds = seconds_between(first_pts, frame.pts, self.info.time_base)
            if seconds >= self._seconds:
                return
            if frame.index - self._first >= start:
                yield replace(frame, index=frame.index - self._first, time_seconds=seconds)

    def close(self) -> None:
        """Close the video too."""
        super().close()
        self._video.close()
