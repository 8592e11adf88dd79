"""The examples of docs/SQL.md are run, and its tables say what the code says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from query_samples import make_engine, make_library

from panorama.query.engine import Engine
from panorama.query.handed.relations import STORED_COLUMNS
from panorama.query.shorthands.plan import OUTPUT, columns_of
from panorama.store.files import schema

PAGE = (Path(__file__).parents[1] / "docs" / "SQL.md").read_text("utf-8")
EXAMPLES = [
    statement.strip()
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    for statement in re.split(r";\n", block)
    if statement.strip()
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("library")
    for name, brightness in {"a.jpg": 20, "b.jpg": 25}.items():
        (folder / name).write_bytes(bytes([brightness]))
    made, _ = make_engine(make_library(folder), folder)
    yield made
    made.close()


@pytest.mark.parametrize("sql", EXAMPLES)
def test_an_example_of_the_page_runs_and_finds_something(engine: Engine, sql: str) -> None:
    result = engine.query(sql)
    nothing_there = "BETWEEN 60 AND 90" in sql or "BEFORE entity LIKE" in sql
    assert bool(len(result)) != nothing_there


def test_the_page_has_the_examples() -> None:
    assert len(EXAMPLES) > 25


@pytest.mark.parametrize(
    "relation", ["videos", "frames", "tracks", "detections", "crops", "entities", "zones", "sightings"]
)
def test_the_page_lists_the_columns_of_the_relations(engine: Engine, relation: str) -> None:
    listed = re.search(rf"^\| `{relation}` \| ([^:|]*)", PAGE, re.MULTILINE)
    assert listed is not None
    assert listed[1].strip().split(", ") == engine.query(f"SELECT * FROM {relation}").columns


@pytest.mark.parametrize("target", sorted(OUTPUT))
def test_the_page_lists_the_columns_of_the_targets(target: str) -> None:
    listed = re.search(rf"^\| `{target}` \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert listed is not None
    assert tuple(listed[1].split(", ")) == OUTPUT[target]
    assert sorted([*listed[1].split(", "), *listed[2].split(", ")]) == sorted(columns_of(target))


def test_the_stored_tables_are_those_that_the_store_writes() -> None:
    for table, columns in STORED_COLUMNS.items():
        assert list(columns) == getattr(schema, table.upper()).names
