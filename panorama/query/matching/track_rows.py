"""The track ids of a table's rows come in; which rows belong to which track goes out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.store.ascending import rows_in


@dataclass(frozen=True, slots=True)
class TrackRows:
    """Which rows of a vector table belong to which track.

    Attributes:
        track_ids: (T,) int64, each once, in the order of `starts`.
        starts: (T + 1,) position in `order` of the first row of each track.
        order: (N,) rows grouped by track; None if the table has them in this order.
        by_id: (T,) positions in `track_ids` sorted by id; None if they are sorted.
    """

    track_ids: NDArray[np.int64]
    starts: NDArray[np.intp]
    order: NDArray[np.intp] | None
    by_id: NDArray[np.intp] | None

    @classmethod
    def of(cls, owners: NDArray[np.int64]) -> TrackRows:
        """Group rows by the track ids (N,) that they carry."""
        order: NDArray[np.intp] | None = None
        starts = run_starts(owners)
        ids = owners[starts]
        by_id = _sorting(ids)
        ascending = ids if by_id is None else ids[by_id]
        if bool(np.any(ascending[1:] == ascending[:-1])):
            # The rows of some track are scattered: its crops were embedded at different times.
            order = np.argsort(owners, kind="stable")
            ordered = owners[order]
            starts, by_id = run_starts(ordered), None
            ids = ordered[starts]
        return cls(ids, np.append(starts, len(owners)), order, by_id)

    def __len__(self) -> int:
        return len(self.track_ids)

    @property
    def counts(self) -> NDArray[np.intp]:
        """(T,) number of crops of each track."""
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
        seen = np.zeros(len(self), np.bool_)  # marking tracks is faster than sorting the rows of an index
        seen[np.searchsorted(self.starts, rows, side="right") - 1] = True
        return np.flatnonzero(seen)

    def rows(self, tracks: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows of the tracks with these numbers, track by track."""
        counts = self.starts[tracks + 1] - self.starts[tracks]
        places = np.arange(int(counts.sum())) + np.repeat(
            self.starts[tracks] - np.cumsum(counts) + counts, counts
        )
        return places if self.order is None else self.order[places]


def run_starts(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each run of equal values begins."""
    if not len(values):
        return np.zeros(0, np.intp)
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1]).astype(np.intp)


def _sorting(values: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """The order that sorts the values; None if they are sorted."""
    return None if bool(np.all(values[1:] >= values[:-1])) else np.argsort(values, kind="stable")


@dataclass(frozen=True, slots=True)
class TrackGroups:
    """The rows of every track as a rectangle, for work on all crops at once; `TrackRows` needs less memory.

    Attributes:
        track_ids: (T,) int64, sorted.
        slots: (T, C) rows of each track, -1 beyond its last crop.
    """

    track_ids: NDArray[np.int64]
    slots: NDArray[np.intp]

    @classmethod
    def of(cls, owners: NDArray[np.int64]) -> TrackGroups:
        """Group rows by the track ids (N,) that they carry."""
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
