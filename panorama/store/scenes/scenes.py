"""How videos begin and end enters; which of their shots show one scene, whichever files they lie in, leaves.

Recorders cut what one camera sees into files, of ten seconds or of an hour. Where a video begins as another
one of its size ended, the camera is the same: both are of one site. That is seen, not told: names of cameras
are those of folders, and a folder may hold anything. What a site shows in a day is a scene: on another day
its light is another. Of which day a video is its wall clock says, or else the folder that it lies in.

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

from panorama.store.ascending import looked_up
from panorama.store.files.schema import LOCAL_BITS, segment_of
from panorama.store.scenes.ends import Ends, number_of_cuts
from panorama.store.scenes.sites import Chains, chains_of, same_sites
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


@dataclass(frozen=True, slots=True)
class Scenes:
    """Shots that are one scene or of one site with others, and videos that go on where another one ends.

    A shot is numbered by its video's segment and its place in it: `segment << 32 | shots before it`.

    Attributes:
        shots: (J,) int64, ascending.
        numbers: (J,) int64, the least number among the shots of its scene.
        sites: (J,) int64, the same of its site.
        goes_on: (J,) int64, the shot that it goes on with, over files; itself where it begins.
        segments: (G,) int32, ascending, of videos that go on; before: (G,) int32 of the one that each goes on
            with; seconds: (G,) how long that and what came before it lasts.
    """

    shots: NDArray[np.int64]
    numbers: NDArray[np.int64]
    sites: NDArray[np.int64]
    goes_on: NDArray[np.int64]
    segments: NDArray[np.int32]
    before: NDArray[np.int32]
    seconds: NDArray[np.float64]

    def of(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the scene of each shot; of one that is alone, its own number."""
        return looked_up(self.shots, self.numbers, shots, shots)

    def sites_of(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S,) the site of each scene; of one that is alone, its own number."""
        return looked_up(self.shots, self.sites, scenes, scenes)

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
    ends = Ends.of(snapshot)
    before, goes_on = _grouped(ends)
    chains = chains_of(ends, before)
    site = same_sites(ends, chains)
    later, apart = np.flatnonzero(before >= 0), np.flatnonzero(site != np.arange(len(site)))
    # Shots that touch another file or another light of their site.
    touching = ends.first[later], ends.last[before[later]], chains.shots[apart], chains.shots[site[apart]]
    shots = np.unique(np.concatenate(touching))
    chain, day = _of_shots(ends, chains, shots)
    _, scene = np.unique(np.stack([chain, day], axis=1), axis=0, return_inverse=True)
    begun, seconds = np.arange(len(shots)), np.zeros(len(before))
    first, last = np.searchsorted(shots, ends.first), np.searchsorted(shots, ends.last)
    on = np.flatnonzero(goes_on)
    for row in on.tolist():
        begun[first[row]] = begun[last[before[row]]]
        seconds[row] = seconds[before[row]] + ends.durations[before[row]]
    on = on[np.argsort(ends.first[on], kind="stable")]
    links = segment_of(ends.first[on]), segment_of(ends.first[before[on]]), seconds[on]
    return Scenes(shots, _least(scene.ravel(), shots), _least(site[chain], shots), shots[begun], *links)


def _of_shots(
    ends: Ends, chains: Chains, shots: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(J,) the chain of some first or last shots, and a number for their day."""
    known = np.concatenate([ends.first, ends.last])
    order = np.argsort(known, kind="stable")
    place = order[np.searchsorted(known[order], shots)]
    _, day = np.unique(np.array(ends.days, dtype=object), return_inverse=True)
    return np.concatenate([chains.opening, chains.closing])[place], np.tile(day, 2)[place]


def _least(groups: NDArray[np.intp], shots: NDArray[np.int64]) -> NDArray[np.int64]:
    """(J,) the least shot of each one's group: a video that comes first by name must not change others."""
    least = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, groups, shots)
    return least[groups]


def state_of(scenes: Scenes, snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.int64]:
    """(S, 6) what scenes there are to some segments.

    The scenes of the first and the last shot and their sites, the shot that it goes on with, and the
    milliseconds before it.
    """
    first = segments.astype(np.int64) << LOCAL_BITS
    last = first + number_of_cuts(snapshot, segments)
    milliseconds = np.rint(1000 * scenes.seconds_before(segments)).astype(np.int64)
    both = scenes.of(first), scenes.of(last)
    sites = (scenes.sites_of(one) for one in both)
    return np.stack([*both, *sites, scenes.begun(first), milliseconds], axis=1)


def _grouped(ends: Ends) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(N,) the video that each begins as the end of, -1 for none; whether it goes on with its shot."""
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
            # By one video at most, so that each moment comes once; and not over midnight.
            goes_on[row] = just_so and not followed[found] and ends.days[row] == ends.days[found]
            followed[found] |= goes_on[row]
            lately.pop(scene[found], None)
            if ends.first[row] == ends.last[row]:
                scene[row] = scene[found]
        lately[scene[row]] = row
        if len(lately) > LATELY:
            del lately[next(iter(lately))]
    return before, goes_on


def _just_before(ends: Ends) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
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


def _lately_alike(ends: Ends, row: int, lately: list[int]) -> tuple[int, float]:
    """The last of some videos that ended as one begins, -1 for none; how much is the same."""
    shares = ends.shares(np.full(len(lately), row), np.array(lately))
    alike = np.flatnonzero(shares[:, 0] >= ALIKE_SHARE)
    return (lately[alike[-1]], float(shares[alike[-1], 1])) if len(alike) else (-1, 0.0)
