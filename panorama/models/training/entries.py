"""A table of a recipe comes in; it goes out checked, entry by entry, before any work begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from panorama.errors import ModelError
from panorama.values import is_finite, is_text, whole

MOST_WHOLE = 2**32 - 1
"""The largest whole number in a recipe: seeds of single steps derive from it, and have 64 bits."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a value of a recipe must be: in words that follow 'is', and as a test."""

    words: str
    fits: Callable[[Any], bool]


def whole_from(least: int, most: int = MOST_WHOLE) -> Entry:
    """A whole number between both, inclusive."""
    return Entry(f"a whole number from {least} to {most}", whole(least, most))


def number_from(least: float, most: float = float("inf")) -> Entry:
    """A finite number between both, inclusive."""
    to = "" if most == float("inf") else f" to {most:g}"
    return Entry(f"a number from {least:g}{to}", lambda value: is_finite(value) and least <= value <= most)


def list_of(words: str, fits: Callable[[Any], bool], count: int | None = None) -> Entry:
    """A list of `count` items, or of any number of them, which all fit."""

    def fit(value: Any) -> bool:
        return isinstance(value, list) and count in (None, len(value)) and all(map(fits, value))

    return Entry(words, fit)


TEXT = Entry("text", lambda value: is_text(value) and "\0" not in value)
TEXTS = list_of("a list of texts", TEXT.fits)


def check_entries(table: Any, entries: Mapping[str, Entry], where: str) -> None:
    """Check those entries of a table that are there.

    Args:
        where: the table and its recipe, in error messages.

    Raises:
        ModelError: it is no table, or an entry is of another kind or out of range.
    """
    if not isinstance(table, Mapping):
        raise ModelError(f"{where} is a table of entries, got {table!r:.60}")
    for name, entry in entries.items():
        if name in table and not entry.fits(table[name]):
            raise ModelError(f"{name} in {where} is {entry.words}, got {short(table[name])}")


def short(value: Any) -> str:
    """A value of a recipe for an error message."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
