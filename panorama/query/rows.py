"""An Arrow table and DuckDB's names of its types enter; rows of Python values leave, as DuckDB gives them."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any

import pyarrow as pa

from panorama.query.beyond import durations, python_values


class Row(tuple[Any, ...]):
    """A tuple whose values can also be read by column name: row['video'], row.video."""

    __slots__ = ()
    _columns: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._columns.index(key))
            except ValueError:
                raise KeyError(f"no column {key!r}; there are {', '.join(self._columns)}") from None
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        try:
            return tuple.__getitem__(self, self._columns.index(name))
        except ValueError:
            raise AttributeError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def keys(self) -> tuple[str, ...]:
        """Column names; with them, dict(row) works."""
        return self._columns

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made for the columns and has no name that another process could find.
        return _row_again, (self._columns, tuple(self))


@lru_cache(maxsize=256)
def _row_kind(columns: tuple[str, ...]) -> type[Row]:
    """The class of rows with these columns."""
    # Python looks for an attribute in the class first: there every tuple has a `count` and an `index`.
    hidden: dict[str, Any] = {
        name: property(itemgetter(name)) for name in ("count", "index") if name in columns
    }
    return type("Row", (Row,), {"_columns": columns, "__slots__": (), **hidden})


def _row_again(columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    """A row as another process, or a copy, has it."""
    return _row_kind(columns)(values)


def rows_of(table: pa.Table, types: Sequence[str]) -> list[Row]:
    """Rows of Python values, as DuckDB's own fetchall gives them; text for what Python has no value for."""
    kind = _row_kind(tuple(table.column_names))
    with _nothing_collected():
        columns = [_values(table.column(i), types[i]) for i in range(table.num_columns)]
        if not columns:
            return [kind() for _ in range(len(table))]
        return [kind(values) for values in zip(*columns, strict=True)]


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Within it nobody looks for garbage: rows in the making are none, and looking took most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _values(column: pa.ChunkedArray, duckdb_type: str) -> list[Any]:
    if duckdb_type == "INTERVAL":
        return list(durations(column))
    values = python_values(column)
    fix = _fixer(column.type, duckdb_type)
    return values if fix is None else [None if value is None else fix(value) for value in values]


def _fixer(kind: pa.DataType, duckdb_type: str) -> Any:
    """How to undo what Arrow does to values that it has no type for; None where nothing is to be done."""
    if duckdb_type == "HUGEINT":
        return int
    if duckdb_type == "UHUGEINT":
        return lambda value: int(value) % (1 << 128)  # Arrow has a sign there
    if duckdb_type == "UUID":
        return lambda value: uuid.UUID(value) if isinstance(value, str) else value
    if duckdb_type == "BIT":
        return _bits
    return _nested_fixer(kind, named="element1" in duckdb_type)


def _nested_fixer(kind: pa.DataType, named: bool) -> Any:
    """For values in values. Structs without names are tuples; Arrow calls their fields element1, element2."""
    if pa.types.is_map(kind):
        return dict
    if pa.types.is_fixed_size_list(kind):
        inner = _nested_fixer(kind.value_type, named) or _integral(kind.value_type)
        return lambda value: tuple(_each(inner, value))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _nested_fixer(kind.value_type, named) or _integral(kind.value_type)
        return None if inner is None else lambda value: _each(inner, value)
    if pa.types.is_struct(kind):
        fixes = {
            field.name: fix
            for field in kind
            if (fix := _nested_fixer(field.type, named) or _integral(field.type)) is not None
        }
        if not named and kind.num_fields and kind.field(0).name == "element1":
            return lambda value: tuple(_fields(fixes, value).values())
        return (lambda value: _fields(fixes, value)) if fixes else None
    return None


def _integral(kind: pa.DataType) -> Any:
    """Inside lists and structs, HUGEINT arrives as a decimal of 38 digits without a fraction."""
    return int if pa.types.is_decimal(kind) and kind.precision == 38 and kind.scale == 0 else None


def _each(fix: Any, values: Sequence[Any]) -> list[Any]:
    return [value if fix is None or value is None else fix(value) for value in values]


def _fields(fixes: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    return {k: fixes[k](v) if k in fixes and v is not None else v for k, v in value.items()}


def _bits(value: Any) -> Any:
    """DuckDB's BIT: the first byte counts the padding bits."""
    if not isinstance(value, bytes) or not value:
        return value
    return "".join(f"{byte:08b}" for byte in value[1:])[value[0] :]
