"""An entity's matches over a whole library come in; bytes that a later query can reuse go out, and back."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.kinship import SceneBests
from panorama.query.matching.matches import Matches

_COLUMNS = tuple(one.name for one in fields(Matches) if one.name not in ("entities", "entity_index"))
_SCENES = tuple(one.name for one in fields(SceneBests))


@dataclass(frozen=True, slots=True)
class Whole:
    """All tracks of one entity in the whole library that are not rejected.

    Attributes:
        matches: of the one entity.
        best: its best value at every exit used, see `Cascade.best`.
        scenes: its references in each scene.
    """

    matches: Matches
    best: Mapping[int, float]
    scenes: SceneBests = field(default_factory=SceneBests.none)


@dataclass(frozen=True, slots=True)
class Recalled:
    """An earlier Whole.

    Attributes:
        whole: the result.
        added: (S,) int32 segments added to the library since, which it does not cover.
    """

    whole: Whole
    added: NDArray[np.int32]


class Sightings(Protocol):
    """Keeps Wholes from one query to the next, also across processes."""

    def recall(self, name: str) -> Recalled | None:
        """The known result of an entity; None if there is none, or if more changed than additions."""
        ...

    def keep(self, name: str, whole: Whole) -> None:
        """Remember the matches of an entity over the whole library as it is now."""
        ...


class NoSightings:
    """Remembers nothing."""

    def recall(self, name: str) -> Recalled | None:
        return None

    def keep(self, name: str, whole: Whole) -> None:
        return


def encode(whole: Whole, segments: NDArray[np.int32], rows: NDArray[np.int64]) -> bytes:
    """Encode a Whole without the entity's name.

    Args:
        segments: (S,) that it was found in.
        rows: (S, C) their state at that time.
    """
    best = np.array(sorted(whole.best.items()), np.float64).reshape(-1, 2)
    columns: dict[str, NDArray] = {"segments": segments, "rows": rows, "best": best}
    columns |= {name: getattr(whole.matches, name) for name in _COLUMNS}
    columns |= {f"scene_{name}": getattr(whole.scenes, name) for name in _SCENES}
    head = json.dumps([[name, column.dtype.str, column.shape] for name, column in columns.items()]).encode()
    parts = [np.ascontiguousarray(column).tobytes() for column in columns.values()]
    # Consecutive ids compress well at any level, and level 1 is fast.
    return zlib.compress(b"".join([struct.pack("<I", len(head)), head, *parts]), level=1)


def decode(name: str, value: bytes) -> tuple[Whole, NDArray[np.int32], NDArray[np.int64]]:
    """Decode the arguments of `encode`.

    Raises:
        ValueError: the bytes are something else.
    """
    try:
        raw = zlib.decompress(value)
        (length,) = struct.unpack_from("<I", raw)
        found: dict[str, NDArray] = {}
        at = 4 + length
        for column, kind, shape in json.loads(raw[4:at]):
            count = math.prod(shape)
            found[column] = np.frombuffer(raw, np.dtype(kind), count, at).reshape(shape)
            at += found[column].nbytes
        columns = {column: found[column] for column in _COLUMNS}
        index = np.zeros(len(columns["track_id"]), np.int32)
        best = {int(exit): float(top) for exit, top in found["best"]}
        scenes = SceneBests(*(found[f"scene_{name}"] for name in _SCENES))
        return Whole(Matches((name,), index, **columns), best, scenes), found["segments"], found["rows"]
    except (zlib.error, struct.error, KeyError, TypeError) as exc:
        raise ValueError(f"no cached sightings: {exc}") from exc
