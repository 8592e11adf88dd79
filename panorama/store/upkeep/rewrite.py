"""Listed data files come in; fewer files, or files with fewer rows, go out, swapped in one transaction.

Compaction merges small files into large sorted ones; erasing leaves rows out. Segments keep their numbers.
"""

from __future__ import annotations

import heapq
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panorama import waits
from panorama.commands import command
from panorama.errors import LibraryDamaged, LibraryWriteError
from panorama.store.catalog import sightings
from panorama.store.catalog.database import Transaction, left_by, write_errors
from panorama.store.catalog.erasures import Going
from panorama.store.files.layout import Place
from panorama.store.files.locks import FileLock
from panorama.store.files.lost import ListedFile
from panorama.store.files.own_names import check_data_files
from panorama.store.files.schema import segment_of
from panorama.store.files.segments import FileSet, list_files
from panorama.store.upkeep.sweep import ERASED, sweep
from panorama.store.vectors import index_files

TARGET_BYTES = 256 << 20
MOST_OPEN = 100
"""How many files with rows of the same segments are merged at once: a process may open 256 or 1,024 files."""

_LOOK_SECONDS = 0.02
"""How often to look whether the lock is free, until the wait is told."""

_LISTED = """
SELECT file_id, table_name AS "table", path, model_hash, exit, dim, row_count AS rows, bytes FROM files
WHERE retired_version IS NULL ORDER BY file_id
"""
_CONTENTS = """
SELECT fs.file_id, fs.segment_id, s.state FROM file_segments fs
JOIN segments s ON s.segment_id = fs.segment_id JOIN files f ON f.file_id = fs.file_id
WHERE f.retired_version IS NULL
"""
_STILL_LISTED = "SELECT count(*) FROM files WHERE retired_version IS NULL AND file_id IN :files"
_RETIRE = "UPDATE files SET retired_version = :version, retired_at = :at WHERE file_id IN :files"
_ERASE_RETIRED = f"""
UPDATE files SET retired_at = {ERASED}
WHERE retired_version IS NOT NULL
AND file_id IN (
    SELECT fs.file_id FROM file_segments fs JOIN segments s ON s.segment_id = fs.segment_id
    WHERE s.state <> 'live' OR fs.segment_id IN :segments)
"""
_RECOUNT = """
UPDATE segments SET crops = (
    SELECT coalesce(sum(fs.row_count), 0) FROM file_segments fs JOIN files f ON f.file_id = fs.file_id
    WHERE fs.segment_id = segments.segment_id AND f.table_name = 'crops' AND f.retired_version IS NULL)
WHERE state = 'live'
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A listed file and the segments, live and dead, whose rows it holds."""

    file_id: int
    table: str
    path: str
    model_hash: str | None
    exit: int | None
    dim: int | None
    rows: int
    bytes: int
    live: tuple[int, ...]
    dead: tuple[int, ...]

    @property
    def kind(self) -> tuple[str, str | None, int | None]:
        return self.table, self.model_hash, self.exit


def compact(
    place: Place,
    target_bytes: int = TARGET_BYTES,
    least_files: int = 1,
    wait: Callable[[], None] = lambda: None,
) -> int:
    """Merge small files into files of about `target_bytes` and drop rows of segments that are not live.

    Args:
        least_files: leave a group alone if it has fewer files: rewriting would cost more than they do.
        wait: called before every piece of rows, so that the work can pause for queries.

    Returns:
        How many files were replaced. A sweep deletes them when no reader can use them any more.
    """
    replaced, again = 0, True
    with write_errors(place.root), _alone(place):
        while again:
            merged, again = _round(place, target_bytes, least_files, wait)
            replaced += merged
    return replaced


@contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Keep other processes from rewriting data files for a block, after one that does so now."""
    path = place.locks / "maintenance.lock"
    began = time.monotonic()
    while (lock := FileLock.take_if_free(path)) is None and time.monotonic() - began < waits.TELL_SECONDS:
        time.sleep(_LOOK_SECONDS)
    if lock is None:
        waits.tell("another process is merging or erasing data files")
        lock = FileLock.take(path)
    try:
        yield
    finally:
        lock.release(keep_file=True)


def _round(place: Place, target_bytes: int, least_files: int, wait: Callable[[], None]) -> tuple[int, bool]:
    """Merge files once; return how many were replaced, and whether what they became can be merged again."""
    replaced, again = 0, False
    groups: dict[Any, list[Source]] = defaultdict(list)
    for source in _sources(place):
        if source.bytes < target_bytes // 2 or source.dead:
            groups[source.kind].append(source)
    for group in groups.values():
        ordered = sorted(group, key=lambda s: (s.live[:1], s.file_id))
        for part, is_crowded in _parts(ordered, target_bytes):
            worth = len(part) >= least_files and (len(part) > 1 or part[0].dead)
            if worth and _swap(place, part, None, erase=False, wait=wait):
                replaced += len(part)
                again |= is_crowded
    return replaced, again


def drop_dead(place: Place) -> None:
    """Rewrite files without the rows of segments that are not live, so that no query reads these rows.

    A sweep deletes the old files when no reader can use them any more. Data in index/ that was made from such
    rows is deleted at once.

    Raises:
        LibraryWriteError: a file cannot be read or written and keeps such rows.
    """
    try:
        with write_errors(place.root), _alone(place):
            index_files.drop_gone(place)
            for source in _sources(place):
                if source.dead:
                    _swap(place, [source], None, erase=False)
    except (LibraryDamaged, LibraryWriteError) as exc:
        raise LibraryWriteError(
            "the videos are removed, but files that also hold others keep their rows:"
            f" {left_by(exc)}; then: {command('compact')}"
        ) from exc


def erase_pictures(place: Place, going: Going) -> None:
    """Rewrite files without some crops and their embeddings, and without rows that are not live.

    No query can say whether segments that are not live show the forgotten thing, so all of them go. The old
    files are deleted at once, even under readers, and so is everything in index/.
    """
    holders = {*segment_of(going.track_ids).tolist(), *segment_of(going.crop_ids).tolist()}
    with write_errors(place.root), _alone(place):
        # Crops first: EmbeddingsWriter lists vectors only while their crops are stored. Once these crops are
        # gone, no more vectors of them follow, and the second list of files holds all there are.
        for is_crops in (True, False):
            for source in _sources(place):
                seen = source.table in ("crops", "embeddings") and not holders.isdisjoint(source.live)
                if (source.table == "crops") == is_crops and (seen or source.dead):
                    _swap(place, [source], going if seen else None, erase=True)
        # What was retired, also by a commit meanwhile, and no sweep has deleted yet, holds the same rows or
        # those of before.
        with place.catalog.write() as tx:
            tx.run(_ERASE_RETIRED, segments=sorted(holders))
            sightings.clear(tx)  # they name erased tracks
        sweep(place)
        index_files.clear(place)


def _sources(place: Place) -> list[Source]:
    with place.catalog.read() as tx:
        rows = tx.rows(_LISTED)
        check_data_files(place.root, [row.path for row in rows])
        live: dict[int, list[int]] = defaultdict(list)
        dead: dict[int, list[int]] = defaultdict(list)
        for file_id, segment, state in tx.rows(_CONTENTS):
            (live if state == "live" else dead)[file_id].append(segment)
    return [
        Source(**row._mapping, live=tuple(sorted(live[row.file_id])), dead=tuple(sorted(dead[row.file_id])))
        for row in rows
    ]


def _parts(sources: Sequence[Source], target_bytes: int) -> Iterator[tuple[list[Source], bool]]:
    """Files to be merged into one, and whether there are more for it than may be open at the same time.

    Args:
        sources: in order of their first live segment.
    """
    part: list[Source] = []
    size = 0
    lasts: list[int] = []  # heap: the last segments of the files that are open when the next one is opened
    for source in sources:
        while lasts and lasts[0] <= source.live[0]:
            heapq.heappop(lasts)
        is_crowded = len(lasts) >= MOST_OPEN
        if part and (is_crowded or size + source.bytes > target_bytes):
            yield part, is_crowded
            part, size, lasts = [], 0, []
        part.append(source)
        size += source.bytes
        if source.live:
            heapq.heappush(lasts, source.live[-1])
    if part:
        yield part, False


def _swap(
    place: Place,
    sources: Sequence[Source],
    without: Going | None,
    erase: bool,
    wait: Callable[[], None] = lambda: None,
) -> bool:
    """Write the live rows of `sources` into one new file and list it instead.

    Returns:
        False, with nothing changed, if one of them is no longer listed.
    """
    files = FileSet(place, f"c{uuid.uuid4().hex}")
    ids = [source.file_id for source in sources]
    try:
        for table in _rows_of(place, sources, without):
            wait()
            first = sources[0]
            columns = {name: table.column(name) for name in table.column_names}
            files.add(first.table, columns, first.model_hash, first.exit, first.dim)
        listed = files.finish()
        with place.catalog.write() as tx:
            swapped = tx.scalar(_STILL_LISTED, files=ids) == len(ids)
            if swapped:
                _publish(tx, ids, listed, erase)
    except BaseException:
        files.discard()
        raise
    if not swapped:
        files.discard()
        return False
    files.release()
    if erase:  # a later sweep would delete them, but until then they take up space
        for source in sources:
            (place.root / source.path).unlink(missing_ok=True)
    return True


def _publish(tx: Transaction, ids: list[int], listed: Sequence[Mapping[str, Any]], erase: bool) -> None:
    version = tx.bump("data")
    list_files(tx, listed)
    tx.run(_RETIRE, files=ids, version=version, at=ERASED if erase else time.time())
    tx.run(_RECOUNT)


def _rows_of(place: Place, sources: Sequence[Source], without: Going | None) -> Iterator[pa.Table]:
    """Rows of live segments, segment by segment, in bounded pieces."""
    holders: dict[int, list[Source]] = defaultdict(list)
    for source in sources:
        for segment in source.live:
            holders[segment].append(source)
    readers = {source.file_id: _Reader(place, source) for source in sources}
    try:
        for segment in sorted(holders):
            pieces: Iterator[pa.Table] = (
                piece for source in holders[segment] for piece in readers[source.file_id].rows(segment)
            )
            if len(holders[segment]) > 1 and sources[0].table == "embeddings":
                # Written at different times: sort them, and keep one of each crop that was embedded twice.
                whole = pa.concat_tables(list(pieces))
                _, first = np.unique(whole.column("crop_id").to_numpy(), return_index=True)
                pieces = iter([whole.take(pa.array(first))])
            for piece in pieces:
                if without is not None:
                    unwanted = np.isin(piece.column("track_id").to_numpy(), without.track_ids)
                    unwanted |= np.isin(piece.column("crop_id").to_numpy(), without.crop_ids)
                    piece = piece.filter(pa.array(~unwanted))
                if len(piece):
                    yield piece
    finally:
        for reader in readers.values():
            reader.close()


class _Reader:
    """Reads one file, which is opened when first needed and closed after its last live segment."""

    def __init__(self, place: Place, source: Source) -> None:
        self._path = place.root / source.path
        self._last = source.live[-1] if source.live else -1
        self._file: ListedFile | None = None
        self._group: tuple[int, pa.Table] | None = None

    def rows(self, segment: int) -> Iterator[pa.Table]:
        import pyarrow.compute as pc  # here: loading it takes 0.03 s

        if self._file is None:
            self._file = ListedFile(self._path)
        for number in range(self._file.num_row_groups):
            statistics = self._file.metadata.row_group(number).column(0).statistics
            if statistics is not None and not statistics.min <= segment <= statistics.max:
                continue
            # Keep the last group: hundreds of segments may share one, and reading it for each would dominate.
            if self._group is None or self._group[0] != number:
                self._group = number, self._file.read_row_group(number)
            group = self._group[1]
            mine = group.filter(pc.equal(group.column("segment"), segment))
            if len(mine):
                yield mine
        if segment == self._last:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._group = None, None
