"""What somebody said of a place in a video enters, with the picture it became; a video's places leave."""

from __future__ import annotations

from dataclasses import dataclass

from panorama.store.catalog import Transaction

_PUT = """
INSERT INTO seen (exemplar_id, content_hash, frame, time, x1, y1, x2, y2)
SELECT :exemplar, content_hash, :frame, :time, :x1, :y1, :x2, :y2 FROM segments WHERE segment_id = :segment
ON CONFLICT (exemplar_id, content_hash, frame) DO UPDATE SET
    x1 = excluded.x1, y1 = excluded.y1, x2 = excluded.x2, y2 = excluded.y2
"""
_OF_CONTENT = """
SELECT s.exemplar_id, e.name, x.negative, s.frame, s.time, s.x1, s.y1, s.x2, s.y2
FROM seen s JOIN exemplars x ON x.exemplar_id = s.exemplar_id JOIN entities e ON e.entity_id = x.entity_id
WHERE s.content_hash = :content_hash ORDER BY s.time, s.exemplar_id
"""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class SeenAt:
    """Where the library saw what became a picture of an entity.

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
    """An answer that somebody said yes or no to, or a place that somebody cut out.

    Attributes:
        exemplar_id: of the picture that it became; two places that look the same share one.
        right: whether it is the entity.
        frame, seconds, box_xyxy: as in `SeenAt`.
    """

    exemplar_id: int
    entity: str
    right: bool
    frame: int
    seconds: float
    box_xyxy: Box


def put(tx: Transaction, exemplar: int, at: SeenAt) -> None:
    """Note where a picture was seen; nothing of a segment that is gone by now."""
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


def reviewed(tx: Transaction, content_hash: str) -> list[Reviewed]:
    """All that was said of one video's content, in order of time."""
    return [
        Reviewed(
            row.exemplar_id,
            row.name,
            not row.negative,
            row.frame,
            row.time,
            (row.x1, row.y1, row.x2, row.y2),
        )
        for row in tx.rows(_OF_CONTENT, content_hash=content_hash)
    ]
