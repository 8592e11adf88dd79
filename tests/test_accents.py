"""Names with accents: a Mac writes ü into names of files as u and a mark, a keyboard types one character."""

from __future__ import annotations

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
