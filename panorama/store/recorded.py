"""When and by which camera videos were recorded: changes of the rows of `videos` enter, a count leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from panorama.store.catalog import Transaction

_ROWS = """
SELECT name, uri, root, camera, start_time_unix, time_zone, time_from FROM videos ORDER BY name
"""
_SET = """
UPDATE videos SET camera = :camera, start_time_unix = :unix, time_zone = :zone, time_from = :source
WHERE name = :name
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """When and by which camera one video was recorded.

    Attributes:
        camera: its name, '' where unknown.
        start_time_unix: of the first frame, None where unknown.
        time_zone: IANA name of the zone of the camera's wall clock.
        time_from: where the time was taken from; all three are None together.
    """

    camera: str = ""
    start_time_unix: float | None = None
    time_zone: str | None = None
    time_from: str | None = None

    def __post_init__(self) -> None:
        times = (self.start_time_unix, self.time_zone, self.time_from)
        if None in times and times != (None, None, None):
            raise ValueError(f"a time has a zone and a source, got {times}")


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """What the library holds of one video's recording; `uri` and `root` as in VideoRow."""

    name: str
    uri: str
    root: str
    recorded: Recorded


def read(tx: Transaction) -> list[RecordedRow]:
    """All videos, in order of name."""
    return [
        RecordedRow(row.name, row.uri, row.root, Recorded(row.camera, *_times(row))) for row in tx.rows(_ROWS)
    ]


def _times(row: object) -> tuple[float | None, str | None, str | None]:
    unix, zone, source = (getattr(row, name) for name in ("start_time_unix", "time_zone", "time_from"))
    # A catalog from before zones were stored says only when.
    return (None, None, None) if unix is None else (float(unix), zone or "UTC", source or "unknown")


def put(tx: Transaction, known: Sequence[RecordedRow], changes: Mapping[str, Recorded]) -> int:
    """Store what is new for videos by name; how many rows were changed."""
    before = {row.name: row.recorded for row in known}
    rows = [
        {
            "name": name,
            "camera": now.camera,
            "unix": now.start_time_unix,
            "zone": now.time_zone,
            "source": now.time_from,
        }
        for name, now in changes.items()
        if name in before and before[name] != now
    ]
    tx.run_many(_SET, rows)
    if rows:
        tx.bump("data")
    return len(rows)
