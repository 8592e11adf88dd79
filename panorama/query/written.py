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

SHOWN_CHARACTERS = 40
WRITTEN_DIGITS = 6
"""Decimals of a number in text that differs from it only by what computing with floats left: microseconds."""
FLOAT_NOISE = 1e-10
"""Sums and differences of some times are this near to what they stand for."""
BOXED = frozenset(("x1", "y1", "x2", "y2"))
"""Columns whose numbers are measured with 24 bits, whatever computes on with more."""
LARGEST_PIXEL = 1 << 17
"""A number beyond it in a column of such a name is somebody's own."""


def shortener(name: str, kind: str) -> Callable[[float], float] | None:
    """What takes from the numbers of a column the digits that were not measured; None: nothing is to go."""
    if kind == "FLOAT":
        return _shortest
    return _pixel if kind == "DOUBLE" and name.lower() in BOXED else None


def json_value(value: Any) -> Any:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _without_noise(value) if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return float(value) if value.is_finite() else None
    if isinstance(value, dict):
        return {str(json_value(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


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
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    quoted = any(mark in text for mark in ',"\n\r') or text == "" or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def shown_text(value: Any, width: int | None = SHOWN_CHARACTERS) -> str:
    """A value of Python as a table shows it, in one line of at most `width` characters."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = one_line(str(value))
    return text if width is None or len(text) <= width else text[: width - 1] + "…"
