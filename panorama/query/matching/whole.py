"""An entity's matches over a whole library enter; bytes that a later query can take up leave, and back."""

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
    """What the bands do not reject of one entity, over the whole library.

    Attributes:
        matches: of the one entity.
        best: its best value at every exit that was looked at, as `Cascade.best`.
        scenes: what its tracks are in each scene.
    """

    matches: Matches
    best: Mapping[int, float]
    scenes: SceneBests = field(default_factory=SceneBests.none)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A Whole of before.

    Attributes:
        added: (S,) int32 segments that have come to the library since; it holds nothing of them.
    """

    whole: Whole
    added: NDArray[np.int32]


class Sightings(Protocol):
    """Keeps Wholes from one query, and from one process, to the next."""

    def recall(self, name: str) -> Recalled | None:
        """What is known of an entity; None where nothing is, or more has changed than an addition."""
        ...

    def keep(self, name: str, whole: Whole) -> None:
        """Remember the matches of an entity over everything that there is now."""
        ...


class NoSightings:
    """Remembers nothing."""

    def recall(self, name: str) -> Recalled | None:
        return None

    def keep(self, name: str, whole: Whole) -> None:
        return


def encode(whole: Whole, segments: NDArray[np.int32], rows: NDArray[np.int64]) -> bytes:
    """A Whole and the segments (S,) that it was found in, with what they were (S, C); names no entity."""
    best = np.array(sorted(whole.best.items()), np.float64).reshape(-1, 2)
    columns: dict[str, NDArray] = {"segments": segments, "rows": rows, "best": best}
    columns |= {name: getattr(whole.matches, name) for name in _COLUMNS}
    columns |= {f"scene_{name}": getattr(whole.scenes, name) for name in _SCENES}
    head = json.dumps([[name, column.dtype.str, column.shape] for name, column in columns.items()]).encode()
    parts = [np.ascontiguousarray(column).tobytes() for column in columns.values()]
    # Segments and crops in a row shrink to little at any level; the first is quick.
    return zlib.compress(b"".join([struct.pack("<I", len(head)), head, *parts]), level=1)


def decode(name: str, value: bytes) -> tuple[Whole, NDArray[np.int32], NDArray[np.int64]]:
    """What `encode` took.

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
