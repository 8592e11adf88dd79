"""A data file is opened; where that cannot be, whose rows it held and what to run leave as one error.

`index` makes the rows of such videos anew, as if they had never been indexed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from panorama.errors import LibraryDamaged
from panorama.store.catalog import Catalog, Transaction

SHOWN_VIDEOS = 5

_LISTED = """
SELECT f.path, f.bytes, s.content_hash FROM files f JOIN file_segments fs ON fs.file_id = f.file_id
JOIN segments s ON s.segment_id = fs.segment_id WHERE f.retired_version IS NULL AND s.state = 'live'
"""

_HELD = """
SELECT DISTINCT v.name, v.uri FROM videos v JOIN file_segments fs ON fs.segment_id = v.segment_id
JOIN files f ON f.file_id = fs.file_id WHERE f.path = :path ORDER BY v.name
"""


def open_parquet(path: str | Path) -> pq.ParquetFile:
    """A data file that the catalog lists.

    Raises:
        LibraryDamaged: it is not there or is no Parquet file.
    """
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as exc:
        raise damage(Path(path), "is missing") from exc
    except pa.ArrowInvalid as exc:
        raise damage(Path(path), f"cannot be read: {str(exc).partition(chr(10))[0]}") from exc


def lost_contents(tx: Transaction, root: Path) -> frozenset[str]:
    """Hashes of the videos some of whose rows are gone with a data file, or with a part of one."""
    lost: dict[str, bool] = {}
    contents = set()
    for path, size, content in tx.tuples(_LISTED):
        if path not in lost:
            try:
                lost[path] = (root / path).stat().st_size != size
            except FileNotFoundError:
                lost[path] = True
        if lost[path]:
            contents.add(content)
    return frozenset(contents)


def check_readable(paths: Iterable[str]) -> None:
    """Raise LibraryDamaged for the first of some data files that cannot be opened."""
    for path in paths:
        open_parquet(path).close()


def damage(path: Path, wrong: str) -> LibraryDamaged:
    """The error for a data file, `root/data/<table>/<name>`: its videos, and what makes their rows anew."""
    root = path.parents[2]
    catalog = Catalog(root, writable=False)
    try:
        with catalog.read() as tx:
            held = tx.rows(_HELD, path=str(path.relative_to(root)))
    finally:
        catalog.close()
    # Of very many, their folders: a command line has an end.
    named = [row.uri for row in held]
    if len(named) > SHOWN_VIDEOS:
        named = sorted({str(PurePath(uri).parent) for uri in named})
    redo = shlex.join(["panorama", "--library", str(root), "index", *named])
    return LibraryDamaged(
        f"{path}, a data file of {_videos(held)}, {wrong}; put it back from a backup, or index"
        f" {'it' if len(held) == 1 else 'them'} anew: {redo}"
    )


def _videos(held: Sequence[Any]) -> str:
    shown = ", ".join(repr(row.name) for row in held[:SHOWN_VIDEOS])
    more = len(held) - SHOWN_VIDEOS
    return f"{len(held)} videos: {shown} and {more} more" if more > 0 else shown
