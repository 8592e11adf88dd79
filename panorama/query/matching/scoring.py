"""Crops with vectors and the exemplars of some entities come in; pooled values of their tracks go out.

Several entities share one pass over the vectors. A pass is exact: it compares every crop of the tracks it
receives. Which tracks these are (all of them, or those that an index finds) is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Cohort
from panorama.query.matching.category import as_category
from panorama.query.matching.decide import (
    cohort_level,
    crop_scores,
    least_similarity,
    levels_together,
    normalise,
    pool,
)
from panorama.query.matching.said import Said
from panorama.query.matching.track_rows import TrackRows, run_starts

SCAN_ROWS = 16_384
"""Crops compared at a time: few enough to stay in the CPU cache for the next entity."""


SAME_PICTURE = 0.85
"""From this normalised value on, an exemplar counts as a picture of the very track that a crop belongs to.

For pictures cut out in this library the track is known, whatever they look like: see `said`. A picture cut
from a track reaches this value even if its box is off by a twentieth, and in 19 of 20 cases if it is off by a
tenth; of other tracks of the same thing, one in thirty reaches it.
"""

DENIED = -1.0
"""The normalised value of a denied track: that of something that nobody would take for the entity."""

FEW_PARTS = 8
"""Up to this many pieces of SCAN_ROWS crops, one thread compares them: some milliseconds of work."""

_Part = TypeVar("_Part")
_Done = TypeVar("_Done")


class Vectors(Protocol):
    """Crops with vectors at one exit; `panorama.store.vectors.vector_table.VectorTable` is one."""

    @property
    def crop_ids(self) -> NDArray[np.int64]: ...
    @property
    def track_ids(self) -> NDArray[np.int64]: ...
    @property
    def vectors(self) -> NDArray[np.float32]: ...


class Exemplars(Protocol):
    """The album at one exit, one row per view of an exemplar; `panorama.store.Album` is one."""

    @property
    def entities(self) -> tuple[str, ...]: ...
    @property
    def entity_index(self) -> NDArray[np.int32]: ...
    @property
    def exemplar_ids(self) -> NDArray[np.int64]: ...
    @property
    def negative(self) -> NDArray[np.bool_]: ...
    @property
    def denied(self) -> NDArray[np.bool_]: ...
    @property
    def vectors(self) -> NDArray[np.float32]: ...
    @property
    def categories(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Sought:
    """One entity at one exit.

    Attributes:
        exemplar_ids: (V,) int64, the exemplar of each view; the views of one exemplar are adjacent.
        positive: (P, dim) views of its exemplars and, if there are several, their mean as one more: P is V or
            V + 1. For a category, the vectors of any length that replace these.
        nearest: (P, dim) the views and mean themselves, also for a category; they tell a denied picture from
            an example.
        nearest_level: (P,) how similar strangers get to each of these.
        negative: (Q, dim) its look-alikes, each as the mean of its views.
        level: (P + Q,) how similar strangers get to each positive and negative vector; raised for the
            positive ones because the largest value counts.
        denied: (D, dim) pictures that were denied, each as it is.
        denied_ids: (D,) the exemplar of each.
        denied_level: (D,) how similar strangers get to each.
        said: the tracks that a user confirmed or denied, whatever they look like.
    """

    exemplar_ids: NDArray[np.int64]
    positive: NDArray[np.float32]
    nearest: NDArray[np.float32]
    nearest_level: NDArray[np.float32]
    negative: NDArray[np.float32]
    level: NDArray[np.float32]
    denied: NDArray[np.float32]
    denied_ids: NDArray[np.int64]
    denied_level: NDArray[np.float32]
    said: Said = field(default_factory=Said.none)

    @classmethod
    def of(cls, album: Exemplars, name: str, cohort: Cohort, said: Said | None = None) -> Sought:
        """An entity's exemplars against the cohort of their exit."""
        mine = album.entity_index == album.entities.index(name)
        good = np.flatnonzero(mine & ~album.negative)
        bad = np.flatnonzero(mine & album.negative & ~album.denied)
        no = np.flatnonzero(mine & album.denied)
        ids = album.exemplar_ids[good]
        nearest = positive = with_mean(album.vectors[good])
        # Look-alikes may be different things: keep each by itself, and take no mean over several.
        each = [with_mean(album.vectors[views])[-1:] for views in _runs(bad, album.exemplar_ids[bad])]
        negative = np.concatenate([*each, positive[:0]])
        nearest_level = level = levels_together(nearest, cohort)
        if name in album.categories:
            views, rivals = album.vectors[good], album.vectors[bad]
            pictures = ids, album.exemplar_ids[bad]
            strangers = cohort.beside(views)
            positive, level = as_category(views, positive, level, rivals, strangers, pictures)
        level = np.concatenate([level, cohort_level(negative, cohort)])
        no = no[run_starts(album.exemplar_ids[no])]  # the first view is the picture as it is
        denied = album.vectors[no]
        no_ids, no_level = album.exemplar_ids[no], cohort_level(denied, cohort)
        said = said or Said.none()
        return cls(ids, positive, nearest, nearest_level, negative, level, denied, no_ids, no_level, said)

    def without_denied(self) -> Sought:
        """The same as if nothing had been denied."""
        return replace(
            self,
            denied=self.denied[:0],
            denied_ids=self.denied_ids[:0],
            denied_level=self.level[:0],
            said=self.said.without_denied(),
        )

    def near(self, floor: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Unit vectors (P, dim) to search by, and the least similarity (P,) to each for a value `floor`."""
        length = np.asarray(np.maximum(np.linalg.norm(self.positive, axis=1), 1e-9), np.float32)
        limits = least_similarity(floor, self.level[: len(self.positive)])
        return self.positive / length[:, None], np.asarray(limits / length, np.float32)


def _runs(values: NDArray[np.intp], keys: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Split values into pieces with equal keys."""
    return np.split(values, run_starts(keys)[1:]) if len(values) else []


def with_mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Views of exemplars (V, dim) and, if there are several, their mean, which stresses what they share."""
    if len(vectors) < 2:
        return vectors
    mean = vectors.mean(axis=0)
    return np.concatenate([vectors, mean[None] / max(float(np.linalg.norm(mean)), 1e-9)])


@dataclass(frozen=True, slots=True)
class Scored:
    """Pooled values of some tracks of one entity at one exit, each (T,).

    Attributes:
        track_ids: the tracks.
        normalised: their values.
        unaided: their values without exemplars that are cut from the track itself, see `_unaided`.
        crop_ids, exemplar_ids: the crop that fits best, and the exemplar that it fits.
        said: whether a user confirmed the track.
    """

    track_ids: NDArray[np.int64]
    normalised: NDArray[np.float32]
    unaided: NDArray[np.float32]
    crop_ids: NDArray[np.int64]
    exemplar_ids: NDArray[np.int64]
    said: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.track_ids)

    def __getitem__(self, pick: NDArray[np.bool_] | NDArray[np.intp]) -> Scored:
        return Scored(*(getattr(self, one.name)[pick] for one in fields(self)))

    @classmethod
    def join(cls, parts: Sequence[Scored]) -> Scored:
        """All tracks of some parts, in order; there is at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


def score_tracks(
    sought: Sequence[Sought],
    table: Vectors,
    groups: TrackRows,
    tracks: NDArray[np.intp],
    least: float | None,
    threads: int = 1,
) -> list[Scored]:
    """Compare tracks (numbers in `groups`, ascending) with several entities in one pass.

    Args:
        least: tracks with a lower pooled value are left out unless a user confirmed them; None keeps all.
        threads: share the work if there are many tracks; they do not change the result.
    """
    exemplars = [np.concatenate([s.positive, s.negative]) for s in sought]  # each (P + Q, dim)
    floor = -np.inf if least is None else least

    def compared(part: NDArray[np.intp]) -> list[Scored]:
        rows = groups.rows(part)
        block = take_rows(table.vectors, rows, ascending=groups.order is None)
        counts = groups.starts[part + 1] - groups.starts[part]
        found = []
        for number, one in enumerate(sought):
            # One product per entity: its values must not depend on which other entities are asked for.
            similarity = np.ascontiguousarray((block @ exemplars[number].T).T)  # (P + Q, rows)
            scored = _pooled(one, similarity, table.crop_ids[rows], groups.track_ids[part], counts)
            reach = (scored.normalised >= floor) | scored.said
            scored = scored[reach]
            if len(one.denied):
                scored = _denied(one, scored, block[np.repeat(reach, counts)], counts[reach])
                scored = scored[(scored.normalised >= floor) | scored.said]
            found.append(scored)
        return found

    parts = divided(compared, _parts(groups, tracks), threads)
    return [Scored.join([part[number] for part in parts]) for number in range(len(sought))]


def divided(work: Callable[[_Part], _Done], parts: Sequence[_Part], threads: int) -> list[_Done]:
    """Apply a function to every part, in order; threads share the work if there are many parts."""
    if threads < 2 or len(parts) <= FEW_PARTS:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads, "panorama-scan") as pool:
        return list(pool.map(work, parts))


