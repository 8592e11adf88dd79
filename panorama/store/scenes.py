"""How videos begin and end enters; which of their shots show one scene, whichever files they lie in, leaves.

Recorders cut what one camera sees into files, of ten seconds or of an hour. Where a video begins, or ends, as
another one does, the camera is the same and so is its light: both are one scene. That is seen, not told: names
of cameras are those of folders, and a folder may hold anything.

Videos are taken in the order of their names, numbers in them by their value, as recorders name them. Each is
compared with the last one of every scene that was met lately, the latest first; so files of several cameras
may lie between each other. Only the first and the last shot of a video touch other files.
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

ALIKE_CONTRAST = 0.25
LEAST_DIFFERENCE, MOST_DIFFERENCE = 2.0, 8.0
"""A part of a picture is the same within so much of the picture's contrast, between these grey levels."""

LEAST_CORRELATION = 0.8
LEAST_CONTRAST = 3.0
"""Grey levels (standard deviation): a picture with less, as black ones of films, tells no scene from others."""


@dataclass(frozen=True, slots=True)
class Scenes:
    """Shots that are one scene with others.

    Attributes:
        shots: (J,) int64, ascending, as `PlaceTables.shots` numbers them.
        numbers: (J,) int64, the least number among the shots of its scene.
    """

    shots: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def of(self, shots: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T,) the scene of each shot; of one that is alone, its own number."""
        if not len(self.shots):
            return shots
        place = np.minimum(np.searchsorted(self.shots, shots), len(self.shots) - 1)
        return np.where(self.shots[place] == shots, self.numbers[place], shots)


def find_scenes(snapshot: Snapshot) -> Scenes:
    """The scenes of everything that a snapshot holds."""
    shots, pictures = _open_ends(snapshot)
    numbers = shots[_grouped(pictures)] if len(shots) else shots
    order = np.argsort(shots, kind="stable")
    shots, numbers = shots[order], numbers[order]
    # Groups are numbered by the first in order of name; what is kept by number must not mind another name.
    scene, group = np.unique(numbers, return_inverse=True)
    least = np.full(len(scene), np.iinfo(np.int64).max)
    np.minimum.at(least, group, shots)
    several = np.bincount(group, minlength=len(scene))[group] > 1
    return Scenes(shots[several], least[group][several])


def scenes_at_ends(scenes: Scenes, snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.int64]:
    """(S, 2) the scenes of the first and of the last shot of some segments."""
    first = segments.astype(np.int64) << LOCAL_BITS
    last = first + _number_of_cuts(snapshot, segments)
    return np.stack([scenes.of(first), scenes.of(last)], axis=1)


def _number_of_cuts(snapshot: Snapshot, segments: NDArray[np.int32]) -> NDArray[np.intp]:
    """(S,) in each of some segments."""
    within = segment_of(snapshot.cuts)
    return np.searchsorted(within, segments, side="right") - np.searchsorted(within, segments)


def _open_ends(snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Shots (N,) that a video begins or ends with, in order of name; their two pictures (N, 2, 144).

    Of a shot with one end, the first or the last of several, the picture is there twice.
    """
    names = snapshot.videos.column("video").to_pylist()
    segments = snapshot.videos.column("segment").to_numpy()
    order = sorted(range(len(names)), key=lambda row: (natural_key(names[row]), names[row]))
    # Copies of a video share its segment: it counts where the first one stands.
    in_order = list(dict.fromkeys(segments[order].tolist()))
    row = np.searchsorted(snapshot.live_segments, np.array(in_order, np.int32))
    ends = snapshot.ends[row].reshape(len(row), ENDS_SHAPE[0], -1)
    cuts = _number_of_cuts(snapshot, np.array(in_order, np.int32))
    shots, pictures = [], []
    for segment, both, later in zip(in_order, ends, cuts.tolist(), strict=True):
        if not later:
            shots.append(segment << LOCAL_BITS)
            pictures.append(both)
            continue
        shots += [segment << LOCAL_BITS, segment << LOCAL_BITS | later]
        pictures += [both[[0, 0]], both[[1, 1]]]
    return np.array(shots, np.int64), np.array(pictures, np.uint8).reshape(len(shots), *ends.shape[1:])


def _grouped(pictures: NDArray[np.uint8]) -> NDArray[np.intp]:
    """(N,) the first shot of the scene of each; pictures (N, 2, P) in order."""
    looks = _Looks.of(pictures)
    follows = np.concatenate([[False], looks[1:].alike(looks[:-1]).any(axis=1)])
    scene = np.arange(len(pictures))
    lately: list[int] = []  # of each scene the last shot, the latest one last
    for row, at_once in enumerate(follows.tolist()):
        found = lately[-1] if at_once else _latest_alike(looks, row, lately)
        if found is not None:
            scene[row] = scene[found]
            lately.remove(found)
        lately = [*lately, row][-LATELY:]
    return scene


def _latest_alike(looks: _Looks, row: int, lately: list[int]) -> int | None:
    """The latest of some shots that look like one."""
    if not lately or not looks.tells[row].any():
        return None
    alike = looks[[row] * len(lately)].alike(looks[lately]).any(axis=1)
    return lately[int(np.flatnonzero(alike)[-1])] if alike.any() else None


@dataclass(frozen=True, slots=True)
class _Looks:
    """Pictures (N, 2, P) of shots, without their mean, with what they are compared by.

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
        levels = pictures.astype(np.float32)
        contrasts = levels.std(axis=2)
        return cls(levels, levels.mean(axis=2), contrasts, contrasts >= LEAST_CONTRAST)

    def __getitem__(self, rows: slice | list[int]) -> _Looks:
        return _Looks(self.levels[rows], self.means[rows], self.contrasts[rows], self.tells[rows])

    def alike(self, other: _Looks) -> NDArray[np.bool_]:
        """(N, 4) whether each picture of a shot is like each of the other shot in its row."""
        found = [self._pair(other, mine, its) for mine in (0, 1) for its in (0, 1)]
        return np.stack(found, axis=1)

    def _pair(self, other: _Looks, mine: int, its: int) -> NDArray[np.bool_]:
        one, two = self.levels[:, mine], other.levels[:, its]  # (N, P)
        contrast = np.minimum(self.contrasts[:, mine], other.contrasts[:, its])
        tolerance = np.clip(ALIKE_CONTRAST * contrast, LEAST_DIFFERENCE, MOST_DIFFERENCE)
        same = (np.abs(one - two) <= tolerance[:, None]).mean(axis=1) >= ALIKE_SHARE
        covariance = (one * two).mean(axis=1) - self.means[:, mine] * other.means[:, its]
        product = self.contrasts[:, mine] * other.contrasts[:, its]
        tells = self.tells[:, mine] & other.tells[:, its]
        return np.asarray(same & tells & (covariance >= LEAST_CORRELATION * product))
