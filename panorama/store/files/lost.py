"""The path of a data file comes in; the open file goes out, or an error that names its videos and the remedy.

The remedy is `panorama index`, which computes the lost rows again with the settings that they had: vectors
from the stored crops, everything else from the videos. Videos whose files are gone can only be removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from panorama.errors import LibraryDamaged, PanoramaError
from panorama.folders import video_is_gone
from panorama.lines import SHOWN, counted, shell_line, some
from panorama.store.catalog.database import Catalog, Transaction
from panorama.store.files.layout import Place
from panorama.store.files.own_names import check_data_files
from panorama.store.files.permissions import unreadable
from panorama.store.files.schema import segment_of, table_format

FEW_ROWS = 4096
"""Up to this number of rows, those of a few videos, one thread reads: waking others takes longer."""

_LISTED = "SELECT path, bytes FROM files WHERE retired_version IS NULL"
_VECTORS = f"{_LISTED} AND table_name = 'embeddings'"
_NO_VECTORS = f"{_LISTED} AND table_name <> 'embeddings'"
_UNLIST = """
UPDATE files SET retired_version = :version, retired_at = :now
WHERE path IN :paths AND retired_version IS NULL RETURNING path
"""
_CONTENTS = """
SELECT DISTINCT s.content_hash FROM files f JOIN file_segments fs ON fs.file_id = f.file_id
JOIN segments s ON s.segment_id = fs.segment_id WHERE f.path = :path AND s.state = 'live'
"""

_NAMES = "SELECT DISTINCT name FROM videos WHERE segment_id IN :segments ORDER BY name"

_IS_WANTED = "SELECT bytes FROM files WHERE path = :path AND retired_version IS NULL"

_HELD = """
SELECT DISTINCT v.name, v.uri, v.content_hash, f.table_name FROM videos v
JOIN file_segments fs ON fs.segment_id = v.segment_id
JOIN files f ON f.file_id = fs.file_id WHERE f.path = :path ORDER BY v.name
"""


class ListedFile(pq.ParquetFile):
    """A data file that the catalog lists, with one kind of error for all that cannot be read.

    Raises:
        LibraryDamaged: the file is missing, is no Parquet file, has other columns than its table, or the
            requested part cannot be read.
        PanoramaError: the catalog no longer lists it, because it was erased or replaced; or this user may
            not read it.
    """

    def __init__(self, path: str | Path) -> None:
        self._listed = Path(path)
        with _told(self._listed):
            super().__init__(path)
            _check_columns(self.schema_arrow, self._listed.parent.name)

    def read(self, *args: Any, **options: Any) -> pa.Table:
        with _told(self._listed):
            return super().read(*args, **options)

    def read_row_group(self, *args: Any, **options: Any) -> pa.Table:
        with _told(self._listed):
            return super().read_row_group(*args, **options)

    def iter_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        with _told(self._listed):
            yield from super().iter_batches(*args, **options)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as exc:
        raise damage(path, "is missing") from exc
    except PermissionError as exc:
        raise unreadable(path.parents[2], path) from exc
    except (pa.ArrowException, UnicodeDecodeError, OSError) as exc:
        if isinstance(exc, MemoryError) or (isinstance(exc, OSError) and exc.errno is not None):
            raise  # an error of the system, not of the file's contents
        raise damage(path, f"cannot be read: {str(exc).partition(chr(10))[0]}") from exc


def _check_columns(found: pa.Schema, table: str) -> None:
    """Raise ArrowInvalid unless these are the columns of a table."""
    # A damaged name or type does not fail to be read: whoever asks for the column fails.
    dim = getattr(found.types[-1], "list_size", 0) if found.types else 0
    wanted = table_format(table, dim if dim > 0 else 1).schema
    if not found.equals(wanted):
        raise pa.ArrowInvalid(f"its columns are not those of {table}")


def lost_contents(tx: Transaction, root: Path) -> frozenset[str]:
    """Content hashes of the videos that lost rows with a missing or truncated data file.

    Vectors do not count: they are made again from the stored crops, see `unlist_lost_vectors`.
    """
    lost = _lost_files(tx, root, _NO_VECTORS)
    return frozenset(row.content_hash for path in lost for row in tx.rows(_CONTENTS, path=path))


def unlist_lost_vectors(place: Place) -> list[Path]:
    """Unlist the files of vectors that are missing or cut off, and return them.

    Their crops count as not embedded from then on.
    """
    with place.catalog.read() as tx:
        lost = _lost_files(tx, place.root, _VECTORS)
    if not lost:
        return []
    with place.catalog.write() as tx:  # without files that were erased or replaced since
        gone = tx.rows(_UNLIST, paths=lost, version=tx.bump("data"), now=time.time())
    return [place.root / row.path for row in gone]


def _lost_files(tx: Transaction, root: Path, which: str = _LISTED) -> list[str]:
    """The listed data files that are missing or differ in size from the catalog."""
    listed = tx.tuples(which)
    check_data_files(root, [path for path, _ in listed])
    return [path for path, size in listed if _size(root / path) != size]


def _size(path: Path) -> int | None:
    """The size of a file in bytes, None if it is missing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def check_readable(paths: Iterable[str]) -> None:
    """Raise LibraryDamaged for the first data file that cannot be opened."""
    for path in paths:
        ListedFile(path).close()


