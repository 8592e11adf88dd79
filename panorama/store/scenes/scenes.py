"""The first and last pictures of videos come in; which of their shots show one scene, across files, goes out.

Recorders cut the recording of one camera into files of ten seconds or of an hour. If a video begins with the
picture with which another one of the same size ended, both are from one camera: they show one site. The
pictures decide this, not the camera names: these come from folders, and a folder may hold anything. A scene
is what a site shows on one day; on another day the light differs. The clock of a video gives its day, or else
the folder that it is in.

Videos are taken in the order of their names, with numbers compared by value, as recorders name them. Each is
compared with a few videos before it, then with the last video of every recent scene, so that files of several
cameras may alternate. Only the last shot of one video and the first shot of another can touch.

A video that begins exactly as the last one of its scene ended continues its shot, unless their clocks, if
both are known, contradict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.store.ascending import looked_up, rows_in
from panorama.store.files.schema import LOCAL_BITS, segment_of
from panorama.store.scenes.ends import Ends, number_of_cuts
from panorama.store.scenes.sites import Chains, chains_of, same_sites
from panorama.store.snapshot import Snapshot

TURNS = ((1, 1), (2, 4), (5, 16))
"""Each video is compared first with those this many places before it, range by range.

That suits cameras that write their files in turn.
"""

PAIRS = 1 << 14
"""Pairs of videos compared at a time: enough to keep the work in numpy, few enough to fit a cache."""

LATELY = 32
"""Then it is compared with this many recent scenes: cameras may have one folder per hour, in turn."""

ALIKE_SHARE = 0.7
"""A scene is the same if this part of the picture is: people may cover the rest."""

GOES_ON_SHARE = 0.9
"""A shot continues if this part of the picture is the same: people have hardly moved."""

ROUNDING_SECONDS = 1e-3
"""Sums of lengths may be this much too long: a file of exactly the seconds asked for counts as such."""


@dataclass(frozen=True, slots=True)
class Scenes:
    """Shots that share a scene or a site with others, and videos that continue another one.

    The number of a shot is `segment << 32 | shots before it in that segment`.

    Attributes:
        shots: (J,) int64, ascending; shots that share nothing with others may be missing.
        numbers: (J,) int64, the scene of each shot: the least number among the scene's shots.
        sites: (J,) int64, the site of each shot, likewise.
        goes_on: (J,) int64, the earliest shot that each continues, across files; itself if it continues none.
        segments: (G,) int32, ascending, of the videos that continue another one; before: (G,) int32, the
            segment that each continues; seconds: (G,) total length of all that it continues.
    """

    shots: NDArray[np.int64]
    numbers: NDArray[np.int64]
    sites: NDArray[np.int64]
    goes_on: NDArray[np.int64]
    segments: NDArray[np.int32]
    before: NDArray[np.int32]
    seconds: NDArray[np.float64]

    def of(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the scene of each shot; its own number if it shares a scene with no other."""
        return looked_up(self.shots, self.numbers, shots, shots)

    def sites_of(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S,) the site of each scene; its own number if it shares a site with no other."""
        return looked_up(self.shots, self.sites, scenes, scenes)

    def begun(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the earliest shot that each shot continues, across files; itself if it continues none."""
        return looked_up(self.shots, self.goes_on, shots, shots)

    def seconds_before(self, segments: NDArray[np.int32]) -> NDArray[np.float64]:
        """(T,) seconds to add to the times in each segment so that they continue those before; else 0."""
        return looked_up(self.segments, self.seconds, segments, 0.0)

    def neighbours(self, segments: NDArray[np.int32], seconds: float) -> NDArray[np.int32]:
        """The segments that some segments continue, and those that continue one of them.

        Args:
            seconds: also what these continue in turn, as long as no more than this lies between.
        """
        segments = np.unique(segments)
        seconds += ROUNDING_SECONDS
        found, at, left = [segments[:0]], segments, np.full(len(segments), seconds)
        while len(at):
            row = rows_in(self.segments, at)
            on = row >= 0
            before = self.before[row[on]]
            found.append(before)
            left = left[on] - (self.seconds_before(at[on]) - self.seconds_before(before))
            at, left = before[left > 0], left[left > 0]
        at, left = segments, np.full(len(segments), np.inf)  # the given ones themselves lie not between
        while len(at):
            row = np.flatnonzero(np.isin(self.before, at))
            mine = np.searchsorted(at, self.before[row])
            left = left[mine] - (self.seconds[row] - self.seconds_before(at[mine]))
            at, left = self.segments[row][left > 0], np.minimum(left[left > 0], seconds)
            found.append(at)
        return np.concatenate(found)


