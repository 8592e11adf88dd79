"""Vectors of one entity's examples come in; a line about each example unlike the others goes out."""

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
"""If only two examples differ from each other, nothing tells which one is wrong."""

ODD = 0.25
"""Largest share of the examples that may be reported as unlike the rest; always at least one."""

CHANCE = 0.86
"""Share of the pairs of strangers that are less similar than an example is to the nearest other example.

At most one in a hundred sets of views of a single thing has an example that is not
(`tests/bench/wrong_examples.py`).
"""


def by_chance(cohort: NDArray[np.float32]) -> float:
    """The similarity that most pairs of strangers (N, dim) do not exceed; -1 for fewer than two strangers."""
    if len(cohort) < 2:
        return -1.0
    return float(np.quantile((cohort @ cohort.T)[np.triu_indices(len(cohort), 1)], CHANCE))


def odd_ones(vectors: NDArray[np.float32], chance: float) -> list[int]:
    """Indexes of the examples that are no nearer to any other one than most strangers are to each other.

    Other sides of a thing are nearer than that, though often no nearer than the most similar strangers. If
    many examples are like this, the entity is several things or sides of one, and none of them is the wrong
    one: [].

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
    """Remarks on examples that are unlike the other examples of their entity, by the entity's name.

    Categories get none: their examples show different things.
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
    """A line for each example that looks like another thing than the entity's other examples.

    Args:
        known: the pictures of the entity.
        album: with one vector per picture, at one exit.
        chance: see `odd_ones`.
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
