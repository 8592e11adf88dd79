"""Values without a Python type, such as "infinity" and years BC, come in; DuckDB's text of them goes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from panorama.query.result.kinds import duration
from panorama.query.text.quoting import quote_name

_MIDNIGHT = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
"""24:00:00 by unit of time; Arrow turns it into Python's 0:00."""
_ENDLESS = (1 << 63) - 1
"""The timestamp that DuckDB calls infinity; for nanoseconds Arrow would give Python one in the year 2262."""

_LAST_DAY = (1 << 31) - 1
"""The date that DuckDB calls infinity."""


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as Python objects; as DuckDB's text where Python has no type for them."""
    try:
        counted = _without_nanoseconds(column)
        if not _is_misread(counted):
            return counted.to_pylist()
    except (OverflowError, ValueError):
        pass  # datetime cannot hold such a year or fraction of a second
    return told_values(column)


def _without_nanoseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with timestamps of microseconds; ValueError if that would drop a part of one.

    Arrow gives nanoseconds as a Timestamp of pandas, or not at all where pandas is not installed.
    """
    kind = _in_microseconds(column.type)
    if kind == column.type:
        return column
    if pa.types.is_nested(kind):  # a slice of maps still carries the values beside it, and casts them too
        column = column.take(pa.array(range(len(column)), pa.int64()))
    return column.cast(kind)


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """The type with timestamps of microseconds in place of nanoseconds, at any depth."""

    def counted(leaf: pa.DataType, of_map: bool) -> pa.DataType:
        return pa.timestamp("us", leaf.tz) if pa.types.is_timestamp(leaf) and leaf.unit == "ns" else leaf

    return with_leaves(kind, counted)


def with_leaves(
    kind: pa.DataType, leaf: Callable[[pa.DataType, bool], pa.DataType], of_map: bool = False
) -> pa.DataType:
    """The type with others in place of those that are not nested.

    Args:
        leaf: takes such a type, and whether it is that of a map's keys or values, and returns the other one.
        of_map: the same for `kind`.
    """
    if pa.types.is_map(kind):
        return pa.map_(with_leaves(kind.key_type, leaf, True), with_leaves(kind.item_type, leaf, True))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(with_leaves(kind.value_type, leaf)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_leaves(kind.value_type, leaf)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_leaves(field.type, leaf)) for field in kind])
    return leaf(kind, of_map)


def told_values(column: pa.ChunkedArray) -> list[Any]:
    """The same, value by value: INTERVALs become durations, or text if they are too long for one."""
    return [_one(value, text) for value, text in zip(column, _texts(column), strict=True)]


def _is_misread(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether Arrow would silently give Python a different value."""
    kind = column.type
    if pa.types.is_nested(kind):
        return any(_is_misread(leaf) for chunk in column.chunks for leaf in _leaves(chunk))
    return bool(pa.types.is_time64(kind)) and _has_midnight(column)


def changed_in_frames(column: pa.ChunkedArray) -> str | None:
    """A date or time, at any depth, that data frames would silently turn into another one or into none."""
    leaves = [leaf for chunk in column.chunks for leaf in _leaves(chunk)]
    if any(map(_has_end, leaves)):
        return "infinity"
    return "24:00" if any(pa.types.is_time64(leaf.type) and _has_midnight(leaf) for leaf in leaves) else None


def _has_midnight(times: pa.ChunkedArray | pa.Array) -> bool:
    last = pc.max(times.cast(pa.int64())).as_py()
    return last is not None and last >= _MIDNIGHT[times.type.unit]


def _has_end(leaf: pa.ChunkedArray | pa.Array) -> bool:
    if pa.types.is_timestamp(leaf.type):
        counted, last = leaf.cast(pa.int64()), _ENDLESS
    elif pa.types.is_date32(leaf.type):
        counted, last = leaf.cast(pa.int32()), _LAST_DAY
    else:
        return False
    ends = pc.min_max(counted).as_py()
    return ends["max"] is not None and max(ends["max"], -ends["min"]) == last


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The innermost values of lists, structs and maps."""
    kind = array.type
    if not pa.types.is_nested(kind):
        yield array
        return
    if pa.types.is_map(kind):  # a slice of a map array still carries the keys and items of the whole array
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = [part.slice(first, last - first) for part in (array.keys, array.items)]
    elif pa.types.is_union(kind):
        parts = [array.field(i) for i in range(kind.num_fields)]
    else:
        flat = array.flatten()
        parts = flat if isinstance(flat, list) else [flat]
    for part in parts:
        yield from _leaves(part)


def _texts(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as DuckDB's text; lists, structs and maps stay, with text inside."""
    with duckdb.connect(config={"threads": 1}) as connection:
        if zone := getattr(column.type, "tz", None):
            connection.execute("SET TimeZone = ?", [zone])
        texts = connection.from_arrow(pa.table({"value": column}))
        texts = texts.project(f"CAST(value AS {_of_texts(column.type)}) AS value")
        return texts.to_arrow_table().column(0).to_pylist()


def _of_texts(kind: pa.DataType) -> str:
    """DuckDB's name of the same type with VARCHAR inside."""
    if pa.types.is_map(kind):
        return f"MAP({_of_texts(kind.key_type)}, {_of_texts(kind.item_type)})"
    if pa.types.is_fixed_size_list(kind):
        return f"{_of_texts(kind.value_type)}[{kind.list_size}]"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_of_texts(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (f"{quote_name(field.name)} {_of_texts(field.type)}" for field in kind)
        return f"STRUCT({', '.join(fields)})"
    return "VARCHAR"


def _one(value: pa.Scalar, text: Any) -> Any:
    """One Arrow value as a Python object, or as text if Python has no type for it.

    Args:
        text: the same value with only text inside.
    """
    kind = value.type
    if text is None:
        return None
    if pa.types.is_map(kind):
        pairs = zip(value.values, text, strict=True)
        return [(_one(pair["key"], key), _one(pair["value"], item)) for pair, (key, item) in pairs]
    if pa.types.is_struct(kind):
        return {name: _one(value[name], item) for name, item in text.items()}
    if isinstance(text, list):
        return [_one(item, told) for item, told in zip(value.values, text, strict=True)]
    if pa.types.is_time64(kind) and value.value >= _MIDNIGHT[kind.unit]:
        return text
    if pa.types.is_timestamp(kind) and abs(value.value) == _ENDLESS:
        return text
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        if value.value % 1000:
            return text
        value = value.cast(pa.timestamp("us", kind.tz))
    try:
        return duration(value.as_py()) if pa.types.is_interval(kind) else value.as_py()
    except (OverflowError, ValueError):
        return text
