"""A Parquet file comes in; some of its columns go out as rows sorted by a key, for fast lookup.

The key is the track id; for frames it is `segment << 32 | frame`.

Parquet files are read in groups of many thousand rows, but a query about a few hundred tracks needs a few
rows of each. So the columns it needs are stored in index/ as plain arrays, one file per Parquet file, and
memory-mapped on use. Like their Parquet files they never change, and they may be deleted at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.store.files.layout import INDEX, write_atomically
from panorama.store.files.lost import FEW_ROWS, ListedFile
from panorama.store.files.own_names import PLACES, PLACES_FILE, files_named
from panorama.store.files.schema import LOCAL_BITS

FORMAT = 2
PIECE_ROWS = 1 << 16
"""Rows read between two calls of `wait`, which lets queries go first."""
SMALL_ROWS = 4096
"""Files with at most this many rows are read directly: the next compaction replaces them."""

SPAN = np.dtype(
    [
        ("start_frame", np.int64), ("end_frame", np.int64), ("start_time", np.float64),
        ("end_time", np.float64), ("samples", np.int32),
    ]
)  # fmt: skip
VIEW = np.dtype(
    [
        ("crop_id", np.int64), ("frame", np.int64), ("time", np.float64),
        *((side, np.float32) for side in ("x1", "y1", "x2", "y2")),
    ]
)  # fmt: skip
BOX = np.dtype(
    [
        ("frame", np.int64), ("time", np.float64),
        *((side, np.float32) for side in ("x1", "y1", "x2", "y2")),
    ]
)  # fmt: skip
MOMENT = np.dtype([("time", np.float64)])
COLUMNS = {"tracks": SPAN, "crops": VIEW, "boxes": BOX, "frames": MOMENT}


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows of one file sorted by key, rows of the same key by time.

    Attributes:
        keys: (N,) int64, ascending.
        rows: (N,) of one of the types in COLUMNS.
    """

    keys: NDArray[np.int64]
    rows: NDArray[np.void]

    def find(self, wanted: NDArray[np.int64], stops: NDArray[np.int64] | None = None) -> NDArray[np.intp]:
        """The row numbers, ascending, of all rows with the wanted keys (K,), ascending.

        Args:
            stops: (K,) ends of ranges: find the keys in [wanted, stop). Ranges must not overlap. None to find
                only the keys themselves.
        """
        stops = wanted + 1 if stops is None else stops
        if not len(self.keys) or not len(wanted):
            return np.zeros(0, np.intp)
        last = int(np.searchsorted(wanted, self.keys[-1] + 1))
        first = int(np.searchsorted(stops, self.keys[0], side="right"))
        starts = np.searchsorted(self.keys, wanted[first:last])
        counts = np.searchsorted(self.keys, stops[first:last]) - starts
        ends = np.cumsum(counts)
        return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def frame_ids(segments: NDArray[np.integer], frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """The keys (N,) of frames: `segment << 32 | frame`."""
    return np.asarray((segments.astype(np.int64) << LOCAL_BITS) | frames, np.int64)


def folder_of(root: Path) -> Path:
    """The folder of a library's arrays."""
    return root / INDEX / PLACES


def kept_rows(root: Path, path: str, table: str) -> SortedRows | None:
    """The columns of one Parquet file; None if the file is large and its arrays are not stored."""
    found = _mapped(_kept(root, path, table), COLUMNS[table])
    if found is not None:
        return found
    with ListedFile(path) as file:
        small = file.metadata.num_rows <= SMALL_ROWS
    return _read(path, table) if small else None


def open_rows(root: Path, path: str, table: str, wait: Callable[[], None] = lambda: None) -> SortedRows:
    """The columns of one Parquet file; if they are not stored, compute them and store those of large files.

    Args:
        root: the library's directory.
        path: of the Parquet file.
        table: the table of that file, one of COLUMNS.
        wait: called after each piece that is read.
    """
    kept = _kept(root, path, table)
    found = _mapped(kept, COLUMNS[table])
    if found is not None:
        return found
    made = _read(path, table, wait)
    if len(made.keys) <= SMALL_ROWS:
        return made
    # Ignore a full disk or missing permission: answers do not depend on the stored arrays.
    with contextlib.suppress(OSError):
        write_atomically(kept, made.keys.data, made.rows.data)
    return _mapped(kept, COLUMNS[table]) or made


def forget_others(root: Path, files: Iterable[tuple[str, str]]) -> None:
    """Delete all arrays except those of the given files, (table, path)."""
    wanted = {_kept(root, path, table) for table, path in files}
    for old in files_named(folder_of(root), PLACES_FILE):
        if old not in wanted:
            old.unlink(missing_ok=True)


def _kept(root: Path, path: str, table: str) -> Path:
    return folder_of(root) / f"{table}-{Path(path).stem}.{FORMAT}"


def _mapped(path: Path, kind: np.dtype) -> SortedRows | None:
    try:
        # As a plain array: the bookkeeping of np.memmap costs more than a small slice.
        raw = np.asarray(np.memmap(path, np.uint8, "r"))
    except (OSError, ValueError):
        return None
    count, rest = divmod(len(raw), 8 + kind.itemsize)
    if rest:
        return None
    return SortedRows(raw[: 8 * count].view(np.int64), raw[8 * count :].view(kind))


def _read(path: str, table: str, wait: Callable[[], None] = lambda: None) -> SortedRows:
    kind = COLUMNS[table]
    names = list(kind.names or ())
    key = ["segment", "frame"] if table == "frames" else ["track_id"]
    with ListedFile(path) as file:
        rows = np.empty(file.metadata.num_rows, kind)
        ids = np.empty(len(rows), np.int64)
        start = 0
        wanted = list(dict.fromkeys([*key, *names]))
        threads = len(rows) > FEW_ROWS
        for batch in file.iter_batches(PIECE_ROWS, columns=wanted, use_threads=threads):
            stop = start + len(batch)
            found = _numbers(batch, key[0])
            ids[start:stop] = found if len(key) == 1 else frame_ids(found, _numbers(batch, key[1]))
            for name in names:
                rows[name][start:stop] = _numbers(batch, name)
            start = stop
            wait()
    seconds = rows["time" if "time" in names else "start_time"]
    if not _ascending(ids, seconds):
        order = np.lexsort((seconds, ids))
        ids, rows = ids[order], rows[order]
    return SortedRows(ids, rows)


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray:
    return batch.column(batch.schema.get_field_index(name)).to_numpy()


def _ascending(ids: NDArray[np.int64], seconds: NDArray[np.float64]) -> bool:
    later = (ids[1:] > ids[:-1]) | ((ids[1:] == ids[:-1]) & (seconds[1:] >= seconds[:-1]))
    return bool(later.all())
