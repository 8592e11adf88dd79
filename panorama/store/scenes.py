"""How videos begin and end enters; which of their shots show one scene, whichever files they lie in, leaves.

Recorders cut what one camera sees into files, of ten seconds or of an hour. Where a video begins as another
one of its size ended, the camera is the same and so is its light: both are one scene. That is seen, not told:
names of cameras are those of folders, and a folder may hold anything.

Videos are taken in the order of their names, numbers in them by their value, as recorders name them. Each is
compared with a few before it, then with the last one of every scene that was met lately; so files of several
cameras may lie between each other. Only the last shot of a video and the first of another touch.

A video that begins just as the last one of its scene ended goes on with its shot, if the wall clock of both,
where it is known, does not say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.lines import natural_key
from panorama.store.ascending import looked_up
from panorama.store.schema import LOCAL_BITS, segment_of
from panorama.store.snapshot import Snapshot

TURNS = ((1, 1), (2, 4), (5, 16))
"""How far before each are the videos that it is compared with first: cameras that write files in turn."""

PAIRS = 1 << 14
"""Videos compared at once: so many that the work is in numpy, so few that they fit a cache."""

LATELY = 32
"""And scenes, if it is none of these: cameras whose folders follow each other hour by hour."""

ALIKE_SHARE = 0.7
"""A scene is the same if so much of the picture is: people may stand before the rest of it."""

GOES_ON_SHARE = 0.9
"""And a shot goes on if so much is: who stood there stands there still."""

GOES_ON_SECONDS = 2.0
"""Clocks may say that a video began so long before or after another one ended that it goes on with."""

ALIKE_CONTRAST = 0.25
LEAST_DIFFERENCE, MOST_DIFFERENCE = 2.0, 8.0
"""A part of a picture is the same within so much of the picture's contrast, between these grey levels."""

MOST_LIGHT = 16.0
"""Grey levels by which a camera may expose otherwise: dark clothes make all of the rest brighter."""

LEAST_CORRELATION = 0.7
LEAST_CONTRAST = 3.0
"""Grey levels (standard deviation): a picture with less, as a black one, tells no scene from others."""


