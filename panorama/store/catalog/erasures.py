"""What is about to be erased with an entity comes in as a note; it goes out again after an interruption."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import Column

_NOTED = "SELECT value FROM meta WHERE key = 'forgetting ' || :entity"
_NOTE = """
INSERT INTO meta (key, value) VALUES ('forgetting ' || :entity, :going)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_DROP = "DELETE FROM meta WHERE key = 'forgetting ' || :entity"
_GOING = Column(
    "meta.value", lambda _, held: Going.decoded(json.loads(held)), "the key 'forgetting {}'".format
)


@dataclass(frozen=True, slots=True)
class Going:
    """Whose stored pictures and vectors are erased with an entity.

    Attributes:
        track_ids: (T,) int64, ascending: tracks that lose all of them.
        crop_ids: (C,) int64, ascending: single crops of other tracks.
    """

    track_ids: NDArray[np.int64]
    crop_ids: NDArray[np.int64]

    @classmethod
    def of(
        cls, track_ids: Sequence[int] | NDArray[np.int64], crop_ids: Sequence[int] | NDArray[np.int64]
    ) -> Going:
        """From ids in any order."""
        return cls(*(np.unique(np.asarray(ids, np.int64)) for ids in (track_ids, crop_ids)))

    @classmethod
    def decoded(cls, held: Any) -> Going:
        """From its JSON value; older versions noted a list of tracks."""
        return cls.of(held, []) if isinstance(held, list) else cls.of(held["tracks"], held["crops"])

    def encoded(self) -> dict[str, list[int]]:
        """As a JSON value."""
        return {"tracks": self.track_ids.tolist(), "crops": self.crop_ids.tolist()}

    def with_others(self, others: Going) -> Going:
        """These and others."""
        return Going(np.union1d(self.track_ids, others.track_ids), np.union1d(self.crop_ids, others.crop_ids))

    def __bool__(self) -> bool:
        return bool(len(self.track_ids) or len(self.crop_ids))


def noted(tx: Transaction, entity_id: int) -> Going:
    """What an interrupted erasure of an entity was to erase; nothing without one."""
    held = tx.scalar(_NOTED, entity=entity_id)
    return Going.of([], []) if held is None else _GOING.one(tx, entity_id, held)


def note(tx: Transaction, entity_id: int, going: Going) -> None:
    """Note what is about to be erased with an entity, in place of an earlier note."""
    tx.run(_NOTE, entity=entity_id, going=json.dumps(going.encoded()))


def drop(tx: Transaction, entity_id: int) -> None:
    """Delete the note of an entity, if there is one."""
    tx.run(_DROP, entity=entity_id)
