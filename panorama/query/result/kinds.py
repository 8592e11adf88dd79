"""The name of a DuckDB type comes in; functions that turn Arrow's values of it into Python's go out."""

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
"""Python may refuse to print integers of this size (`sys.set_int_max_str_digits`), but prints Decimals."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of DuckDB.

    Attributes:
        name: DuckDB's name without parameters: 'HUGEINT', 'DECIMAL', 'STRUCT'.
        inner: the types inside: one for a list or an array, two for a map, one per field for a struct.
    """

    name: str
    inner: tuple[Kind, ...] = ()

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether this type, or one inside it at any depth, has one of these names."""
        return self.name in names or any(kind.holds(names) for kind in self.inner)


@lru_cache(maxsize=256)
def kind_of(duckdb_type: str) -> Kind:
    """The type with this DuckDB name."""
    if "(" not in duckdb_type and "[" not in duckdb_type:
        return Kind(duckdb_type)
    with duckdb.connect(config={"threads": 1}) as connection:
        return _kind(connection.sqltype(duckdb_type))


def _kind(read: Any) -> Kind:
    inner = read.children if read.id in _NESTED else []
    # The children of an array are the type of its values and its length.
    return Kind(read.id.upper(), tuple(_kind(kind) for name, kind in inner if not isinstance(kind, int)))


def fixer(duckdb_type: str, fixes: Mapping[str, Fix]) -> Fix | None:
    """A function that applies `fixes` to a value of a type and to all values inside it; None if none applies.

    Values have the form that rows have: a map is a dictionary, or {'key': [...], 'value': [...]} if its keys
    are lists, structs or the like; a struct without names is a tuple.

    Args:
        fixes: functions by type name; NULLs are skipped.
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
        if kind.inner[0].inner:  # lists, structs and the like: keys and values are apart
            return lambda value: {
                "key": [fixed(keys, key) for key in value["key"]],
                "value": [fixed(values, item) for item in value["value"]],
            }
        return lambda value: {fixed(keys, key): fixed(values, item) for key, item in value.items()}
    if kind.name in ("STRUCT", "TUPLE"):
        return lambda value: _fields(inner, value)
    return lambda value: type(value)(fixed(inner[0], item) for item in value)


def _fields(fixes: Sequence[Fix | None], value: Any) -> Any:
    if isinstance(value, dict):
        return dict(zip(value, map(fixed, fixes, value.values()), strict=True))
    return tuple(map(fixed, fixes, value))


def fixed(fix: Fix | None, value: Any) -> Any:
    """Apply a function to a value; NULL stays, and None as function changes nothing."""
    return value if fix is None or value is None else fix(value)


def bits(value: bytes) -> str:
    """The digits of a BIT: the first byte says how many leading bits of the second byte are padding."""
    return "".join(f"{byte:08b}" for byte in value[1:])[value[0] :]


def unsigned(value: decimal.Decimal) -> int:
    """A UHUGEINT: Arrow reads it as signed."""
    return int(value) % (1 << 128)


def bignum(value: bytes) -> int | decimal.Decimal:
    """A BIGNUM: three bytes of head, then the number's bytes; every bit is inverted if it is negative."""
    below = not value[0] & _BIGNUM_POSITIVE
    size = int.from_bytes(bytes(255 - byte if below else byte for byte in value[_BIGNUM_HEAD:]), "big")
    number = -size if below else size
    return number if size < _MOST_WRITTEN else decimal.Decimal(number)


def duration(value: Any) -> datetime.timedelta | str:
    """An INTERVAL of months, days and nanoseconds as a timedelta; OverflowError if it is too long.

    Text stays text: it is an INTERVAL that was found too long before.
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
"""For types that Arrow, or its readers, cannot represent: from Arrow's value to Python's."""

OF_ROWS: Mapping[str, Fix] = {**OTHERWISE, "UUID": _uuid}
"""`OTHERWISE` and the types that rows convert to Python objects besides."""
