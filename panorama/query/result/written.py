"""A value of a row enters; what JSON, CSV and people read of it leaves, less digits that nobody measured."""

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
"""Decimals of a number in text that differs from it only by what computing with floats left: microseconds."""
FLOAT_NOISE = 1e-10
"""Sums and differences of some times are this near to what they stand for."""
BOXED = frozenset(("x1", "y1", "x2", "y2"))
"""Columns whose numbers are measured with 24 bits, whatever computes on with more."""
LARGEST_PIXEL = 1 << 17
"""A number beyond it in a column of such a name is somebody's own."""
LARGEST_SHOWN = 1e15
"""Tables show a larger number by its first digits: a float does not hold its decimals."""


def shortener(name: str, duckdb_type: str) -> Callable[[Any], Any] | None:
    """What takes from the numbers of a column the digits that were not measured; None: nothing is to go."""
    if duckdb_type == "DOUBLE":
        return _pixel if name.lower() in BOXED else None
    return fixer(duckdb_type, {"FLOAT": _shortest})


def json_value(value: Any) -> Any:
    """A value as JSON can hold it: None, a truth value, a number, text, a list or a dictionary of these."""
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
    """What a key of a map is called in JSON."""
    return f"{key:f}" if isinstance(key, decimal.Decimal) else str(key)


def as_json(value: Any) -> str:
    """A value as JSON can hold it, as its text; decimals have the digits that they have."""
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
    """6.74 for 6.739999999999999; a third, a score and whatever else has more decimals stays as it is.

    So what is written can be read back and compared with, and a number next to 0 is not made 0.
    """
    short = round(value, WRITTEN_DIGITS)
    return short if short and abs(value - short) < FLOAT_NOISE else value


def _shortest(value: float) -> float:
    """The number of fewest digits that is the same with 32 bits."""
    return float(str(np.float32(value)))


def _pixel(value: float) -> float:
    return _shortest(value) if abs(value) <= LARGEST_PIXEL else value


def csv_field(value: Any) -> str:
    """A value as JSON can hold it, or a name, as a field of CSV."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else as_json(value)
    quoted = any(mark in text for mark in ',"\n\r') or text == "" or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def shown_text(value: Any, width: int | None = SHOWN_CHARACTERS) -> str:
    """A value of Python as a table shows it, in one line of at most `width` characters."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return _shown_number(value)
    text = one_line(str(value))
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def _shown_number(value: float) -> str:
    """With three decimals; by its first three digits where these would tell it as 0, or with hundreds."""
    told = f"{value:.3f}"
    is_lost = value != 0 and float(told) == 0
    return f"{value:.3g}" if is_lost or abs(value) >= LARGEST_SHOWN else told
