"""What somebody said of tracks enters, by the places that pictures were cut from; what holds of each leaves.

A picture that was cut out of a video says for certain what is there: the track at that place is the entity,
however little it looks like the picture, or is not, where it was denied. Of one track the last word counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of one entity's tracks.

    Attributes:
        exemplar_ids, track_ids: (K,) int64 of the pictures that were cut from a track, and which track each
            was; what was said last is last.
        accepted: (Y,) int64, the tracks that are the entity; denied: (N,) int64, those that are not.
    """

    exemplar_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    accepted: NDArray[np.int64]
    denied: NDArray[np.int64]

    @classmethod
    def none(cls) -> Said:
        """Nothing was said of any track."""
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
        """Pictures and the tracks (K,) that they were cut from, the last word last.

        Args:
            examples, denied: which pictures say yes and which no. A look-alike says neither: what it keeps
                out is told by looks.
        """
        last = len(track_ids) - 1 - np.unique(track_ids[::-1], return_index=True)[1]
        told = exemplar_ids[last]
        yes, no = (track_ids[last[np.isin(told, some)]] for some in (examples, denied))
        return cls(exemplar_ids, track_ids, yes, no)

    def without_denied(self) -> Said:
        """The same where nothing was denied."""
        return replace(self, denied=self.denied[:0])

    def accepts(self, track_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(T,) which of some tracks are the entity."""
        return _among(track_ids, self.accepted)

    def denies(self, track_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(T,) which of some tracks are not."""
        return _among(track_ids, self.denied)

    def cut_from(
        self, exemplar_ids: NDArray[np.int64], track_ids: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """(E, T) which of some pictures were cut from which of some tracks, each given once.

        None for none from any.
        """
        mine = _among(self.track_ids, track_ids) & _among(self.exemplar_ids, exemplar_ids)
        if not mine.any():
            return None
        found = np.zeros((len(exemplar_ids), len(track_ids)), np.bool_)
        pictures, tracks = self.exemplar_ids[mine], self.track_ids[mine]
        found[_rows_of(exemplar_ids, pictures), _rows_of(track_ids, tracks)] = True
        return found

    def last_of(self, track_id: int) -> int | None:
        """The picture that the last word on a track was said with; None where nothing was said of it."""
        rows = np.flatnonzero(self.track_ids == track_id)
        return int(self.exemplar_ids[rows[-1]]) if len(rows) else None


def _rows_of(ids: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.intp]:
    """(K,) where some ids (K,) stand among others, all of which are there, each once, in any order."""
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids[order], some)]


def _among(ids: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.bool_]:
    # Most entities have none, and a pass asks for thousands of pieces.
    return np.isin(ids, some) if len(ids) and len(some) else np.zeros(len(ids), np.bool_)
