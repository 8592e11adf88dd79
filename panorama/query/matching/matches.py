"""What the query engine asks of matching: a request of entities and places enters, scored tracks leave."""

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
        crop_id: (N,) int64, the crop of the track that matched best.
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
        """No match."""
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
        """Matches whose `entity_index` points into the same names, one after the other."""
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
    """Matches of one entity each as those of several; a name that has no part has no match."""
    place = {name: number for number, name in enumerate(names)}
    indexed = []
    for part in parts:
        (name,) = part.entities
        index = np.full(len(part), place[name], np.int32)
        indexed.append(replace(part, entities=names, entity_index=index))
    return Matches.concat(names, indexed)


def _names(words: tuple[str, ...], index: NDArray[np.integer]) -> pa.Array:
    """Words picked by index, as plain text (dictionary columns would compare as ENUM in DuckDB)."""
    return pa.array(words, pa.string()).take(pa.array(index.astype(np.int64), pa.int64()))


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """Which matches an answer needs.

    Attributes:
        entities: names, None for all entities of the album.
        segments: int32 ids outside which no track matters, None for no restriction.
        tracks: int64 ids outside which no track matters, None for no restriction.
        keep: rows that must be returned: 'accepted' and 'undecided' leave out rejected rows (undecided rows
            are returned with either, because they are counted), 'all' returns every track with its score.
        min_score: with 'all', rows below it may be left out.
        first: of a similarity, how many of the best tracks are enough; all where None.
        contract: the accuracy that the bands must keep, None for that of the calibration.
        budget: how long it may take; it is told what was left undone.
        remarks: filled by the matcher with what the asker should know.
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
    """Matches the album against the library's crops; the engine never calls a model itself."""

    def match(self, request: MatchRequest) -> Matches:
        """Every (entity, track) that the request needs, each pair once."""
        ...

    def prepare(self, entities: Sequence[str]) -> None:
        """Do what matching several entities takes in one pass; later requests find it done."""
        ...

    def choices(self, request: MatchRequest) -> Mapping[str, Choice]:
        """How each entity of the request would be matched now, and what every way is estimated to take."""
        ...

    def tracks(self, track_ids: NDArray[np.int64]) -> pa.Table | None:
        """Rows of the stored table `tracks`, for ids (T,), ascending; None where only its files know them."""
        ...

    def crops(self, track_ids: NDArray[np.int64], crop_ids: NDArray[np.int64]) -> pa.Table | None:
        """Id, frame and box of crops of some tracks, both ascending; None where only the files know them."""
        ...

    def followed(self, track_ids: NDArray[np.int64], most: int) -> tuple[pa.Table, pa.Table, pa.Table] | None:
        """Rows of `tracks`, `boxes` and `frames` that following tracks (T,) through every frame takes.

        Tracks are in order of id. None for more than `most` boxes or frames, and where only the files know
        them.
        """
        ...

    def similarity(
        self, image: Image | int, request: MatchRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Crop ids and their similarity in [0, 1] to a picture or to another crop, within the request.

        Crops below `min_score`, and those that the `first` best tracks do not need, may be missing.
        """
        ...

    def verify(self, first: Image, second: Image) -> tuple[float, int, int]:
        """Whether two pictures show the same entity: score, band, exit."""
        ...
