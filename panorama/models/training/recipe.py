"""Tables of an embedder's recipe come in; they go out checked, before any work begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from panorama.errors import ModelError, UsageError
from panorama.models.late import MOST_SIDE

_Table = TypeVar("_Table")

NEEDED = {
    "network": ("learned_dim", "color_dim"),
    "preprocess": ("side", "mean", "std"),
    "training": (),
}
"""Tables of a recipe that a training needs, and the entries each must have."""

OF_SOURCES = {"labelled-csv": ("csv",), "boxes-csv": ("csv",), "folders": (), "clips": ("files",)}
"""Entries that a source of each kind must have besides its name and its data folder."""


def check_recipe(plan: Mapping[str, Any], recipe: Path) -> None:
    """Check that a recipe has all tables and entries that a training reads, some of them hours later.

    Raises:
        ModelError: one is missing or invalid.
    """
    see = "see embeddings/panoramanet/recipe.toml"
    for name, entries in NEEDED.items():
        table = plan.get(name)
        if not isinstance(table, dict):
            raise ModelError(f"the recipe {recipe} has no [{name}] table; {see}")
        if missing := [entry for entry in entries if entry not in table]:
            raise ModelError(f"[{name}] in the recipe {recipe} lacks {', '.join(missing)}; {see}")
    for name in ("preprocess", "bank"):
        table = plan.get(name)
        side = table.get("side", 1) if isinstance(table, dict) else 1
        if not isinstance(side, int) or not 1 <= side <= MOST_SIDE:
            raise ModelError(f"side in [{name}] of {recipe} is pixels from 1 to {MOST_SIDE}, got {side!r}")
    sources = plan.get("source", [])
    if not isinstance(sources, list) or not sources:
        raise ModelError(f"the recipe {recipe} has no [[source]] table to learn from; {see}")
    for table in sources:
        wanted = ("name", "kind", "data", *OF_SOURCES.get(str(table.get("kind")), ()))
        if missing := [entry for entry in wanted if entry not in table]:
            name = table.get("name", "")
            raise ModelError(f"[[source]] {name!r} in the recipe {recipe} lacks {', '.join(missing)}; {see}")


def table_of(kind: type[_Table], table: Mapping[str, Any], name: str) -> _Table:
    """A table of plain numbers as a dataclass, whose defaults fill in missing entries.

    Raises:
        UsageError: the class has no such entry, or a value is not a number of its kind.
    """
    of_class = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]
    for key, value in table.items():
        if key not in of_class:
            raise UsageError(f"[{name}] has no setting {key!r}; it has {', '.join(of_class)}")
        whole = of_class[key] == "int"
        if of_class[key] not in ("int", "float"):
            continue
        number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            what = "a whole number" if whole else "a number"
            raise UsageError(f"{key} in [{name}] is {what}, not below 0; got {value!r}")
    return kind(**table)
