"""The catalog comes in; the names of entities and the vectors of all exemplars go out as arrays."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.commands import command_of
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import Column

ENTITIES = pa.schema(
    [
        pa.field("entity", pa.string(), nullable=False),
        pa.field("exemplars", pa.int64(), nullable=False),
        pa.field("negatives", pa.int64(), nullable=False),
        pa.field("denied", pa.int64(), nullable=False),
        pa.field("category", pa.bool_(), nullable=False),
    ]
)

_ENTITIES = """
SELECT e.name, e.entity_id, e.category,
       coalesce(sum(1 - x.negative), 0) AS exemplars, coalesce(sum(x.negative), 0) AS negatives,
       coalesce(sum(x.denied), 0) AS denied
FROM entities e LEFT JOIN exemplars x ON x.entity_id = e.entity_id
GROUP BY e.entity_id, e.name, e.category ORDER BY e.name
"""
_VECTORS = """
SELECT v.model_hash, v.exit, x.entity_id, e.name, x.exemplar_id, x.negative, x.denied, v.views, v.vectors
FROM exemplar_vectors v JOIN exemplars x ON x.exemplar_id = v.exemplar_id
JOIN entities e ON e.entity_id = x.entity_id
ORDER BY v.model_hash, v.exit, e.name, x.exemplar_id
"""


@dataclass(frozen=True, slots=True)
class Album:
    """The views of all exemplars at one exit of one model, as a struct of arrays ordered by entity.

    Attributes:
        entities: all names, sorted, including those without an exemplar at this exit.
        entity_index: (M,) int32 into `entities`.
        exemplar_ids: (M,) int64; the views of one exemplar are adjacent.
        negative: (M,) bool, True for look-alikes and denied pictures; denied: (M,) bool, the denied ones.
        vectors: (M, dim) float32; dim is 0 if M is 0.
        categories: the names of entities that stand for any of their kind, not for one individual.
    """

    entities: tuple[str, ...]
    entity_index: NDArray[np.int32]
    exemplar_ids: NDArray[np.int64]
    negative: NDArray[np.bool_]
    denied: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    categories: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        m = len(self.entity_index)
        columns = (self.exemplar_ids, self.negative, self.denied)
        shapes = (*(column.shape for column in columns), self.vectors.shape[:1])
        if shapes != ((m,),) * 4 or self.vectors.ndim != 2:
            raise ValueError(f"{m} views, but ids, signs and vectors have shapes {shapes}")

    def __len__(self) -> int:
        return len(self.entity_index)

    def averaged(self) -> Album:
        """One row per exemplar: the mean of its views, scaled to unit length."""
        if not len(self):
            return self
        starts = np.flatnonzero(np.diff(self.exemplar_ids, prepend=self.exemplar_ids[0] - 1))
        sums = np.add.reduceat(self.vectors, starts, axis=0)
        return Album(
            self.entities,
            self.entity_index[starts],
            self.exemplar_ids[starts],
            self.negative[starts],
            self.denied[starts],
            np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9), np.float32),
            self.categories,
        )

    @classmethod
    def empty(cls, entities: tuple[str, ...]) -> Album:
        """An album with names but no vectors."""
        return cls(
            entities,
            np.zeros(0, np.int32),
            np.zeros(0, np.int64),
            np.zeros(0, np.bool_),
            np.zeros(0, np.bool_),
            np.zeros((0, 0), np.float32),
        )


def read_album(tx: Transaction) -> tuple[pa.Table, dict[tuple[str, int], Album]]:
    """The columns of the relation `entities`, and the albums by (model_hash, exit).

    Raises:
        LibraryDamaged: the stored vectors of an exemplar do not fit its number of views or the usual length.
    """
    rows = tx.rows(_ENTITIES)
    names = tuple(row.name for row in rows)
    position = {row.entity_id: i for i, row in enumerate(rows)}
    counts = [field.name for field in ENTITIES if field.name not in ("entity", "category")]
    columns = {name: [getattr(row, name) for row in rows] for name in counts}
    told = [bool(row.category) for row in rows]
    entities = pa.table({"entity": names, "category": told, **columns}, schema=ENTITIES)
    categories = frozenset(row.name for row in rows if row.category)
    grouped: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in tx.rows(_VECTORS):
        grouped[row[0], row[1]].append(row)
    albums = {
        key: _album_of(names, categories, position, found, _vectors_of(tx, found))
        for key, found in grouped.items()
    }
    return entities, albums


def _vectors_of(tx: Transaction, rows: list[Any]) -> NDArray[np.float32]:
    """(M, dim) the views of the given rows, which are of one exit of one model."""
    _VIEWS.of(tx, ((row, row.views) for row in rows))
    sizes = Counter(len(row.vectors) / row.views for row in rows if isinstance(row.vectors, bytes))
    # Bytes per view. Which rows are damaged is a guess: those of the rarer size, or of the smaller one.
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0.0)

    def read(row: Any, held: bytes) -> NDArray[np.float32]:
        if len(held) != usual * row.views:
            raise ValueError(f"{row.views} views have {usual * row.views:g}")
        return np.frombuffer(held, np.float32).reshape(row.views, -1)

    column = Column("exemplar_vectors.vectors", read, exemplar_of, remove_it)
    return np.concatenate(column.of(tx, ((row, row.vectors) for row in rows)))


def exemplar_of(row: Any) -> str:
    """The exemplar of a row, named for people; the row has `exemplar_id` and the entity's `name`."""
    return f"the exemplar {row.exemplar_id} of {row.name!r}"


def remove_it(_: Transaction, row: Any) -> str:
    """The remedy for a damaged exemplar; row as in `exemplar_of`."""
    command = command_of("exemplars", row.name, f"--remove {row.exemplar_id}")
    return f"remove it ({command}) and register it again"


def _views(_: Any, views: Any) -> int:
    if index(views) < 1:
        raise ValueError("it is 1 or more")
    return index(views)


_VIEWS = Column("exemplar_vectors.views", _views, exemplar_of, remove_it)


def _album_of(
    names: tuple[str, ...],
    categories: frozenset[str],
    position: Mapping[int, int],
    rows: list[Any],
    vectors: NDArray[np.float32],
) -> Album:
    views = np.array([row.views for row in rows], np.int64)
    return Album(
        names,
        np.repeat(np.array([position[row.entity_id] for row in rows], np.int32), views),
        np.repeat(np.array([row.exemplar_id for row in rows], np.int64), views),
        np.repeat(np.array([row.negative for row in rows], np.bool_), views),
        np.repeat(np.array([row.denied for row in rows], np.bool_), views),
        vectors,
        categories,
    )
