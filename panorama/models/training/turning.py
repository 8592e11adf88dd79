"""Vectors of known things come in; linear maps that make pictures of one thing more alike go out.

Each exit ends in a linear map and a scaling to unit length. Pictures of one thing differ by light, pose, blur
and background. These differences are measured over many things, and their directions get less weight, for
new things, too. This is the within-class covariance normalisation of Hatch et al. (2006), or the relevant
component analysis of Bar-Hillel et al. (2003), computed in one step. Everything before the last maps stays
identical to the bit: speed, ranges for 8 bits, colour.

The share tells how far to go from the original model towards these maps. It is chosen on things that were not
learned from (as Wortsman et al. 2022 interpolate weights); if no share surely helps, it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.models.retrieval import Answers

SURE = 2.0
"""Standard errors that a gain must exceed: the best of several shares is a little better by chance alone."""

SURE_OF_FEW = {2: 5.42, 3: 2.67, 4: 2.19}
"""The same by number of things, for few things, whose error is itself uncertain: Student's t that chance
exceeds as often (in 6 % of cases) as it exceeds SURE with five things."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Pictures of one part of the table, as vectors.

    Attributes:
        own: (exits, N, learned) each exit's own learned vectors, of unit length.
        color: (exits, N, colour) the colour part, with the embedder's weight.
        labels: what each picture shows.
        counts: (N, N) whether j takes part when i is the query, see `adapt.together`; None: all do.
    """

    own: NDArray[np.float64]
    color: NDArray[np.float32]
    labels: list[str]
    counts: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        lengths = (self.own.shape[1], self.color.shape[1], len(self.labels))
        if len(set(lengths)) > 1:
            raise ValueError(f"own, color and labels are of one length, got {lengths}")

    @classmethod
    def of(
        cls, vectors: NDArray[np.floating], learned: int, labels: list[str], counts: NDArray[np.bool_] | None
    ) -> Seen:
        """From an embedder's vectors (exits, N, learned + colour)."""
        return cls(own_parts(vectors[..., :learned]), vectors[..., learned:], labels, counts)

    def vectors(self, exit: int, maps: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """(N, learned + colour) at an exit, after applying `maps` to the learned vectors if given."""
        own = self.own if maps is None else turned(self.own, maps)
        color = self.color[exit - 1].astype(np.float64)
        rest = np.sqrt(np.maximum(0, 1 - (color**2).sum(axis=1, keepdims=True)))
        return np.concatenate([summed(own[:exit])[-1] * rest, color], axis=1)


@dataclass(frozen=True, slots=True)
class Held:
    """Pictures that choose or judge.

    Attributes:
        seen: the pictures.
        strangers: pictures of other things, wrong for every query; None for none.
    """

    seen: Seen
    strangers: Seen | None = None

    def answers(self, exit: int, maps: NDArray[np.float64] | None = None) -> Answers:
        """What each picture finds at an exit."""
        others = None if self.strangers is None else self.strangers.vectors(exit, maps)
        return Answers.of(self.seen.vectors(exit, maps), self.seen.labels, self.seen.counts, others)

    def scores(self, maps: NDArray[np.float64] | None = None) -> dict[str, float]:
        """Means over all queries: map_exit_i and r_at_1_exit_i."""
        found = {}
        for exit in range(1, len(self.seen.own) + 1):
            answers = self.answers(exit, maps)
            found[f"map_exit_{exit}"] = float(answers.precisions.mean())
            found[f"r_at_1_exit_{exit}"] = float(answers.first.mean())
        return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen share, and the result of each share: rows of share, map, r_at_1, gain and error."""

    share: float
    tried: list[dict[str, float]]


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Vectors scaled to unit length along the last axis."""
    rows = np.asarray(vectors, np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9))


def summed(own: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exits' results (E, N, dim) from their own vectors: each plus all before it, at unit length."""
    return unit(np.cumsum(own, axis=0))


def own_parts(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """The inverse of `summed`: own unit vectors (E, N, dim) from learned parts (E, N, dim) of any length.

    An exit's sum is m times its result s, a unit vector, and differs by a unit vector from the sum t before
    it: |m s - t| = 1. Of the two solutions, this takes the one where the exit does not point away from t.
    """
    given = unit(vectors)
    own = [given[0]]
    total = given[0]
    for s in given[1:]:
        along = (s * total).sum(axis=-1, keepdims=True)
        left = along**2 - (total**2).sum(axis=-1, keepdims=True) + 1
        longer = (along + np.sqrt(np.maximum(left, 0))) * s
        own.append(unit(longer - total))
        total = longer
    return np.stack(own)


def quieting_maps(own: NDArray[np.float64], labels: Sequence[str], shrinkage: float) -> NDArray[np.float64]:
    """(E, dim, dim): maps after which the pictures of one thing vary evenly in all directions.

    This is the inverse square root of the covariance within things, with `shrinkage` mean eigenvalues added,
    scaled so that its mean eigenvalue is 1. `own` is (E, N, dim). Things with one picture are ignored.
    """
    _, things, counts = np.unique(np.asarray(labels, str), return_inverse=True, return_counts=True)
    several = counts[things] >= 2
    maps = []
    for vectors in own:
        means = np.zeros((len(counts), vectors.shape[1]))
        np.add.at(means, things, vectors)
        inside = (vectors - (means / counts[:, None])[things])[several]
        values, axes = np.linalg.eigh(inside.T @ inside / max(1, len(inside)))
        scale = (np.maximum(values, 0) / max(float(values.mean()), 1e-12) + shrinkage) ** -0.5
        maps.append((axes * (scale / scale.mean())) @ axes.T)
    return np.stack(maps)


def at_share(maps: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Maps between no change (share 0) and `maps` (share 1)."""
    return np.asarray((1 - share) * np.eye(maps.shape[-1]) + share * maps)


def turned(own: NDArray[np.float64], maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Own vectors (E, N, dim) after maps (E, dim, dim)."""
    return unit(np.einsum("end,ecd->enc", own, maps))


def choose_share(held: Held, maps: NDArray[np.float64], shares: Sequence[float]) -> Chosen:
    """The share with which things are found best at the deepest exit; 0 if none is surely better.

    Surely: the mean gain over things, each the mean over its pictures, exceeds SURE standard errors, or
    SURE_OF_FEW of them for few things.
    """
    exit = len(held.seen.own)
    before = held.answers(exit)
    names = np.asarray(held.seen.labels, str)[before.asking]
    tried = [_row(0.0, before, 0.0, 0.0)]
    for share in shares:
        after = held.answers(exit, at_share(maps, share))
        gains = after.precisions - before.precisions
        each = np.array([gains[names == name].mean() for name in np.unique(names)])
        error = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else float("inf")
        tried.append(_row(share, after, float(each.mean()), error))
    best = max(tried, key=lambda row: (row["gain"], -row["share"]))
    sure = SURE_OF_FEW.get(len(np.unique(names)), SURE)
    return Chosen(best["share"] if best["gain"] > sure * best["error"] else 0.0, tried)


def _row(share: float, answers: Answers, gain: float, error: float) -> dict[str, float]:
    return {
        "share": share,
        "map": float(answers.precisions.mean()),
        "r_at_1": float(answers.first.mean()),
        "gain": gain,
        "error": error,
    }
