"""A Python value comes in; its SQL text goes out."""

from __future__ import annotations

import math


def quote_text(value: str) -> str:
    """A string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + value.replace('"', '""') + '"'


def quote_number(value: float) -> str:
    """A number as SQL text; SQL has no literal for infinity, so that is cast from text."""
    return repr(value) if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
