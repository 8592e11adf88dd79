"""A value of a row comes in; its form in JSON, CSV and printed tables goes out, without unmeasured digits."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from panorama.lines import one_line
from panorama.query.result.kinds import fixer

SHOWN_CHARACTERS = 40
WRITTEN_DIGITS = 6
"""Decimals kept if rounding to them removes only floating-point noise; in seconds, microseconds."""
FLOAT_NOISE = 1e-10
"""Largest difference that counts as floating-point noise, as in sums and differences of times."""
BOXED = frozenset(("x1", "y1", "x2", "y2"))
"""Columns measured in 32-bit floats (24 bits of precision), whatever computes with them afterwards."""
LARGEST_PIXEL = 1 << 17
"""In a column with such a name, a larger number is not a pixel but a value of the user's own."""
LARGEST_SHOWN = 1e15
"""Tables show a larger number by its first digits: a float does not hold its decimals."""


def shortener(name: str, duckdb_type: str) -> Callable[[Any], Any] | None:
    """A function that removes unmeasured digits from the numbers of a column; None if there are none."""
    if duckdb_type == "DOUBLE":
        return _pixel if name.lower() in BOXED else None
    return fixer(duckdb_type, {"FLOAT": _shortest})


def json_value(value: Any) -> Any:
    """A value in the types of JSON: None, bool, number, text, or a list or dictionary of these."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _without_noise(value) if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return value if value.is_finite() else None
    if isinstance(value, dict):
        return {_name(json_value(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _name(key: Any) -> str:
    """The JSON name of a map's key."""
    return f"{key:f}" if isinstance(key, decimal.Decimal) else str(key)


def as_json(value: Any) -> str:
    """The JSON text of a value from `json_value`; decimals keep all their digits."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_quoted(key)}: {as_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return repr(value)


_quoted = json.JSONEncoder(ensure_ascii=False).encode


def _without_noise(value: float) -> float:
    """6.74 for 6.739999999999999. A third, a score and any other number with more decimals stays as it is.

    So the text can be read back and compared, and a number close to 0 does not become 0.
    """
    short = round(value, WRITTEN_DIGITS)
    return short if short and abs(value - short) < FLOAT_NOISE else value


def _shortest(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits."""
    return float(str(np.float32(value)))


def _pixel(value: float) -> float:
    return _shortest(value) if abs(value) <= LARGEST_PIXEL else value


def csv_field(value: Any) -> str:
    """A name or a value of a row as a CSV field: text as it is, NULL empty, everything else as in JSON.

    JSON has null for numbers that are infinite or none. Here they have DuckDB's words, which readers know: an
    empty field is NULL.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    value = json_value(value)
    if value is None:
        return ""
    text = value if isinstance(value, str) else as_json(value)
    quoted = any(mark in text for mark in ',"\n\r') or text == "" or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def shown_text(value: Any, width: int | None = SHOWN_CHARACTERS) -> str:
    """A Python value as a table shows it: one line of at most `width` characters."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return _shown_number(value)
    text = one_line(str(value))
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def _shown_number(value: float) -> str:
    """Three decimals; three significant digits if the decimals would show 0, or if the number is huge."""
    told = f"{value:.3f}"
    is_lost = value != 0 and float(told) == 0
    return f"{value:.3g}" if is_lost or abs(value) >= LARGEST_SHOWN else told
