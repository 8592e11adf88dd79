"""Answers of users about places in videos come in, with their pictures; the places of a video go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.store.catalog.album_views import exemplar_of, remove_it
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import Column
from panorama.store.files.own_names import picture_file

# REPLACE gives a repeated answer a new row, after all others: rows are in the order of the answers.
_PUT = """
INSERT OR REPLACE INTO seen (exemplar_id, content_hash, frame, time, x1, y1, x2, y2)
SELECT :exemplar, content_hash, :frame, :time, :x1, :y1, :x2, :y2 FROM segments WHERE segment_id = :segment
"""
# Keep the order of the answers. IGNORE: answers about the new content itself have precedence.
_GO_ON = """
INSERT OR IGNORE INTO seen (exemplar_id, content_hash, frame, time, x1, y1, x2, y2)
SELECT exemplar_id, :content_hash, frame, time, x1, y1, x2, y2 FROM seen
WHERE content_hash = :continues ORDER BY rowid
"""
_ANSWERED = "SELECT exemplar_id, frame FROM seen WHERE content_hash = :before ORDER BY rowid"
_MOVE = """
INSERT OR IGNORE INTO seen (exemplar_id, content_hash, frame, time, x1, y1, x2, y2)
SELECT exemplar_id, :content_hash, :frame, :time, x1, y1, x2, y2 FROM seen
WHERE content_hash = :before AND exemplar_id = :exemplar AND frame = :was
"""
_FORGET = "DELETE FROM seen WHERE exemplar_id = :exemplar"
_OF_CONTENT = """
SELECT s.frame, s.time, s.x1, s.y1, s.x2, s.y2, s.exemplar_id, e.name, x.negative, x.picture
FROM seen s JOIN exemplars x ON x.exemplar_id = s.exemplar_id JOIN entities e ON e.entity_id = x.entity_id
WHERE s.content_hash = :content_hash ORDER BY s.time, s.exemplar_id
"""
_LIVE = """
SELECT s.frame, s.time, s.x1, s.y1, s.x2, s.y2, s.exemplar_id, e.name, g.segment_id
FROM seen s JOIN segments g ON g.content_hash = s.content_hash AND g.state = 'live'
JOIN exemplars x ON x.exemplar_id = s.exemplar_id JOIN entities e ON e.entity_id = x.entity_id
ORDER BY s.rowid, g.segment_id
"""

_MOST = 2**53
"""Integers up to this are exact in float64."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class SeenAt:
    """Where in a video the library saw what became a picture of an entity.

    Attributes:
        segment: of the crop.
        frame, seconds: in the video.
        box_xyxy: in pixels of the displayed frame.
    """

    segment: int
    frame: int
    seconds: float
    box_xyxy: Box


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An answer that a user confirmed or denied, or a place that a user cut out.

    Attributes:
        exemplar_id: of the picture made from it; two places that look the same share one.
        entity: name of the entity.
        right: whether the place shows the entity.
        frame, seconds, box_xyxy: as in `SeenAt`.
        picture: file of the picture that was made from it.
    """

    exemplar_id: int
    entity: str
    right: bool
    frame: int
    seconds: float
    box_xyxy: Box
    picture: Path


@dataclass(frozen=True, slots=True)
class MovedPicture:
    """A picture of a folder that has changed, about which there are answers.

    Attributes:
        was: its frame before.
        frame, seconds: now.
    """

    was: int
    frame: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SeenPlaces:
    """Where pictures of the album were seen in the live segments of a library; the latest answer is last.

    Attributes:
        exemplar_ids: (P,) int64, of the pictures; segments: (P,) int32.
        frames: (P,) int64; seconds: (P,) float64.
        boxes_xyxy: (P, 4) float32, in pixels of the displayed frame.
    """

    exemplar_ids: NDArray[np.int64]
    segments: NDArray[np.int32]
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    boxes_xyxy: NDArray[np.float32]

    def __post_init__(self) -> None:
        count = len(self.exemplar_ids)
        shapes = (self.segments.shape, self.frames.shape, self.seconds.shape, self.boxes_xyxy.shape)
        if shapes != ((count,),) * 3 + ((count, 4),):
            raise ValueError(f"{count} pictures, but places have shapes {shapes}")

    def __len__(self) -> int:
        return len(self.exemplar_ids)

    @classmethod
    def none(cls) -> SeenPlaces:
        """No places."""
        return _places([])

    @classmethod
    def at(cls, at: SeenAt) -> SeenPlaces:
        """One place that has no picture yet; its exemplar id is 0."""
        return _places([(0, at.segment, at.frame, at.seconds, *at.box_xyxy)])

    def of(self, exemplar_ids: NDArray[np.int64]) -> SeenPlaces:
        """The places of some pictures."""
        return self[np.isin(self.exemplar_ids, exemplar_ids)]

    def __getitem__(self, pick: NDArray[np.bool_] | NDArray[np.intp]) -> SeenPlaces:
        return SeenPlaces(
            self.exemplar_ids[pick],
            self.segments[pick],
            self.frames[pick],
            self.seconds[pick],
            self.boxes_xyxy[pick],
        )

    def as_bytes(self) -> bytes:
        """Bytes that differ if the places or the order of the answers differ."""
        columns = (self.exemplar_ids, self.segments, self.frames, self.seconds, self.boxes_xyxy)
        return b"".join(column.tobytes() for column in columns)


def _places(rows: list[tuple[float, ...]]) -> SeenPlaces:
    table = np.array(rows, np.float64).reshape(-1, 8)  # ids and frames are exact up to 2**53
    ids, segments, frames = (table[:, column].astype(np.int64) for column in range(3))
    return SeenPlaces(ids, segments.astype(np.int32), frames, table[:, 3], table[:, 4:].astype(np.float32))


def _frame(_: Any, frame: Any) -> int:
    if not 0 <= index(frame) < _MOST:
        raise ValueError("no video has such a frame")
    return index(frame)


def _number(_: Any, value: Any) -> float:
    if not isinstance(value, (int, float)) or not abs(value) < _MOST:
        raise ValueError("it is not a number that a video can have")
    return float(value)


_COLUMNS = tuple(
    Column(f"seen.{name}", _frame if name == "frame" else _number, exemplar_of, remove_it)
    for name in ("frame", "time", "x1", "y1", "x2", "y2")
)


def live_places(tx: Transaction) -> SeenPlaces:
    """The places of all entities in live segments.

    Raises:
        LibraryDamaged: a stored frame, time or box is invalid.
    """
    rows = tx.rows(_LIVE)
    read = _read(tx, rows)
    return _places([(row.exemplar_id, row.segment_id, *place) for row, place in zip(rows, read, strict=True)])


def _read(tx: Transaction, rows: Sequence[Any]) -> list[tuple[float, ...]]:
    """Frame, seconds and box of some places."""
    columns = (column.of(tx, ((row, row[i]) for row in rows)) for i, column in enumerate(_COLUMNS))
    return list(zip(*columns, strict=True))


def put(tx: Transaction, exemplar: int, at: SeenAt) -> None:
    """Note where a picture was seen; do nothing if the segment no longer exists."""
    x1, y1, x2, y2 = at.box_xyxy
    tx.run(
        _PUT,
        exemplar=exemplar,
        segment=at.segment,
        frame=at.frame,
        time=at.seconds,
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
    )


def go_on(tx: Transaction, continues: str, content_hash: str) -> None:
    """Copy the answers about a content to one that begins with it."""
    tx.run(_GO_ON, continues=continues, content_hash=content_hash)


def move(tx: Transaction, before: str, content_hash: str, moved: Sequence[MovedPicture]) -> None:
    """Copy all answers about some pictures of a content to one in which these have other numbers."""
    now = {picture.was: picture for picture in moved}
    for row in tx.rows(_ANSWERED, before=before) if now else ():  # in the order of the answers
        picture = now.get(row.frame)
        if picture is not None:
            tx.run(
                _MOVE,
                before=before,
                content_hash=content_hash,
                exemplar=row.exemplar_id,
                was=picture.was,
                frame=picture.frame,
                time=picture.seconds,
            )


def forget(tx: Transaction, exemplar: int) -> None:
    """Forget where a picture was seen."""
    tx.run(_FORGET, exemplar=exemplar)


def reviewed(tx: Transaction, root: Path, content_hash: str) -> list[Reviewed]:
    """All answers about one video's content, in order of their time in the video.

    Args:
        root: folder of the library.

    Raises:
        LibraryDamaged: as in `live_places`, or a picture's name is none of the library's own.
    """
    rows = tx.rows(_OF_CONTENT, content_hash=content_hash)
    return [
        Reviewed(
            row.exemplar_id,
            row.name,
            not row.negative,
            int(frame),
            seconds,
            (x1, y1, x2, y2),
            picture_file(root, row.picture),
        )
        for row, (frame, seconds, x1, y1, x2, y2) in zip(rows, _read(tx, rows), strict=True)
    ]
