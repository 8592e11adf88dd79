"""A CSV of labelled pictures comes in; its rows or boxes go out, or an error that names what it lacks."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from panorama.errors import UsageError

BOX = ("x1", "y1", "x2", "y2")
"""Columns of a box, in pixels."""

Box = tuple[float, float, float, float]


def rows_of(path: Path, columns: Sequence[str], who: str) -> Iterator[dict[str, str]]:
    """The rows of a table with a line of names, each with a value in all of some columns.

    Args:
        who: what needs the table, as an error calls it.

    Raises:
        UsageError: it cannot be read, lacks a column, or a row has no value in one of them.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            table = csv.DictReader(lines)
            names = table.fieldnames or ()
            if missing := [name for name in columns if name not in names]:
                raise UsageError(
                    f"{path} lacks the column {', '.join(missing)}, which {who} needs; its first line names"
                    f" {', '.join(names) or 'nothing'}: add the column there and in all rows"
                )
            for row in table:
                if lacking := [name for name in columns if not row[name]]:
                    raise UsageError(
                        f"{path}, line {table.line_num} has no {' and no '.join(lacking)}; complete the row"
                    )
                yield row
    except (UnicodeDecodeError, csv.Error) as exc:
        raise UsageError(f"{path} cannot be read as CSV in UTF-8: {exc}; save it so") from exc
    except (OSError, ValueError) as exc:  # ValueError: what no file can be called
        why = getattr(exc, "strerror", None) or exc
        why = "is not there" if isinstance(exc, FileNotFoundError) else f"cannot be read: {why}"
        raise UsageError(
            f"{who} needs {path}, which {why}; correct the data folder, or csv in the recipe that names it"
        ) from exc


def boxes_of(path: Path, who: str) -> dict[str, list[Box]]:
    """The boxes of a table with file, x1, y1, x2 and y2, by file, both in its order; see `rows_of`.

    Raises:
        UsageError: as for `rows_of`, or a box is none, see `box_of`.
    """
    found: dict[str, list[Box]] = {}
    for row in rows_of(path, ("file", *BOX), who):
        found.setdefault(row["file"], []).append(box_of(row, path))
    return found


def box_of(row: Mapping[str, str], path: Path) -> Box:
    """The box of a row, x1, y1, x2, y2 in pixels.

    Raises:
        UsageError: one of them is no finite number, or the box has no area.
    """
    given = ", ".join(f"{name} = {row[name]!r}" for name in BOX)
    try:
        x1, y1, x2, y2 = (float(row[name]) for name in BOX)
    except ValueError:
        x1 = y1 = x2 = y2 = math.nan
    if not all(map(math.isfinite, (x1, y1, x2, y2))):
        raise UsageError(f"{path}: a box of {row['file']} is four numbers of pixels, got {given}")
    if not (x1 < x2 and y1 < y2):
        raise UsageError(
            f"{path}: a box of {row['file']} has no area: {given}; x1 < x2 and y1 < y2 must hold"
        )
    return x1, y1, x2, y2
