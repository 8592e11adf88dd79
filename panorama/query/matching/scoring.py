"""Crops with vectors and the exemplars of some entities enter; pooled values of their tracks leave.

Several entities share one pass over the vectors. A pass is exact: it looks at every crop of the tracks that
it is given. Which tracks those are, all or those that an index finds near, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

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
from panorama.store.ascending import rows_in

SCAN_ROWS = 16_384
"""Crops compared at once: few enough that they are still in the processor's cache for the next entity."""


SAME_PICTURE = 0.85
"""From this normalised value on, an exemplar is taken for a picture of the very track that a crop is of.

Of what was cut out in this library it is known, however little it looks like it: see `said`.
What is cut from a track reaches it, also with a box that is a twentieth off, and nineteen of twenty with one
that is a tenth off; of other tracks of the same thing one in thirty does.
"""

DENIED = -1.0
"""The normalised value of what somebody said is not the thing: that of what nobody would take for it."""

FEW_PARTS = 8
"""Up to so many pieces of SCAN_ROWS crops are compared by one thread: some milliseconds of work."""

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
    """The album at one exit, a row for each view of an exemplar; `panorama.store.Album` is one."""

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
class TrackRows:
    """Which rows of a vector table belong to which track.

    Attributes:
        track_ids: (T,) int64, each once, in the order of `starts`.
        starts: (T + 1,) first row of each track, as places in `order`.
        order: (N,) rows track by track; None where the table has them so.
        by_id: (T,) places in `track_ids` in ascending order of id; None where they stand so.
    """

    track_ids: NDArray[np.int64]
    starts: NDArray[np.intp]
    order: NDArray[np.intp] | None
    by_id: NDArray[np.intp] | None

    @classmethod
    def of(cls, owners: NDArray[np.int64]) -> TrackRows:
        """Groups of rows (N,) that carry their track's id."""
        order: NDArray[np.intp] | None = None
        starts = _run_starts(owners)
        ids = owners[starts]
        by_id = _sorting(ids)
        ascending = ids if by_id is None else ids[by_id]
        if bool(np.any(ascending[1:] == ascending[:-1])):
            # Rows of a track lie apart: its crops were embedded at several times.
            order = np.argsort(owners, kind="stable")
            ordered = owners[order]
            starts, by_id = _run_starts(ordered), None
            ids = ordered[starts]
        return cls(ids, np.append(starts, len(owners)), order, by_id)

    def __len__(self) -> int:
        return len(self.track_ids)

    @property
    def counts(self) -> NDArray[np.intp]:
        """(T,) crops of each track."""
        return np.diff(self.starts)

    def of_ids(self, track_ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Numbers, ascending, of those of the tracks that are here."""
        ascending = self.track_ids if self.by_id is None else self.track_ids[self.by_id]
        rows = rows_in(ascending, np.unique(track_ids))
        found = rows[rows >= 0]
        return found if self.by_id is None else np.sort(self.by_id[found])

    def of_rows(self, rows: NDArray[np.intp], owners: NDArray[np.int64]) -> NDArray[np.intp]:
        """Numbers, ascending, of the tracks that some rows belong to."""
        if self.order is not None:
            return self.of_ids(owners[rows])
        seen = np.zeros(len(self), np.bool_)  # a mark for each is quicker than sorting what an index found
        seen[np.searchsorted(self.starts, rows, side="right") - 1] = True
        return np.flatnonzero(seen)

    def rows(self, tracks: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows of the tracks with these numbers, track by track."""
        counts = self.starts[tracks + 1] - self.starts[tracks]
        places = np.arange(int(counts.sum())) + np.repeat(
            self.starts[tracks] - np.cumsum(counts) + counts, counts
        )
        return places if self.order is None else self.order[places]


def _run_starts(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where a run of equal values begins."""
    if not len(values):
        return np.zeros(0, np.intp)
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1]).astype(np.intp)


def _sorting(values: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """What sorts the values; None where they are sorted."""
    return None if bool(np.all(values[1:] >= values[:-1])) else np.argsort(values, kind="stable")


@dataclass(frozen=True, slots=True)
class TrackGroups:
    """Rows of every track as a rectangle, for work over all crops at once; `TrackRows` needs less memory.

    Attributes:
        track_ids: (T,) int64, sorted.
        slots: (T, C) rows of each track, -1 where it has fewer than C crops.
    """

    track_ids: NDArray[np.int64]
    slots: NDArray[np.intp]

    @classmethod
    def of(cls, owners: NDArray[np.int64]) -> TrackGroups:
        """Groups of rows (N,) that carry their track's id."""
        track_ids, index, counts = np.unique(owners, return_inverse=True, return_counts=True)
        order = np.argsort(index, kind="stable")
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = np.full((len(track_ids), int(counts.max(initial=1))), -1, np.intp)
        slots[index[order], within] = order
        return cls(track_ids, slots)

    def spread(self, values: NDArray[np.float32], tracks: NDArray[np.intp]) -> NDArray[np.float32]:
        """Row values (N,) of some tracks as (T, C), -inf where there is no row."""
        slots = self.slots[tracks]
        return np.where(slots >= 0, values[slots], np.float32(-np.inf))


@dataclass(frozen=True, slots=True)
class Sought:
    """One entity at one exit.

    Attributes:
        exemplar_ids: (V,) int64, which exemplar each view is of; those of one exemplar stand together.
        positive: (P, dim) views of its exemplars, and of several their mean as one more: P is V or V + 1;
            of a category what stands for these, of any length.
        nearest: (P, dim) these as they are, by which what was denied is told from an example, also of a
            category; nearest_level: (P,) how alike strangers get to each of these.
        negative: (Q, dim) of its look-alikes, the mean of the views of each.
        level: (P + Q,) how alike strangers get to each of them; to the positive ones, all taken together.
        denied: (D, dim) of what was seen and denied, each as it is; denied_ids: (D,) which exemplar it is.
        denied_level: (D,) how alike strangers get to each of these.
        said: of which tracks somebody said that they are the entity, or are not, whatever they look like.
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
    def of(cls, album: Exemplars, name: str, cohort: NDArray[np.float32], said: Said | None = None) -> Sought:
        """An entity's exemplars against the cohort (N, dim) of their exit."""
        mine = album.entity_index == album.entities.index(name)
        good = np.flatnonzero(mine & ~album.negative)
        bad = np.flatnonzero(mine & album.negative & ~album.denied)
        no = np.flatnonzero(mine & album.denied)
        ids = album.exemplar_ids[good]
        nearest = positive = with_mean(album.vectors[good])
        # What looks like the thing need not be one thing itself: each by itself, and no mean over several.
        each = [with_mean(album.vectors[views])[-1:] for views in _runs(bad, album.exemplar_ids[bad])]
        negative = np.concatenate([*each, positive[:0]])
        nearest_level = level = levels_together(nearest, cohort)
        if name in album.categories:
            views, rivals = album.vectors[good], album.vectors[bad]
            pictures = ids, album.exemplar_ids[bad]
            positive, level = as_category(views, positive, level, rivals, cohort, pictures)
        level = np.concatenate([level, cohort_level(negative, cohort)])
        no = no[_run_starts(album.exemplar_ids[no])]  # as it is: the first of its views
        denied = album.vectors[no]
        no_ids, no_level = album.exemplar_ids[no], cohort_level(denied, cohort)
        said = said or Said.none()
        return cls(ids, positive, nearest, nearest_level, negative, level, denied, no_ids, no_level, said)

    def without_denied(self) -> Sought:
        """The same where nothing was denied."""
        return replace(
            self,
            denied=self.denied[:0],
            denied_ids=self.denied_ids[:0],
            denied_level=self.level[:0],
            said=self.said.without_denied(),
        )

    def near(self, floor: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Queries of unit length (P, dim), and how similar to each a crop worth `floor` is at least."""
        length = np.asarray(np.maximum(np.linalg.norm(self.positive, axis=1), 1e-9), np.float32)
        limits = least_similarity(floor, self.level[: len(self.positive)])
        return self.positive / length[:, None], np.asarray(limits / length, np.float32)

    @property
    def exemplars(self) -> int:
        """How many pictures the views are of."""
        return len(_run_starts(self.exemplar_ids))


def _runs(values: NDArray[np.intp], keys: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Values in pieces of the same key."""
    return np.split(values, _run_starts(keys)[1:]) if len(values) else []


def with_mean(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Views of exemplars (V, dim) and, of several, their mean, in which counts what they share."""
    if len(vectors) < 2:
        return vectors
    mean = vectors.mean(axis=0)
    return np.concatenate([vectors, mean[None] / max(float(np.linalg.norm(mean)), 1e-9)])


@dataclass(frozen=True, slots=True)
class Scored:
    """Pooled values of some tracks of one entity at one exit, each (T,).

    Attributes:
        unaided: as `normalised`, but without exemplars that are cut from the track itself, see `_unaided`.
        crop_ids, exemplar_ids: which crop fits best, and which exemplar it fits.
        said: whether somebody said that it is the entity.
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
        return Scored(
            self.track_ids[pick],
            self.normalised[pick],
            self.unaided[pick],
            self.crop_ids[pick],
            self.exemplar_ids[pick],
            self.said[pick],
        )

    @classmethod
    def join(cls, parts: Sequence[Scored]) -> Scored:
        """All tracks of several parts, in order."""
        if len(parts) == 1:
            return parts[0]
        ids = np.zeros(0, np.int64)
        return cls(
            np.concatenate([*(p.track_ids for p in parts), ids]),
            np.concatenate([*(p.normalised for p in parts), np.zeros(0, np.float32)]),
            np.concatenate([*(p.unaided for p in parts), np.zeros(0, np.float32)]),
            np.concatenate([*(p.crop_ids for p in parts), ids]),
            np.concatenate([*(p.exemplar_ids for p in parts), ids]),
            np.concatenate([*(p.said for p in parts), np.zeros(0, np.bool_)]),
        )


def score_tracks(
    sought: Sequence[Sought],
    table: Vectors,
    groups: TrackRows,
    tracks: NDArray[np.intp],
    least: float | None,
    threads: int = 1,
) -> list[Scored]:
    """Tracks (numbers in `groups`, ascending) compared with several entities in one pass.

    Args:
        least: the pooled value below which a track is left out, unless somebody said that it is the entity;
            None keeps every one.
        threads: to divide many tracks among; what is found does not depend on it.
    """
    exemplars = [np.concatenate([s.positive, s.negative]) for s in sought]  # each (P + Q, dim)
    floor = -np.inf if least is None else least

    def compared(part: NDArray[np.intp]) -> list[Scored]:
        rows = groups.rows(part)
        block = take_rows(table.vectors, rows, ascending=groups.order is None)
        counts = groups.starts[part + 1] - groups.starts[part]
        found = []
        for number, one in enumerate(sought):
            # Not one product for all: an entity's values must not depend on which others are asked for.
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
    """What a piece of work gives for every part, in order; many parts are divided among threads."""
    if threads < 2 or len(parts) <= FEW_PARTS:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads, "panorama-scan") as pool:
        return list(pool.map(work, parts))


def _parts(groups: TrackRows, tracks: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The tracks in pieces of about SCAN_ROWS crops; at least one piece."""
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
    """Similarities (P + Q, rows) of one entity to the crops of tracks that have `counts` (T,) of them."""
    normalised = normalise(similarity, one.level)
    values = crop_scores(normalised[: len(one.positive)], normalised[len(one.positive) :])
    starts = np.cumsum(counts) - counts
    within = np.arange(len(values)) - np.repeat(starts, counts)
    place = np.repeat(np.arange(len(counts)), counts), within
    spread = np.full((len(counts), int(counts.max(initial=1))), -np.inf, np.float32)  # (T, C)
    spread[place] = values
    best = starts + spread.argmax(axis=1)
    which = normalised[: len(one.exemplar_ids), best].argmax(axis=0)  # of a picture to show, never the mean
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
    """(T,) what tracks (numbers in `groups`) are without the exemplars that were cut from them.

    DENIED where there are no others.
    """
    rows, counts, ids = groups.rows(tracks), groups.counts[tracks], groups.track_ids[tracks]
    exemplars = np.concatenate([one.positive, one.negative])
    normalised = normalise(np.ascontiguousarray((table.vectors[rows] @ exemplars.T).T), one.level)
    views = _run_starts(one.exemplar_ids)
    cut = one.said.cut_from(one.exemplar_ids[views], ids)
    own = np.zeros((len(views), len(ids)), np.bool_) if cut is None else cut
    values = _without(one, normalised, own, counts)
    spread = np.full((len(counts), int(counts.max(initial=1))), -np.inf, np.float32)  # (T, C)
    spread[np.arange(spread.shape[1]) < counts[:, None]] = np.maximum(values, DENIED)
    return pool(spread)


def _denied(one: Sought, scored: Scored, crops: NDArray[np.float32], counts: NDArray[np.intp]) -> Scored:
    """The same tracks, DENIED where they are kept out: `crops` (rows, dim) and `counts` (T,) are theirs."""
    near = denied_values(one, crops)  # (D, rows)
    out = np.logical_or.reduceat((near > -np.inf).any(axis=0), np.cumsum(counts) - counts)
    out = (out & ~scored.said) | one.said.denies(scored.track_ids)
    normalised, unaided = (
        np.where(out, np.float32(DENIED), values) for values in (scored.normalised, scored.unaided)
    )
    return replace(scored, normalised=normalised, unaided=unaided)


def denied_values(one: Sought, crops: NDArray[np.float32]) -> NDArray[np.float32]:
    """(D, rows) normalised, -inf where a crop (rows, dim) could be no picture of what was denied.

    It could be one from SAME_PICTURE on, where no example is nearer. Nearness alone takes nothing away: what
    is denied was seen in the same light, size and place as the thing itself is, and examples often were not.
    """
    # Of a category, too, by the nearest view: the value by what all share would outdo the very picture.
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
    """Values (rows,) of crops without the exemplars that are a picture of their very track.

    Of what was cut out in this library that is known, of others it shows. Such an exemplar fits its track as
    nothing else can, which says nothing of how well the thing is known when it is met again. A track of which
    all exemplars are pictures keeps its values.

    Args:
        normalised: (P + Q, rows).
        track_ids, starts, counts: (T,) tracks, and the rows of each.

    Returns:
        None where no exemplar is left out.
    """
    known, views = len(one.exemplar_ids), _run_starts(one.exemplar_ids)
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
    """Values (rows,) of the crops of tracks, where some exemplars (E, T) do not count for them."""
    known = len(one.exemplar_ids)
    each = np.diff(np.append(_run_starts(one.exemplar_ids), known))
    aided = np.repeat(np.repeat(own, each, axis=0), counts, axis=1)  # (V, rows)
    kept = np.where(aided, np.float32(-np.inf), normalised[:known])
    # Their mean has a part of each.
    mean = np.where(aided.any(axis=0), np.float32(-np.inf), normalised[known : len(one.positive)])
    return crop_scores(np.concatenate([kept, mean]), normalised[len(one.positive) :])


def take_rows(vectors: NDArray[np.float32], rows: NDArray[np.intp], ascending: bool) -> NDArray[np.float32]:
    """Rows of a table: a view where they stand together, which is ten times as quick as a copy."""
    together = ascending and len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
    return vectors[rows[0] : rows[-1] + 1] if together else vectors[rows]
