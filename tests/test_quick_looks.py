"""Beside an answer about videos of which keyframes alone were looked at it is told that it is coarse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import Ran
from fakes import Thing, coloured_things, thing_picture, write_film, write_picture

import panorama
from panorama import IngestSettings
from panorama.answering.quick_looks import SETTING, note_quick_look
from panorama.query.coarse import coarse_remark
from panorama.store import Store

Run = Callable[..., Ran]
COARSE = "indexed by keyframes alone"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[panorama.Library]:
    """Two films looked at quickly, gate/0.mp4 and gate/1.mp4, and deep.mp4 as usual; red is registered."""
    folder = tmp_path_factory.mktemp("archive")
    films = folder / "films"
    for number, name in enumerate(("gate/0.mp4", "gate/1.mp4", "deep.mp4")):
        write_film(films / name, [Thing("red", number, 25 + number)])
    write_picture(films / "red.png", thing_picture("red"))
    with coloured_things(), panorama.open(folder / "library", create=True) as made:
        made.index(films / "deep.mp4", model="color-bands")
        made.index(films, settings=IngestSettings(keyframes_only=True))
        made.register("red", thing_picture("red"))
        yield made


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT frames WHERE entity = 'red'", "2 of 3 videos searched were indexed by keyframes alone"),
        ("SELECT tracks", "2 of 3 videos searched were"),
        ("SELECT tracks WHERE NOT entity = 'red' AND video = 'gate/0.mp4'", "1 of 1 video searched was"),
        ("SELECT moments WHERE entity = 'red' AND video IN ('gate/0.mp4', 'deep.mp4')", "1 of 2 videos se"),
        ("SELECT count(*) FROM sightings WHERE video LIKE 'gate/%'", "2 of 2 videos searched were"),
        ("SELECT count(*) FROM tracks WHERE video <> 'gate/1.mp4'", "1 of 2 videos searched was"),
        ("SELECT count(*) FROM detections", "2 of 3 videos searched were"),
        ("SELECT similarity('red.png') FROM crops ORDER BY 1 LIMIT 1", "2 of 3 videos searched were"),
        ("SELECT crops WHERE similarity('red.png') > 0.1", "2 of 3 videos searched were"),
        ("SELECT count(*) FROM (SELECT frames WHERE entity = 'red') JOIN tracks USING (track_id)", "2 of 3"),
    ],
)
def test_an_answer_about_them_says_so_once(library: panorama.Library, sql: str, told: str) -> None:
    answer = library.query(sql, picture_root=library.path.parent / "films")
    (remark,) = (warning for warning in answer.warnings if COARSE in warning)
    assert remark.startswith(told) and remark.endswith(" index PATH")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT frames WHERE entity = 'red' AND video = 'deep.mp4'",
        "SELECT count(*) FROM tracks WHERE video = 'deep.mp4'",
        "SELECT frames WHERE video = 'gate/0.mp4'",
        "SELECT count(*) AS tracks FROM frames",
        "SELECT video FROM videos",
        "EXPLAIN SELECT frames WHERE entity = 'red'",
        "EXPLAIN SELECT * FROM tracks",
    ],
)
def test_an_answer_about_others_or_about_what_was_not_looked_for_does_not(
    library: panorama.Library, sql: str
) -> None:
    assert not [warning for warning in library.query(sql).warnings if COARSE in warning]


def test_parameters_are_those_of_the_statement(library: panorama.Library) -> None:
    counted = "SELECT count(*) FROM tracks WHERE video = ?"
    assert COARSE in library.query(counted, ["gate/0.mp4"]).warnings[0]
    assert library.query(counted, ["deep.mp4"]).warnings == ()
    many = library.query("SELECT count(*) FROM tracks WHERE video = ANY(?)", [["gate/0.mp4", "deep.mp4"]])
    assert len(many.warnings) == 1


def test_every_one_of_several_questions_says_so(library: panorama.Library) -> None:
    first, second = library.query_many(["SELECT tracks", "SELECT tracks WHERE video = 'deep.mp4'"])
    assert len(first.warnings) == 1 and second.warnings == ()


def test_a_copy_of_a_video_counts_as_one_more() -> None:
    (told,) = coarse_remark(np.array([1, 1, 2], np.int32), np.array([1, 7], np.int32))
    assert told.startswith("2 of 3 videos searched were")
    assert coarse_remark(np.array([2], np.int32), np.array([1], np.int32)) == ()


def test_the_command_says_so_until_they_are_looked_at_closely(run: Run, tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 25)])
    assert run("index", film, "--quick", "--model", "color-bands").status == 0
    assert run("index", film, "--quick").status == 0
    told = run("query", "SELECT tracks", "--json")
    assert told.err.count(COARSE) == 1 and "1 of 1 video searched was" in told.err and told.json
    assert run("index", film).status == 0
    assert COARSE not in run("query", "SELECT tracks").err


def test_what_is_noted_is_noted_once(library: panorama.Library) -> None:
    version = library.snapshot().settings_version
    with coloured_things():
        library.index(library.path.parent / "films", settings=IngestSettings(keyframes_only=True))
    assert library.snapshot().settings_version == version
    assert len(library.setting(SETTING)) == 1


def test_all_settings_by_which_keyframes_were_looked_at_are_known(tmp_path: Path) -> None:
    with Store.create(tmp_path / "library") as store:
        for look in ("first", "second", "first"):
            note_quick_look(store, look)
        assert store.setting(SETTING) == ["first", "second"]
