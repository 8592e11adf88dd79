"""Regions of sampled frames come in, in order; tracks go out, each one thing followed through one shot."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.regions import Regions, iou

KEPT = 0.7
"""Weight of what a running mean was when a sample is added to it."""


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """When two boxes are the same thing.

    Attributes:
        sure_iou: overlap with the predicted or last box from which motion alone decides.
        min_cosine: similarity of appearance needed if motion does not decide.
        jump_cosine: similarity of appearance below which even a sure overlap is another thing: the track is
            split.
        stood_cosine: similarity of appearance needed for a thing that stood still while nothing changed
            around it.
        reach: most distance, in box diagonals, between a thing and its predicted or last place.
        max_size_ratio: most growth or shrinking of a box between samples.
        max_score_ratio: most rise or fall of a region's score against the track's. Where something has left,
            the ground that it stood on may still be a faint region, and the next thing another. Scores of
            the proposer and of motion are compared as they are, so a track seldom goes from one to the other.
        max_gap_seconds: a track unseen for longer has ended, unless it was seen at the last sample.
        longest_gap_seconds: even with rarer samples, a track unseen for longer has ended.
    """

    sure_iou: float = 0.5
    min_cosine: float = 0.8
    jump_cosine: float = 0.75
    stood_cosine: float = 0.9
    reach: float = 1.2
    max_size_ratio: float = 2.5
    max_score_ratio: float = 3.0
    max_gap_seconds: float = 1.0
    longest_gap_seconds: float = 10.0


@dataclass(slots=True)
class Track:
    """One thing followed over the samples of one shot; about 40 bytes per sample.

    Attributes:
        local_id: number within the segment, from 1.
        frames, times, scores: of the samples in which it was seen.
        corners: x1, y1, x2, y2 of every sample, one after the other.
        last_box_xyxy: of the last sample.
        score: running mean of the scores, of the proposer's regions and of moving ones.
        held_until: (frame, time) up to which nothing in the picture changed since the last sample; None if
            something did.
        velocity: pixels per second in x and y. Changes of size are mostly noise of the boxes and are left
            out.
    """

    local_id: int
    frames: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    scores: array[float] = field(default_factory=lambda: array("f"))
    corners: array[float] = field(default_factory=lambda: array("f"))
    last_box_xyxy: list[float] = field(default_factory=list)
    score: float = 0.0
    held_until: tuple[int, float] | None = None
    velocity: tuple[float, float] = (0.0, 0.0)

    @property
    def last_seen_seconds(self) -> float:
        """Time of the last sample, or of the last unchanged frame after it."""
        return self.held_until[1] if self.held_until else self.times[-1]

    def shift(self, time_seconds: float) -> tuple[float, float]:
        """Expected movement in x and y since it was last seen or held: constant velocity, at most for 1 s."""
        elapsed = min(time_seconds - self.last_seen_seconds, 1.0)
        return self.velocity[0] * elapsed, self.velocity[1] * elapsed

    def add(self, frame: int, time_seconds: float, box_xyxy: list[float], score: float) -> None:
        """Append one sample. The end of a hold becomes a sample too: until then the box stood still."""
        self.end_hold()
        if self.times:
            elapsed = max(time_seconds - self.times[-1], 1e-3)
            before = self.last_box_xyxy
            across = (box_xyxy[0] + box_xyxy[2] - before[0] - before[2]) / (2 * elapsed)
            down = (box_xyxy[1] + box_xyxy[3] - before[1] - before[3]) / (2 * elapsed)
            if len(self.times) > 1:
                across, down = 0.5 * (self.velocity[0] + across), 0.5 * (self.velocity[1] + down)
            self.velocity = (across, down)
        self.score = KEPT * self.score + (1 - KEPT) * score if self.times else score
        self._append(frame, time_seconds, box_xyxy, score)

    def hold(self, frame: int, time_seconds: float) -> None:
        """Nothing changed since the last sample: it has stood still, so it is not expected to move on."""
        self.held_until = (frame, time_seconds)
        self.velocity = (0.0, 0.0)

    def end_hold(self) -> None:
        """Turn the last unchanged frame, if there is one, into a sample with the box that stood still."""
        if self.held_until is not None:
            self._append(*self.held_until, self.last_box_xyxy, self.scores[-1])
            self.held_until = None

    def _append(self, frame: int, time_seconds: float, box_xyxy: list[float], score: float) -> None:
        self.frames.append(frame)
        self.times.append(time_seconds)
        self.corners.extend(box_xyxy)
        self.scores.append(score)
        self.last_box_xyxy = box_xyxy


class Tracker:
    """Links the regions of consecutive samples by motion and appearance.

    Ended tracks are returned and forgotten; live tracks take about 40 bytes per sample.
    """

    def __init__(self, settings: TrackerSettings | None = None) -> None:
        self.settings = settings or TrackerSettings()
        self._live: list[Track] = []
        self._looks = np.zeros((0, 0), np.float32)  # (T, d) running mean of unit vectors per live track
        self._next_id = 1
        self._last_look_seconds = -np.inf

    def update(
        self, frame: int, time_seconds: float, regions: Regions, appearance: NDArray[np.float32]
    ) -> tuple[list[Track], list[Track]]:
        """Take one sampled frame.

        Args:
            frame: number of the frame in its video.
            time_seconds: its presentation time.
            regions: the regions proposed there.
            appearance: (N, d) a unit vector per region, from any descriptor that is similar for similar
                pictures.

        Returns:
            The track of every region, in the regions' order, and the tracks that have ended.
        """
        limit = max(self.settings.max_gap_seconds, 1.5 * (time_seconds - self._last_look_seconds))
        limit = min(limit, self.settings.longest_gap_seconds)
        ended = self._end(lambda t: time_seconds - t.last_seen_seconds > limit)
        pairs = self._assign(time_seconds, regions, appearance) if len(regions) and self._live else {}
        self._last_look_seconds = time_seconds
        places: list[int] = []
        boxes, scores = regions.boxes_xyxy.tolist(), regions.scores.tolist()
        for i, (box, score) in enumerate(zip(boxes, scores, strict=True)):
            place = pairs.get(i)
            if place is None:
                place = len(self._live)
                self._live.append(Track(self._next_id))
                self._next_id += 1
            self._live[place].add(frame, time_seconds, box, score)
            places.append(place)
        self._look(places, appearance)
        return [self._live[place] for place in places], ended

    def _look(self, places: list[int], appearance: NDArray[np.float32]) -> None:
        """Update the mean appearance of the tracks with the unit vectors (N, d) of their regions."""
        if not places:
            return
        known, at = len(self._looks), np.array(places)
        looks = np.zeros((len(self._live), appearance.shape[1]), np.float32)
        if known:
            looks[:known] = self._looks
        weight = np.where(at < known, np.float32(KEPT), np.float32(0))[:, None]
        mixed = weight * looks[at] + (1 - weight) * appearance
        norms = np.sqrt(np.einsum("nd,nd->n", mixed, mixed))[:, None]
        looks[at] = mixed / np.maximum(norms, np.float32(1e-6))
        self._looks = looks

    def hold(self, frame: int, time_seconds: float) -> None:
        """Nothing changed: everything visible at the last sample is still there."""
        for track in self._live:
            if track.last_seen_seconds == self._last_look_seconds:
                track.hold(frame, time_seconds)
        self._last_look_seconds = time_seconds

    def cut(self) -> list[Track]:
        """A new shot begins: every track ends."""
        return self._end(lambda _: True)

    finish = cut

    def _end(self, over: Callable[[Track], bool]) -> list[Track]:
        is_over = [over(t) for t in self._live]
        ended = [t for t, o in zip(self._live, is_over, strict=True) if o]
        if ended:
            self._live = [t for t, o in zip(self._live, is_over, strict=True) if not o]
            self._looks = self._looks[~np.array(is_over)]
        return ended

    def _assign(
        self, time_seconds: float, regions: Regions, appearance: NDArray[np.float32]
    ) -> dict[int, int]:
        """Assign regions to live tracks: number of the region -> place of its track."""
        known = [
            (*t.last_box_xyxy, *t.shift(time_seconds), t.held_until is not None, t.score) for t in self._live
        ]
        state = np.array(known, np.float32)  # (T, 8)
        last, shifts = state[:, :4], state[:, 4:6]
        predicted = last + np.concatenate([shifts, shifts], axis=1)  # (T, 4)
        places = np.concatenate([predicted, last])  # (2T, 4): one call for both, as call overhead dominates
        overlap = _either(np.maximum, iou(places, regions.boxes_xyxy))  # (T, N)
        cosine = self._looks @ appearance.T  # (T, N)
        # A thing that stood still and is seen again must look the same: often something else has come by.
        stood = state[:, 6:7] > 0  # (T, 1)
        jump = np.where(stood, self.settings.stood_cosine, self.settings.jump_cosine)
        least = np.where(stood, self.settings.stood_cosine, self.settings.min_cosine)
        sure = (overlap >= self.settings.sure_iou) & (cosine >= jump)
        near = self._within_reach(places, last, regions.boxes_xyxy) & (cosine >= least)
        good = (sure | near) & self._as_clear(state[:, 7:], regions.scores)
        # An impossible pair gains 0, like no pair. With less, the solver gives up good pairs to avoid it.
        gain = np.where(good, overlap + 0.5 * cosine, 0.0)
        rows, columns = _assignment()(-gain)
        return {c: r for r, c in zip(rows.tolist(), columns.tolist(), strict=True) if good[r, c]}

    def _as_clear(self, before: NDArray[np.float32], scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """(T, N) whether scores (N,) are near enough to those of the tracks before (T, 1)."""
        most = np.float32(self.settings.max_score_ratio)
        return np.asarray((scores * most >= before) & (scores <= before * most))

    def _within_reach(
        self, places: NDArray[np.float32], last: NDArray[np.float32], boxes: NDArray[np.float32]
    ) -> NDArray[np.bool_]:
        """(T, N) whether a box may be the next of a track, by its place and its size.

        Args:
            places: (2T, 4) predicted boxes of the tracks, then their last boxes.
            last: (T, 4) their last boxes.
        """

        def areas(b: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.asarray(np.maximum((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]), 1.0), np.float32)

        x, y = _centres(places)[:, :, None] - _centres(boxes)[:, None, :]  # each (2T, N)
        nearest = _either(np.minimum, np.hypot(x, y))  # (T, N)
        diagonal = np.hypot(last[:, 2] - last[:, 0], last[:, 3] - last[:, 1])[:, None]  # (T, 1)
        ratio = areas(boxes)[None] / areas(last)[:, None]
        limit = self.settings.max_size_ratio
        return np.asarray(
            (nearest <= self.settings.reach * diagonal) & (ratio <= limit) & (ratio >= 1 / limit)
        )


@cache
def _assignment() -> Any:
    """scipy's `linear_sum_assignment` alone: importing all of scipy.optimize takes a third of a second.

    If the module has another place or name, as it may in other versions, it is imported as documented.
    """
    package = find_spec("scipy")
    folders = (package.submodule_search_locations if package else None) or []
    found = PathFinder.find_spec("_lsap", [str(Path(folder) / "optimize") for folder in folders])
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        with suppress(ImportError):
            found.loader.exec_module(module)
            if hasattr(module, "linear_sum_assignment"):
                return module.linear_sum_assignment
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment


def _centres(boxes_xyxy: NDArray[np.float32]) -> NDArray[np.float32]:
    """(2, N) x and y of the centres."""
    return np.asarray((boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]).T / np.float32(2), np.float32)


def _either(which: np.ufunc, of_both: NDArray[np.float32]) -> NDArray[np.float32]:
    """(T, N) the larger or smaller of two halves (2T, N)."""
    half = len(of_both) // 2
    return np.asarray(which(of_both[:half], of_both[half:]), np.float32)
