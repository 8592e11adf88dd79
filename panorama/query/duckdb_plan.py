"""DuckDB's plan as JSON comes in; lines go out with operator, what it reads, rows and time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

WIDTH = 98
"""Characters per line; longer text is cut at its end."""

_WRAPPERS = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
_QUIET = ("PROJECTION",)
"""These only compute columns of the operator below; there are many, so they get no line each."""
_TELLS = (
    *("Table", "CTE Name", "Join Type", "Conditions", "Filters", "Expression", "Groups", "Aggregates"),
    *("Top", "Order By", "Partitions", "Expressions", "File Filters", "Dynamic Filters", "Row Count"),
)
"""The fields of an operator that are worth a line, in this order."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of an executed or planned statement.

    Attributes:
        name: in lower case.
        tells: what it reads or compares.
        rows: number of rows it returned or, if not executed, the estimate; None if unknown.
        seconds: time it took; None if not executed.
        inputs: the operators it reads from.
    """

    name: str
    tells: str
    rows: int | None
    seconds: float | None
    inputs: tuple[Operator, ...]


def read_plan(text: str) -> tuple[Operator, ...]:
    """The topmost operators in the output of EXPLAIN (FORMAT json); () if it cannot be parsed."""
    try:
        told = json.loads(text)
    except ValueError:
        return ()
    nodes = told.get("operator", []) if isinstance(told, dict) else told
    return tuple(one for node in nodes for one in _operators(node))


def plan_lines(operators: Sequence[Operator]) -> list[str]:
    """One line per operator; its inputs follow, indented further."""
    lines = [line for operator in operators for line in _lines(operator, 0)]
    quiet = [one for operator in operators for one in _walk(operator) if _is_quiet(one)]
    if quiet and any(one.seconds for one in quiet):
        seconds = sum(one.seconds or 0.0 for one in quiet)
        lines.append(_line(f"and {len(quiet)} projections", None, seconds))
    return lines


def rows_out(operators: Sequence[Operator]) -> int | None:
    """Number of rows that the topmost operator returned; None if unknown."""
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
    """The fields of an operator worth a line; for files, the library table they belong to."""
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
    """The reading function and what it reads; all files in one folder belong to one table of the library."""
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
