"""How videos begin and end enters; which of their shots show one scene, whichever files they lie in, leaves.

Recorders cut what one camera sees into files, of ten seconds or of an hour. Where a video begins, or ends,
as another one does, the camera is the same and so is its light: both are one scene. That is seen, not told:
names of cameras are those of folders, and a folder may hold anything.

Videos are taken in the order of their names, numbers in them by their value, as recorders name them. Each is
compared with the last one of every scene that was met lately, the latest first; so files of several cameras
may lie between each other. Only the first and the last shot of a video touch other files.

A video that begins just as the last one of its scene ended goes on with its shot, if the wall clock of both,
where it is known, does not say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.lines import natural_key
from panorama.store.schema import ENDS_SHAPE, LOCAL_BITS, segment_of
from panorama.store.snapshot import Snapshot

LATELY = 32
"""Scenes that a video is compared with: cameras whose files lie between each other."""

ALIKE_SHARE = 0.7
"""A scene is the same if so much of the picture is: people may stand before the rest of it."""

GOES_ON_SHARE = 0.9
"""And a shot goes on if so much is: who stood there stands there still."""

GOES_ON_SECONDS = 2.0
"""Clocks may say that a video began so long before or after another one ended that it goes on with."""

ALIKE_CONTRAST = 0.25
LEAST_DIFFERENCE, MOST_DIFFERENCE = 2.0, 8.0
"""A part of a picture is the same within so much of the picture's contrast, between these grey levels."""

