"""DuckDB's plan as JSON enters; lines of a page's width leave: operator, what it reads, rows, time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

WIDTH = 98
"""Of a line, in characters; what does not fit is cut at its end."""

_WRAPPERS = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
_QUIET = ("PROJECTION",)
"""They compute the columns of the operator below; of many, nobody reads a line each."""
_TELLS = (
    *("Table", "CTE Name", "Join Type", "Conditions", "Filters", "Expression", "Groups", "Aggregates"),
    *("Top", "Order By", "Partitions", "Expressions", "File Filters", "Dynamic Filters", "Row Count"),
)
"""What an operator says of itself that is worth a line, in this order."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of an executed or planned statement.

    Attributes:
        name: in lower case.
        tells: what it reads or compares.
        rows: that it gave, or is estimated to give; None where it is not said.
        seconds: that it took, None where it was not executed.
        inputs: the operators that it reads.
    """

    name: str
    tells: str
    rows: int | None
    seconds: float | None
    inputs: tuple[Operator, ...]


def read_plan(text: str) -> tuple[Operator, ...]:
    """The topmost operators of what EXPLAIN (FORMAT json) gave; none where it cannot be read."""
    try:
        told = json.loads(text)
    except ValueError:
        return ()
    nodes = told.get("operator", []) if isinstance(told, dict) else told
    return tuple(one for node in nodes for one in _operators(node))


def plan_lines(operators: Sequence[Operator]) -> list[str]:
    """One line for each operator, those that it reads below it and further in."""
    lines = [line for operator in operators for line in _lines(operator, 0)]
    quiet = [one for operator in operators for one in _walk(operator) if _is_quiet(one)]
    if quiet and any(one.seconds for one in quiet):
        seconds = sum(one.seconds or 0.0 for one in quiet)
        lines.append(_line(f"and {len(quiet)} projections", None, seconds))
    return lines


def rows_out(operators: Sequence[Operator]) -> int | None:
    """How many rows the topmost operator gave."""
    return operators[0].rows if operators else None


def _operators(node: Mapping[str, Any]) -> Iterator[Operator]:
    name = str(node.get("type") or node.get("name") or "").strip()
    below = tuple(one for child in node.get("children", []) for one in _operators(child))
    if name in _WRAPPERS:
        yield from below
        return
    info = node.get("extra_info") or {}
    executed = "timing" in node
    rows = node.get("intermediate_rows", node.get("operator_cardinality"))
    if not executed:
        rows = info.get("Estimated Cardinality")
    shown = int(rows) if rows is not None and str(rows).isdigit() else None
    yield Operator(
        name.replace("_", " ").lower(), _told(info), shown, float(node["timing"]) if executed else None, below
    )


def _told(info: Mapping[str, Any]) -> str:
    """What an operator says of itself; of files, the table of the library that they hold."""
    parts = []
    if info.get("Function"):
        parts.append(_files(info))
    for key in _TELLS:
        value = info.get(key)
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        text = " ".join(text.split()).removeprefix("memory.").removeprefix("temp.")
        if text:
            parts.append(f"{key.lower()} {text}" if key in ("Groups", "Top", "Dynamic Filters") else text)
    return "; ".join(parts)


def _files(info: Mapping[str, Any]) -> str:
    """The function that reads, and what: files of one folder hold one table of the library."""
    named = str(info.get("Filename(s)") or "").split(",")[0].strip()
    table = PurePosixPath(named).parent.name if named else ""
    files = info.get("Total Files Read") or info.get("Scanning Files")
    told = str(info["Function"]).lower()
    return f"{told} of {table}" if table else f"{told}, files: {files}" if files else told


def _is_quiet(operator: Operator) -> bool:
    return operator.name.upper() in _QUIET and len(operator.inputs) == 1


def _walk(operator: Operator) -> Iterator[Operator]:
    yield operator
    for below in operator.inputs:
        yield from _walk(below)


def _lines(operator: Operator, depth: int) -> Iterator[str]:
    if _is_quiet(operator):
        yield from _lines(operator.inputs[0], depth)
        return
    what = f"{operator.name}: {operator.tells}" if operator.tells else operator.name
    yield _line(f"{'  ' * min(depth, 20)}{what}", operator.rows, operator.seconds)
    for below in operator.inputs:
        yield from _lines(below, depth + 1)


def _line(what: str, rows: int | None, seconds: float | None) -> str:
    about = "~" if seconds is None else ""
    told = "" if rows is None else f"{about}{rows} row{'s'[: rows != 1]}"
    if seconds is not None:
        told = f"{told:>14} {seconds * 1000:>9.1f} ms"
    room = WIDTH - len(told) - 1
    cut = what if len(what) <= room else what[: room - 1] + "…"
    return f"{cut:<{room}} {told}".rstrip()
