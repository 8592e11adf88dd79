"""Names with accents: a Mac writes ü into names of files as u and a mark, a keyboard types one character."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import unicodedata

import pytest
from fakes import Thing, scene, thing_picture, write_film, write_picture

import panorama
from panorama.cameras.naming import NamePattern, folder_camera


def apart(text: str) -> str:
    found = unicodedata.normalize("NFD", text)
    assert found != text
    return found


@pytest.fixture
def library(tmp_path, fake_proposer, monkeypatch):
    """A film in a folder, both with an umlaut as a Mac writes it, and an entity of such a name."""
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "films" / apart("Süd") / apart("füchse.mp4"), [Thing("red", 5, 35)])
    with panorama.open(tmp_path / "library") as library:
        library.index("films", model="color-bands")
        library.register(apart("Füchsin"), thing_picture("red"))
        yield library


@pytest.mark.parametrize("written", [str, apart], ids=["typed", "of a Mac"])
def test_a_name_means_the_same_however_its_accents_are_written(library, written):
    """There was no video 'Süd/füchse.mp4', did you mean 'Süd/füchse.mp4'."""
    name = written("Süd/füchse.mp4")
    for sql in (
        "SELECT * FROM videos WHERE video = ?",
        "SELECT * FROM videos WHERE camera || '/füchse.mp4' = ?",
        "SELECT * FROM videos WHERE nfc_normalize(uri) LIKE '%/films/' || ?",
    ):
        assert len(library.query(sql, [name])) == 1
    assert len(library.query(written("SELECT frames WHERE entity = 'Füchsin' AND video LIKE 'Süd/%'"))) > 20
    assert len(library.query("SELECT moments WHERE entity = $name", {"name": written("Füchsin")})) == 1
    assert library.entity(written("Füchsin")).name == "Füchsin"
    assert library.why(written("Füchsin"), name, seconds=2.0).band == "accepted"
    assert library.register_from_video("new", name, 2.0, "20,40,60,70").exemplars == 1
    library.register(written("Füchsin"), unlike=thing_picture("blue"))
    library.remove_videos(name)
    assert len(library.videos()) == 0


@pytest.mark.parametrize("written", [str, apart], ids=["typed", "of a Mac"])
@pytest.mark.parametrize("lies", [str, apart], ids=["beside", "of a Mac"])
def test_a_picture_is_found_however_its_accents_are_written(library, tmp_path, lies, written):
    write_picture(tmp_path / lies("Tür.png"), thing_picture("red"))
    found = library.query(written("SELECT tracks ORDER BY similarity('Tür.png') DESC LIMIT 1"))
    assert found[0].similarity > 0.9


@pytest.mark.parametrize("written", [str, apart], ids=["typed", "of a Mac"])
def test_a_picture_of_a_folder_is_found_however_its_accents_are_written(library, tmp_path, written):
    """No picture was indexed under its own name, neither as the file has it nor as a keyboard types it."""
    for number, colour in ((1, "red"), (2, "blue")):
        write_picture(tmp_path / "trap" / apart(f"Käfer_{number:04d}.png"), scene(0, [Thing(colour, 0, 1)]))
    library.index("trap")
    name = written("Käfer_0002.png")
    for sql in (
        f"SELECT frame, picture FROM frames WHERE picture = '{name}'",
        f"SELECT frame, picture FROM frames WHERE picture LIKE '{written('Kä')}%2.png'",
        f"SELECT frames, picture WHERE NOT entity = 'Füchsin' AND picture = '{name}'",
    ):
        assert [(row.frame, row.picture) for row in library.query(sql)] == [(1, "Käfer_0002.png")]
    assert library.why("Füchsin", f"trap/{name}").track_id
    assert library.register_from_video("new", f"trap/{name}", box="20,40,60,70").exemplars == 1


def test_a_camera_is_read_from_a_path_as_keyboards_type_it():
    told = NamePattern("{camera}/%Y%m%d%H*").read(f"/a/{apart('Süd')}/2026030110-x.mp4")
    assert told is not None and told.camera == "Süd"
    assert folder_camera(f"/a/{apart('Süd')}/b.mp4", "/a", "b.mp4") == "Süd"


@pytest.mark.parametrize("written", [str, apart], ids=["typed", "of a Mac"])
@pytest.mark.parametrize("named", [str, apart], ids=["typed", "of a Mac"])
def test_a_zone_is_found_however_its_accents_are_written(library, tmp_path, named, written):
    """There was no zone 'Tür', did you mean 'Tür', also with the camera and the video of a Mac."""
    zones, whole = library.zones, [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    assert zones.add(named("Tür"), whole, camera=written("Süd")).name == "Tür"
    labelme = {"label": named("Höhe"), "shape_type": "polygon", "points": whole}
    (tmp_path / "drawn.json").write_text(json.dumps({"shapes": [labelme]}))
    zones.load(tmp_path / "drawn.json", camera=written("Süd"))
    drawn = zones.draw(tmp_path / "zones.png", camera=written("Süd"), video=written("Süd/füchse.mp4"))
    assert [zone.name for zone in drawn] == ["Höhe", "Tür"]
    assert len(library.query(written("SELECT tracks WHERE inside('Tür') AND inside('Höhe')"))) == 1
    assert len(library.query("SELECT * FROM zones WHERE zone = ?", [written("Tür")])) == 1
    assert zones.rename(written("Tür"), named("Törchen"), camera=written("Süd")) == ["Süd"]
    zones.move(written("Törchen"), "", camera=written("Süd"))
    zones.move(written("Törchen"), written("Süd"))
    assert zones.drop(written("Törchen")) == ["Süd"]


@pytest.mark.parametrize("written", [str, apart], ids=["typed", "of a Mac"])
def test_a_zone_that_is_stored_apart_is_found_and_changed(library, tmp_path, written):
    """Names were stored as typed. Of two that are one now, the one that could be asked for holds."""
    rows = [
        ("", apart("Tür"), "[[0.9, 0], [1, 0], [1, 0.1]]"),
        ("", "Tür", "[[0, 0], [1, 0], [1, 1], [0, 1]]"),
        (apart("Süd"), apart("Höhe"), "[[0, 0], [1, 0], [1, 1], [0, 1]]"),
    ]
    catalog = tmp_path / "library" / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(catalog)) as connection, connection:
        connection.executemany("INSERT INTO zones VALUES (?, ?, 'zone', ?)", rows)
    with panorama.open(tmp_path / "library") as library:
        assert [(z.camera, z.name, len(z.points_xy)) for z in library.zones] == [
            ("", "Tür", 4),
            ("Süd", "Höhe", 4),
        ]
        assert len(library.query(written("SELECT tracks WHERE inside('Tür') AND inside('Höhe')"))) == 1
        assert library.zones.rename(written("Höhe"), "Tor") == ["Süd"]
        assert library.zones.drop(written("Tür")) == [""]
        assert [(z.camera, z.name) for z in library.zones] == [("Süd", "Tor")]
