"""What users said about tracks, by cutting pictures from them, comes in; the verdict on each goes out.

A picture cut out of a video says for certain what is there: the track at that place is the entity, however
little it looks like the picture, or is not, if it was denied. The last word on a track counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Said:
    """What was said about one entity's tracks.

    Attributes:
        exemplar_ids, track_ids: (K,) int64 pictures that were cut from a track, and the track of each, oldest
            first.
        accepted: (Y,) int64 tracks that are the entity; denied: (N,) int64 tracks that are not.
    """

    exemplar_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    accepted: NDArray[np.int64]
    denied: NDArray[np.int64]

    @classmethod
    def none(cls) -> Said:
        """Nothing was said about any track."""
        ids = np.zeros(0, np.int64)
        return cls(ids, ids, ids, ids)

    @classmethod
    def of(
        cls,
        exemplar_ids: NDArray[np.int64],
        track_ids: NDArray[np.int64],
        examples: NDArray[np.int64],
        denied: NDArray[np.int64],
    ) -> Said:
        """From pictures and the tracks (K,) that they were cut from, oldest first.

        Args:
            examples, denied: ids of the pictures that say yes and that say no. Look-alikes say neither: they
                work by appearance only.
        """
        last = len(track_ids) - 1 - np.unique(track_ids[::-1], return_index=True)[1]
        told = exemplar_ids[last]
        yes, no = (track_ids[last[np.isin(told, some)]] for some in (examples, denied))
        return cls(exemplar_ids, track_ids, yes, no)

    def without_denied(self) -> Said:
        """The same as if nothing had been denied."""
        return replace(self, denied=self.denied[:0])

    def accepts(self, track_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(T,) which of some tracks are the entity."""
        return _among(track_ids, self.accepted)

    def denies(self, track_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(T,) which of some tracks are not the entity."""
        return _among(track_ids, self.denied)

    def cut_from(
        self, exemplar_ids: NDArray[np.int64], track_ids: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """(E, T) which of some pictures were cut from which of some tracks, each given once.

        None if no picture was cut from any of them.
        """
        mine = _among(self.track_ids, track_ids) & _among(self.exemplar_ids, exemplar_ids)
        if not mine.any():
            return None
        found = np.zeros((len(exemplar_ids), len(track_ids)), np.bool_)
        pictures, tracks = self.exemplar_ids[mine], self.track_ids[mine]
        found[_rows_of(exemplar_ids, pictures), _rows_of(track_ids, tracks)] = True
        return found

    def last_of(self, track_id: int) -> int | None:
        """The picture that gave the last word on a track; None if nothing was said about it."""
        rows = np.flatnonzero(self.track_ids == track_id)
        return int(self.exemplar_ids[rows[-1]]) if len(rows) else None


def _rows_of(ids: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.intp]:
    """(K,) positions of some ids (K,) among `ids`, which contain all of them once, in any order."""
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids[order], some)]


def _among(ids: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.bool_]:
    # Most entities have none, and a pass calls this for thousands of pieces.
    return np.isin(ids, some) if len(ids) and len(some) else np.zeros(len(ids), np.bool_)
