"""Rows of a library's entities enter; the vocabulary as values leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Entity:
    """One name of the vocabulary and how many pictures stand for it.

    Attributes:
        negatives: all pictures of what it is not.
        denied: those of them that were denied by their row; the others are look-alikes.
        category: whether it stands for any of its kind, not for one individual.
        warnings: remarks for people on what was just registered: what was left out of folders, and why, and
            that a box names no track.
    """

    name: str
    exemplars: int
    negatives: int
    warnings: tuple[str, ...] = field(default=(), compare=False)
    denied: int = 0
    category: bool = False

    @classmethod
    def listed(cls, rows: pa.Table) -> list[Entity]:
        """Those of rows of `Snapshot.entities`, in their order."""
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