@dataclass(frozen=True, slots=True)
class Scenes:
    """Shots that are one scene with others, and videos that go on where another one ends.

    A shot is numbered by its video's segment and its place in it: `segment << 32 | shots before it`.

    Attributes:
        shots: (J,) int64, ascending.
        numbers: (J,) int64, the least number among the shots of its scene.
        goes_on: (J,) int64, the shot that it goes on with, over files; itself where it begins.
        segments: (G,) int32, ascending, of videos that go on; before: (G,) int32 of the one that each goes on
            with; seconds: (G,) how long that and what came before it lasts.
    """

    shots: NDArray[np.int64]
    numbers: NDArray[np.int64]
    goes_on: NDArray[np.int64]
    segments: NDArray[np.int32]
    before: NDArray[np.int32]
    seconds: NDArray[np.float64]

    def of(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the scene of each shot; of one that is alone, its own number."""
        return looked_up(self.shots, self.numbers, shots, shots)

    def begun(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the shot of an earlier video that each goes on with; itself where there is none."""
        return looked_up(self.shots, self.goes_on, shots, shots)

    def seconds_before(self, segments: NDArray[np.int32]) -> NDArray[np.float64]:
        """(T,) what has to be added to times of some videos so that they run on; 0 of one that begins."""
        return looked_up(self.segments, self.seconds, segments, 0.0)

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        """The videos that some go on with, and those that go on with one of these."""
        ahead = self.before[np.isin(self.segments, segments)]
        return np.concatenate([ahead, self.segments[np.isin(self.before, segments)]])


def find_scenes(snapshot: Snapshot) -> Scenes:
    """The scenes of everything that a snapshot holds."""
    ends = _Ends.of(snapshot)
    before, goes_on = _grouped(ends)
    later = np.flatnonzero(before >= 0)
    # Shots that touch another file, each by its place among them.
    shots = np.unique(np.concatenate([ends.first[later], ends.last[before[later]]]))
    first, last = np.searchsorted(shots, ends.first), np.searchsorted(shots, ends.last)
    scene, begun = np.arange(len(shots)), np.arange(len(shots))
    seconds = np.zeros(len(before))
    for row in later.tolist():
        from_there = last[before[row]]
        scene[first[row]] = scene[from_there]
        if goes_on[row]:
            begun[first[row]] = begun[from_there]
            seconds[row] = seconds[before[row]] + ends.durations[before[row]]
    # Scenes are numbered by their least shot: a video that comes first by its name must not change others.
    least = np.full(len(shots), np.iinfo(np.int64).max)
    np.minimum.at(least, scene, shots)
    on = np.flatnonzero(goes_on)[np.argsort(ends.first[goes_on], kind="stable")]
    links = segment_of(ends.first[on]), segment_of(ends.first[before[on]]), seconds[on]
    return Scenes(shots, least[scene], shots[begun], *links)


def state_of(scenes: Scenes, snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.int64]:
    """(S, 4) what scenes there are to some segments.

    The scenes of the first and the last shot, the shot that it goes on with, and the milliseconds before it.
    """
    first = segments.astype(np.int64) << LOCAL_BITS
    last = first + _number_of_cuts(snapshot, segments)
    milliseconds = np.rint(1000 * scenes.seconds_before(segments)).astype(np.int64)
    return np.stack([scenes.of(first), scenes.of(last), scenes.begun(first), milliseconds], axis=1)


def _number_of_cuts(snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.intp]:
    """(S,) in each of some segments."""
    within = segment_of(snapshot.cuts)
    return np.searchsorted(within, segments, side="right") - np.searchsorted(within, segments)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Videos in order of their names, by their ends.

    Attributes:
        first, last: (N,) int64 shots.
        opening, closing: of the first and the last picture.
        sizes: (N, 2) pixels.
        durations: (N,) seconds; starts: (N,) when each began, seconds since 1970, nan if unknown.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    opening: _Looks
    closing: _Looks
    sizes: NDArray[np.int64]
    durations: NDArray[np.float64]
    starts: NDArray[np.float64]

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Ends:
        """Of all videos of a snapshot."""
        videos = snapshot.videos
        names = videos.column("video").to_pylist()
        order = sorted(range(len(names)), key=lambda row: (natural_key(names[row]), names[row]))
        row = np.array(order, np.intp)
        segments = videos.column("segment").to_numpy()
        # Copies of a video share its segment: it counts where the first one stands.
        row = row[np.sort(np.unique(segments[row], return_index=True)[1])]
        segments = segments[row]
        pictures = snapshot.ends[np.searchsorted(snapshot.live_segments, segments)]
        first = segments.astype(np.int64) << LOCAL_BITS
        opening, closing = (_Looks.of(pictures[:, end]) for end in (0, 1))
        columns = ("width", "height", "duration", "start_time_unix")
        width, height, durations, starts = (videos.column(name).to_numpy()[row] for name in columns)
        sizes = np.stack([width, height], axis=1)
        last = first + _number_of_cuts(snapshot, segments)
        return cls(first, last, opening, closing, sizes, durations, starts)

    def shares(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
        """(M, 2) how much of the picture that each video begins with is that which the other one ends with.

        Whatever the exposure is, and as it is.
        """
        same_size = (self.sizes[rows] == self.sizes[others]).all(axis=1)
        return self.opening[rows].shared_with(self.closing[others]) * same_size[:, None]

    def may_go_on(self, row: int, other: int) -> bool:
        """Whether the clocks of both say that a video goes on with another one, or say nothing."""
        return not abs(self.starts[row] - self.starts[other] - self.durations[other]) > GOES_ON_SECONDS


def _grouped(ends: _Ends) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(N,) the video whose scene each belongs to, -1 for none; whether it goes on with its shot."""
    before, same = _just_before(ends)
    goes_on, followed = np.zeros((2, len(before)), np.bool_)
    scene = np.arange(len(before))  # that each video ends in, by its first video
    lately: dict[int, int] = {}  # of each scene the last video, the latest one last
    for row, found in enumerate(before.tolist()):
        if found < 0 and lately and ends.opening.tells[row]:
            found, same[row] = _lately_alike(ends, row, list(lately.values()))
            before[row] = found
        if found >= 0:
            just_so = same[row] >= GOES_ON_SHARE and ends.may_go_on(row, found)
            goes_on[row] = just_so and not followed[found]  # by one video at most: each moment comes once
            followed[found] |= goes_on[row]
            lately.pop(scene[found], None)
            if ends.first[row] == ends.last[row]:
                scene[row] = scene[found]
        lately[scene[row]] = row
        if len(lately) > LATELY:
            del lately[next(iter(lately))]
    return before, goes_on


def _just_before(ends: _Ends) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """(N,) the last of a few videos before each that ended as it begins, -1 for none; how much is the same.

    The usual case, and so for all videos in one go.
    """
    before, same = np.full(len(ends.first), -1), np.zeros(len(ends.first))
    for least, most in TURNS:
        waiting = np.flatnonzero((before < 0) & ends.opening.tells)
        back = np.arange(least, most + 1)
        for rows in np.array_split(waiting, 1 + len(waiting) * len(back) // PAIRS):
            others = np.maximum(rows[:, None] - back, -1)  # (R, B)
            shares = ends.shares(np.repeat(rows, len(back)), others.ravel()).reshape(*others.shape, 2)
            alike = (shares[:, :, 0] >= ALIKE_SHARE) & (others >= 0)
            nearest = alike.argmax(axis=1)
            found = np.flatnonzero(alike.any(axis=1))
            before[rows[found]] = others[found, nearest[found]]
            same[rows[found]] = shares[found, nearest[found], 1]
    return before, same


def _lately_alike(ends: _Ends, row: int, lately: list[int]) -> tuple[int, float]:
    """The last of some videos that ended as one begins, -1 for none; how much is the same."""
    shares = ends.shares(np.full(len(lately), row), np.array(lately))
    alike = np.flatnonzero(shares[:, 0] >= ALIKE_SHARE)
    return (lately[alike[-1]], float(shares[alike[-1], 1])) if len(alike) else (-1, 0.0)


@dataclass(frozen=True, slots=True)
class _Looks:
    """Pictures (N, P) with what they are compared by.

    Attributes:
        levels: grey levels; means, contrasts: (N,) of each.
        tells: (N,) whether it has enough contrast to be told from others.
    """

    levels: NDArray[np.float32]
    means: NDArray[np.float32]
    contrasts: NDArray[np.float32]
    tells: NDArray[np.bool_]

    @classmethod
    def of(cls, pictures: NDArray[np.uint8]) -> _Looks:
        """Measures pictures (N, h, w)."""
        levels = pictures.reshape(len(pictures), pictures[:1].size or 1).astype(np.float32)
        contrasts = levels.std(axis=1)
        return cls(levels, levels.mean(axis=1), contrasts, contrasts >= LEAST_CONTRAST)

    def __getitem__(self, rows: NDArray[np.intp]) -> _Looks:
        return _Looks(self.levels[rows], self.means[rows], self.contrasts[rows], self.tells[rows])

    def shared_with(self, other: _Looks) -> NDArray[np.float64]:
        """(N, 2) how much of each picture is that of the other in its row, 0 where that may be chance.

        Whatever the exposure is, and as it is.
        """
        contrast = np.minimum(self.contrasts, other.contrasts)
        tolerance = np.clip(ALIKE_CONTRAST * contrast, LEAST_DIFFERENCE, MOST_DIFFERENCE)[:, None]
        difference = self.levels - other.levels
        light = np.clip(np.median(difference, axis=1), -MOST_LIGHT, MOST_LIGHT)[:, None]
        shares = [(np.abs(difference - by) <= tolerance).mean(axis=1) for by in (light, 0)]
        covariance = (self.levels * other.levels).mean(axis=1) - self.means * other.means
        alike = covariance >= LEAST_CORRELATION * self.contrasts * other.contrasts
        return np.stack(shares, axis=1) * (alike & self.tells & other.tells)[:, None]
