"""Videos and the links between them come in; which of them show one site, in any light, goes out.

A chain consists of linked videos, each of which begins as one before it ended. The chain of a camera breaks
when the light changes while nothing is recorded, for example overnight. Two chains show one site if a picture
of one equals a picture of the other up to brightness and contrast. Somebody may stand in front of the camera,
so several pictures of each chain are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.store.scenes.ends import Ends

PICTURES = 6
"""How many pictures of each chain are compared, half from its beginning and half from its end."""

LEAST_SHARE = 0.7
"""A site is the same if at least this part of the picture is."""

LEAST_CORRELATION = 0.8
"""The whole pictures must also correlate: other places with that part in common reached 0.2 at most."""

LATELY = 32
"""Each chain is compared with this many chains before it: cameras may have folders that alternate."""

CHAINS = 1 << 7
"""Chains compared at a time: enough to keep the work in numpy, few enough to fit a cache."""


@dataclass(frozen=True, slots=True)
class Chains:
    """The chains of videos, which are in order of their names.

    Attributes:
        opening, closing: (N,) the chain, from 0, of the first and of the last shot of each video.
        shots: (C,) int64, the shot that each chain begins with.
    """

    opening: NDArray[np.intp]
    closing: NDArray[np.intp]
    shots: NDArray[np.int64]


def chains_of(ends: Ends, before: NDArray[np.intp]) -> Chains:
    """The chains of videos, given the video (N,) before each that it is linked to, -1 for none."""
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
    """(C,) the first chain of the site of each chain."""
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
        # For two chains, test only their two most similar pictures: if those do not share enough, none do.
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
    """(Q,) the compared pictures of all chains, as rows of `Ends.pictures`; (Q,) the chain of each."""
    own = np.stack([chains.opening, chains.closing], axis=1).ravel()  # in order of time
    order = np.argsort(own, kind="stable")
    owners = own[order]
    numbers = np.arange(len(chains.shots))
    starts, stops = (np.searchsorted(owners, numbers, side=side) for side in ("left", "right"))
    place = np.arange(len(owners))
    kept = (place < starts[owners] + PICTURES // 2) | (place >= stops[owners] - PICTURES // 2)
    return order[kept], owners[kept]
