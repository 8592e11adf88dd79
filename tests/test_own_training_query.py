"""What a query may name as pictures to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import Thing, coloured_things, thing_picture, write_film, write_picture

import panorama
from panorama.errors import QueryError, UsageError
from panorama.own_training import OwnData, fine_tune
from panorama.own_training.pictures import from_library
from panorama.training import TrainingOptions


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[panorama.Library]:
    """One film of two things, to be read only."""
    folder = tmp_path_factory.mktemp("query")
    write_film(folder / "film.mp4", [Thing("red", 0, 30), Thing("blue", 0, 30, top=70)], frames=30)
    with panorama.open(folder / "library", create=True) as made, coloured_things():
        made.index(folder / "film.mp4", model="color-bands")
        yield made


@pytest.mark.parametrize(
    ("column", "told"), [("'x'", "string"), ("1.5::DOUBLE", "double"), ("(~0::UBIGINT)", "1844674")]
)
def test_a_crop_id_that_is_no_whole_number_is_told(
    column: str, told: str, library: panorama.Library, tmp_path: Path
) -> None:
    """Text ended as a defect, and what fits no id was told as another number."""
    with pytest.raises(UsageError, match=rf"crop_id must be a column of whole numbers.*{told}"):
        from_library(library, tmp_path, f"SELECT {column} AS crop_id")


def test_rows_without_a_crop_or_an_entity_are_left_out_and_counted(
    library: panorama.Library, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """A join that matches nothing made -9223372036854775808 of NULL, and NULL alone ended as a defect."""
    told: list[str] = []
    with pytest.raises(UsageError, match="there are no crops to learn from"):
        from_library(library, tmp_path, "SELECT NULL AS crop_id", told.append)
    sql = """
        SELECT c.crop_id, if(c.crop_id = (SELECT min(crop_id) FROM crops), NULL, 'thing') AS entity
        FROM crops c UNION ALL
        SELECT d.crop_id, 'none' FROM range(2) r(i) LEFT JOIN crops d ON d.crop_id = -r.i - 1
    """
    found = from_library(library, tmp_path, sql, told.append)
    (crops,) = library.query("SELECT count(*) AS crops FROM crops").fetchall()
    assert len(found) == crops["crops"] - 1 and {picture.identity for picture in found} == {"thing"}
    assert told == [
        "left out: 1 row of --query whose crop_id is NULL",
        "left out: 2 rows of --query whose crop_id is NULL",
        "left out: 1 crop of --query whose entity is NULL or empty",
    ]
    assert not list(recwarn)


def test_a_crop_whose_entity_is_empty_is_left_out(library: panorama.Library, tmp_path: Path) -> None:
    """It became a thing without a name, and its row in the table of pictures was told to be incomplete."""
    told: list[str] = []
    sql = "SELECT crop_id, if(crop_id = (SELECT min(crop_id) FROM crops), '', 'thing') AS entity FROM crops"
    assert {picture.identity for picture in from_library(library, tmp_path, sql, told.append)} == {"thing"}
    assert told == ["left out: 1 crop of --query whose entity is NULL or empty"]


def test_a_crop_that_comes_as_two_things_is_refused(library: panorama.Library, tmp_path: Path) -> None:
    """The first row counted, so that what was learned depended on the order of the rows."""
    twice = "SELECT crop_id, 'thing ' || i AS entity, i AS score FROM crops, range(2) r(i)"
    with pytest.raises(UsageError, match=r"comes as 'thing \d' and as 'thing \d', but a picture shows one"):
        from_library(library, tmp_path, twice)
    best = f"SELECT crop_id, max_by(entity, score) AS entity FROM ({twice}) GROUP BY crop_id"
    assert {picture.identity for picture in from_library(library, tmp_path, best)} == {"thing 1"}
    same = "SELECT crop_id, if(i = 0, NULL, 'a') AS entity FROM crops, range(3) r(i)"
    assert {picture.identity for picture in from_library(library, tmp_path, same)} == {"a"}


@pytest.mark.parametrize("sql", ["FORGET ENTITY 'thing' WITH SIGHTINGS", "DROP ENTITY 'thing'"])
def test_a_statement_that_changes_entities_is_no_query_for_pictures(sql: str, tmp_path: Path) -> None:
    """It was carried out, and reported as one that lacks a column."""
    write_film(tmp_path / "film.mp4", [Thing("red", 0, 10)], frames=10)
    with panorama.open(tmp_path / "library", create=True) as own, coloured_things():
        own.index(tmp_path / "film.mp4", model="color-bands")
        own.register("thing", write_picture(tmp_path / "red.png", thing_picture("red")))
        with pytest.raises(QueryError, match="ENTITY is refused: this query may only read"):
            fine_tune(
                OwnData(query=sql),
                tmp_path / "net",
                TrainingOptions(),
                library=lambda: own,
                scratch=panorama.open,
            )
        assert [entity.name for entity in own.entities()] == ["thing"]
        assert own.query("SELECT count(*) AS crops FROM crops").fetchall()[0]["crops"] > 0
