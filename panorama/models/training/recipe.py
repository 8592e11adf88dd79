"""Tables of an embedder's recipe come in; they go out checked, before any work begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from panorama.errors import ModelError, UsageError
from panorama.models.color import COLOR_DIM
from panorama.models.late import MOST_SIDE
from panorama.models.training.entries import (
    TEXT,
    TEXTS,
    Entry,
    check_entries,
    list_of,
    number_from,
    short,
    whole_from,
)
from panorama.values import above, is_finite, whole

_Table = TypeVar("_Table")

MOST_DIM = 4096

NEEDED = {
    "network": ("learned_dim", "color_dim"),
    "preprocess": ("side", "mean", "std"),
    "training": (),
}
"""Tables of a recipe that a training needs, and the entries each must have."""

OF_SOURCES = {"labelled-csv": ("csv",), "boxes-csv": ("csv",), "folders": (), "clips": ("files",)}
"""Entries that a source of each kind must have besides its name and its data folder."""

SIDE = Entry(f"pixels from 1 to {MOST_SIDE}", whole(1, MOST_SIDE))

ENTRIES = {
    "preprocess": {
        "side": SIDE,
        "mean": list_of("three numbers", is_finite, 3),
        "std": list_of("three numbers above 0", above(0), 3),
    },
    "network": {
        "learned_dim": whole_from(1, MOST_DIM),
        "color_dim": whole_from(1, COLOR_DIM),
        "color_weight": number_from(0, 1),
        "whiten_shrinkage": number_from(0),
    },
    "start": {"model": TEXT},
    "teacher": {"data": TEXT, "path": TEXT, "shrinkage": number_from(0)},
    "bank": {"side": SIDE, "rounds": whole_from(1), "shard": whole_from(1), "axes": whole_from(1)},
}
"""What the entries of tables must be, where they are there; those of [training] are `Settings`."""

SOURCE = {
    **dict.fromkeys(("name", "kind", "data", "csv", "path", "without"), TEXT),
    **dict.fromkeys(("files", "judged", "without_classes"), TEXTS),
    **dict.fromkeys(("seed", "windows"), whole_from(0)),
    "repeat": whole_from(1),
    "min_side": number_from(0),
    "gap_seconds": number_from(0),
}
"""The same of a [[source]]."""


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
    for name, allowed in ENTRIES.items():
        check_entries(plan.get(name, {}), allowed, f"[{name}] of {recipe}")
    for name, entry in (("start", "model"), ("teacher", "data")):
        needs = name in plan and (name == "start" or "path" in plan[name])
        if needs and entry not in plan[name]:
            raise ModelError(f"[{name}] in the recipe {recipe} lacks {entry}; {see}")
    sources = plan.get("source", [])
    if not isinstance(sources, list) or not sources:
        raise ModelError(f"the recipe {recipe} has no [[source]] table to learn from; {see}")
    for number, table in enumerate(sources, 1):
        check_entries(table, SOURCE, f"[[source]] {number} of {recipe}")
        wanted = ("name", "kind", "data", *OF_SOURCES.get(str(table.get("kind")), ()))
        if missing := [entry for entry in wanted if entry not in table]:
            name = table.get("name", "")
            raise ModelError(f"[[source]] {name!r} in the recipe {recipe} lacks {', '.join(missing)}; {see}")


def table_of(kind: type[_Table], table: Mapping[str, Any], name: str) -> _Table:
    """A table of plain numbers as a dataclass, whose defaults fill in missing entries.

    Raises:
        UsageError: the class has no such entry, or a value is not a number of its kind.
    """
    if not isinstance(table, Mapping):
        raise UsageError(f"[{name}] is a table of settings, got {table!r:.60}")
    of_class = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    for key, value in table.items():
        if key not in of_class:
            raise UsageError(f"[{name}] has no setting {key!r}; it has {', '.join(of_class)}")
        allowed = {"int": whole_from(0), "float": number_from(0)}.get(of_class[key])
        if allowed is not None and not allowed.fits(value):
            raise UsageError(f"{key} in [{name}] is {allowed.words}, got {short(value)}")
    return kind(**table)
