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

from panorama.store.scenes.ends import Ends

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
    pictures, owners = _pictures(chains)
    bounds = np.searchsorted(owners, np.arange(count + 1))
    looks = ends.pictures()
    shapes, sizes = looks.shapes(), ends.sizes
    site = np.arange(count)
    for start in range(1, count, CHAINS):
        stop = min(start + CHAINS, count)
        mine = slice(bounds[start], bounds[stop])
        theirs = slice(bounds[max(start - LATELY, 0)], bounds[stop - 1])
        alike = shapes[pictures[mine]] @ shapes[pictures[theirs]].T
        one, other = np.nonzero(alike >= LEAST_CORRELATION)
        alike = alike[one, other]
        one, other = one + mine.start, other + theirs.start
        back = owners[one] - owners[other]
        near = (back > 0) & (back <= LATELY)
        near &= (sizes[pictures[one] // 2] == sizes[pictures[other] // 2]).all(axis=1)
        one, other, alike = one[near], other[near], alike[near]
        # Of two chains the two pictures that are most alike; where these do not share enough, none do.
        order = np.lexsort((-alike, owners[other], owners[one]))
        _, best = np.unique(owners[one[order]] * count + owners[other[order]], return_index=True)
        one, other = one[order[best]], other[order[best]]
        same = looks[pictures[one]].share_but_for_light(looks[pictures[other]]) >= LEAST_SHARE
        latest = np.full(stop - start, -1)
        np.maximum.at(latest, owners[one[same]] - start, owners[other[same]])
        for place in np.flatnonzero(latest >= 0).tolist():
            site[start + place] = site[latest[place]]
    return site


def _pictures(chains: Chains) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(Q,) the first and last pictures of all chains, as `Ends.pictures` has them; the chain of each."""
    own = np.stack([chains.opening, chains.closing], axis=1).ravel()  # in order of time
    order = np.argsort(own, kind="stable")
    owners = own[order]
    numbers = np.arange(len(chains.shots))
    starts, stops = (np.searchsorted(owners, numbers, side=side) for side in ("left", "right"))
    place = np.arange(len(owners))
    kept = (place < starts[owners] + PICTURES // 2) | (place >= stops[owners] - PICTURES // 2)
    return order[kept], owners[kept]
