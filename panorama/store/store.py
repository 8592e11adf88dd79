"""One library on disk: segments, exemplars and settings enter, consistent snapshots leave."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.errors import LibraryDamaged, LibraryWriteError, NotYetErased
from panorama.store import opening, priority
from panorama.store.catalog import album, recorded, seen, settings, sightings, videos
from panorama.store.catalog import zones as shapes
from panorama.store.catalog.album import Exemplar, NewExemplar
from panorama.store.catalog.database import write_errors
from panorama.store.catalog.recorded import Recorded, RecordedRow
from panorama.store.catalog.settings import AuditRow, Change, ModelRow
from panorama.store.catalog.videos import KnownFile, VideoRow
from panorama.store.catalog.zones import Zone
from panorama.store.claims import Claims
from panorama.store.files import crops, lost
from panorama.store.files.crops import CropBatch
from panorama.store.files.layout import Place
from panorama.store.files.segments import EmbeddingsWriter, SegmentWriter
from panorama.store.info import LibraryInfo, read_info
from panorama.store.snapshot import Snapshot, Snapshots
from panorama.store.upkeep import erasing, rewrite, sweep
from panorama.store.vectors import index_files

_LIBRARY_ID = "SELECT value FROM meta WHERE key = 'library_id'"


class Store:
    """The library at one path. Open it in as many processes as you like; open it again after a fork."""

    def __init__(self, place: Place) -> None:
        self._place = place
        with place.catalog.read() as tx:
            library_id = str(tx.scalar(_LIBRARY_ID))
        self._snapshots = Snapshots(place, library_id)

    @classmethod
    def create(cls, path: str | Path, *, exist_ok: bool = False) -> Store:
        """A new, empty library; with `exist_ok` the one that is there.

        Raises:
            UsageError: there is a library, or a folder with something else in it.
            LibraryDamaged: there is one but for its catalog.
            LibraryWriteError: the folder cannot be made.
        """
        return cls(opening.made(path, exist_ok))

    @classmethod
    def open(cls, path: str | Path, *, write: bool = True) -> Store:
        """The library at `path`; one of an older version is upgraded, unless `write` is False.

        Raises:
            LibraryNotFound: there is none.
            LibraryVersionError: it was made by a newer version, or is older and opened for reading only.
            LibraryDamaged: its catalog is missing, was emptied, or is damaged; or a link is in the place of a
                folder that is written in.
            LibraryDiskFull: the disk is full, and another process has written what is not in the catalog yet.
        """
        return cls(opening.opened(path, write))

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether there is a library at `path`, of whatever version."""
        return opening.is_at(path)

    @staticmethod
    def is_taken(path: Path) -> bool:
        """Whether something other than a library is at `path`, so that none can be made there.

        Raises:
            PermissionError: it is a folder that may not be read.
        """
        return opening.is_taken(path)

    @property
    def path(self) -> Path:
        """The library's directory."""
        return self._place.root

    @property
    def _changing(self) -> Place:
        """The library, about to be changed: what was taken out before goes first, if its time has come."""
        if self._place.catalog.writable and sweep.is_due(self._place):
            self._snapshots.forget()
            with contextlib.suppress(LibraryWriteError):  # the next one tries again, and `compact` tells it
                sweep.sweep_retired(self._place)
        erasing.try_to_finish(self._place)
        return self._place

    def close(self) -> None:
        """Let go of the library; snapshots already taken stay usable."""
        self._snapshots.close()
        self._place.catalog.close()

    def close_idle(self) -> None:
        """Hold no connection to the catalog until something is asked: none goes into a forked process.

        SQLite there takes the locks of such a connection for its own, and locks nothing: when the other
        process ends, what was written here since is lost with the write-ahead log.
        """
        self._place.catalog.close_idle()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- videos and segments

    def known_file(self, uri: str) -> KnownFile | None:
        """What is known of the file at `uri`: while size and mtime stay, there is no need to hash it."""
        with self._place.catalog.read() as tx:
            return videos.known_file(tx, uri)

    def known_files(self) -> dict[str, KnownFile]:
        """The same of every file, by uri."""
        with self._place.catalog.read() as tx:
            return videos.known_files(tx)

    def known_content(self, content_hash: str) -> KnownFile | None:
        """The same of a file that holds this content, None where none does."""
        with self._place.catalog.read() as tx:
            return videos.known_content(tx, content_hash)

    def lost_contents(self) -> frozenset[str]:
        """Hashes of the videos some of whose rows are gone with a data file: they are to be indexed anew."""
        with self._place.catalog.read() as tx:
            return lost.lost_contents(tx, self.path)

    def attach_video(self, video: VideoRow, settings_hash: str) -> str | None:
        """List a copy, rename or touched file of content that is indexed; its name, or None if it is not.

        What decoding found (size, frames, duration) is taken from the segment.
        """
        with self._place.catalog.write() as tx:
            segment = videos.live_segment(tx, video.content_hash, settings_hash)
            if segment is None:
                return None
            name = videos.place_video(tx, videos.with_facts(tx, video, segment), segment)
            videos.retire_unused(tx, tx.bump("data"))
        return name

    def move_videos(self, moves: Mapping[str, VideoRow], known: Mapping[str, KnownFile]) -> bool:
        """Let rows follow files that were renamed, also over each other's names; all or none.

        Args:
            moves: where each file is now, by the uri that it had.
            known: what that was made from, by uri; where another process has changed one, nothing is stored.
        """
        with self._place.catalog.write() as tx:
            return videos.move_videos(tx, moves, known)

    def recorded(self, names: Collection[str] | None = None) -> list[RecordedRow]:
        """When and by which camera videos were recorded, by name, None for all."""
        with self._place.catalog.read() as tx:
            return recorded.read(tx, names)

    def listed(self) -> pa.Table:
        """The columns video, uri and camera of all videos, also where when one was recorded is damaged."""
        with self._place.catalog.read() as tx:
            return recorded.listed(tx)

    def without_camera(self) -> list[tuple[str, str]]:
        """Name and uri of every video that has no camera."""
        with self._place.catalog.read() as tx:
            return recorded.without_camera(tx)

    def put_recorded(
        self, changes: Mapping[str, Recorded], known: Mapping[str, Recorded] | None = None
    ) -> int | None:
        """Say when and by which camera videos were recorded, by name; how many rows were changed.

        Args:
            known: what the changes were made from; where another process has changed one of these videos
                meanwhile, nothing is stored, and None is returned: make the changes again.
        """
        if not changes:
            return 0
        with self._changing.catalog.write() as tx:
            return recorded.put(tx, changes, known)

    def begin_segment(self, content_hash: str, settings_hash: str) -> SegmentWriter:
        """Start writing what one video gives; nothing is visible before its `commit`."""
        return SegmentWriter(self._place, content_hash, settings_hash)

    def remove_videos(self, names: Sequence[str]) -> None:
        """Take videos out, all or none; their bytes go with the first change after `sweep.GRACE_SECONDS`.

        Raises:
            UnknownVideo: there is none of one of these names.
        """
        if not names:
            return
        with self._changing.catalog.write() as tx:
            for name in names:
                videos.delete_video(tx, name)
            videos.retire_unused(tx, tx.bump("data"))
            sightings.clear(tx)
        rewrite.drop_dead(self._place)

    # -- reading

    def snapshot(self) -> Snapshot:
        """One consistent view of everything a query needs; the same object while nothing changes."""
        return self._snapshots.take()

    def read_crops(
        self,
        crop_ids: NDArray[np.int64] | None = None,
        segments: NDArray[np.integer] | None = None,
        batch_size: int = 256,
        on_damage: Callable[[LibraryDamaged], None] | None = None,
    ) -> Iterator[CropBatch]:
        """Stored JPEGs by crop id, or of whole segments, in batches.

        Args:
            on_damage: gets the errors of data files that are lost, instead of their crops; None to raise.
        """
        return crops.read_crops(self._place, crop_ids, segments, batch_size, on_damage)

    def append_embeddings(self, model_hash: str, exit: int) -> EmbeddingsWriter:
        """Add vectors to stored crops, of many videos in one file."""
        return EmbeddingsWriter(self._place, model_hash, exit)

    # -- the album

    def add_exemplars(self, entity: str, items: Sequence[NewExemplar]) -> list[int]:
        """Register pictures, creating the entity if it is new; their ids."""
        return album.add_exemplars(self._changing, entity, items)

    def add_album(
        self, entries: Mapping[str, Sequence[NewExemplar]], category: bool | None = None
    ) -> list[list[int]]:
        """Register pictures of several entities, all or none; their ids."""
        return album.add_album(self._changing, entries, category)

    def entities(self) -> list[str]:
        """All names, sorted."""
        with self._place.catalog.read() as tx:
            return album.entity_names(tx)

    def exemplars(self, entity: str) -> list[Exemplar]:
        """Pictures of an entity; UnknownEntity with near names."""
        with self._place.catalog.read() as tx:
            return album.exemplars(tx, self.path, entity)

    def reviewed(self, content_hash: str) -> list[seen.Reviewed]:
        """What somebody said of answers from a video's content, in order of time."""
        with self._place.catalog.read() as tx:
            return seen.reviewed(tx, content_hash)

    def rename_entity(self, entity: str, new: str) -> None:
        """Give an entity another name."""
        album.rename_entity(self._changing, entity, new)

    def set_category(self, entity: str, category: bool) -> None:
        """Say whether an entity stands for any of its kind, or for one individual."""
        album.set_category(self._changing, entity, category)

    def remove_exemplars(self, exemplar_ids: Iterable[int]) -> None:
        """Unregister pictures, all or none."""
        album.remove_exemplars(self._changing, exemplar_ids)

    def drop_entity(self, entity: str) -> None:
        """Unregister an entity."""
        album.drop_entity(self._changing, entity)

    def forget_entity(self, entity: str, track_ids: NDArray[np.int64] | None = None) -> None:
        """Erase an entity, its bytes too; with `track_ids` also their crops and vectors, and all not live.

        Where erasing its tracks broke off before, those of then go, too.

        Raises:
            UnknownEntity: there is none.
            LibraryDamaged, LibraryWriteError: nothing is forgotten yet; the same call again goes on.
            NotYetErased: it is forgotten, and bytes of it are left that a later change or `compact` erases.
        """
        tracks = erasing.erase_with(self._place, entity, track_ids)
        detail = "exemplars" if tracks is None else f"exemplars and {len(tracks)} tracks' crops"
        album.forget_entity(self._changing, entity, detail)
        try:
            erasing.finish(self._place)
        except LibraryWriteError as exc:
            raise NotYetErased(f"{entity!r} is forgotten, but not erased yet: {exc}") from exc

    def being_forgotten(self, entity: str) -> NDArray[np.int64]:
        """(T,) ids of tracks that were to be erased with an entity, where that broke off."""
        with self._place.catalog.read() as tx:
            return album.noted_tracks(tx, entity)

    def missing_exemplar_vectors(self, model_hash: str, exits: int, views: int) -> list[Exemplar]:
        """Registered pictures with fewer than `views` vectors at one of the exits 1 to `exits` of a model."""
        with self._place.catalog.read() as tx:
            return album.missing_exemplar_vectors(tx, self.path, model_hash, exits, views)

    def put_exemplar_vectors(self, vectors: Mapping[int, album.Vectors]) -> None:
        """Add vectors of registered pictures: exemplar id → (model_hash, exit) → (V, dim)."""
        album.put_exemplar_vectors(self._place, vectors)

    # -- small values

    def setting(self, key: str, default: Any = None) -> Any:
        """A stored JSON value."""
        with self._place.catalog.read() as tx:
            return settings.get(tx, key, default)

    def put_setting(self, key: str, value: Any) -> None:
        """Store a JSON value (calibration, defaults); None removes it."""
        with self._place.catalog.write() as tx:
            settings.put(tx, key, value)

    def change_settings(self, change: Change) -> None:
        """Store what stored JSON values become, in one transaction: none that another process kept is lost.

        Args:
            change: of all values by key, those to store; None removes one. Called more than once, with values
                that are its own.
        """
        with self._place.catalog.read() as tx:
            kept = settings.read_all(tx)
        if all(kept.get(key) == value for key, value in change(copy.deepcopy(kept)).items()):
            return  # who changes nothing does not wait for who writes
        with self._place.catalog.write() as tx:
            for key, value in change(settings.read_all(tx)).items():
                settings.put(tx, key, value)

    def check_writable(self) -> None:
        """LibraryWriteError where nothing can be stored: no permission, or another writer that stays."""
        with self._place.catalog.write():
            pass

    def put_model(self, model: ModelRow) -> None:
        """Remember what a model hash stands for."""
        with self._place.catalog.write() as tx:
            settings.put_model(tx, model)

    def models(self) -> list[ModelRow]:
        """Models used here."""
        with self._place.catalog.read() as tx:
            return settings.models(tx)

    def cached_sightings(self, entity: str, key: str) -> bytes | None:
        """What was cached of an entity; the key holds all that changes it."""
        with self._place.catalog.read() as tx:
            return sightings.get(tx, entity, key)

    def cache_sightings(self, entity: str, key: str, value: bytes) -> None:
        """Cache something of an entity, unless the library is open for reading only."""
        if self._place.catalog.writable:
            with self._place.catalog.write(durable=False) as tx:
                sightings.put(tx, entity, key, value)

    def put_zones(self, zones: Sequence[Zone]) -> None:
        """Store or replace named shapes of cameras, all or none."""
        with self._changing.catalog.write() as tx:
            shapes.put_zones(tx, zones)

    def zones(self) -> tuple[Zone, ...]:
        """All named shapes."""
        with self._place.catalog.read() as tx:
            return shapes.zones(tx)

    def zone_names(self) -> list[tuple[str, str]]:
        """Camera and name of all named shapes, also of those whose points are damaged."""
        with self._place.catalog.read() as tx:
            return [(camera, name) for camera, name, _ in shapes.zone_names(tx)]

    def drop_zone(self, camera: str, name: str) -> None:
        """Remove a named shape."""
        with self._changing.catalog.write() as tx:
            shapes.drop_zone(tx, camera, name)

    def rename_zone(self, camera: str, name: str, new: str) -> None:
        """Give a named shape another name."""
        with self._changing.catalog.write() as tx:
            shapes.rename_zone(tx, camera, name, new)

    def move_zone(self, camera: str, name: str, to: str) -> None:
        """Give a named shape to another camera."""
        with self._changing.catalog.write() as tx:
            shapes.move_zone(tx, camera, name, to)

    def audit(self) -> list[AuditRow]:
        """What was erased."""
        with self._place.catalog.read() as tx:
            return settings.audit_rows(tx)

    # -- who goes first

    def asking(self) -> AbstractContextManager[None]:
        """Mark that a query runs, for a block; indexing in any process stands back meanwhile."""
        return priority.asking(self._place.locks)

    def marks(self) -> priority.Marks:
        """What sees whether a query runs, for as long as it is not closed.

        Raises:
            LibraryWriteError: there is no room or no right to make its file.
        """
        with write_errors(self._place.root):
            return priority.Marks(self._place.locks)

    def claims(self) -> Claims:
        """What sees to it that no two processes do the same work; close it when the work is done."""
        return Claims(self._place.locks)

    # -- upkeep

    def sweep(self, grace_seconds: float = sweep.GRACE_SECONDS) -> sweep.Swept:
        """Delete what crashed writers left, and replaced files that no reader can hold."""
        self._snapshots.forget()
        erasing.try_to_finish(self._place)
        return sweep.sweep(self._place, grace_seconds)

    def drop_outdated(self, snapshot: Snapshot) -> None:
        """Delete what was made of a snapshot in index/, where a video was removed meanwhile."""
        index_files.drop_outdated(self._place, snapshot.live_segments)

    def compact(
        self,
        target_bytes: int = rewrite.TARGET_BYTES,
        least_files: int = 1,
        wait: Callable[[], None] = lambda: None,
    ) -> int:
        """Sweep, and merge small data files into large ones, `least_files` or more at a time; how many.

        Args:
            wait: called before every piece of rows: where work pauses for others.
        """
        self.sweep()
        return rewrite.compact(self._place, target_bytes, least_files, wait)

    def erase_forgotten(self) -> None:
        """Erase what forgetting left on the disk, if anything; who reads or writes is waited for.

        Raises:
            LibraryWriteError: it cannot be erased yet.
        """
        erasing.finish(self._place)

    def info(self) -> LibraryInfo:
        """Counts, sizes, models."""
        return read_info(self._place)
