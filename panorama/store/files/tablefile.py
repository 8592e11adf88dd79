"""Columns come in piece by piece; one Parquet file with row groups of a sensible size goes out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panorama.store.files.layout import TEMPORARY
from panorama.store.files.schema import TableFormat, to_arrow
from panorama.whole_files import sync_folder


class TableFile:
    """Writes `folder/name` through a temporary file beside it; memory holds about one row group.

    Attributes:
        path: the final path, which exists only after `finish`.
        rows: number of rows added so far.
        segment_rows: the same by segment.
    """

    def __init__(self, folder: Path, name: str, form: TableFormat) -> None:
        self.path = folder / name
        self.rows = 0
        self.segment_rows: dict[int, int] = {}
        self._form = form
        self._temporary = folder / f"{TEMPORARY}{name}"
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._file = self._temporary.open("wb")
        self._writer = pq.ParquetWriter(
            self._file,
            form.schema,
            compression=form.compression,
            use_dictionary=["segment"],
            column_encoding=dict(form.encoding),
            write_statistics=list(form.statistics),
            store_schema=True,
        )

    def add(self, columns: Mapping[str, Any]) -> int:
        """Append rows and return how many."""
        table = to_arrow(self._form.schema, columns)
        if not len(table):
            return 0
        self._count(table.column("segment").to_numpy())
        self._pending.append(table)
        self._pending_rows += len(table)
        self._pending_bytes += table.nbytes
        if self._pending_rows >= self._form.group_rows or self._pending_bytes >= self._form.group_bytes:
            self._flush()
        return len(table)

    def _count(self, segments: NDArray[np.int32]) -> None:
        self.rows += len(segments)
        numbers, counts = np.unique(segments, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.segment_rows[number] = self.segment_rows.get(number, 0) + count

    def _flush(self) -> None:
        if self._pending:
            # Equal parts: slightly more rows than one group must not become a full and a tiny group.
            parts = max(1, round(self._pending_rows / self._form.group_rows))
            size = -(-self._pending_rows // parts)
            self._writer.write_table(pa.concat_tables(self._pending), row_group_size=size)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def finish(self) -> int:
        """Complete the file under its final name, safe against a power cut; return its size in bytes."""
        self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        self._temporary.replace(self.path)
        sync_folder(self.path.parent)
        return size

    def discard(self) -> None:
        """Delete the file, temporary or final."""
        self._pending = []
        # Closing the writer would write the Parquet footer, which nobody needs, even to a full disk.
        self._writer.is_open = False
        with contextlib.suppress(OSError):  # a full disk refuses what is still buffered
            self._file.close()
        self._temporary.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