def _parts(groups: TrackRows, tracks: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Split the tracks into pieces of about SCAN_ROWS crops; at least one piece."""
    ends = np.cumsum(groups.starts[tracks + 1] - groups.starts[tracks])
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(SCAN_ROWS, total, SCAN_ROWS), side="right")
    return np.split(tracks, np.unique(cuts))


def _pooled(
    one: Sought,
    similarity: NDArray[np.float32],
    crop_ids: NDArray[np.int64],
    track_ids: NDArray[np.int64],
    counts: NDArray[np.intp],
) -> Scored:
    """Pool the similarities (P + Q, rows) of one entity to crops; `counts` (T,) is their number per track."""
    normalised = normalise(similarity, one.level)
    values = crop_scores(normalised[: len(one.positive)], normalised[len(one.positive) :])
    starts = np.cumsum(counts) - counts
    within = np.arange(len(values)) - np.repeat(starts, counts)
    place = np.repeat(np.arange(len(counts)), counts), within
    spread = np.full((len(counts), int(counts.max(initial=1))), -np.inf, np.float32)  # (T, C)
    spread[place] = values
    best = starts + spread.argmax(axis=1)
    which = normalised[: len(one.exemplar_ids), best].argmax(axis=0)  # a picture to show, never the mean
    pooled = unaided = pool(spread)
    others = _unaided(one, normalised, track_ids, starts, counts)
    if others is not None:
        spread[place] = others
        unaided = pool(spread)
    said = one.said.accepts(track_ids)
    return Scored(track_ids, pooled, unaided, crop_ids[best], one.exemplar_ids[which], said)


def by_others(
    one: Sought, table: Vectors, groups: TrackRows, tracks: NDArray[np.intp]
) -> NDArray[np.float32]:
    """(T,) values of tracks (numbers in `groups`) without the exemplars cut from each of them.

    DENIED if there are no other exemplars.
    """
    rows, counts, ids = groups.rows(tracks), groups.counts[tracks], groups.track_ids[tracks]
    exemplars = np.concatenate([one.positive, one.negative])
    normalised = normalise(np.ascontiguousarray((table.vectors[rows] @ exemplars.T).T), one.level)
    views = run_starts(one.exemplar_ids)
    cut = one.said.cut_from(one.exemplar_ids[views], ids)
    own = np.zeros((len(views), len(ids)), np.bool_) if cut is None else cut
    values = _without(one, normalised, own, counts)
    spread = np.full((len(counts), int(counts.max(initial=1))), -np.inf, np.float32)  # (T, C)
    spread[np.arange(spread.shape[1]) < counts[:, None]] = np.maximum(values, DENIED)
    return pool(spread)


def _denied(one: Sought, scored: Scored, crops: NDArray[np.float32], counts: NDArray[np.intp]) -> Scored:
    """The same tracks, DENIED if kept out: `crops` (rows, dim) and `counts` (T,) are their crops."""
    near = denied_values(one, crops)  # (D, rows)
    out = np.logical_or.reduceat((near > -np.inf).any(axis=0), np.cumsum(counts) - counts)
    out = (out & ~scored.said) | one.said.denies(scored.track_ids)
    normalised, unaided = (
        np.where(out, np.float32(DENIED), values) for values in (scored.normalised, scored.unaided)
    )
    return replace(scored, normalised=normalised, unaided=unaided)


def denied_values(one: Sought, crops: NDArray[np.float32]) -> NDArray[np.float32]:
    """(D, rows) normalised values; -inf if a crop (rows, dim) cannot be a picture of what was denied.

    It can be one from SAME_PICTURE on, unless an example is nearer. Nearness alone takes nothing away: denied
    pictures were seen in the same light, size and place as the thing itself, which examples often were not.
    """
    # Use the nearest view for a category, too: the value of its plane could exceed the denied picture's.
    by_examples = normalise(one.nearest @ crops.T, one.nearest_level).max(axis=0)  # (rows,)
    near = normalise(one.denied @ crops.T, one.denied_level)
    return np.where((near >= SAME_PICTURE) & (near >= by_examples), near, np.float32(-np.inf))


def _unaided(
    one: Sought,
    normalised: NDArray[np.float32],
    track_ids: NDArray[np.int64],
    starts: NDArray[np.intp],
    counts: NDArray[np.intp],
) -> NDArray[np.float32] | None:
    """Values (rows,) of crops without the exemplars that are pictures of their very track.

    For pictures cut out in this library that is known; for others it shows in the value. Such an exemplar
    fits its track as nothing else can, which says nothing about recognising the thing elsewhere. A track for
    which all exemplars are such pictures keeps its values.

    Args:
        normalised: (P + Q, rows).
        track_ids, starts, counts: (T,) tracks, and the first row and number of rows of each.

    Returns:
        None if no exemplar is left out.
    """
    known, views = len(one.exemplar_ids), run_starts(one.exemplar_ids)
    if len(views) < 2:
        return None
    cut = one.said.cut_from(one.exemplar_ids[views], track_ids)
    own = normalised[:known] >= SAME_PICTURE  # (V, rows)
    if cut is None and not own.any():
        return None
    own = np.logical_or.reduceat(np.logical_or.reduceat(own, views, axis=0), starts, axis=1)  # (E, T)
    if cut is not None:
        own |= cut
    return _without(one, normalised, own & ~own.all(axis=0), counts)


def _without(
    one: Sought, normalised: NDArray[np.float32], own: NDArray[np.bool_], counts: NDArray[np.intp]
) -> NDArray[np.float32]:
    """Values (rows,) of crops without the exemplars (E, T) that do not count for their track."""
    known = len(one.exemplar_ids)
    each = np.diff(np.append(run_starts(one.exemplar_ids), known))
    aided = np.repeat(np.repeat(own, each, axis=0), counts, axis=1)  # (V, rows)
    kept = np.where(aided, np.float32(-np.inf), normalised[:known])
    # The mean contains every exemplar, so it does not count for such a track either.
    mean = np.where(aided.any(axis=0), np.float32(-np.inf), normalised[known : len(one.positive)])
    return crop_scores(np.concatenate([kept, mean]), normalised[len(one.positive) :])


def take_rows(vectors: NDArray[np.float32], rows: NDArray[np.intp], ascending: bool) -> NDArray[np.float32]:
    """Rows of a table; a view if they are consecutive, which is ten times as fast as a copy."""
    together = ascending and len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
    return vectors[rows[0] : rows[-1] + 1] if together else vectors[rows]
