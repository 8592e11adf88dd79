"""A library, its truth and labelled pictures come in; figures of how well it decides go out.

Nothing is indexed again: clips are left out, exits hidden and strangers registered on the stored vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.album.examples import embed_examples
from panorama.errors import UsageError
from panorama.judging.evaluate import RANKED_FRAMES, Frames, Truth, f1
from panorama.judging.partly import Partly, Strangers
from panorama.models.base import Image
from panorama.query.matching.decide import Calibration
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, MatchRequest
from panorama.store.files.schema import segment_of

if TYPE_CHECKING:
    from panorama.library import Library

CALIBRATION_BINS = 10
LEAST_SCORE = 0.05
"""Frames with a lower score count as no prediction: they are so many that they would hide every error."""

_SPANS = "SELECT track_id, video, start_frame, end_frame FROM tracks"


@dataclass(frozen=True, slots=True)
class Silence:
    """How often a library stays silent about entities that it does not hold.

    Attributes:
        pairs: number of entities asked for.
        silent: share of them for which nothing that counts was accepted; None if none was asked for.
    """

    pairs: int
    silent: float | None


def own_clips_out(library: Library, truths: Mapping[str, Truth]) -> Silence:
    """Ask for each entity of the truth in the library without the videos in which it appears.

    Videos whose frames the truth ignores completely are left out, too. In the other videos, a track counts if
    one of its frames is not ignored. An entity without any such frame is not asked for: silence means nothing
    where there is nothing.
    """
    segments, frames, tracks = segments_of(library), Frames(library), Spans(library)
    silent = []
    for name, truth in truths.items():
        judged = frames.absent(truth) & ~frames.mask(truth.ignore)
        own = {segments[video] for video in truth.own if video in segments}
        asked = {segments[video] for video in frames.videos(judged)} - own
        if not asked:
            continue
        hidden = np.array(sorted(set(segments.values()) - asked), np.int64)
        found = tracks.frames(frames, accepted(matcher_of(library, without=hidden), name))
        silent.append(not (found & judged).any())
    return Silence(len(silent), _mean(silent))


def own_times_out(library: Library, truths: Mapping[str, Truth]) -> Silence:
    """Ask for each entity of the truth in the videos in which it appears, without the times that show it.

    So whoever else comes by the same camera is asked about. Tracks that reach into frames that show the
    entity or that the truth ignores are hidden, and all other videos. An entity of which no track is left is
    not asked for.
    """
    segments, frames, tracks = segments_of(library), Frames(library), Spans(library)
    ids, silent = tracks.ids, []
    for name, truth in truths.items():
        own = np.array([segments[video] for video in truth.own if video in segments], np.int64)
        there = ids[np.isin(segment_of(ids), own)]
        touching = tracks.touching(frames, there, frames.mask(truth.visible) | frames.mask(truth.ignore))
        if touching.all():
            continue
        others = np.setdiff1d(np.array(list(segments.values()), np.int64), own)
        matcher = matcher_of(library, without=others, without_tracks=there[touching])
        silent.append(not len(accepted(matcher, name)))
    return Silence(len(silent), _mean(silent))


def strangers(library: Library, pictures: Sequence[Image]) -> Silence:
    """Ask for pictures of things that the library does not hold, each as an entity of its own.

    Raises:
        UsageError: there is no picture.
    """
    if not pictures:
        raise UsageError("no picture of a stranger to ask for")
    vectors = embed_examples(pictures, library.embedder)  # (exits, N, V, dim)
    names = tuple(f"stranger {i}" for i in range(len(pictures)))
    albums = {exit: Strangers(names, at_exit) for exit, at_exit in enumerate(vectors, start=1)}
    matcher = matcher_of(library, albums=albums)
    found = matcher.match(MatchRequest(names))
    heard = np.unique(found.entity_index[found.band == ACCEPTED])
    return Silence(len(names), 1 - len(heard) / len(names))


@dataclass(frozen=True, slots=True)
class CascadeCost:
    """What the cascade saves on one library and album.

    Attributes:
        f1, deepest_f1: mean over the visible entities, of the cascade from the first exit on and of the
            deepest exit alone; None if no entity is visible.
        survivors: share of the crops that were needed at each exit, shallowest first, for any entity.
        share: multiply-adds of the cascade, divided by those of taking every crop to the deepest exit.
    """

    f1: float | None
    deepest_f1: float | None
    survivors: tuple[float, ...]
    share: float


def cascade_cost(library: Library, truths: Mapping[str, Truth]) -> CascadeCost:
    """Compare the cascade, which goes deeper only where needed, with matching at the deepest exit alone.

    A crop that goes deeper is embedded again from its stored picture, so its shallower stages count again.
    """
    embedder = library.embedder
    frames, tracks = Frames(library), Spans(library)
    shallow = _source(library, exits=frozenset({1}))
    cascade = AlbumMatcher(shallow, embedder, library.calibrations)
    deepest = matcher_of(library, exits=frozenset({embedder.exits}))
    mean_f1, deepest_f1 = (
        _mean([tracks.f1(frames, accepted(m, name), truth) for name, truth in truths.items()])
        for m in (cascade, deepest)
    )
    count = max(len(shallow.crops()[0]), 1)
    seen = [count, *(len(shallow.deepened.get(exit, ())) for exit in range(2, embedder.exits + 1))]
    spent = sum(n * macs for n, macs in zip(seen, embedder.macs, strict=True))
    return CascadeCost(
        mean_f1,
        deepest_f1,
        tuple(n / count for n in seen),
        spent / (count * embedder.macs[-1]),
    )


@dataclass(frozen=True, slots=True)
class CalibrationError:
    """How far scores are from the truth.

    Attributes:
        error: expected calibration error: mean distance between score and share of true frames, over ten bins
            weighted by their number of frames; None if no frame has a score.
        bins: (score, share of true frames, frames) of each bin that is not empty.
    """

    error: float | None
    bins: tuple[tuple[float, float, int], ...]


def calibration_error(library: Library, truths: Mapping[str, Truth]) -> CalibrationError:
    """Compare the score of each frame, that of its best track, with whether the entity is visible there."""
    frames = Frames(library)
    scores: list[NDArray[np.float64]] = []
    true: list[NDArray[np.bool_]] = []
    for name, truth in truths.items():
        ranked = library.query(RANKED_FRAMES, [name]).arrow()
        places = frames.places(ranked["video"].to_pylist(), ranked["frame"].to_pylist())
        counted = ~frames.mask(truth.ignore)[places]
        counted &= ranked["score"].to_numpy() >= LEAST_SCORE
        scores.append(ranked["score"].to_numpy()[counted])
        true.append(frames.mask(truth.visible)[places][counted])
    return expected_error(np.concatenate(scores), np.concatenate(true))


def expected_error(score: NDArray[np.floating], true: NDArray[np.bool_]) -> CalibrationError:
    """The expected calibration error of scores (N,) in [0, 1]."""
    place = np.minimum((score * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    bins = []
    for number in np.unique(place):
        mine = place == number
        bins.append((float(score[mine].mean()), float(true[mine].mean()), int(mine.sum())))
    error = sum(abs(s - t) * n for s, t, n in bins) / len(score) if len(score) else None
    return CalibrationError(error, tuple(bins))


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


class Spans:
    """The frames of every track."""

    def __init__(self, library: Library) -> None:
        rows = library.query(_SPANS).fetchall()
        self._of: dict[int, list[tuple[str, int, int]]] = {}
        for track, video, start, end in rows:
            self._of.setdefault(int(track), []).append((video, int(start), int(end) - 1))

    def frames(self, frames: Frames, track_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the frames that some tracks cover, over the row of all frames."""
        found = np.zeros(frames.total, np.bool_)
        for track in track_ids.tolist():
            for video, first, last in self._of[track]:
                found |= frames.mask({video: [(first, last)]})
        return found

    @property
    def ids(self) -> NDArray[np.int64]:
        """All tracks, ascending."""
        return np.array(sorted(self._of), np.int64)

    def touching(
        self, frames: Frames, track_ids: NDArray[np.int64], mask: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """(T,) which tracks cover a frame marked by a mask over all frames."""
        before = np.append(0, np.cumsum(mask))
        found = np.zeros(len(track_ids), np.bool_)
        for row, track in enumerate(track_ids.tolist()):
            for video, first, last in self._of[track]:
                start = frames.start[video]
                found[row] |= before[start + last + 1] > before[start + first]
        return found

    def f1(self, frames: Frames, track_ids: NDArray[np.int64], truth: Truth) -> float | None:
        """F1 of the frames of some tracks; None if the entity is visible nowhere."""
        counted = ~frames.mask(truth.ignore)
        return f1(self.frames(frames, track_ids) & counted, frames.mask(truth.visible) & counted)


def segments_of(library: Library) -> dict[str, int]:
    """The segment of each video, by name."""
    rows = library.videos().select(["video", "segment"]).to_pylist()
    return {row["video"]: int(row["segment"]) for row in rows}


def _source(library: Library, exits: frozenset[int] | None = None) -> Partly:
    return Partly(library.matcher().source, library.embedder.exits, exits=exits)


def matcher_of(
    library: Library,
    without: NDArray[np.int64] | None = None,
    exits: frozenset[int] | None = None,
    albums: Mapping[int, Strangers] | None = None,
    without_tracks: NDArray[np.int64] | None = None,
) -> AlbumMatcher:
    """A matcher for the library with some segments, tracks or exits hidden, or with other albums."""
    none = np.zeros(0, np.int64)
    segments, tracks = (none if some is None else some for some in (without, without_tracks))
    source = Partly(
        library.matcher().source, library.embedder.exits, segments, tracks, exits=exits, strangers=albums
    )
    calibrations: Sequence[Calibration] = library.calibrations
    return AlbumMatcher(source, library.embedder, calibrations)


def accepted(matcher: AlbumMatcher, name: str) -> NDArray[np.int64]:
    """The accepted tracks of an entity."""
    found = matcher.match(MatchRequest((name,)))
    return found.track_id[found.band == ACCEPTED]