LEAST_CORRELATION = 0.8
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
        return _looked_up(shots, self.shots, self.numbers)

    def begun(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the shot of an earlier video that each goes on with; itself where there is none."""
        return _looked_up(shots, self.shots, self.goes_on)

    def seconds_before(self, segments: NDArray[np.int32]) -> NDArray[np.float64]:
        """(T,) what has to be added to times of some videos so that they run on; 0 of one that begins."""
        place, known = _places_among(segments, self.segments)
        return np.where(known, self.seconds[place], 0.0) if len(self.segments) else np.zeros(len(segments))

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        """The videos that some go on with, and those that go on with one of these."""
        ahead = self.before[np.isin(self.segments, segments)]
        return np.concatenate([ahead, self.segments[np.isin(self.before, segments)]])


def _looked_up(
    shots: NDArray[np.int64], known: NDArray[np.int64], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(T,) the value of each shot; itself where it is not known."""
    place, found = _places_among(shots, known)
    return np.where(found, values[place], shots) if len(known) else shots


def _places_among(
    wanted: NDArray[np.integer], ascending: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each of some numbers would be, and whether it is there."""
    if not len(ascending):
        return np.zeros(len(wanted), np.intp), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, np.asarray(ascending[place] == wanted)


def find_scenes(snapshot: Snapshot) -> Scenes:
    """The scenes of everything that a snapshot holds."""
    ends = _Ends.of(snapshot)
    scene, before = _grouped(ends)
    shots = ends.shots
    numbers = shots.copy()
    # Groups are numbered by their least shot: one that comes first by its name must not change the others.
    np.minimum.at(numbers, scene, shots)
    begun, seconds = shots.copy(), np.zeros(len(shots))
    for row in np.flatnonzero(before >= 0).tolist():
        begun[row] = begun[before[row]]
        seconds[row] = seconds[before[row]] + ends.durations[before[row]]
    several = np.bincount(scene, minlength=len(shots))[scene] > 1
    known = np.flatnonzero(several)[np.argsort(shots[several], kind="stable")]
    later = np.flatnonzero(before >= 0)[np.argsort(shots[before >= 0], kind="stable")]
    links = segment_of(shots[later]), segment_of(shots[before[later]]), seconds[later]
    return Scenes(shots[known], numbers[scene][known], begun[known], *links)


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
    """Shots that a video begins or ends with, in order of the videos' names.

    Attributes:
        shots: (N,) int64.
        pictures: (N, 2, P) uint8 of the first and the last; of a shot with one end in sight that one, twice.
        begins, ends: (N,) whether the video begins and ends with it.
        durations: (N,) seconds of the video; starts: (N,) when it began, seconds since 1970, nan if unknown.
    """

    shots: NDArray[np.int64]
    pictures: NDArray[np.uint8]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]
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
        cuts = _number_of_cuts(snapshot, segments)
        # One row for a video of one shot, two for others.
        owner = np.repeat(np.arange(len(row)), np.where(cuts > 0, 2, 1))
        second = np.diff(owner, prepend=-1) == 0
        begins, ends = ~second, second | (cuts[owner] == 0)
        pictures = snapshot.ends[np.searchsorted(snapshot.live_segments, segments)][owner]
        pictures = pictures.reshape(len(owner), ENDS_SHAPE[0], -1)
        pictures[~ends, 1] = pictures[~ends, 0]
        pictures[~begins, 0] = pictures[~begins, 1]
        shots = (segments.astype(np.int64)[owner] << LOCAL_BITS) + np.where(second, cuts[owner], 0)
        durations, starts = (
            videos.column(name).to_numpy().astype(np.float64)[row][owner]
            for name in ("duration", "start_time_unix")
        )
        return cls(shots, pictures, begins, ends, durations, starts)

    def may_go_on(self, row: int, other: int) -> bool:
        """Whether a shot can go on with another one, as far as their videos and clocks say."""
        gap = self.starts[row] - self.starts[other] - self.durations[other]
        return bool(self.begins[row] and self.ends[other] and not abs(gap) > GOES_ON_SECONDS)


def _grouped(ends: _Ends) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(N,) the first shot (row) of the scene of each, and the one that it goes on with, -1 for none."""
    looks = _Looks.of(ends.pictures)
    scene, before = np.arange(len(ends.shots)), np.full(len(ends.shots), -1)
    at_once = np.concatenate([[False], looks[1:].alike(looks[:-1])])  # the usual case, all in one go
    lately: list[int] = []  # of each scene the last shot, the latest one last
    for row in range(len(ends.shots)):
        found = lately[-1] if at_once[row] else _latest_alike(looks, row, lately)
        if found is not None:
            scene[row] = scene[found]
            lately.remove(found)
            if ends.may_go_on(row, found) and looks[[row]].goes_on(looks[[found]])[0]:
                before[row] = found
        lately = [*lately, row][-LATELY:]
    return scene, before


def _latest_alike(looks: _Looks, row: int, lately: list[int]) -> int | None:
    """The latest of some shots that look like one."""
    if not lately or not looks.tells[row].any():
        return None
    alike = looks[[row] * len(lately)].alike(looks[lately])
    return lately[int(np.flatnonzero(alike)[-1])] if alike.any() else None


@dataclass(frozen=True, slots=True)
class _Looks:
    """Two pictures (N, 2, P) of each shot, with what they are compared by.

    Attributes:
        levels: grey levels; means, contrasts: (N, 2) of each.
        tells: (N, 2) whether it has enough contrast to be told from others.
    """

    levels: NDArray[np.float32]
    means: NDArray[np.float32]
    contrasts: NDArray[np.float32]
    tells: NDArray[np.bool_]

    @classmethod
    def of(cls, pictures: NDArray[np.uint8]) -> _Looks:
        """Measures pictures."""
        levels = pictures.astype(np.float32)
        contrasts = levels.std(axis=2)
        return cls(levels, levels.mean(axis=2), contrasts, contrasts >= LEAST_CONTRAST)

    def __getitem__(self, rows: slice | list[int]) -> _Looks:
        return _Looks(self.levels[rows], self.means[rows], self.contrasts[rows], self.tells[rows])

    def alike(self, other: _Looks) -> NDArray[np.bool_]:
        """(N,) whether a picture of each shot is like one of the other's in its row."""
        shares = [self._share(other, mine, its) for mine in (0, 1) for its in (0, 1)]
        return np.asarray(np.max(shares, axis=0) >= ALIKE_SHARE)

    def goes_on(self, other: _Looks) -> NDArray[np.bool_]:
        """(N,) whether each begins just as the other ends."""
        return self._share(other, 0, 1) >= GOES_ON_SHARE

    def _share(self, other: _Looks, mine: int, its: int) -> NDArray[np.float32]:
        """(N,) how much of two pictures is the same, 0 where the rest says that it is by chance."""
        one, two = self.levels[:, mine], other.levels[:, its]  # (N, P)
        contrast = np.minimum(self.contrasts[:, mine], other.contrasts[:, its])
        tolerance = np.clip(ALIKE_CONTRAST * contrast, LEAST_DIFFERENCE, MOST_DIFFERENCE)
        share = (np.abs(one - two) <= tolerance[:, None]).mean(axis=1)
        covariance = (one * two).mean(axis=1) - self.means[:, mine] * other.means[:, its]
        alike = covariance >= LEAST_CORRELATION * self.contrasts[:, mine] * other.contrasts[:, its]
        return np.where(alike & self.tells[:, mine] & other.tells[:, its], share, 0).astype(np.float32)
