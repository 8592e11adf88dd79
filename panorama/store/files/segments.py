"""Frames, tracks, boxes, crops and vectors of one video come in; one atomic commit makes them visible.

After a crash at any point the library is as before, or has the complete segment: readers see no file before
one catalog transaction lists all of them.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from panorama.errors import LibraryWriteError
from panorama.store.catalog import videos
from panorama.store.catalog.database import Transaction, write_errors
from panorama.store.catalog.videos import VideoRow
from panorama.store.files import crops
from panorama.store.files.layout import Place
from panorama.store.files.locks import FileLock
from panorama.store.files.schema import CUT, ENDS_SHAPE, check_segment, pack_ids, segment_of, table_format
from panorama.store.files.tablefile import TableFile

_NEW_SEGMENT = """
INSERT INTO segments (content_hash, settings_hash, state, created_at)
VALUES (:content_hash, :settings_hash, 'writing', :now) RETURNING segment_id
"""
_GO_LIVE = """
UPDATE segments SET state = 'live', frames = :frames, tracks = :tracks, boxes = :boxes, crops = :crops,
    cuts = :cuts, ends = :ends
WHERE segment_id = :segment AND state = 'writing'
"""
_GIVE_UP = "UPDATE segments SET state = 'retired' WHERE segment_id = :segment AND state = 'writing'"
_LIST_FILE = """
INSERT INTO files (table_name, path, model_hash, exit, dim, row_count, bytes)
VALUES (:table_name, :path, :model_hash, :exit, :dim, :row_count, :bytes) RETURNING file_id
"""
_LIST_SEGMENT = (
    "INSERT INTO file_segments (file_id, segment_id, row_count) VALUES (:file, :segment, :row_count)"
)
ABORT_WAIT_SECONDS = 1.0
"""How long to wait for another writer of the catalog once something went wrong."""
_IS_LISTED = "SELECT 1 FROM files WHERE path = :path"


class FileSet:
    """The unlisted files of one writer, with a lock that tells sweeps to leave them alone.

    No file name is ever used twice, so that data derived from a file can be cached under its name. Segment
    numbers alone would not do: they repeat after an older catalog was restored.

    Args:
        token: beginning of the file names, unique among living writers.
        drawn: a random part of the names, if the token is not random itself.
    """

    def __init__(self, place: Place, token: str, drawn: str = "") -> None:
        self.place = place
        self.token = token
        self._stem = f"{token}-{drawn}" if drawn else token
        self._files: dict[tuple[str, str | None, int | None], TableFile] = {}
        self._dims: dict[tuple[str, str | None, int | None], int | None] = {}
        with write_errors(place.root):
            self._lock = FileLock.take(place.writer_lock(token))

    def add(
        self,
        table: str,
        columns: Mapping[str, Any],
        model_hash: str | None = None,
        exit: int | None = None,
        dim: int | None = None,
    ) -> int:
        """Append rows to the file of a table (for embeddings: of a model and exit); return how many."""
        key = (table, model_hash, exit)
        with write_errors(self.place.root):
            if key not in self._files:
                suffix = "" if model_hash is None else f"-{file_safe(model_hash)}-e{exit}"
                form = table_format(table, dim)
                self._files[key] = TableFile(self.place.data / table, f"{self._stem}{suffix}.parquet", form)
                self._dims[key] = dim
            return self._files[key].add(columns)

    def rows(self, table: str) -> int:
        """How many rows were added to a table so far."""
        return sum(file.rows for (name, _, _), file in self._files.items() if name == table)

    def finish(self) -> list[dict[str, Any]]:
        """Complete all files under their final names; return what the catalog must list, see `list_files`."""
        listed = []
        with write_errors(self.place.root):
            for (table, model_hash, exit), file in self._files.items():
                size = file.finish()
                listed.append(
                    {
                        "table_name": table,
                        "path": str(file.path.relative_to(self.place.root)),
                        "model_hash": model_hash,
                        "exit": exit,
                        "dim": self._dims[table, model_hash, exit],
                        "row_count": file.rows,
                        "bytes": size,
                        "segment_rows": file.segment_rows,
                    }
                )
        return listed

    def written(self) -> Iterator[pa.Table]:
        """The rows of the finished files, in pieces."""
        for file in self._files.values():
            with write_errors(self.place.root), pq.ParquetFile(file.path) as parquet:
                for group in range(parquet.num_row_groups):
                    yield parquet.read_row_group(group)

    def discard(self) -> bool:
        """Delete all files and drop the lock; keep the files and return False if the catalog lists them.

        It may list them if an interrupt came after the commit but before the caller knew of it.
        """
        try:
            paths = [str(file.path.relative_to(self.place.root)) for file in self._files.values()]
            with self.place.catalog.read() as tx:
                listed = any(tx.row(_IS_LISTED, path=path) is not None for path in paths)
            if not listed:
                for file in self._files.values():
                    file.discard()
        finally:
            self.release()  # after an error, too: with the lock gone, a sweep deletes what is not listed
        return not listed

    def release(self) -> None:
        """Drop the lock; by now the files are listed or deleted."""
        self._files = {}
        self._lock.release()


def file_safe(model_hash: str) -> str:
    """The beginning of a model hash in a form that fits into file names."""
    return "".join(c if c.isalnum() else "_" for c in model_hash[:16])


def list_files(tx: Transaction, listed: Sequence[Mapping[str, Any]]) -> None:
    """List finished files in the catalog; `listed` as `FileSet.finish` returns it."""
    for entry in listed:
        values = {key: value for key, value in entry.items() if key != "segment_rows"}
        file_id = int(tx.scalar(_LIST_FILE, **values))
        tx.run_many(
            _LIST_SEGMENT,
            [
                {"file": file_id, "segment": segment, "row_count": rows}
                for segment, rows in entry["segment_rows"].items()
            ],
        )


class SegmentWriter:
    """Writes the segment of one video; leaving its `with` block without `commit` aborts.

    Attributes:
        place: the library's.
        segment: its number, which track and crop ids carry in their upper 32 bits (see `pack`).
    """

    def __init__(self, place: Place, content_hash: str, settings_hash: str) -> None:
        self.place = place
        self._content_hash = content_hash
        with place.catalog.write() as tx:
            self.segment = int(
                tx.scalar(
                    _NEW_SEGMENT, content_hash=content_hash, settings_hash=settings_hash, now=time.time()
                )
            )
        self._files = FileSet(place, f"s{self.segment:08d}", uuid.uuid4().hex)
        self._cuts: list[int] = []
        self._ends: bytes | None = None
        self._listed: list[dict[str, Any]] | None = None
        self._done = False

    def pack(self, local: ArrayLike) -> NDArray[np.int64]:
        """Library-wide track or crop ids from numbers within this segment."""
        return pack_ids(self.segment, local)

    def add_frames(self, frame: ArrayLike, pts: ArrayLike, time: ArrayLike) -> None:
        """Append decoded frames: number from 0, raw pts, seconds since the first frame; each (N,)."""
        self._add("frames", {"frame": frame, "pts": pts, "time": time})

    def add_pictures(self, frame: ArrayLike, picture: Sequence[str]) -> None:
        """Append the file name of each frame (N,) of a folder of pictures."""
        self._add("pictures", {"frame": frame, "picture": picture})

    def add_cuts(self, frames: Sequence[int]) -> None:
        """Append the numbers of frames that begin a new shot, in any order."""
        self._cuts += frames

    def put_ends(self, ends: NDArray[np.uint8]) -> None:
        """Set the brightness (2, 9, 16), uint8, of the first and the last sampled picture."""
        if ends.shape != ENDS_SHAPE or ends.dtype != np.uint8:
            raise ValueError(f"ends are uint8 of {ENDS_SHAPE}, got {ends.dtype} of {ends.shape}")
        self._ends = ends.tobytes()

    def add_tracks(self, columns: Mapping[str, Any]) -> None:
        """Append tracks: track_id, start_frame, end_frame, start_time, end_time (half-open), samples."""
        self._add("tracks", columns)

    def add_boxes(self, columns: Mapping[str, Any]) -> None:
        """Append sampled boxes: track_id, frame, time, x1, y1, x2, y2, score."""
        self._add("boxes", columns)

    def add_crops(self, columns: Mapping[str, Any]) -> None:
        """Append crops: crop_id, track_id, frame, time, x1, y1, x2, y2, quality, jpeg."""
        self._add("crops", columns)

    def add_embeddings(
        self,
        model_hash: str,
        exit: int,
        crop_id: ArrayLike,
        track_id: ArrayLike,
        vectors: NDArray[np.float32],
    ) -> None:
        """Append vectors (N, dim) of crops at one exit of one model."""
        add_vectors(self._files, model_hash, exit, crop_id, track_id, vectors, self.segment)

    def _add(self, table: str, columns: Mapping[str, Any]) -> None:
        for name in ("track_id", "crop_id"):
            if name in columns:
                check_segment(name, columns[name], self.segment)
        rows = len(next(iter(columns.values()))) if columns else 0
        self._files.add(table, {"segment": np.full(rows, self.segment, np.int32), **columns})

    def finish(self) -> None:
        """Complete the files on disk, so that a commit only has to list them; add nothing afterwards.

        Raises:
            LibraryWriteError: for example a full disk.
        """
        if self._listed is None:
            self._listed = self._files.finish()

    def commit(self, video: VideoRow) -> str | None:
        """Make the segment visible and retire what it replaces; return the video's name in the library.

        All files with the same content share the new segment. None if the video was removed meanwhile
        (`videos.was_removed`): nothing is stored.

        Raises:
            ValueError: already committed or aborted, or the video has another content hash.
            LibraryWriteError: for example a full disk; the library is as before.
        """
        try:
            return commit_together([(self, video)])[0]
        except BaseException:
            self.abort()
            raise

    def check(self, video: VideoRow) -> None:
        """Raise ValueError if the segment is committed or aborted, or the video has another content hash."""
        if self._done:
            raise ValueError(f"segment {self.segment} is already committed or aborted")
        if video.content_hash != self._content_hash:
            raise ValueError(f"segment of {self._content_hash}, but the video is {video.content_hash}")

    def place_in(self, tx: Transaction, video: VideoRow) -> str | None:
        """List the finished files and the video, whose name in the library is returned; see `commit`."""
        assert self._listed is not None
        if videos.was_removed(tx, video):
            tx.run(_GIVE_UP, segment=self.segment)
            return None
        self._go_live(
            tx, {table: self._files.rows(table) for table in ("frames", "tracks", "boxes", "crops")}
        )
        list_files(tx, self._listed)
        name = videos.place_video(tx, video, self.segment)
        videos.move_copies(tx, video, self.segment)
        return name

    def release(self) -> None:
        """Drop the writer's lock; the segment is committed."""
        self._done = True
        self._files.release()

    def _go_live(self, tx: Transaction, counts: Mapping[str, int]) -> None:
        """Make the segment live and store how many rows of each table it has."""
        cuts = np.unique(np.array(self._cuts, CUT)).tobytes() or None
        if not tx.run(_GO_LIVE, segment=self.segment, cuts=cuts, ends=self._ends, **counts):
            raise LibraryWriteError(
                f"{self.place.root}: segment {self.segment} was given up by a sweep; index the video again"
            )

    def abort(self) -> None:
        """Delete all that was written; only the segment's number stays used up."""
        if self.discard():  # before changing the catalog: a full disk needs the room
            _give_up([self])

    def discard(self) -> bool:
        """Delete all that was written, if it is not committed; return whether there was something."""
        if self._done:
            return False
        self._done = True
        return self._files.discard()

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.abort()
            return
        try:
            self.abort()
        except LibraryWriteError as exc:
            # The first error is the one that the user needs; a sweep finishes what `abort` could not.
            assert error is not None
            error.add_note(f"giving the segment up failed too: {exc}")


