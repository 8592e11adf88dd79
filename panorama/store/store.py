"""Segments, exemplars and settings of one library come in and are stored; consistent snapshots go out."""

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
from panorama.store.catalog import album, erasures, recorded, seen, settings, sightings, videos
from panorama.store.catalog import zones as shapes
from panorama.store.catalog.album import Exemplar, NewExemplar
from panorama.store.catalog.database import write_errors
from panorama.store.catalog.erasures import Going
from panorama.store.catalog.recorded import Recorded, RecordedRow
from panorama.store.catalog.settings import Change, ModelRow
from panorama.store.catalog.videos import KnownFile, VideoRow
from panorama.store.catalog.zones import Zone
from panorama.store.claims import Claims
from panorama.store.files import crops, lost
from panorama.store.files.crops import CropBatch
from panorama.store.files.layout import Place
from panorama.store.files.permissions import check_rewritable
from panorama.store.files.picture_names import picture_names
from panorama.store.files.segments import EmbeddingsWriter, SegmentWriter
from panorama.store.info import LibraryInfo, read_info
from panorama.store.scenes.overlapping import Overlapping, overlapping
from panorama.store.scenes.places import PlaceTables
from panorama.store.snapshot import Snapshot, Snapshots
from panorama.store.upkeep import erasing, rewrite, sweep
from panorama.store.vectors import index_files

_LIBRARY_ID = "SELECT value FROM meta WHERE key = 'library_id'"


