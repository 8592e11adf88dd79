"""One snapshot of a library comes in; the vectors and exemplars that matching needs go out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.album.stored_pictures import pictures_of
from panorama.commands import command
from panorama.errors import LibraryWriteError, UsageError
from panorama.lines import counted
from panorama.models.base import Embedder, Image
from panorama.query.matching.cost import Choice
from panorama.query.matching.ledger import note_vectors
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import Matches, MatchRequest
from panorama.query.matching.meeting import NEAR_SECONDS, Places
from panorama.query.matching.on_terms import match_on_terms
from panorama.query.matching.passes import first_exit
from panorama.query.matching.promises import Evidence
from panorama.query.matching.said import Said
from panorama.query.stopping import check_stopped
from panorama.store import Album, Snapshot, Store
from panorama.store.catalog.seen import SeenPlaces
from panorama.store.files.schema import LOCAL_BITS, segment_of
from panorama.store.files.sorted_rows import BOX, SPAN
from panorama.store.scenes.places import PlaceTables, TrackPlaces
from panorama.store.scenes.seen_tracks import NO_TRACK, SeenTracks
from panorama.store.vectors.index import VectorIndex
from panorama.store.vectors.vector_table import VectorTable, read_crop_ids

DEEPEN_BATCH = 64


@dataclass(frozen=True, slots=True)
class PickedVectors:
    """Vectors of some crops: ids (N,), owners (N,), vectors (N, dim)."""

    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


class KeptIndexes:
    """Indexes and lookup tables that outlive a snapshot, for example when only an entity changes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[object, VectorIndex]] = {}
        self._places: PlaceTables | None = None
        self._seen = SeenTracks()

    def get(self, snapshot: Snapshot, model_hash: str, exit: int) -> VectorIndex:
        """The index over a snapshot's vectors at an exit; rebuilt if these have changed."""
        files = snapshot.embeddings.get((model_hash, exit), ())
        content = (files, snapshot.live_segments.tobytes())
        kept = self._kept.get((model_hash, exit))
        if kept is None or kept[0] != content:
            kept = (content, VectorIndex(VectorTable.load(snapshot, model_hash, exit)))
            self._kept[model_hash, exit] = kept
        return kept[1]

    def places(self, snapshot: Snapshot) -> PlaceTables:
        """Where and when the tracks of a snapshot were in sight."""
        kept = self._places
        if kept is None or kept.snapshot is not snapshot:
            # Not read again from `self`: a query on another snapshot may have put its tables there.
            kept = self._places = PlaceTables(snapshot, kept)
        return kept

    def tracks_at(self, snapshot: Snapshot, seen: SeenPlaces) -> NDArray[np.int64]:
        """(P,) the track of the snapshot that was at each place; NO_TRACK if there is none."""
        return self._seen.at(self.places(snapshot), seen)


