"""A word of a statement comes in; advice on quotes goes out if a text was probably meant."""

from __future__ import annotations

import re

from panorama.query.text.quoting import quote_text

QUOTE_TWICE = "a single quote inside a text is written twice, 'it''s'"


def single_quotes(word: str) -> str:
    """The advice for a word where a text is meant."""
    text = quote_text(word)
    return f"Put text in single quotes, {text}; a bare word, or one in double quotes, is a column"


_WORD = re.compile(r"\w+(?:[-./]+\w+)*")
_CURLY = ("‘’", "„“", "“”", "«»")
"""Typographic quotes that word processors use instead of straight ones."""
_COMPARED = re.compile(r"(=|<>|\bI?LIKE)\s*$", re.IGNORECASE)


def meant_text(sql: str, position: int | None, name: str, compared: bool = False) -> str:
    """A hint if an unknown name is compared with something: a text may have been meant. '' otherwise.

    Args:
        position: of the name in `sql`.
        name: as SQL reads it; gate/blue-van.mp4 without quotes is gate divided by blue minus van.mp4.
        compared: whether the name is known to be compared with a text.
    """
    at = 0 if position is None else position
    found = next((word for word in _WORD.finditer(sql) if word.start() <= at < word.end()), None)
    if not compared and not _COMPARED.search(sql[: found.start() if found else at]):
        return ""
    word = found.group() if found else ""
    curly = next(
        (f"; {pair[0]} and {pair[1]} are not single quotes" for pair in _CURLY if set(sql) & set(pair)), ""
    )
    return f". {single_quotes(word if set(word) & set('-./') else name.strip(''.join(_CURLY)))}{curly}"
