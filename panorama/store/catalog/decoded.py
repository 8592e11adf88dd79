"""Values of a catalog column come in as stored; their decoded meaning, or one error, goes out.

SQLite stores any value in any column. Columns whose format only this program knows are decoded here: JSON,
bytes of arrays, times and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from panorama.errors import LibraryDamaged, PanoramaError

if TYPE_CHECKING:
    from panorama.store.catalog.database import Transaction

T = TypeVar("T")

UNREADABLE = (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError, PanoramaError)
"""What decoding an invalid value may raise."""

SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of the catalog and how to decode its values.

    Attributes:
        name: table and column, for example 'zones.points'.
        read: decodes (key of the row, stored value); any exception of UNREADABLE means that it is invalid.
        row: names a row, given its key, for people.
        mend: a remedy other than restoring a backup, given the catalog and the row's key; None if there is
            none.
    """

    name: str
    read: Callable[[Any, Any], T]
    row: Callable[[Any], str]
    mend: Callable[[Transaction, Any], str] | None = None

    def of(self, tx: Transaction, keyed: Iterable[tuple[Any, Any]]) -> list[T]:
        """The decoded values of some rows, in order.

        Args:
            keyed: (key, stored value) of each row; `read`, `row` and `mend` receive the key.

        Raises:
            LibraryDamaged: a value is invalid; the message names catalog, column, row, value and next step.
        """
        found: list[T] = []
        key = value = None
        try:
            for key, value in keyed:
                found.append(self.read(key, value))
        except UNREADABLE as exc:
            raise self.damage(tx, key, value, exc) from exc
        return found

    def one(self, tx: Transaction, key: Any, value: Any) -> T:
        """The decoded value of one row; errors as `of`."""
        return self.of(tx, [(key, value)])[0]

    def damage(self, tx: Transaction, key: Any, value: Any, wrong: object) -> LibraryDamaged:
        """The error for an invalid value; `wrong` says what is wrong with it."""
        held = f"{len(value)} bytes" if isinstance(value, bytes) else _short(repr(value))
        mend = "" if self.mend is None else f", or {self.mend(tx, key)}"
        return LibraryDamaged(
            f"{tx.path} is damaged: {self.name} of {self.row(key)} holds {held}: {_short(str(wrong), 120)};"
            f" put it back from a backup{mend}"
        )


def _short(text: str, most: int = SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
