"""The sources of a fine-tuning go into its recipe and come out of it; a mismatch is not resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panorama.content import content_dir
from panorama.errors import ModelError, UsageError
from panorama.models.weights import RECIPE, model_names, open_model, read_recipe

_TABLE = """
# Where the pictures come from, and the seed that divided them; --resume goes on with these.
[made_of]
videos = {videos}
folders = {folders}
query = {query}
seed = {seed}
"""


@dataclass(frozen=True, slots=True)
class MadeOf:
    """Sources, start model and seed of a fine-tuning; None means not given, or not known.

    Attributes:
        videos, folders: absolute paths, sorted, each once.
        query: SQL over the library.
        start: a shipped model's name, or a folder.
        seed: divides the pictures.
    """

    videos: tuple[str, ...] | None
    folders: tuple[str, ...] | None
    query: str | None
    start: str | None
    seed: int | None

    @classmethod
    def given(
        cls,
        videos: Sequence[Path],
        folders: Sequence[Path],
        query: str | None,
        start: str | None,
        seed: int | None,
    ) -> MadeOf:
        """The sources that a user gives."""
        return cls(_whole(videos) or None, _whole(folders) or None, query or None, start, seed)

    def text(self) -> str:
        """The recipe's table of sources; the start model has a table of its own."""
        return _TABLE.format(
            videos=toml_text(list(self.videos or ())),
            folders=toml_text(list(self.folders or ())),
            query=toml_text(self.query or ""),
            seed=self.seed or 0,
        )


def _whole(paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(sorted({str(path.resolve()) for path in paths}))


def toml_text(value: str | list[str]) -> str:
    """A text, or a list of texts, in TOML: the same as JSON except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def recorded(recipe: Path) -> MadeOf:
    """The sources recorded in the recipe of a fine-tuning; recipes of earlier versions have none.

    Raises:
        ModelError: the recipe cannot be read or has another form.
    """
    plan = read_recipe(recipe)
    table, start = plan.get("made_of", {}), plan.get("start", {})
    if not isinstance(table, dict) or not isinstance(start, dict):
        raise ModelError(f"{recipe}: [made_of] and [start] are tables; train in a new folder")

    def paths(name: str) -> tuple[str, ...] | None:
        return tuple(_entry(recipe, table, name, list, ())) if name in table else None

    query = _entry(recipe, table, "query", str, None)
    model, seed = _entry(recipe, start, "model", str, None), _entry(recipe, table, "seed", int, None)
    return MadeOf(paths("videos"), paths("folders"), query, model, seed)


def _entry(recipe: Path, table: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = table.get(name, default)
    items = value if isinstance(value, list) else []
    if name in table and not (isinstance(value, kind) and all(isinstance(item, str) for item in items)):
        raise ModelError(f"{recipe}: {name} = {value!r} was not written by a fine-tuning; correct it")
    return value


def refuse_another(made: MadeOf, asked: MadeOf, recipe: Path) -> list[str]:
    """Refuse to resume with other sources than the recipe's; sources that are not given are not compared.

    Returns:
        A line if the recipe does not record what is given, so that it cannot be compared.

    Raises:
        UsageError: a source, the start model or the seed differs.
    """
    unknown = []
    for name in ("videos", "folders", "query", "seed", "start"):
        wanted, there = getattr(asked, name), getattr(made, name)
        if wanted is None:
            continue
        if there is None:
            unknown.append(f"--{name}")
        elif wanted != there and (name != "start" or place_of(wanted) != place_of(there)):
            raise UsageError(
                f"--{name} {_told(wanted)}: {recipe} was made {_before(name, there)}; leave out --{name}"
                " to continue with that, or name a new folder"
            )
    if not unknown:
        return []
    return [
        f"{recipe} does not say what it was made of: it continues with the pictures listed beside it, and"
        f" {' and '.join(unknown)} cannot be compared with what it began with"
    ]


def _told(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _before(name: str, there: object) -> str:
    empty = there in ((), "")
    return f"without --{name}" if empty else f"with --{name} {_told(there)}"


def whole_start(start: str) -> str:
    """The start model as any recipe can name it: a shipped name, or the absolute path of a folder.

    Raises:
        ModelError: there is no such embedder.
    """
    return start if start in model_names("embedder") else str(open_model(start, "embedder").path.resolve())


def place_of(start: str) -> Path:
    """The folder of a model, whether it exists or not."""
    shipped = content_dir("embeddings") / start
    return (shipped if (shipped / RECIPE).is_file() else Path(start)).resolve()
