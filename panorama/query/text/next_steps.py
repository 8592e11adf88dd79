"""DuckDB's message about a statement comes in; what to write instead goes out, for a few common mistakes."""

from __future__ import annotations

import re

from panorama.errors import near
from panorama.query.text.quoting import quote_text

_KEYWORDS = ("SELECT", "FROM", "WHERE", "AND", "ORDER", "GROUP", "HAVING", "LIMIT", "OFFSET", "JOIN", "UNION")
_NO_CONDITION = re.compile(r"Could not convert string '(.*)' to BOOL", re.DOTALL)
_IS = re.compile(r"\bIS\s+(NOT\s+)?$", re.IGNORECASE)
_COUNTS = re.compile(r"\b(LIMIT|OFFSET)\s+$", re.IGNORECASE)
_LAST_WORD = re.compile(r"(\w+)\s+$")


def next_step(message: str, sql: str, position: int | None) -> str:
    """What to write instead, as a sentence behind the message; '' if it is not known.

    Args:
        position: that DuckDB names in `sql`.
    """
    before = sql[: position or 0]
    if (found := _NO_CONDITION.match(message)) and "bool" not in sql.lower():  # else a cast, as typed
        return f". A text alone is no condition; compare a column with it: entity = {quote_text(found[1])}"
    if message.startswith("WHERE clause cannot contain aggregates"):
        return ". Put a condition on groups behind GROUP BY: GROUP BY video HAVING count(*) > 2"
    if message.startswith("SELECT clause without selection list"):
        return ". Name columns behind SELECT, or write * for all: SELECT * FROM ..."
    if message.startswith("Referenced column") and (counts := _COUNTS.search(before)):
        return f". {counts[1].upper()} takes a whole number"
    if message.startswith("syntax error"):
        if compares := _IS.search(before):
            sign = "<>" if compares[1] else "="
            return f". IS asks for NULL, true or false; compare a text with {sign}"
        if (word := _LAST_WORD.search(before)) and word[1].upper() not in _KEYWORDS:
            hint = near(word[1].upper(), _KEYWORDS, 0.7)
            return f". {word[1]!r} is no keyword.{hint}" if hint else ""
    return ""
