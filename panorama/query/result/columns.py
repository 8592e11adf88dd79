"""A DuckDB table comes in; what Parquet and data frames can hold of it goes out, value by value.

They know fewer types than DuckDB: durations instead of INTERVALs, integers of 64 bits, text for bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from panorama.errors import QueryError
from panorama.query.result.beyond import changed_in_frames, with_leaves
from panorama.query.result.kinds import OTHERWISE, Kind, kind_of

GROUP_ROWS = 1 << 17
"""Rows written to Parquet at a time; writing can be interrupted between two groups."""

_LARGEST = pa.decimal128(38, 0)
"""The type for integers beyond 64 bits."""


class _NoTypeError(Exception):
    """Files and data frames have no type for a value; the message says for which."""


def with_typed_maps(table: pa.Table, types: Sequence[str]) -> pa.Table:
    """The table with typed keys and values in empty maps `MAP{}`, which Arrow cannot keep untyped."""
    if not any('MAP("NULL"' in duckdb_type for duckdb_type in types):
        return table
    fields = [field.with_type(with_leaves(field.type, _typed)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _typed(leaf: pa.DataType, of_map: bool) -> pa.DataType:
    return pa.int32() if of_map and pa.types.is_null(leaf) else leaf


def to_pandas(table: pa.Table, types: Sequence[str]) -> Any:
    """The table as a pandas DataFrame.

    Args:
        types: DuckDB's names of the column types.

    Raises:
        QueryError: a column holds values that pandas has no type for.
    """
    return _whole_or_named("pandas has", _pandas_frame, _for_frames(table, types))


def _pandas_frame(table: pa.Table) -> Any:
    """The table as a DataFrame; whole numbers beside NULLs are nullable: as floats they lose digits."""
    import pandas

    frame = table.to_pandas(integer_object_nulls=True)  # within lists
    for i, column in enumerate(table.columns):
        if pa.types.is_integer(column.type) and column.null_count:
            name = str(column.type).replace("uint", "UInt").replace("int", "Int")
            kind = pandas.api.types.pandas_dtype(name)  # takes pandas.NA
            frame.isetitem(i, column.to_pandas(types_mapper=lambda _, kind=kind: kind))
    return frame


def to_polars(table: pa.Table, types: Sequence[str]) -> Any:
    """The table as a polars DataFrame; arguments and errors as for `to_pandas`."""
    import polars

    return _whole_or_named("polars has", polars.from_arrow, _for_frames(table, types))


def _for_frames(table: pa.Table, types: Sequence[str]) -> pa.Table:
    """The plain table; QueryError for infinity, which would become a year, and 24:00, in polars null."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if changed := changed_in_frames(column):
            raise _lacks(name, f"{changed}, which data frames cannot hold as a date or a time")
    return plain_table(table, types)


def write_parquet(table: pa.Table, types: Sequence[str], path: Path) -> None:
    """Write the table to a Parquet file.

    Raises:
        QueryError: a column holds values that Parquet has no type for.
    """

    def write(part: pa.Table) -> None:
        # Open the file here: pyarrow seeks in files that it opens itself, and a pipe cannot seek.
        with path.open("wb") as file, pyarrow.parquet.ParquetWriter(file, part.schema) as writer:
            for start in range(0, max(len(part), 1), GROUP_ROWS):
                writer.write_table(part.slice(start, GROUP_ROWS))

    _whole_or_named("Parquet has", write, plain_table(table, types))


def _whole_or_named(who: str, make: Callable[[pa.Table], Any], table: pa.Table) -> Any:
    """Apply `make` to a table; if it fails, raise a QueryError that names the column at fault."""
    try:
        return make(table)
    except (OverflowError, ValueError, NotImplementedError) as exc:
        for field in table.schema:
            try:
                make(table.select([field.name]))
            except (OverflowError, ValueError, NotImplementedError):
                raise _lacks(field.name, f"a {field.type} that {who} no type for: {exc}") from exc
        raise


def _lacks(name: str, what: str) -> QueryError:
    return QueryError(f"the column {name!r} holds {what}; return its text, CAST({name} AS VARCHAR)")


def plain_table(table: pa.Table, types: Sequence[str]) -> pa.Table:
    """The table converted to types that files and data frames have, at any depth.

    Raises:
        QueryError: a column holds values that they have no type for.
    """
    return _changed(table, types, _PLAIN)