def damage(path: Path, wrong: str) -> PanoramaError:
    """The error for a bad data file, `root/data/<table>/<name>`: its videos and the commands to run.

    It includes other lost files, because `index` reads them all and would stop at the next one.
    """
    root = path.parents[2]
    listed = str(path.relative_to(root))
    catalog = Catalog(root, writable=False)
    try:
        with catalog.read() as tx:
            size = tx.scalar(_IS_WANTED, path=listed)
            held = tx.rows(_HELD, path=listed)
            others = [other for other in _lost_files(tx, root) if other != listed]
            rows = [*held, *(row for other in others for row in tx.rows(_HELD, path=other))]
    finally:
        catalog.close()
    if size is None:  # erasing deletes files under readers
        return PanoramaError(f"{path} was erased or replaced meanwhile; run the same command again")
    # `lost_contents` recognises lost files by their size; one of the right size must be deleted first.
    first = "delete it and " if path.exists() and path.stat().st_size == size else ""
    data = f"{path}, a data file of {_videos([row.name for row in held])}, {wrong}"
    if not others:
        its = "its video" if len(held) == 1 else "its videos"
        return LibraryDamaged(f"{data}; put it back from a backup, or {first}{_remedy(root, rows, its)}")
    more = counted(len(others), "more is", "more are")
    return LibraryDamaged(
        f"{data}, and {more} missing or cut off; put them back from a backup, or {first}{_remedy(root, rows)}"
    )


def _remedy(root: Path, rows: Sequence[Any], its: str = "") -> str:
    """What to do about the videos of lost files, with the commands.

    Args:
        rows: of _HELD, for each lost file.
        its: the videos in words, if no other word for them is needed; "" names them.
    """
    uris = {row.name: row.uri for row in rows}
    there = {uri for uri in uris.values() if "://" in uri or not video_is_gone(Path(uri))}
    # Vectors are made of stored crops, without the file. Of several copies of a file, one is enough.
    again = {row.content_hash for row in rows if row.uri in there}
    gone = {row.name for row in rows if row.table_name != "embeddings" and row.content_hash not in again}
    left, steps = sorted(uris.keys() - gone), list[str]()
    if gone:
        # First: `index` reads all files at its end. By names: others in their folders have lost nothing.
        remove = shell_line(["panorama", "--library", str(root), "remove", "--", *sorted(gone)])
        which = its if its and not left else f"these videos, {_videos(sorted(gone))}"
        files = "file is" if len(gone) == 1 else "files are"
        steps.append(f"remove {which}, whose {files} gone, unless a disk is not mounted: {remove}")
    if left:
        # If there are many, name their folders: the length of a command line is limited.
        named = [uris[name] for name in left]
        named = [uri for uri in named if uri in there] or named
        if len(named) > SHOWN:
            named = sorted({str(PurePath(uri).parent) for uri in named})
        redo = shell_line(["panorama", "--library", str(root), "index", *named])
        which = f"{its} again" if its and not gone else f"these videos again, {_videos(left)}"
        steps.append(f"index {which}: {redo}")
    return "; and ".join(steps)


def damaged_pictures(path: Path, crop_ids: Sequence[int]) -> PanoramaError:
    """The error for a data file of crops, some of whose JPEG files cannot be decoded; see `damage`."""
    catalog = Catalog(path.parents[2], writable=False)
    try:
        with catalog.read() as tx:
            segments = np.unique(segment_of(crop_ids)).tolist()
            names = [row.name for row in tx.rows(_NAMES, segments=segments)]
    finally:
        catalog.close()
    holds = "a damaged picture, crop" if len(crop_ids) == 1 else f"{len(crop_ids)} damaged pictures, crops"
    return damage(path, f"holds {holds} {some([str(one) for one in crop_ids])} of {_videos(names)}")


def _videos(names: Sequence[str]) -> str:
    shown = some([repr(name) for name in names])
    return f"{len(names)} videos: {shown}" if len(names) > SHOWN else shown
