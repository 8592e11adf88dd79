"""A model's folder comes in; the labelled pictures and classes that its training may have seen go out.

A user's own model tells this in its recipe and in the table of pictures beside it, and names the model it
started from, whose recipe tells the rest. What they do not tell counts as unknown, never as unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from panorama.content import DEFAULT_EMBEDDER, content_dir
from panorama.errors import ModelError, UsageError
from panorama.models.training.copies import came_before, size_of
from panorama.models.training.split import CHOOSE, LEARN, family, held_out
from panorama.models.training.tables import rows_of
from panorama.models.weights import RECIPE, open_model, read_recipe

MOST_STARTS = 100
"""Most models in a chain of starting models; more must be a circle."""


@dataclass(slots=True)
class SeenInTraining:
    """What a model, and all models it started from, were trained on.

    Attributes:
        sources: labelled sources of the shipped training; `held_out` keeps some of their classes back.
        whole: those of them whose classes were all learned.
        names: classes that fine-tuning learned from or chose by, in lower case.
        files: their pictures, by size in bytes.
        tables: the tables that list them.
        unknown: folders of models that do not tell what they learned from.
    """

    sources: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    files: dict[int, list[Path]] = field(default_factory=dict)
    tables: list[Path] = field(default_factory=list)
    unknown: list[Path] = field(default_factory=list)

    @classmethod
    def by(cls, folder: Path | None) -> SeenInTraining:
        """What the model in a folder has seen (None: no model), together with the shipped model, so that all
        models are judged by the same pictures.

        Raises:
            ModelError: a recipe cannot be read.
        """
        found = cls()
        shipped = content_dir("embeddings") / DEFAULT_EMBEDDER
        for place in (shipped, folder):
            for _ in range(MOST_STARTS):
                if place is None or not (place / RECIPE).is_file():
                    break
                place = found._add(place, read_recipe(place / RECIPE))
        return found

    def _add(self, folder: Path, recipe: Mapping[str, Any]) -> Path | None:
        """Add what one model was trained on; returns the folder of the model it started from, if known."""
        tables = recipe.get("source")
        if not (isinstance(tables, list) and tables and all(isinstance(table, dict) for table in tables)):
            self.unknown.append(folder)
        elif "adapt" not in recipe:
            labelled = [t for t in tables if t.get("kind") == "labelled-csv" or t.get("labels")]
            self.sources |= {str(table.get("name")) for table in labelled}
            whole = [t for t in labelled if t.get("kind") == "folders" and not t.get("hold_out", True)]
            self.whole |= {str(table.get("name")) for table in whole}
        elif not self._read(folder / str(tables[0].get("csv", ""))):
            self.unknown.append(folder)
        start = recipe.get("start")
        if not isinstance(start, dict) or "model" not in start:
            return None
        try:
            return open_model(str(start["model"]), "embedder").path
        except ModelError:  # moved or removed since; the model itself no longer needs it
            self.unknown.append(Path(str(start["model"])))
            return None

    def _read(self, table: Path) -> bool:
        """Add the pictures of a table that were learned from or chosen by; False if it is no such table."""
        try:
            rows = list(rows_of(table, ("file", "class", "held"), "judging"))
        except UsageError:  # broken in one place, it may lack rows in others
            return False
        if not rows:
            return False
        for row in rows:
            if row["held"] in (LEARN, CHOOSE):
                self.names.add(row["class"].lower())
                path = table.parent / row["file"]
                if (size := size_of(path)) is not None:
                    self.files.setdefault(size, []).append(path)
        self.tables.append(table)
        return True

    def has_learned(self, source: str, label: str, files: Sequence[Path]) -> bool:
        """Whether fine-tuning has seen a class: by its name, or by one of its files or a copy of one.

        In the shipped training's own sources, classes of one `family` count as the same.
        """
        meant: Callable[[str], str] = family if source in self.sources else str.lower
        parts = label.count("/") + 1  # the folder that a class was learned from may precede its name
        by_name = any(meant("/".join(seen.split("/")[-parts:])) == meant(label) for seen in self.names)
        return by_name or any(self._has(path) for path in files)

    def _has(self, file: Path) -> bool:
        size = size_of(file)
        return size is not None and came_before([*self.files.get(size, []), file])[-1]

    def keeps(self, source: str, label: str) -> bool:
        """Whether the shipped training kept a class back; it never saw sources other than its own."""
        return source not in self.sources or (source not in self.whole and held_out(source, label))