def check_signs(table: pa.Table, types: Sequence[str]) -> None:
    """Refuse what Arrow itself would give another number for.

    Raises:
        QueryError: a column holds a UHUGEINT of 128 bits, which Arrow reads as a negative number.
    """
    _changed(table, types, {"UHUGEINT": _not_negative})


_Changes: TypeAlias = Mapping[str, Callable[[pa.Array, str], pa.Array]]


def _changed(table: pa.Table, types: Sequence[str], changes: _Changes) -> pa.Table:
    """The table with the values of some types changed, at any depth, by functions by type name."""
    for i, (name, duckdb_type) in enumerate(zip(table.column_names, types, strict=True)):
        if not any(other in duckdb_type for other in changes):
            continue
        kind, column = kind_of(duckdb_type), table.column(i)
        if kind.holds(changes):
            array = pa.concat_arrays(column.chunks or [pa.array([], column.type)])
            try:
                made = _made(array, kind, changes)
            except _NoTypeError as exc:
                raise _lacks(name, str(exc)) from exc
            table = table.set_column(i, name, made)
    return table


def _made(array: pa.Array, kind: Kind, changes: _Changes) -> pa.Array:
    """The values (N,) of a type, changed."""
    if kind.name in changes:
        return changes[kind.name](array, kind.name)
    if not kind.holds(changes):
        return array
    if kind.name == "MAP":
        both = zip((array.keys, array.items), kind.inner, strict=True)
        keys, items = (_made(part, one, changes) for part, one in both)
        return pa.MapArray.from_arrays(_offsets(array), keys, items)
    if kind.name == "LIST":
        return type(array).from_arrays(_offsets(array), _made(array.values, kind.inner[0], changes))
    if kind.name == "ARRAY":
        size = array.type.list_size
        values = _made(array.values.slice(array.offset * size, len(array) * size), kind.inner[0], changes)
        return pa.FixedSizeListArray.from_arrays(values, size, mask=array.is_null())
    parts = [_made(part, one, changes) for part, one in zip(array.flatten(), kind.inner, strict=True)]
    names = [field.name for field in array.type]
    return pa.StructArray.from_arrays(parts, names=names, mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    """(N + 1,) offsets at which the lists begin; NULL for a list that is NULL."""
    if not array.null_count:
        return array.offsets
    missing = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pc.if_else(missing, pa.scalar(None, array.offsets.type), array.offsets)


def _values(array: pa.Array, name: str) -> list[Any]:
    """The values as rows have them."""
    fix = OTHERWISE[name]
    return [None if value is None else fix(value) for value in array.to_pylist()]


def _digits(array: pa.Array, name: str) -> pa.Array:
    return pa.array(_values(array, name), pa.string())


def _durations(array: pa.Array, name: str) -> pa.Array:
    try:
        return pa.array(_values(array, name), pa.duration("us"))
    except (pa.ArrowInvalid, OverflowError) as exc:
        raise _NoTypeError("an INTERVAL that is too long for the durations of files and data frames") from exc


def _whole(array: pa.Array, name: str) -> pa.Array:
    """64-bit integers; if one needs more bits, decimals without a fraction, with every digit."""
    try:
        return array.cast(pa.int64()) if name == "HUGEINT" else pa.array(_values(array, name), pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    try:
        return pa.array(_values(array, name), _LARGEST)
    except (pa.ArrowInvalid, OverflowError, ValueError) as exc:
        raise _NoTypeError(
            f"a whole number of more than the {_LARGEST.precision} digits that files and data frames can hold"
        ) from exc


def _not_negative(array: pa.Array, name: str) -> pa.Array:
    least = pc.min(array).as_py()
    if least is not None and least < 0:
        raise _NoTypeError(f"a {name} of 128 bits, which Arrow would read as a negative number")
    return array


def _refused(array: pa.Array, name: str) -> pa.Array:
    raise _NoTypeError(f"a {name}, a type that files and data frames do not have")


_PLAIN: dict[str, Callable[[pa.Array, str], pa.Array]] = {
    "HUGEINT": _whole,
    "UHUGEINT": _whole,
    "BIGNUM": _whole,
    "BIT": _digits,
    "INTERVAL": _durations,
    "UNION": _refused,
}