class SnapshotVectors:
    """The `VectorSource` of one snapshot under one model.

    Args:
        kept: indexes of earlier snapshots; None for new ones.
    """

    def __init__(
        self, store: Store, snapshot: Snapshot, embedder: Embedder, kept: KeptIndexes | None = None
    ) -> None:
        self._kept = kept or KeptIndexes()
        self._store = store
        self._snapshot = snapshot
        self._embedder = embedder
        self._indexes: dict[int, VectorIndex] = {}
        self._fresh: dict[int, PickedVectors] = {}
        self._said: dict[str, Said] = {}

    def prepare(self, wait: Callable[[], None] = lambda: None) -> None:
        """Build or renew what queries read, so that none has to wait for it; `wait` is called between pieces.

        Only the exit at which matching starts is searched and gets an index, which would take two thirds of
        the disk for all. Vectors at deeper exits are looked up by id, and those at shallower ones are never
        read.
        """
        first = first_exit(*self.counts())
        for exit in range(first, self._embedder.exits + 1):
            table = VectorTable.load(self._snapshot, self._embedder.hash, exit)
            self._indexes[exit] = VectorIndex(
                table,
                build=exit == first,
                wait=wait,
                is_stored=lambda: self._store.is_stored(self._snapshot),
            )
            wait()
        self._kept.places(self._snapshot).prepare(wait)

    def album(self, exit: int) -> Album:
        return self._snapshot.album(self._embedder.hash, exit)

    def said(self, name: str) -> Said:
        if name not in self._said:
            self._said[name] = self._find_said(name)
        return self._said[name]

    def _find_said(self, name: str) -> Said:
        album = self.album(self._embedder.exits)
        mine = album.entity_index == album.entities.index(name)
        seen = self._snapshot.seen.of(album.exemplar_ids[mine])
        if not len(seen):
            return Said.none()
        tracks = self._kept.tracks_at(self._snapshot, seen)
        there = tracks != NO_TRACK
        examples, denied = (album.exemplar_ids[mine & kind] for kind in (~album.negative, album.denied))
        return Said.of(seen.exemplar_ids[there], tracks[there], examples, denied)

    def _index(self, exit: int) -> VectorIndex:
        if exit not in self._indexes:
            self._indexes[exit] = self._kept.get(self._snapshot, self._embedder.hash, exit)
        return self._indexes[exit]

    def stored(self, exit: int) -> VectorTable:
        return self._index(exit).table

    def crops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        crops, vectors = self.counts()
        for exit in range(self._embedder.exits, 0, -1):
            # A table with a vector of every crop lists all crops, and is in memory already.
            if vectors[exit - 1] >= crops and len(self.stored(exit)) == crops:
                table = self.stored(exit)
                return table.crop_ids, table.track_ids
        return read_crop_ids(self._snapshot)

    def counts(self) -> tuple[int, list[int]]:
        model, exits = self._embedder.hash, range(1, self._embedder.exits + 1)
        crops = self._snapshot.crops().total
        vectors = [self._snapshot.vectors(model, exit).total for exit in exits]
        # Two processes may have computed the same crops at the same time, so the number of vectors may
        # include duplicates. Count crops only once at the deepest exit that has them all, where matching may
        # start.
        for exit in reversed(exits):
            if crops and vectors[exit - 1] >= crops:
                vectors[exit - 1] = len(self.stored(exit))
                if vectors[exit - 1] >= crops:
                    break
        return crops, vectors

    def codes(self, exit: int, least: float) -> int | None:
        return self._index(exit).codes(least)

    def near(
        self,
        exit: int,
        queries: NDArray[np.float32],
        least: NDArray[np.float32],
        rows: NDArray[np.intp] | None = None,
    ) -> list[NDArray[np.intp]] | None:
        return self._index(exit).near(queries, least, rows)

    def nearest(
        self, exit: int, query: NDArray[np.float32], count: int, rows: NDArray[np.intp] | None
    ) -> NDArray[np.intp] | None:
        return self._index(exit).nearest(query, count, rows)

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        return _places(self._kept.places(self._snapshot).places(track_ids))

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._kept.places(self._snapshot).shots(track_ids)

    def scenes(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        places = self._kept.places(self._snapshot)
        return places.scenes.of(places.shots(track_ids))

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._kept.places(self._snapshot).scenes.sites_of(scenes)

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        return self._kept.places(self._snapshot).scenes.neighbours(segments, NEAR_SECONDS)

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> PickedVectors:
        table = self.stored(exit)
        rows = table.rows_of(crop_ids)
        have = rows[rows >= 0]
        parts = [PickedVectors(table.crop_ids[have], table.track_ids[have], table.vectors[have])]
        if exit in self._fresh:
            fresh = self._fresh[exit]
            pick = np.isin(fresh.crop_ids, crop_ids)
            parts.append(PickedVectors(fresh.crop_ids[pick], fresh.track_ids[pick], fresh.vectors[pick]))
        known = np.concatenate([p.crop_ids for p in parts])
        missing = np.setdiff1d(crop_ids, known)
        note_vectors(exit, len(known), len(missing))
        if len(missing):
            computed = self._compute(missing, exit)
            self._keep(computed, exit)
            parts.append(computed)
        return _joined([p for p in parts if len(p.crop_ids)] or parts[:1])

    def _compute(self, crop_ids: NDArray[np.int64], exit: int) -> PickedVectors:
        ids, owners, vectors = [], [], []
        for batch in self._store.read_crops(crop_ids=crop_ids, batch_size=DEEPEN_BATCH):
            check_stopped()
            vectors.append(self._embedder.embed(pictures_of(batch), exit))
            ids.append(batch.crop_ids)
            owners.append(batch.track_ids)
        if not ids:
            raise UsageError(f"no crop {crop_ids[0]}; see SELECT crop_id FROM crops")
        return PickedVectors(np.concatenate(ids), np.concatenate(owners), np.concatenate(vectors))

    def _keep(self, computed: PickedVectors, exit: int) -> None:
        """Write the vectors to the library for the next query; this query continues with those in memory."""
        old = self._fresh.get(exit)
        self._fresh[exit] = computed if old is None else _joined([old, computed])
        # A library that cannot be written (full disk, read-only) still answers, only more slowly.
        with contextlib.suppress(LibraryWriteError):  # noqa: SIM117
            with self._store.append_embeddings(self._embedder.hash, exit) as writer:
                writer.add(computed.crop_ids, computed.track_ids, computed.vectors)
                writer.commit()


class LateMatcher:
    """The matcher that `make` returns, made when a statement first needs it: plain SQL loads no model."""

    def __init__(
        self,
        make: Callable[[], AlbumMatcher],
        evidence: Callable[[], Sequence[Evidence]],
        places: Callable[[], PlaceTables],
    ) -> None:
        self._make = make
        self._evidence = evidence
        self._places = places

    def match(self, request: MatchRequest) -> Matches:
        if request.contract is None and request.budget is None:
            return self._make().match(request)
        return match_on_terms(self._make(), request, self._evidence())

    def similarity(
        self, image: Image | int, request: MatchRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._make().similarity(image, request)

    def verify(self, first: Image, second: Image) -> tuple[float, int, int]:
        return self._make().verify(first, second)

    def prepare(self, entities: Sequence[str]) -> None:
        self._make().prepare(entities)

    def choices(self, request: MatchRequest) -> Mapping[str, Choice]:
        return self._make().choices(request)

    def tracks(self, track_ids: NDArray[np.int64]) -> pa.Table:
        return _track_rows(*self._places().spans(track_ids))

    def crops(self, track_ids: NDArray[np.int64], crop_ids: NDArray[np.int64]) -> pa.Table:
        _, views = self._places().views(track_ids)
        views = views[np.isin(views["crop_id"], crop_ids)]
        return pa.table({name: views[name] for name in ("crop_id", "frame", "x1", "y1", "x2", "y2")})

    def followed(self, track_ids: NDArray[np.int64], most: int) -> tuple[pa.Table, pa.Table, pa.Table] | None:
        found = self._places().followed(track_ids, most)
        if found is None:
            return None
        ids, columns = found.track_ids, {name: found.boxes[name] for name in BOX.names or ()}
        boxes = pa.table({"segment": segment_of(ids), "track_id": ids, **columns})
        numbers = found.frame_ids & ((1 << LOCAL_BITS) - 1)
        frames = {"segment": segment_of(found.frame_ids), "frame": numbers, "time": found.times}
        return _track_rows(found.ids, found.spans), boxes, pa.table(frames)


def _track_rows(ids: NDArray[np.int64], spans: NDArray[np.void]) -> pa.Table:
    columns = {name: spans[name] for name in SPAN.names or ()}
    return pa.table({"segment": segment_of(ids), "track_id": ids, **columns})


def _places(found: TrackPlaces) -> Places:
    """The views of each track in one row; tracks without a view are left out."""
    seen = np.isin(found.track_ids, found.view_tracks)
    track_ids = found.track_ids[seen]
    keep = np.isin(found.view_tracks, track_ids)
    row = np.searchsorted(track_ids, found.view_tracks[keep])
    counts = np.bincount(row, minlength=len(track_ids))
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    most = int(counts.max(initial=1))
    seconds = np.full((len(track_ids), most), np.inf)
    boxes = np.zeros((len(track_ids), most, 4), np.float32)
    seconds[row, column], boxes[row, column] = found.view_seconds[keep], found.view_boxes_xyxy[keep]
    return Places(track_ids, found.start_seconds[seen], found.end_seconds[seen], seconds, boxes)


def _joined(parts: list[PickedVectors]) -> PickedVectors:
    return PickedVectors(
        np.concatenate([p.crop_ids for p in parts]),
        np.concatenate([p.track_ids for p in parts]),
        np.concatenate([p.vectors for p in parts]),
    )


def unsearched(snapshot: Snapshot, embedder: Embedder) -> tuple[str, ...]:
    """A warning if crops of some videos have no vector of this model, because another model was used."""
    lacking = snapshot.unembedded(embedder.hash)
    count = int(np.isin(snapshot.videos.column("segment").to_numpy(), lacking).sum())
    if not count:
        return ()
    return (
        f"{counted(count, 'video is', 'videos are')} not searched: indexed with another model than "
        f"{embedder.name}; run `{command('index')}` again to embed the stored crops",
    )
