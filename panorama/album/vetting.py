"""Examples of one entity enter, as vectors; a line about each that is unlike the others leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command_of
from panorama.lines import one_line
from panorama.store import Album, Exemplar, check_name

if TYPE_CHECKING:
    from panorama.library import Library

FEWEST = 3
"""Of two examples that are unlike each other, nothing tells which one is wrong."""

ODD = 0.25
"""Share of the examples, from four on, that may be told to be unlike the rest; of three, one."""

CHANCE = 0.87
"""Share of the pairs of strangers that are less alike than an example is to the nearest of the others.

Of single things in other views, one set of a hundred or fewer has an example that is not
(`tests/bench/wrong_examples.py`).
"""


def by_chance(cohort: NDArray[np.float32]) -> float:
    """How alike strangers (N, dim) mostly are to each other at most; -1 where there are no two."""
    if len(cohort) < 2:
        return -1.0
    return float(np.quantile((cohort @ cohort.T)[np.triu_indices(len(cohort), 1)], CHANCE))


def odd_ones(vectors: NDArray[np.float32], chance: float) -> list[int]:
    """Places of the examples that are no nearer to any other one than strangers mostly are to each other.

    Other sides of a thing are nearer than that, though often no nearer than the strangers most like them.
    Where several are so, they are many things, or sides of one: none of them is the wrong one.

    Args:
        vectors: (P, dim) of one entity's examples at one exit, of unit length.
        chance: `by_chance` of the strangers at that exit.
    """
    if len(vectors) < FEWEST:
        return []
    alike = vectors @ vectors.T  # (P, P)
    np.fill_diagonal(alike, -1.0)
    odd = np.flatnonzero(alike.max(axis=1) < chance)
    return odd.tolist() if len(odd) <= max(1, int(ODD * len(vectors))) else []


def remarks(library: Library, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Remarks on examples of entities that are unlike their others.

    None on those of a category: they are of different things.
    """
    categories = {entity.name for entity in library.entities() if entity.category}
    examples = {name: library.exemplars(name) for name in names if check_name(name) not in categories}
    many = {name: known for name, known in examples.items() if len(known) >= FEWEST}
    if not many:
        return {}
    embedder = library.embedder
    album = library.snapshot().album(embedder.hash, embedder.exits).averaged()
    chance = by_chance(embedder.cohort()[-1])
    return {name: unlike_remarks(known, album, chance) for name, known in many.items()}


def unlike_remarks(known: Sequence[Exemplar], album: Album, chance: float) -> tuple[str, ...]:
    """A line for each example of an entity that looks like another thing than its other examples.

    Args:
        known: the pictures of the entity.
        album: with one vector of each, at one exit; chance: see `odd_ones`.
    """
    source_of = {e.exemplar_id: e for e in known if not e.negative}
    there = np.flatnonzero(np.isin(album.exemplar_ids, list(source_of)))
    if len(there) < FEWEST:
        return ()
    odd = album.exemplar_ids[there][odd_ones(album.vectors[there], chance)]
    return tuple(_unlike(source_of[number]) for number in odd.tolist())


def _unlike(example: Exemplar) -> str:
    source, entity = one_line(example.source), one_line(example.entity)
    remove = command_of("exemplars", entity, f"--remove {example.exemplar_id}")
    category = command_of("register", entity, "--category")
    return (
        f"{source} looks unlike the other examples of {entity}, and things that look like it will be "
        f"accepted as {entity}; if it shows something else: {remove}; if {entity} is a category: {category}"
    )