def commit_together(
    finished: Sequence[tuple[SegmentWriter, VideoRow]], wait_seconds: float | None = None
) -> list[str | None]:
    """Make segments of one library visible at the same moment; the videos' names go out, in order.

    The name is None of a video that was removed meanwhile, of which nothing is stored.

    Args:
        wait_seconds: how long to wait for another writer of the catalog; None for BUSY_SECONDS.

    Raises:
        ValueError, LibraryWriteError, LibraryDamaged: as `SegmentWriter.commit`, but on errors of the library
            none is aborted: each can still be committed, or given up by `abort_together`.
    """
    for writer, video in finished:
        writer.check(video)
    if not finished:
        return []
    for writer, _ in finished:
        writer.finish()
    with finished[0][0].place.catalog.write(wait_seconds=wait_seconds) as tx:
        names = [writer.place_in(tx, video) for writer, video in finished]
        videos.retire_unused(tx, tx.bump("data"))
    for (writer, _), name in zip(finished, names, strict=True):
        if name is None:
            writer.discard()
        else:
            writer.release()
    return names


def abort_together(writers: Sequence[SegmentWriter]) -> None:
    """Delete all that these writers of one library wrote; waits for no other writer of the catalog.

    What the catalog cannot be told now, a sweep finds out: that their locks are gone.
    """
    if not writers:
        return
    with contextlib.ExitStack() as rest:  # the others, too, if one of them raises
        for writer in writers:
            rest.callback(writer.discard)
    with contextlib.suppress(LibraryWriteError):
        _give_up(writers, ABORT_WAIT_SECONDS)


