"""Rows of a library's entities come in; `Entity` values go out."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity: a name and the number of pictures that stand for it.

    Attributes:
        name: the name.
        exemplars: number of example images.
        negatives: number of pictures of what it is not: look-alikes and denied answers.
        warnings: remarks on the latest registration: what was left out of folders and why, or that no track
            lies at a box.
        denied: number of the negatives that were denied by their row; the other negatives are look-alikes.
        category: whether it stands for any of its kind rather than for one individual.
    """

    name: str
    exemplars: int
    negatives: int
    warnings: tuple[str, ...] = field(default=(), compare=False)
    denied: int = 0
    category: bool = False

    @classmethod
    def listed(cls, rows: pa.Table) -> list[Entity]:
        """The entities in rows of `Snapshot.entities`, in their order."""
        return [
            cls(
                row["entity"],
                row["exemplars"],
                row["negatives"],
                denied=row["denied"],
                category=row["category"],
            )
            for row in rows.to_pylist()
        ]

    def __repr__(self) -> str:
        said = f", denied={self.denied}" if self.denied else ""
        said += ", category=True" if self.category else ""
        said += f", warnings={self.warnings!r}" if self.warnings else ""
        return f"Entity(name={self.name!r}, exemplars={self.exemplars}, negatives={self.negatives}{said})"
