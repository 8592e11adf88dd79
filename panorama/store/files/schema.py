"""Numpy columns come in; Arrow tables for the Parquet files go out, with one fixed schema per table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

TABLES = ("frames", "tracks", "boxes", "crops", "pictures", "embeddings")
LOCAL_BITS = 32
CUT = np.dtype("<i4")
"""How the catalog stores the number of a frame that begins a new shot."""
ENDS_SHAPE = (2, 9, 16)
"""Shape (2, rows, columns) of the brightness, uint8, of a video's first and last sampled picture."""
BEST_FIRST = "quality DESC, crop_id"
"""ORDER BY clause that puts the best crop of a track first."""


def _fields(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


_BOX = (("x1", pa.float32()), ("y1", pa.float32()), ("x2", pa.float32()), ("y2", pa.float32()))

FRAMES = _fields(("segment", pa.int32()), ("frame", pa.int64()), ("pts", pa.int64()), ("time", pa.float64()))
TRACKS = _fields(
    ("segment", pa.int32()),
    ("track_id", pa.int64()),
    ("start_frame", pa.int64()),
    ("end_frame", pa.int64()),
    ("start_time", pa.float64()),
    ("end_time", pa.float64()),
    ("samples", pa.int32()),
)
BOXES = _fields(
    ("segment", pa.int32()),
    ("track_id", pa.int64()),
    ("frame", pa.int64()),
    ("time", pa.float64()),
    *_BOX,
    ("score", pa.float32()),
)
CROPS = _fields(
    ("segment", pa.int32()),
    ("crop_id", pa.int64()),
    ("track_id", pa.int64()),
    ("frame", pa.int64()),
    ("time", pa.float64()),
    *_BOX,
    ("quality", pa.float32()),
    ("jpeg", pa.binary()),
)

PICTURES = _fields(("segment", pa.int32()), ("frame", pa.int64()), ("picture", pa.string()))
"""Which file each frame of a folder of pictures is; films have no rows here."""

_NUMPY: dict[pa.DataType, type[np.generic]] = {
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.string(): np.object_,
}
"""NumPy type of each column type. Arrow's own conversion loads pandas before version 26, if it is there."""

_DELTA = "DELTA_BINARY_PACKED"
_SPLIT = "BYTE_STREAM_SPLIT"
_BOX_ENCODING = {"x1": _SPLIT, "y1": _SPLIT, "x2": _SPLIT, "y2": _SPLIT}


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How one table is written.

    Attributes:
        schema: its columns.
        encoding: Parquet encoding of the columns for which plain is not best.
        statistics: columns with minimum and maximum per row group, which let readers skip groups.
        group_rows, group_bytes: a row group ends when either is reached.
    """

    schema: pa.Schema
    encoding: Mapping[str, str]
    statistics: tuple[str, ...]
    group_rows: int
    group_bytes: int

    @property
    def compression(self) -> dict[str, str]:
        """Compression by column; JPEGs, which are compressed already, get none."""
        leaves = {"vector": "vector.list.element"}
        return {leaves.get(f.name, f.name): "none" if f.name == "jpeg" else "zstd" for f in self.schema}


_FIXED = {
    "frames": TableFormat(
        FRAMES,
        {"frame": _DELTA, "pts": _DELTA, "time": _SPLIT},
        ("segment", "frame", "time"),
        16_384,
        8 << 20,
    ),
    "tracks": TableFormat(
        TRACKS,
        {"track_id": _DELTA, "start_frame": _DELTA, "end_frame": _DELTA, "start_time": _SPLIT},
        ("segment", "track_id", "start_time", "end_time"),
        131_072,
        8 << 20,
    ),
    "boxes": TableFormat(
        BOXES,
        {"track_id": _DELTA, "frame": _DELTA, "time": _SPLIT, "score": _SPLIT, **_BOX_ENCODING},
        ("segment", "track_id", "frame", "time"),
        16_384,
        8 << 20,
    ),
    "crops": TableFormat(
        CROPS,
        {
            "crop_id": _DELTA,
            "track_id": _DELTA,
            "frame": _DELTA,
            "time": _SPLIT,
            "quality": _SPLIT,
            **_BOX_ENCODING,
        },
        ("segment", "crop_id", "track_id", "time"),
        # Small groups: a query that looks at a few scattered crops reads whole groups.
        512,
        1 << 20,
    ),
    "pictures": TableFormat(PICTURES, {"frame": _DELTA}, ("segment", "frame"), 16_384, 8 << 20),
}


def embeddings_schema(dim: int) -> pa.Schema:
    """Columns of an embeddings file with vectors of length `dim`."""
    element = pa.field("element", pa.float32(), nullable=False)
    return _fields(
        ("segment", pa.int32()),
        ("crop_id", pa.int64()),
        ("track_id", pa.int64()),
        ("vector", pa.list_(element, dim)),
    )


def table_format(table: str, dim: int | None = None) -> TableFormat:
    """The format of a table; for embeddings, `dim` is the length of the vectors (ValueError without)."""
    if table != "embeddings":
        return _FIXED[table]
    if dim is None or dim <= 0:
        raise ValueError(f"embeddings have vectors of positive length, got {dim}")
    return TableFormat(
        embeddings_schema(dim),
        {"crop_id": _DELTA, "track_id": _DELTA, "vector.list.element": _SPLIT},
        ("segment", "crop_id"),
        16_384,
        8 << 20,
    )


def pack_ids(segment: int, local: ArrayLike) -> NDArray[np.int64]:
    """Ids that are unique in the library: segment << 32 | local; ValueError unless local is in [0, 2**32)."""
    numbers = np.asarray(local, np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= 1 << LOCAL_BITS):
        raise ValueError(f"local ids lie in [0, 2**{LOCAL_BITS}), got {numbers.min()} to {numbers.max()}")
    return numbers | np.int64(segment << LOCAL_BITS)


def segment_of(ids: ArrayLike) -> NDArray[np.int32]:
    """The segment of each track or crop id."""
    return (np.asarray(ids, np.int64) >> LOCAL_BITS).astype(np.int32)


def check_segment(name: str, ids: ArrayLike, segment: int) -> None:
    """Raise ValueError if track or crop ids (N,), called `name`, are of another segment."""
    found = np.unique(segment_of(np.asarray(ids, np.int64)))
    if len(found) and (len(found) > 1 or found[0] != segment):
        raise ValueError(
            f"{name} carries its segment in the upper 32 bits: expected {segment}, got {found[:5].tolist()}; "
            "make ids with writer.pack(local)"
        )


def to_arrow(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """An Arrow table of exactly `schema`; ValueError if columns are missing, unknown or unequal in length."""
    wanted, given = set(schema.names), set(columns)
    if wanted != given:
        raise ValueError(
            f"columns are {', '.join(schema.names)}; missing: {sorted(wanted - given)}, "
            f"unknown: {sorted(given - wanted)}"
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns have one length, got {lengths}")
    return pa.table([_column(columns[field.name], field.type) for field in schema], schema=schema)


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return whole.cast(kind)
    if pa.types.is_fixed_size_list(kind):
        vectors = np.ascontiguousarray(values, np.float32)  # (N, dim)
        if vectors.ndim != 2 or vectors.shape[1] != kind.list_size:
            raise ValueError(f"vectors are (N, {kind.list_size}), got {vectors.shape}")
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=kind)
    if pa.types.is_binary(kind):
        return pa.array([bytes(value) for value in values], kind)
    return pa.array(np.asarray(values).astype(_NUMPY[kind], copy=False), kind)


def vectors_of(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    """The (N, dim) float32 rows of a vector column, without a copy if Arrow holds them in one piece."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    size = whole.type.list_size
    # Not `flatten`, which makes pyarrow load its compute functions.
    numbers = whole.values.slice(whole.offset * size, len(whole) * size)
    return numbers.to_numpy(zero_copy_only=False).reshape(len(whole), size)
