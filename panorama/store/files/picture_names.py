"""A segment comes in; the names of the pictures that it was made from go out, by their place in the video."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from panorama.errors import PanoramaError
from panorama.frames import PICTURES_PER_SECOND
from panorama.store.catalog.database import Transaction
from panorama.store.files.layout import Place
from panorama.store.files.lost import ListedFile
from panorama.store.files.own_names import check_data_files

_LISTED = """
SELECT f.path FROM files f JOIN file_segments fs ON fs.file_id = f.file_id
WHERE f.table_name = :table AND f.retired_version IS NULL AND fs.segment_id = :segment ORDER BY f.file_id
"""


def picture_names(place: Place, segment: int) -> list[str | None]:
    """The names of a folder's pictures by number, its time in frames; None where none could be read.

    Raises:
        LibraryDamaged: a data file is missing or cannot be read.
    """
    while True:
        with place.catalog.read() as tx:
            paths = _listed(tx, segment)
        try:
            names, times = (_rows(place, paths[table], segment, table) for table in ("pictures", "frames"))
            break
        except PanoramaError:
            with place.catalog.read() as tx:
                if _listed(tx, segment) == paths:
                    raise
            # A file was replaced between the listing and its opening.
    numbers = dict(
        zip(
            times.column("frame").to_pylist(),
            np.rint(times.column("time").to_numpy() * PICTURES_PER_SECOND).astype(int).tolist(),
            strict=True,
        )
    )
    found: list[str | None] = [None] * (max(numbers.values(), default=-1) + 1)
    for frame, name in zip(
        names.column("frame").to_pylist(), names.column("picture").to_pylist(), strict=True
    ):
        if frame in numbers:
            found[numbers[frame]] = name
    return found


def _listed(tx: Transaction, segment: int) -> dict[str, list[str]]:
    return {
        table: [row.path for row in tx.rows(_LISTED, table=table, segment=segment)]
        for table in ("pictures", "frames")
    }


def _rows(place: Place, paths: Sequence[str], segment: int, table: str) -> pa.Table:
    """The rows of a segment in some files of a table; row groups without any are not read."""
    check_data_files(place.root, list(paths))
    column = "picture" if table == "pictures" else "time"
    kept = []
    for path in paths:
        with ListedFile(place.root / path) as file:
            for group in range(file.num_row_groups):
                statistics = file.metadata.row_group(group).column(0).statistics
                if statistics is None or statistics.min <= segment <= statistics.max:
                    rows = file.read_row_group(group, columns=["segment", "frame", column])
                    mine = rows.column("segment").to_numpy() == segment
                    kept.append(rows.filter(pa.array(mine)).select(["frame", column]))
    kind = pa.string() if table == "pictures" else pa.float64()
    empty = pa.table({"frame": pa.array([], pa.int64()), column: pa.array([], kind)})
    return pa.concat_tables(kept).combine_chunks() if kept else empty
