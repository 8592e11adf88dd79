"""An Arrow table and DuckDB's type names come in; rows of Python values go out, as DuckDB gives them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any

import pyarrow as pa

from panorama.query.result.beyond import python_values, told_values
from panorama.query.result.kinds import OF_ROWS, Fix, fixed, fixer


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
        """Column names; they make dict(row) work."""
        return self._columns

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made for these columns and has no name by which another process could import it.
        return _row_again, (self._columns, tuple(self))


@lru_cache(maxsize=256)
def _row_kind(columns: tuple[str, ...]) -> type[Row]:
    """The class of rows with these columns."""
    # Python finds a tuple's methods `count` and `index` first, so columns with these names need a property.
    hidden: dict[str, Any] = {
        name: property(itemgetter(name)) for name in ("count", "index") if name in columns
    }
    return type("Row", (Row,), {"_columns": columns, "__slots__": (), **hidden})


def _row_again(columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    """Rebuild a row after copying or unpickling."""
    return _row_kind(columns)(values)


def rows_of(table: pa.Table, types: Sequence[str]) -> list[Row]:
    """Rows of Python values, as DuckDB's own fetchall returns them; text where Python has no type."""
    kind = _row_kind(tuple(table.column_names))
    with _nothing_collected():
        columns = [_values(table.column(i), types[i]) for i in range(table.num_columns)]
        if not columns:
            return [kind() for _ in range(len(table))]
        return [kind(values) for values in zip(*columns, strict=True)]


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Switch garbage collection off in a block: it frees nothing here, but took most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _values(column: pa.ChunkedArray, duckdb_type: str) -> list[Any]:
    shape, fix = _shaper(column.type, "element1" in duckdb_type), fixer(duckdb_type, OF_ROWS)

    def made(values: list[Any]) -> list[Any]:
        for change in filter(None, (shape, fix)):
            values = [None if value is None else change(value) for value in values]
        return values

    try:
        return made(python_values(column))
    except OverflowError:  # an INTERVAL that is too long
        return made(told_values(column))


def _shaper(kind: pa.DataType, named: bool) -> Fix | None:
    """A function that makes dictionaries of maps and tuples of arrays, at any depth; None if there are none.

    A map with lists, structs or the like as keys becomes {'key': [...], 'value': [...]}.
    Structs without names become tuples; Arrow calls their fields element1, element2.
    """
    if pa.types.is_map(kind):
        key, item = _shaper(kind.key_type, named), _shaper(kind.item_type, named)
        if pa.types.is_nested(kind.key_type) and not pa.types.is_union(kind.key_type):
            # No keys of a dictionary; DuckDB gives keys and values apart.
            return lambda value: {
                "key": [fixed(key, one) for one, _ in value],
                "value": [fixed(item, other) for _, other in value],
            }
        if not (key or item):
            return dict
        return lambda value: {fixed(key, one): fixed(item, other) for one, other in value}
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _shaper(kind.value_type, named)
        if pa.types.is_fixed_size_list(kind):
            return lambda value: tuple(fixed(inner, item) for item in value)
        return inner and (lambda value: [fixed(inner, item) for item in value])
    if pa.types.is_struct(kind):
        fields = [_shaper(field.type, named) for field in kind]
        if not named and kind.num_fields and kind.field(0).name == "element1":
            return lambda value: tuple(map(fixed, fields, value.values()))
        if any(fields):
            return lambda value: dict(zip(value, map(fixed, fields, value.values()), strict=True))
    return None
