"""What a training depends on goes into its checkpoint; on resuming it comes out and must be the same.

Facts are values by names that users know, such as 'seed in [training]'.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from panorama.errors import ModelError, UsageError
from panorama.models.weights import read_recipe

BEGUN, BEFORE = "begun_with", "before"
"""Keys of a checkpoint's metadata: the facts, and what was measured before the first step."""

UNKNOWN = (
    "{path}, of an earlier version, does not say what its training began with: it continues with the recipe"
    " as it is now, which cannot be compared"
)


def facts_of(table: Mapping[str, Any], name: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The entries of a recipe's table and of the tables in it, as facts in the form that JSON keeps."""
    facts: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            facts |= facts_of(value, f"{name}.{key}")
        elif key not in without:
            facts[f"{key} in [{name}]"] = value
    return dict(json.loads(json.dumps(facts)))


def refuse_another(made: Mapping[str, Any], asked: Mapping[str, Any], what: str) -> None:
    """Refuse to continue something with other facts than it was made with.

    Raises:
        UsageError: a fact differs.
    """
    for name in dict.fromkeys([*asked, *made]):
        there, wanted = (json.dumps(facts.get(name)) for facts in (made, asked))
        if there != wanted:
            raise UsageError(
                f"{what} was made with {name} = {there}, and {wanted} is asked for now: use the earlier"
                " value, or name a new folder"
            )


def metadata(begun: Mapping[str, Any], before: Mapping[str, float]) -> dict[str, str]:
    """Facts and what was measured before the first step, as metadata for `save_file`."""
    return {BEGUN: json.dumps(begun), BEFORE: json.dumps(before)}


def read_metadata(checkpoint: Path) -> tuple[dict[str, Any] | None, dict[str, float]]:
    """What `metadata` put into a checkpoint; None for the facts if an earlier version wrote it.

    Raises:
        ModelError: the checkpoint is damaged or cannot be read.
    """
    with _opened(checkpoint) as tensors:
        found = tensors.metadata() or {}
    begun = json.loads(found[BEGUN]) if BEGUN in found else None
    return begun, json.loads(found.get(BEFORE, "{}"))


def step_of(checkpoint: Path) -> int:
    """The number of steps that a checkpoint has behind it.

    Raises:
        ModelError: the checkpoint is damaged or cannot be read.
    """
    with _opened(checkpoint) as tensors:
        return int(tensors.get_tensor("step"))


@contextmanager
def _opened(checkpoint: Path) -> Iterator[Any]:
    """A checkpoint's tensors, without torch."""
    try:
        with safe_open(checkpoint, framework="numpy") as tensors:
            yield tensors
    except (OSError, SafetensorError) as exc:
        raise damaged(checkpoint, exc) from exc


def damaged(checkpoint: Path, why: Exception) -> ModelError:
    """The error for a checkpoint that does not hold what a training wrote."""
    return ModelError(
        f"the checkpoint {checkpoint} cannot be read: {why}; put a copy in its place, or train in a new"
        " folder"
    )


def effective(recipe: Path, changes: Mapping[str, int]) -> str:
    """The text of a recipe with other whole numbers in [training]; everything else stays as written.

    Raises:
        ModelError: the table is written in a form that cannot be edited this way.
    """
    text, plan = recipe.read_text(encoding="utf-8"), read_recipe(recipe)
    for key, value in changes.items():
        if plan["training"].get(key) != value:
            text = _replaced(text, key, value)
            plan["training"][key] = value
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        told = {}
    if told != plan:
        raise ModelError(
            f"{recipe}: {' and '.join(changes)} cannot be replaced in [training] as it is written; put each"
            " on a line of its own"
        )
    return text


def _replaced(text: str, key: str, value: int) -> str:
    """A recipe's text with an entry of [training] replaced, or added as the first one."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(r"\s*\[training\]", line)), None)
    if at is None:
        return text
    for i in range(at + 1, len(lines)):
        if lines[i].lstrip().startswith("["):
            break
        if re.match(rf"\s*{key}\s*=", lines[i]):
            lines[i] = re.sub(r"=\s*[\d_]+", f"= {value}", lines[i], count=1)
            return "\n".join([*lines, ""])
    return "\n".join([*lines[: at + 1], f"{key} = {value}", *lines[at + 1 :], ""])
