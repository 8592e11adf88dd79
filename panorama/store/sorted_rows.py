"""Some columns of a Parquet file in order of track: the file enters, rows that can be looked up by id leave.

A Parquet file is read in groups of many thousand rows; a question about a few hundred tracks needs a few rows
of each. The columns it needs lie in index/ as plain arrays, one file beside each Parquet file, mapped when
asked for. Like the files they are made from they never change, and they may be deleted at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panorama.store.layout import INDEX, write_atomically

FORMAT = 1
SMALL_ROWS = 4096
"""Files of so few rows, which the next compaction replaces, are read as they are."""

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
COLUMNS = {"tracks": SPAN, "crops": VIEW}


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows of one file in order of track, those of a track in order of time.

    Attributes:
        track_ids: (N,) int64, ascending.
        rows: (N,) of one of COLUMNS.
    """

    track_ids: NDArray[np.int64]
    rows: NDArray[np.void]

    def find(self, wanted: NDArray[np.int64]) -> NDArray[np.intp]:
        """Numbers, ascending, of the rows of some tracks (T,), sorted."""
        if not len(self.track_ids) or not len(wanted):
            return np.zeros(0, np.intp)
        first, last = np.searchsorted(wanted, (self.track_ids[0], self.track_ids[-1] + 1))
        mine = wanted[first:last]
        starts = np.searchsorted(self.track_ids, mine)
        counts = np.searchsorted(self.track_ids, mine + 1) - starts
        ends = np.cumsum(counts)
        return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def folder_of(root: Path) -> Path:
    """Where the arrays of a library lie."""
    return root / INDEX / "places"


def open_rows(root: Path, path: str, table: str) -> SortedRows:
    """The columns of one Parquet file; made, and kept where it is worth it, if they are not there.

    Args:
        root: the library's directory.
        table: whose file it is, one of COLUMNS.
    """
    kept = _kept(root, path, table)
    found = _mapped(kept, COLUMNS[table])
    if found is not None:
        return found
    made = _read(path, COLUMNS[table])
    if len(made.track_ids) <= SMALL_ROWS:
        return made
    # No room or no permission: answers do not depend on it.
    with contextlib.suppress(OSError):
        write_atomically(kept, made.track_ids.tobytes() + made.rows.tobytes())
    return _mapped(kept, COLUMNS[table]) or made


def forget_others(root: Path, files: Iterable[tuple[str, str]]) -> None:
    """Delete the arrays of all files but some: (table, path)."""
    wanted = {_kept(root, path, table) for table, path in files}
    for old in folder_of(root).glob("*"):
        if old not in wanted:
            old.unlink(missing_ok=True)


def _kept(root: Path, path: str, table: str) -> Path:
    return folder_of(root) / f"{table}-{Path(path).stem}.{FORMAT}"


def _mapped(path: Path, kind: np.dtype) -> SortedRows | None:
    try:
        # A plain array over the map: np.memmap's bookkeeping costs more than a small slice.
        raw = np.asarray(np.memmap(path, np.uint8, "r"))
    except (OSError, ValueError):
        return None
    count, rest = divmod(len(raw), 8 + kind.itemsize)
    if rest:
        return None
    return SortedRows(raw[: 8 * count].view(np.int64), raw[8 * count :].view(kind))


def _read(path: str, kind: np.dtype) -> SortedRows:
    names = list(kind.names or ())
    with pq.ParquetFile(path) as file:
        rows = np.empty(file.metadata.num_rows, kind)
        ids = np.empty(len(rows), np.int64)
        start = 0
        for batch in file.iter_batches(1 << 16, columns=["track_id", *names]):
            stop = start + len(batch)
            ids[start:stop] = _numbers(batch, "track_id")
            for name in names:
                rows[name][start:stop] = _numbers(batch, name)
            start = stop
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
