"""Values that Python has no type for, as "infinity" and years BC, enter; DuckDB's text of them leaves."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from panorama.errors import QueryError

_MIDNIGHT = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
"""24:00:00, which Arrow gives to Python as 0:00, by its unit."""
_ENDLESS = (1 << 63) - 1
"""The instant that DuckDB calls infinity; of nanoseconds Python would be given one in the year 2262."""


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column, those that Python has no type for as DuckDB writes them."""
    try:
        if not _is_misread(column):
            return column.to_pylist()
    except (OverflowError, ValueError):
        pass  # a year, or a part of a second, that datetime has not
    return [_one(value, text) for value, text in zip(column, _texts(column), strict=True)]


def durations(column: pa.ChunkedArray) -> list[datetime.timedelta | str | None]:
    """INTERVALs as durations, those that are too long for one as DuckDB writes them."""
    spans = column.to_pylist()
    try:
        return [None if span is None else _duration(span) for span in spans]
    except OverflowError:
        return [_duration_or(span, text) for span, text in zip(spans, _texts(column), strict=True)]


def with_durations(table: pa.Table) -> pa.Table:
    """The table with INTERVALs, as of one clock less another, as durations; nothing else knows the former.

    Raises:
        QueryError: one is too long for a duration.
    """
    for i, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            spans = durations(table.column(i))
            try:
                made = pa.array(spans, pa.duration("us"))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as exc:
                raise QueryError(
                    f"the column {field.name!r} holds an INTERVAL that is too long for a duration, which"
                    f" files and data frames have; return its text, CAST({field.name} AS VARCHAR)"
                ) from exc
            table = table.set_column(i, field.name, made)
    return table


def to_pandas(table: pa.Table) -> Any:
    """The table as a data frame.

    Raises:
        QueryError: a column holds what pandas has no type for.
    """
    table = with_durations(table)
    try:
        return table.to_pandas()
    except (OverflowError, ValueError) as exc:
        for i, name in enumerate(table.column_names):
            try:
                table.select([i]).to_pandas()
            except (OverflowError, ValueError):
                raise QueryError(
                    f"the column {name!r} holds a {table.schema.field(i).type} that pandas has no type for:"
                    f" {exc}; return its text, CAST({name} AS VARCHAR)"
                ) from exc
        raise


def _is_misread(column: pa.ChunkedArray) -> bool:
    """Whether Python would be given another value, without a word."""
    kind = column.type
    if pa.types.is_time64(kind):
        last = pc.max(column.cast(pa.int64())).as_py()
        return last is not None and last >= _MIDNIGHT[kind.unit]
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        ends = pc.min_max(column.cast(pa.int64())).as_py()
        return ends["max"] is not None and max(ends["max"], -ends["min"]) == _ENDLESS
    return False


def _texts(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as DuckDB writes them; lists, structs and maps as such, of texts."""
    with duckdb.connect(config={"threads": 1}) as connection:
        if zone := getattr(column.type, "tz", None):
            connection.execute("SET TimeZone = ?", [zone])
        texts = connection.from_arrow(pa.table({"value": column}))
        texts = texts.project(f"CAST(value AS {_of_texts(column.type)}) AS value")
        return texts.to_arrow_table().column(0).to_pylist()


def _of_texts(kind: pa.DataType) -> str:
    """DuckDB's name of a type like this one, of texts."""
    if pa.types.is_map(kind):
        return f"MAP({_of_texts(kind.key_type)}, {_of_texts(kind.item_type)})"
    if pa.types.is_fixed_size_list(kind):
        return f"{_of_texts(kind.value_type)}[{kind.list_size}]"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_of_texts(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = ('"' + field.name.replace('"', '""') + '" ' + _of_texts(field.type) for field in kind)
        return f"STRUCT({', '.join(fields)})"
    return "VARCHAR"


def _one(value: pa.Scalar, text: Any) -> Any:
    """A value of Arrow as Python has it, what it has not as text.

    Args:
        text: the same, with texts alone in it.
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
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return text


def _duration(span: Any) -> datetime.timedelta:
    months, days, nanoseconds = span
    return datetime.timedelta(days=months * 30 + days, microseconds=nanoseconds // 1000)


def _duration_or(span: Any, text: str) -> datetime.timedelta | str | None:
    try:
        return None if span is None else _duration(span)
    except OverflowError:
        return text
