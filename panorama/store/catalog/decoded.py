"""What a column of the catalog holds enters as it is stored; it leaves as what it means, or as one error.

SQLite keeps whatever is put into it. What only this program can read is read here: JSON, the bytes of arrays,
times and numbers.
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
"""What reading a value may raise that is not what it should be."""

SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of the catalog, and how what it holds is read.

    Attributes:
        name: as 'zones.points'.
        read: of a row's key and its value, what that means; whatever it raises of UNREADABLE says: nothing.
        row: of a row's key, which one it is, for people.
        mend: of a row's key, what else can be done than to put a backup back; None: nothing else.
    """

    name: str
    read: Callable[[Any, Any], T]
    row: Callable[[Any], str]
    mend: Callable[[Any], str] | None = None

    def of(self, tx: Transaction, keyed: Iterable[tuple[Any, Any]]) -> list[T]:
        """What the values of some rows mean, in their order.

        Args:
            keyed: of each row its key, as `read`, `row` and `mend` take it, and the value.

        Raises:
            LibraryDamaged: one means nothing; it names catalog, column, row and value, and the next step.
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
        """The same of one row."""
        return self.of(tx, [(key, value)])[0]

    def damage(self, tx: Transaction, key: Any, value: Any, wrong: object) -> LibraryDamaged:
        """The error for a value of a row that means nothing, and why."""
        held = f"{len(value)} bytes" if isinstance(value, bytes) else _short(repr(value))
        mend = "" if self.mend is None else f", or {self.mend(key)}"
        return LibraryDamaged(
            f"{tx.path} is damaged: {self.name} of {self.row(key)} holds {held}: {_short(str(wrong), 120)};"
            f" put it back from a backup{mend}"
        )


def _short(text: str, most: int = SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
