"""Reviewed answers come in; the share of them that a library of the sample contradicts goes out.

A library confirms a yes if it accepts the entity in that frame at that place, and a no if it does not. The
entity is searched by its other images, those not cut from the same tracks, if there are any: an image always
finds the track that it was cut from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.album.given_pictures import Picture
from panorama.album.registering import exemplars
from panorama.answering.answerer import Answering
from panorama.crops import decode_picture
from panorama.errors import BadImage
from panorama.models.base import Embedder
from panorama.query.handed.relations import Limits
from panorama.query.matching.meeting import SAME_PLACE
from panorama.regions import shared
from panorama.store import Exemplar, NewExemplar, Reviewed
from panorama.store.catalog.seen import SeenPlaces
from panorama.store.scenes.places import PlaceTables
from panorama.store.scenes.seen_tracks import NO_TRACK, tracks_at
from panorama.video import Found

if TYPE_CHECKING:
    from panorama.library import Library

LEAST_REVIEWED = 5
"""Fewest reviewed answers in a sample that count; fewer say too little about settings."""

_ACCEPTED = "SELECT x1, y1, x2, y2 FROM (SELECT frames WHERE entity = ?) WHERE video = ? AND frame = ?"


@dataclass(frozen=True, slots=True)
class Mark:
    """A reviewed answer and its place in the sample.

    Attributes:
        stretch: name of the stretch.
        frame: counted from the stretch's first frame.
        said: the review, with the place in pixels.
    """

    stretch: str
    frame: int
    said: Reviewed


@dataclass(frozen=True, slots=True)
class Review:
    """All reviewed answers in a sample, and the images to search by.

    Attributes:
        marks: the reviewed answers.
        album: by entity, as registered in libraries of the sample.
        categories: those of these entities that stand for any of their kind.
    """

    marks: tuple[Mark, ...]
    album: Mapping[str, Sequence[NewExemplar]]
    categories: frozenset[str] = frozenset()

    @property
    def counts(self) -> bool:
        """Whether there are enough of them to judge by."""
        return len(self.marks) >= LEAST_REVIEWED

    def otherwise(self, asked: Answering) -> float:
        """Share of the answers that a library with this album registered contradicts."""
        wrong = sum(_accepted(asked, mark) != mark.said.right for mark in self.marks)
        return wrong / len(self.marks)


def _accepted(asked: Answering, mark: Mark) -> bool:
    """Whether the entity is accepted in the frame, at the same place."""
    place = [name_of(mark.said.entity), mark.stretch, mark.frame]
    rows = asked.query(_ACCEPTED, place, None, Limits()).fetchall()
    boxes = np.array([tuple(row) for row in rows], np.float32).reshape(-1, 4)
    said = np.tile(np.array(mark.said.box_xyxy, np.float32), (len(boxes), 1))
    return bool((shared(boxes, said) >= SAME_PLACE).any())


def name_of(entity: str) -> str:
    """The name of an entity in a library of the sample: never taken, and never too long."""
    return f"reviewed-{hashlib.sha256(entity.encode()).hexdigest()[:32]}"


def said_of(library: Library, found: Found) -> dict[Path, list[Reviewed]]:
    """The reviewed answers by file, the last one for each track; files without any are left out."""
    if not library.exists:
        return {}
    videos = library.videos()
    held = dict(zip(videos.column("uri").to_pylist(), videos.column("segment").to_pylist(), strict=True))
    inside = {video.path: held[uri] for video in found.videos if (uri := str(video.path.resolve())) in held}
    told = {path: said for path in inside if (said := library.reviewed(path))}
    if not told:
        return {}
    placed = _Placed.of(library)
    return {path: placed.last_words(said, inside[path]) for path, said in told.items()}


@dataclass(frozen=True, slots=True)
class _Placed:
    """Pictures that were cut from a library's videos: where, oldest first, and from which track.

    Attributes:
        seen: (P,) the places.
        tracks: (P,) int64 the track at each; NO_TRACK if there is none.
    """

    seen: SeenPlaces
    tracks: NDArray[np.int64]

    @classmethod
    def of(cls, library: Library) -> _Placed:
        """All places in live segments."""
        snapshot = library.snapshot()
        return cls(snapshot.seen, tracks_at(PlaceTables(snapshot), snapshot.seen))

    def last_words(self, said: Sequence[Reviewed], segment: int) -> list[Reviewed]:
        """Those answers about a segment that no later one about the same entity and track replaces.

        Where no track is, answers are about different places and all count.
        """
        by_place = {(one.exemplar_id, one.frame): one for one in said}
        last: dict[tuple[str, int, int | None], Reviewed] = {}
        for row in np.flatnonzero(self.seen.segments == segment).tolist():
            one = by_place.get((int(self.seen.exemplar_ids[row]), int(self.seen.frames[row])))
            if one is not None:
                track = int(self.tracks[row])
                last[one.entity, track, row if track == NO_TRACK else None] = one
        return sorted(last.values(), key=lambda one: (one.seconds, one.exemplar_id))

    def of_same_tracks(self, exemplar_ids: Sequence[int]) -> set[int]:
        """Some pictures, and all others that were cut from a track that one of these was cut from."""
        mine = np.isin(self.seen.exemplar_ids, exemplar_ids) & (self.tracks != NO_TRACK)
        same = np.isin(self.tracks, self.tracks[mine])
        return {*exemplar_ids, *self.seen.exemplar_ids[same].tolist()}


def moments_together(
    said: Mapping[Path, Sequence[Reviewed]], seconds: float, most: int
) -> list[tuple[Path, list[float]]]:
    """Groups of moments within `seconds` of each other in one file: at most `most`, the largest first."""
    left = {path: np.sort([one.seconds for one in some]) for path, some in said.items()}
    groups: list[tuple[Path, list[float]]] = []
    while len(groups) < most and any(len(times) for times in left.values()):
        spans = {path: _densest(times, seconds) for path, times in left.items() if len(times)}
        path = max(spans, key=lambda path: spans[path].stop - spans[path].start)
        groups.append((path, left[path][spans[path]].tolist()))
        left[path] = np.delete(left[path], spans[path])
    return groups


def _densest(times: NDArray[np.float64], seconds: float) -> slice:
    """The slice of sorted times (N,), at least one, with the most times within `seconds`."""
    counts = np.searchsorted(times, times + seconds, side="right") - np.arange(len(times))
    first = int(np.argmax(counts))
    return slice(first, first + int(counts[first]))


def start_around(moments: Sequence[float], seconds: float, duration: float) -> float:
    """Start of a stretch of `seconds` with some moments in its middle, inside the video."""
    start = (min(moments) + max(moments) - seconds) / 2
    return max(0.0, min(start, duration - seconds))


def review_of(library: Library, marks: Sequence[Mark], embedder: Embedder) -> Review:
    """The review of a sample's marks, with the images to search by."""
    if not marks:
        return Review((), {})
    inside = _Placed.of(library).of_same_tracks([mark.said.exemplar_id for mark in marks])
    album = {}
    entities = sorted({mark.said.entity for mark in marks})
    for entity in entities:
        every = library.exemplars(entity)
        apart = [one for one in every if one.exemplar_id not in inside]
        kept = apart if any(not one.negative for one in apart) else every
        album[name_of(entity)] = [ready for one in kept for ready in _registered(one, embedder)]
    album = {name: some for name, some in album.items() if some}
    return Review(
        tuple(mark for mark in marks if name_of(mark.said.entity) in album),
        album,
        frozenset(
            name_of(entity)
            for entity in entities
            if name_of(entity) in album and library.entity(entity).category
        ),
    )


def _registered(one: Exemplar, embedder: Embedder) -> list[NewExemplar]:
    """An image as registered in a library of the sample; empty if its file is lost."""
    try:
        picture = Picture(decode_picture(one.picture.read_bytes(), str(one.picture)), one.source)
    except (OSError, BadImage):
        return []
    return exemplars([picture], embedder, one.negative, one.denied)