def _give_up(writers: Sequence[SegmentWriter], wait_seconds: float | None = None) -> None:
    """Retire segments of one library that were not committed; `wait_seconds` as in `commit_together`."""
    with writers[0].place.catalog.write(wait_seconds=wait_seconds) as tx:
        for writer in writers:
            tx.run(_GIVE_UP, segment=writer.segment)


class EmbeddingsWriter:
    """Adds vectors of another exit or model to crops already stored, many segments in one file.

    Another process may erase crops, replace their video or store their vectors after they were read: a commit
    leaves the vectors of these crops out.
    """

    def __init__(self, place: Place, model_hash: str, exit: int) -> None:
        self._place = place
        self._model_hash = model_hash
        self._exit = exit
        self._files = FileSet(place, f"w{uuid.uuid4().hex}")
        self._crop_ids: list[NDArray[np.int64]] = []
        self._done = False

    def add(self, crop_id: ArrayLike, track_id: ArrayLike, vectors: NDArray[np.float32]) -> None:
        """Append vectors (N, dim) of crops."""
        add_vectors(self._files, self._model_hash, self._exit, crop_id, track_id, vectors, None)
        self._crop_ids.append(np.array(crop_id, np.int64))

    def commit(self) -> NDArray[np.int64]:
        """Make the vectors visible of crops that are still stored and have none; return these crops' ids."""
        if self._done:
            raise ValueError("these embeddings are already committed or aborted")
        try:
            listed = self._publish(np.concatenate([*self._crop_ids, np.zeros(0, np.int64)]))
        except BaseException:
            self.abort()
            raise
        if not len(listed):
            self.abort()
            return listed
        self._done = True
        self._files.release()
        return listed

    def _publish(self, crop_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """List the file with the vectors of those of its crops (N,) that are to have them; their ids."""
        files = self._files.finish()
        while len(crop_ids):
            segments = np.unique(segment_of(crop_ids))
            lacking, found = crops.find_lacking(self._place, crop_ids, self._model_hash, self._exit)
            if not lacking.all():
                crop_ids = crop_ids[lacking]
                if not len(crop_ids):
                    break
                files = self._rewrite(crop_ids)
            with self._place.catalog.write() as tx:
                # Otherwise crops may be gone since, or have vectors. Erasing lists other files of crops
                # before it looks for vectors (`erase_pictures`), so it sees what is listed here.
                if crops.listing(tx, segments, self._model_hash, self._exit) == found:
                    list_files(tx, files)
                    tx.bump("data")
                    break
        return crop_ids

    def _rewrite(self, crop_ids: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Write the file again with the vectors of some crops (N,); what the catalog is to list."""
        thinner = FileSet(self._place, f"w{uuid.uuid4().hex}")
        try:
            for rows in self._files.written():
                kept = rows.filter(pa.array(np.isin(rows.column("crop_id").to_numpy(), crop_ids)))
                columns = {name: kept.column(name) for name in kept.column_names}
                dim = kept.schema.field("vector").type.list_size
                thinner.add("embeddings", columns, self._model_hash, self._exit, dim)
            files = thinner.finish()
        except BaseException:
            thinner.discard()
            raise
        self._files.discard()
        self._files = thinner
        return files

    def abort(self) -> None:
        """Delete all that was written, unless it is committed."""
        if not self._done:
            self._done = True
            self._files.discard()

    def __enter__(self) -> EmbeddingsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()


def add_vectors(
    files: FileSet,
    model_hash: str,
    exit: int,
    crop_id: ArrayLike,
    track_id: ArrayLike,
    vectors: NDArray[np.float32],
    segment: int | None,
) -> None:
    """Check vectors (N, dim) of N crops and append them to the embeddings file of a model and exit.

    Raises:
        ValueError: wrong shape, NaN or infinity, or a crop of another segment than `segment` (None: any).
    """
    rows = np.asarray(vectors, np.float32)
    crop_ids = np.asarray(crop_id, np.int64)
    if rows.ndim != 2 or len(rows) != len(crop_ids):
        raise ValueError(f"vectors are (N, dim) for {len(crop_ids)} crops, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("vectors are finite numbers, got NaN or infinity")
    segments = segment_of(crop_ids)
    if segment is not None:
        check_segment("crop_id", crop_ids, segment)
    files.add(
        "embeddings",
        {
            "segment": segments,
            "crop_id": crop_ids,
            "track_id": np.asarray(track_id, np.int64),
            "vector": rows,
        },
        model_hash,
        exit,
        rows.shape[1],
    )
