"""A value that somebody gave enters; whether it is a number, a path, a picture leaves, or words for it."""

from __future__ import annotations

import decimal
import importlib
import json
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def told(value: Any) -> str:
    """A value for people: its type, and as much of it as fits into a line."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.shape} {value.dtype}"
    if is_pixels(value) and hasattr(value, "getbands"):
        return f"a picture of PIL, {value.mode} {value.size}"
    if is_pixels(value):
        return f"a tensor of {tuple(value.shape)} {value.dtype}"
    if value is None:
        return "None"
    return f"{type(value).__name__} {shown(value)}"


def shown(value: Any) -> str:
    """A value alone, where its type is right: as much of it as fits into a line."""
    text = str(value) if is_number(value) else repr(value)  # repr of a number of numpy names its type
    return f"{' '.join(text.split()):.40}"  # a data frame takes several lines


def is_text(value: Any) -> bool:
    """Text."""
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    """True or False, or 1 or 0, or None, which is no."""
    return value is None or (isinstance(value, (bool, int, np.bool_)) and value in (0, 1))


def is_whole(value: Any) -> bool:
    """A whole number of Python or numpy; True is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_id(value: Any) -> bool:
    """A whole number that DuckDB's BIGINT holds."""
    return is_whole(value) and abs(int(value)) < 1 << 63


def is_count(value: Any) -> bool:
    """A whole number, also as a column of a data frame with gaps has it, 10.0."""
    return is_whole(value) or (is_finite(value) and value == int(value))


def is_number(value: Any) -> bool:
    """A real number of Python or numpy, also a fraction, a decimal or an infinite one; True is none."""
    return isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """A real number that is neither infinite nor none."""
    try:
        return is_number(value) and math.isfinite(value)
    except (OverflowError, ValueError):  # a whole number beyond all floats, a decimal that signals
        return False


def is_float(value: Any) -> bool:
    """A number that a float can hold; what is infinite or none is told where its range is checked."""
    return isinstance(value, (float, np.floating)) or is_finite(value)


def above(low: float, most: float = math.inf) -> Callable[[Any], bool]:
    """Whether a finite number lies above `low`, at most at `most`."""
    return lambda value: is_finite(value) and low < value <= most


def whole(least: int, most: float) -> Callable[[Any], bool]:
    """Whether a whole number lies between both, inclusive."""
    return lambda value: is_whole(value) and least <= value <= most


def is_path(value: Any) -> bool:
    """A path that can be one: not empty, as a variable that was not set is."""
    if not isinstance(value, (str, os.PathLike)):
        return False
    path = os.fspath(value)
    return isinstance(path, str) and path != "" and "\0" not in path


def is_listed(value: Any) -> bool:
    """A list, a tuple or an array: what can be counted, and looked at before it is read."""
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))


def is_row(value: Any) -> bool:
    """Values side by side that can be looked at before they are read."""
    return is_listed(value) and (not isinstance(value, np.ndarray) or value.ndim == 1)


def is_read_once(value: Any) -> bool:
    """A generator, a set, a column of a data frame: it tells what is in it where it is read."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, np.ndarray, Mapping, Sequence))


def as_read(value: Any) -> Any:
    """What is read only once, also a column or a data frame, as a list; anything else as it is."""
    if not is_read_once(value) or isinstance(value, os.PathLike):
        return value
    value = as_row(value)
    return list(value) if is_read_once(value) else value


def is_pixels(value: Any) -> bool:
    """A picture in memory, whatever its shape: an array of numpy, a tensor of torch, a picture of PIL.

    The last two are known by their methods: neither package is needed for anything else.
    """
    if isinstance(value, np.ndarray):
        return value.ndim != 4 and value.dtype.kind in "uifb"  # of four dimensions: a batch of pictures
    if hasattr(value, "getbands") and hasattr(value, "convert"):
        return True
    return hasattr(value, "__array__") and hasattr(value, "detach") and getattr(value, "ndim", 0) in (2, 3)


def is_picture(value: Any) -> bool:
    """A path, or a picture in memory."""
    return is_path(value) or is_pixels(value)


def are_truths(value: Any) -> bool:
    """Names of entities with what is true of each."""
    truth = importlib.import_module("panorama.judging.evaluate").Truth
    return isinstance(value, Mapping) and all(is_text(n) and isinstance(t, truth) for n, t in value.items())


def as_row(value: Any) -> Any:
    """What a data frame or torch has in a row as a list, for example four corners; anything else as it is."""
    try:
        return np.asarray(value).tolist() if hasattr(value, "__array__") else value
    except (TypeError, ValueError, RuntimeError):  # a tensor of a GPU, or one that gradients belong to
        return value


def is_box(value: Any) -> bool:
    """Text, four numbers, also as a row of a data frame or of torch, or None, which is no box."""
    value = as_row(value)
    if is_listed(value):
        return len(value) == 4 and all(map(is_number, value))
    return value is None or is_text(value)


def is_query(value: Any) -> bool:
    """SQL, or a pair of it and its parameters; what is in the pair is told where it is read."""
    return not isinstance(value, tuple) or len(value) == 2


def are_queries(value: Any) -> bool:
    """Several queries."""
    return all(map(is_query, value)) if is_row(value) else is_read_once(value)


def are_ids(value: Any) -> bool:
    """Ids side by side, also as a column of a data frame."""
    if hasattr(value, "__array__"):  # also a column of a data frame
        value = np.asarray(value)
        if value.dtype.kind in "iu":
            return bool(value.ndim == 1 and (not len(value) or value.max() < 1 << 63))
    return is_row(value) and all(map(is_id, value))


def are_seen_ids(value: Any) -> bool:
    """Ids, or text that names what was seen, side by side; what the text may be is told where it is read."""
    if hasattr(value, "__array__"):
        value = np.asarray(value)
    return are_ids(value) or (is_row(value) and all(is_text(one) or is_id(one) for one in value))


def are_points(value: Any) -> bool:
    """Text, or pairs of numbers."""
    if is_text(value):
        return True
    pairs = list(value) if isinstance(value, (Sequence, np.ndarray)) else [value]
    return all(
        isinstance(pair, (Sequence, np.ndarray)) and len(pair) == 2 and all(map(is_number, pair))
        for pair in pairs
    )


def is_size(value: Any, most: float) -> bool:
    """Two whole numbers from 1."""
    return isinstance(value, Sequence) and len(value) == 2 and all(map(whole(1, most), value))


def is_json(value: Any) -> bool:
    """What JSON can hold."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
