"""Videos and the links between them enter; which of them show one site, in whatever light, leaves.

A chain is what is linked file by file: each begins as one before it ended. Chains of one camera break where
the light changes while nothing is recorded, over a night for example. They are of one site if a picture of
one is a picture of the other but for brightness and contrast. A picture may show somebody before the camera:
of each chain several are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.store.ends import Ends

PICTURES = 6
"""Of each chain so many are compared with others, one half from its beginning and one from its end."""

LEAST_SHARE = 0.7
"""A site is the same if so much of the picture is."""

LEAST_CORRELATION = 0.8
"""And with it the whole: pictures of other places had 0.2 at most where so much was the same."""

LATELY = 32
"""Chains before it that each is compared with: cameras whose folders follow each other."""

CHAINS = 1 << 7
"""Chains compared at once: so many that the work is in numpy, so few that they fit a cache."""


@dataclass(frozen=True, slots=True)
class Chains:
    """Videos in order of their names, by what they are linked with.

    Attributes:
        opening, closing: (N,) the chain of the first and of the last shot of each video, counted from 0.
        shots: (C,) int64 the shot that each chain begins with.
    """

    opening: NDArray[np.intp]
    closing: NDArray[np.intp]
    shots: NDArray[np.int64]


def chains_of(ends: Ends, before: NDArray[np.intp]) -> Chains:
    """The chains of videos that are linked with others before them, -1 for none."""
    opening, closing = np.zeros((2, len(before)), np.intp)
    shots: list[int] = []
    for row, (found, first, last) in enumerate(
        zip(before.tolist(), ends.first.tolist(), ends.last.tolist(), strict=True)
    ):
        if found < 0:
            shots.append(first)
        opening[row] = len(shots) - 1 if found < 0 else closing[found]
        if last != first:
            shots.append(last)
        closing[row] = len(shots) - 1 if last != first else opening[row]
    return Chains(opening, closing, np.array(shots, np.int64))


def same_sites(ends: Ends, chains: Chains) -> NDArray[np.intp]:
    """(C,) of each chain the first one of its site."""
    count = len(chains.shots)
    pictures = _pictures(chains)  # (C, P)
    looks = ends.pictures()
    shapes = looks.shapes()
    sizes = ends.sizes[pictures[:, 0] // 2]
    site = np.arange(count)
    for start in range(1, count, CHAINS):
        rows, others = np.arange(start, min(start + CHAINS, count)), np.arange(max(start - LATELY, 0), count)
        others = others[: rows[-1] - others[0]]
        mine, theirs = pictures[rows].ravel(), pictures[others].ravel()
        may_be = np.argwhere(shapes[mine] @ shapes[theirs].T >= LEAST_CORRELATION)  # (M, 2)
        ones, twos = rows[may_be[:, 0] // PICTURES], others[may_be[:, 1] // PICTURES]
        near = (twos < ones) & (ones - twos <= LATELY) & (sizes[ones] == sizes[twos]).all(axis=1)
        found = may_be[near]
        same = looks[mine[found[:, 0]]].share_but_for_light(looks[theirs[found[:, 1]]]) >= LEAST_SHARE
        latest = np.full(len(rows), -1)
        np.maximum.at(latest, ones[near][same] - start, twos[near][same])
        for place in np.flatnonzero(latest >= 0).tolist():
            site[rows[place]] = site[latest[place]]
    return site


def _pictures(chains: Chains) -> NDArray[np.intp]:
    """(C, PICTURES) the first and last of each chain, as `Ends.pictures` counts; one may come twice."""
    own = np.stack([chains.opening, chains.closing], axis=1).ravel()  # in order of time
    order = np.argsort(own, kind="stable")
    numbers = np.arange(len(chains.shots))
    starts = np.searchsorted(own[order], numbers)[:, None]
    stops = np.searchsorted(own[order], numbers, side="right")[:, None]
    some = np.arange(PICTURES // 2)
    first, last = np.minimum(starts + some, stops - 1), np.maximum(stops - 1 - some, starts)
    return order[np.concatenate([first, last], axis=1)]