def find_scenes(snapshot: Snapshot) -> Scenes:
    """The scenes of everything that a snapshot holds."""
    ends = Ends.of(snapshot)
    before, goes_on = _grouped(ends)
    chains = chains_of(ends, before)
    site = same_sites(ends, chains)
    later, apart = np.flatnonzero(before >= 0), np.flatnonzero(site != np.arange(len(site)))
    # Shots linked to another file, or to another chain of their site.
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
    """(J,) the chain of each of some first or last shots, and (J,) a number for its day."""
    known = np.concatenate([ends.first, ends.last])
    order = np.argsort(known, kind="stable")
    place = order[np.searchsorted(known[order], shots)]
    _, day = np.unique(np.array([*ends.days, *ends.last_days], dtype=object), return_inverse=True)
    return np.concatenate([chains.opening, chains.closing])[place], day[place]


def _least(groups: NDArray[np.intp], shots: NDArray[np.int64]) -> NDArray[np.int64]:
    """(J,) the least shot in the group of each shot.

    Unlike the first by name, it stays when a video is added that comes first by name.
    """
    least = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, groups, shots)
    return least[groups]


def state_of(scenes: Scenes, snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.int64]:
    """(S, 6) int64, all that the scenes say about each of some segments.

    Columns: scene of the first and of the last shot, site of each, the shot that the first one continues, and
    the milliseconds before it.
    """
    first = segments.astype(np.int64) << LOCAL_BITS
    last = first + number_of_cuts(snapshot, segments)
    milliseconds = np.rint(1000 * scenes.seconds_before(segments)).astype(np.int64)
    both = scenes.of(first), scenes.of(last)
    sites = (scenes.sites_of(one) for one in both)
    return np.stack([*both, *sites, scenes.begun(first), milliseconds], axis=1)


def _grouped(ends: Ends) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(N,) the video whose end each video begins with, -1 for none; (N,) whether it continues its shot."""
    before, same = _just_before(ends)
    goes_on, followed = np.zeros((2, len(before)), np.bool_)
    scene = np.arange(len(before))  # the scene in which each video ends, named by its first video
    lately: dict[int, int] = {}  # recent scene -> its last video; the latest at the end
    for row, found in enumerate(before.tolist()):
        if found < 0 and lately and ends.opening.tells[row]:
            found, same[row] = _lately_alike(ends, row, list(lately.values()))
            before[row] = found
        if found >= 0:
            just_so = same[row] >= GOES_ON_SHARE and ends.may_go_on(row, found)
            # At most one video continues another, so that each moment is unique, and none past midnight.
            goes_on[row] = just_so and not followed[found] and ends.days[row] == ends.last_days[found]
            followed[found] |= goes_on[row]
            lately.pop(scene[found], None)
            if ends.first[row] == ends.last[row]:
                scene[row] = scene[found]
        lately[scene[row]] = row
        if len(lately) > LATELY:
            del lately[next(iter(lately))]
    return before, goes_on


def _just_before(ends: Ends) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """(N,) the nearest of a few earlier videos that ended as each begins, -1 for none; (N,) the equal part.

    This is the usual case, and therefore computed for all videos together.
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
    """The latest of some videos that ended as a video begins, -1 for none, and the equal part."""
    shares = ends.shares(np.full(len(lately), row), np.array(lately))
    alike = np.flatnonzero(shares[:, 0] >= ALIKE_SHARE)
    return (lately[alike[-1]], float(shares[alike[-1], 1])) if len(alike) else (-1, 0.0)
