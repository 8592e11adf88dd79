"""The engine's interface to matching: a request for entities and places comes in, scored tracks go out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.query.matching.cost import Choice
from panorama.query.shorthands.terms import Budget, Contract

REJECTED = 0
UNCERTAIN = 1
ACCEPTED = 2
BAND_NAMES = ("rejected", "uncertain", "accepted")

Image = NDArray[np.uint8]
"""One RGB picture, (H, W, 3) uint8."""

Keep = Literal["accepted", "undecided", "all"]


@dataclass(frozen=True, slots=True)
class Matches:
    """Scored pairs of entity and track, as a struct of arrays with one row per pair.

    Attributes:
        entities: names that `entity_index` points into.
        entity_index: (N,) int32.
        track_id: (N,) int64.
        score: (N,) float64 in [0, 1].
        band: (N,) uint8: REJECTED, UNCERTAIN or ACCEPTED.
        crop_id: (N,) int64, the track's crop that matched best.
        exemplar_id: (N,) int64, the exemplar that it matched.
        exit: (N,) int16, the exit that decided.
    """

    entities: tuple[str, ...]
    entity_index: NDArray[np.int32]
    track_id: NDArray[np.int64]
    score: NDArray[np.float64]
    band: NDArray[np.uint8]
    crop_id: NDArray[np.int64]
    exemplar_id: NDArray[np.int64]
    exit: NDArray[np.int16]

    def __post_init__(self) -> None:
        n = len(self.track_id)
        for name in (one.name for one in fields(self)[1:]):
            column = getattr(self, name)
            if column.shape != (n,):
                raise ValueError(f"{n} matches, but {name} has shape {column.shape}")
        if n and not (
            int(self.entity_index.min()) >= 0 and int(self.entity_index.max()) < len(self.entities)
        ):
            raise ValueError(f"entity_index points outside the {len(self.entities)} entities")

    def __len__(self) -> int:
        return len(self.track_id)

    def __getitem__(self, pick: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Matches:
        columns = {one.name: getattr(self, one.name)[pick] for one in fields(self)[1:]}
        return Matches(self.entities, **columns)

    @classmethod
    def empty(cls, entities: tuple[str, ...] = ()) -> Matches:
        """No matches."""
        return cls(
            entities,
            np.zeros(0, np.int32),
            np.zeros(0, np.int64),
            np.zeros(0, np.float64),
            np.zeros(0, np.uint8),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros(0, np.int16),
        )

    @classmethod
    def concat(cls, entities: tuple[str, ...], parts: Sequence[Matches]) -> Matches:
        """Concatenate matches whose `entity_index` points into the same names."""
        if not parts:
            return cls.empty(entities)
        names = [one.name for one in fields(cls)[1:]]
        return cls(entities, **{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})

    def to_arrow(self) -> pa.Table:
        """The matches as the table that SQL joins: entity and band as text, ids as BIGINT."""
        return pa.table(
            {
                "entity": _names(self.entities, self.entity_index),
                "track_id": pa.array(self.track_id, pa.int64()),
                "score": pa.array(self.score, pa.float64()),
                "band": _names(BAND_NAMES, self.band),
                "crop_id": pa.array(self.crop_id, pa.int64()),
                "exemplar_id": pa.array(self.exemplar_id, pa.int64()),
                "exit": pa.array(self.exit, pa.int16()),
            }
        )


def side_by_side(names: tuple[str, ...], parts: Sequence[Matches]) -> Matches:
    """Combine matches of one entity each; names without a part have no matches."""
    place = {name: number for number, name in enumerate(names)}
    indexed = []
    for part in parts:
        (name,) = part.entities
        index = np.full(len(part), place[name], np.int32)
        indexed.append(replace(part, entities=names, entity_index=index))
    return Matches.concat(names, indexed)


def _names(words: tuple[str, ...], index: NDArray[np.integer]) -> pa.Array:
    """Words picked by index, as plain text (DuckDB would compare dictionary columns as ENUM)."""
    return pa.array(words, pa.string()).take(pa.array(index.astype(np.int64), pa.int64()))


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """Which matches an answer needs.

    Attributes:
        entities: names; None for all entities of the album.
        segments: int32 ids of the only segments that matter; None for all.
        tracks: int64 ids of the only tracks that matter; None for all.
        keep: rows that must be returned: 'accepted' and 'undecided' leave out rejected rows (both return
            undecided rows, because they are counted); 'all' returns every track with its score.
        min_score: with 'all', rows below it may be left out.
        first: for a similarity, how many of the best tracks are enough; None for all.
        contract: the accuracy that the bands must keep; None for the calibration's.
        budget: the time allowed; it also records what was left undone.
        remarks: the matcher adds remarks for the user here.
    """

    entities: tuple[str, ...] | None = None
    segments: NDArray[np.int32] | None = None
    tracks: NDArray[np.int64] | None = None
    keep: Keep = "accepted"
    min_score: float | None = None
    first: int | None = None
    contract: Contract | None = None
    budget: Budget | None = None
    remarks: list[str] = field(default_factory=list)


class Matcher(Protocol):
    """Matches the album against the library's crops; the engine itself never calls a model."""

    def match(self, request: MatchRequest) -> Matches:
        """Every (entity, track) that the request needs, each pair once."""
        ...

    def prepare(self, entities: Sequence[str]) -> None:
        """Match several entities in one pass; later requests use the result."""
        ...

    def choices(self, request: MatchRequest) -> Mapping[str, Choice]:
        """How each entity of the request would be matched now, with the estimate of every way."""
        ...

    def tracks(self, track_ids: NDArray[np.int64]) -> pa.Table | None:
        """Rows of the stored table `tracks` for ids (T,), ascending; None if only its files have them."""
        ...

    def crops(self, track_ids: NDArray[np.int64], crop_ids: NDArray[np.int64]) -> pa.Table | None:
        """Id, frame and box of some crops of some tracks, both ascending; None if only files have them."""
        ...

    def followed(self, track_ids: NDArray[np.int64], most: int) -> tuple[pa.Table, pa.Table, pa.Table] | None:
        """Rows of `tracks`, `boxes` and `frames` that are needed to follow tracks (T,) through every frame.

        Tracks are ordered by id. None for more than `most` boxes or frames, or if only the files have them.
        """
        ...

    def similarity(
        self, image: Image | int, request: MatchRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Crop ids within the request, and their similarity in [0, 1] to a picture or another crop.

        Crops below `min_score`, and crops that the `first` best tracks do not need, may be missing.
        """
        ...

    def verify(self, first: Image, second: Image) -> tuple[float, int, int]:
        """Score, band and exit that say whether two pictures show the same entity."""
        ...
