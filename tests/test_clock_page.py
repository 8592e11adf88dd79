"""The queries over many files of docs/clock.md are asked of recordings in the night when clocks go back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fakes import Thing, thing_picture, write_film

import panorama
from panorama.cameras.recording_rule import RecordingRule

PAGE = (Path(__file__).parents[1] / "docs" / "clock.md").read_text("utf-8")
VISITS, FOLLOWED = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
# Hours in UTC; in Berlin the last one is the same time of day as the first.
FILES = {
    "20261025-003000": [Thing("red", 0, 20)],
    "20261025-003002": [Thing("red", 0, 10), Thing("green", 10, 20, left=90)],
    "20261025-003014": [Thing("green", 0, 10, left=90)],
    "20261025-013001": [Thing("red", 0, 10)],
}


@pytest.fixture
def library(tmp_path: Path, fake_proposer: object) -> Iterator[panorama.Library]:
    for number, (name, things) in enumerate(FILES.items()):
        write_film(tmp_path / "gate" / f"{name}.mp4", things, frames=20 + number)
    with panorama.open(tmp_path / "library", create=True) as library:
        rule = RecordingRule("{utc:%Y%m%d-%H%M%S}", "Europe/Berlin")
        library.index(tmp_path / "gate", recording=rule, model="color-bands")
        for color in ("red", "green"):
            library.register(color, thing_picture(color))
        yield library


def asked(library: panorama.Library, sql: str) -> list[tuple[object, ...]]:
    """Rows with times of day, to the nearest second."""
    rows = library.query(sql).arrow().to_pylist()
    return [tuple(map(shown, row.values())) for row in rows]


def shown(value: object) -> object:
    nearest = value + timedelta(seconds=0.5) if isinstance(value, datetime) else value
    return nearest.strftime("%H:%M:%S") if isinstance(nearest, datetime) else nearest


def test_the_same_moment_in_utc_stands_beside_the_clock(library: panorama.Library) -> None:
    """Of two recordings with the same time of day, nothing in SQL told which came first."""
    assert asked(library, "SELECT start_utc, start_clock FROM videos ORDER BY start_utc") == [
        ("00:30:00", "02:30:00"),
        ("00:30:02", "02:30:02"),
        ("00:30:14", "02:30:14"),
        ("01:30:01", "02:30:01"),
    ]
    for relation in ("moments", "sightings"):
        spans = f"SELECT DISTINCT end_utc - start_utc = end_clock - start_clock FROM {relation}"
        assert asked(library, spans) == [(True,)]
        hours = f"SELECT DISTINCT date_diff('hour', start_utc, start_clock) FROM {relation} ORDER BY 1"
        assert asked(library, hours) == [(1,), (2,)]


def test_what_goes_on_in_the_next_file_is_one_visit(library: panorama.Library) -> None:
    """The hour that comes twice put the red one's two visits into one; its going on was an arrival."""
    assert asked(library, VISITS) == [
        ("gate", "green", "02:30:03", "02:30:15", 2),
        ("gate", "red", "02:30:00", "02:30:02", 2),
    ]
    assert asked(library, FOLLOWED) == [
        ("gate", "red", "02:30:00", "green", "02:30:03"),
        ("gate", "red", "02:30:00", "green", "02:30:14"),
    ]
