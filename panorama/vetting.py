"""Examples of one entity enter, as vectors; a line about each that is unlike the others leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command_of
from panorama.errors import ModelError
from panorama.lines import one_line
from panorama.query.decide import Calibration, cohort_level, normalise
from panorama.store import Album, Exemplar, check_name

if TYPE_CHECKING:
    from panorama.library import Library

LEAST_ALIKE = 3
"""Examples that must surely be alike before another is told to be unlike them."""

MOST = 0.75
"""Share of the examples that must be alike: two of five good ones are often unlike the rest."""

FEWEST = 3
"""Of two examples that are unlike each other, nothing tells which one is wrong."""

CHANCE = 0.87
"""Share of the pairs of strangers that are less alike than an example is to the nearest of the others.

On single things in other views one set of a hundred or fewer has an example that is not (DECISIONS 128).
"""


def by_chance(cohort: NDArray[np.float32]) -> float:
    """How alike strangers (N, dim) mostly are to each other at most; -1 where there are no two."""
    if len(cohort) < 2:
        return -1.0
    return float(np.quantile((cohort @ cohort.T)[np.triu_indices(len(cohort), 1)], CHANCE))


def odd_ones(
    vectors: NDArray[np.float32], cohort: NDArray[np.float32], calibration: Calibration, chance: float
) -> list[int]:
    """Places of the examples that are unlike all others, as far as that can be told.

    Args:
        vectors: (P, dim) of one entity's examples at one exit, of unit length.
        cohort: (N, dim) of strangers at that exit; chance: `by_chance` of them.
    """
    return sorted({*_unlike_many(vectors, cohort, calibration), *_like_strangers(vectors, chance)})


def _like_strangers(vectors: NDArray[np.float32], chance: float) -> list[int]:
    """Those that are no nearer to any other one than strangers mostly are to each other.

    Other sides of a thing are nearer than that, though often no nearer than the strangers most like them.
    Where several are so, they are many things, or sides of one: none of them is the wrong one.
    """
    if len(vectors) < FEWEST:
        return []
    alike = vectors @ vectors.T  # (P, P)
    np.fill_diagonal(alike, -1.0)
    odd = np.flatnonzero(alike.max(axis=1) < chance)
    return odd.tolist() if len(odd) <= max(1, int((1 - MOST) * len(vectors))) else []


def _unlike_many(
    vectors: NDArray[np.float32], cohort: NDArray[np.float32], calibration: Calibration
) -> list[int]:
    """Those that are surely unlike all others, where MOST surely are alike.

    Other sides of a thing are often as unlike as other things. So nothing is said where fewer agree.
    """
    pairs = normalise(vectors @ vectors.T, cohort_level(vectors, cohort))
    score = calibration.score((pairs + pairs.T) / 2)  # (P, P)
    np.fill_diagonal(score, 0.0)
    alike = _largest_group(score >= calibration.high)
    if len(alike) < LEAST_ALIKE or len(alike) < MOST * len(vectors):
        return []
    return np.flatnonzero(score.max(axis=1) < calibration.low).tolist()


def _largest_group(linked: NDArray[np.bool_]) -> set[int]:
    """The most places that hang together by links (P, P)."""
    left, best = set(range(len(linked))), set[int]()
    while left:
        group, edge = set[int](), {left.pop()}
        while edge:
            group |= edge
            edge = {int(other) for place in edge for other in np.flatnonzero(linked[place])} - group
        left -= group
        best = max(best, group, key=len)
    return best


def remarks(library: Library, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Remarks on examples of entities that are unlike their others; none where nothing is calibrated.

    None on those of a category either: they are of different things.
    """
    categories = {entity.name for entity in library.entities() if entity.category}
    examples = {name: library.exemplars(name) for name in names if check_name(name) not in categories}
    many = {name: known for name, known in examples.items() if len(known) >= FEWEST}
    if not many:
        return {}
    try:
        calibration = library.calibrations[-1]
    except ModelError:
        return {}
    embedder = library.embedder
    album = library.snapshot().album(embedder.hash, embedder.exits).averaged()
    cohort = embedder.cohort()[-1]
    rule = cohort, calibration, by_chance(cohort)
    return {name: unlike_remarks(known, album, *rule) for name, known in many.items()}


def unlike_remarks(
    known: Sequence[Exemplar],
    album: Album,
    cohort: NDArray[np.float32],
    calibration: Calibration,
    chance: float,
) -> tuple[str, ...]:
    """A line for each example of an entity that looks like another thing than most of its examples.

    Args:
        known: the pictures of the entity.
        album: with one vector of each, at the exit of the cohort and the calibration.
        cohort, calibration, chance: see `odd_ones`.
    """
    source_of = {e.exemplar_id: e for e in known if not e.negative}
    there = np.flatnonzero(np.isin(album.exemplar_ids, list(source_of)))
    if len(there) < FEWEST:
        return ()
    odd = album.exemplar_ids[there][odd_ones(album.vectors[there], cohort, calibration, chance)]
    return tuple(_unlike(source_of[number]) for number in odd.tolist())


def _unlike(example: Exemplar) -> str:
    source, entity = one_line(example.source), one_line(example.entity)
    remove = command_of("exemplars", entity, f"--remove {example.exemplar_id}")
    category = command_of("register", entity, "--category")
    return (
        f"{source} looks unlike the other examples of {entity}, and what looks like it will be taken for "
        f"{entity}; if it shows something else: {remove}; if {entity} is any of a kind: {category}"
    )
