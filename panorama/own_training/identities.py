"""Tracks with their vectors come in; pseudo-identities go out: which tracks show one thing, by their looks.

Recurring tracks are clustered (HDBSCAN); two tracks on the screen at the same time are two things. A track
that no cluster holds surely is noise and is dropped: a wrong identity does more harm than a missing one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from panorama.errors import MissingExtra, UsageError
from panorama.models.base import Cohort
from panorama.models.training.moments import at_once
from panorama.query.matching.decide import Calibration, cohort_level, normalise

NOISE = -1
APART = 2.0
"""Distance of two tracks that cannot be one thing: that of opposite unit vectors."""

MOST_TRACKS = 5000
"""Limit on tracks: all pairs are compared, and the table of distances for this many takes 200 MB."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """Tracks of one or more videos as a struct of arrays.

    Attributes:
        track_ids: (T,) int64.
        videos: (T,) int64, a number per video.
        starts, ends: (T,) float64 seconds in the video.
        vectors: (T, dim) float32 of unit length, one per track.
    """

    track_ids: NDArray[np.int64]
    videos: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"tracks need columns of one length, got {lengths}")

    def __len__(self) -> int:
        return len(self.track_ids)

    def together(self) -> NDArray[np.bool_]:
        """(T, T): whether two tracks are in one video at the same time, so surely two things."""
        out = at_once(self.videos, self.starts, self.ends)
        np.fill_diagonal(out, False)
        return out


def alike(vectors: NDArray[np.float32], cohort: Cohort, calibration: Calibration) -> NDArray[np.bool_]:
    """(T, T): whether either of two tracks, as an exemplar, would accept the other."""
    level = cohort_level(vectors, cohort)
    scores = calibration.score(normalise(vectors @ vectors.T, level))
    accepted = scores >= calibration.high
    return np.asarray(accepted | accepted.T)


def pseudo_identities(tracks: Tracks, accepted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The identity of each track (T,), NOISE for those without one; every identity has two or more tracks.

    Args:
        tracks: at most MOST_TRACKS.
        accepted: (T, T) pairs that the decision rule takes for one thing, see `alike`.

    Raises:
        UsageError: there are too many tracks.
        MissingExtra: scikit-learn is not installed.
    """
    if len(tracks) > MOST_TRACKS:
        raise UsageError(f"at most {MOST_TRACKS} tracks can be clustered at once, got {len(tracks)}")
    if len(tracks) < 3:
        return np.full(len(tracks), NOISE, np.int64)
    together = tracks.together()
    possible = accepted & ~together
    distance = np.where(possible, 1 - (tracks.vectors @ tracks.vectors.T).astype(np.float64), APART)
    np.fill_diagonal(distance, 0.0)
    found = _hdbscan(np.clip(distance, 0, None))
    return _surely_one(found, possible, together, distance)


def _hdbscan(distance: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cluster numbers (T,) by HDBSCAN (Campello et al. 2013), NOISE for outliers."""
    try:
        from sklearn.cluster import HDBSCAN
    except ImportError as exc:
        raise MissingExtra("clustering tracks needs scikit-learn: pip install scikit-learn") from exc
    # Take leaves, not the most stable branches: two vans in one cluster are worse than one van in two.
    method = HDBSCAN(metric="precomputed", min_cluster_size=2, cluster_selection_method="leaf", copy=True)
    return np.asarray(method.fit_predict(distance), np.int64)


def _surely_one(
    found: NDArray[np.int64],
    possible: NDArray[np.bool_],
    together: NDArray[np.bool_],
    distance: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Split clusters into linked parts; drop tracks on the screen together with a more central member."""
    identities = np.full(len(found), NOISE, np.int64)
    count = 0
    for cluster in np.unique(found[found != NOISE]):
        members = np.flatnonzero(found == cluster)
        _, part = connected_components(csr_matrix(possible[np.ix_(members, members)]), directed=False)
        for number in range(int(part.max()) + 1):
            some = members[part == number]
            # From the centre outwards: a track joins unless it was on the screen together with a member.
            spread = distance[np.ix_(some, some)].mean(axis=1)
            kept: list[int] = []
            for track in some[np.argsort(spread, kind="stable")].tolist():
                if not together[track, kept].any():
                    kept.append(track)
            if len(kept) >= 2:
                identities[kept] = count
                count += 1
    return identities
