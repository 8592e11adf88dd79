"""DuckDB's name of a type enters; what makes Python's values of those that Arrow has otherwise leaves."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import duckdb

Fix: TypeAlias = Callable[[Any], Any]

_NESTED = ("list", "array", "struct", "tuple", "map")
_BIGNUM_HEAD = 3
_BIGNUM_POSITIVE = 0x80
_MOST_WRITTEN = 10**640
"""Whole numbers from here on Python may refuse to write (`sys.set_int_max_str_digits`), decimals not."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of DuckDB.

    Attributes:
        name: as DuckDB writes it, without what it is made of: 'HUGEINT', 'DECIMAL', 'STRUCT'.
        inner: of a list or an array its values' type, of a map two, of a struct those of its fields.
    """

    name: str
    inner: tuple[Kind, ...] = ()

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether it is, or holds at any depth, a type of one of some names."""
        return self.name in names or any(kind.holds(names) for kind in self.inner)


@lru_cache(maxsize=256)
def kind_of(duckdb_type: str) -> Kind:
    """The type that DuckDB calls so."""
    if "(" not in duckdb_type and "[" not in duckdb_type:
        return Kind(duckdb_type)
    with duckdb.connect(config={"threads": 1}) as connection:
        return _kind(connection.sqltype(duckdb_type))


def _kind(read: Any) -> Kind:
    inner = read.children if read.id in _NESTED else []
    # The children of an array are its values' type and its length.
    return Kind(read.id.upper(), tuple(_kind(kind) for name, kind in inner if not isinstance(kind, int)))


def fixer(duckdb_type: str, fixes: Mapping[str, Fix]) -> Fix | None:
    """What applies some functions to a value of a type, or to all of such types that it holds.

    Values are as rows have them: a map is a dictionary, a struct without names a tuple.

    Args:
        fixes: by the names of types; a value that is NULL is left out.
    """
    if not any(name in duckdb_type for name in fixes):
        return None
    return _fixer(kind_of(duckdb_type), fixes)


def _fixer(kind: Kind, fixes: Mapping[str, Fix]) -> Fix | None:
    if kind.name in fixes:
        return fixes[kind.name]
    inner = [_fixer(one, fixes) for one in kind.inner]
    if not any(inner):
        return None
    if kind.name == "MAP":
        keys, values = inner
        return lambda value: {fixed(keys, key): fixed(values, item) for key, item in value.items()}
    if kind.name in ("STRUCT", "TUPLE"):
        return lambda value: _fields(inner, value)
    return lambda value: type(value)(fixed(inner[0], item) for item in value)


def _fields(fixes: Sequence[Fix | None], value: Any) -> Any:
    if isinstance(value, dict):
        return dict(zip(value, map(fixed, fixes, value.values()), strict=True))
    return tuple(map(fixed, fixes, value))


def fixed(fix: Fix | None, value: Any) -> Any:
    """A value after a function that leaves NULL alone; None for no function."""
    return value if fix is None or value is None else fix(value)


def bits(value: bytes) -> str:
    """A BIT's digits: the first byte counts those of the second that are none."""
    return "".join(f"{byte:08b}" for byte in value[1:])[value[0] :]


def unsigned(value: decimal.Decimal) -> int:
    """A UHUGEINT: Arrow has a sign there."""
    return int(value) % (1 << 128)


def bignum(value: bytes) -> int | decimal.Decimal:
    """A BIGNUM: behind a head of three bytes its own, of one below 0 with every bit turned."""
    below = not value[0] & _BIGNUM_POSITIVE
    size = int.from_bytes(bytes(255 - byte if below else byte for byte in value[_BIGNUM_HEAD:]), "big")
    number = -size if below else size
    return number if size < _MOST_WRITTEN else decimal.Decimal(number)


def duration(value: Any) -> datetime.timedelta | str:
    """An INTERVAL of months, days and nanoseconds; OverflowError where it is too long for a duration.

    One that was found too long before is text, and stays so.
    """
    if isinstance(value, (datetime.timedelta, str)):
        return value
    months, days, nanoseconds = value
    return datetime.timedelta(days=months * 30 + days, microseconds=nanoseconds // 1000)


def _uuid(value: str | uuid.UUID) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


OTHERWISE: Mapping[str, Fix] = {
    "HUGEINT": int,
    "UHUGEINT": unsigned,
    "BIGNUM": bignum,
    "BIT": bits,
    "INTERVAL": duration,
}
"""Of types that Arrow, or what reads it, has no values for: from Arrow's to Python's."""

OF_ROWS: Mapping[str, Fix] = {**OTHERWISE, "UUID": _uuid}
"""And those that rows have as Python has them."""
