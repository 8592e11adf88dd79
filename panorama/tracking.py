"""Regions of sampled frames enter in order; tracks leave, each one thing followed through one shot."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from panorama.regions import Regions, iou


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """When two boxes are the same thing.

    Attributes:
        sure_iou: overlap with the predicted box above which motion alone decides.
        min_cosine: appearance needed when motion does not decide.
        jump_cosine: appearance below which even a sure overlap is another thing: the track is split.
        stood_cosine: appearance needed of a thing that stood still while nothing changed around it.
        reach: how far, in box diagonals, a thing may be from where it was predicted.
        max_size_ratio: how much a box may grow or shrink between samples.
        max_gap_seconds: a track unseen for longer has ended, unless it was seen at the last look.
        longest_gap_seconds: nor does a rarer look link what it saw so long ago.
    """

    sure_iou: float = 0.5
    min_cosine: float = 0.8
    jump_cosine: float = 0.75
    stood_cosine: float = 0.9
    reach: float = 1.2
    max_size_ratio: float = 2.5
    max_gap_seconds: float = 1.0
    longest_gap_seconds: float = 10.0


@dataclass(slots=True)
class Track:
    """One thing followed over the samples of one shot; some 40 bytes a sample.

    Attributes:
        local_id: number within the segment, from 1.
        frames, times, scores: of the samples in which it was seen.
        corners: x1, y1, x2, y2 of every sample, one after the other.
        held_until: (frame, time) up to which nothing in the picture changed since the last sample.
        appearance: (d,) running mean of unit vectors of how it looks.
    """

    local_id: int
    frames: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    scores: array[float] = field(default_factory=lambda: array("f"))
    corners: array[float] = field(default_factory=lambda: array("f"))
    held_until: tuple[int, float] | None = None
    appearance: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    velocity_xyxy: NDArray[np.float32] = field(default_factory=lambda: np.zeros(4, np.float32))

    @property
    def last_box_xyxy(self) -> NDArray[np.float32]:
        """(4,) the box of the last sample."""
        return np.array(self.corners[-4:], np.float32)

    @property
    def last_seen_seconds(self) -> float:
        """Time of the last sample, or of the last unchanged frame after it."""
        return self.held_until[1] if self.held_until else self.times[-1]

    def predict(self, time_seconds: float) -> NDArray[np.float32]:
        """The box expected at a time, by constant velocity; a held track has stood still."""
        elapsed = min(time_seconds - self.last_seen_seconds, 1.0)
        return np.asarray(self.last_box_xyxy + self.velocity_xyxy * np.float32(elapsed))

    def add(self, frame: int, time_seconds: float, box_xyxy: NDArray[np.float32], score: float) -> None:
        """Append one sample; the end of a hold becomes one too: until then the box stood still."""
        if self.held_until is not None:
            self.end_hold()
            self.velocity_xyxy[:] = 0
        if self.times:
            elapsed = max(time_seconds - self.times[-1], 1e-3)
            measured = (box_xyxy - self.last_box_xyxy) / np.float32(elapsed)
            # The mean of both corners carries the motion; size changes are mostly box noise.
            shift = np.tile((measured[:2] + measured[2:]) / 2, 2).astype(np.float32)
            self.velocity_xyxy = shift if len(self.times) == 1 else 0.5 * self.velocity_xyxy + 0.5 * shift
        self._append(frame, time_seconds, box_xyxy.tolist(), score)

    def end_hold(self) -> None:
        """Make the last unchanged frame, if there is one, a sample with the box that stood still."""
        if self.held_until is not None:
            self._append(*self.held_until, self.corners[-4:], self.scores[-1])
            self.held_until = None

    def _append(self, frame: int, time_seconds: float, corners: Iterable[float], score: float) -> None:
        self.frames.append(frame)
        self.times.append(time_seconds)
        self.corners.extend(corners)
        self.scores.append(score)

    def look(self, vector: NDArray[np.float32]) -> None:
        """Fold one unit vector into the running appearance."""
        mixed = 0.7 * self.appearance + 0.3 * vector if len(self.appearance) else vector
        self.appearance = (mixed / max(float(np.linalg.norm(mixed)), 1e-6)).astype(np.float32)


class Tracker:
    """Links the regions of consecutive samples by motion and appearance.

    Ended tracks are handed out and forgotten; what is in sight takes some 40 bytes a sample.
    """

    def __init__(self, settings: TrackerSettings | None = None) -> None:
        self.settings = settings or TrackerSettings()
        self._live: list[Track] = []
        self._next_id = 1
        self._last_look_seconds = -np.inf

    def update(
        self, frame: int, time_seconds: float, regions: Regions, appearance: NDArray[np.float32]
    ) -> tuple[list[Track], list[Track]]:
        """Take one sampled frame.

        Args:
            frame: number of the frame in its video.
            time_seconds: its presentation time.
            regions: what was proposed there.
            appearance: (N, d) a unit vector per region; any descriptor that is alike for alike pictures.

        Returns:
            the track of every region, in the regions' order, and the tracks that have ended by now.
        """
        limit = max(self.settings.max_gap_seconds, 1.5 * (time_seconds - self._last_look_seconds))
        limit = min(limit, self.settings.longest_gap_seconds)
        ended = self._end(lambda t: time_seconds - t.last_seen_seconds > limit)
        pairs = self._assign(time_seconds, regions, appearance) if len(regions) and self._live else {}
        self._last_look_seconds = time_seconds
        owners: list[Track] = []
        for i in range(len(regions)):
            track = pairs.get(i)
            if track is None:
                track = Track(self._next_id)
                self._next_id += 1
                self._live.append(track)
            track.add(frame, time_seconds, regions.boxes_xyxy[i], float(regions.scores[i]))
            track.look(appearance[i])
            owners.append(track)
        return owners, ended

    def hold(self, frame: int, time_seconds: float) -> None:
        """Nothing changed: what was in sight at the last look is still there."""
        for track in self._live:
            if track.last_seen_seconds == self._last_look_seconds:
                track.held_until = (frame, time_seconds)
        self._last_look_seconds = time_seconds

    def cut(self) -> list[Track]:
        """A new shot begins: every track ends."""
        return self._end(lambda _: True)

    finish = cut

    def _end(self, over: Callable[[Track], bool]) -> list[Track]:
        ended = [t for t in self._live if over(t)]
        self._live = [t for t in self._live if not over(t)]
        return ended

    def _assign(
        self, time_seconds: float, regions: Regions, appearance: NDArray[np.float32]
    ) -> dict[int, Track]:
        predicted = np.stack([t.predict(time_seconds) for t in self._live])  # (T, 4)
        last = np.stack([t.last_box_xyxy for t in self._live])  # (T, 4)
        overlap = np.maximum(iou(predicted, regions.boxes_xyxy), iou(last, regions.boxes_xyxy))  # (T, N)
        known = np.stack([t.appearance for t in self._live])  # (T, d)
        cosine = known @ appearance.T  # (T, N)
        # What stood where nothing changed and is seen again now must look the same: often something came by.
        stood = np.array([t.held_until is not None for t in self._live])[:, None]  # (T, 1)
        jump = np.where(stood, self.settings.stood_cosine, self.settings.jump_cosine)
        least = np.where(stood, self.settings.stood_cosine, self.settings.min_cosine)
        sure = (overlap >= self.settings.sure_iou) & (cosine >= jump)
        near = self._within_reach(predicted, last, regions.boxes_xyxy) & (cosine >= least)
        good = sure | near
        # Here, so that it loads beside the first frames: it takes a third of a second.
        from scipy.optimize import linear_sum_assignment

        # An impossible pair gains what no pair gains: nothing. Less would make the solver avoid it at a cost.
        gain = np.where(good, overlap + 0.5 * cosine, 0.0)
        rows, columns = linear_sum_assignment(-gain)
        return {int(c): self._live[int(r)] for r, c in zip(rows, columns, strict=True) if good[r, c]}

    def _within_reach(
        self, predicted: NDArray[np.float32], last: NDArray[np.float32], boxes: NDArray[np.float32]
    ) -> NDArray[np.bool_]:
        def centres(b: NDArray[np.float32]) -> NDArray[np.float32]:
            return ((b[:, :2] + b[:, 2:]) / 2).astype(np.float32)

        def areas(b: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.maximum(np.prod(b[:, 2:] - b[:, :2], axis=1), 1.0)

        diagonal = np.sqrt(((last[:, 2:] - last[:, :2]) ** 2).sum(axis=1))[:, None]  # (T, 1)
        away = np.minimum(
            np.linalg.norm(centres(predicted)[:, None] - centres(boxes)[None], axis=2),
            np.linalg.norm(centres(last)[:, None] - centres(boxes)[None], axis=2),
        )  # (T, N)
        ratio = areas(boxes)[None] / areas(last)[:, None]
        limit = self.settings.max_size_ratio
        return np.asarray((away <= self.settings.reach * diagonal) & (ratio <= limit) & (ratio >= 1 / limit))
