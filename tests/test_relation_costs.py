"""What the relations of plain SQL read and join, told by DuckDB's plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clips import write_taken
from conftest import Ran
from fakes import Thing, scene, write_film

import panorama
from panorama.query.handed.relations import Limits, connect

RELATIONS = ("tracks", "detections", "crops", "frames")


def operators(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in (*node.get("children", []), *node.get("operator", [])):
        yield from operators(below)


def plan(library: Path, sql: str) -> list[dict[str, Any]]:
    """The executed operators of a statement."""
    with panorama.open(library) as opened, connect(opened.snapshot(), Limits()) as connection:
        ((_, text),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}").fetchall()
    return list(operators(json.loads(text)))


def told(operator: dict[str, Any], field: str) -> str:
    return str(operator.get("extra_info", {}).get(field, ""))


@pytest.fixture
def library(run: Callable[..., Ran], tmp_path: Path) -> Path:
    """A film."""
    write_film(tmp_path / "v" / "film.mp4", [Thing("red", 5, 35)])
    run("index", "v", "--model", "color-bands", "--time-from", "metadata", "--timezone", "UTC")
    run("clock", "film.mp4", "--at", "2026-03-01 10:00:00", "--timezone", "UTC")
    return tmp_path / "panorama-library"


@pytest.fixture
def with_pictures(library: Path, run: Callable[..., Ran], tmp_path: Path) -> Path:
    """A film and a folder of two pictures."""
    for number in (1, 2):
        shown = scene(0, [Thing("red", 0, 1)])
        picture = tmp_path / "v" / "trap" / f"IMG_000{number}.png"
        write_taken(picture, f"2026:03:02 10:00:0{number}", picture=shown)
    run("index", "v")
    return library


@pytest.mark.parametrize("relation", RELATIONS)
def test_films_are_not_joined_with_the_times_of_pictures(relation: str, with_pictures: Path) -> None:
    """One folder of pictures made it three times the work to count what is in the films of a library."""
    with panorama.open(with_pictures) as opened:
        counts = f"SELECT video, count(*), count(DISTINCT clock) FROM {relation} GROUP BY ALL ORDER BY ALL"
        if relation == "tracks":
            counts = counts.replace("clock", "start_clock")
        (film, frames, times), (trap, pictures, times_there) = opened.query(counts).fetchall()
    assert (film, trap) == ("film.mp4", "trap") and frames > 0 and times > 0
    assert 1 <= times_there <= 2
    joins = [one for one in plan(with_pictures, f"FROM {relation}") if "_key" in told(one, "Conditions")]
    assert joins and {one["intermediate_rows"] for one in joins} == {pictures}


@pytest.mark.parametrize("relation", ["tracks", "detections", "crops"])
def test_counting_reads_no_times_where_no_picture_has_one(relation: str, library: Path) -> None:
    """A join with an empty table was left out of the plan, but the instants that it compared were read."""
    found = plan(library, f"SELECT video, count(*) FROM {relation} GROUP BY ALL")
    (read,) = [one for one in found if told(one, "Function")]
    assert told(read, "Projections") == "segment"
