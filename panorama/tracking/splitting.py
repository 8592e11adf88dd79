"""Finished tracks and the vectors of their crops come in; tracks that switch to another thing go out split.

The tracker follows place, motion and colour. When a person leaves, the thing behind that person has the same
place. The crops reveal it: two consecutive crops that resemble each other no more than strangers do show two
things.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Cohort
from panorama.query.matching.decide import cohort_level, normalise
from panorama.regions import iou
from panorama.tracking.segmenting import FinishedTrack

MOST_ALIKE = 0.0
"""Normalised similarity up to which two crops show two things; 0 is that of the nearest strangers."""


def split_tracks(
    tracks: Sequence[FinishedTrack], vectors: NDArray[np.float32], cohort: Cohort
) -> list[FinishedTrack]:
    """The tracks in order, each whole or in parts; all views stay, in their order.

    Args:
        vectors: (C, dim) unit vectors of the first exit, of the views of all tracks in order.
        cohort: of that exit; without strangers, nothing is split.
    """
    if not len(cohort):
        return list(tracks)
    alike = _alike_next(vectors, cohort)
    found: list[FinishedTrack] = []
    first = 0
    for track in tracks:
        inner = alike[first : first + len(track.views) - 1]
        cuts = (np.flatnonzero(inner <= MOST_ALIKE) + 1).tolist()
        found += _parts(track, cuts) if cuts else [track]
        first += len(track.views)
    return found


def _alike_next(vectors: NDArray[np.float32], cohort: Cohort) -> NDArray[np.float32]:
    """(C - 1,) normalised similarity of each vector (C, dim) to the next, by the kinder of both levels."""
    if len(vectors) < 2:
        return np.zeros(0, np.float32)
    similarity = np.einsum("cd,cd->c", vectors[:-1], vectors[1:])[:, None]  # (C - 1, 1)
    level = cohort_level(vectors, cohort)
    return np.maximum(normalise(similarity, level[:-1]), normalise(similarity, level[1:]))[:, 0]


def _parts(track: FinishedTrack, cuts: Sequence[int]) -> Iterator[FinishedTrack]:
    """Cut the track before some of its views, at the samples where its box changes most on the way there."""
    at = [_change(track, track.views[cut - 1].frame, track.views[cut].frame) for cut in cuts]
    samples = [0, *at, len(track.frames)]
    views = [0, *cuts, len(track.views)]
    for part in range(len(views) - 1):
        start, stop = samples[part], samples[part + 1]
        is_first, is_last = part == 0, part == len(views) - 2
        yield replace(
            track,
            start_frame=track.start_frame if is_first else int(track.frames[start]),
            end_frame=track.end_frame if is_last else int(track.frames[stop]),
            start_seconds=track.start_seconds if is_first else float(track.times[start]),
            end_seconds=track.end_seconds if is_last else float(track.times[stop]),
            frames=track.frames[start:stop],
            times=track.times[start:stop],
            boxes_xyxy=track.boxes_xyxy[start:stop],
            scores=track.scores[start:stop],
            views=track.views[views[part] : views[part + 1]],
        )


def _change(track: FinishedTrack, before: int, after: int) -> int:
    """The sample after frame `before`, up to frame `after`, whose box least overlaps the previous one."""
    first, last = np.searchsorted(track.frames, [before, after]).tolist()
    overlap = np.array(
        [
            iou(track.boxes_xyxy[i - 1][None], track.boxes_xyxy[i][None])[0, 0]
            for i in range(first + 1, last + 1)
        ]
    )
    return first + 1 + int(overlap.argmin())
