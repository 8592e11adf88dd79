"""Sampled frames of one video come in; its tracks, boxes and crops go out as they are finished."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from panorama.crops import MAX_SIDE, View, ViewKeeper, appearances, view_quality, whole_boxes
from panorama.regions import Regions
from panorama.tracking.tracker import Track, Tracker
from panorama.video import VideoFrame

EDGE_PIXELS = 2
"""A box this close to the border of the picture probably shows only a part of its thing."""

PAUSE_SECONDS = 10.0
PAUSE_STEPS = 10
"""The recording paused if the next frame comes later than this, both in seconds and as a multiple of the
previous step: a camera that records on motion, not one with a frame per minute. Tracks end at a pause.
"""

LEAST_HELD = 4
HELD_BYTES = 32 << 20
"""Sampled frames whose views are not yet pictures: keep this many, or as many as fit into this memory."""


@dataclass(frozen=True, slots=True)
class FinishedTrack:
    """A track as the segment stores it; frames are half-open [start_frame, end_frame).

    Attributes:
        start_frame, end_frame: the span of the samples, extended by half a sampling gap, or to the end if the
            video ends before another sample, but not over a shot change or a pause.
        start_seconds, end_seconds: times of these.
        frames, times, boxes_xyxy, scores: the samples, (S,), (S,), (S, 4), (S,).
        views: the crops to keep, in order of time.
    """

    start_frame: int
    end_frame: int
    start_seconds: float
    end_seconds: float
    frames: NDArray[np.int64]
    times: NDArray[np.float64]
    boxes_xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    views: tuple[View, ...]


@dataclass(slots=True)
class FrameSeconds:
    """Presentation times of all frames read so far: 8 bytes per frame, and all that grows with a video.

    Attributes:
        frame_seconds: duration of the frame in a video that has only one.
    """

    frame_seconds: float = 0.04
    _seconds: array[float] = field(default_factory=lambda: array("d"))
    _resumed: array[int] = field(default_factory=lambda: array("q"))  # the first frames after pauses

    def add(self, time_seconds: float) -> None:
        frame = len(self._seconds)
        step = time_seconds - self._seconds[-1] if frame > 1 else 0.0
        if step > PAUSE_SECONDS and step > PAUSE_STEPS * self._step(frame - 1):
            self._resumed.append(frame)
        self._seconds.append(time_seconds)

    def _step(self, frame: int) -> float:
        """Time from the previous frame to this one; for the first frame, the duration of a frame.

        For a frame after a pause, the last step before it. The second of two pauses in a row counts as a
        step, so that a rate that has become low is no row of pauses.
        """
        if self.resumed(frame - 1, frame) and not self.resumed(frame - 2, frame - 1):
            frame -= 1
        return self._seconds[frame] - self._seconds[frame - 1] if frame else self.frame_seconds

    def __len__(self) -> int:
        return len(self._seconds)

    def seconds_at(self, frame: int) -> float:
        """Time of a frame; for a number past the end, the end of the last frame."""
        if frame < len(self._seconds):
            return self._seconds[frame]
        return self._seconds[-1] + self._step(len(self._seconds) - 1)

    def end_of(self, frame: int) -> float:
        """Where the frame before this one ends; the last one before a pause lasts as long as those before."""
        if not self.resumed(frame - 1, frame):
            return self.seconds_at(frame)
        return self._seconds[frame - 1] + self._step(frame - 1)

    def resumed(self, after: int, frame: int) -> array[int]:
        """The frames in (after, frame] that came after a pause."""
        return self._resumed[bisect_right(self._resumed, after) : bisect_right(self._resumed, frame)]


class SegmentBuilder:
    """Follows regions through one video; finishes a track when it ends or the shot changes.

    Args:
        seen_at: presentation times of the frames, which the caller fills.
        crops_per_track: number of crops to keep of each track.
        size: width and height of the frames as displayed.
        keyframes_only: whether frames are sampled as the video's keyframes come, not as often as it takes.
    """

    def __init__(
        self,
        seen_at: FrameSeconds,
        crops_per_track: int,
        size: tuple[int, int],
        keyframes_only: bool = False,
    ) -> None:
        self._seen_at = seen_at
        self._crops_per_track = crops_per_track
        self._size = size
        self._keyframes_only = keyframes_only
        self._tracker = Tracker()
        self._keepers: dict[int, ViewKeeper] = {}
        self._looks = array("q")  # sampled frames of this shot, also unchanged ones
        self._gap = 1  # frames between the last two samples, in any shot
        self._shot_start = 0
        self._undeveloped: deque[tuple[int, list[tuple[ViewKeeper, View]]]] = deque()
        self._held_bytes = 0

    def sample(
        self, frame: VideoFrame, regions: Regions, small: NDArray[np.uint8]
    ) -> Iterator[FinishedTrack]:
        """Take the regions of one sampled frame; yields tracks that have ended.

        Args:
            regions: in pixels of the frame as displayed.
            small: (h, w, 3) the frame at the proposer's size, which is enough to compare appearance.
        """
        yield from self._paused(frame.index)
        self._note_look(frame.index)
        width, height = self._size
        factors = np.array([small.shape[1] / width, small.shape[0] / height] * 2, np.float32)
        looks = appearances(small, regions.boxes_xyxy * factors)
        owners, ended = self._tracker.update(frame.index, frame.time_seconds, regions, looks)
        offered: list[tuple[ViewKeeper, View]] = []
        for track, view in zip(owners, self._views(frame, regions), strict=True):
            keeper = self._keepers.get(track.local_id)
            if keeper is None:
                keeper = self._keepers[track.local_id] = ViewKeeper(self._crops_per_track)
            if keeper.wants(view.time_seconds, view.quality):
                keeper.offer(view)
                offered.append((keeper, view))
        self._develop(offered, frame.nbytes)
        yield from self._finished(ended, len(self._seen_at))

    def _views(self, frame: VideoFrame, regions: Regions) -> Iterator[View]:
        """A view of every region; its picture is made on demand."""
        boxes = regions.boxes_xyxy
        margins = np.concatenate([boxes[:, :2], np.array(self._size, np.float32) - boxes[:, 2:]], axis=1)
        at_edge = margins.min(axis=1) <= EDGE_PIXELS  # (N,)
        facts = at_edge.tolist(), regions.scores.tolist(), whole_boxes(boxes, *self._size)
        for box, touches, score, pixels in zip(boxes, *facts, strict=True):
            quality = view_quality(frame.luma_part(pixels), touches, score)
            yield View(frame.index, frame.time_seconds, box, quality, partial(frame.part, pixels, MAX_SIDE))

    def _develop(self, offered: list[tuple[ViewKeeper, View]], nbytes: int) -> None:
        """Make pictures of views that survived some samples: most views are soon replaced by better ones.

        Args:
            nbytes: memory of the frame of these views.
        """
        self._undeveloped.append((nbytes, offered))
        self._held_bytes += nbytes
        while len(self._undeveloped) > LEAST_HELD and self._held_bytes > HELD_BYTES:
            oldest, views = self._undeveloped.popleft()
            self._held_bytes -= oldest
            for keeper, view in views:
                if keeper.keeps(view):  # nothing else holds the others, nor their frames
                    view.develop()

    def hold(self, frame: int, time_seconds: float) -> None:
        """Take a sampled frame in which nothing changed since the last one, not even over a pause."""
        self._note_look(frame)
        self._tracker.hold(frame, time_seconds)

    def cut(self, first_frame: int) -> Iterator[FinishedTrack]:
        """A new shot begins at `first_frame`, or the recording resumes there: every track ends before it."""
        yield from self._finished(self._tracker.cut(), first_frame)
        self._shot_start = max(self._shot_start, first_frame)
        self._looks = array("q")

    def finish(self) -> Iterator[FinishedTrack]:
        """End the video; yields the remaining tracks."""
        yield from self._paused(len(self._seen_at) - 1)
        yield from self._finished(self._tracker.finish(), len(self._seen_at))

    def _paused(self, frame: int) -> Iterator[FinishedTrack]:
        """End tracks where the recording paused between the last sample and this changed one, or the end."""
        for first in self._seen_at.resumed(self._looks[-1], frame) if self._looks else ():
            yield from self.cut(first)

    def _note_look(self, frame: int) -> None:
        if self._looks:
            self._gap = frame - self._looks[-1]
        self._looks.append(frame)

    def _span(self, first: int, last: int, stop: int) -> tuple[int, int]:
        """The frames [start, stop) of a track seen at samples `first` to `last`.

        It extends half-way to the samples before and after, at which it was not seen. If the shot or the
        video ends before another sample was due, it lasts until then: nothing says that it left. With
        keyframes alone the end may be far away; it extends half-way there, or as if there were a sample.
        """
        before = bisect_left(self._looks, first) - 1
        after = bisect_right(self._looks, last)
        gap_before = first - self._looks[before] if before >= 0 else self._gap
        start = max(self._shot_start, first - gap_before // 2)
        if after < len(self._looks):
            gap_after = self._looks[after] - last
        elif self._keyframes_only:
            gap_after = max(self._gap, stop - last)
        else:
            return start, max(start + 1, stop)
        return start, max(start + 1, min(stop, last + gap_after - gap_after // 2))

    def _finished(self, tracks: list[Track], stop: int) -> Iterator[FinishedTrack]:
        for track in tracks:
            track.end_hold()
            start_frame, end_frame = self._span(track.frames[0], track.frames[-1], stop)
            yield FinishedTrack(
                start_frame,
                end_frame,
                self._seen_at.seconds_at(start_frame),
                self._seen_at.end_of(end_frame),
                np.array(track.frames, np.int64),
                np.array(track.times, np.float64),
                np.array(track.corners, np.float32).reshape(-1, 4),
                np.array(track.scores, np.float32),
                tuple(view.develop() for view in self._keepers.pop(track.local_id).best()),
            )
