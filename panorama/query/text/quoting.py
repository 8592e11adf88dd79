"""A Python value enters; it leaves as SQL writes it."""

from __future__ import annotations

import math


def quote_text(value: str) -> str:
    """A string as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """An identifier as SQL writes it."""
    return '"' + value.replace('"', '""') + '"'


def quote_number(value: float) -> str:
    """A number as SQL writes it; infinity has no spelling of its own there."""
    return repr(value) if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