class Store:
    """The library at one path. Any number of processes may open it; open it again after a fork."""

    def __init__(self, place: Place) -> None:
        self._place = place
        with place.catalog.read() as tx:
            library_id = str(tx.scalar(_LIBRARY_ID))
        self._snapshots = Snapshots(place, library_id)

    @classmethod
    def create(cls, path: str | Path, *, exist_ok: bool = False) -> Store:
        """Create an empty library; with `exist_ok`, open one that is already there.

        Raises:
            UsageError: there is a library already, or a folder with other contents.
            LibraryDamaged: the folder holds a library whose catalog is missing.
            LibraryWriteError: the folder cannot be created.
        """
        return cls(opening.made(path, exist_ok))

    @classmethod
    def open(cls, path: str | Path, *, write: bool = True) -> Store:
        """Open the library at `path`; upgrade an older version unless `write` is False.

        Without write permission it is opened for reading only.

        Raises:
            LibraryNotFound: there is no library.
            LibraryVersionError: it was made by a newer version, or is older and opened for reading only.
            LibraryDamaged: its catalog is missing, empty or damaged, or a folder to write in is a link.
            LibraryDiskFull: the disk is full, and the log holds changes that are not in the catalog yet.
        """
        return cls(opening.opened(path, write))

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether there is a library at `path`, of any version; True if the folder may not be read."""
        return opening.is_at(path)

    @staticmethod
    def is_taken(path: Path) -> bool:
        """Whether `path` has contents that keep a library from being created there.

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
        """The library before a change: first finish erasing, and delete retired files that are due."""
        if self._place.catalog.writable and sweep.is_due(self._place):
            self._snapshots.forget()
            with contextlib.suppress(LibraryWriteError):  # the next change tries again; `compact` reports it
                sweep.sweep_retired(self._place)
        erasing.try_to_finish(self._place)
        return self._place

    def close(self) -> None:
        """Close the library; snapshots already taken stay usable."""
        self._snapshots.close()
        self._place.catalog.close()

    def close_idle(self) -> None:
        """Close the idle connections to the catalog before a fork, so that the child inherits none.

        SQLite in the child would take the locks of an inherited connection for its own and lock nothing. When
        the parent closes the library, it would delete the log with all that the child has written since.
        """
        self._place.catalog.close_idle()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- videos and segments

    def known_file(self, uri: str) -> KnownFile | None:
        """What the library knows about the file at `uri`: an unchanged file need not be hashed again."""
        with self._place.catalog.read() as tx:
            return videos.known_file(tx, uri)

    def known_files(self) -> dict[str, KnownFile]:
        """What the library knows about every file, by uri."""
        with self._place.catalog.read() as tx:
            return videos.known_files(tx)

    def known_content(self, content_hash: str) -> KnownFile | None:
        """What the library knows about some file with this content, None if it has none."""
        with self._place.catalog.read() as tx:
            return videos.known_content(tx, content_hash)

    def lost_contents(self) -> frozenset[str]:
        """Content hashes of videos that lost rows other than vectors, and must be indexed again."""
        with self._place.catalog.read() as tx:
            return lost.lost_contents(tx, self.path)

    def unlist_lost_vectors(self) -> list[Path]:
        """Unlist and return the lost files of vectors: their crops count as not embedded from then on."""
        return lost.unlist_lost_vectors(self._place)

    def attach_video(self, video: VideoRow, settings_hash: str) -> str | None:
        """List a copied, renamed or touched file whose content is indexed; return its name.

        Size, frames and duration are taken over from the segment. None if no live segment has this content
        with these settings, or if the file was removed since it was examined.
        """
        with self._place.catalog.write() as tx:
            segment = videos.live_segment(tx, video.content_hash, settings_hash)
            if segment is None or videos.was_removed(tx, video):
                return None
            name = videos.place_video(tx, videos.with_facts(tx, video, segment), segment)
            videos.retire_unused(tx, tx.bump("data"))
        return name

    def moved_from(self, video: VideoRow) -> str | None:
        """The name so far of the video that a new file is, moved; None if it is a copy, or not new."""
        with self._place.catalog.read() as tx:
            return videos.moved_from(tx, video)

    def move_videos(self, moves: Mapping[str, VideoRow], known: Mapping[str, KnownFile]) -> bool:
        """Let rows follow files that were renamed, even to each other's names; see `videos.move_videos`."""
        with self._place.catalog.write() as tx:
            return videos.move_videos(tx, moves, known)

    def recorded(self, names: Collection[str] | None = None) -> list[RecordedRow]:
        """When and by which camera videos were recorded, in order of name; None for all videos."""
        with self._place.catalog.read() as tx:
            return recorded.read(tx, names)

    def listed(self) -> pa.Table:
        """The columns video, uri and camera of all videos; works even if stored times are damaged."""
        with self._place.catalog.read() as tx:
            return recorded.listed(tx)

    def word_for(self, name: str) -> str:
        """What a command names one video by, and not what lies in its folder."""
        with self._place.catalog.read() as tx:
            return recorded.word_for(tx, name)

    def without_camera(self) -> list[tuple[str, str]]:
        """Name and uri of every video without a camera."""
        with self._place.catalog.read() as tx:
            return recorded.without_camera(tx)

    def picture_names(self, segment: int) -> list[str | None]:
        """The names of the pictures of a folder, by number; see `panorama.store.files.picture_names`."""
        return picture_names(self._place, segment)

    def put_recorded(
        self, changes: Mapping[str, Recorded], known: Mapping[str, Recorded] | None = None
    ) -> int | None:
        """Store when and by which camera videos were recorded, by name; return how many rows changed.

        Args:
            known: the values that the changes were made from. If another process has changed one of these
                videos, nothing is stored and None is returned: compute the changes again.
        """
        if not changes:
            return 0
        with self._changing.catalog.write() as tx:
            return recorded.put(tx, changes, known)

    def clear_times(self, names: Collection[str]) -> int:
        """Make the recording times of videos unknown, even damaged ones; return how many rows changed."""
        with self._changing.catalog.write() as tx:
            return recorded.clear_times(tx, names)

    def begin_segment(self, content_hash: str, settings_hash: str) -> SegmentWriter:
        """Start writing the rows of one video; nothing is visible before its `commit`."""
        return SegmentWriter(self._place, content_hash, settings_hash)

    def remove_videos(self, names: Sequence[str]) -> None:
        """Remove videos, all or none; the first change after `sweep.GRACE_SECONDS` deletes their bytes.

        Raises:
            UnknownVideo: one of these names does not exist; nothing is removed.
            LibraryWriteError: nothing is removed, or the videos are removed but files that also hold others
                could not be rewritten; the message says which.
        """
        if not names:
            return
        check_rewritable(self._place)
        with self._changing.catalog.write() as tx:
            for name in names:
                videos.delete_video(tx, name)
            videos.retire_unused(tx, tx.bump("data"))
            sightings.clear(tx)
        rewrite.drop_dead(self._place)

    # -- reading

    def snapshot(self) -> Snapshot:
        """One consistent view of everything that a query needs; the same object while nothing changes."""
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
        """Add vectors to stored crops, of many videos in one file; not to crops erased before the commit."""
        return EmbeddingsWriter(self._place, model_hash, exit)

    # -- the album

    def add_exemplars(self, entity: str, items: Sequence[NewExemplar]) -> list[int]:
        """Register pictures of one entity, creating it if it is new; return their ids."""
        return album.add_exemplars(self._changing, entity, items)

    def add_album(
        self,
        entries: Mapping[str, Sequence[NewExemplar]],
        category: bool | None = None,
        known: bool | None = None,
    ) -> list[list[int]]:
        """Register pictures of several entities, all or none; return their ids. See `album.add_album`."""
        return album.add_album(self._changing, entries, category, known)

    def entities(self) -> list[str]:
        """All names of entities, sorted."""
        with self._place.catalog.read() as tx:
            return album.entity_names(tx)

    def exemplars(self, entity: str) -> list[Exemplar]:
        """The pictures of an entity; UnknownEntity, with similar names, if there is no such entity."""
        with self._place.catalog.read() as tx:
            return album.exemplars(tx, self.path, entity)

    def reviewed(self, content_hash: str) -> list[seen.Reviewed]:
        """The answers of users about a video's content, in order of their time in the video."""
        with self._place.catalog.read() as tx:
            return seen.reviewed(tx, self.path, content_hash)

    def rename_entity(self, entity: str, new: str) -> None:
        """Give an entity another name."""
        album.rename_entity(self._changing, entity, new)

    def set_category(self, entity: str, category: bool) -> None:
        """Set whether an entity stands for any of its kind or for one individual."""
        album.set_category(self._changing, entity, category)

    def remove_exemplars(self, exemplar_ids: Iterable[int]) -> None:
        """Unregister pictures, all or none; of no pictures, who may only read can ask it, too."""
        if given := list(exemplar_ids):
            album.remove_exemplars(self._changing, given)

    def drop_entity(self, entity: str) -> None:
        """Unregister an entity."""
        album.drop_entity(self._changing, entity)

    def forget_entity(
        self,
        entity: str,
        track_ids: NDArray[np.int64] | None = None,
        crop_ids: NDArray[np.int64] | None = None,
    ) -> None:
        """Erase an entity including its bytes on disk.

        With `track_ids`, also erase the crops and vectors of these tracks, single crops of others
        (`crop_ids`), and all rows that are not live. What an interrupted erasure was to erase goes, too.

        Raises:
            UnknownEntity: there is no such entity.
            LibraryDamaged, LibraryWriteError: the entity is not forgotten yet; the same call continues.
            NotYetErased: it is forgotten, but bytes are left; a later change or `compact` erases them.
        """
        going = None if track_ids is None else Going.of(track_ids, [] if crop_ids is None else crop_ids)
        erased = erasing.erase_with(self._place, entity, going)
        album.forget_entity(self._changing, entity, erasing.told(erased))
        try:
            erasing.finish(self._place)
        except LibraryWriteError as exc:
            raise NotYetErased(f"{entity!r} is forgotten, but not erased yet: {exc}") from exc

    def being_forgotten(self, entity: str) -> Going:
        """What an interrupted erasure of an entity was to erase; nothing without one."""
        with self._place.catalog.read() as tx:
            return erasures.noted(tx, album.id_of(tx, entity))

    def overlapping(self, track_ids: NDArray[np.int64], alike: NDArray[np.int64]) -> Overlapping:
        """The crops of other tracks that show the same place at the same time as some tracks."""
        return overlapping(PlaceTables(self.snapshot()), track_ids, alike)

    def missing_exemplar_vectors(self, model_hash: str, exits: int, views: int) -> list[Exemplar]:
        """Registered pictures with fewer than `views` vectors at any of the exits 1 to `exits` of a model."""
        with self._place.catalog.read() as tx:
            return album.missing_exemplar_vectors(tx, self.path, model_hash, exits, views)

    def put_exemplar_vectors(self, vectors: Mapping[int, album.Vectors]) -> None:
        """Add or replace vectors of registered pictures: exemplar id → (model_hash, exit) → (V, dim)."""
        album.put_exemplar_vectors(self._place, vectors)

    # -- small values

    def setting(self, key: str, default: Any = None) -> Any:
        """A stored JSON value, or `default`."""
        with self._place.catalog.read() as tx:
            return settings.get(tx, key, default)

    def put_setting(self, key: str, value: Any) -> None:
        """Store a JSON value (calibration, defaults); None removes it."""
        with self._place.catalog.write() as tx:
            settings.put(tx, key, value)

    def change_settings(self, change: Change) -> None:
        """Change stored JSON values in one transaction, so that no change by another process is lost.

        Args:
            change: returns the values to store, given all values, both by key; None removes one. It is called
                up to twice, each time with a copy that it may modify.
        """
        with self._place.catalog.read() as tx:
            kept = settings.read_all(tx)
        if all(kept.get(key) == value for key, value in change(copy.deepcopy(kept)).items()):
            return  # nothing changes, so do not wait for other writers
        with self._place.catalog.write() as tx:
            for key, value in change(settings.read_all(tx)).items():
                settings.put(tx, key, value)

    def check_writable(self) -> None:
        """Raise LibraryWriteError if nothing can be stored: no permission, or another writer that stays."""
        with self._place.catalog.write():
            pass

    def put_model(self, model: ModelRow) -> None:
        """Store what a model hash stands for."""
        with self._place.catalog.write() as tx:
            settings.put_model(tx, model)

    def models(self) -> list[ModelRow]:
        """All models ever used in this library."""
        with self._place.catalog.read() as tx:
            return settings.models(tx)

    def cached_sightings(self, entity: str, key: str) -> bytes | None:
        """The cached bytes of an entity, or None; the key must name everything that they depend on."""
        with self._place.catalog.read() as tx:
            return sightings.get(tx, entity, key)

    def cache_sightings(self, entity: str, key: str, value: bytes) -> None:
        """Cache bytes of an entity, unless the library is open for reading only."""
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
        """Camera and name of all named shapes, including those with damaged points."""
        with self._place.catalog.read() as tx:
            return [(camera, name) for camera, name, _ in shapes.zone_names(tx)]

    def drop_zone(self, camera: str, name: str) -> None:
        """Remove a named shape."""
        with self._changing.catalog.write() as tx:
            shapes.drop_zone(tx, camera, name)

    def rename_zones(self, cameras: Sequence[str], name: str, new: str) -> None:
        """Give the shapes of some cameras another name, all or none."""
        with self._changing.catalog.write() as tx:
            for camera in cameras:
                shapes.rename_zone(tx, camera, name, new)

    def move_zone(self, camera: str, name: str, to: str) -> None:
        """Move a named shape to another camera."""
        with self._changing.catalog.write() as tx:
            shapes.move_zone(tx, camera, name, to)

    # -- who goes first

    def asking(self) -> AbstractContextManager[None]:
        """Mark that a query runs, for a block; indexing in any process pauses meanwhile."""
        return priority.asking(self._place.locks)

    def marks(self) -> priority.Marks:
        """An object that sees whether a query runs; close it after use.

        Raises:
            LibraryWriteError: no room or no permission for its file.
        """
        with write_errors(self._place.root):
            return priority.Marks(self._place.locks)

    def claims(self) -> Claims:
        """Claims keep two processes from doing the same work; close them when the work is done."""
        return Claims(self._place.locks)

    # -- upkeep

    def sweep(self, grace_seconds: float = sweep.GRACE_SECONDS) -> sweep.Swept:
        """Delete what crashed writers left, and retired files that no reader can use."""
        self._snapshots.forget()
        erasing.try_to_finish(self._place)
        return sweep.sweep(self._place, grace_seconds)

    def is_stored(self, snapshot: Snapshot) -> bool:
        """Whether all crops of a snapshot are still stored, in the same files."""
        return index_files.is_stored(self._place, snapshot)

    def compact(
        self,
        target_bytes: int = rewrite.TARGET_BYTES,
        least_files: int = 1,
        wait: Callable[[], None] = lambda: None,
    ) -> int:
        """Sweep, then merge small data files into large ones; return how many files were replaced.

        Args:
            least_files: leave a group of files alone if it has fewer.
            wait: called before every piece of rows, so that the work can pause for queries.
        """
        self.sweep()
        return rewrite.compact(self._place, target_bytes, least_files, wait)

    def erase_forgotten(self) -> None:
        """Erase what forgetting left on the disk, if anything; wait for readers and writers.

        Raises:
            LibraryWriteError: it cannot be erased yet.
        """
        erasing.finish(self._place)

    def info(self) -> LibraryInfo:
        """Counts, sizes, models and erasures of the library."""
        return read_info(self._place)
